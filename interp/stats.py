"""Numbers with their uncertainty: one `Estimate`, and the few ways an interval is made.

All intervals are two-sided, and 95 % unless another `level` is asked for (m claims that are corrected together want
1 - .05 / m). Which one to use follows from what was drawn at random: seeds (`mean_over_seeds`, `jackknife_pairs`),
inputs (`mean_over_inputs`), counts of independent trials (`clopper_pearson`). `t_interval` and `jackknife` are what
statistics of one's own are made of. For which laws and from how many units on each covers what it says is measured in
`benchmarks/coverage.py`, and the table stands in docs/intervals.md; below that there is a value and no interval.
Imports no torch; tensors are taken by duck typing.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from interp.checks import one_of
from interp.dip import clustered
from interp.errors import RequestError, quoted
from interp.numbers import estimate
from interp.numeric_arrays import real_array

CONFIDENCE = 0.95
FEWEST = 4  # units of which a mean on a bounded scale has an interval that covers
FEWEST_UNBOUNDED = 8  # of a mean on an unbounded scale, whose skewness has to be estimated
FEWEST_PAIRED = 5  # of a mean over pairs
FEWEST_RANKED = 8  # of a rank correlation
MANY = 40  # from here on the skewness that the units show tells more than their scale
Over = Literal["seeds", "inputs", "words", "steps", "permutations", "positions", "trials", "cells"]
Null = float | None | Mapping[str, Any]
Support = tuple[float, float]
REALS: Support = (-math.inf, math.inf)
POSITIVE: Support = (0.0, math.inf)  # losses, distances, sizes
SHARE: Support = (0.0, 1.0)  # shares, rates, probabilities
SCORE: Support = (-math.inf, 1.0)  # (m - c) / (1 - c): 1 at best, and as low as the chance level c makes it
GAP: Support = (-1.0, 1.0)  # the difference of two shares


@dataclass(frozen=True)
class Estimate:
    """A number, its interval (95 % unless its maker says otherwise), and what it is to be compared with.

    - `value`, `low`, `high`: floats, or None where undefined; `reason` then says why.
    - `n`: how many units were drawn; `over`: which units the interval resamples.
    - `null`: what the number would be if there were nothing to see: one float, or several by name.

    A number that is not finite becomes None: NaN never leaves the library.

        >>> from interp.stats import Estimate
        >>> estimate = Estimate(0.5, 0.4, 0.6, 8, "seeds", null=0.1)
        >>> print(estimate, estimate.null)
        0.500 [0.400, 0.600] (n=8 seeds) 0.1

    Raises `RequestError` for an unknown unit `over`, and for no value without a `reason`.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    over: Over
    null: Null = None
    reason: str | None = None

    @property
    def ends(self) -> tuple[float | None, float | None, float | None]:
        """Value, low, high."""
        return self.value, self.low, self.high

    def __post_init__(self) -> None:
        if not one_of(self.over, get_args(Over)):
            raise RequestError(f"over={quoted(self.over)} is not one of {', '.join(get_args(Over))}")
        for name in ("value", "low", "high"):
            given = getattr(self, name)
            number = _finite(given)
            object.__setattr__(self, name, number)
            if given is not None and number is None and self.reason is None:
                object.__setattr__(self, "reason", f"{name} came out as {given}")
        if self.value is None and self.reason is None:
            raise RequestError("an Estimate without a value needs a reason")
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "null", _plain_null(self.null))

    @classmethod
    def undefined(cls, reason: str, n: int, over: Over, null: Null = None) -> "Estimate":
        """An estimate that has no value, and why."""
        return cls(None, None, None, n, over, null, reason)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Estimate":
        """The estimate that `to_dict` wrote; other entries of the mapping are left alone."""
        return cls(**{f.name: row[f.name] for f in fields(cls) if f.name in row})

    def with_null(self, null: Null) -> "Estimate":
        """The same estimate beside another null."""
        return replace(self, null=null)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: {value, low, high, n, over, null}, and `reason` where there is one."""
        out = {name: getattr(self, name) for name in ("value", "low", "high", "n", "over", "null")}
        return out if self.reason is None else out | {"reason": self.reason}

    def __str__(self) -> str:
        return estimate(self, None, n=True) + (f": {self.reason}" if self.value is None else "")


def mean_over_seeds(
    values: Any, *, over: Over = "seeds", support: Support = REALS, level: float = CONFIDENCE
) -> Estimate:
    """Mean of one number per seed, `values` [S], with an interval that covers also where the numbers are skewed.

    `support` is the range the number can take (a share: `SHARE`) and decides how. Where it has an end that the mean can
    be near, Student's t interval is taken on a scale without that end (of shares the logit, of sizes the logarithm) and
    brought back. On the whole line, and anywhere from 40 seeds on, Student's quantiles are corrected for the skewness
    that the numbers show (Hall 1992, the monotone transformation). Both are cut to the support.

    Fewer than 4 seeds (8 on the whole line) have a value and no interval. So have seeds whose numbers are all the same:
    at an end of the support nothing tells how far off another would be, and the reason says of how many that can be
    true; elsewhere the number does not depend on the seed, and an interval would pass for one that was estimated. Of
    other units such numbers are taken to be no matter of chance: that one value.

        >>> from interp.stats import SHARE, mean_over_seeds
        >>> print(mean_over_seeds([0.97, 0.98, 0.99, 0.96, 0.98], support=SHARE))
        0.976 [0.957, 0.987] (n=5 seeds)
        >>> print(mean_over_seeds([0.97, 0.98, 0.99], support=SHARE))
        0.980 [no interval] (n=3 seeds)

    Raises `RequestError` for values of another shape than [S], for numbers that are not real, and for a `level` that
    is not between 0 and 1. Values that are not finite give an estimate without a value, and its `reason`.
    """
    x = _vector(values)
    if len(x) == 0:
        return Estimate.undefined(f"there are no {over}", 0, over)
    if bad := np.flatnonzero(~np.isfinite(x)).tolist():
        return Estimate.undefined(f"{_units(over, bad)} no finite value", len(x), over)
    scale = _scale_of(support)
    fewest = FEWEST_UNBOUNDED if scale is None else FEWEST
    if few := _too_few(len(x), fewest, over):
        return Estimate(x.mean(), None, None, len(x), over, reason=few)
    if over == "seeds" and x[0] in support and (x == x[0]).all():
        most = 1 - (1 - _level(level)) ** (1 / len(x))
        reason = f"all {len(x)} seeds are {x[0]:g}: at most {most:.2g} of all seeds are not, and how far off is unknown"
        return Estimate(x[0], None, None, len(x), over, reason=reason)
    if over == "seeds" and (x == x[0]).all():
        return Estimate(x[0], None, None, len(x), over, reason=f"the same number in all {len(x)} seeds")
    if scale is None or len(x) >= MANY:
        return _skewed_interval(x, over, support, level)
    return _scaled_interval(x.mean(), x.std(ddof=1) / math.sqrt(len(x)), len(x), scale, over, support, level)


def mean_over_inputs(
    values: Any, *, over: Over = "inputs", support: Support = REALS, level: float = CONFIDENCE
) -> Estimate:
    """`mean_over_seeds` of one number per input, `values` [n]. Raises `RequestError` as that does."""
    return mean_over_seeds(values, over=over, support=support, level=level)


def jackknife_pairs(
    statistic: Any, *, over: Over = "seeds", support: Support = REALS, level: float = CONFIDENCE
) -> Estimate:
    """Mean of a symmetric statistic [S, S] over all pairs of distinct members; interval over members.

    The pairs are not independent, since each member takes part in S - 1 of them. Deleting one member
    at a time gives (S - 1)/S * sum of (mean without member i - their mean)^2 for the squared standard
    error. Where all members are about as far from the others that misses what single pairs add, half of which is put
    to it: variance of the pairs / (S (S - 1)). The interval is Student's t on S - 1 degrees of freedom, on the scale
    that `support` says (see `mean_over_seeds`). (A bootstrap would draw a member twice and count its distance to
    itself, 0, as a pair.) The diagonal is never read.

    One member has no pair: no value. Fewer than 5 have a value and no interval; so have fewer than 40 that fall into
    clusters (`clustered`), of which no interval would cover, and the reason says so.

        >>> import numpy as np
        >>> from interp.stats import jackknife_pairs
        >>> apart = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
        >>> print(jackknife_pairs(apart, support=(0.0, np.inf)))
        2.333 [1.202, 4.531] (n=6 seeds)

    Raises `RequestError` for a statistic that is not square and symmetric, and for a `level` that is not between 0 and
    1. Source: the delete-one jackknife of a U-statistic (Arvesen 1969); what is put to it is ours.
    """
    d = _as_array(statistic)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise RequestError(f"a statistic of pairs has shape [S, S], not {list(d.shape)}")
    size = len(d)
    if size < 2:
        return Estimate.undefined(f"{size} of the {over} has no pairs: two at least are needed", size, over)
    off = ~np.eye(size, dtype=bool)
    if bad := np.argwhere(~np.isfinite(d) & off).tolist():
        return Estimate.undefined(f"pair {tuple(bad[0])} has no finite value", size, over)
    if not np.allclose(d, d.T, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise RequestError("a statistic of pairs must be symmetric: [i, j] and [j, i] differ")
    each = np.where(off, d, 0.0).sum(axis=1)  # over the pairs that member i takes part in
    total = each.sum()
    mean = total / (size * (size - 1))
    if few := _too_few(size, FEWEST_PAIRED, over):
        return Estimate(mean, None, None, size, over, reason=few)
    pairs = d[np.triu_indices(size, 1)]
    if size < MANY and clustered(pairs):
        return Estimate(mean, None, None, size, over, reason=f"the {over} fall into clusters: {size} are too few")
    without = (total - 2 * each) / ((size - 1) * (size - 2))
    variance = (size - 1) / size * float(np.square(without - without.mean()).sum()) + pairs.var() / (size * (size - 1))
    scale = _scale_of(support)
    return _scaled_interval(mean, math.sqrt(variance), size, scale, over, support, level)


def jackknife(
    value: float, without: np.ndarray, *, over: Over, support: Support = REALS, level: float = CONFIDENCE
) -> Estimate:
    """`value` with the delete-one jackknife's interval; `without` [n]: the same statistic without each unit in turn.

    The squared standard error is (n - 1)/n * sum of (without unit i - their mean)^2, taken with Student's t on n - 1
    degrees of freedom. Two units at least.
    """
    n = len(without)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return t_interval(value, error, n, over=over, support=support, level=level)


def t_interval(
    value: float, error: float, n: int, *, over: Over, support: Support = REALS, level: float = CONFIDENCE
) -> Estimate:
    """`value` plus and minus `error`, its standard error, times Student's t on n - 1 degrees of freedom."""
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + _level(level)) / 2)) * error
    low, high = (min(max(end, support[0]), support[1]) for end in (value - half, value + half))
    return Estimate(value, low, high, n, over)


