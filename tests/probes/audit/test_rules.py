"""The tables of rules that an audit decides by: every bound from both sides, every rule, every row of the verdict."""

import ast
import math
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import probes.audit
from case_studies.head_claims.moved import own_thresholds
from interp.stats import CONFIDENCE, Estimate, clopper_pearson
from probes.audit import rules_table
from probes.audit import thresholds as limits
from probes.audit.conditions import Bound, Not, all_of, any_of
from probes.audit.decide import decide_use
from probes.audit.effects import Effects
from probes.audit.named import CONDITIONS
from probes.audit.named import NUMBERS as NAMED
from probes.audit.pattern_rules import PatternEvidence, pattern_evidence, pattern_phrases
from probes.audit.population_rules import SeedShares, seed_shares
from probes.audit.rivals import Rival, Rivals
from probes.audit.rows import Finding
from probes.audit.rules import Rule, decide, first, joined, known
from probes.audit.stats import units_to_exclude, unseen
from probes.audit.tables import TABLES
from probes.audit.tails import Tail
from probes.audit.use import STAGES
from probes.audit.use_rules import NO_CHANGE, USE_RULES, Idle, Together, use_phrases
from probes.audit.verdicts import VERDICTS, reason_of, verdict_of
from probes.claims import Claim

TASK = SimpleNamespace(words="predict closing brackets", name="closers")
PLAIN, USE = Claim([(0, 0)], "stack-top"), Claim([(0, 0)], "stack-top", uses="closers")
MAINLY, EVENLY = Claim([(0, 0)], "stack-top", mainly=True), Claim([(0, 0)], "all")


def span(low, value, high, n=10_000):
    return Estimate(value, low, high, n, "inputs")


# -- evidence that one rule decides -------------------------------------------------------------------------

RIVAL = Rival("r", "a rival", 400, span(0.4, 0.5, 0.6), 0.5)
HOLDS = PatternEvidence(
    PLAIN, 1000, 100, span(0.85, 0.9, 0.95), span(0.85, 0.9, 0.99), None, (RIVAL,), 0.001, 0.1, None
)
FITS = replace(HOLDS, share=span(0.85, 0.9, 0.99))
BETTER = replace(RIVAL, lead=span(-0.5, -0.3, -0.1), lead_a=-0.2)
CLOSE = replace(RIVAL, lead=span(-0.5, 0.1, 0.6))

NONE, SOME, MUCH = span(-0.01, 0.0, 0.01), span(0.01, 0.06, 0.07), span(0.3, 0.5, 0.7)
USED = Effects(
    200, span(4.0, 5.0, 6.0), output_change=1.0, answer_change=1.0, aimed=1.0, every=MUCH, token=MUCH, total=MUCH,
    raw=MUCH, sham=NONE, direct=SOME, fill=MUCH,
)  # fmt: skip
NOWHERE = {"look": NONE, "look_raw": NONE, "both": NONE, "both_raw": NONE}
UNUSED = replace(USED, total=NONE, raw=NONE, direct=NONE, fill=NONE, turned=NONE, **NOWHERE)
BESIDE = {"partners": ((1, 0),), "with_partners": NONE, "raw_with_partners": NONE}
ALONE = replace(UNUSED, **BESIDE)
# As ALONE, of 50 inputs: 1 - .05^(1/50) = .058.
FEW = replace(
    UNUSED, items=50, unseen=unseen(50, CONFIDENCE), with_partners=span(-0.01, 0.0, 0.01, 50), partners=((1, 0),),
    raw_with_partners=span(-0.01, 0.0, 0.01, 50),
    **dict.fromkeys(("total", "raw", "turned", *NOWHERE), span(-0.01, 0.0, 0.01, 50)),
)  # fmt: skip
MANY = replace(ALONE, company=((1, 1),), in_company=MUCH)
MATTERS = replace(ALONE, fill=MUCH)
GIVES = replace(ALONE, given=MUCH)
REDUNDANT = replace(
    UNUSED,
    partners=((1, 0),),
    with_partners=MUCH,
    raw_with_partners=MUCH,
    held_with_partners=MUCH,
    left_beside=MUCH,
    fill_beside=MUCH,
)
POWERLESS = replace(USED, every=NONE, token=NONE)
IDLE_WHOLE = replace(POWERLESS, aimed=0.0, whole=NONE, whole_turned=NONE)
AGAINST = span(-0.7, -0.5, -0.3)
SILENT = replace(USED, answer_change=0.0)
MEAN_ENOUGH = replace(USED, fill=NONE, fill_lost=NONE)
TURNS_FREELY = replace(MEAN_ENOUGH, total=SOME, raw=SOME, turned=MUCH)
BY_ANSWERS = replace(UNUSED, turned=MUCH, fill=MUCH)
MADE_UP = replace(UNUSED, direct=MUCH, direct_fill=MUCH)
PART = span(0.06, 0.07, 0.08)
DIRECTLY = replace(MADE_UP, total=PART, raw=PART)
LOOKS = replace(UNUSED, look=MUCH, look_raw=MUCH, gone=MUCH, pattern_change=1.0)
BOTH = replace(UNUSED, both=MUCH, both_raw=MUCH, gone=MUCH, pattern_change=1.0)
NOT_BESIDE = {"look_beside": NONE, "look_beside_raw": NONE, "both_beside": NONE, "both_beside_raw": NONE}
LOOK_BESIDE = replace(
    UNUSED,
    look_partners=((1, 0),),
    left_look_beside=MUCH,
    gone_beside=MUCH,
    **(NOT_BESIDE | {"look_beside": MUCH, "look_beside_raw": MUCH}),
)
BOTH_BESIDE = replace(LOOK_BESIDE, **(NOT_BESIDE | {"both_beside": MUCH, "both_beside_raw": MUCH}))

HALF, ALL = span(0.2, 0.5, 0.8), span(0.6, 0.8, 1.0)
SEEDS = SeedShares(**{f.name: HALF for f in fields(SeedShares)} | {"used_ahead": -1})


def idle(*effects):
    heads = [((0, head), known(one)) for head, one in enumerate(effects)]
    return tuple(Idle(head, decide(USE_RULES, one), one) for head, one in heads)


