"""What an audit shows agrees with what it says, for every verdict and every cause of it: picture and table."""

import re
import textwrap
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from interp import load_checkpoint
from interp.plots.style import SAYING
from interp.stats import Estimate
from interp.task_check import TaskCheck
from intervals import INTERVAL, unnamed, unnamed_of_figure
from probes import audit_claim, scan_heads
from probes.audit.analyzer import _of_model, _of_seeds
from probes.audit.bench import FAMILIES, make_case
from probes.audit.decide import decide_pattern, decide_use
from probes.audit.effects import Effects
from probes.audit.model import Outcome
from probes.audit.pattern import Look
from probes.audit.population import over_seeds
from probes.audit.result import AuditResult
from probes.audit.rivals import Rival, Rivals
from probes.audit.rows import LOGITS, Finding, deciding
from probes.audit.rules import known
from probes.audit.verdicts import verdict_of
from probes.audit.words import numbers_of, required
from probes.claims import Claim

PLAIN = Claim([(0, 0)], "stack-top")
USED = Claim([(0, 0)], "stack-top", uses="closers")
COMMON = {"task": "closers", "level": 0.95, "num_claims": 1, "num_inputs": 400, "parts": PLAIN.to_dict(), "seed": 0}
SAYS = {"supported": {"for"}, "misleading": {"for", "against"}, "refuted": {"against"}, "undecided": {"open"}}
TASK = SimpleNamespace(words="predict closing brackets", name="closers")


def near(value: float, half: float = 0.01, n: int = 200) -> Estimate:
    return Estimate(value, value - half, value + half, n, "inputs")


# -- every invariant that a result's table and picture must have -------------------------------------------


def check_told(result) -> None:
    """The rows that decide are there, marked, with verdict and reason; nothing drawn contradicts what is said."""
    rows = result.evidence
    rests = [row for row in rows if row["decides"]]
    assert rests
    # A claim that misleads does so by a pattern that holds and is of no use; of a population, by its seeds.
    assert {row["says"] for row in rests} == (SAYS[result.verdict] if not result.seeds else {_of_all(result.verdict)})
    for row in rows:
        if row["threshold"] is not None:
            check_required(row)
        if row["says"] == "for":
            assert row["met"] is True, row
        assert (row["unit"] == LOGITS) == (row["name"].split(" ")[0] == "margin")
    check_picture(result, rests)
    check_table(result, rests)


def _of_all(verdict: str) -> str:
    return "against" if verdict == "misleading" else next(iter(SAYS[verdict]))


def check_required(row) -> None:
    """What a threshold is for is said with it, and a row that meets it says nothing else."""
    word = required(row).split(" if ")[0]
    said = {"holds": "for", "used": "for", "redundant": "for", "supported": "for",
            "unused": "against", "refuted": "against", "misleading": "against", "decidable": "open"}  # fmt: skip
    assert word in said, row
    if row["met"] and row["says"] in ("for", "against"):
        assert row["says"] == said[word], row
    if row["met"] is False and row["says"]:
        assert row["says"] != said[word] or word == "decidable", row


def check_picture(result, rests) -> None:
    fig = result.figure()
    assert not unnamed_of_figure(fig)
    plain = re.sub(r"<[^>]*>", " ", fig.layout.title.text)
    assert plain.lower().startswith(result.verdict)
    assert unescaped(result.reason) in unescaped(fig.layout.title.subtitle.text.replace("<br>", " "))
    drawn = {}
    for trace in fig.data:
        if trace.type != "scatter" or trace.mode != "markers":
            continue
        says = next(name for name, (_, symbol, _) in SAYING.items() if symbol == trace.marker.symbol)
        assert trace.marker.color == SAYING[says][0]
        ticks = fig.layout[f"yaxis{trace.yaxis[1:]}"]
        for y, told in zip(trace.y, trace.customdata, strict=True):
            label = ticks.ticktext[list(ticks.tickvals).index(y)]
            drawn.setdefault(trace.xaxis, []).append((told, says, label))
    # Each row is drawn once, as what it says, among rows of its own unit.
    units = {}
    for axis, marks in drawn.items():
        for told, says, label in marks:
            (row,) = [r for r in result.evidence if unescaped(told).startswith(f"{r['words']}: {numbers_of(r)}")]
            assert (row["says"] or "nothing") == says
            units.setdefault(axis, set()).add(row["unit"])
            assert ("▶" in label) == row["decides"]
            assert required(row) in unescaped(label)
    assert all(len(found) == 1 for found in units.values())
    labels = [label for axis in fig.select_yaxes() for label in axis.ticktext or ()]
    framed = [shape for shape in fig.layout.shapes if shape.type == "rect"]
    assert len(framed) == sum("▶" in label for label in labels) == len(rests)
    missing = [row for row in rests if row["value"] is None]
    assert sum("no number" in (a.text or "") for a in fig.layout.annotations) == len(missing)
    for shape in framed:
        axis = fig.layout[f"yaxis{shape.yref[1:]}"]
        inside = [x for x, y in zip(axis.ticktext, axis.tickvals, strict=True) if shape.y0 < y < shape.y1]
        assert len(inside) == 1
        assert "▶" in inside[0]


