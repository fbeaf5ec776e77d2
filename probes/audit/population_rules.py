"""The rules on populations: what is said of all models from how many of the seeds show what."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.conditions import ALWAYS, Bound, all_of
from probes.audit.model import Outcome
from probes.audit.rules import Rule
from probes.audit.stats import low
from probes.core import clopper_pearson


@dataclass(frozen=True)
class SeedShares:
    """The evidence on a population: shares of seeds with exact intervals.

    - `holds`; `not_failing`: pattern holds or is undecided.
    - `used`, `redundant`, `unused`, `not_asked`; `of_use`: used or redundant; `used_ahead`: how many more seeds are
      used than redundant.
    - `supported`, `misleading`; `not_refuted`: any other verdict than refuted.
    """

    holds: Estimate
    not_failing: Estimate
    used: Estimate
    redundant: Estimate
    unused: Estimate
    not_asked: Estimate
    of_use: Estimate
    used_ahead: int
    supported: Estimate
    misleading: Estimate
    not_refuted: Estimate


def binomial(successes: int, n: int, level: float) -> Estimate:
    """In which share of seeds something is so, with the exact interval."""
    return clopper_pearson(successes, n, over="seeds", level=level)


def most_claims(n: int) -> int:
    """How many claims may be asked at once so that `n` of `n` seeds still show a majority; 0: `n` decides nothing."""
    most = int(t.ALPHA / 2 / t.MOST_SEEDS ** min(n, 40))  # 40 decide more than anybody asks
    return most if most == 0 or low(binomial(n, n, 1 - t.ALPHA / most)) > t.MOST_SEEDS else most - 1


def seed_shares(outcomes: Sequence[Outcome], level: float) -> SeedShares:
    """The evidence of one outcome a seed."""
    patterns: Counter[str] = Counter(o.pattern.word for o in outcomes)
    uses: Counter[str] = Counter(o.use.word for o in outcomes)
    verdicts: Counter[str] = Counter(o.verdict for o in outcomes)

    def share(counts: Counter[str], *words: str) -> Estimate:
        return binomial(sum(counts[word] for word in words), len(outcomes), level)

    return SeedShares(
        holds=share(patterns, "holds"),
        not_failing=share(patterns, "holds", "undecided"),
        used=share(uses, "used"),
        redundant=share(uses, "redundant"),
        unused=share(uses, "unused"),
        not_asked=share(uses, "not asked"),
        of_use=share(uses, "used", "redundant"),
        used_ahead=uses["used"] - uses["redundant"],
        supported=share(verdicts, "supported"),
        misleading=share(verdicts, "misleading"),
        not_refuted=share(verdicts, "supported", "undecided", "misleading"),
    )


def _most(name: str) -> Bound:
    return Bound(f"{name}.low", ">", t.MOST_SEEDS)


def _few(name: str) -> Bound:
    return Bound(f"{name}.high", "<", t.MOST_SEEDS)


# A word that asks for something is said if most seeds show it, for sure; fails and refuted if at most so many can be
# otherwise, open ones included.
SEED_PATTERN_RULES = (
    Rule("most_fail", _few("not_failing"), "fails"),
    Rule("most_hold", _most("holds"), "holds"),
    Rule("pattern_open", ALWAYS, "undecided"),
)
SEED_USE_RULES = (
    # Which is known of these seeds, and no estimate of others.
    Rule("none_asked", Bound("not_asked.value", ">=", 1.0), "not asked"),
    Rule("most_used", _most("used"), "used"),
    Rule("most_redundant", _most("redundant"), "redundant"),
    Rule("most_unused", _most("unused"), "unused"),
    Rule("most_not_asked", _most("not_asked"), "not asked"),
    # Of redundant and used seeds together it is known that the head is of use, not which of the two.
    Rule("most_of_use_more_used", all_of(_most("of_use"), Bound("used_ahead", ">=", 0)), "used"),
    Rule("most_of_use", _most("of_use"), "redundant"),
    Rule("use_open", ALWAYS, "undecided"),
)
SEED_VERDICT_RULES = (
    Rule("most_support", _most("supported"), "supported"),
    Rule("most_mislead", _most("misleading"), "misleading"),
    Rule("most_refute", _few("not_refuted"), "refuted"),
    Rule("verdict_open", ALWAYS, "undecided"),
)