# Table -> rule -> (evidence that it decides, what is found).
EXAMPLES = {
    "inputs": {
        "few_rows": (replace(HOLDS, rows=60), "undecided"),
    },
    "pattern": {
        "low_score": (replace(HOLDS, score=span(0.0, 0.1, 0.2)), "fails"),
        "not_on_top": (replace(HOLDS, top1=span(0.4, 0.5, 0.6)), "fails"),
        "rival_fits_better": (replace(HOLDS, rivals=(RIVAL, BETTER)), "fails"),
        "uneven_within": (replace(HOLDS, within=span(0.2, 0.4, 0.6)), "fails"),
        "in_some_rows": (replace(HOLDS, share=span(0.4, 0.5, 0.6)), "fails"),
        "not_told_apart": (replace(HOLDS, rivals=(replace(RIVAL, different=3),)), "undecided"),
        "score_in_doubt": (replace(HOLDS, score=span(0.15, 0.3, 0.5)), "undecided"),
        "top_in_doubt": (replace(HOLDS, top1=span(0.7, 0.8, 0.9)), "undecided"),
        "within_in_doubt": (replace(HOLDS, within=span(0.7, 0.8, 0.9)), "undecided"),
        "share_in_doubt": (replace(HOLDS, share=span(0.7, 0.8, 0.9)), "undecided"),
        "keys_alike": (replace(HOLDS, p_value=0.6), "undecided"),
        "untrained_as_good": (replace(HOLDS, untrained=0.9), "undecided"),
        "rival_as_good": (replace(HOLDS, rivals=(RIVAL, CLOSE)), "undecided"),
        "pattern_holds": (HOLDS, "holds"),
    },
    "use": {
        "few_items": (replace(USED, items=12), "undecided"),
        "dead_edit": (replace(USED, dead="hook_z is not read"), "undecided"),
        "still": (replace(USED, output_change=0.0), "unused"),
        "silent_unpaired": (replace(SILENT, paired=False), "unused"),
        "silent": (SILENT, "unused"),
        "no_margin": (replace(USED, margin=span(-1.0, 0.5, 2.0)), "undecided"),
        "unused_whole": (IDLE_WHOLE, "unused"),
        "no_power_not_aimed": (replace(POWERLESS, aimed=0.0), "undecided"),
        "no_power": (POWERLESS, "undecided"),
        "used": (USED, "used"),
        "used_directly": (DIRECTLY, "used"),
        "used_by_look": (LOOKS, "used"),
        "used_by_both": (BOTH, "used"),
        "used_by_answers": (BY_ANSWERS, "used"),
        "redundant": (REDUNDANT, "redundant"),
        "redundant_by_look": (LOOK_BESIDE, "redundant"),
        "made_up_for": (MADE_UP, "undecided"),
        "sham_hides_it": (replace(USED, raw=SOME), "undecided"),
        "mean_is_enough": (MEAN_ENOUGH, "undecided"),
        "output_is_enough": (replace(LOOKS, gone=NONE), "undecided"),
        "works_against": (replace(UNUSED, total=AGAINST, raw=AGAINST), "undecided"),
        "one_of_many": (MANY, "undecided"),
        "mean_matters": (MATTERS, "undecided"),
        "answers_lost": (replace(ALONE, fill_lost=MUCH), "undecided"),
        "output_matters": (GIVES, "undecided"),
        "answers_turn": (replace(ALONE, turned=SOME), "undecided"),
        "unused": (ALONE, "unused"),
        "too_few_to_exclude": (FEW, "undecided"),
        "neither": (replace(UNUSED, total=SOME, raw=SOME), "undecided"),
    },
    "together": {
        "one_is_unused": (Together(idle(replace(UNUSED, total=SOME, raw=SOME), UNUSED)), "unused"),
        "one_is_idle": (Together(idle(replace(UNUSED, total=SOME, raw=SOME))), "undecided"),
        "one_is_not_shown": (Together((), ((0, 1),)), "undecided"),
    },
    "remarks": {
        "left_out": (replace(USED, left_out=0.2), ""),
        "untried": (replace(USED, untried=3), ""),
        "unnatural": (replace(USED, unnatural=0.3), ""),
    },
    "seeds: pattern": {
        "most_fail": (replace(SEEDS, not_failing=span(0.0, 0.1, 0.2)), "fails"),
        "most_hold": (replace(SEEDS, holds=ALL), "holds"),
        "pattern_open": (SEEDS, "undecided"),
    },
    "seeds: use": {
        "none_asked": (replace(SEEDS, not_asked=span(0.4, 1.0, 1.0)), "not asked"),
        "most_used": (replace(SEEDS, used=ALL), "used"),
        "most_redundant": (replace(SEEDS, redundant=ALL), "redundant"),
        "most_unused": (replace(SEEDS, unused=ALL), "unused"),
        "most_not_asked": (replace(SEEDS, not_asked=ALL), "not asked"),
        "most_of_use_more_used": (replace(SEEDS, of_use=ALL, used_ahead=0), "used"),
        "most_of_use": (replace(SEEDS, of_use=ALL), "redundant"),
        "use_open": (SEEDS, "undecided"),
    },
    "seeds: verdict": {
        "most_support": (replace(SEEDS, supported=ALL), "supported"),
        "most_mislead": (replace(SEEDS, misleading=ALL), "misleading"),
        "most_refute": (replace(SEEDS, not_refuted=span(0.0, 0.1, 0.2)), "refuted"),
        "verdict_open": (SEEDS, "undecided"),
    },
}
CASES = [(table, name) for table, examples in EXAMPLES.items() for name in examples]


def decider(table, evidence):
    """The name of the rule that decides, None where no rule of the table holds."""
    rule = first(TABLES[table][1], known(evidence))
    return None if rule is None else rule.name


def rule_of(table, name):
    return next(rule for rule in TABLES[table][1] if rule.name == name)


def test_each_rule_has_an_example_and_a_name_of_its_own():
    assert {table: [rule.name for rule in rules] for table, (_, rules) in TABLES.items()} == {
        table: list(examples) for table, examples in EXAMPLES.items()
    }
    names = [name for _, name in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("table", "name"), CASES)
def test_each_rule_can_be_reached(table, name):
    evidence, finding = EXAMPLES[table][name]
    assert decider(table, evidence) == name
    assert rule_of(table, name).finding == finding


@pytest.mark.parametrize(("table", "name"), CASES)
def test_a_rule_reads_only_what_it_says_it_needs(table, name):
    rule, read = rule_of(table, name), set()

    class Watched:
        def __init__(self, evidence):
            self.evidence = evidence

        def __getattr__(self, field):
            read.add(field)
            return getattr(self.evidence, field)

    for evidence, _ in EXAMPLES[table].values():
        rule.holds(Watched(evidence))
    assert read - {"level"} <= rule.needs  # the level is that of all intervals, and there from the start


@pytest.mark.parametrize("name", EXAMPLES["use"])
def test_a_use_is_told_with_the_rule_that_decided(name):
    evidence, finding = EXAMPLES["use"][name]
    found = decide_use(known(evidence), TASK, "L0H0")
    assert (found.word, found.rule) == (finding, name)
    assert found.because == use_phrases(evidence, TASK, "L0H0").say(rule_of("use", name).words) + "."
    assert not set("{}") & set(found.because)
    assert any(row.finding for row in found.evidence)


@pytest.mark.parametrize("name", EXAMPLES["pattern"])
def test_the_words_of_a_pattern_are_filled_in(name):
    said = pattern_phrases(EXAMPLES["pattern"][name][0]).say(rule_of("pattern", name).words)
    assert said
    assert not set("{}") & set(said)


NUMBERS = replace(HOLDS, score=span(0.101, 0.123, 0.234), top1=span(0.5, 0.567, 0.7), p_value=0.00234, untrained=0.123)
AT_ZERO, BELOW, WORST = (
    replace(RIVAL, words=words, lead=span(low, 0.123, 0.5))
    for words, low in (("one", 0.0), ("two", -0.1), ("three", -0.6))
)
SURE, SURER = (
    replace(BETTER, words=words, lead=span(-0.9, -0.6, high)) for words, high in (("sure", -0.1), ("surer", -0.2))
)


