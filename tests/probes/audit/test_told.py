"""What an audit tells of its numbers: rows and what they say, means over seeds, and reasons, word by word."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from closeness import assert_close
from interp.stats import Estimate, clopper_pearson
from probes.audit.decide import decide_pattern, decide_use
from probes.audit.effects import Effects
from probes.audit.model import Outcome
from probes.audit.pattern import Look
from probes.audit.population import over_seeds
from probes.audit.population_rules import most_claims
from probes.audit.rivals import Rival, Rivals
from probes.audit.rows import Evidence, Finding, bound, counted, deciding, proves, resting, use_rows, with_value
from probes.audit.rules import known
from probes.audit.stats import SUPPORTS, ratio
from probes.claims import Claim

BELOW = {0.0: -5e-324, 0.05: 0.05 - 1e-12, 0.1: 0.1 - 1e-12, 0.25: 0.25 - 1e-12, 0.5: 0.5 - 1e-12, 0.8: 0.8 - 1e-12}
PLAIN = Claim([(0, 0)], "stack-top")
TASK = SimpleNamespace(words="predict closing brackets", name="closers")


def span(low, value, high, n=200):
    return Estimate(value, low, high, n, "inputs")


def row_of(rows, name):
    (row,) = [row for row in rows if row.name == name]
    return row


# -- single rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "met"),
    [(0.5, 0.9, True), (BELOW[0.5], 0.9, None), (0.1, 0.5, None), (0.1, BELOW[0.5], False), (None, None, None)],
)
def test_a_row_meets_its_bound_for_sure_or_not_at_all(low, high, met):
    row = bound("pattern", "score", "words", span(low, 0.5, high), 0.5)
    assert (row.met, row.side, row.threshold, row.decides) == (met, ">=", 0.5, False)


@pytest.mark.parametrize(("number", "met"), [(49, False), (50, True)])
def test_a_count_is_enough_or_not(number, met):
    row = counted("rows", "words", number, 50, "positions")
    assert (row.met, row.threshold, row.estimate.value, row.estimate.n) == (met, 50, number, number)
    assert (row.unit, row.says) == ("count", None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"finding": "unused", "met": True}, "against"),
        ({"finding": "redundant", "group": "use"}, "for"),
        ({"finding": "not asked"}, "open"),
        ({"met": True}, "for"),
        ({"met": False}, "against"),
        ({"met": None}, "open"),
        ({"met": True, "threshold": None}, None),
        ({"met": True, "group": "use"}, None),
        ({"met": True, "group": "population", "name": "supported"}, "for"),
        ({"met": True, "group": "population", "name": "refuted"}, None),
        ({"met": True, "side": "not in", "estimate": span(0.8, 0.9, 1)}, "for"),
        ({"met": True, "side": "not in", "estimate": span(BELOW[0.8], 0.9, 1)}, None),
        ({"met": False, "side": "not in", "estimate": span(0.3, 0.4, 0.5)}, "against"),
        ({"met": True, "side": ">=", "estimate": span(0.3, 0.4, 0.5)}, "for"),
    ],
)
def test_what_a_row_says_of_the_claim(given, says):
    row = Evidence("pattern", "score", "words", span(0.1, 0.2, 0.3), ">=", 0.8)
    row = replace(row, **given)
    assert row.says == says
    told = row.to_dict()
    assert (told["says"], told["met"], told["decides"], told["value"]) == (says, row.met, False, row.estimate.value)


@pytest.mark.parametrize(
    ("group", "name", "side", "word"),
    [
        ("pattern", "score", ">=", "holds"), ("pattern", "share", "not in", "holds"),
        ("population", "supported", ">", "supported"), ("population", "floor", ">", "decidable"),
        ("use", "effect", ">=", "used"), ("use", "mean_fill", ">", "used"), ("use", "effect", "within", "unused"),
        ("use", "direct", "<", "unused"), ("use", "with_partners", ">=", "redundant"),
        ("use", "held_with_partners L0H1", ">=", "redundant"), ("use", "with_partners", "within", "unused"),
        ("power", "margin", ">", "decidable"), ("eligibility", "rows", ">=", "decidable"),
    ],
)  # fmt: skip
def test_what_a_row_is_required_for(group, name, side, word):
    assert proves({"group": group, "name": name, "side": side}) == word


@pytest.mark.parametrize(
    ("name", "unit"),
    [("margin L0H1", "logits"), ("margin", "logits"), ("effect", "share of the margin"),
     ("still", "share of the output"), ("aimed", "score or share"), ("items", "count")],
)  # fmt: skip
def test_the_unit_of_a_row(name, unit):
    assert Evidence("use", name, "words", span(0, 0, 0)).unit == unit


def test_rows_without_a_number_are_left_out_unless_something_rests_on_them():
    none = Estimate.undefined("none", 0, "inputs")
    rows = [
        Evidence("use", name, "words", estimate) for name, estimate in (("a", none), ("b", none), ("c", span(0, 0, 1)))
    ]
    told = with_value(resting("undecided", rows, ["b", "d"]))
    assert [(row.name, row.finding) for row in told] == [("b", "undecided"), ("c", None)]


@pytest.mark.parametrize(
    ("pattern", "use", "verdict", "asks_use", "marked"),
    [
        ("holds", "used", "supported", False, (True, False)), ("holds", "used", "supported", True, (True, True)),
        ("holds", "unused", "misleading", False, (True, True)), ("holds", "unused", "misleading", True, (True, True)),
        ("holds", "undecided", "undecided", True, (False, True)), ("fails", "used", "refuted", True, (True, False)),
        ("fails", "used", "refuted", False, (True, False)), ("undecided", "used", "undecided", True, (True, False)),
    ],
)  # fmt: skip
def test_the_verdict_rests_on_the_findings_that_give_it(pattern, use, verdict, asks_use, marked):
    of = {
        kind: Finding(
            word,
            "because",
            (Evidence(kind, "x", "x", span(0, 0, 1), finding=word), Evidence(kind, "y", "y", span(0, 0, 1))),
        )
        for kind, word in (("pattern", pattern), ("use", use))
    }
    told = deciding(of["pattern"], of["use"], verdict, asks_use)
    assert [[row.decides for row in finding.evidence] for finding in told] == [[yes, False] for yes in marked]
    bare = deciding(replace(of["pattern"], evidence=()), replace(of["use"], evidence=()), verdict, asks_use)
    for finding, yes, kind in zip(bare, marked, of, strict=True):
        assert [(r.group, r.name, r.decides, r.finding, r.estimate.n) for r in finding.evidence] == (
            [(kind, "nothing", True, finding.word, 0)] if yes else []
        )


# -- the rows of a use --------------------------------------------------------------------------------------

MUCH, SOME, NONE = span(0.3, 0.5, 0.7), span(0.01, 0.06, 0.2), span(-0.01, 0.0, 0.01)
SEEN = Effects(
    200, span(4.0, 5.0, 6.0), output_change=1.0, answer_change=1.0, aimed=0.7, every=MUCH, token=MUCH, total=MUCH,
    raw=MUCH, sham=NONE, direct=SOME, fill=MUCH, direct_fill=MUCH, partners=((1, 0),), with_partners=MUCH,
    raw_with_partners=MUCH, held_with_partners=MUCH, company=((1, 1),), in_company=MUCH,
)  # fmt: skip


def test_rows_of_use_are_shown_in_order_and_two_only_where_something_rests_on_them():
    names = ["margin", "every_head", "token", "effect", "raw", "sham", "direct", "mean_fill", "with_partners",
             "held_with_partners", "in_company"]  # fmt: skip
    assert [row.name for row in use_rows(SEEN)] == names
    assert not any(row.finding for row in use_rows(SEEN))
    more = use_rows(SEEN, "used", ["direct_fill", "raw_with_partners", "aimed", "edit", "still", "silent"])
    assert {row.name for row in more if row.finding} == {
        "direct_fill", "raw_with_partners", "aimed", "edit", "still", "silent",
    }  # fmt: skip
    assert (row_of(more, "aimed").estimate.value, row_of(more, "aimed").estimate.n) == (0.7, 200)
    assert (row_of(more, "edit").estimate.value, row_of(more, "edit").estimate.n) == (None, 200)
    for name, change in (("still", 1.0), ("silent", 1.0)):
        row = row_of(more, name)
        assert (row.estimate.value, row.side, row.threshold, row.met) == (change, "<=", 1e-5, True)


@pytest.mark.parametrize(
    ("name", "change", "met"),
    [
        ("margin", {"margin": span(0.0, 1, 2)}, False), ("margin", {"margin": span(1e-9, 1, 2)}, True),
        ("every_head", {"every": span(0, 0.25, 1)}, True), ("every_head", {"every": span(0, BELOW[0.25], 1)}, False),
        ("token", {"token": span(0, 0.25, 1)}, True), ("token", {"token": span(0, BELOW[0.25], 1)}, False),
        ("aimed", {"aimed": 0.5}, True), ("aimed", {"aimed": BELOW[0.5]}, False),
    ],
)  # fmt: skip
def test_power_is_there_from_its_bound_on(name, change, met):
    assert row_of(use_rows(replace(SEEN, **change), "undecided", ["aimed"]), name).met is met


def test_an_effect_without_a_number_has_no_power():
    nothing = Estimate.undefined("none", 0, "inputs")
    assert [row.name for row in use_rows(replace(SEEN, every=nothing)) if row.group == "power"] == ["margin", "token"]
    assert row_of(use_rows(replace(SEEN, every=nothing), "undecided", ["every_head"]), "every_head").met is False


REQUIRED = [
    # the word, the row, its estimate -> what is required, and whether it is met
    ("used", "effect", span(0.1, 0.5, 0.7), (">=", 0.1, True)),
    ("used", "effect", span(BELOW[0.1], 0.5, 0.7), (">=", 0.05, True)),
    ("used", "effect", span(BELOW[0.05], 0.5, 0.7), (">=", 0.1, None)),
    ("used", "effect", span(0.0, 0.05, BELOW[0.1]), (">=", 0.1, False)),
    ("used", "mean_fill", span(0.05, 0.06, 1), (">=", 0.05, True)),
    ("used", "mean_fill", span(BELOW[0.05], 0.06, 1), (">=", 0.05, None)),
    ("undecided", "mean_fill", span(BELOW[0.1], 0.5, 1), (">=", 0.05, True)),
    ("undecided", "mean_fill", span(0.1, 0.5, 1), ("<", 0.1, False)),
    ("used", "mean_fill", span(0.1, 0.5, 1), (">=", 0.05, True)),
    ("undecided", "mean_fill", span(0.0, 0.01, BELOW[0.05]), (">=", 0.05, False)),
    ("undecided", "fill_lost", span(0.0, 0.01, BELOW[0.05]), (">=", 0.05, False)),
    ("undecided", "fill_lost", span(0.1, 0.2, 0.3), (">=", 0.1, True)),
    ("used", "fill_lost", span(0.05, 0.2, 0.3), (">=", 0.05, True)),
    ("undecided", "gone", span(0.0, 0.01, BELOW[0.05]), (">=", 0.05, False)),
    ("used", "gone", span(0.05, 0.2, 0.3), (">=", 0.05, True)),
    ("used", "effect", span(0.05, 0.06, 0.07), (">=", 0.05, True)),
    ("used", "turned", span(BELOW[0.25], 0.3, 0.4), (">=", 0.05, True)),
    ("redundant", "fill_beside", span(0.1, 0.2, 0.3), (">=", 0.1, True)),
    ("used", "direct_fill", span(0.1, 0.5, 1), (">=", 0.05, True)),
    ("used", "in_company", span(-0.02, 0.0, BELOW[0.05]), ("within", 0.05, True)),
    ("used", "in_company", span(-0.05, 0.0, 0.01), ("within", 0.05, None)),
    ("undecided", "in_company", span(0.1, 0.2, 0.3), ("within", 0.05, None)),
    ("unused", "effect", span(-BELOW[0.05], 0.0, 0.01), ("within", 0.05, True)),
    ("unused", "effect", span(-0.01, 0.0, 0.05), ("within", 0.05, None)),
    ("unused", "direct", span(-0.9, 0.0, BELOW[0.1]), ("<", 0.1, True)),
    ("unused", "direct", span(-0.9, 0.0, 0.1), ("<", 0.1, False)),
    ("redundant", "with_partners", span(0.1, 0.5, 0.7), (">=", 0.1, True)),
]
FIELDS = {"effect": "total", "mean_fill": "fill"}


@pytest.mark.parametrize(("word", "name", "estimate", "expected"), REQUIRED)
def test_what_a_word_on_use_requires_of_its_rows(word, name, estimate, expected):
    row = row_of(use_rows(replace(SEEN, **{FIELDS.get(name, name): estimate}), word, [name]), name)
    assert (row.side, row.threshold, row.met, row.finding) == (*expected, word)


def test_only_the_effect_is_required_without_anything_resting_on_it():
    told = use_rows(SEEN, "used", ["raw"])
    assert {row.name for row in told if row.group == "use" and row.side} == {"effect", "raw"}


# -- the rows of a pattern ----------------------------------------------------------------------------------

RIVAL = Rival("r", "a rival", 400, span(0.4, 0.5, 0.6), 0.5)
LOOK = Look(
    score=span(0.8, 0.9, 0.95), top1=span(0.8, 0.9, 0.95), share=span(0.85, 0.9, 0.95), matched=span(0.7, 0.8, 0.9),
    on_sink=span(0, 0.01, 0.02), without_sink=span(0.8, 0.9, 0.95), by_value=span(0.8, 0.9, 0.95),
    matched_rows=np.zeros(200), when=None,
)  # fmt: skip


def pattern_of(*looks, p=0.001, untrained=0.1, rows=None, claim=PLAIN):
    asked = SimpleNamespace(claim=claim, rows=np.ones((400, 27), dtype=bool) if rows is None else rows)
    null = None if untrained is None else Estimate(untrained, None, None, 4, "seeds")
    heads = []
    for head, look in enumerate(looks):
        of_look = {name: value for name, value in look.items() if name != "rivals"}
        heads.append(((0, head), replace(LOOK, **of_look), Rivals(look.get("rivals", (RIVAL,)))))
    return decide_pattern(asked, heads, p, null, SimpleNamespace(half_b=np.arange(1, 400, 2)))


@pytest.mark.parametrize(
    ("name", "look", "how", "met"),
    [
        ("score", {}, {}, True), ("score", {"score": span(0.1, 0.2, 0.24)}, {}, False),
        ("share", {"share": span(0.8, 0.9, 1)}, {}, True), ("share", {"share": span(0, 0.1, 0.2)}, {}, True),
        ("share", {"share": span(0.3, 0.5, 0.7)}, {}, False), ("share", {"share": span(0.7, 0.8, 0.9)}, {}, None),
        ("matched", {}, {"p": 0.05}, True), ("matched", {}, {"p": 0.0500001}, None), ("matched", {}, {"p": None}, None),
        ("untrained", {}, {"untrained": 0.79}, True), ("untrained", {}, {"untrained": 0.8}, None),
        ("rival", {}, {}, True), ("rival", {"rivals": (replace(RIVAL, lead=span(-0.5, -0.2, -0.1)),)}, {}, False),
        ("rival", {"rivals": (replace(RIVAL, lead=span(-0.5, 0.2, 0.4)),)}, {}, None),
    ],
)  # fmt: skip
def test_whether_the_rows_of_a_pattern_are_met(name, look, how, met):
    assert row_of(pattern_of(look, **how).evidence, name).met is met


def test_the_rows_of_a_pattern_and_their_nulls():
    found = pattern_of({})
    assert [row.name for row in found.evidence] == [
        "rows", "score", "top1", "share", "matched", "untrained", "rival", "without_sink", "sink", "by_value",
    ]  # fmt: skip
    score, share = row_of(found.evidence, "score"), row_of(found.evidence, "share")
    assert score.estimate.null == {"uniform": 0.0, "untrained": 0.1}
    assert row_of(pattern_of({}, untrained=None).evidence, "score").estimate.null == {"uniform": 0.0, "untrained": None}
    assert row_of(found.evidence, "matched").estimate.null == {"p_value": 0.001}
    assert (share.side, share.threshold) == ("not in", 0.8)
    assert row_of(found.evidence, "rows").estimate.value == 200 * 27
    better = replace(RIVAL, words="a better one", lead=span(-0.3, -0.2, -0.1), lead_a=-0.1)
    nearer = replace(RIVAL, words="a nearer one", lead=span(-0.9, 0.1, 0.9))
    told = pattern_of({"rivals": (better, nearer, replace(RIVAL, lead=None))}).evidence
    assert row_of(told, "rival").words == "fits better than a nearer one"
    assert row_of(told, "better").words == "fits better than a better one"
    assert row_of(told, "better").met is False
    assert not [row for row in pattern_of({"rivals": (better,)}).evidence if row.name == "better"]
    assert {row.name: (row.side, row.threshold) for row in told} == {
        "rows": (">=", 100), "score": (">=", 0.25), "top1": (">=", 0.75), "share": ("not in", 0.8),
        "matched": (">", 0.0), "untrained": (">", 0.1), "rival": (">=", 0.0), "better": (">=", 0.0),
        "without_sink": (None, None), "sink": (None, None), "by_value": (None, None),
    }  # fmt: skip
    none = pattern_of({"rivals": (), "matched": None, "top1": None}, untrained=None)
    assert [row.name for row in none.evidence] == ["rows", "score", "share", "without_sink", "sink", "by_value"]
    assert none.because == "L0H0 scores 0.90 [0.80, 0.95] (n=200 inputs) on the last unmatched open bracket."


LOW, DOUBT = {"score": span(0.0, 0.1, 0.2)}, {"score": span(0.2, 0.3, 0.5)}


@pytest.mark.parametrize(
    ("looks", "word", "rule", "heads"),
    [
        (({}, {}), "holds", "pattern_holds", ["L0H0", "L0H1"]),
        (({}, LOW), "fails", "low_score", ["L0H1"]),
        ((DOUBT, LOW), "fails", "low_score", ["L0H1"]),
        (({}, DOUBT), "undecided", "score_in_doubt", ["L0H1"]),
    ],
)
def test_of_several_heads_the_word_is_that_of_the_worst(looks, word, rule, heads):
    found = pattern_of(*looks)
    assert (found.word, found.rule) == (word, rule)
    assert [part.split(" ")[0] for part in found.because[:-1].split(". ") if part.startswith("L0")] == heads
    assert {row.name.split(" ")[-1] for row in found.evidence if row.finding} == set(heads)
    assert row_of(found.evidence, "score L0H1").words == "L0H1: claim score"
    assert found.because.endswith(".")


@pytest.mark.parametrize(
    ("rows", "inputs", "different", "because", "names", "rests"),
    [
        (3, 3, 400, "The pattern cannot be decided: the relation applies to 3 rows of the half that decides (100 are "
         "needed) and to 3 of its inputs (50 are needed): about 20,000 inputs of this kind would do.",
         ["rows", "sequences"], ["rows", "sequences"]),
        (99, 99, 400, "The pattern cannot be decided: the relation applies to 99 rows of the half that decides (100 "
         "are needed) and to 99 of its inputs (50 are needed): about 500 inputs of this kind would do.",
         ["rows", "sequences"], ["rows"]),
        (0, 1, 400, "The pattern cannot be decided: the relation applies to 0 rows of the half that decides (100 are "
         "needed) and to 0 of its inputs (50 are needed): none has one.", ["rows", "sequences"], ["rows", "sequences"]),
    ],
)  # fmt: skip
def test_what_keeps_inputs_from_deciding_is_counted(rows, inputs, different, because, names, rests):
    there = np.zeros((400, 27), dtype=bool)
    for row in range(rows):
        there[1 + 2 * (row % inputs), 1 + row // inputs] = True
    there[::2] = True
    other = replace(RIVAL, words="another", different=different + 1)
    found = pattern_of({"rivals": (other, replace(RIVAL, different=different))}, rows=there)
    assert found.because == because
    assert [row.name for row in found.evidence] == names
    assert [row.name for row in found.evidence if row.finding] == rests
    counts = {"rows": rows, "sequences": inputs, "different": different}
    assert {row.name: row.estimate.value for row in found.evidence} == {
        name: counts[name] if rows else 0 for name in names
    }


def test_the_relation_that_fewest_rows_tell_apart_is_named():
    other = replace(RIVAL, words="another", different=8)
    found = pattern_of({"rivals": (other, replace(RIVAL, different=7))})
    assert found.because == (
        "L0H0 scores 0.90 [0.80, 0.95] (n=200 inputs) on the last unmatched open bracket, but the last unmatched open "
        "bracket cannot be told from a rival on these inputs: they differ in 7 rows, and 50 are needed."
    )
    assert [(row.name, row.estimate.value) for row in found.evidence if row.finding] == [("different", 7)]


def test_the_reason_of_doubts_tells_all_of_them():
    found = pattern_of(DOUBT | {"rivals": (replace(RIVAL, lead=span(-0.5, 0.1, 0.6)),)}, p=0.6)
    assert found.because == (
        "L0H0 scores 0.30 [0.20, 0.50] (n=200 inputs) on the last unmatched open bracket, but the score may be below "
        "0.25; "
        "keys of the same class at the same distance get as much (p = 0.600); a rival may fit as well."
    )


# -- heads that are claimed together ------------------------------------------------------------------------


def test_an_idle_head_is_told_with_its_own_numbers():
    nowhere = dict.fromkeys(("look", "look_raw", "both", "both_raw"), NONE)
    unused = replace(SEEN, **nowhere, total=NONE, raw=NONE, direct=NONE, fill=NONE, turned=NONE, partners=(),
                     with_partners=None,
                     company=(), raw_with_partners=None, held_with_partners=None, in_company=None)  # fmt: skip
    doubtful = replace(unused, total=SOME, raw=SOME)
    together = replace(SEEN, idle=(((0, 1), known(doubtful)), ((0, 2), known(unused))))
    found = decide_use(known(together), TASK, "L0H0, L0H1 and L0H2")
    assert (found.word, found.rule) == ("unused", "one_is_unused")
    assert found.because.startswith(
        "Exchanging what they read there moves 0.50 [0.30, 0.70] (n=200 inputs) of the margin, and as much without "
        "L0H1 and "
        "L0H2. The model does not use it to predict closing brackets: exchanging what L0H2 reads there moves 0.00"
    )
    assert [row.name for row in found.evidence if row.finding] == [
        "effect L0H2",
        "direct L0H2",
        "turned L0H2",
        "look L0H2",
        "both L0H2",
    ]
    assert row_of(found.evidence, "effect L0H2").words == "L0H2 alone: effect of the exchange, less sham"
    perhaps = decide_use(known(replace(SEEN, idle=(((0, 1), known(doubtful)),))), TASK, "L0H0 and L0H1")
    assert (perhaps.word, perhaps.rule) == ("undecided", "one_is_idle")
    assert [row.name for row in perhaps.evidence if row.finding] == ["effect L0H1"]


# -- over seeds ---------------------------------------------------------------------------------------------


def outcome(verdict, pattern, use="used", head=0, rows=(), of_use=()):
    return Outcome(
        ((0, head),), Finding(pattern, f"Pattern: {pattern}.", tuple(rows)),
        Finding(use, f"Use: {use}.", tuple(of_use)), verdict, 0.95,
    )  # fmt: skip


GOOD, BAD = outcome("supported", "holds"), outcome("refuted", "fails", "not asked")


@pytest.mark.parametrize(
    ("pairs", "claim", "because"),
    [
        (
            [(BAD, BAD)] + [(GOOD, GOOD)] * 5, PLAIN,
            "In 5 of 6 seeds some head of layer 0 supports the claim (supported in 5, refuted in 1): between 35.9 % "
            "and 99.6 % of such models. For instance seed 10, supported: Pattern: holds. Use: used. Otherwise seed 0, "
            "refuted: Pattern: fails. Use: not asked.",
        ),
        (
            [(BAD, BAD)] * 4 + [(replace(GOOD, heads=((0, 1),)), BAD)], PLAIN,
            "In 1 of 5 seeds some head of layer 0 supports the claim (refuted in 4, supported in 1); a head's number "
            "means nothing in another seed, so any head of the layer counts, and L0H0 itself in 0: between 0.5 % and "
            "71.6 % of such models. Even 5 of 5 would only show that at least 47.8 % do, which decides nothing: audit "
            "more seeds. For instance seed 0, refuted: Pattern: fails. Use: not asked. Otherwise seed 40, supported: "
            "Pattern: holds. Use: used.",
        ),
        (
            [(GOOD, BAD)] * 6, Claim([(0, 0), (1, 0)], "stack-top"),
            "In 6 of 6 seeds 2 heads support the claim (supported in 6), and L0H0 and L1H0 themselves in 0: between "
            "54.1 % and 100.0 % of such models. For instance seed 0, supported: Pattern: holds. Use: used.",
        ),
        (
            [(replace(GOOD, heads=((2, 1),)),) * 2] * 6, Claim([(2, 1)], "stack-top"),
            "In 6 of 6 seeds some head of layer 2 supports the claim (supported in 6): between 54.1 % and 100.0 % of "
            "such models. For instance seed 0, supported: Pattern: holds. Use: used.",
        ),
        (
            [(GOOD, BAD)] * 6, Claim([], "stack-top"),
            "In 6 of 6 seeds some head supports the claim (supported in 6): between 54.1 % and 100.0 % of such "
            "models. For instance seed 0, supported: Pattern: holds. Use: used.",
        ),
    ],
    ids=["most", "too few", "two layers", "another layer", "any"],
)  # fmt: skip
def test_the_reason_of_a_population(pairs, claim, because):
    assert over_seeds(claim, [10 * at for at in range(len(pairs))], pairs, 0.95).reason == because


def test_so_many_seeds_decide_so_many_claims():
    """8 of 8 show a majority at 1 - .05/6 and not at 1 - .05/7; the reason of seven says so."""
    assert [most_claims(n) for n in (4, 5, 6, 8, 10, 12)] == [0, 0, 1, 6, 25, 102]
    for number in (6, 7):
        floor = clopper_pearson(8, 8, level=1 - 0.05 / number).low
        assert (floor > 0.5) is (number == 6)
    found = over_seeds(PLAIN, range(8), [(GOOD, GOOD)] * 8, 1 - 0.05 / 7)
    assert found.verdict == "undecided"
    assert "8 seeds can decide 6 claims at once, so ask fewer together, or audit more seeds" in found.reason
    assert over_seeds(PLAIN, range(8), [(GOOD, GOOD)] * 8, 1 - 0.05 / 6).verdict == "supported"


def test_heads_of_one_model_count_once_in_a_mean_over_seeds():
    """By hand: two heads of each of 4 models are 4 units, each with the mean of its heads."""
    pairs = []
    for a, b in ((0.5, 0.6), (0.55, 0.65), (0.6, 0.7), (0.65, 0.75)):
        rows = [
            Evidence("pattern", f"top1 {head}", f"{head}: largest weight on it", Estimate(value, 0, 1, 100, "inputs"))
            for head, value in (("L0H0", a), ("L0H1", b))
        ]
        one = replace(GOOD, heads=((0, 0), (0, 1)), pattern=replace(GOOD.pattern, evidence=tuple(rows)))
        pairs.append((one, one))
    found = over_seeds(Claim([(0, 0), (0, 1)], "stack-top"), range(4), pairs, 0.95)
    (row,) = [row for row in found.evidence if row.name == "top1"]
    assert row.estimate.n == 4
    assert row.estimate.over == "seeds"
    assert_close(row.estimate.value, 0.625, dtype=torch.float64)
    expected = mean_of_units(np.array([0.55, 0.6, 0.65, 0.7]))
    assert_close(row.estimate.high - row.estimate.value, expected, dtype=torch.float64)
    assert row.words == "largest weight on it"


def mean_of_units(values):
    """Half a Student's t interval of a mean at 95 %, literally."""
    n = len(values)
    return stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)


