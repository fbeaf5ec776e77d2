"""Audits of heads whose truth is known: made by hand, constructed, and trained."""

import copy
import gc
import json
import math
import re
import weakref
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import probes
from closeness import assert_close
from interp import load_checkpoint
from interp.claims.register import questions
from interp.cli import main
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError, RequestError
from interp.grammars import CopyGrammar, DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population
from interp.stats import Estimate, clopper_pearson
from interp.worlds.dyck.claims import Closers, Copies
from probes.audit import thresholds as limits
from probes.audit.edits import Edges, _Editing, is_pattern_times_values, reaches_output, run
from probes.audit.effects import Effects
from probes.audit.exchanges import interchange
from probes.audit.inputs import Inputs, make_inputs
from probes.audit.labels import LabelledInput, labelled
from probes.audit.model import Nulls, Subject
from probes.audit.pattern import Head, Laid, matched_lift
from probes.audit.population import binomial
from probes.audit.rivals import rivals_of
from probes.audit.side import Side
from probes.audit.use import Used
from probes.audit.verdicts import verdict_of
from probes.claims import BUILT_IN, TASKS, Claim, Relation, offset
from toys import EVEN, GRAMMAR, STACK, TOP, TYPE, Toy, clip, either, mixed, onto

# Most models here are untrained or made by hand: whether they close brackets is not the question.
audit_claim, audit_claims, scan_heads = (
    partial(run_audit, task_check=False) for run_audit in (probes.audit_claim, probes.audit_claims, probes.scan_heads)
)

WHEN = STACK + " when the current token is a closing bracket"


def repaired(tokens, read):
    """A later head that looks at the stack top where the first head's answer is not the right one."""
    top = GRAMMAR.stack_top(tokens)
    right = np.array(TYPE)[np.take_along_axis(tokens, np.maximum(top, 0), 1)]
    wrong = (top >= 0) & (read[..., 0] * right < 0.5)
    return np.where(wrong[..., None], TOP(tokens), onto("first")(tokens))


FAMILIES = {
    # true
    "solo": ([[(TOP, TYPE)]], lambda a: clip(a[..., 0]), STACK, "holds used supported"),
    "solo, asked for use": (
        [[(TOP, TYPE)]], lambda a: a[..., 0],
        "L0H0 uses the last unmatched open bracket to predict closing brackets", "holds used supported",
    ),
    "a negative value circuit": ([[(TOP, [-x for x in TYPE])]], lambda a: -a[..., 0], STACK, "holds used supported"),
    "a strong sink": (
        [[(mixed(0.4, TOP, onto("start")), TYPE)]], lambda a: clip(3 * a[..., 0]), STACK, "holds used supported",
    ),
    "a strong sink, mainly": (
        [[(mixed(0.4, TOP, onto("start")), TYPE)]], lambda a: clip(3 * a[..., 0]),
        STACK.replace("attends", "mainly attends"), "fails not asked refuted",
    ),
    "redundant, three of a kind": ([[(TOP, TYPE)] * 3], lambda a: clip(a.sum(-1)), STACK, "holds redundant supported"),
    "a backup": (
        [[(TOP, TYPE), (TOP, TYPE)]], lambda a: torch.where(a[..., 1].abs() > 0.5, a[..., 1], a[..., 0]),
        STACK, "holds redundant supported",
    ),
    "half the information each": (
        [[(TOP, TYPE)] * 2], lambda a: a.sum(-1) / 2,
        "L0H0 and L0H1 attend to the last unmatched open bracket", "holds used supported",
    ),
    "under a condition": (
        [[(either(lambda t: t % 2 == 1, TOP, EVEN), TYPE)]], lambda a: clip(a[..., 0]), WHEN, "holds used supported",
    ),
    "self-repaired": (
        [[(TOP, TYPE)], [(repaired, [2 * x for x in TYPE])]], lambda a: clip(a.sum(-1)), STACK,
        "holds redundant supported",
    ),
    "self-repaired in part": (
        [[(TOP, TYPE)], [(repaired, [1.86 * x for x in TYPE])]], lambda a: clip(a.sum(-1)), STACK,
        "holds used supported",
    ),
    # decoys
    "writes nothing": ([[(TOP, TYPE)] * 2], lambda a: a[..., 1], STACK, "holds unused supported"),
    "constant output": ([[(TOP, TYPE)]], lambda a: 0 * a[..., 0], STACK, "holds unused supported"),
    "writes nothing, nor does any other": (
        [[(TOP, TYPE), (onto("current"), (0, 3, 0, 5, 0, 0, 0))]], lambda a: a[..., 1],
        STACK, "holds unused supported",
    ),
    "read by nobody": ([[(TOP, TYPE)] * 2], lambda a: a[..., 1], STACK, "holds unused supported"),
    # false
    "uniform": ([[(EVEN, TYPE)]], lambda a: clip(9 * a[..., 0]), STACK, "fails not asked refuted"),
    "slightly tilted": ([[(mixed(0.15, TOP, EVEN), TYPE)]], lambda a: a[..., 0], STACK, "fails not asked refuted"),
    "right in half the rows": (
        [[(either(lambda t: np.arange(t.shape[1]) % 2 == 0 * t, TOP, EVEN), TYPE)]], lambda a: a[..., 0],
        STACK, "fails not asked refuted",
    ),
    "drifts with length": (
        [[(either(lambda t: np.arange(t.shape[1]) < 13 + 0 * t, TOP, EVEN), TYPE)]], lambda a: a[..., 0],
        STACK, "fails not asked refuted",
    ),
    "another head": ([[(EVEN, TYPE), (TOP, TYPE)]], lambda a: a[..., 1], STACK, "fails not asked refuted"),
    **{
        f"rival: {name}": ([[(onto(name), TYPE)]], lambda a: clip(9 * a[..., 0]), STACK, "fails not asked refuted")
        for name in ("unmatched", "same-depth", "same-depth-openers", "partner", "previous", "last-opener", "openers")
    },
    # undecidable by design
    "never applies": (
        [[(TOP, TYPE)]], lambda a: a[..., 0], "L0H0 attends to the next token", "undecided not asked undecided",
    ),
    "identical to a rival": (
        [[(TOP, TYPE)]], lambda a: a[..., 0], STACK + " when the current token is an open bracket",
        "undecided not asked undecided",
    ),
    # the pairs change nothing at the first token, but neither does all that the head gives
    "the first token": (
        [[(onto("first"), TYPE), (TOP, TYPE)]], lambda a: a[..., 1], "L0H0 attends to the first token",
        "holds unused supported",
    ),
    "used, the first token": (
        [[(onto("first"), TYPE), (TOP, TYPE)]], lambda a: a[..., 1],
        "L0H0 uses the first token to predict closing brackets", "holds unused misleading",
    ),
}  # fmt: skip


def words(result):
    return f"{result.pattern} {result.use} {result.verdict}"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_families_whose_truth_is_made_by_hand(family):
    layers, answer, claim, expected = FAMILIES[family]
    gains = [[0.0, 1.0]] if family.startswith("writes nothing") else None
    result = audit_claim(Toy(layers, answer, gains), claim, num_inputs=240, length=20)
    assert words(result) == expected, result.reason


@pytest.mark.slow
def test_a_head_used_for_another_task_is_not_used_for_this_one():
    def extra(logits, read):
        return torch.cat([logits[..., :5], logits[..., 5:] + read[..., :1]], -1)

    result = audit_claim(Toy([[(TOP, TYPE)] * 2], lambda a: a[..., 1], extra=extra), STACK)
    assert words(result) == "holds unused supported"


@pytest.mark.parametrize(
    "phrase",
    ["the previous token", "START", "the current token", "closing brackets", "all unmatched open brackets",
     "open brackets at the same depth", "all visible tokens evenly", "open brackets", "the matching open bracket",
     "brackets of the same type", "tokens at the same depth", "earlier copies of the current token",
     "the token after an earlier copy of the current token", "the most recent open bracket", "position 4",
     "the token 3 positions before", "brackets of type 1"],
)  # fmt: skip
@pytest.mark.slow
def test_a_perfect_head_of_any_relation_is_never_refuted(phrase):
    relation = Claim.parse(f"L0H0 attends to {phrase}").relation
    result = audit_claim(Toy([[(onto(relation), TYPE)]], lambda a: a[..., 0]), f"L0H0 attends to {phrase}")
    assert result.pattern == "holds", result.reason
    assert evidence(result, "score")["value"] == pytest.approx(1)


