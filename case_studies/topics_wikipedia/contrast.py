"""Means over pairs of words of two kinds: their difference and ratio, with bootstrap intervals."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from case_studies.topics_wikipedia.corpus import Floats
from interp.rng import generator
from interp.stats import Estimate, Over

DOCUMENT_DRAWS = 2000
WORD_DRAWS = 1000
TAIL = (0.025, 0.975)


@dataclass(frozen=True)
class Contrast:
    """Same-topic mean, different-topic mean, their ratio and their difference, all from the same resamples."""

    same: Estimate
    different: Estimate
    ratio: Estimate
    difference: Estimate

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: getattr(self, name).to_dict() for name in ("same", "different", "ratio", "difference")}


@lru_cache(maxsize=16)
def resamples(units: int, draws: int, seed: int, stream: str) -> Floats:
    """How often each unit is drawn [draw, unit]; the first row is the sample itself."""
    drawn = generator(seed, f"topics-wikipedia/{stream}").multinomial(units, np.full(units, 1 / units), size=draws)
    weights = np.concatenate([np.ones((1, units)), drawn.astype(np.float64)])
    weights.flags.writeable = False  # shared by all that resample the same units
    return weights


def contrast_of_sums(
    same: Floats, same_n: Floats, different: Floats, different_n: Floats, *, units: int, over: Over = "inputs"
) -> Contrast:
    """From sums and counts by resample [draw + 1], the first being the sample itself.

    A ratio needs a denominator that is clearly apart from 0: where the interval of the different-topic mean holds
    0, the ratio is undefined and the difference tells.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = same / same_n, different / different_n
    a, b = (_interval(x, units, over, reason="no such pair") for x in means)
    if a.value is None or b.value is None:
        none = Estimate.undefined("no pair of words on one side", units, over)
        return Contrast(a, b, none, none)
    difference = _interval(means[0] - means[1], units, over, 0.0)
    if b.value == 0 or (b.low is not None and b.high is not None and b.low <= 0 <= b.high):
        reason = "the different-topic mean is not apart from 0: a ratio to it has no meaning, see the difference"
        return Contrast(a, b, Estimate.undefined(reason, units, over, 1.0), difference)
    return Contrast(a, b, _interval(means[0] / means[1], units, over, 1.0), difference)


def _interval(draws: Floats, units: int, over: Over, null: Any = None, reason: str = "") -> Estimate:
    if not np.isfinite(draws[0]):
        return Estimate.undefined(reason, units, over, null)
    rest = draws[1:][np.isfinite(draws[1:])]
    if units < 2 or len(rest) < len(draws) * 0.95:
        return Estimate(draws[0], None, None, units, over, null, "too few units for an interval")
    low, high = np.quantile(rest, TAIL)
    return Estimate(draws[0], low, high, units, over, null)