def clopper_pearson(successes: int, n: int, *, over: Over = "trials", level: float = CONFIDENCE) -> Estimate:
    """Share of successes among `n` independent trials, with the exact binomial interval (Clopper and Pearson 1934).

        >>> from interp.stats import clopper_pearson
        >>> print(clopper_pearson(8, 8, over="seeds"))
        1.000 [0.631, 1.000] (n=8 seeds)

    Raises `RequestError` for counts that are not whole numbers of at least 0, for more successes than trials, and for a
    `level` that is not between 0 and 1. No trials give an estimate without a value.
    """
    from scipy.special import betaincinv

    for name, value in (("successes", successes), ("n", n)):
        if isinstance(value, bool) or int(value) != value or value < 0:
            raise RequestError(f"{name}={quoted(value)} is not a whole number of at least 0")
    if successes > n:
        raise RequestError(f"successes={successes} are more than n={n} trials")
    if n == 0:
        return Estimate.undefined(f"there are no {over}", 0, over)
    tail = (1 - _level(level)) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return Estimate(successes / n, low, high, n, over)


def spearman(x: Any, y: Any, *, over: Over = "seeds", level: float = CONFIDENCE) -> Estimate:
    """Rank correlation of two numbers per unit, `x` [n] and `y` [n], with Bonett and Wright's (2000) interval.

    The interval is Fisher's with variance (1 + r^2 / 2) / (n - 3); of a perfect order, that of one exchange of
    neighbours up to the end of the scale. Fewer than 8 units have a value and no interval; undefined where either does
    not vary. The null is 0.

        >>> from interp.stats import spearman
        >>> print(spearman([1, 2, 3, 4, 5, 6, 7, 8], [2, 1, 4, 3, 6, 5, 8, 7]))
        0.905 [0.428, 0.988] (n=8 seeds)

    Raises `RequestError` for values that do not pair up, for numbers that are not real, and for a `level`
    that is not between 0 and 1.
    """
    from scipy.stats import norm, rankdata

    a, b = _vector(x), _vector(y)
    if len(a) != len(b):
        raise RequestError(f"{len(a)} and {len(b)} values do not pair up")
    if len(a) < 4:
        return Estimate.undefined(f"{len(a)} {over} are too few for a rank correlation", len(a), over, 0.0)
    ranks = rankdata(a) - (len(a) + 1) / 2, rankdata(b) - (len(b) + 1) / 2
    scale = math.sqrt(float((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    if scale == 0:
        return Estimate.undefined("one of the two does not vary", len(a), over, 0.0)
    r = float((ranks[0] * ranks[1]).sum()) / scale
    if few := _too_few(len(a), FEWEST_RANKED, over):
        return Estimate(r, None, None, len(a), over, 0.0, few)
    perfect = abs(r) >= 1 - 1e-12
    if perfect:  # the interval of the nearest order that is not, and to the end of the scale
        r = math.copysign(1 - 12 / (len(a) * (len(a) ** 2 - 1)), r)
    half = float(norm.ppf((1 + _level(level)) / 2)) * math.sqrt((1 + r * r / 2) / (len(a) - 3))
    low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    if perfect:
        return Estimate(math.copysign(1, r), *((low, 1.0) if r > 0 else (-1.0, high)), len(a), over, 0.0)
    return Estimate(r, low, high, len(a), over, 0.0)


def holm(pvalues: Any) -> np.ndarray:
    """Holm's (1979) adjusted p-values [m], in the order given: rejecting those <= alpha keeps the family-wise error.

        >>> from interp.stats import holm
        >>> print(holm([0.01, 0.04, 0.03]))
        [0.03 0.06 0.06]

    Raises `RequestError` for a p-value that is not a number from 0 to 1.
    """
    p = _vector(pvalues)
    for i in np.flatnonzero(~((p >= 0) & (p <= 1))):
        raise RequestError(f"p-value {i} is {p[i]}: not a number from 0 to 1")
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


@dataclass(frozen=True)
class _Scale:
    """A scale without the ends that a mean can be near: `to` and `back`, and the derivative of `to`."""

    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


_LOGIT = _Scale(
    lambda m: math.log(m / (1 - m)), lambda z: 1 / (1 + math.exp(-max(z, -700.0))), lambda m: 1 / (m * (1 - m))
)
_LOG = _Scale(math.log, lambda z: math.exp(min(z, 700.0)), lambda m: 1 / m)
_BELOW_ONE = _Scale(lambda m: -math.log(1 - m), lambda z: 1 - math.exp(min(-z, 700.0)), lambda m: 1 / (1 - m))


def _scale_of(support: Support) -> _Scale | None:
    """The scale for numbers of that range; None: their own."""
    return {SHARE: _LOGIT, POSITIVE: _LOG, SCORE: _BELOW_ONE}.get(support)


def _scaled_interval(
    value: float, error: float, n: int, scale: _Scale | None, over: Over, support: Support, level: float
) -> Estimate:
    """Student's t on the scale, to first order (the delta method), and back."""
    from scipy.special import stdtrit

    if scale is None or error == 0 or not support[0] < value < support[1]:
        return t_interval(value, error, n, over=over, support=support, level=level)
    half = float(stdtrit(n - 1, (1 + _level(level)) / 2)) * error * scale.slope(value)
    low, high = scale.back(scale.to(value) - half), scale.back(scale.to(value) + half)
    return Estimate(value, min(low, value), max(high, value), n, over)


def _skewed_interval(x: np.ndarray, over: Over, support: Support, level: float) -> Estimate:
    """Hall's (1992) interval: T + a T^2 / 3 + a^2 T^3 / 27 + a / 6 is nearly Student's, a: skewness / sqrt(n)."""
    from scipy.special import stdtrit

    n, mean, spread = len(x), float(x.mean()), float(x.std(ddof=1))
    quantile = float(stdtrit(n - 1, (1 + _level(level)) / 2))
    if spread == 0:
        return Estimate(mean, mean, mean, n, over)
    each = (x - mean) / spread  # before it is cubed, so that no scale is too large
    a = float((each**3).mean() / (each**2).mean() ** 1.5) / math.sqrt(n)

    def inverse(y: float) -> float:
        return 3 / a * (float(np.cbrt(1 + a * (y - a / 6))) - 1) if abs(a) > 1e-9 else y

    ends = (mean - inverse(q) * spread / math.sqrt(n) for q in (quantile, -quantile))
    low, high = (min(max(end, support[0]), support[1]) for end in ends)
    return Estimate(mean, min(low, mean), max(high, mean), n, over)


def _too_few(n: int, fewest: int, over: str) -> str:
    if n == 1:
        return f"one {over.removesuffix('s')} alone gives no interval"
    return f"{n} {over} are too few for an interval that covers: {fewest} at least" if n < fewest else ""


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise RequestError(f"level={quoted(level)} is not a number between 0 and 1, such as 0.95")
    return level


def _as_array(values: Any) -> np.ndarray:
    return real_array(values, "numbers to average", RequestError)


def _vector(values: Any) -> np.ndarray:
    x = _as_array(values)
    if x.ndim != 1:
        raise RequestError(f"one number a unit is needed, shape [n], not {list(x.shape)}")
    return x


def _units(over: str, which: list[int]) -> str:
    """`seed 3 has`, `seeds 1, 4 have`, ... with at most three named."""
    if len(which) == 1:
        return f"{over.removesuffix('s')} {which[0]} has"
    named = ", ".join(map(str, which[:3]))
    return f"{over} {named}{' and others' if len(which) > 3 else ''} have"


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _plain_null(null: Any) -> Any:
    """Nested nulls as plain Python: floats, None for what is not finite, dicts; anything else as it is."""
    if isinstance(null, Estimate):
        return null.to_dict()
    if isinstance(null, Mapping):
        return {str(name): _plain_null(value) for name, value in null.items()}
    if isinstance(null, (float, np.floating, np.integer)):
        return _finite(null)
    return null