def evidence(result, name):
    return next(row for row in result.evidence if row["name"] == name)


def test_a_perfect_head_scores_one_and_a_uniform_one_zero():
    for attends, score in ((TOP, 1.0), (EVEN, 0.0)):
        result = audit_claim(Toy([[(attends, TYPE)]], lambda a: a[..., 0]), STACK)
        assert evidence(result, "score")["value"] == pytest.approx(score, abs=0.01)  # absolute: 1 is perfect


@pytest.mark.slow
def test_a_claim_that_is_right_of_some_rows_gets_a_condition():
    layers = [[(either(lambda t: t % 2 == 1, TOP, mixed(0.45, TOP, onto("previous"))), TYPE)]]
    result = audit_claim(Toy(layers, lambda a: a[..., 0]), STACK)
    assert result.pattern == "fails"
    condition = "the current token is a closing bracket"
    assert re.search(
        rf"it would fit in 100 % of those where {condition} \(n=\d+ rows of the other half\)", result.reason
    )
    followed = audit_claim(Toy(layers, lambda a: a[..., 0]), f"{STACK} when {condition}")
    assert followed.pattern == "holds"
    assert "it would fit" not in followed.reason


@pytest.mark.slow
def test_a_condition_under_which_nothing_can_be_told_is_no_hint():
    """At open brackets the last unmatched one is the current token."""
    layers = [[(either(lambda t: t % 2 == 0, TOP, mixed(0.45, TOP, onto("previous"))), TYPE)]]
    result = audit_claim(Toy(layers, lambda a: a[..., 0]), STACK)
    assert result.pattern == "fails"
    assert "open bracket (n=" not in result.reason


@pytest.mark.slow
def test_self_repair_shows_in_total_against_direct():
    layers, answer, claim, _ = FAMILIES["self-repaired in part"]
    result = audit_claim(Toy(layers, answer), claim)
    assert "what comes later makes up for a part" in result.reason
    assert evidence(result, "effect")["high"] < limits.USED < evidence(result, "direct")["low"]


def test_a_dead_edit_is_never_evidence():
    result = audit_claim(Toy([[(TOP, TYPE)]], lambda a: a[..., 0], deaf=True), STACK + " ")
    assert (result.pattern, result.use) == ("holds", "undecided")
    assert "does not reach the output" in result.reason
    asked = audit_claim(
        Toy([[(TOP, TYPE)]], lambda a: a[..., 0], deaf=True),
        "L0H0 uses the last unmatched open bracket to predict closing brackets",
    )
    assert asked.verdict == "undecided"


@pytest.mark.slow
def test_a_model_that_cannot_do_the_task_says_nothing_about_use():
    fresh = SandboxTransformer.init(TransformerConfig(7, pad_token=6, num_types=2, max_depth=4), 0, GRAMMAR)
    result = audit_claim(fresh, "L0H0 attends to all visible tokens evenly")
    assert (result.pattern, result.use) == ("holds", "undecided")
    assert "the model does not predict closing brackets" in result.reason


# -- constructed and trained models -------------------------------------------------------------------------

CONSTRUCTED = [
    ("stack", "L1H0 attends to the last unmatched open bracket", "holds used supported"),
    ("stack", "L1H0 uses the last unmatched open bracket to predict closing brackets", "holds used supported"),
    ("stack", "L1H0 mainly attends to the last unmatched open bracket", "holds used supported"),
    ("stack", "L1H0 attends to all unmatched open brackets", "undecided not asked undecided"),
    ("stack", "L1H0 attends to the previous token", "fails not asked refuted"),
    ("stack", "L0H0 attends to the last unmatched open bracket", "fails not asked refuted"),
    # Layer 0 finds the depth: exchanging types moves nothing there, filling in means does. Not called useless.
    ("stack", "L0H0 attends to all visible tokens evenly", "holds undecided supported"),
    ("constant", "L1H0 attends to the last unmatched open bracket", "holds unused supported"),
    ("constant", "L1H0 uses the last unmatched open bracket to predict closing brackets", "holds unused misleading"),
    ("uniform", "L0H0 attends to all visible tokens evenly", "holds undecided supported"),
    ("uniform", "L1H0 attends evenly to all visible tokens", "holds used supported"),
    ("uniform", "L1H0 attends to the last unmatched open bracket", "fails not asked refuted"),
    ("balanced", "L0H0 attends to the last unmatched open bracket", "fails not asked refuted"),
]


@pytest.mark.parametrize(("name", "claim", "expected"), CONSTRUCTED)
@pytest.mark.slow
def test_constructed_models(name, claim, expected):
    result = audit_claim(load_checkpoint(f"constructed/{name}"), claim)
    assert words(result) == expected, result.reason


@pytest.mark.slow
def test_the_stack_solver_turns_its_answer_over():
    result = audit_claim(load_checkpoint("constructed/stack"), CONSTRUCTED[0][1])
    assert evidence(result, "raw")["value"] == pytest.approx(2, rel=0.005)
    assert evidence(result, "margin")["value"] > 25
    assert evidence(result, "score")["value"] > 0.99


@pytest.mark.slow
def test_a_trained_model_says_the_same_whatever_the_seed_of_the_audit():
    model = load_checkpoint("dyck-standard")[0]
    claims = ["L0H0 attends to all visible tokens evenly", "L1H0 attends to the last unmatched open bracket"]
    found = [[words(result) for result in audit_claims(model, claims, seed=seed)] for seed in (0, 1)]
    assert found[0] == found[1] == ["holds used supported", "fails not asked refuted"]


@pytest.mark.slow
def test_the_same_audit_gives_the_same_bytes():
    model = load_checkpoint("constructed/stack")
    first, again = (json.dumps(audit_claim(model, CONSTRUCTED[0][1], seed=5).to_dict()) for _ in range(2))
    assert first == again
    assert first != json.dumps(audit_claim(model, CONSTRUCTED[0][1], seed=6).to_dict())


# -- several claims, several heads, several seeds -----------------------------------------------------------


@pytest.mark.slow
def test_claims_audited_together_share_the_level():
    model = Toy([[(TOP, TYPE), (EVEN, TYPE)]], lambda a: a[..., 0])
    claims = [STACK, STACK.replace("L0H0", "L0H1"), "L0H1 attends to all visible tokens evenly"]
    results = audit_claims(model, claims)
    assert [r.verdict for r in results] == ["supported", "refuted", "supported"]
    assert all(r.level == pytest.approx(1 - 0.05 / 3) for r in results)
    alone, row = audit_claim(model, claims[2]), evidence(results[2], "rival")
    assert row["high"] - row["low"] > evidence(alone, "rival")["high"] - evidence(alone, "rival")["low"]


def test_some_head_is_chosen_on_one_half():
    model = Toy([[(EVEN, TYPE), (TOP, TYPE)]], lambda a: a[..., 1])
    result = audit_claim(model, "some head attends to the last unmatched open bracket")
    assert (result.verdict, result.heads) == ("supported", ((0, 1),))


def test_a_joint_claim_fails_with_one_of_its_heads():
    model = Toy([[(TOP, TYPE), (EVEN, TYPE)]], lambda a: a[..., 0])
    result = audit_claim(model, "L0H0 and L0H1 attend to the last unmatched open bracket")
    assert result.pattern == "fails"
    assert result.reason.startswith("L0H1 scores")


