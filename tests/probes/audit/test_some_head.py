"""Who "some head" may be, what is said where more fit than were audited, and heads that rest on the first token."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import probes
from interp.config import TransformerConfig
from interp.model import SandboxTransformer
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.bench.trained import VOCABULARY, Frozen, FrozenModel
from probes.audit.labels import LabelledInput
from probes.audit.looks import with_left
from probes.audit.model import Outcome, Subject
from probes.audit.rows import Evidence, Finding
from probes.claims import BUILT_IN, Claim

audit_claim = partial(probes.audit_claim, task_check=False, untrained=False)
PREVIOUS = BUILT_IN["previous"]
USES = "some head uses the previous token to predict the label"
NOT_USED = 0.97  # of the weight: decoys look sharper than the head that is used


def reader(masses, used):
    """Heads with so much of their weight on the previous token; one tells its sign to the two labels."""
    heads = len(masses)
    config = TransformerConfig(
        len(VOCABULARY.names), n_layers=1, n_heads=heads, d_model=8, d_head=2, mlp_depth=0, positions="learned",
        n_ctx=16, d_vocab_out=2, norm="none", scale_scores=False,
    )  # fmt: skip
    model = FrozenModel(config, VOCABULARY, {(0, head): Frozen(PREVIOUS, mass) for head, mass in enumerate(masses)})
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        model.embed.W_E[:12, 0] = torch.where(torch.arange(12) < 6, 1.0, -1.0)
        attention = model.blocks[0].attn
        attention.W_V[:, 0, 0] = 1.0
        attention.W_O[used, 0, 2] = 1.0
        model.unembed.W_U[2] = torch.tensor([5.0, -5.0])
    return model


def told(count=240):
    tokens = np.random.default_rng(0).integers(0, 12, (count, 9))
    names = VOCABULARY.names
    return [LabelledInput(["[CLS]", *(names[i] for i in row)], int(row[-2] >= 6)) for row in tokens]


INPUTS = told()


@pytest.mark.parametrize("decoys", [3, 5])
def test_a_head_that_is_used_is_found_behind_sharper_ones_that_are_not(decoys):
    result = audit_claim(reader([NOT_USED] * decoys + [0.7], decoys), USES, INPUTS)
    assert (result.verdict, result.heads) == ("supported", ((0, decoys),)), result.reason


def test_with_more_heads_left_nothing_is_said_against_the_claim(monkeypatch):
    monkeypatch.setattr(t, "MOST_FITTING", 5)
    result = audit_claim(reader([NOT_USED] * 6 + [0.7], 6), USES, INPUTS)
    assert (result.pattern, result.use, result.verdict) == ("holds", "undecided", "undecided")
    assert "2 more heads, beyond the 5 that were audited, score at least 0.25 on the other half" in result.reason
    assert [row["says"] for row in result.evidence if row["decides"]]
    assert {row["says"] for row in result.evidence if row["decides"]} == {"open"}


def test_where_all_that_fit_were_audited_and_none_is_used_the_claim_is_misleading(monkeypatch):
    """Others are there that do not fit, and one of them is used."""
    monkeypatch.setattr(t, "MOST_FITTING", 5)
    result = audit_claim(reader([NOT_USED] * 5 + [0.1] * 2, 5), USES, INPUTS)
    assert result.verdict == "misleading", result.reason
    assert "more head" not in result.reason


def test_a_named_head_is_audited_alone():
    result = audit_claim(reader([NOT_USED] * 6 + [0.7], 6), "L0H0 uses the previous token to predict the label", INPUTS)
    assert result.verdict == "misleading"


# -- choosing -----------------------------------------------------------------------------------------------


def chosen(scores, claim, count=1):
    """How many sets of heads of these scores in half A are audited, and how many are left."""
    heads = {
        (0, head): SimpleNamespace(score_on_a=lambda asked, score=score: score) for head, score in enumerate(scores)
    }
    found = Subject.choose(SimpleNamespace(heads=heads), SimpleNamespace(claim=claim), count, None)
    return len(found.heads), found.left


PLAIN, MAINLY = Claim([], PREVIOUS), Claim([], PREVIOUS, mainly=True)


@pytest.mark.parametrize(
    ("scores", "claim", "expected"),
    [
        ([0.0] * 9, PLAIN, (1, 0)),
        ([0.25] * 3 + [0.24] * 9, PLAIN, (3, 0)),
        ([0.25] * 9, PLAIN, (9, 0)),
        ([0.25] * 16, PLAIN, (16, 0)),
        ([0.25] * 19 + [0.2], PLAIN, (16, 3)),
        ([0.49] * 9, MAINLY, (4, 0)),  # beyond the first, only what scores as it is said to
        ([0.5] * 9, MAINLY, (9, 0)),
        ([0.9] * 9, Claim([], BUILT_IN["all"]), (9, 0)),
        ([0.7] * 9, Claim([], BUILT_IN["all"]), (4, 0)),
    ],
)
def test_heads_that_score_what_the_claim_asks_for_are_all_candidates_up_to_a_number(scores, claim, expected):
    assert chosen(scores, claim) == expected


def test_of_several_heads_together_one_set_is_tried():
    assert chosen([0.9] * 20, PLAIN, count=2) == (1, 0)


def outcome(pattern, use, verdict):
    def row(group, finding):
        return Evidence(group, "score", "score", Estimate(0.1, 0.0, 0.2, 9, "inputs"), ">=", 0.2, False, finding, True)

    findings = (Finding(word, f"{word}.", (row(g, word),), word) for g, word in (("pattern", pattern), ("use", use)))
    return Outcome(((0, 0),), *findings, verdict, 0.95)


@pytest.mark.parametrize("left", [1, 3])
@pytest.mark.parametrize(
    ("found", "uses", "pattern", "use", "verdict"),
    [
        (("fails", "not asked", "refuted"), None, "undecided", "not asked", "undecided"),
        (("fails", "unused", "refuted"), "task", "undecided", "unused", "undecided"),
        (("holds", "unused", "misleading"), "task", "holds", "undecided", "undecided"),
        (("holds", "unused", "supported"), None, "holds", "unused", "supported"),
        (("undecided", "not asked", "undecided"), None, "undecided", "not asked", "undecided"),
    ],
)
def test_what_speaks_against_a_claim_does_so_only_if_no_head_is_left(found, uses, pattern, use, verdict, left):
    best, claim = outcome(*found), Claim([], PREVIOUS, uses=uses)
    assert with_left(best, claim, 0) is best
    said = with_left(best, claim, left)
    assert (said.pattern.word, said.use.word, said.verdict) == (pattern, use, verdict)
    if best.verdict == verdict:
        assert said is best
        return
    because = said.use.because if pattern == "holds" else said.pattern.because
    number = "1 more head, beyond the 16 that were audited, scores" if left == 1 else "3 more heads, beyond the 16"
    assert number in because
    assert {row.finding for f in (said.pattern, said.use) for row in f.evidence if row.decides} == {"undecided"}


def test_the_numbers_of_candidates():
    assert t.SOME_HEADS < t.MOST_FITTING


# -- the first token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mass", "relation", "apart", "rests"),
    [
        (0.45, "previous", True, True),
        (0.6, "previous", True, False),
        (0.6, "first", False, False),
    ],
)
def test_a_reason_says_that_the_first_token_was_left_out_and_that_most_rests_there(mass, relation, apart, rests):
    claim = f"L0H0 attends to {BUILT_IN[relation].words}"
    reason = audit_claim(reader([mass], 0), claim, INPUTS).reason.split(". ")[0]
    assert ("(the first token apart)" in reason) == apart, reason
    assert (", with more weight, 0.5" in reason) == rests


def test_equal_weights_are_no_more_weight_on_the_first_token_and_evenness_has_no_uniform_null():
    """A uniform head puts as much on the first token as on any key; where the claim is uniform it is no null."""
    model = SandboxTransformer(reader([0.0], 0).config, VOCABULARY)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    even = audit_claim(model, f"L0H0 attends to {BUILT_IN['previous'].words}", INPUTS)
    assert "with more weight" not in even.reason
    nulls = {row["name"]: row["null"] for row in even.to_dict()["evidence"]}
    assert nulls["score"]["uniform"] == 0.0
    all_of_it = audit_claim(model, "L0H0 attends uniformly", INPUTS)
    assert {row["name"]: row["null"] for row in all_of_it.to_dict()["evidence"]}["score"].get("uniform") is None
    assert "a uniform head" not in all_of_it.summary()
