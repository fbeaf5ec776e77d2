"""Means over pairs of words of two kinds: their difference and ratio, with intervals over articles or words.

Each number is a function of a few sums over units (articles, or words, which pairs share), and is taken again without
each unit in turn: the delete-one jackknife, with Student's t. Of a ratio it is taken on the logarithmic scale.
docs/intervals.md says where that covers: from `FEWEST` units on.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from case_studies.topics_wikipedia.corpus import Floats
from interp.stats import Estimate, Over, jackknife

FEWEST = 100  # units: below, an interval of such a ratio covers less than 93 % where units differ much in size


@dataclass(frozen=True)
class Contrast:
    """Same-topic mean, different-topic mean, their ratio and their difference, all without the same units in turn."""

    same: Estimate
    different: Estimate
    ratio: Estimate
    difference: Estimate

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name).to_dict() for name in ("same", "different", "ratio", "difference")}


def without_each(of_units: ArrayLike) -> Floats:
    """The sum over all units, and without each in turn: [unit, ...] -> [unit + 1, ...]."""
    x = np.asarray(of_units, dtype=np.float64)
    total = x.sum(0, keepdims=True)
    return np.concatenate([total, total - x])


def contrast_of_sums(
    same: Floats, same_n: Floats, different: Floats, different_n: Floats, *, units: int, over: Over = "inputs"
) -> Contrast:
    """From sums and counts, of all and without each unit in turn [unit + 1]; `units`: those that hold a pair.

    A ratio needs a denominator that is clearly apart from 0: where the interval of the different-topic mean holds
    0, the ratio is undefined and the difference tells.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = same / same_n, different / different_n
    a, b = (interval_of(x, units, over, reason="no such pair") for x in means)
    if a.value is None or b.value is None:
        none = Estimate.undefined("no pair of words on one side", units, over)
        return Contrast(a, b, none, none)
    difference = interval_of(means[0] - means[1], units, over, 0.0)
    if b.value == 0 or (b.low is not None and b.high is not None and b.low <= 0 <= b.high):
        reason = "the different-topic mean is not apart from 0: a ratio to it has no meaning, see the difference"
        return Contrast(a, b, Estimate.undefined(reason, units, over, 1.0), difference)
    return Contrast(a, b, interval_of(means[0] / means[1], units, over, 1.0, ratio=True), difference)


def interval_of(
    values: Floats, units: int, over: Over, null: Any = None, reason: str = "", ratio: bool = False
) -> Estimate:
    """Of `values`, the statistic and the same without each unit in turn [unit + 1]."""
    value, without = float(values[0]), values[1:]
    if not math.isfinite(value):
        return Estimate.undefined(reason, units, over, null)
    if units < FEWEST:
        return Estimate(value, None, None, units, over, null, f"{units} {over} are too few for an interval")
    if not np.isfinite(without).all():
        return Estimate(value, None, None, units, over, null, "it rests on one unit")
    if ratio and (values > 0).all():
        found = jackknife(math.log(value), np.log(without), over=over)
        assert found.low is not None
        assert found.high is not None
        return Estimate(value, math.exp(found.low), math.exp(found.high), units, over, null)
    found = jackknife(value, without, over=over)
    return Estimate(value, found.low, found.high, units, over, null)