@pytest.mark.slow
def test_a_population_counts_seeds_and_says_what_they_can_certify():
    one = Toy([[(TOP, TYPE), (EVEN, TYPE)]], lambda a: a[..., 0])
    other = Toy([[(EVEN, TYPE), (TOP, TYPE)]], lambda a: a[..., 1])  # the same with its heads renumbered
    result = audit_claim([copy.copy(toy) for toy in [one, other] * 4], STACK, num_inputs=160, length=20)
    assert words(result) == "holds used supported"
    assert [row["heads"] for row in result.seeds] == [[[0, 0]], [[0, 1]]] * 4
    assert [row["named_verdict"] for row in result.seeds] == ["supported", "refuted"] * 4
    assert result.share == binomial(8, 8, 0.95)
    assert result.floor == pytest.approx(0.025 ** (1 / 8))
    assert "L0H0 itself in 4" in result.reason
    few = audit_claim([one, other], STACK, num_inputs=160, length=20)
    assert few.verdict == "undecided"
    assert "audit more seeds" in few.reason
    bad = Toy([[(EVEN, TYPE), (EVEN, TYPE)]], lambda a: a[..., 0])
    assert audit_claim([copy.copy(bad) for _ in range(8)], STACK, num_inputs=160, length=20).verdict == "refuted"
    assert (
        audit_claim([copy.copy(toy) for toy in [bad, one] * 4], STACK, num_inputs=160, length=20).verdict == "undecided"
    )


@pytest.mark.slow
def test_a_population_of_one_is_a_model():
    population = load_checkpoint("dyck-minimal")[:1]
    assert isinstance(population, Population)
    result = audit_claim(population, STACK)
    assert (result.verdict, result.num_models, result.share) == ("refuted", 1, None)
    assert result.to_dict() == audit_claim(population[0], STACK).to_dict()


def test_binomial_is_clopper_pearson_at_its_level():
    for k in (0, 3, 8):
        known = clopper_pearson(k, 8, over="seeds")
        assert binomial(k, 8, 0.95).to_dict() == pytest.approx(known.to_dict())


@pytest.mark.slow
def test_a_scan_finds_each_head():
    model = Toy([[(TOP, TYPE), (onto("previous"), TYPE)]], lambda a: a[..., 0])
    scan = scan_heads(model, ["stack-top", "previous", BUILT_IN["openers"]])
    assert {(one.head, one.mass.relation): one.mass.pattern for one in scan.heads} == {
        (0, "stack-top"): "holds",
        (1, "previous"): "holds",
    }
    assert {(fit.head, fit.relation) for fit in scan.fits} == {
        (head, relation) for head in (0, 1) for relation in ("stack-top", "previous", "openers")
    }
    assert "L0H1" in scan.summary()
    scan.figure().to_json()
    json.dumps(scan.to_dict(), allow_nan=False)


# -- what comes back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stack", "constant"])
@pytest.mark.slow
def test_results_print_draw_and_go_to_json(name):
    result = audit_claim(load_checkpoint(f"constructed/{name}"), CONSTRUCTED[0][1])
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert {"pattern", "use", "verdict", "reason", "evidence"} <= set(data)
    assert {"name", "words", "value", "low", "high", "n", "over", "null", "threshold", "met"} <= set(
        data["evidence"][0]
    )
    assert max(map(len, result.summary().splitlines())) <= 80
    assert f"Verdict: {result.verdict}" in result.summary()
    result.figure().to_json()
    assert "<pre>" in result._repr_html_()


@pytest.mark.slow
def test_a_population_prints_within_80_columns():
    toys = [Toy([[(TOP, TYPE)] * 3], lambda a: clip(a.sum(-1))) for _ in range(6)]
    result = audit_claim(toys, "L0H0, L0H1 and L0H2 attend to the last unmatched open bracket", num_inputs=160)
    assert max(map(len, result.summary().splitlines())) <= 80
    result.figure().to_json()


def test_verdicts_follow_from_two_findings():
    plain, use = Claim([(0, 0)], "start"), Claim([(0, 0)], "start", uses="closers")
    table = {
        ("fails", "used"): ("refuted", "refuted"),
        ("undecided", "used"): ("undecided", "undecided"),
        ("holds", "not asked"): ("supported", "undecided"),
        ("holds", "used"): ("supported", "supported"),
        ("holds", "redundant"): ("supported", "supported"),
        ("holds", "undecided"): ("supported", "undecided"),
        ("holds", "unused"): ("supported", "misleading"),
    }
    for (pattern, found), expected in table.items():
        assert (verdict_of(pattern, found, plain), verdict_of(pattern, found, use)) == expected


# -- bad requests, and what is left behind ------------------------------------------------------------------

SMALL = TransformerConfig(7, d_model=8, d_head=4, n_heads=2, d_mlp=8, pad_token=6, num_types=2, max_depth=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "L2H0 attends to START"}, "L2H0 in 'L2H0 attends to START' is not there: the model has layers 0..1"),
        ({"claim": "L0H2 attends to START"}, "heads 0..1"),
        ({"claim": "L0H0 attends to the void"}, "not understood"),
        (
            {"claim": "L0H0 attends to tokens of the same topic"},
            "needs topics of tokens, and the model knows the tokens",
        ),
        ({"claim": "L0H0 attends to the token [SEP]"}, "needs that token in the vocabulary"),
        ({"claim": "L0H0 attends to brackets of type 77"}, "'brackets of type 77' are not there: .* of types 0 to 1$"),
        ({"claim": f"L0H0 attends to the token {'x' * 10_000}"}, r"'the token xxx[^ ]{0,60}' needs that token"),
        ({"claim": None}, "claim None is neither a sentence nor a Claim: write 'L1H0"),
        ({"claim": 3}, "claim 3 is neither"),
        ({"claim": 3.5}, "claim 3.5 is neither"),
        ({"claim": b"x"}, "claim b'x' is neither"),
        *(
            ({"relations": wrong, "claim": claim}, "relations=.* is not a list of Relations")
            for wrong in (5, None, "current", ["junk"])
            for claim in ("L0H0 attends to START", Claim.parse("L0H0 attends to START"))  # which reads none
        ),
        ({"readout": "logits"}, "readout='logits' changes nothing here: it says where labels are read"),
        ({"readout": "logits", "inputs": ["()", "[]"]}, "readout='logits' changes nothing here"),
        ({"untrained": "no"}, "untrained='no' is neither True nor False"),
        ({"progress": 5}, "progress=5 is neither True nor False"),
        ({"task": 5}, "task=5 is not a task"),
        ({"task": "closers"}, "task='closers' is not a task"),
        ({"readout": 5}, "readout 5 is neither"),
        ({"grammar": 5}, "grammar=5 is not a grammar"),
        ({"grammar": "dyck"}, "grammar='dyck' is not a grammar"),
        ({"grammar": DyckGrammar(3, 4)}, r"grammar=DyckGrammar.* has 9 tokens, and the model 7"),
        ({"num_inputs": 10**9}, "num_inputs=1000000000 is not a whole number of at least 1 and at most"),
        ({"num_inputs": 10**5000}, "num_inputs=.of type int, cannot be written: ValueError. is not a whole number"),
        ({"length": 10**6}, r"400 inputs of 1000001 tokens, 1\.6e\+15 attention weights"),
        ({"num_inputs": 10**6}, "give fewer or shorter ones"),
        *(
            ({name: value}, f"{name}={value!r} is not a whole number of at least 1")
            for name in ("num_inputs", "length")
            for value in (0, -1, 2.5, "a", True)
        ),
        *(
            ({"inputs": tokens}, r"inputs \(torch.* are neither texts nor token ids")
            for tokens in (torch.ones(3, 4).bfloat16(), torch.eye(3).to_sparse(), torch.ones(3, 4, device="meta"))
        ),
        ({"inputs": ["(]"]}, "does not close"),
        ({"inputs": ["()"]}, "1 distinct input cannot be split"),
        ({"inputs": [[0.5, 1.0]]}, r"type float64"),
        ({"inputs": np.zeros((3, 4), dtype=np.int64)}, "does not belong there"),
        ({"inputs": np.full((2000, 4000), 4)}, "START"),
        ({"num_inputs": 400, "length": 900}, "give fewer or shorter ones"),
        ({"seed": -1}, "seed -1"),
    ],
)
@pytest.mark.slow
def test_bad_requests_are_one_clear_line(change, message):
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR)
    how = {"claim": "L0H0 attends to START"} | change
    with pytest.raises(InterpError, match=message) as error:
        audit_claim(model, how.pop("claim"), **how)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_what_a_model_lacks_is_said():
    bare = SandboxTransformer.init(SMALL, 0)
    with pytest.raises(RequestError, match="needs a grammar of brackets, and the model has no grammar"):
        audit_claim(bare, STACK)
    both = SandboxTransformer.init(replace(SMALL, direction="bidirectional"), 0)
    with pytest.raises(AnalysisError, match="carries no grammar to draw inputs from"):
        audit_claim(both, "L0H0 attends to the previous token")
    tokens = np.random.default_rng(0).integers(0, 6, (200, 12))
    result = audit_claim(bare, "L0H0 attends to the previous token", tokens)
    assert (result.pattern, result.use) == ("fails", "not asked")
    single = SandboxTransformer.init(TransformerConfig(5, pad_token=4, num_types=1, max_depth=4), 0, DyckGrammar(1, 4))
    assert audit_claim(single, STACK).use == "not asked"
    scanned = [fit.words for fit in scan_heads(single, num_inputs=40).fits if (fit.layer, fit.head) == (0, 0)]
    assert scanned.count("brackets of type 0") == 1
    assert not any("type 1" in words for words in scanned)
    with pytest.raises(RequestError, match=r"not there: the grammar has brackets of type 0 only"):
        audit_claim(single, "L0H0 attends to brackets of type 1")
    with pytest.raises(RequestError, match="one bracket type"):
        audit_claim(single, "L0H0 uses START to predict closing brackets")
    for claims in (STACK, b"x", None, 3, [], Claim.parse(STACK)):
        with pytest.raises(RequestError, match="not a list of at least one claim"):
            audit_claims(bare, claims)
    with pytest.raises(RequestError, match="claim None is neither a sentence nor a Claim"):
        audit_claims(bare, ["L0H0 attends to the previous token", None])
    for relations in (5, "previous"):
        with pytest.raises(RequestError, match="is not a list of relations"):
            scan_heads(bare, relations)
    with pytest.raises(AnalysisError, match="empty population"):
        audit_claims([], [STACK])
    for wrong, name in ((3, "int"), (b"x", "bytes"), ("dyck-standard", "is a name, which")):
        with pytest.raises(AnalysisError, match=f"{name} shows no attention"):
            audit_claims(wrong, [STACK])