def check_table(result, rests) -> None:
    lines = result.summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert f"Verdict: {result.verdict}" in lines[1] or f"Verdict: {result.verdict}" in lines[2]
    assert "".join(result.reason.split()) in "".join(result.summary().split())
    assert sum(line.startswith("> ") for line in lines) == len(rests)
    # Each interval has its n: in words, or in the column behind it.
    said = len(textwrap.wrap(result.claim, 80)) + 1 + len(textwrap.wrap(result.reason, 80))
    assert not unnamed(" ".join(lines[:said]))
    assert all(re.search(r"\] +\d+", line) for line in lines[said:] if INTERVAL.search(line))
    assert not re.search(r"(?<![\d.e])-0\.0*(?!\d)|\bnan\b|\bNone\b", result.summary())


def unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


# -- every cause of a finding ------------------------------------------------------------------------------

GOOD = Look(
    score=near(0.9), top1=near(0.95), share=near(0.97), matched=near(0.8), on_sink=near(0.02),
    without_sink=near(0.9), by_value=near(0.9),
    matched_rows=np.zeros(200), when=None,
)  # fmt: skip
FAR = Rival("r", "a rival", 400, near(0.5), 0.5)
BETTER = Rival("b", "a better one", 400, near(-0.2), -0.2)
NEARER = Rival("n", "a nearer one", 400, Estimate(-0.1, -0.9, 0.7, 200, "inputs"), 0.1)
# What is seen, the p-value of the matched null, and what untrained heads score -> the word, and the rows it rests on.
PATTERNS = {
    "all is well": ({}, 0.001, 0.1, "holds", ["score", "top1", "share", "matched", "untrained", "rival"]),
    "few rows fit, all alike": ({"share": near(0.05)}, 0.001, 0.1, "holds",
                                ["score", "top1", "share", "matched", "untrained", "rival"]),
    "no score": ({"score": near(0.1)}, 0.001, 0.0, "fails", ["score"]),
    "no score, and a rival": ({"score": near(0.1), "rivals": (BETTER,)}, 0.001, 0.0, "fails", ["score", "rival"]),
    "not on top": ({"top1": near(0.5)}, 0.001, 0.0, "fails", ["top1"]),
    "a rival": ({"rivals": (BETTER,)}, 0.001, 0.0, "fails", ["rival"]),
    "a rival, another nearer": ({"rivals": (BETTER, NEARER)}, 0.001, 0.0, "fails", ["better"]),
    "mixed": ({"share": near(0.5)}, 0.001, 0.0, "fails", ["share"]),
    "mixed, with a hint": ({"share": near(0.5), "when": ("it rains", 1.0, 200)}, 0.001, 0.0, "fails", ["share"]),
    "score unsure": ({"score": near(0.25, 0.05)}, 0.001, 0.0, "undecided", ["score"]),
    "top unsure": ({"top1": near(0.75, 0.05)}, 0.001, 0.0, "undecided", ["top1"]),
    "share unsure": ({"share": near(0.8, 0.05)}, 0.001, 0.0, "undecided", ["share"]),
    "keys alike": ({"matched": near(0.0)}, 0.6, 0.0, "undecided", ["matched"]),
    "untrained as good": ({}, 0.001, 0.95, "undecided", ["untrained"]),
    "a rival as good": ({"rivals": (NEARER,)}, 0.001, 0.0, "undecided", ["rival"]),
    "no interval": ({"score": Estimate(0.9, None, None, 1, "inputs")}, 0.001, 0.1, "undecided", ["score", "untrained"]),
    "nothing to see": ({"score": Estimate.undefined("none", 0, "inputs")}, None, None, "undecided", ["score"]),
    "two doubts": ({"score": near(0.25, 0.05), "rivals": (NEARER,)}, 0.001, 0.0, "undecided", ["score", "rival"]),
}  # fmt: skip

