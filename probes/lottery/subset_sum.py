"""Random subset sums: which of n random numbers add up to a wanted one, for thousands of targets at once.

The engine of the lottery-ticket theorem (Wen et al. 2023, Theorem 2, through Pensia et al. 2020 and Lueker
1998): 2^n subsets of n random products hit a target that is not too large within about 2^-n. Exact search
meets in the middle: 2^(n/2) sums of either half, sorted, walked through from both ends.

One group of n products fails outright where the target lies beyond the sum of its products of one sign. So
every entry has two groups of its own to choose from, and whatever exceeds 1/2 is first brought down by a
coarse sum of the largest products of the other group and of some extra ones.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CELLS = 2**20  # sums of half a group held at once: 8 MB, so that the walk stays in the caches
LARGE = 0.5  # targets beyond are brought down by a coarse sum first
UNLUCKY = 1e-3  # an error beyond means that both groups failed: a coarse sum is tried all the same
MAX_CANDIDATES = 30  # 2^15 sums a half, 30 times the work of 20
MOMENT = 1 / 9  # mean square of a product of two U(-1, 1)


def best_subsets(targets: Array, values: Array) -> tuple[Mask, Array]:
    """The subset of `values` [targets, n] whose sum is nearest to each of `targets` [targets], and its error.

    Exact up to the rounding of float64 sums. Returns a mask [targets, n] and |sum - target| [targets].
    """
    targets, values = np.asarray(targets, np.float64), np.asarray(values, np.float64)
    chosen = np.zeros(values.shape, dtype=bool)
    step = max(1, CELLS >> -(-values.shape[1] // 2))
    for first in range(0, len(targets), step):
        part = slice(first, first + step)
        chosen[part] = _nearest(targets[part], values[part])
    return chosen, np.abs((values * chosen).sum(1) - targets)


def _nearest(targets: Array, values: Array) -> Mask:
    middle = values.shape[1] // 2
    halves = values[:, :middle], values[:, middle:]
    sums = [_subset_sums(half) for half in halves]
    low, high = (np.sort(s, axis=1) for s in sums)
    width = low.shape[1], high.shape[1]
    # Walk from (least, greatest): a sum that is too small asks for the next of `low`, one too large for the
    # one before in `high`. What is skipped is further from the target than what was met.
    base = [np.arange(len(targets)) * w for w in width]
    flat = low.ravel(), high.ravel()
    at = [base[0].copy(), base[1] + width[1] - 1]
    end = base[0] + width[0] - 1
    best = np.full(len(targets), np.inf)
    best_at = [at[0].copy(), at[1].copy()]
    for _ in range(width[0] + width[1] - 1):
        gap = flat[0].take(at[0]) + flat[1].take(at[1]) - targets
        size = np.abs(gap)
        better = size < best
        np.copyto(best, size, where=better)
        for kept, now in zip(best_at, at, strict=True):
            np.copyto(kept, now, where=better)
        rises = gap < 0
        at[0] = np.minimum(at[0] + rises, end)
        at[1] = np.maximum(at[1] - ~rises, base[1])
    # Which subset has that sum: sums were sorted without their places, which is four times as fast.
    picked = [(s == f.take(a)[:, None]).argmax(1) for s, f, a in zip(sums, flat, best_at, strict=True)]
    return np.concatenate([_bits(p, half.shape[1]) for p, half in zip(picked, halves, strict=True)], axis=1)


def _subset_sums(values: Array) -> Array:
    """Sums of all subsets of `values` [targets, h]: [targets, 2^h], subset s at place s in binary."""
    sums = np.zeros((len(values), 1))
    for column in values.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def _bits(numbers: NDArray[np.int64], count: int) -> Mask:
    return (numbers[:, None] >> np.arange(count)) & 1 == 1


@dataclass(frozen=True)
class Fit:
    """Subsets of every entry's products. `chosen` [entries, 2n + extra] marks groups one, two, then extra ones."""

    chosen: Mask
    error: Array  # [entries]: |sum - target|


def fit_entries(targets: Array, groups: Array, extra: Array | None = None) -> Fit:
    """A subset for every target [entries] from two groups of products [entries, 2, n] and extra ones [entries, e].

    Zeros are met by the empty subset, exactly. Pad `extra` with zeros where an entry has fewer.
    """
    entries, _, n = groups.shape
    extra = np.zeros((entries, 0)) if extra is None else extra
    chosen = np.zeros((entries, 2 * n + extra.shape[1]), dtype=bool)
    error = np.abs(np.asarray(targets, np.float64))
    small = np.flatnonzero((error > 0) & (error <= LARGE))
    _improve(chosen, error, small, targets, groups, extra, coarse=False)
    hard = np.flatnonzero((np.abs(targets) > LARGE) | (error > UNLUCKY))
    _improve(chosen, error, hard, targets, groups, extra, coarse=True)
    return Fit(chosen, error)


def _improve(
    chosen: Mask, error: Array, rows: NDArray[np.int64], targets: Array, groups: Array, extra: Array, coarse: bool
) -> None:
    """Try either group on the entries `rows`; keep what is better than what they have."""
    n = groups.shape[2]
    for fine in (0, 1):
        if len(rows) == 0:
            return
        trial = np.zeros((len(rows), chosen.shape[1]), dtype=bool)
        rest = targets[rows].astype(np.float64)
        if coarse:
            items = np.concatenate([groups[rows, 1 - fine], extra[rows]], axis=1)
            taken = _coarse(rest, items)
            trial[:, (1 - fine) * n : (2 - fine) * n] = taken[:, :n]
            trial[:, 2 * n :] = taken[:, n:]
            rest = rest - (items * taken).sum(1)
        trial[:, fine * n : (fine + 1) * n], missed = best_subsets(rest, groups[rows, fine])
        better = missed < error[rows]
        chosen[rows[better]], error[rows[better]] = trial[better], missed[better]


def _coarse(targets: Array, items: Array) -> Mask:
    """Greedily, from the largest down, every item of the target's sign that still fits: [entries, items]."""
    size = items * np.sign(targets)[:, None]
    order = np.argsort(-size, axis=1)
    left = np.abs(targets)
    taken = np.zeros(items.shape, dtype=bool)
    rows = np.arange(len(targets))
    for column in order.T:
        item = size[rows, column]
        fits = (item > 0) & (item <= left)
        taken[rows, column] = fits
        left = left - item * fits
    return taken


def expected_error(n: int, target: float = 0.0) -> float:
    """Median error that theory expects of one group of n products of two U(-1, 1).

    The 2^n sums lie about normally with variance n/18 (a product has mean square 1/9 and is taken half the time),
    so near the target there are rho = 2^n density(target) of them per unit, and the nearest is within e
    with probability 1 - exp(-2 rho e): the median is log(2) / (2 rho).
    """
    variance = n * MOMENT / 2
    density = math.exp(-(target**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    return math.log(2) / (2 * 2.0**n * density)