def test_the_size_of_what_is_drawn_is_refused_before_it_is_drawn(monkeypatch):
    monkeypatch.setattr(DyckGrammar, "sample", None)
    for how in ({"length": 10**6}, {"num_inputs": 10**9}):
        with pytest.raises(RequestError, match=r"at most|give fewer"):
            audit_claim(SandboxTransformer.init(SMALL, 0, GRAMMAR), STACK, **how)


def test_models_audited_together_are_models_of_one_shape_and_vocabulary():
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR)
    for i, wrong in enumerate([[None], [torch.nn.Linear(2, 2)], [model, None], ["dyck-standard"], range(1)]):
        for call in (lambda given: audit_claim(given, STACK), scan_heads):
            with pytest.raises(AnalysisError, match=rf"model {int(i == 2)} of the list, .*, shows no attention"):
                call(wrong)
    for change in ({"n_layers": 3}, {"n_heads": 1}, {"d_model": 12}, {"d_head": 3}, {"d_mlp": 9}):
        other = SandboxTransformer.init(replace(SMALL, **change), 0, GRAMMAR)
        ((name, value),) = change.items()
        with pytest.raises(RequestError, match=rf"model 1 has {name}={value} and model 0 {getattr(SMALL, name)}: "):
            audit_claim([model, other], STACK)
    backward = SandboxTransformer.init(replace(SMALL, direction="bidirectional"), 0, GRAMMAR)
    with pytest.raises(RequestError, match="model 1 has attention_dir='bidirectional' and model 0 'causal'"):
        audit_claim([model, backward], STACK)
    with pytest.raises(RequestError, match="model 1 has another vocabulary than model 0"):
        audit_claim([model, SandboxTransformer.init(SMALL, 0)], STACK)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_by_its_name(dtype):
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR).to(dtype)
    for given in (model, [SandboxTransformer.init(SMALL, 0, GRAMMAR), model]):
        with pytest.raises(AnalysisError, match=rf"embed.W_E is {dtype}, .*: pass model.float\(\)"):
            audit_claim(given, STACK)
    assert audit_claim(model.float(), STACK, num_inputs=40).verdict


@pytest.mark.slow
def test_tensors_and_calls_in_inference_mode_make_no_difference():
    model, claim = load_checkpoint("constructed/stack"), f"{STACK.replace('attends to', 'uses')}"
    expected = audit_claim(model, claim, num_inputs=100).to_dict()
    with torch.inference_mode():
        assert audit_claim(model, claim, num_inputs=100).to_dict() == expected
        assert torch.is_inference_mode_enabled()
        for module in model.modules():
            for name, weight in list(module._parameters.items()):
                module._parameters[name] = torch.nn.Parameter(weight.clone(), requires_grad=False)
            for name, buffer in list(module._buffers.items()):
                module._buffers[name] = buffer.clone()
        tokens = torch.from_numpy(GRAMMAR.to_tokens(["(())"]))
    weights = dict(model.named_parameters())
    assert all(weight.is_inference() for weight in weights.values())
    assert audit_claim(model, claim, num_inputs=100).to_dict() == expected
    assert reaches_output(model, tokens, 0)
    assert all(weight is weights[name] for name, weight in model.named_parameters())


@pytest.mark.slow
def test_untrained_models_are_scored_one_by_one():
    tokens = GRAMMAR.to_tokens(GRAMMAR.sample(40, mode="prefix", length=12, seed=0))
    laid = Laid(make_inputs(SandboxTransformer.init(SMALL, 0, GRAMMAR), GRAMMAR, tokens, 40, 12, 0))
    claims = [Claim([(1, 0)], "previous"), Claim([(0, 1)], "previous"), Claim([], "stack-top")]
    alive = []

    def made():
        for seed in range(3):
            assert all(model() is None for model in alive)
            model = SandboxTransformer.init(SMALL, seed, GRAMMAR)
            alive.append(weakref.ref(model))
            yield model
            del model
            gc.collect()

    nulls = Nulls(laid, made(), claims)
    subjects = [Subject(SandboxTransformer.init(SMALL, seed, GRAMMAR), laid, values=False) for seed in range(3)]
    for claim, heads in zip(claims, [((1, 0),), ((0, 1),), ((0, 0), (1, 1))], strict=True):
        asked = laid.asked(claim)
        layers = {layer for layer, _ in heads}
        scores = [one.score(asked, head) for one in subjects for head in one.heads if head[0] in layers]
        found = nulls.highest(asked, heads)
        assert (found.value, found.n) == (max(scores), 3)


def test_too_few_inputs_decide_nothing():
    texts = ["()" * n + "[" * m for n in range(1, 8) for m in range(4)]
    result = audit_claim(Toy([[(TOP, TYPE)]], lambda a: a[..., 0]), STACK, texts)
    assert result.verdict == "undecided"
    assert "(100 are needed)" in result.reason
    assert "(50 are needed)" in result.reason
    assert result.num_inputs == len(set(texts))
    assert audit_claim(Toy([[(TOP, TYPE)]], lambda a: a[..., 0]), STACK, texts * 9).num_inputs == len(set(texts))


