"""Many comparisons in one study: the primary ones are named beforehand, all others are corrected together (Holm).

A `Comparison` is one number with its null, and, where the study has named one beforehand, a bound: within null ± bound
a difference counts as none. Both of its p-values come from the intervals that the study prints anyway, so that a
p-value and an interval beside it never contradict each other:

- `p`: of the null, two-sided: 1 - the highest level at which the interval leaves the null out.
- `p_equivalent`: of the null that the number lies at the bound or beyond it; two one-sided tests (Schuirmann 1987). At
  5 % they agree with the question whether the 90 % interval lies within the bound.

`corrected` keeps the p-values of the primary comparisons and adjusts those of all others, each of the two kinds
together. `Comparison.finding` then says in a word what may be said; "no difference" is never said because a test failed
to find one.

    found = corrected([compared("a", lambda level: spearman(x, y, level=level), bound=0.3), ...], primary=["a"])
    found["a"].finding                              # "below", "above", "equivalent", "inconclusive" or "untested"
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from interp.errors import RequestError, quoted
from interp.names import first_duplicate
from interp.numbers import power, significant
from interp.stats import CONFIDENCE, Estimate, holm

ALPHA = 0.05
SMALLEST = 1e-12  # beyond it quantiles are not exact: a smaller p-value is given as this one

Interval = Callable[[float], Estimate]  # level -> the estimate with its interval of that level
Finding = Literal["below", "above", "equivalent", "inconclusive", "untested"]


@dataclass(frozen=True)
class Comparison:
    """One number of a study beside its null.

    - `name`: unique within the study. `estimate`: with its 95 % interval.
    - `null`: what the number would be without a difference. `bound`: up to null ± bound (exclusive) it counts as none,
      as the study named beforehand; None where it named nothing, and "no difference" is then never said.
    - `p`, `p_equivalent`: as the module says, before any correction; None where there is no interval (or no bound).
    - `primary`: named beforehand, and so decided by its own p-values. `adjusted`, `adjusted_equivalent`: what decides:
      of a primary comparison p and p_equivalent, of the others Holm's.
    """

    name: str
    estimate: Estimate
    null: float
    bound: float | None
    p: float | None
    p_equivalent: float | None
    primary: bool = False
    adjusted: float | None = None
    adjusted_equivalent: float | None = None

    @property
    def finding(self) -> Finding:
        """Where the number lies: below or above the null, equivalent to it, inconclusive; untested without interval."""
        if self.adjusted is None or self.estimate.value is None:
            return "untested"
        if self.adjusted <= ALPHA:
            return "below" if self.estimate.value < self.null else "above"
        equivalent = self.adjusted_equivalent is not None and self.adjusted_equivalent <= ALPHA
        return "equivalent" if equivalent else "inconclusive"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the estimate's entries, and those of the tests."""
        tests = {
            key: getattr(self, key)
            for key in ("bound", "p", "adjusted", "p_equivalent", "adjusted_equivalent", "primary", "finding")
        }
        return self.estimate.with_null(self.null).to_dict() | tests

    @property
    def tests(self) -> str:
        """The p-values as they stand beside an interval; where no difference was found, those of equivalence too.

        "p = 0.018"; "Holm 0.2 (p = 0.018); within ±0.3: Holm 1 (p = 0.69)".
        """
        if self.p is None:
            return "not tested"
        text = self._decided(self.p, self.adjusted)
        if self.bound is None or self.finding not in ("equivalent", "inconclusive"):
            return text
        return f"{text}; within ±{self.bound:g}: {self._decided(self.p_equivalent, self.adjusted_equivalent)}"

    def _decided(self, p: float | None, adjusted: float | None) -> str:
        if self.primary or p is None or adjusted is None:
            return p_text(p)
        least = "< " if p <= SMALLEST and adjusted < 1 else ""  # of a p-value that is known as below `SMALLEST`
        return f"Holm {least}{p_text(adjusted, '')} ({p_text(p)})"


