"""Stopping early: each look spends its share of the error level, and what is clear at the first look stops there."""

from functools import partial

import numpy as np
import pytest

import probes
from interp import load_checkpoint
from interp.rng import generator
from probes.audit import thresholds as t
from probes.audit.inputs import Inputs
from probes.audit.labels import LabelledInput, lay_out
from probes.audit.looks import UNMEASURED, parts_of
from probes.audit.pattern import Laid
from probes.audit.rivals import thin
from probes.audit.stats import held_to, high, low, ratio, sign_flips, spent
from probes.audit.use_rules import USE_RULES
from probes.claims import Claim, Relation
from toys import GRAMMAR, STACK, TOP, TYPE, Toy, clip, onto

audit_claims = partial(probes.audit_claims, task_check=False)
CLAIMS = 2000
SLACK = 2 * np.sqrt(t.ALPHA * (1 - t.ALPHA) / CLAIMS)  # two binomial errors of a rate of ALPHA
USES = "L1H0 uses the last unmatched open bracket to predict closing brackets"


def inputs_of(count, strata=None, seed=0):
    """Inputs of no content, in two halves."""
    drawn = generator(seed, "test/order").random(count)
    order = np.lexsort((drawn,) if strata is None else (drawn, strata))
    tokens = np.arange(count)[:, None]
    return Inputs(tokens, np.ones((count, 1, 1), dtype=bool), np.zeros((count, 1), dtype=int), None, order)


def looks(count=400):
    """Which inputs decide at each look, and its share."""
    parts = parts_of(Laid(inputs_of(count)), 0, True)
    return [(part.laid.inputs.tokens[part.laid.inputs.half_b, 0], part.share) for part in parts]


def wrong(shares):
    """The rate of claims at their very threshold that some look decides, of intervals and of p-values."""
    rng = generator(1, "test/coverage")
    shown = rng.random((400, CLAIMS)) ** 2  # the share of each input; the truth, and the threshold, are 1 / 3
    signed = rng.random((400, CLAIMS)) - 0.5
    sure, small = np.zeros(CLAIMS, dtype=bool), np.zeros(CLAIMS, dtype=bool)
    for (rows, _), share in zip(looks(), shares, strict=True):
        found = [ratio(column, np.ones(len(rows)), spent(share, 1)) for column in shown[rows].T]
        sure |= np.array([low(one) > 1 / 3 or high(one) < 1 / 3 for one in found])
        p = sign_flips(signed[rows], 999, 0)
        small |= np.array([held_to(share, one) <= t.ALPHA for one in p])
    return sure.mean(), small.mean()


def test_over_both_looks_errors_stay_within_the_level():
    assert sum(t.SPENT) == pytest.approx(1, abs=1e-12)  # absolute: the shares are written as decimals
    assert [share for _, share in looks()] == list(t.SPENT)
    assert max(wrong(t.SPENT)) <= t.ALPHA + SLACK


def test_without_spending_they_do_not():
    """The simulation above would tell: two looks at the whole level each."""
    assert min(wrong((1.0, 1.0))) > t.ALPHA + SLACK