POWER = {"items": 200, "margin": near(10.0), "every": near(1.9), "token": near(2.0), "aimed": 1.0}
SEEN = POWER | {"total": near(0.5), "raw": near(0.6), "sham": near(0.1), "direct": near(0.5), "fill": near(0.4)}
NONE = POWER | {"total": near(0.0), "raw": near(0.0), "sham": near(0.0), "direct": near(0.0), "fill": near(0.0)}
NONE |= {name: near(0.0) for name in ("look", "look_raw", "both", "both_raw", "turned")}
PARTNER = {
    name: near(0.6)
    for name in ("with_partners", "raw_with_partners", "held_with_partners", "left_beside", "fill_beside")
} | {"partners": ((1, 0),)}
LOOKS = NONE | {"gone": near(0.6), "pattern_change": 1.0}
IDLE = {"partners": ((1, 0),), "with_partners": near(0.0), "raw_with_partners": near(0.0)}
COMPANY = {"company": ((1, 1),), "in_company": near(0.3)}
SOME = near(0.07)  # neither an effect nor none
NO_NUMBER = Estimate.undefined("no items", 0, "inputs")
# Effects -> the word, and the rows it rests on.
USES = {
    "too few": ({"items": 12, "margin": near(1.0)}, "undecided", ["items"]),
    "none at all": ({"items": 0, "margin": NO_NUMBER}, "undecided", ["items"]),
    "dead": (POWER | {"dead": "hook_z of layer 0 is not pattern times values"}, "undecided", ["edit"]),
    "still": ({"items": 200, "margin": near(0.0, 0.0), "output_change": 0.0}, "unused", ["still"]),
    "silent": (POWER | {"answer_change": 0.0, "token": None, "every": None}, "unused", ["silent"]),
    "silent, unpaired": (POWER | {"answer_change": 0.0, "paired": False}, "unused", ["silent"]),
    "no margin": ({"items": 200, "margin": near(-1.0)}, "undecided", ["margin"]),
    "no power": (POWER | {"every": near(0.1), "token": near(0.1)}, "undecided", ["every_head", "token"]),
    "no power, not aimed": (POWER | {"every": near(0.1), "aimed": 0.1}, "undecided", ["every_head", "aimed"]),
    "used": (SEEN, "used", ["effect", "raw", "mean_fill"]),
    "used, made up for": (SEEN | {"total": near(0.07), "raw": near(0.07), "direct_fill": near(0.3)}, "used",
                          ["effect", "raw", "direct", "direct_fill"]),
    "made up for": (SEEN | {"total": near(0.0), "turned": near(0.0)}, "undecided",
                    ["effect", "raw", "direct", "turned"]),
    "not the mean": (SEEN | {"fill": near(-0.2), "fill_lost": near(0.0), "direct": near(0.0)}, "undecided",
                     ["mean_fill", "fill_lost"]),
    "answers, not the margin": (SEEN | {"fill": near(0.0), "fill_lost": near(0.3)}, "used",
                                ["effect", "raw", "fill_lost"]),
    "not as it is": (SEEN | {"raw": near(0.05), "direct": near(0.0)}, "undecided", ["raw"]),
    "by where it looks": (LOOKS | {"look": near(0.5), "look_raw": near(0.6)}, "used",
                          ["look", "look_raw", "gone"]),
    "by both": (LOOKS | {"both": near(0.5), "both_raw": near(0.6)}, "used", ["both", "both_raw", "gone"]),
    "by nothing lost": (LOOKS | {"both": near(0.5), "both_raw": near(0.6), "gone": near(0.0)}, "undecided", ["gone"]),
    "redundant": (NONE | PARTNER, "redundant",
                  ["with_partners", "raw_with_partners", "left_beside", "held_with_partners", "fill_beside"]),
    "by answers": (NONE | {"turned": near(0.4), "fill": near(0.4)}, "used", ["mean_fill", "turned"]),
    "against": (NONE | {"total": near(-0.4), "raw": near(-0.4)}, "undecided", ["effect", "raw"]),
    "answers turn": (NONE | {"turned": near(0.1)}, "undecided", ["turned"]),
    "in company": (NONE | COMPANY, "undecided", ["in_company"]),
    "by something else": (NONE | {"fill": near(0.4)}, "undecided", ["mean_fill"]),
    "unused": (NONE, "unused", ["effect", "direct", "turned", "look", "both"]),
    "unused as it is": (NONE | {"total": near(0.06)}, "unused", ["raw", "direct", "turned", "look", "both"]),
    "unused with partners": (NONE | IDLE, "unused",
                             ["effect", "direct", "turned", "with_partners", "look", "both"]),
    "unused in company": (NONE | COMPANY | {"total": SOME, "in_company": near(0.0)},
                          "unused", ["raw", "direct", "turned", "look", "both", "in_company"]),
    "neither": (NONE | {"total": SOME, "raw": SOME}, "undecided", ["effect"]),
    "neither, with partners": (NONE | IDLE | {"with_partners": SOME, "raw_with_partners": SOME}, "undecided",
                               ["with_partners"]),
    "neither, directly": (NONE | {"direct": near(0.1)}, "undecided", ["direct"]),
    "one idle": (SEEN | {"idle": (((0, 1), known(Effects(**NONE))),)}, "unused",
                 ["effect L0H1", "direct L0H1", "turned L0H1", "look L0H1", "both L0H1"]),
    "one perhaps idle": (SEEN | {"idle": (((0, 1), known(Effects(**(NONE | {"total": SOME, "raw": SOME})))),)},
                         "undecided", ["effect L0H1"]),
}  # fmt: skip