def test_a_lead_over_a_rival_is_not_cut():
    """Scores reach far below -1 where most keys are claimed, so that leads may be beyond 2."""
    values = np.array([-3.2, -3.0, -3.1, -3.05])
    found = ratio(values, np.ones(4), 0.95, SUPPORTS["rival"])
    assert found.low < found.value < found.high < -2


def test_tails_of_one_place_are_averaged_over_the_seeds_in_which_they_fail():
    def failing(words):
        row = Evidence("pattern", "tail_top1", words, Estimate(0.4, 0.3, 0.5, 100, "inputs"))
        return replace(GOOD, pattern=replace(GOOD.pattern, evidence=(*GOOD.pattern.evidence, row)))

    best = [failing("top1 late"), failing("top1 late"), failing("top1 far"), GOOD]
    rows = over_seeds(PLAIN, range(4), [(one, one) for one in best], 0.95).evidence
    told = {row.words: row.estimate for row in rows if row.name == "tail_top1"}
    assert {words: one.n for words, one in told.items()} == {
        "top1 late; of the seeds in which it fails there": 2, "top1 far; of the seeds in which it fails there": 1,
    }  # fmt: skip
    assert all(0 <= end <= 1 for one in told.values() for end in (one.low, one.high) if end is not None)


def test_the_rows_of_the_verdicts_of_a_population():
    mixed = [GOOD] * 30 + [BAD] * 8 + [outcome("undecided", "undecided")] * 2
    found = over_seeds(PLAIN, range(40), [(one, one) for one in mixed], 0.9)
    rows = [row for row in found.evidence if row.group == "population"]
    counts = {"supported": 30, "refuted": 8, "undecided": 2, "pattern holds": 30, "pattern fails": 8,
              "pattern undecided": 2, "use used": 32, "use not asked": 8}  # fmt: skip
    assert {row.name: row.estimate for row in rows} == {
        name: clopper_pearson(count, 40, over="seeds", level=0.9) for name, count in counts.items()
    }
    assert [(r.name, r.side, r.threshold, r.met, r.decides) for r in rows[:3]] == [
        ("supported", ">", 0.5, True, True), ("refuted", ">", 0.5, False, False),
        ("undecided", None, None, None, False),
    ]  # fmt: skip
    assert (found.share, found.floor) == (rows[0].estimate, pytest.approx(0.05 ** (1 / 40)))
    few = over_seeds(PLAIN, range(3), [(GOOD, GOOD)] * 3, 0.9)
    sure = row_of(few.evidence, "floor")
    assert (sure.estimate.value, sure.estimate.n, sure.met, sure.decides) == (
        pytest.approx(0.05 ** (1 / 3)),
        3,
        False,
        True,
    )
    assert row_of(few.evidence, "supported").met is None
    half = over_seeds(PLAIN, range(40), [(one, one) for one in [GOOD] * 20 + [BAD] * 20], 0.9)
    assert [row_of(half.evidence, name).met for name in ("supported", "refuted")] == [None, None]
    assert [row.name for row in half.evidence if row.decides] == ["supported", "refuted"]