@pytest.mark.parametrize("count", [200, 201, 333, 400, 401, 1000])
def test_the_first_look_keeps_halves_and_strata(count):
    strata = np.arange(count) % 3
    whole = inputs_of(count, strata)
    first, last = parts_of(Laid(whole), 0, True)
    part = first.laid.inputs
    assert len(part.tokens) == len(first.rows) == max(100, count // 4 // 2 * 2)
    for mine, its in ((part.half_a, whole.half_a), (part.half_b, whole.half_b)):
        assert len(mine) == len(part.tokens) // 2
        assert set(part.tokens[mine, 0]) <= set(whole.tokens[its, 0])
        assert np.ptp(np.bincount(strata[part.tokens[mine, 0]])) <= 2
    assert last.rows is None
    assert last.laid.inputs is whole
    others = [parts_of(Laid(whole), seed, True)[0].rows for seed in range(8)]
    assert np.array_equal(others[0], first.rows)
    assert any(not np.array_equal(rows, first.rows) for rows in others)


def test_every_input_is_as_likely_to_be_in_the_first_look():
    whole = inputs_of(230)
    counts = np.zeros(230)
    for seed in range(600):
        counts[whole.draw(100, seed)] += 1
    assert counts.sum() == 600 * 100
    assert np.abs(counts / 600 - 100 / 230).max() < 4.5 * np.sqrt(0.25 / 600)


def test_few_inputs_have_one_look_at_the_whole_level():
    assert [(len(part.laid.inputs.tokens), part.share) for part in parts_of(Laid(inputs_of(199)), 0, True)] == [
        (199, 1.0)
    ]
    plain, early = (
        audit_claims(Toy([[(TOP, TYPE)]], lambda a: a[..., 0]), [STACK], num_inputs=150, early=early)[0]
        for early in (False, True)
    )
    told = early.to_dict()
    assert told.pop("looks") == [150]
    assert told == plain.to_dict()
    assert "one look: an earlier one needs 200" in " ".join(early.summary().split())


def test_a_clear_claim_stops_and_an_open_one_goes_on():
    """The second cannot be told from a rival, whatever the number of inputs."""
    toy = Toy([[(TOP, TYPE)]], lambda a: a[..., 0])
    open_ = STACK + " when the current token is an open bracket"
    full, early = (audit_claims(toy, [STACK, open_], early=early) for early in (False, True))
    assert [r.verdict for r in full] == [r.verdict for r in early] == ["supported", "undecided"]
    assert [r.num_inputs for r in early] == [100, 400]
    assert [r.looks for r in early] == [(100, 400)] * 2
    assert all(r.looks == () and "looks" not in r.to_dict() for r in full)
    assert [r.level for r in early] == [1 - t.ALPHA * share / 2 for share in t.SPENT]
    said = [" ".join(r.summary().split()) for r in early]
    for told, look in zip(said, ("100 of 400 inputs (look 1 of 2)", "400 of 400 inputs (look 2 of 2)"), strict=True):
        assert look in told


def test_what_goes_on_is_corrected_for_all_claims():
    """At the last look the one claim left has the p-value of one among three, held to its share."""
    toy = Toy([[(TOP, TYPE), (TOP, TYPE)]], lambda a: a[..., 0])
    claims = [STACK, STACK.replace("H0", "H1"), "L0H1 uses the last unmatched open bracket to predict closing brackets"]
    early = audit_claims(toy, claims, early=True)
    assert [r.num_inputs for r in early] == [100, 100, 400]
    row = next(row for row in early[2].evidence if row["name"] == "matched")
    draws = max(1999, 200 * len(claims) - 1)
    assert row["null"]["p_value"] == pytest.approx(len(claims) / (draws + 1) / t.SPENT[1], rel=1e-9)


def test_that_nothing_ever_moved_is_no_early_word():
    """A rule that no interval stands behind waits for all inputs."""
    assert set(UNMEASURED) < {rule.name for rule in USE_RULES}
    assert {rule.name for rule in USE_RULES if rule.rests in (("still",), ("silent",))} == set(UNMEASURED)
    result = audit_claims(Toy([[(TOP, TYPE)]], lambda a: 0 * a[..., 0]), [STACK], early=True)[0]
    assert (result.use, result.num_inputs) == ("unused", 400)


def test_heads_together_wait_for_the_proof_that_one_is_idle():
    """Fifty inputs cannot show that a head adds nothing, and a claim about both would be supported for want of it."""
    toy = Toy([[(TOP, TYPE), (TOP, TYPE)]], lambda a: a[..., 0])
    claim = USES.replace("L1H0 uses", "L0H0 and L0H1 use")
    full, early = (audit_claims(toy, [claim], early=early)[0] for early in (False, True))
    assert full.verdict == early.verdict == "misleading"
    assert early.num_inputs == 400


@pytest.mark.parametrize(("marked", "expected"), [(0, False), (1, False), (8, True), (24, False)])
def test_a_rival_that_so_few_inputs_cannot_tell_sends_the_claim_on(marked, expected, monkeypatch):
    """In marked inputs the rival is the token before the previous one: eight of these are too few, four times so many
    are not; of 24 there are enough at once.
    """
    tokens = generator(0, "test/rare").integers(0, 4, (100, 12))
    tokens[:marked, 0] = 5

    def mine(tokens, grammar, visible):
        offset = np.where(tokens[:, :1] == 5, 2, 1)[..., None]
        return visible & (np.arange(12)[:, None] - np.arange(12) == offset)

    rival = Relation("mine", "my token", "mass", "tokens", mine)
    laid = Laid(Inputs(tokens, np.tile(np.tri(12, dtype=bool), (100, 1, 1)), np.zeros((100, 12), dtype=int), GRAMMAR))
    monkeypatch.setattr(laid, "rivals", lambda claim: [rival])
    assert thin(laid, laid.asked(Claim([(0, 0)], "previous")), 4.0) == expected


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("stack", ["L1H0 attends to the last unmatched open bracket", USES, "L1H0 attends to the previous token"]),
        ("constant", ["L1H0 attends to the last unmatched open bracket", USES]),
        ("uniform", ["L0H0 attends to all visible tokens evenly", "L1H0 attends to the last unmatched open bracket"]),
    ],
)
@pytest.mark.slow
def test_early_and_full_agree_on_constructed_models(name, claims):
    model = load_checkpoint(f"constructed/{name}")
    full, early = (audit_claims(model, claims, early=early) for early in (False, True))
    assert [r.verdict for r in early] == [r.verdict for r in full]
    again = audit_claims(model, claims, early=True)
    assert [r.to_dict() for r in again] == [r.to_dict() for r in early]