def test_a_relation_that_these_inputs_cannot_tell_from_a_rival_is_undecided_naming_it():
    rng = np.random.default_rng(0)
    opener, closer = rng.integers(0, 2, (300, 12)) * 2, np.ones((300, 12), dtype=int)
    flat = np.stack([opener, opener + closer], axis=-1).reshape(300, 24)  # depth 1 only: ()[]()...
    result = audit_claim(Toy([[(TOP, TYPE)]], lambda a: a[..., 0]), STACK, GRAMMAR.to_tokens(flat))
    assert result.verdict == "undecided"
    assert "cannot be told from" in result.reason


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.slow
def test_the_model_is_left_as_it_was(training, broken):
    model = load_checkpoint("constructed/stack")
    model.train(training)
    seen = []
    model.blocks[0].attn.hook_z.add_hook(lambda z, hook: seen.append(1))
    handles = {name: len(hook._forward_hooks) for name, hook in model.hook_dict.items()}
    weights, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    calls = []

    def keys(tokens, grammar, visible):
        calls.append(1)
        return BUILT_IN["stack-top"].keys(tokens, grammar, visible)

    class Stops(Closers):
        def items(self, *args):
            raise RuntimeError("stop")

    claim = Claim([(1, 0)], Relation("mine", "my bracket", "mass", "dyck", keys), uses="closers")
    if broken:
        with pytest.raises(AnalysisError, match="RuntimeError: stop"):
            audit_claim(model, claim, task=Stops())
    else:
        audit_claim(model, claim)
    assert seen
    assert model.training is training
    assert all(module.training is training for module in model.modules())
    assert {name: len(hook._forward_hooks) for name, hook in model.hook_dict.items()} == handles
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_hooks_come_off_when_a_run_fails():
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR)
    tokens = torch.from_numpy(GRAMMAR.to_tokens(["()", "[]"]))
    wrong = Edges(0, (0,), torch.ones(2, 9, 9, dtype=torch.bool), shift=torch.zeros(2, 9, 2, 4))
    with pytest.raises(RuntimeError):
        run(model, tokens, torch.tensor([1, 1]), [wrong])
    assert not any(hook._forward_hooks for hook in model.hook_dict.values())


# -- the interchange, number by number ----------------------------------------------------------------------


def bare_model():
    """Logits are linear in z: one layer, no norm, two heads."""
    config = TransformerConfig(
        7, n_layers=1, n_heads=2, d_model=6, d_head=3, mlp_depth=0, block="bare", norm="none", init_std=0.7, pad_token=6
    )
    return SandboxTransformer.init(config, 1, GRAMMAR)


def cached(model, texts):
    tokens = torch.from_numpy(GRAMMAR.to_tokens(texts))
    done = run(model, tokens, torch.full((len(texts),), tokens.shape[1] - 1), keep=True)
    return tokens, done, done.cache


def test_the_interchange_is_what_a_literal_loop_says():
    model = bare_model()
    tokens, base, cache = cached(model, ["([])", "[()]", "(())"])
    _, _, donor = cached(model, ["[[]]", "(())", "([])"])
    keys = torch.from_numpy(np.random.default_rng(0).random((3, 5, 5)) < 0.4)
    read = torch.tensor([4, 3, 2])
    for heads in ([0], [1], [0, 1]):
        done = run(model, tokens, read, [Edges(0, tuple(heads), keys, values=donor.v[0])])
        for b in range(3):
            z = cache.z[0][b].clone()
            for head in heads:
                for q in range(5):
                    for k in range(5):
                        if keys[b, q, k]:
                            z[q, head] += cache.patterns[0][b, head, q, k] * (
                                donor.v[0][b, k, head] - cache.v[0][b, k, head]
                            )
            logits = z.flatten(1) @ model.unembed.W_U + model.unembed.b_U
            assert_close(done.logits[b], logits[read[b]])
    shifted = run(model, tokens, read, [Edges(0, (0,), keys, shift=donor.v[0] - cache.v[0])])
    same = run(model, tokens, read, [Edges(0, (0,), keys, values=donor.v[0])])
    assert_close(shifted.logits, same.logits, dtype=torch.float32)
    assert base.norm.shape == (3,)


def measuring(layers, answer, claim=STACK, heads=((0, 0),), **toy):
    """What an audit measures of a toy's heads, and the items that it measures on."""
    model = Toy(layers, answer, **toy)
    laid = Laid(make_inputs(model, GRAMMAR, None, 160, 16, 0))
    used, asked = Used(model, laid.inputs, Closers(), 0.95, 0), laid.asked(Claim.parse(claim))
    return used.evidence(asked, heads), used.side(asked, "b", heads)


ALONE, PAIR = [[(TOP, TYPE)]], [[(TOP, TYPE), (TOP, TYPE)]]


@pytest.mark.parametrize(
    ("layers", "answer", "expected"),
    [
        # The donor's value, -1 for 1, turns the answer over. A sham goes 2 up or 2 down, and one of them does so too.
        (ALONE, lambda a: clip(a[..., 0]), {"raw": 2, "sham": 1, "total": 1, "direct": 1, "fill": 1}),
        # What is linear loses as much one way as it gains the other.
        (ALONE, lambda a: a[..., 0], {"raw": 2, "sham": 0, "total": 2, "direct": 2, "fill": 1}),
        # Of two, one may go: its exchange leaves 1 - 1 = 0. Once the other gives its mean, it is as the first case.
        (
            PAIR, lambda a: clip(a.sum(-1)),
            {"raw": 1, "sham": 0.5, "total": 0.5, "with_partners": 1, "raw_with_partners": 2, "held_with_partners": 1},
        ),
    ],
    ids=["clipped", "linear", "with a partner"],
)  # fmt: skip
def test_what_a_sham_of_the_same_size_does_is_taken_off(layers, answer, expected):
    gather, side = measuring(layers, answer)
    found = gather(frozenset(expected))
    assert side.margin == pytest.approx(10)
    measured = {name: getattr(found, name).value for name in expected}
    # Filled-in means are those of a sample, in which the types are not quite as many.
    assert measured == pytest.approx(expected, abs=0.1)  # absolute: shares of the margin, by sampling


FIRST, CLOSING = (
    onto("first"),
    "L0H0 attends to the last unmatched open bracket when the current token is an open bracket",
)


@pytest.mark.parametrize(
    ("layers", "answer", "claim", "expected"),
    [
        # Logits of 5 and -5, and the other way round: the margin of 10, by which an output lies below the largest,
        # moves by 20, and an output by 10.
        (ALONE, lambda a: a[..., 0], STACK,
         {"answer_change": 2, "aimed": 1, "every": None, "token": 2, "output_change": 1}),
        # The answer does not turn on what is read, nor does any output.
        (ALONE, lambda a: 0 * a[..., 0] + 1, STACK, {"answer_change": 0, "aimed": 1, "output_change": 0}),
        # These edges read no token that is exchanged, and move nothing in any head.
        (ALONE, lambda a: a[..., 0], "L0H0 attends to START", {"aimed": 0, "every": 0, "token": 2, "answer_change": 2}),
    ],
    ids=["read", "silent", "elsewhere"],
)  # fmt: skip
def test_what_could_move_is_measured_first(layers, answer, claim, expected):
    gather, side = measuring(layers, answer, claim)
    found = gather(frozenset(expected))
    measured = {name: getattr(found, name) for name in expected}
    assert {name: getattr(x, "value", x) for name, x in measured.items()} == pytest.approx(expected)
    assert (found.paired, found.dead, found.items) == (True, None, len(side.items))
    assert found.margin.value == pytest.approx(side.margin.mean())


def test_what_comes_later_may_make_up_for_a_part():
    """The later head looks at the stack top, with twice the value, once the first is wrong: -1 + 2 is as good as 1."""
    layers = [[(TOP, TYPE)], [(repaired, [2 * x for x in TYPE])]]
    gather, _ = measuring(layers, lambda a: clip(a.sum(-1)))
    found = gather(frozenset({"total", "direct", "direct_fill", "raw"}))
    measured = {name: getattr(found, name).value for name in ("raw", "total", "direct", "direct_fill")}
    # Filled in, 0 is not right either, and a head at the stack top makes 2 of it; frozen, 0 stays.
    expected = {"raw": 0, "total": 0, "direct": 1, "direct_fill": 1}
    assert measured == pytest.approx(expected, abs=0.1)  # absolute: shares of the margin, by sampling


