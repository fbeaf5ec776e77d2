"""Numbers as text."""

from collections.abc import Sequence
from dataclasses import replace

from case_studies.lottery_ticket.measure import N, Sums
from interp.numbers import ABSENT, estimate, number, percent, power
from interp.stats import Estimate


def factor(slope: Estimate) -> Estimate:
    """By how much an error falls a candidate, of the slope of its log10."""
    value, high, low = (None if end is None else 10**-end for end in slope.ends)
    return replace(slope, value=value, low=low, high=high)


def fall(slope: Estimate) -> str:
    """The same in a sentence."""
    return estimate(factor(slope), 2, n=True)


def span(values: Sequence[float]) -> str:
    """Least to greatest, one digit and a power of ten."""
    return " to ".join(dict.fromkeys(power(end, 0) for end in (min(values), max(values))))


def share_range(values: Sequence[float | None]) -> str:
    """Least to greatest of those known."""
    known = [v for v in values if v is not None]
    return " to ".join(dict.fromkeys(number(end) for end in (min(known), max(known)))) if known else ABSENT


def missed(sums: Sequence[Sums]) -> str:
    """Share of targets that one group of `N` misses."""
    share = next(s.missed for s in sums if s.n == N)
    return f"{percent(share.value, 2)} of them"


def short(name: str) -> str:
    """A solver's name without its prefix."""
    return name.removeprefix("lottery/")