def compared(name: str, interval: Interval, *, null: float = 0.0, bound: float | None = None) -> Comparison:
    """A comparison with both p-values, not corrected yet. `interval` makes the estimate at a level between 0 and 1.

    The intervals must be nested: one of a higher level holds those of all lower ones. `RequestError` for a bound that
    is not above 0.
    """
    if bound is not None and not bound > 0:
        raise RequestError(f"bound={quoted(bound)} of {quoted(name)} is not a number above 0")
    equivalent = None if bound is None else p_equivalent(interval, null - bound, null + bound)
    return Comparison(name, interval(CONFIDENCE), null, bound, p_value(interval, null), equivalent)


def corrected(comparisons: Sequence[Comparison], primary: Collection[str] = ()) -> dict[str, Comparison]:
    """All comparisons of a study by name, in the order given; those that are not `primary` are Holm-adjusted together.

    Tests of the null are one family, tests of equivalence (of those with a bound) another. What has no p-value stays in
    its family as if it were 1: the family is what was named, not what could be tested.
    Raises `RequestError` for two of one name, and for a primary one that is not there.
    """
    if (twice := first_duplicate(c.name for c in comparisons)) is not None:
        raise RequestError(f"two comparisons are named {quoted(twice)}")
    if missing := [name for name in primary if name not in {c.name for c in comparisons}]:
        raise RequestError(f"the primary comparison {quoted(missing[0])} is not among those of the study")
    others = [c for c in comparisons if c.name not in primary]
    decides = {c.name: c.p for c in comparisons} | _adjusted({c.name: c.p for c in others})
    bounded = {c.name: c.p_equivalent for c in others if c.bound is not None}
    decides_equivalent = {c.name: c.p_equivalent for c in comparisons} | _adjusted(bounded)
    return {
        c.name: replace(
            c,
            primary=c.name in primary,
            adjusted=decides[c.name],
            adjusted_equivalent=decides_equivalent[c.name],
        )
        for c in comparisons
    }


def p_value(interval: Interval, null: float = 0.0) -> float | None:
    """The two-sided p-value of `null` that an interval implies, `SMALLEST` at least; None without an interval."""
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    at = interval(CONFIDENCE)
    if at.value is None or at.low is None or at.high is None:
        return None
    if at.value == null:
        return 1.0
    above = at.value > null

    def left_out(z: float) -> float:
        """How far the null lies beyond the end of the interval whose level is that of z standard errors."""
        e = interval(1 - 2 * float(ndtr(-z)))
        assert e.low is not None
        assert e.high is not None
        return e.low - null if above else null - e.high

    least, most = (-float(ndtri(p / 2)) for p in (1 - SMALLEST, SMALLEST))
    if left_out(most) > 0:
        return SMALLEST
    if left_out(least) <= 0:
        return 1.0
    return 2 * float(ndtr(-brentq(left_out, least, most, xtol=1e-13)))


def p_equivalent(interval: Interval, low: float, high: float) -> float | None:
    """The larger p-value of two one-sided tests, that the number is `low` or less and that it is `high` or more."""
    value = interval(CONFIDENCE).value
    sides = [(p_value(interval, end), inwards) for end, inwards in ((low, 1), (high, -1))]
    if value is None or any(p is None for p, _ in sides):
        return None
    ends = (low, high)
    return max(
        p / 2 if (value - end) * inwards > 0 else 1 - p / 2
        for end, (p, inwards) in zip(ends, sides, strict=True)
        if p is not None
    )


def p_text(p: float | None, letter: str = "p") -> str:
    """ "p = 0.018", "p < 1e-12", or without a letter "0.018"."""
    if p is None:
        return "–"
    known, below = (f"{letter} = ", f"{letter} < ") if letter else ("", "< ")
    return f"{below}{power(SMALLEST, 0)}" if p <= SMALLEST else f"{known}{significant(p, 2)}"


def _adjusted(values: Mapping[str, float | None]) -> dict[str, float | None]:
    found = holm([1.0 if p is None else p for p in values.values()]).tolist() if values else []
    return {name: None if p is None else q for (name, p), q in zip(values.items(), found, strict=True)}