def test_one_of_nine_that_say_the_same_matters_while_four_say_the_other():
    """Of 9 votes one counts only at 5 to 4, and no three that go make it count."""
    gather, _ = measuring([[(TOP, TYPE)] * 9], lambda a: clip(a.sum(-1)))
    found = gather(frozenset({"total", "with_partners", "in_company"}))
    assert found.total.value == found.raw.value == 0
    assert len(found.company) == 4
    assert found.in_company.value == pytest.approx(2)


@pytest.mark.parametrize(
    ("answer", "idle"),
    [(lambda a: a[..., 0], [(0, 1)]), (lambda a: a.sum(-1) / 2, []), (lambda a: a[..., 1], [(0, 0)])],
)
def test_heads_that_add_nothing_to_the_others_are_named(answer, idle):
    heads = ((0, 0), (0, 1))
    gather, _ = measuring(PAIR, answer, heads=heads)
    found = gather(frozenset({"idle"})).idle
    assert [head for head, _ in found] == idle
    assert all(alone(frozenset({"raw"})).raw.value == 0 for _, alone in found)
    assert measuring(PAIR, answer)[0](frozenset({"idle"})).idle == ()


def test_what_is_dead_is_said_before_anything_is_measured(monkeypatch):
    gather, _ = measuring(ALONE, lambda a: a[..., 0], deaf=True)
    assert gather.found.dead == "what is written to hook_z of layer 0 does not reach the output"
    monkeypatch.setattr("probes.audit.use.is_pattern_times_values", lambda cache, layer: False)
    gather, _ = measuring(ALONE, lambda a: a[..., 0])
    assert gather.found.dead == "hook_z of layer 0 is not pattern times values"
    assert gather(frozenset({"output_change", "total"})).output_change == math.inf
    monkeypatch.undo()

    def endless(logits, read):
        return torch.where(torch.arange(7) == 1, torch.nan, logits)

    gather, _ = measuring(ALONE, lambda a: a[..., 0], extra=endless)
    assert gather.found.dead == "the logit of an answer or a foil is not finite"


@pytest.mark.parametrize(
    ("values", "share"),
    [
        ([(1.0, -1.0)], 0.0),  # 1 always
        ([(1.0, -3.0)], 0.0),  # 1 and 3, and the other way round
        ([(1.0, -3.0), (3.0, 1.0)], 1.0),  # the root of 10 always; exchanged, that of 18 or of 2
    ],
)
def test_norms_beyond_the_quantiles_of_the_intact_ones_are_counted(values, share):
    """What the heads write is all that there is in the residual stream: for openers of either type these values."""
    layers = [[(TOP, (one, 0.0, other, 0.0, 0.0, 0.0, 0.0)) for one, other in values]]
    gather, _ = measuring(layers, lambda a: torch.sign(a[..., 0]))
    assert gather(frozenset({"unnatural"})).unnatural == share


def test_a_side_adds_up_what_its_items_share():
    """Items that share a donor count as one."""
    _, side = measuring([[(TOP, TYPE), (EVEN, TYPE)]], lambda a: a[..., 0])
    out = side.without(((0, 0),))
    assert out == pytest.approx(side.margin_of(side.edited([], ablated=side.fill(((0, 0),)))))
    assert side.without(((0, 0),)) is out
    each = np.arange(len(side.items))
    logits = side.base.logits.numpy()
    top = logits.max(1)
    two = np.abs(np.stack([logits[each, which] - top for which in (side.items.answer, side.items.foil)]))
    assert side.loudness() == pytest.approx(two.max(0))
    differ = side.items.tokens != side.items.donors
    assert side.margin_of(side.mixed(differ)) == pytest.approx(side.margin_of(side.donor))
    assert side.margin_of(side.mixed(differ & False)) == pytest.approx(side.margin)
    assert side.by_unit(side.margin) is side.margin
    side.items = replace(side.items, unit=each // 2 * 3)
    pairs = [side.margin[place : place + 2].sum() for place in range(0, len(each), 2)]
    assert side.by_unit(side.margin) == pytest.approx(pairs)
    assert side.share(side.margin).n == len(pairs)


def test_what_an_ablated_head_gives_is_its_mean_at_its_place(monkeypatch):
    """Of enough items, else over all places up to those that are read; in the last layer over the read ones alone."""
    layers = [[(TOP, TYPE), (EVEN, TYPE)], [(EVEN, TYPE), (TOP, TYPE)]]
    _, side = measuring(layers, lambda a: a[..., 0])
    runs, items = (side.cache, side.donor_cache), side.items
    at_place = {q: [b for b in range(len(items)) if q <= items.read[b]] for q in range(items.tokens.shape[1])}
    counts = {q: 2 * len(there) for q, there in at_place.items()}
    q = next(q for q, count in counts.items() if 0 < count < counts[0])
    assert counts[0] >= limits.MIN_SEQUENCES
    for least in (limits.MIN_SEQUENCES, counts[q], counts[q] + 1, 2 * counts[0] + 1):
        monkeypatch.setattr(limits, "MIN_SEQUENCES", least)
        side._means.clear()
        for head in range(2):
            (first,), (last,) = (side.fill(((layer, head),)).values() for layer in (0, 1))
            z = [[run.z[layer][:, :, head, 0].numpy() for run in runs] for layer in (0, 1)]
            overall = np.mean([x[b, q] for x in z[0] for q, there in at_place.items() for b in there])
            for q, there in at_place.items():
                mean = np.mean([x[b, q] for x in z[0] for b in there]) if counts[q] >= least else overall
                assert first[q].tolist() == pytest.approx([mean])
            at_read = np.mean([x[b, items.read[b]] for x in z[1] for b in range(len(items))])
            assert last.flatten().tolist() == pytest.approx([at_read] * len(at_place))
    assert side.fill(((0, 1), (1, 0))).keys() == {(0, 1), (1, 0)}


def test_a_head_is_taken_out_with_norms_as_they_come_or_held():
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR)
    inputs = make_inputs(model, GRAMMAR, None, 40, 12, 0)
    side = Side(model, Closers().items(inputs.tokens, GRAMMAR, np.ones(inputs.tokens.shape, dtype=bool), 0), 0.95)
    heads = ((0, 0),)
    free, held = (
        side.margin_of(side.edited([], ablated=side.fill(heads), frozen=frozen)) for frozen in (None, side.cache)
    )
    assert np.abs(free - held).max() > 1e-3
    assert side.without(heads) == pytest.approx(free)
    assert side.without(heads, held=True) == pytest.approx(held)


def test_a_part_of_a_side_is_its_first_items():
    _, side = measuring(ALONE, lambda a: a[..., 0])
    count = len(side.items)
    assert side.part(count) is side.part(count + 1) is side
    few = side.part(count - 1)
    assert few is side.part(count - 1)
    assert len(few.items) == count - 1
    assert few.margin == pytest.approx(side.margin[:-1])
    assert few.level == side.level


@pytest.mark.parametrize(("ends", "none"), [((-0.04, 0.0499), True), ((-0.05, 0.01), False), ((0.0, 0.05), False)])
def test_nothing_moves_within_the_bound(ends, none):
    _, side = measuring(ALONE, lambda a: a[..., 0])
    assert side.nothing(Estimate(0.0, *ends, 10_000, "inputs")) is none


def test_a_piece_is_measured_when_it_is_asked_for(monkeypatch):
    gather, _ = measuring(PAIR, lambda a: clip(a.sum(-1)))
    searched = []
    monkeypatch.setattr("probes.audit.use.find_partners", lambda *_: searched.append("partners") or ())
    monkeypatch.setattr("probes.audit.use.idle_heads", lambda *_: searched.append("idle") or [])
    assert gather(frozenset({"items", "margin"})).token is None
    found = gather(frozenset({"every"}))
    assert found.token is not None
    assert found.every is None  # the token moves enough
    assert found.total is None
    assert gather(frozenset({"total"})).total is not None
    assert searched == []
    for _ in range(2):
        gather(frozenset({"idle"}))
    assert gather(frozenset({"total"})).with_partners is None
    gather(frozenset({"with_partners"}))
    assert searched == ["partners"]  # of one head none can be idle