@pytest.mark.parametrize(
    ("words", "change", "said"),
    [
        ("{said}", {}, "scores 0.12 [0.10, 0.23] (n=10000 inputs) on the last unmatched open bracket"),
        ("{score}{top1}", {"score": span(0, 1 / 3, 1), "top1": None}, "0.33 [0.00, 1.00] (n=10000 inputs)–"),
        ("{uniform}{top}", {},
         " (a uniform head scores 0) and looks there most in 0.57 [0.50, 0.70] (n=10000 inputs) of the rows"),
        ("{uniform}{top}", {"top1": None}, ""),
        ("{instead}{best}", {}, ""),
        ("{instead} {best}", {"rivals": (SURE, SURER, CLOSE)}, "; surer fits better surer"),
        ("{instead} {best}", {"rivals": (SURER, SURE)}, "; surer fits better surer"),
        ("{lead}", {"rivals": (RIVAL, replace(AT_ZERO, lead=span(0.3, 0.3456, 0.4)))},
         "; the nearest rival, one, fits 0.35 [0.30, 0.40] (n=10000 inputs) worse"),
        ("{lead}", {"rivals": ()}, ""),
        ("{lead}", {"rivals": (replace(RIVAL, lead=None),)}, ""),
        ("{close}", {}, ""),
        ("{close}", {"rivals": (RIVAL, AT_ZERO, replace(RIVAL, lead=None))}, "one"),
        ("{close}", {"rivals": (AT_ZERO, BELOW)}, "two"),
        ("{close}", {"rivals": (WORST, BELOW)}, "three"),
        ("{hint}", {"when": ("it rains", 0.987, 321)},
         "; it would fit in 99 % of those where it rains (n=321 rows of the other half)"),
        ("{hint}", {}, ""),
        ("{p} {null}", {}, "0.00234 0.12"),
    ],
)  # fmt: skip
def test_what_the_words_of_a_pattern_stand_for(words, change, said):
    assert pattern_phrases(replace(NUMBERS, **change)).say(words) == said


@pytest.mark.parametrize(
    ("words", "change", "said"),
    [
        ("{pairs}", {}, "minimal pairs"),
        ("{pairs}", {"paired": False}, "donors"),
        ("{also}", {}, ""),
        ("{also}", {"partners": ((1, 0), (1, 1))}, ", nor with L1H0 and L1H1 ablated"),
        ("{needs}", {}, "have a place to read"),
        ("{outside} {UNUSED} {items}", {"unnatural": 0.256}, "26 % 0.05 200"),
        ("{company}", {"company": ((2, 1),)}, "L2H1"),
    ],
)
def test_what_the_words_of_a_use_stand_for(words, change, said):
    assert use_phrases(replace(USED, **change), TASK, "L0H0").say(words) == said


@pytest.mark.parametrize(("kind", "untrained", "null"), [
    ("mass", Estimate(0.3, None, None, 4, "seeds"), 0.3), ("even", Estimate(0.3, None, None, 4, "seeds"), None),
    ("mass", None, None),
])  # fmt: skip
def test_untrained_heads_are_the_null_of_weight_and_not_of_evenness(kind, untrained, null):
    claim = PLAIN if kind == "mass" else EVENLY
    look = SimpleNamespace(score=None, top1=None, share=None, when=None, within=None, apart=True, rests=False)
    found = pattern_evidence(claim, look, Rivals(), 3, 2, 0.5, untrained)
    assert (found.untrained, found.rows, found.sequences, found.p_value) == (null, 3, 2, 0.5)


def test_the_shares_of_seeds_are_of_the_words_that_they_name():
    def outcome(pattern, use, verdict):
        return SimpleNamespace(pattern=SimpleNamespace(word=pattern), use=SimpleNamespace(word=use), verdict=verdict)

    shares = seed_shares([
        *[outcome("holds", "used", "supported")] * 5, *[outcome("holds", "redundant", "supported")] * 2,
        outcome("undecided", "undecided", "undecided"), *[outcome("holds", "unused", "misleading")] * 3,
        *[outcome("fails", "not asked", "refuted")] * 9,
    ], 0.9)  # fmt: skip
    assert shares.used_ahead == 3
    counts = {f.name: getattr(shares, f.name) for f in fields(SeedShares) if f.name != "used_ahead"}
    expected = {"holds": 10, "not_failing": 11, "used": 5, "redundant": 2, "unused": 3, "not_asked": 9, "of_use": 7,
                "supported": 7, "misleading": 3, "not_refuted": 11}  # fmt: skip
    assert counts == {name: clopper_pearson(count, 20, over="seeds", level=0.9) for name, count in expected.items()}


def test_of_doubts_all_are_told_and_of_other_rules_one():
    doubtful = replace(HOLDS, score=span(0.15, 0.3, 0.5), p_value=0.6, rivals=(CLOSE,))
    rules = TABLES["pattern"][1]
    told = joined(rules, decide(rules, known(doubtful)), doubtful)
    assert [rule.name for rule in told] == ["score_in_doubt", "keys_alike", "rival_as_good"]
    beside = replace(doubtful, top1=span(0.7, 0.8, 0.9))
    told = joined(rules, decide(rules, known(beside)), beside)
    assert [rule.name for rule in told] == ["score_in_doubt", "top_in_doubt", "keys_alike", "rival_as_good"]
    failing = replace(doubtful, score=span(0.0, 0.1, 0.2))
    assert [rule.name for rule in joined(rules, decide(rules, known(failing)), failing)] == ["low_score"]


# -- every bound from both sides ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Pin:
    """A bound of a rule, evidence in which it alone matters, and which rule decides on either side of it.

    `bound` is as the table prints it, and written down here so that no change of a table goes unseen; `limit`: what a
    bound that is no constant comes to in this evidence.
    """

    table: str
    rule: str
    bound: str
    base: object
    met: str | None
    unmet: str | None
    limit: float | None = None

    def __str__(self):
        return f"{self.rule}: {self.bound}{'' if self.limit is None else f' = {self.limit:g}'}"


def nothing_measured(rule, base, met, unmet, turned=None, part="reach"):
    """The bounds by which no effect is shown, each where the other way to show it is barred."""
    beside = {"look_partners": ((1, 0),), **NOT_BESIDE}
    return [
        Pin("use", rule, f"total.{part} < 0.05", replace(base, raw=SOME), met, unmet),
        Pin("use", rule, f"raw.{part} < 0.05", replace(base, total=SOME), met, unmet),
        Pin("use", rule, f"with_partners.{part} < 0.05", replace(base, raw_with_partners=SOME), met, unmet),
        Pin("use", rule, f"raw_with_partners.{part} < 0.05", replace(base, with_partners=SOME), met, unmet),
        *([Pin("use", rule, "direct.high < 0.1", base, met, unmet)] if part == "reach" else []),
        Pin("use", rule, f"look.{part} < 0.05", replace(base, look_raw=SOME), met, unmet),
        Pin("use", rule, f"look_raw.{part} < 0.05", replace(base, look=SOME), met, unmet),
        Pin("use", rule, f"both.{part} < 0.05", replace(base, both_raw=SOME), met, unmet),
        Pin("use", rule, f"both_raw.{part} < 0.05", replace(base, both=SOME), met, unmet),
        Pin("use", rule, f"turned.{part} < 0.05", base, *(turned or (met, "answers_turn"))),
        *(
            Pin("use", rule, f"{name}.{part} < 0.05", replace(base, **(beside | {other: SOME})), met, unmet)
            for one in ("look_beside", "both_beside")
            for name, other in ((one, f"{one}_raw"), (f"{one}_raw", one))
        ),
    ]


