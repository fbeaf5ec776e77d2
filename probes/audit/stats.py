"""Intervals and tests of an audit. The unit is always an input sequence."""

import math

import numpy as np
from numpy.typing import NDArray

from interp.rng import generator
from interp.stats import CONFIDENCE, POSITIVE, REALS, SCORE, SHARE, Estimate, Support
from probes.core import jackknife

Floats = NDArray[np.float64]

# The ranges of the numbers of an audit, by the name of their row; effects and margins may be any number.
SUPPORTS: dict[str, Support] = {
    "score": SCORE, "untrained": SCORE, "matched": SCORE, "rival": REALS, "better": REALS,
    "tail_score": SCORE, "tail_top1": SHARE, "top1": SHARE, "share": SHARE, "without_sink": SHARE, "sink": SHARE,
    "by_value": SHARE, "aimed": SHARE,
    "still": POSITIVE, "silent": POSITIVE,
}  # fmt: skip


def ratio(numerator: Floats, denominator: Floats, level: float, support: Support = REALS) -> Estimate:
    """sum(numerator) / sum(denominator), each [sequence]; delete-one jackknife with Student's t at `level`.

    A mean over rows is one: sums of rows over numbers of rows. The jackknife rather than a bootstrap, since with m
    claims the level is 1 - .05/m: a percentile needs draws by the ten thousand there, a quantile of t none.
    The interval is cut to `support`, the range that the number can take.
    """
    there = denominator != 0
    top, bottom = numerator[there], denominator[there]
    n, total = len(top), float(bottom.sum())
    if n == 0 or total == 0:
        return Estimate.undefined("no input has a row that counts", n, "inputs")
    value = float(top.sum()) / total
    rest = total - bottom
    if n == 1 or (rest == 0).any():
        return Estimate(value, None, None, n, "inputs", reason="one of the inputs gives no interval")
    without = (top.sum() - top) / rest
    return jackknife(value, without, over="inputs", support=support, level=level)


def sign_flips(differences: Floats, draws: int, seed: int) -> Floats:
    """p-values [claim] of differences [sequence, claim] against a mean of 0, one-sided: each sequence turned or not.

    All claims are turned by the same signs. The data themselves count as one draw.
    """
    n, claims = differences.shape
    observed = differences.sum(0)
    slack = 1e-9 * np.abs(differences).sum(0)  # ties, up to rounding, count against the claim
    above = np.ones(claims)
    rng = generator(seed, "audit/signs")
    left = draws
    while left > 0:
        take = min(left, 2000)
        signs = 2.0 * rng.integers(0, 2, (take, n)) - 1.0
        above += (signs @ differences >= observed - slack).sum(0)
        left -= take
    return np.asarray(above / (draws + 1))


def spent(share: float, number: int) -> float:
    """Level of an interval of one of `number` claims, at a look that spends this share of the error level."""
    return 1 - (1 - CONFIDENCE) * share / number


def held_to(share: float, p_value: float) -> float:
    """The p-value that is compared with `ALPHA` where a look spends this share of it."""
    return min(p_value / share, 1.0)


def low(estimate: Estimate) -> float:
    """Lower bound; -inf where there is none."""
    return -math.inf if estimate.low is None else estimate.low


def high(estimate: Estimate) -> float:
    """Upper bound; inf where there is none."""
    return math.inf if estimate.high is None else estimate.high


def far(estimate: Estimate) -> float:
    """The farther of the bounds from 0."""
    return max(abs(low(estimate)), abs(high(estimate)))


def unseen(units: int, level: float) -> float:
    """The share of all units that may move although none of so many did: 1 - (1 - level)^(1/n), the rule of three."""
    return 1 - (1 - level) ** (1 / max(units, 1))


def units_to_exclude(share: float, level: float) -> int:
    """The least number of units of which so large a share cannot have gone `unseen`."""
    units = max(math.floor(math.log(1 - level) / math.log(1 - share)), 1)
    return next(n for n in (units, units + 1, units + 2) if unseen(n, level) < share)


def reach(estimate: Estimate, level: float) -> float:
    """How far from 0 the number may lie: the farther of its bounds, or what so few units could not have shown."""
    return max(far(estimate), unseen(estimate.n, level))