def test_of_a_model_without_power_nothing_further_is_measured():
    gather, _ = measuring(ALONE, lambda a: a[..., 0], "L0H0 attends to START")
    found = gather(frozenset(field.name for field in fields(Effects)))
    assert found.every is not None
    assert (found.total, found.with_partners, found.in_company, found.idle) == (None, None, None, ())


def test_exchanging_everything_in_every_head_is_running_on_the_donors_values():
    model = load_checkpoint("dyck-standard")[0]
    tokens, base, cache = cached(model, ["([])[", "[()](", "(())["])
    every = [(layer, 0) for layer in range(2)]
    last = torch.full((3,), tokens.shape[1] - 1)
    keys = torch.ones(3, tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    own = run(model, tokens, last, interchange(cache, keys, every))
    assert_close(own.logits, base.logits, dtype=torch.float32)  # its own values: nothing changes
    frozen = run(model, tokens, last, interchange(cache, keys, every), frozen=cache)
    assert_close(frozen.logits, base.logits, dtype=torch.float32)
    none = run(model, tokens, last, interchange(cache, keys & False, every))
    assert_close(none.logits, base.logits, dtype=torch.float32)


def test_frozen_patterns_are_those_of_the_intact_run():
    """With later patterns and norm scales frozen the effect of a shift is linear in its size, up to the MLPs."""
    config = TransformerConfig(7, n_layers=3, d_model=6, d_head=3, n_heads=2, mlp_depth=0, init_std=0.7, pad_token=6)
    model = SandboxTransformer.init(config, 2, GRAMMAR)
    tokens, base, cache = cached(model, ["([])[", "[()]("])
    read = torch.full((2,), tokens.shape[1] - 1)
    keys = torch.ones(2, 6, 6, dtype=torch.bool)
    shift = torch.randn(2, 6, 2, 3, generator=torch.Generator().manual_seed(0))
    effects = [
        run(model, tokens, read, [Edges(0, (0, 1), keys, shift=size * shift)], frozen=cache).logits - base.logits
        for size in (1.0, 3.0)
    ]
    assert_close(3 * effects[0], effects[1], ulps=128, scale=base.logits, dtype=torch.float32)  # 3 differences
    free = [
        run(model, tokens, read, [Edges(0, (0, 1), keys, shift=size * shift)]).logits - base.logits
        for size in (1.0, 3.0)
    ]
    assert (3 * free[0] - free[1]).abs().max() > 0.01


def test_a_pattern_that_is_shown_too_late_is_made_from_queries_and_keys():
    """Of two inputs of five tokens, three heads of four dimensions: no axis is as long as another."""
    q, k = (torch.randn(2, 5, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    visible = torch.ones(5, 5, dtype=torch.bool).tril()
    model = SimpleNamespace(cfg=SimpleNamespace(n_layers=1), visible_keys=lambda tokens: visible, late_patterns=True)
    editing = _Editing(model, torch.zeros(2, 5), [Edges(0, (0,), visible)], {}, None)
    assert {"blocks.0.attn.hook_q", "blocks.0.attn.hook_k"} <= editing.writers(keep=False).keys()
    editing.seen |= {"blocks.0.attn.hook_q": q, "blocks.0.attn.hook_k": k}
    pattern = editing._pattern(0)
    for item, head, query in np.ndindex(2, 3, 5):
        scores = [torch.dot(q[item, query, head], k[item, key, head]) / 2 for key in range(query + 1)]
        expected = torch.stack(scores).softmax(0)
        assert_close(pattern[item, head, query, : query + 1], expected)
        assert not pattern[item, head, query, query + 1 :].any()


def test_weights_made_in_inference_mode_are_differentiated_and_put_back():
    model = load_checkpoint("constructed/stack")
    tokens = torch.from_numpy(GRAMMAR.to_tokens(["([])"]))
    model.register_parameter("absent", None)
    with torch.inference_mode():
        for module in model.modules():
            for name, weight in list(module._parameters.items()):
                if weight is not None:
                    module._parameters[name] = torch.nn.Parameter(weight.clone(), requires_grad=False)
    weights = dict(model.named_parameters())
    assert all(weight.is_inference() for weight in weights.values())
    assert reaches_output(model, tokens, 0)
    assert all(weight is weights[name] for name, weight in model.named_parameters())


def test_ablated_heads_are_set_to_their_constant():
    model = bare_model()
    tokens, _, cache = cached(model, ["([])", "[()]"])
    done = run(model, tokens, torch.tensor([4, 4]), ablated={(0, 1): torch.tensor([1.0, 2.0, 3.0])})
    z = cache.z[0].clone()
    z[:, :, 1] = torch.tensor([1.0, 2.0, 3.0])
    expected = z.flatten(2) @ model.unembed.W_U + model.unembed.b_U
    assert_close(done.logits, expected[:, 4])


def test_whether_an_edit_counts_is_told_by_the_graph_and_not_by_a_number():
    tokens = torch.from_numpy(GRAMMAR.to_tokens(["([])"]))
    silent = load_checkpoint("constructed/constant")
    assert all(reaches_output(silent, tokens, layer) for layer in (0, 1))  # connected, though nothing moves
    assert all(p.grad is None for p in silent.parameters())
    mute = Toy([[(TOP, TYPE)]], lambda a: a[..., 0], [[0.0]])
    deaf = Toy([[(TOP, TYPE)]], lambda a: a[..., 0], deaf=True)
    assert reaches_output(mute, tokens, 0)
    assert not reaches_output(deaf, tokens, 0)
    with torch.inference_mode():
        assert reaches_output(mute, tokens.clone(), 0)
    _, _, cache = cached(bare_model(), ["([])"])
    assert is_pattern_times_values(cache, 0)
    cache.z[0][0, 1, 0, 0] += 1
    assert not is_pattern_times_values(cache, 0)


def test_items_are_minimal_pairs_read_where_a_closer_was_just_read():
    tokens = GRAMMAR.to_tokens(GRAMMAR.sample(200, mode="prefix", length=16, seed=0))
    rows = np.ones(tokens.shape, dtype=bool)
    items = Closers().items(tokens, GRAMMAR, rows, 0)
    each = np.arange(len(items))
    assert len(items) > 150
    assert len(set(items.sequence.tolist())) == len(items)
    assert (items.tokens[each, items.read] % 2 == 1).all()
    assert (items.flipped < items.read).all()
    assert (items.flipped == GRAMMAR.stack_top(items.tokens)[each, items.read]).all()
    assert (items.answer == items.tokens[each, items.flipped] + 1).all()
    assert (items.foil == items.donors[each, items.flipped] + 1).all()
    assert (items.answer != items.foil).all()
    upto = np.arange(tokens.shape[1]) <= items.read[:, None]
    assert ((items.tokens != items.donors) & upto).sum() == len(items)
    opening = Closers().items(tokens, GRAMMAR, (tokens % 2 == 0) & (tokens < 4), 0)
    assert (opening.flipped == opening.read).all()
    copies = Copies().items(tokens, GRAMMAR, rows, 0)
    assert (copies.answer == copies.tokens[np.arange(len(copies)), copies.read]).all()


@pytest.mark.slow
def test_a_copying_model_is_asked_to_copy():
    grammar = CopyGrammar(2, 4)
    config = TransformerConfig(7, d_model=8, d_head=8, d_mlp=8, pad_token=6, num_types=2, max_depth=4)
    result = audit_claim(SandboxTransformer.init(config, 0, grammar), "L0H0 attends to all visible tokens evenly")
    assert result.task == "copies"


def test_margins_are_of_the_right_answer():
    model = load_checkpoint("dyck-standard")[0]
    inputs = make_inputs(model, GRAMMAR, None, 60, 16, 0)
    items = Closers().items(inputs.tokens, GRAMMAR, np.ones(inputs.tokens.shape, dtype=bool), 0)
    side = Side(model, items, 0.95)
    assert side.margin.mean() > 2
    assert side.margin_of(side.donor).mean() < -2


def test_a_head_that_goes_by_class_and_distance_has_no_lift():
    """Attends to open brackets three back: as much where they are the stack top as where they are not."""
    model = Toy([[(TOP, TYPE)]], lambda a: a[..., 0])
    laid = Laid(make_inputs(model, GRAMMAR, None, 400, 26, 0))
    asked = laid.asked(Claim.parse(WHEN))
    tokens, half = laid.inputs.tokens, laid.inputs.half_b

    def lift(attends):
        head = Head(laid, attends(tokens))
        return matched_lift(head.taken(asked), asked, laid.inputs.roles, half)[half][asked.free[half]]

    back = offset(-3).keys(tokens, GRAMMAR, laid.inputs.visible) & (laid.inputs.roles == 0)[:, None, :]
    by_class = np.where(back.any(-1, keepdims=True), back, laid.keys(BUILT_IN["first"]))
    assert abs(lift(lambda tokens: by_class.astype(float)).mean()) < 0.02  # absolute: 1 is all that a lift can be
    assert lift(TOP).mean() == pytest.approx(1)
    assert abs(lift(EVEN).mean()) < 0.05  # absolute: 1 is all that a lift can be


# -- the command line ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_audits(tmp_path, capsys):
    out, page = tmp_path / "audit.json", tmp_path / "audit.html"
    status = main(
        ["audit", "constructed/stack", "--claim", CONSTRUCTED[0][1], "--json", str(out), "--figure", str(page)]
    )
    printed = capsys.readouterr().out
    assert status == 0
    assert "Verdict: supported" in printed
    assert json.loads(out.read_text())["verdict"] == "supported"
    assert "Plotly.newPlot" in page.read_text()
    claims = tmp_path / "claims.txt"
    claims.write_text(
        "\ufeff  # two claims\nL1H0 attends to the previous token # why\n\nL0H0 attends to the next token #\n"
    )
    assert main(["audit", "constructed/stack", "--claims", str(claims), "--json", str(out)]) == 0
    assert [a["verdict"] for a in json.loads(out.read_text())["audits"]] == ["refuted", "undecided"]
    claims.write_text("\nL1H0 attends to START\nL1H0 attends to the void # it does not\n")
    capsys.readouterr()
    assert main(["audit", "constructed/stack", "--claims", str(claims)]) == 2
    assert "claims.txt line 3: relation 'the void' is not understood" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["constructed/stack", "--claim", "L0H0 attends to the next token"], 0, ""),
        (["constructed/stack", "--claim", "L0H0 attends to the next token", "--strict"], 1, ""),
        (["constructed/stack", "--claim", CONSTRUCTED[0][1], "--strict"], 0, ""),
        (["constructed/stack", "--claim", "L1H0 attends to the previous token"], 0, ""),
        (["constructed/stack", "--claim", "L1H0 attends to the previous token", "--strict"], 1, ""),
        (["constructed/stack"], 2, "nothing to audit"),
        (["constructed/stack", "--claim", "L0H0 attends to the void"], 2, "nearest are"),
        (["constructed/stack", "--claim", "L7H0 attends to START"], 2, "L7H0"),
        (["constructed/stack", "--claims", "/no/such/file"], 2, "/no/such/file"),
        (["nothing", "--claim", "L0H0 attends to START"], 2, "nothing"),
    ],
)
@pytest.mark.slow
def test_a_verdict_is_an_answer_and_what_is_none_is_said(arguments, status, message, capsys):
    assert main(["audit", *arguments]) == status
    assert message in capsys.readouterr().err