@pytest.mark.slow
def test_each_seed_of_a_population_stops_by_itself():
    """Of two kinds of model one is clear at once; the other leaves the claim open and is looked at again."""
    clear = [Toy([[(onto("previous"), TYPE)]], lambda a: clip(a[..., 0])) for _ in range(2)]
    open_ = [Toy([[(TOP, TYPE)]], lambda a: 0 * a[..., 0]) for _ in range(2)]
    early = audit_claims([*clear, *open_], [STACK], early=True)[0]
    assert [row["num_inputs"] for row in early.seeds] == [100, 100, 400, 400]
    assert early.num_inputs == 400
    said = " ".join(early.summary().split())
    assert "100 of 400 inputs (look 1 of 2) in 2 of them and 400 of 400 inputs (look 2 of 2) in 2 of them" in said
    full = audit_claims([*clear, *open_], [STACK])[0]
    assert [row["verdict"] for row in full.seeds] == [row["verdict"] for row in early.seeds]
    assert "num_inputs" not in full.seeds[0]
    assert early.level == full.level


def prefixes(count):
    """Different prefixes of nine brackets that end in two open ones, and what closes the first of these."""
    rng, found = generator(0, "test/labelled"), {}
    while len(found) < count:
        text, stack = "", []
        while len(text) < 9:
            if stack and (len(stack) == GRAMMAR.max_depth or rng.random() < 0.5):
                text += stack.pop()
            else:
                stack.append(")]"[rng.integers(2)])
                text += {")": "(", "]": "["}[stack[-1]]
        if set(text[-2:]) <= set("(["):
            found[text] = {"(": ")", "[": "]"}[text[-2]]
    return [LabelledInput(text, label) for text, label in found.items()]


def test_labelled_inputs_keep_their_labels():
    """Taken apart from its input, a label would be no task of this model."""
    toy, given = Toy([[(onto("previous"), TYPE)]], lambda a: a[..., 0]), prefixes(800)
    claim = "L0H0 uses the previous token to predict the label when the current token is an open bracket"
    full, early = (audit_claims(toy, [claim], given, early=early, grammar=GRAMMAR)[0] for early in (False, True))
    assert early.looks == (200, 800)
    assert (full.verdict, full.use, full.task) == ("supported", "used", "labels")
    assert (early.verdict, early.use, early.task, early.num_inputs) == (full.verdict, full.use, full.task, 200)
    laid = lay_out(given, toy, GRAMMAR)
    part = laid.part(np.array([3, 7]))
    assert part.tokens.tolist() == laid.tokens[[3, 7]].tolist()
    assert part.label.tolist() == laid.label[[3, 7]].tolist()