def what_it_gives(rule, base, shown, hidden):
    """The bounds by which what a head gives matters and no exchange along the edges shows it: then `shown` decides."""
    elsewhere = ("elsewhere", "elsewhere_turned", "elsewhere_lost")
    return [
        *(
            Pin("use", rule, f"{name}.low >= 0.1", replace(base, **{name: MUCH}), shown, hidden)
            for name in ("given", "given_turned", "given_lost")
        ),
        *(
            Pin("use", rule, f"{name}.low >= 0.1", replace(base, given=MUCH, **{name: MUCH}), hidden, shown)
            for name in elsewhere
        ),
    ]


ASKS_LEAST = ((HOLDS, 0.25), (replace(HOLDS, claim=MAINLY), 0.5), (replace(HOLDS, claim=EVENLY, top1=None), 0.8))
PINS = [
    Pin("inputs", "few_rows", "rows < 100", HOLDS, "few_rows", None),
    Pin("inputs", "few_rows", "sequences < 50", HOLDS, "few_rows", None),
    Pin("pattern", "not_told_apart", "different < 50", HOLDS, "not_told_apart", "pattern_holds"),
    *(Pin("pattern", "low_score", "score.high < least", replace(base, score=span(-0.5, 0.1, 0.2)), "low_score",
          "score_in_doubt", least) for base, least in ASKS_LEAST),
    Pin("pattern", "not_on_top", "top1.high < 0.75", replace(HOLDS, top1=span(0.1, 0.5, 0.6)), "not_on_top",
        "top_in_doubt"),
    Pin("pattern", "rival_fits_better", "lead.high < -0.05", replace(HOLDS, rivals=(BETTER,)), "rival_fits_better",
        "rival_as_good"),
    Pin("pattern", "rival_fits_better", "lead_a < 0", replace(HOLDS, rivals=(BETTER,)), "rival_fits_better",
        "rival_as_good"),
    Pin("pattern", "uneven_within", "within.high < 0.8", replace(HOLDS, within=span(0.2, 0.4, 0.6)), "uneven_within",
        "within_in_doubt"),
    Pin("pattern", "within_in_doubt", "within.low >= 0.8", replace(HOLDS, within=span(0.85, 0.9, 0.95)),
        "pattern_holds", "within_in_doubt"),
    Pin("pattern", "in_some_rows", "share.low > 0.2", replace(HOLDS, share=span(0.3, 0.5, 0.7)), "in_some_rows",
        "share_in_doubt"),
    Pin("pattern", "in_some_rows", "share.high < 0.8", replace(HOLDS, share=span(0.3, 0.5, 0.7)), "in_some_rows",
        "share_in_doubt"),
    *(Pin("pattern", "score_in_doubt", "score.low < least", base, "score_in_doubt", "pattern_holds", least)
      for base, least in ASKS_LEAST),
    Pin("pattern", "top_in_doubt", "top1.low < 0.75", HOLDS, "top_in_doubt", "pattern_holds"),
    Pin("pattern", "share_in_doubt", "share.low >= 0.8", FITS, "pattern_holds", "share_in_doubt"),
    Pin("pattern", "share_in_doubt", "share.high <= 0.2", replace(HOLDS, share=span(0.0, 0.1, 0.15)), "pattern_holds",
        "share_in_doubt"),
    Pin("pattern", "keys_alike", "p_value > 0.05", HOLDS, "keys_alike", "pattern_holds"),
    Pin("pattern", "untrained_as_good", "score.low <= untrained", replace(HOLDS, untrained=0.6), "untrained_as_good",
        "pattern_holds", 0.6),
    Pin("pattern", "rival_as_good", "lead.low <= 0", HOLDS, "rival_as_good", "pattern_holds"),
    Pin("use", "few_items", "items >= 50", USED, "used", "few_items"),
    Pin("use", "still", "output_change <= 1e-05", USED, "still", "used"),
    Pin("use", "silent_unpaired", "answer_change <= 1e-05", replace(USED, paired=False), "silent_unpaired", "used"),
    Pin("use", "silent_unpaired", "aimed >= 0.5", replace(SILENT, paired=False), "silent_unpaired", "used"),
    Pin("use", "silent", "answer_change <= 1e-05", USED, "silent", "used"),
    Pin("use", "silent", "aimed >= 0.5", SILENT, "silent", "used"),
    *what_it_gives("silent_unpaired", replace(SILENT, paired=False), "used", "silent_unpaired"),
    *what_it_gives("silent", SILENT, "used", "silent"),
    Pin("use", "no_margin", "margin.low <= 0", USED, "no_margin", "used"),
    Pin("use", "unused_whole", "whole.reach < 0.05", IDLE_WHOLE, "unused_whole", "no_power_not_aimed"),
    Pin("use", "unused_whole", "whole_turned.reach < 0.05", IDLE_WHOLE, "unused_whole", "no_power_not_aimed"),
    Pin("use", "unused_whole", "whole_lost.reach < 0.05", replace(IDLE_WHOLE, whole_lost=NONE), "unused_whole",
        "no_power_not_aimed"),
    Pin("use", "unused_whole", "whole_beside.reach < 0.05",
        replace(IDLE_WHOLE, whole_partners=((1, 0),), whole_beside=NONE), "unused_whole", "no_power_not_aimed"),
    Pin("use", "unused_whole", "whole_in_company.reach < 0.05",
        replace(IDLE_WHOLE, whole_company=((1, 0),), whole_in_company=NONE), "unused_whole", "no_power_not_aimed"),
    *what_it_gives("unused_whole", IDLE_WHOLE, "no_power_not_aimed", "unused_whole"),
    Pin("use", "no_power_not_aimed", "every.value >= 0.25", replace(USED, aimed=0.0), "used", "no_power_not_aimed"),
    Pin("use", "no_power_not_aimed", "aimed >= 0.5", replace(USED, every=NONE), "used", "no_power_not_aimed"),
    Pin("use", "no_power", "every.value >= 0.25", POWERLESS, "used", "no_power"),
    Pin("use", "no_power", "aimed >= 0.5", POWERLESS, "no_power", "no_power_not_aimed"),
    Pin("use", "no_power", "token.value >= 0.25", POWERLESS, "used", "no_power"),
    Pin("use", "used", "total.low >= 0.1", USED, "used", "neither"),
    Pin("use", "used", "raw.low >= 0.1", USED, "used", "sham_hides_it"),
    *(
        Pin("use", rule, f"{name}.low >= 0.05", replace(base, fill=NONE, fill_lost=NONE), met, "mean_is_enough")
        for rule, base, met in (
            ("used", USED, "used"), ("used_by_answers", BY_ANSWERS, "used_by_answers"),
            ("mean_is_enough", USED, "used"),
        )
        for name in ("fill", "fill_lost")
    ),
    Pin("use", "used_directly", "direct.low >= 0.1", DIRECTLY, "used_directly", "neither"),
    Pin("use", "used_directly", "direct_fill.low >= 0.05", DIRECTLY, "used_directly", "neither"),
    *(
        Pin("use", rule, f"{name}.low >= 0.05", base, "used_directly", "made_up_for")
        for rule in ("used_directly", "made_up_for")
        for name, base in (("total", DIRECTLY), ("raw", DIRECTLY), ("turned", replace(MADE_UP, turned=PART)))
    ),
    Pin("use", "made_up_for", "direct.low >= 0.1", MADE_UP, "made_up_for", "neither"),
    Pin("use", "used_by_look", "look.low >= 0.1", LOOKS, "used_by_look", "neither"),
    Pin("use", "used_by_look", "look_raw.low >= 0.1", LOOKS, "used_by_look", "neither"),
    Pin("use", "used_by_look", "gone.low >= 0.05", LOOKS, "used_by_look", "output_is_enough"),
    Pin("use", "used_by_both", "both.low >= 0.1", BOTH, "used_by_both", "neither"),
    Pin("use", "used_by_both", "both_raw.low >= 0.1", BOTH, "used_by_both", "neither"),
    Pin("use", "used_by_both", "pattern_change > 0.001", BOTH, "used_by_both", "neither"),
    Pin("use", "used_by_both", "gone.low >= 0.05", BOTH, "used_by_both", "output_is_enough"),
    *(
        Pin("use", "output_is_enough", bound, replace(base, gone=NONE), "output_is_enough", "neither")
        for base, bounds in (
            (LOOKS, ("look.low >= 0.1", "look_raw.low >= 0.1")),
            (BOTH, ("both.low >= 0.1", "both_raw.low >= 0.1", "pattern_change > 0.001")),
        )
        for bound in bounds
    ),
    Pin("use", "output_is_enough", "gone.low >= 0.05", LOOKS, "used_by_look", "output_is_enough"),
    Pin("use", "redundant_by_look", "look_beside.low >= 0.1", LOOK_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "redundant_by_look", "look_beside_raw.low >= 0.1", LOOK_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "redundant_by_look", "both_beside_raw.low >= 0.1", BOTH_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "redundant_by_look", "both_beside.low >= 0.1", BOTH_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "redundant_by_look", "left_look_beside.low >= 0.1", LOOK_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "redundant_by_look", "gone_beside.low >= 0.1", LOOK_BESIDE, "redundant_by_look", "neither"),
    Pin("use", "sham_hides_it", "total.low >= 0.1", replace(USED, raw=SOME), "sham_hides_it", "neither"),
    Pin("use", "sham_hides_it", "raw.low < 0.1", MEAN_ENOUGH, "sham_hides_it", "mean_is_enough"),
    Pin("use", "mean_is_enough", "total.low >= 0.1", MEAN_ENOUGH, "mean_is_enough", "neither"),
    Pin("use", "mean_is_enough", "raw.low >= 0.1", MEAN_ENOUGH, "mean_is_enough", "sham_hides_it"),
    Pin("use", "mean_is_enough", "turned.low >= 0.25", TURNS_FREELY, "mean_is_enough", "neither"),
    Pin("use", "redundant", "with_partners.low >= 0.1", REDUNDANT, "redundant", "neither"),
    Pin("use", "redundant", "raw_with_partners.low >= 0.1", REDUNDANT, "redundant", "neither"),
    Pin("use", "redundant", "held_with_partners.low >= 0.1", REDUNDANT, "redundant", "neither"),
    Pin("use", "redundant", "left_beside.low >= 0.1", REDUNDANT, "redundant", "neither"),
    Pin("use", "redundant", "fill_beside.low >= 0.1", REDUNDANT, "redundant", "neither"),
    *nothing_measured("one_of_many", MANY, "one_of_many", "neither"),
    Pin("use", "one_of_many", "in_company.reach < 0.05", MANY, "unused", "one_of_many"),
    *nothing_measured("mean_matters", MATTERS, "mean_matters", "neither"),
    Pin("use", "mean_matters", "fill.low >= 0.1", MATTERS, "mean_matters", "unused"),
    *nothing_measured("answers_lost", replace(ALONE, fill_lost=MUCH), "answers_lost", "neither"),
    Pin("use", "answers_lost", "fill_lost.low >= 0.1", replace(ALONE, fill_lost=MUCH), "answers_lost", "unused"),
    *nothing_measured("output_matters", GIVES, "output_matters", "neither"),
    *what_it_gives("output_matters", ALONE, "output_matters", "unused"),
    *nothing_measured("unused", ALONE, "unused", "neither"),
    *nothing_measured(
        "answers_turn", replace(ALONE, turned=SOME), "answers_turn", "neither", turned=("unused", "answers_turn")
    ),
    Pin("use", "used_by_answers", "turned.low >= 0.25", replace(BY_ANSWERS, fill=PART), "used_by_answers",
        "answers_turn"),
    *nothing_measured("too_few_to_exclude", FEW, "too_few_to_exclude", "neither",
                      turned=("too_few_to_exclude", "neither"), part="far"),
    Pin("use", "too_few_to_exclude", "direct.far < 0.05", FEW, "too_few_to_exclude", "neither"),
    *(Pin("use", "too_few_to_exclude", f"{name}.low >= 0.1", replace(FEW, **{name: MUCH}), "neither",
          "too_few_to_exclude") for name in ("fill", "fill_lost")),
    Pin("use", "too_few_to_exclude", "unseen >= 0.05", FEW, "too_few_to_exclude", "neither"),
    *(Pin("use", "works_against", f"{name}.high <= -0.1", replace(UNUSED, total=AGAINST, raw=AGAINST), "works_against",
          "neither") for name in ("total", "raw")),
    Pin("remarks", "left_out", "left_out > 0", USED, "left_out", None),
    Pin("remarks", "untried", "untried > 0", USED, "untried", None),
    Pin("remarks", "unnatural", "unnatural > 0.1", USED, "unnatural", None),
    Pin("seeds: pattern", "most_fail", "not_failing.high < 0.5", SEEDS, "most_fail", "pattern_open"),
    Pin("seeds: pattern", "most_hold", "holds.low > 0.5", SEEDS, "most_hold", "pattern_open"),
    Pin("seeds: use", "none_asked", "not_asked.value >= 1", SEEDS, "none_asked", "use_open"),
    Pin("seeds: use", "most_used", "used.low > 0.5", SEEDS, "most_used", "use_open"),
    Pin("seeds: use", "most_redundant", "redundant.low > 0.5", SEEDS, "most_redundant", "use_open"),
    Pin("seeds: use", "most_unused", "unused.low > 0.5", SEEDS, "most_unused", "use_open"),
    Pin("seeds: use", "most_not_asked", "not_asked.low > 0.5", SEEDS, "most_not_asked", "use_open"),
    Pin("seeds: use", "most_of_use_more_used", "of_use.low > 0.5", replace(SEEDS, used_ahead=0),
        "most_of_use_more_used", "use_open"),
    Pin("seeds: use", "most_of_use_more_used", "used_ahead >= 0", replace(SEEDS, of_use=ALL), "most_of_use_more_used",
        "most_of_use"),
    Pin("seeds: use", "most_of_use", "of_use.low > 0.5", SEEDS, "most_of_use", "use_open"),
    Pin("seeds: verdict", "most_support", "supported.low > 0.5", SEEDS, "most_support", "verdict_open"),
    Pin("seeds: verdict", "most_mislead", "misleading.low > 0.5", SEEDS, "most_mislead", "verdict_open"),
    Pin("seeds: verdict", "most_refute", "not_refuted.high < 0.5", SEEDS, "most_refute", "verdict_open"),
]  # fmt: skip