def test_help_lists_the_wordings(capsys):
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    printed = capsys.readouterr().out
    assert "the last unmatched open bracket" in printed
    assert "when the current token is a closing bracket" in printed


def test_a_rival_that_few_inputs_have_does_not_keep_a_perfect_head_undecided():
    """Position 60 exists in one input of each half: enough rows, but nothing to compare over inputs."""
    lengths = np.r_[np.full(118, 30), 80, 80]
    rng, places = np.random.default_rng(0), np.arange(80)
    tokens = np.where(places < lengths[:, None], rng.integers(0, 1000, (120, 80)), 1000)
    real = tokens != 1000
    visible = real[:, :, None] & real[:, None, :]
    weights = np.eye(80, k=-1) * 0.999 + 0.001 * visible / np.maximum(visible.sum(-1, keepdims=True), 1)
    weights = weights * visible / np.maximum((weights * visible).sum(-1, keepdims=True), 1e-9)
    laid = Laid(Inputs(tokens, visible, np.zeros_like(tokens), None))
    head, asked = Head(laid, weights), laid.asked(Claim([(0, 0)], "previous"))
    look = head.look(asked, 0.99994)
    assert look.score.value == pytest.approx(1, rel=0.01)
    compared = [rival for rival in rivals_of(head, asked, 0.99994).rivals if rival.lead is not None]
    assert len(compared) >= 5
    for rival in compared:
        assert rival.lead.low is not None
        assert rival.lead.low > 0, rival.name


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_relation_is_found_by_its_name(name):
    assert Claim([(0, 0)], name).relation is BUILT_IN[name]


@pytest.mark.slow
def test_the_level_said_is_that_of_the_intervals():
    """Of "some head" several are tried, each at a stricter level."""
    layers = [[(TOP, TYPE), (mixed(0.9, TOP, EVEN), TYPE)]]
    model = Toy(layers, lambda a: a[..., 0])
    some, named = (audit_claim(model, c) for c in ("some head attends to the last unmatched open bracket", STACK))
    assert named.level == pytest.approx(0.95)
    assert some.level == pytest.approx(0.975)


@pytest.mark.parametrize(
    "claims",
    [
        ["L0H0 attends to START"] * 2,
        ["L0H0 attends to START", "l0h0 attends to the START token."],
        ["L0H0 attends to offset -1", "L0H0 attends to the previous token"],
        ["L0H0 attends to offset -3"] * 2,
        ["L0H0 and L1H0 attend to START", Claim([(1, 0), (0, 0)], "start")],
    ],
    ids=range(5),
)
def test_a_claim_is_given_once(claims):
    model = SandboxTransformer.init(SMALL, 0, GRAMMAR)
    with pytest.raises(RequestError, match=r"claim 'L0H0.*' is given twice"):
        audit_claims(model, claims)
    with pytest.raises(RequestError, match=r"claim 'L0H0.* is given twice"):
        scan_heads(model, ["previous", "the previous token"])


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16])
def test_numpy_numbers_are_numbers_in_labelled_inputs(kind):
    entries = [LabelledInput("()", "(", kind(2)), {"text": "[]", "label": kind(3), "position": kind(1)}]
    told = labelled(entries)
    assert told == [LabelledInput("()", "(", 2), LabelledInput("[]", 3, 1)]
    assert [type(value) for value in (told[0].position, told[1].label)] == [int, int]
    assert labelled([LabelledInput(np.str_("()"), np.str_("("))])[0].text == "()"


def test_claims_name_the_tasks_as_they_name_themselves():
    assert {name: task.words for name, task in questions().items()}.items() <= TASKS.items()
    assert set(TASKS) - set(questions()) == {"labels", "task"}


# -- where a head looks, and how much -----------------------------------------------------------------------


@pytest.mark.parametrize(("mass", "pattern"), [(0.42, "holds"), (0.2, "fails")])
def test_a_steady_head_needs_a_quarter_of_the_weight_and_the_top_place(mass, pattern):
    """.42 on the claimed key in every row, the rest even: what trained heads do. Below the least score it fails."""
    head = mixed(mass, TOP, EVEN)
    assert audit_claim(Toy([[(head, TYPE)]], lambda a: a[..., 0]), STACK).pattern == pattern


@pytest.mark.slow
def test_a_wider_description_refutes_nothing_and_is_told():
    """Of two relations of which one holds the other both are true of a head on the narrower."""
    model = Toy([[(onto("earlier-copies"), TYPE)]], lambda a: a[..., 0])
    narrow = audit_claim(model, "L0H0 attends to earlier copies of the current token")
    wide = audit_claim(model, "L0H0 attends to earlier or current copies of the current token")
    assert narrow.pattern == "holds"
    assert wide.pattern != "fails"
    assert "earlier copies of the current token describes it more narrowly" in wide.reason
