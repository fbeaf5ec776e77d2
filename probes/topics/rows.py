"""Sums within rows: every number that is a ratio of them, what it would be with nothing to see, and its interval."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from interp.rng import generator
from interp.stats import CONFIDENCE, REALS, Estimate, Support
from probes.core import mean_over_seeds
from probes.topics.words import MEMORY, Array, Ints, Words

ROUNDING = 1e-12  # differences within a row this small, relative to its largest entry, are none
DRAWS = 2000  # bootstrap draws
SHARE: Support = (-1.0, 1.0)


@dataclass(frozen=True)
class Rows:
    """Matrices of the words alone, each row less its mean off the diagonal.

    `off` [S, w, w]: that, 0 on the diagonal; `own` [S, w]: the diagonal. Offsets of rows are gone. Each matrix stands
    in units of 2 to the power of its `exponent` [S], so that no square over- or underflows.
    """

    off: Array
    own: Array
    exponent: Ints

    @property
    def size(self) -> int:
        return self.off.shape[-1]

    @property
    def largest(self) -> int:
        """The exponent of the largest matrix."""
        return int(self.exponent.max())

    def alike(self, values: Array) -> Array:
        """`values` [S, w] in units of the largest matrix."""
        return np.asarray(np.ldexp(values, (self.exponent - self.largest)[:, None]))

    @property
    def spread_off(self) -> Array:
        """Sum of squares within each row, diagonal left out: [S, w]."""
        return np.asarray((self.off**2).sum(-1))

    @property
    def spread(self) -> Array:
        """The same with the diagonal."""
        return np.asarray(self.spread_off + (self.size - 1) / self.size * self.own**2)


def rows_of(matrices: Array, kept: NDArray[np.bool_]) -> Rows:
    """The `kept` rows and columns of `matrices` [S, n, n]; differences of rounding become 0."""
    m = matrices[:, kept][:, :, kept]
    n = m.shape[-1]
    exponent = np.frexp(np.abs(m).max((1, 2)))[1].astype(np.int64)
    m = np.ldexp(m, -exponent[:, None, None])
    itself = np.eye(n, dtype=bool)
    tiny = ROUNDING * np.abs(m).max(-1)
    mean = (m.sum(-1) - m[:, itself]) / (n - 1)
    off = np.where(itself, 0.0, m - mean[..., None])
    off[np.abs(off) <= tiny[..., None]] = 0.0
    own = m[:, itself] - mean
    return Rows(off, np.where(np.abs(own) <= tiny, 0.0, own), exponent)


@dataclass(frozen=True)
class Ratio:
    """sum(top) / sum(bottom) over rows [S, w], with the sign of sum(sign) where there is one.

    In units of 2 to the power of `exponent`.
    """

    top: Array
    bottom: Array
    sign: Array | None
    why_not: str
    exponent: int = 0

    def values(self, rows: Ints | slice = slice(None)) -> Array:
        """[S], or [S, draws] for `rows` [draws, w]; NaN where undefined."""
        top, bottom = self.top[:, rows].sum(-1), self.bottom[:, rows].sum(-1)
        value = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
        if self.sign is None:
            return np.asarray(value)
        return np.asarray(np.where(self.sign[:, rows].sum(-1) < 0, -1, 1) * np.clip(value, 0.0, 1.0))


def ratios_of(rows: Rows, words: Words) -> dict[str, Ratio]:
    """Every number that is a ratio of sums over rows."""
    n, d, ones = rows.size, rows.own, np.ones_like(rows.own)
    flat = "every row is constant"
    out = {"diagonality": Ratio((n - 1) / n * d**2, rows.spread, d, flat)}
    if words.topic is None:
        return out
    m, same = words.peers(), words.topic[:, None] == words.topic
    s = (rows.off * same).sum(-1)
    other = n - 1 - m
    c_off = s * (1 / m + 1 / other)
    c_in = (d + s) / (m + 1) + s / other
    many = m >= 2
    variance = ((rows.off**2 * same).sum(-1) - s**2 / m) / np.maximum(m - 1, 1)
    return out | {
        "contrast": Ratio((m + 1) * other / n * c_in**2, rows.spread, c_in, flat),
        "contrast_off_diagonal": Ratio(
            m * other / (n - 1) * c_off**2, rows.spread_off, c_off, "off the diagonal every row is constant"
        ),
        "raw_contrast": Ratio(rows.alike(c_in), ones, None, flat, rows.largest),
        "raw_contrast_off_diagonal": Ratio(rows.alike(c_off), ones, None, flat, rows.largest),
        "uniformity": Ratio(
            c_off**2 * many,
            (c_off**2 + np.maximum(variance, 0.0)) * many,
            c_off,
            "same-topic entries neither stand out nor differ" if many.any() else "topics of two words: one entry a row",
        ),
    }


def nulls_of(rows: Rows, words: Words) -> dict[str, dict[str, float | None]]:
    """What each number would be with nothing to see. All are exact expectations (`uniformity`: of both its parts)."""
    n, d, spread = rows.size, rows.own, rows.spread.sum(-1)
    random = 1 / (n - 1)

    def mean(top: Array, bottom: Array) -> float | None:
        fine = bottom > 0
        return float((top[fine] / bottom[fine]).mean()) if fine.any() else None

    if words.topic is None:
        return {"diagonality": {"random": random}}
    m, same = words.peers(), words.topic[:, None] == words.topic
    other = n - 1 - m
    # Relabelling gives a row the m of any word, then draws m of its n - 1 other entries: their sum has mean 0 and
    # variance m (1 - m / (n - 1)) times this.
    variance = rows.spread_off / (n - 2)
    drawn = m * (1 - m / (n - 1)) * (1 / (m + 1) + 1 / other) ** 2
    factor = (m + 1) * other / n
    relabelled = (factor / (m + 1) ** 2).mean() * d**2 + (factor * drawn).mean() * variance
    total = d + (rows.off * same).sum(-1)
    squares = d**2 + (rows.off**2 * same).sum(-1)
    moved = (n**2 * squares / (m + 1) - 2 * n * d * total / (m + 1) + d**2) / (n - 1) ** 2
    chance, alike = ((1 / m + 1 / other) * (m >= 2)).mean() * variance, (m >= 2).mean() * variance
    return {
        "contrast": {
            "random": random,
            "permuted": mean(relabelled.sum(-1), spread),
            "diagonal": float((other / (m + 1)).mean() / (n - 1)),
        },
        "contrast_off_diagonal": {"random": 1 / (n - 2), "permuted": 1 / (n - 2)},
        "diagonality": {
            "random": random,
            "permuted": mean(((n - 1) / n * moved).sum(-1), spread),
            "blocks": float((other**2 / (n * (n - 1))).sum() / ((m + 1) * other / n).sum()),
        },
        "raw_contrast": {"permuted": math.ldexp(float(rows.alike(d).mean() * (1 / (m + 1)).mean()), rows.largest)},
        "raw_contrast_off_diagonal": {"permuted": 0.0},
        "uniformity": {"permuted": mean(chance.sum(-1), (chance + alike).sum(-1))},
    }


def estimate_of(ratio: Ratio, seed: int) -> Estimate:
    """Over seeds; for one matrix over words: its rows drawn with replacement."""
    values = ratio.values()
    count, n = ratio.top.shape
    support = REALS if ratio.sign is None else SHARE
    if count > 1:
        return _scaled(mean_over_seeds(values, support=support), ratio.exponent)
    if not np.isfinite(values[0]):
        return Estimate.undefined(ratio.why_not, n, "words")
    index = generator(seed, "topic-words").integers(0, n, (DRAWS, n))
    drawn = np.concatenate([ratio.values(part)[0] for part in np.array_split(index, max(1, DRAWS * n // MEMORY))])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    return _scaled(Estimate(values[0], low, high, n, "words"), ratio.exponent)


def mean_of(values: Array) -> Estimate:
    """Mean over seeds of numbers of any size, whose squares may be too large."""
    exponent = int(np.frexp(np.abs(values).max())[1]) if np.isfinite(values).all() else 0
    return _scaled(mean_over_seeds(np.ldexp(values, -exponent), support=REALS), exponent)


def _scaled(estimate: Estimate, exponent: int) -> Estimate:
    if not exponent:
        return estimate
    value, low, high = (
        None if x is None else math.ldexp(x, exponent) for x in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high)