def moved(evidence, name, value):
    """The evidence in all forms in which this number has the value and every other number is what it was."""
    field, _, part = name.partition(".")
    if not hasattr(evidence, field):  # a number of a rival
        return [replace(evidence, rivals=(one, *evidence.rivals[1:])) for one in moved(evidence.rivals[0], name, value)]
    if not part:
        return [replace(evidence, **{field: value})]
    old = getattr(evidence, field)
    if part in ("reach", "far"):  # at either end, the other one nearer to 0
        new = [replace(old, low=-0.5 * value, high=value), replace(old, low=-value, high=0.5 * value)]
    else:
        new = [replace(old, **{part: value})]
    return [replace(evidence, **{field: one}) for one in new]


def beside(limit, side, whole):
    """(the last number that meets the bound, the first that does not)."""
    up = side in (">=", ">")
    if whole:
        beyond = limit - 1 if up else limit + 1
    else:
        beyond = math.nextafter(limit, -math.inf if up else math.inf)
    inside = limit + (limit - beyond) if whole else math.nextafter(limit, math.inf if up else -math.inf)
    return (limit, beyond) if "=" in side else (inside, limit)


@pytest.mark.parametrize("pin", PINS, ids=str)
def test_the_finding_changes_exactly_at_the_bound(pin):
    number, side, limit = pin.bound.split(" ")
    at = float(limit) if pin.limit is None else pin.limit
    whole = number in ("rows", "sequences", "different", "items", "used_ahead")
    for value, rule in zip(beside(at, side, whole), (pin.met, pin.unmet), strict=True):
        for evidence in moved(pin.base, number, value):
            assert decider(pin.table, evidence) == rule, (value, evidence)
    assert pin.rule in (pin.met, pin.unmet)


