"""How analyzers make intervals: each kind once, with `level=` where 95 % is not what is asked.

The makers are those of `interp.stats`, since training and evaluation report estimates too.
"""

from typing import Any

import numpy as np

from interp.numbers import interval
from interp.stats import (
    MANY,
    SHARE,
    Estimate,
    clopper_pearson,
    jackknife,
    jackknife_pairs,
    mean_over_inputs,
    mean_over_seeds,
    t_interval,
)

__all__ = [
    "clopper_pearson",
    "errors_over_seeds",
    "jackknife",
    "jackknife_pairs",
    "mean_over_inputs",
    "mean_over_seeds",
    "t_interval",
]


def errors_over_seeds(shares: Any) -> Estimate:
    """Mean of one share of errors per seed, `shares` [S]: where fewer than half of the seeds err, without an interval.

    Such a mean is carried by the few that err, of which fewer than 40 seeds show too little (docs/intervals.md, "some
    seeds fail"): the reason gives the exact interval of how many seeds err. Else `mean_over_seeds`.
    """
    found = mean_over_seeds(shares, support=SHARE)
    bad = int((np.asarray(shares) > 0).sum())
    if found.low is None or not 0 < 2 * bad < found.n < MANY:
        return found
    share = clopper_pearson(bad, found.n, over="seeds")
    reason = (
        f"{bad} of {found.n} seeds err (share of all seeds {interval(share.low, share.high, 2)}), and of fewer than "
        f"{MANY} no interval covers a mean that few carry"
    )
    return Estimate(found.value, None, None, found.n, "seeds", reason=reason)
