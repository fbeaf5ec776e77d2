"""Two AUROCs of the same seeds: their difference, with the interval of DeLong, DeLong and Clarke-Pearson (1988)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from case_studies.flip_flop.predict import FEWEST
from interp.stats import CONFIDENCE, Estimate

Array = NDArray[np.float64]


def auroc_difference(one: ArrayLike, other: ArrayLike, faulty: ArrayLike, level: float = CONFIDENCE) -> Estimate:
    """AUROC of the scores `one` less that of `other`, both [seed] and of the same seeds; null 0.

    The variance is DeLong's: of the difference of placements among the faulty seeds, and among the others. Undefined
    where all seeds are of one kind; fewer than 8 of either, or scores of one order, have a value and no interval.
    """
    x, y, bad = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64), np.asarray(faulty, dtype=bool)
    known = np.isfinite(x) & np.isfinite(y)
    x, y, bad = x[known], y[known], bad[known]
    if bad.all() or not bad.any():
        return Estimate.undefined("all seeds are of one kind", len(x), "seeds", 0.0)
    apart = _above(x, bad) - _above(y, bad)  # [good, faulty]
    value, least = float(apart.mean()), min(apart.shape)
    if least < FEWEST:
        few = f"{least} seeds of one kind are too few for an interval: {FEWEST} at least"
        return Estimate(value, None, None, len(x), "seeds", 0.0, few)
    spread = apart.mean(0).var(ddof=1) / apart.shape[1] + apart.mean(1).var(ddof=1) / apart.shape[0]
    if spread == 0:
        return Estimate(value, None, None, len(x), "seeds", 0.0, "both scores order all pairs alike")
    half = float(norm.ppf((1 + level) / 2) * np.sqrt(spread))
    return Estimate(value, max(value - half, -1.0), min(value + half, 1.0), len(x), "seeds", 0.0)


def _above(score: Array, bad: NDArray[np.bool_]) -> Array:
    """Whether a good seed scores higher than a faulty one, ties one half [good, faulty]."""
    good, faulty = score[~bad][:, None], score[bad][None]
    return np.asarray((good > faulty) + 0.5 * (good == faulty))