def test_every_bound_of_every_rule_is_pinned():
    declared = {
        (table, rule.name, str(bound)) for table, (_, rules) in TABLES.items() for rule in rules
        for bound in rule.holds.bounds
    }  # fmt: skip
    assert {(pin.table, pin.rule, pin.bound) for pin in PINS} == declared


def test_the_numbers_that_no_rule_has_as_its_bound_are_these():
    """How much is searched, shared and compared: a change moves verdicts, and is to be seen."""
    bounds = {float(pin.bound.split(" ")[2]) for pin in PINS if pin.limit is None}
    told = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert {name: value for name, value in told.items() if value not in bounds} == {
        "RIVAL_SEQUENCES": 10, "PARTNERS": 3, "CANDIDATES": 12, "GAIN": 0.01, "SEARCH_SETS": 32, "SEARCH_ITEMS": 48,
        "FEW_ITEMS": 16, "FEW_SETS": 8,
        "SOME_HEADS": 4, "SHARED_DONOR": 2, "TAIL_INPUTS": 200, "MIXED": (0.2, 0.8),
        "NATURAL": (0.01, 0.99), "LEAST_EARLY": 200, "SPENT": (0.2, 0.8), "RANKED": 64, "MOST_FITTING": 16,
    }  # fmt: skip


def test_thresholds_that_are_moved_are_those_of_the_audit():
    assert own_thresholds() == {name: value for name, value in vars(limits).items() if name.isupper()}


def test_few_items_cannot_show_that_nothing_moves():
    """Of 58 items none moves: a share of 1 - .05^(1/58) = .0503 may still."""
    still = span(0.0, 0.0, 0.0)
    for n, rule in ((58, "neither"), (59, "unused")):
        evidence = replace(UNUSED, total=replace(still, n=n), raw=replace(still, n=n))
        assert evidence.level == CONFIDENCE
        assert decider("use", evidence) == rule
        stricter = replace(evidence, level=0.99)
        assert decider("use", stricter) == "neither"


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9999])
def test_as_many_are_asked_for_as_exclude_a_share(level):
    """By a literal count."""
    for share in (0.05, 0.1, 0.5):
        literal = next(n for n in range(1, 10_000) if 1 - (1 - level) ** (1 / n) < share)
        assert units_to_exclude(share, level) == literal
        assert unseen(literal, level) < share <= (1.0 if literal == 1 else unseen(literal - 1, level))


def test_it_is_said_how_many_inputs_exclude_a_use():
    said = use_phrases(FEW, TASK, "L0H0").say(rule_of("use", "too_few_to_exclude").words)
    assert "but the 50 inputs of the half that decides are too few to exclude an effect on 6 % of all" in said
    assert said.endswith("it needs 59 at least")


def test_what_has_no_interval_or_was_not_measured_proves_nothing():
    bare = Estimate(0.9, None, None, 1, "inputs")
    assert decider("pattern", replace(HOLDS, score=bare)) == "score_in_doubt"
    assert decider("pattern", replace(HOLDS, top1=bare)) == "top_in_doubt"
    assert decider("pattern", replace(HOLDS, rivals=(replace(RIVAL, lead=bare),))) == "rival_as_good"
    assert decider("pattern", replace(HOLDS, rivals=(replace(RIVAL, lead=None, lead_a=None),))) == "pattern_holds"
    assert decider("pattern", replace(HOLDS, p_value=None, untrained=None, top1=None)) == "pattern_holds"
    assert decider("use", replace(USED, total=bare)) == "neither"
    assert decider("use", replace(UNUSED, total=bare, raw=bare)) == "neither"
    assert decider("use", replace(REDUNDANT, held_with_partners=None)) == "redundant"
    assert decider("use", UNUSED) == "unused"


def test_conditions_are_what_their_parts_are():
    high, low = Bound("x", ">=", 1.0), Bound("y", "<", 2.0)
    for x, y, both, either in ((1, 1, True, True), (0, 1, False, True), (1, 2, False, True), (0, 2, False, False)):
        evidence = SimpleNamespace(x=x, y=y)
        assert all_of(high, low)(evidence) is both
        assert any_of(high, low)(evidence) is either
        assert Not(all_of(high, low))(evidence) is not both
    assert str(Not(any_of(high, all_of(high, low)))) == "not (x >= 1 or (x >= 1 and y < 2))"
    assert str(all_of(any_of(low), all_of(high), all_of())) == "y < 2 and x >= 1 and always"
    assert not high(SimpleNamespace(x=None))
    nothing = SimpleNamespace(x=Estimate.undefined("none", 0, "inputs"))
    assert Bound("x.value", ">=", 0.0)(nothing)
    assert Bound("x.value", "<=", 0.0)(nothing)
    # Evidence without a level of its own reaches as far as its bounds do.
    assert Bound("x.reach", "<=", 0.1)(SimpleNamespace(x=span(-0.1, 0.0, 0.05, n=2)))