def pattern_of(name: str) -> Finding:
    changed, p, untrained, _, _ = PATTERNS[name]
    null = None if untrained is None else Estimate(untrained, None, None, 4, "seeds")
    asked = SimpleNamespace(claim=PLAIN, rows=np.ones((400, 27), dtype=bool))
    rivals = Rivals(changed.get("rivals", (FAR,)))
    looks = [((0, 0), replace(GOOD, **{name: x for name, x in changed.items() if name != "rivals"}), rivals)]
    return decide_pattern(asked, looks, p, null, SimpleNamespace(half_b=np.arange(200)))


def use_of(name: str) -> Finding:
    return decide_use(known(Effects(**USES[name][0])), TASK, "L0H0")


def outcome(claim: Claim, pattern: Finding, use: Finding) -> Outcome:
    verdict = verdict_of(pattern.word, use.word, claim)
    marked = deciding(pattern, use, verdict, claim.uses is not None)
    return Outcome(((0, 0),), *marked, verdict, 0.95)


def rests_on(finding: Finding) -> list[str]:
    return [row.name for row in finding.evidence if row.finding is not None]


@pytest.mark.parametrize("name", PATTERNS)
def test_each_cause_of_a_pattern_is_marked(name):
    found = pattern_of(name)
    assert (found.word, rests_on(found)) == PATTERNS[name][3:]
    assert {row.finding for row in found.evidence} <= {None, found.word}


@pytest.mark.parametrize("name", USES)
def test_each_cause_of_a_use_is_marked(name):
    found = use_of(name)
    assert (found.word, rests_on(found)) == USES[name][1:]
    assert {row.finding for row in found.evidence} <= {None, found.word}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.slow
def test_each_cause_of_a_pattern_is_drawn(name):
    found = pattern_of(name)
    for claim, use in ((PLAIN, "used"), (PLAIN, "unused"), (USED, "used"), (USED, "unused"), (USED, "neither")):
        check_told(_of_model(claim, outcome(claim, found, use_of(use)), COMMON))


