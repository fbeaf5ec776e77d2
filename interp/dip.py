"""Do numbers fall into clusters? Hartigan and Hartigan's (1985) dip: how far a sample is from having one mode.

The dip is the least D such that some distribution with one mode is nowhere further than D from the sample's. Imports no
torch.
"""

import math
from typing import Any

import numpy as np

from interp.errors import RequestError
from interp.numeric_arrays import real_array

THINNED = 100  # of a larger sample so many quantiles are looked at: the dip is right to 1/200
# sqrt(n) * dip: one sample in a hundred of a uniform law, the least favourable with one mode, is beyond it.
LARGE = 0.52
PRECISION = 1e-4


def dip(values: Any) -> float:
    """The dip of a sample [n], to a precision of .0001: from 1 / (2 n) to 1/4; of one number 1/2."""
    x = np.sort(real_array(values, "numbers", RequestError).ravel())
    if not len(x) or not np.isfinite(x).all():
        raise RequestError("the dip is that of finite numbers, one at least")
    if len(x) > THINNED:
        x = np.quantile(x, (np.arange(THINNED) + 0.5) / THINNED)
    at, counts = np.unique(x, return_counts=True)
    share = np.concatenate([[0.0], np.cumsum(counts) / len(x)])
    low, high = 1 / (2 * len(x)), 0.25 + PRECISION
    if _has_one_mode(at, share, low):
        return low
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if _has_one_mode(at, share, middle) else (middle, high)
    return high


def clustered(values: Any) -> bool:
    """Is the sample further from one mode than all but one in a hundred samples of a uniform law of its size are?

    Numbers that come in steps (counts, say) are spread evenly over the steps first: each step is no mode of its own.
    """
    x = np.sort(real_array(values, "numbers", RequestError).ravel())
    at, counts = np.unique(x, return_counts=True)
    if 4 <= len(at) < len(x) / 2:
        within = np.concatenate([(np.arange(n) + 0.5) / n - 0.5 for n in counts])
        x = np.sort(x + within * np.median(np.diff(at)))
    return bool(len(x) >= 4 and math.sqrt(min(len(x), THINNED)) * dip(x) > LARGE)


def _has_one_mode(at: np.ndarray, share: np.ndarray, distance: float) -> bool:
    """Is there a distribution with one mode within `distance` of the sample's, `share` [k + 1] below and at `at` [k]?

    Up to the mode it is convex, from there on concave; at the mode itself it may jump.
    """
    least, most = share[1:] - distance - 1e-12, share[:-1] + distance + 1e-12
    reached = _convex_until(at, least, most)
    back = _convex_until(-at[::-1], 1 - most[::-1], 1 - least[::-1])
    return reached >= len(at) - 1 - back


def _convex_until(at: np.ndarray, least: np.ndarray, most: np.ndarray) -> int:
    """The last point j for which a convex function lies between the bounds before j, and below `most` at j."""
    low, high = 0, len(at) - 1
    while low < high:
        middle = (low + high + 1) // 2
        hull = _minorant(at[: middle + 1], most[: middle + 1])
        low, high = (middle, high) if (hull[:-1] >= least[:middle]).all() else (low, middle - 1)
    return low


def _minorant(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The greatest convex function below the points, at `x`."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return np.asarray(np.interp(x, x[kept], y[kept]))