# -- what is measured ---------------------------------------------------------------------------------------


def test_nothing_is_measured_for_the_rules_after_the_one_that_decides():
    for name, (evidence, _) in EXAMPLES["use"].items():
        asked = []
        decide(USE_RULES, lambda needs, asked=asked, evidence=evidence: asked.append(needs) or evidence)
        upto = [rule.name for rule in USE_RULES].index(name) + 1
        assert asked == [rule.needs for rule in USE_RULES[:upto]]


def test_heads_are_asked_alone_only_where_they_are_of_use_together():
    for name, (evidence, finding) in EXAMPLES["use"].items():
        asked = set()
        decide_use(lambda needs, asked=asked, evidence=evidence: asked.update(needs) or evidence, TASK, "L0H0")
        assert ("idle" in asked) == ("unshown" in asked) == (finding in ("used", "redundant")), name


@pytest.mark.parametrize("names", [("given",), ("given_turned",), ("given_lost",), ("given", "given_lost")])
def test_what_a_head_gives_rests_on_what_of_it_matters(names):
    """The others may be anything, and are told."""
    rest = {name: SOME for name in ("given", "given_turned", "given_lost") if name not in names}
    found = decide_use(known(replace(ALONE, elsewhere=SOME, **dict.fromkeys(names, MUCH), **rest)), TASK, "L0H0")
    assert found.rule == "output_matters"
    assert tuple(row.name for row in found.evidence if row.finding) == names
    assert {"elsewhere", *rest, *names} <= {row.name for row in found.evidence}
    assert found.because.count("0.50 [0.30, 0.70]") == len(names)


@pytest.mark.parametrize("effects", [USED, REDUNDANT])
def test_of_heads_claimed_together_each_is_to_add_something(effects):
    """What is of no use together is not taken apart; one that adds nothing for sure is told before one that may."""
    unshown = ((0, 0), (0, 2))
    found = decide_use(known(replace(effects, unshown=unshown)), TASK, "L0H0 to L0H2")
    assert (found.word, found.rule) == ("undecided", "one_is_not_shown")
    assert "nothing of it is shown to be added by L0H0 and L0H2" in found.because
    assert [row.name for row in found.evidence if row.finding] == ["effect"]
    first_of_all = replace(effects, unshown=unshown, idle=(((0, 1), known(UNUSED)),))
    assert decide_use(known(first_of_all), TASK, "L0H0 to L0H2").rule == "one_is_unused"
    assert decide_use(known(replace(ALONE, unshown=unshown)), TASK, "L0H0 to L0H2").rule == "unused"


def test_what_was_not_measured_speaks_for_nothing():
    bare = Effects(200, MUCH)
    assert {f.name: getattr(bare, f.name) for f in fields(Effects)} == {
        **dict.fromkeys(f.name for f in fields(Effects)), "items": 200, "margin": MUCH, "level": 0.95, "paired": True,
        "output_change": math.inf, "answer_change": math.inf, "aimed": 0.0, "unnatural": 0.0, "partners": (),
        "company": (), "idle": (), "left_out": 0.0, "pattern_change": 0.0, "look_partners": (),
        "whole_partners": (), "whole_company": (), "untried": 0, "where": "", "unshown": (),
        "unseen": 0.0,
    }  # fmt: skip
    assert decider("use", bare) == "no_power_not_aimed"


def test_stages_give_every_piece_once_and_say_when_it_means_anything():
    given = [name for stage in STAGES for name in stage.gives]
    assert len(set(given)) == len(given)
    assert {*given, "items", "margin", "level", "dead", "unseen", "left_out", "where"} == {
        f.name for f in fields(Effects)
    }
    alive = "(items >= 50 and not (dead is there))"
    moving = f"{alive} and not (output_change <= 1e-05) and margin.value > 0"
    used = "((total.low >= 0.1 and raw.low >= 0.1) and (fill.low >= 0.05 or fill_lost.low >= 0.05))"
    left = "((total.low >= 0.05 and raw.low >= 0.05) or turned.low >= 0.05)"
    directly = f"direct.low >= 0.1 and {left} and direct_fill.low >= 0.05"
    look, both = (f"{one}.low >= 0.1 and {one}_raw.low >= 0.1" for one in ("look", "both"))
    both += " and pattern_change > 0.001"
    powerful = "every.value >= 0.25 or (aimed >= 0.5 and token.value >= 0.25)"
    so_far = "(total.reach < 0.05 or raw.reach < 0.05) and direct.high < 0.1 and turned.reach < 0.05"
    beside = [f"({one}_beside.low >= 0.1 and {one}_beside_raw.low >= 0.1)" for one in ("look", "both")]
    assert [str(stage.when) for stage in STAGES] == [
        alive[1:-1],
        moving,
        f"({moving}) and not (aimed >= 0.5 and token.value >= 0.25)",
        f"{alive} and margin.low > 0 and not ({powerful})",
        powerful,
        f"direct.low >= 0.1 and not {used}",
        f"total is there and not ({used[1:-1]}) and not ({directly})",
        f"{alive} and margin.low > 0 and (answer_change <= 1e-05 or not ({powerful}) or ({so_far}))",
        f"({look}) or ({both})",
        "total is there",
        f"pattern_change > 0.001 and not ({look}) and not ({both}) and not "
        "(with_partners.low >= 0.1 and left_beside.low >= 0.1)",
        f"left_look_beside.low >= 0.1 and ({' or '.join(beside)})",
        "with_partners.low >= 0.1 and left_beside.low >= 0.1",
        f"(({NO_CHANGE}) and turned.reach < 0.05) and not (with_partners.low >= 0.1 and left_beside.low >= 0.1)",
        "total is there",
    ]


# -- the verdict --------------------------------------------------------------------------------------------

RULED = {
    "fails": dict.fromkeys(("used", "redundant", "unused", "undecided", "not asked"), ("refuted", "refuted")),
    "undecided": dict.fromkeys(("used", "redundant", "unused", "undecided", "not asked"), ("undecided", "undecided")),
    "holds": {
        "used": ("supported", "supported"), "redundant": ("supported", "supported"),
        "unused": ("supported", "misleading"), "undecided": ("supported", "undecided"),
        "not asked": ("supported", "undecided"),
    },
}  # fmt: skip


@pytest.mark.parametrize(("pattern", "use"), [(pattern, use) for pattern, uses in RULED.items() for use in uses])
def test_every_row_of_the_verdict_table(pattern, use):
    assert (verdict_of(pattern, use, PLAIN), verdict_of(pattern, use, USE)) == RULED[pattern][use]
    assert sum(row.pattern == pattern and use in row.uses for row in VERDICTS) == 1