@pytest.mark.parametrize("name", USES)
@pytest.mark.slow
def test_each_cause_of_a_use_is_drawn(name):
    found = use_of(name)
    for claim in (PLAIN, USED):
        check_told(_of_model(claim, outcome(claim, pattern_of("all is well"), found), COMMON))


def test_a_result_has_no_field_that_its_dict_lacks():
    """Kept audits are restored from their dicts field by field; the rules that decided stay with the findings."""
    of_model = outcome(PLAIN, pattern_of("no score"), use_of("used"))
    assert (of_model.pattern.rule, of_model.use.rule) == ("low_score", "used")
    names = {field.name for field in fields(AuditResult)}
    assert {*_of_model(PLAIN, of_model, COMMON).to_dict()} == names - {"looks", "drawn"}  # where there are any
    given = {**COMMON, "looks": (100, 400), "drawn": "200 of 32 random tokens"}
    assert {*_of_model(PLAIN, of_model, given).to_dict()} == names
    found = over_seeds(PLAIN, range(8), [(of_model, of_model)] * 8, 0.95)
    assert found.rules == ("most_fail", "most_used", "most_refute")


def test_a_use_that_cannot_be_asked_leaves_its_reason_to_be_drawn():
    none = Finding("not asked", "Use cannot be examined: no task of this model is known.", ())
    result = _of_model(USED, outcome(USED, pattern_of("all is well"), none), COMMON)
    assert result.verdict == "undecided"
    check_told(result)
    (row,) = [row for row in result.evidence if row["decides"]]
    assert row["value"] is None
    assert row["reason"] == none.because