def test_a_population_has_a_row_a_seed():
    score = Evidence("pattern", "score L0H1", "score", span(0.1, 0.7, 0.9))
    effect = Evidence("use", "effect", "effect", span(0.1, 0.3, 0.9))
    chosen = outcome("supported", "holds", head=1, rows=[score], of_use=[effect])
    found = over_seeds(PLAIN, [7, 9], [(chosen, BAD), (GOOD, GOOD)], 0.95)
    assert found.rows == [
        {"seed": 7, "heads": [[0, 1]], "pattern": "holds", "use": "used", "verdict": "supported", "score": 0.7,
         "effect": 0.3, "named_verdict": "refuted"},
        {"seed": 9, "heads": [[0, 0]], "pattern": "holds", "use": "used", "verdict": "supported", "score": None,
         "effect": None, "named_verdict": "supported"},
    ]  # fmt: skip


def means(*seeds, group="pattern", name="score", side=">=", threshold=0.25, null=None):
    """The mean over seeds of a row that has these values in them."""
    outcomes = [
        outcome("supported", "holds", rows=[
            Evidence(group, name, f"L0H{i}: words",
                     Estimate(value, None, None, 9, "inputs", (null or {}).get(i), "none"),
                     side, threshold, decides=i == 0)
        ])
        for i, value in enumerate(seeds)
    ]  # fmt: skip
    rows = over_seeds(PLAIN, range(len(seeds)), [(one, one) for one in outcomes], 0.95).evidence
    return next((row for row in rows if row.group != "population"), None)