@pytest.mark.parametrize("use", ["used", "redundant"])
def test_a_refusal_of_what_is_used_says_what_connects_the_two(use):
    """Of a claim of use alone: one about attention says nothing of it."""
    pattern, found = Finding("fails", "It fails.", ()), Finding(use, "It is used.", ())
    said = reason_of(pattern, found, USE)
    assert said.startswith("It fails. It is used. So the claim is refuted although")
    assert reason_of(pattern, found, PLAIN) == "It fails. It is used."
    assert reason_of(pattern, replace(found, word="unused"), USE) == "It fails. It is used."
    assert reason_of(replace(pattern, word="holds"), found, USE) == "It fails. It is used."


def test_every_finding_has_a_verdict():
    found = {kind: {rule.finding for rule in rules} for kind, (_, rules) in TABLES.items()}
    assert found["pattern"] | found["inputs"] <= RULED.keys()
    assert found["use"] | found["together"] <= RULED["holds"].keys()
    assert found["seeds: verdict"] == {word for uses in RULED.values() for both in uses.values() for word in both}


# -- the tables as text, and the size of what reads them ----------------------------------------------------


def test_the_printed_tables_hold_every_rule():
    lines = rules_table().split("### Numbers")[0].splitlines()
    for name, condition in CONDITIONS.items():
        assert f"*{name}* stands for: {condition}." in lines
    for _, rules in TABLES.values():
        for rule in rules:
            (line,) = [line for line in lines if line.startswith(f"| `{rule.name}`")]
            for name, condition in CONDITIONS.items():
                line = line.replace(f"*{name}*", str(condition))
            holds = str(rule.holds)
            for condition in CONDITIONS.values():
                holds = holds.replace(f"({condition})", str(condition))
            assert all(text in line for text in (holds, rule.finding, rule.words, *rule.needs))
    assert all(f"| {row.pattern} | {', '.join(row.uses)} |" in rules_table() for row in VERDICTS)


def test_a_table_without_a_last_word_is_a_mistake():
    with pytest.raises(AssertionError, match="always holds"):
        decide([Rule("never", Not(all_of()), "holds")], known(HOLDS))


def test_functions_and_modules_stay_short():
    """At most 40 lines of a function, its docstring apart, and 450 of a module."""
    long = []
    for path in Path(probes.audit.__file__).parent.rglob("*.py"):
        text = path.read_text()
        long += [path.name] if text.count("\n") > 450 else []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                doc = node.body[0] if ast.get_docstring(node) else None
                lines = node.end_lineno - node.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)
                long += [f"{path.name}: {node.name} has {lines} lines"] if lines > 40 else []
    assert long == []


def test_every_number_of_a_rule_is_told_in_words():
    needed = {name for _, rules in TABLES.values() for rule in rules for name in rule.needs}
    told = [name for _, numbers in NAMED.values() for name in numbers]
    assert len(told) == len(set(told))
    assert needed == set(told)


def test_the_page_of_the_rules_is_what_they_are():
    page = (Path(__file__).parents[3] / "docs" / "audit-rules.md").read_text()
    told = re.sub(r"^### ", "## ", rules_table().replace("## The audit's rules", "# The audit's rules", 1), flags=re.M)
    assert page == told.rstrip() + "\n"


SAID = "scores 0.12 [0.10, 0.23] (n=10000 inputs) on the last unmatched open bracket"
ODD = Tail("late", "top1", AT_ZERO.lead)


@pytest.mark.parametrize(
    ("words", "change", "said"),
    [
        ("{top}", {"apart": True}, " and looks there most (the first token apart) in 0.57 [0.50, 0.70] "
         "(n=10000 inputs) of the rows"),
        ("{top}{apart}", {"apart": False}, " and looks there most in 0.57 [0.50, 0.70] (n=10000 inputs) of the rows"),
        ("{said}", {"apart": True}, SAID),
        ("{said}", {"on_first": span(0.4, 0.5, 0.6)},
         f"{SAID}, with more weight, 0.50 [0.40, 0.60] (n=10000 inputs), on the first token"),
        ("{tail}", {"tail": ODD, "apart": True}, "; but not late, where it looks there most (the first token apart) in "
         "0.12 [0.00, 0.50] (n=10000 inputs) of the rows only"),
        ("{tail}", {"tail": ODD}, "; but not late, where it looks there most in 0.12 [0.00, 0.50] (n=10000 inputs) of "
         "the rows only"),
        ("{tail}", {"tail": replace(ODD, what="score"), "apart": True},
         "; but not late, where it scores 0.12 [0.00, 0.50] (n=10000 inputs) only"),
    ],
)  # fmt: skip
def test_a_reason_says_where_the_first_token_was_left_out_and_how_much_lies_on_it(words, change, said):
    assert pattern_phrases(replace(NUMBERS, **change)).say(words) == said


def placed(low):
    return replace(RIVAL, words="position 61", lead=span(low, 0.6, 0.9), lead_a=-0.1, placed=True)


def near_by(low, words="the first token"):
    return replace(RIVAL, words=words, lead=span(low, 0.6, 0.9), lead_a=-0.1)


@pytest.mark.parametrize(
    ("rivals", "words"),
    [
        ((placed(0.3), near_by(0.349)), "the first token"),
        ((placed(0.3), near_by(0.351)), "position 61"),
        ((placed(0.3), near_by(0.34, "one"), near_by(0.33, "two")), "two"),
        ((near_by(0.31), placed(0.3), near_by(0.2, "one")), "one"),
        # Of what may fit as well, one that may: the row that is shown is the one that the finding rests on.
        ((placed(-0.01), near_by(0.01)), "position 61"),
        ((placed(-0.04), near_by(-0.01)), "the first token"),
        ((placed(0.3), replace(RIVAL, lead=None)), "position 61"),
    ],
)
def test_a_reason_names_a_place_only_if_no_named_relation_is_about_as_near(rivals, words):
    evidence = replace(HOLDS, rivals=rivals)
    assert evidence.nearest.words == words
    phrases = pattern_phrases(evidence)
    assert words in phrases["lead"]
    assert phrases["close"] == (words if min(rival.lead.low for rival in rivals if rival.lead) <= 0 else "")


def test_what_fits_better_is_named_alike_and_decides_alike():
    def better(high, **how):
        return replace(RIVAL, lead=span(-0.9, -0.5, high), lead_a=-0.2, **how)

    far, named, other = better(-0.3, words="position 61", placed=True), better(-0.26), better(-0.2, words="another")
    assert replace(HOLDS, rivals=(far, named)).best is named
    assert replace(HOLDS, rivals=(far, other)).best is far
    for rivals in ((far, named), (far, other), (far,)):
        assert decider("pattern", replace(HOLDS, rivals=rivals)) == "rival_fits_better"
    # A named one that does not fit better for sure is not said to.
    assert (
        replace(HOLDS, rivals=(replace(far, lead=span(-0.9, -0.5, -0.051)), better(-0.049))).best.words != RIVAL.words
    )
