"""Numbers as text."""

from collections.abc import Sequence

from case_studies.lottery_ticket.measure import N, Sums
from case_studies.words import number3 as number
from interp.stats import Estimate

__all__ = ["factor", "missed", "number", "share_range", "short", "span"]


def factor(slope: Estimate) -> str:
    """By how much an error falls a candidate, of the slope of its log10."""
    if slope.value is None:
        return "undefined"
    value = f"{10**-slope.value:.2f}"
    return (
        value if slope.low is None or slope.high is None else f"{value} [{10**-slope.high:.2f}, {10**-slope.low:.2f}]"
    )


def span(values: Sequence[float]) -> str:
    """Least to greatest, one digit and a power of ten."""
    low, high = min(values), max(values)
    return f"{low:.0e}" if f"{low:.0e}" == f"{high:.0e}" else f"{low:.0e} to {high:.0e}"


def share_range(values: Sequence[float | None]) -> str:
    """Least to greatest of those known."""
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    low, high = min(known), max(known)
    return f"{low:.3f}" if round(low, 3) == round(high, 3) else f"{low:.3f} to {high:.3f}"


def missed(sums: Sequence[Sums]) -> str:
    """Share of targets that one group of `N` misses."""
    share = next(s.missed for s in sums if s.n == N)
    return f"{share.value or 0.0:.2%} of them"


def short(name: str) -> str:
    """A solver's name without its prefix."""
    return name.removeprefix("lottery/")