@pytest.mark.parametrize(
    ("rows", "rival", "expected"), [(3, 400, ["rows", "sequences"]), (400, 7, ["different"])], ids=["few", "alike"]
)
def test_what_keeps_inputs_from_deciding_is_drawn(rows, rival, expected):
    asked = SimpleNamespace(claim=PLAIN, rows=np.zeros((400, 27), dtype=bool))
    asked.rows[: rows // 2, 1:3] = True
    rivals = Rivals((Rival("r", "a rival <b>", rival, None, None),))
    found = decide_pattern(asked, [((0, 0), GOOD, rivals)], 0.001, None, SimpleNamespace(half_b=np.arange(400)))
    assert (found.word, rests_on(found)) == ("undecided", expected)
    check_told(_of_model(PLAIN, outcome(PLAIN, found, use_of("used")), COMMON))


def test_of_several_heads_those_decide_that_gave_the_word():
    asked = SimpleNamespace(claim=PLAIN, rows=np.ones((400, 27), dtype=bool))
    looks = [((0, 0), GOOD, Rivals((FAR,))), ((0, 1), replace(GOOD, score=near(0.1)), Rivals((FAR,)))]
    found = decide_pattern(asked, looks, 0.001, None, SimpleNamespace(half_b=np.arange(200)))
    assert (found.word, rests_on(found)) == ("fails", ["score L0H1"])
    check_told(_of_model(PLAIN, outcome(PLAIN, found, use_of("used")), COMMON))


# -- populations -------------------------------------------------------------------------------------------

SEEDS = {
    "supported": ({"all is well": 40}, "used", "supported", ["supported"]),
    "supported, idle": ({"all is well": 40}, "unused", "supported", ["supported"]),
    "refuted": ({"no score": 40}, "used", "refuted", ["refuted"]),
    "undecided": ({"score unsure": 40}, "used", "undecided", ["supported", "undecided"]),
    "divided": ({"all is well": 20, "no score": 20}, "used", "undecided", ["supported", "refuted"]),
    "too few": ({"no score": 4}, "used", "undecided", ["floor"]),
    "eight": ({"no score": 8}, "used", "refuted", ["refuted"]),
}


@pytest.mark.parametrize("name", SEEDS)
def test_of_a_population_the_seeds_that_decide_are_drawn(name):
    patterns, use, verdict, expected = SEEDS[name]
    outcomes = [outcome(PLAIN, pattern_of(p), use_of(use)) for p, n in patterns.items() for _ in range(n)]
    found = over_seeds(PLAIN, range(len(outcomes)), [(o, o) for o in outcomes], 0.95)
    result = _of_seeds(PLAIN, found, COMMON)
    assert result.verdict == verdict
    assert [row["name"] for row in result.evidence if row["decides"]] == expected
    check_told(result)


# -- whole audits ------------------------------------------------------------------------------------------

CLAIM = "L1H0 attends to the last unmatched open bracket"


@pytest.mark.parametrize("name", ["stack", "constant", "uniform", "balanced"])
@pytest.mark.parametrize("ending", ["", " to predict closing brackets"], ids=["attends", "uses"])
@pytest.mark.slow
def test_constructed_models_show_what_decides(name, ending):
    claim = CLAIM.replace("attends to", "uses") + ending if ending else CLAIM
    model = load_checkpoint(f"constructed/{name}")
    check_told(audit_claim(model, claim if model.cfg.n_layers > 1 else claim.replace("L1", "L0"), num_inputs=200))


def test_the_bundled_population_shows_what_decides():
    result = audit_claim(load_checkpoint("dyck-standard"), CLAIM, num_inputs=120)
    assert result.verdict == "refuted"
    check_told(result)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_of_the_bench_shows_what_decides(family):
    case = make_case(family, 0, 3)
    check_told(audit_claim(case.model, case.claim, case.given, case.task, seed=0, task_check=False))


def test_a_scan_writes_every_verdict_on_its_cell():
    found = scan_heads(load_checkpoint("constructed/constant"), ["stack-top", "all", "previous"], num_inputs=160)
    mass, even, _ = found.figure().data
    assert {fit.pattern for fit in found.fits} >= {"holds", "fails", None}
    by = {(f"L{fit.layer}H{fit.head}", fit.kind, fit.words): fit for fit in found.fits}
    signs = {"holds": "✓", "undecided": "?", "fails": "✗", None: ""}
    for heat, kind, relations in (
        (mass, "mass", ["the last unmatched open bracket", "the previous token"]),
        (even, "even", [by_words for _, one, by_words in dict.fromkeys(by) if one == "even"][:1]),
    ):
        order = [by[head, kind, words] for words in relations for head in heat.x]
        assert [mark for row in heat.text for mark in row] == [signs[fit.pattern] for fit in order]
        for hover, fit in zip([hover for row in heat.customdata for hover in row], order, strict=True):
            assert unescaped(fit.reason) in unescaped(hover.replace("<br>", " "))
    assert max(map(len, found.summary().splitlines())) <= 80


def test_a_use_that_no_seed_was_asked_for_is_said_alike_everywhere():
    none = Finding("not asked", "Use is not asked, since the pattern is not shown to hold.", ())
    outcomes = [outcome(PLAIN, pattern_of("no score"), none) for _ in range(3)]
    result = _of_seeds(PLAIN, over_seeds(PLAIN, range(3), [(o, o) for o in outcomes], 0.95), COMMON)
    assert (result.verdict, result.use) == ("undecided", "not asked")
    for text in (result.summary(), result.figure().layout.title.subtitle.text.replace("<br>", " ")):
        assert not re.search(r"use\s+undecided", text)
        assert re.search(r"use\s+not\s+asked", text)


def test_a_bound_that_is_met_and_speaks_against_the_claim_says_what_it_shows():
    still = _of_model(USED, outcome(USED, pattern_of("all is well"), use_of("still")), COMMON)
    seeds = [outcome(PLAIN, pattern_of("no score"), use_of("used")) for _ in range(40)]
    refuted = _of_seeds(PLAIN, over_seeds(PLAIN, range(40), [(o, o) for o in seeds], 0.95), COMMON)
    for result, told in ((still, "unused if ≤ 1e-05"), (refuted, "refuted if > 0.5")):
        labels = [unescaped(label) for axis in result.figure().select_yaxes() for label in axis.ticktext or ()]
        assert any(label.endswith(f"{told}: ✗ against") for label in labels)
        assert f"({told})" in result.summary()


def test_the_task_check_is_printed_once():
    audit = audit_claim(load_checkpoint("constructed/stack"), CLAIM, num_inputs=160)
    checked = replace(audit, task_check=TaskCheck("closing", near(0.9), 0.99, 200))
    assert checked.summary().count("99 % of places") == 1
