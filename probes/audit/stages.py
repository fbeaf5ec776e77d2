"""What an audit of use measures, piece by piece: each where it means anything, and only if a rule asks for it."""

from dataclasses import dataclass

from probes.audit import thresholds as t
from probes.audit.conditions import Bound, Condition, Given, Not, all_of, any_of
from probes.audit.use_rules import (
    BOTH_USED,
    ENOUGH_BY_TOKEN,
    ENOUGH_ITEMS,
    LOOK_BESIDE,
    LOOK_USED,
    NEEDED_BESIDE,
    NONE,
    NONE_SO_FAR,
    POWERFUL,
    SHOWN_DIRECTLY,
    SILENT,
    STILL,
    USED_DIRECTLY,
    USED_WHOLE,
)


@dataclass(frozen=True)
class Stage:
    """One step of measuring: which fields it `gives`, when they mean anything, and the method that measures them."""

    gives: frozenset[str]
    when: Condition
    measure: str


_ALIVE = all_of(ENOUGH_ITEMS, Not(Given("dead")))
_MOVING = all_of(_ALIVE, Not(STILL), Bound("margin.value", ">", 0.0))
_MEASURED = Given("total")
STAGES = (
    Stage(frozenset(("output_change", "answer_change", "aimed", "paired")), _ALIVE, "answer"),
    Stage(frozenset(("token",)), _MOVING, "token"),
    Stage(frozenset(("every",)), all_of(_MOVING, Not(ENOUGH_BY_TOKEN)), "every"),
    Stage(
        frozenset(
            (
                "whole",
                "whole_turned",
                "whole_lost",
                "whole_partners",
                "whole_beside",
                "whole_company",
                "whole_in_company",
            )
        ),
        all_of(_ALIVE, Bound("margin.low", ">", 0.0), Not(POWERFUL)),
        "whole_output",
    ),
    Stage(
        frozenset(("total", "raw", "sham", "direct", "fill", "fill_lost", "turned", "unnatural")), POWERFUL, "exchange"
    ),
    Stage(frozenset(("direct_fill",)), all_of(SHOWN_DIRECTLY, Not(USED_WHOLE)), "direct_fill"),
    Stage(
        frozenset(("pattern_change", "look", "look_raw", "both", "both_raw")),
        all_of(_MEASURED, Not(USED_WHOLE), Not(USED_DIRECTLY)),
        "where_it_looks",
    ),
    Stage(
        frozenset(("given", "given_turned", "given_lost", "elsewhere", "elsewhere_turned", "elsewhere_lost")),
        all_of(_ALIVE, Bound("margin.low", ">", 0.0), any_of(SILENT, Not(POWERFUL), NONE_SO_FAR)),
        "given",
    ),
    Stage(frozenset(("gone",)), any_of(LOOK_USED, BOTH_USED), "gone"),
    Stage(
        frozenset(("partners", "with_partners", "raw_with_partners", "left_beside", "untried")),
        _MEASURED,
        "partners",
    ),
    Stage(
        frozenset(
            ("look_partners", "look_beside", "both_beside", "look_beside_raw", "both_beside_raw", "left_look_beside")
        ),
        all_of(Bound("pattern_change", ">", t.SAME_PATTERN), Not(LOOK_USED), Not(BOTH_USED), Not(NEEDED_BESIDE)),
        "looks_beside",
    ),
    Stage(frozenset(("gone_beside",)), LOOK_BESIDE, "gone_beside"),
    Stage(frozenset(("held_with_partners", "fill_beside")), NEEDED_BESIDE, "held"),
    Stage(
        frozenset(("company", "in_company")),
        all_of(NONE, Not(NEEDED_BESIDE)),
        "company",
    ),
    Stage(frozenset(("idle", "unshown")), _MEASURED, "idle"),
)