def test_numbers_are_averaged_over_the_seeds_that_have_them():
    row = means(0.4, 0.6, None, 0.8)
    assert row.estimate.value == pytest.approx(0.6)
    # 4.303 is Student's t with two degrees of freedom.
    assert row.estimate.low == pytest.approx(0.6 - 4.303 * 0.2 / 3**0.5, rel=1e-3)
    assert (row.estimate.n, row.estimate.over, row.name) == (3, "seeds", "score")
    assert row.words == "words; of the 3 seeds that have it; decides in 1 of 4 seeds"
    assert means(None, None) is None
    assert (
        means(0.4, 0.5, name="rival L0H1").words
        == "fits better than each seed's nearest rival; decides in 1 of 2 seeds"
    )
    for name in ("rows", "sequences", "different", "items", "better"):
        assert means(1.0, 2.0, name=name) is None
    null = {
        0: {"p_value": 0.1, "uniform": 0.0},
        1: {"p_value": 0.2, "uniform": 3.0},
        2: {"p_value": 0.9, "uniform": None},
    }
    assert means(0.4, 0.5, 0.6, null=null).estimate.null == {"p_value": 0.2, "uniform": 1.5}
    assert means(0.4, 0.5).estimate.null is None


@pytest.mark.parametrize(
    ("values", "how", "met"),
    [
        ((0.5, 0.5), {}, True), ((0.25, 0.25), {}, True), ((BELOW[0.25],) * 2, {}, False), ((0.2, 0.4), {}, None),
        ((0.3, 0.3), {"side": ">", "threshold": 0.0}, True), ((0.3, 0.3), {"side": "<", "threshold": 0.5}, None),
        ((0.3, 0.3), {"side": ">", "threshold": None}, None),
        ((0.8, 0.8), {"side": "not in"}, True), ((0.2, 0.2), {"side": "not in"}, True),
        ((BELOW[0.8],) * 2, {"side": "not in"}, False), ((0.2 + 1e-9,) * 2, {"side": "not in"}, False),
        ((0.1, 0.5), {"side": "not in"}, None), ((0.5, 0.9), {"side": "not in"}, None),
        ((0.1, 0.1), {"group": "use", "name": "effect", "side": None, "threshold": None}, True),
        ((BELOW[0.1],) * 2, {"group": "use", "name": "effect"}, False),
        ((0.5, 0.5), {"group": "use", "name": "raw"}, None),
    ],
)  # fmt: skip
def test_whether_a_mean_over_seeds_is_where_single_audits_must_be(values, how, met):
    assert means(*values, **how).met is met
