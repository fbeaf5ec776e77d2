"""Does a score that is had in training's law tell which seeds glitch beyond it? AUROC over seeds, with its interval."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import norm, rankdata

from case_studies.corrections import Comparison, compared, corrected
from case_studies.flip_flop.measure import DENSE, OWN, SCORES, SPARSE, Measured
from interp.stats import CONFIDENCE, SHARE, Estimate, clopper_pearson, jackknife, mean_over_seeds, spearman

Array = NDArray[np.float64]
LAWS = {SPARSE: "sparse", DENSE: "dense"}
BOUND = 0.1  # an AUROC within .5 +- this predicts nothing worth the name
FEWEST = 8  # seeds of either kind of which an interval is given
EDGE = 1e-9
LESS = ("entropy",)  # scores of which less should be better
PRIMARY = tuple(f"{arm}, {law}: mass" for arm in ("1 layer", "2 layers") for law in LAWS.values())


def auroc(score: ArrayLike, faulty: ArrayLike, level: float = CONFIDENCE) -> Estimate:
    """Chance that a faulty seed scores lower than one that is not, ties counting half; null .5.

    The interval is at either end the wider of two: the delete-one jackknife's, which covers too little near 1 and has
    no width where the kinds do not overlap, and `newcombe`'s, which takes both kinds to spread alike. Undefined where
    all seeds are of one kind; fewer than 8 of either have a value and no interval.
    """
    x, bad = np.asarray(score, dtype=np.float64), np.asarray(faulty, dtype=bool)
    known = np.isfinite(x)
    x, bad = x[known], bad[known]
    ones, zeros = int(bad.sum()), int((~bad).sum())
    if not ones or not zeros:
        return Estimate.undefined("all seeds are of one kind", len(x), "seeds", 0.5)
    value = _auroc(x, bad)
    if min(ones, zeros) < FEWEST:
        few = f"{min(ones, zeros)} seeds of one kind are too few for an interval: {FEWEST} at least"
        return Estimate(value, None, None, len(x), "seeds", 0.5, few)
    keep = ~np.eye(len(x), dtype=bool)
    without = np.array([_auroc(x[rest], bad[rest]) for rest in keep])
    found = jackknife(value, without, over="seeds", support=SHARE, level=level).with_null(0.5)
    low, high = newcombe(value, ones, zeros, level)
    return replace(
        found,
        low=min(low, value if found.low is None else found.low),
        high=max(high, value if found.high is None else found.high),
    )


def newcombe(value: float, ones: int, zeros: int, level: float = CONFIDENCE) -> tuple[float, float]:
    """Score interval of an AUROC of `ones` against `zeros` (Newcombe 2006, part 2, method 5): the t with
    (value - t)^2 = z^2 V(t), V being Hanley's and McNeil's variance with both sizes in its middle term equal."""
    squared, half = float(norm.ppf((1 + level) / 2)) ** 2, (ones + zeros) / 2 - 1

    def beyond(t: float) -> float:
        spread = t * (1 - t) * (1 + half * ((1 - t) / (2 - t) + t / (1 + t))) / (ones * zeros)
        return (value - t) ** 2 - squared * spread

    inside = min(max(value, EDGE), 1 - EDGE)
    if beyond(inside) >= 0:  # of a level next to 0
        return value, value
    low = float(brentq(beyond, EDGE, inside)) if beyond(EDGE) > 0 else 0.0
    high = float(brentq(beyond, inside, 1 - EDGE)) if beyond(1 - EDGE) > 0 else 1.0
    return low, high


def _auroc(x: Array, bad: NDArray[np.bool_]) -> float:
    good = ~bad
    ranks = rankdata(x)
    above = ranks[good].sum() - good.sum() * (good.sum() + 1) / 2
    return float(above / (good.sum() * bad.sum()))


def faulty(errors: Array) -> NDArray[np.bool_]:
    """Seeds with more errors than the median seed."""
    return np.asarray(errors > np.median(errors))


def predictions(measured: Sequence[Measured]) -> dict[str, Comparison]:
    """AUROC of each score, arm and law, for "more errors than the median seed"; those of `PRIMARY` decided by
    themselves, the rest corrected together."""
    found = []
    for m in measured:
        for law, words in LAWS.items():
            for score in m.scores:
                sign = -1 if score in LESS else 1
                interval = partial(_interval, sign * m.scores[score], faulty(m.errors(law)))
                found.append(compared(f"{m.arm.family.name}, {words}: {score}", interval, null=0.5, bound=BOUND))
    return corrected(found, [name for name in PRIMARY if name in {c.name for c in found}])


def _interval(score: Array, bad: NDArray[np.bool_], level: float) -> Estimate:
    return auroc(score, bad, level)


def any_error(m: Measured, law: str, score: str) -> Estimate:
    """The same for "any error at all"."""
    return auroc((-1 if score in LESS else 1) * m.scores[score], m.errors(law) > 0)


def among_clean(m: Measured, law: str, score: str) -> Estimate:
    """The AUROC among seeds without an error on training's law: does a score tell more than who has not learned?"""
    clean = m.errors(OWN) == 0
    return auroc((-1 if score in LESS else 1) * m.scores[score][clean], faulty(m.errors(law))[clean])


def unlearned(m: Measured, law: str) -> Estimate:
    """Of the seeds with an error on a law, the share that has one on training's law too; null: the share of all."""
    wrong, own = m.errors(law) > 0, m.errors(OWN) > 0
    return clopper_pearson(int(own[wrong].sum()), int(wrong.sum()), over="seeds").with_null(float(own.mean()))


def rivals(m: Measured, law: str) -> dict[str, Estimate]:
    """The AUROC of what needs no look at a head: errors on training's law, and a seed's last accuracy at reads."""
    bad = faulty(m.errors(law))
    return {"errors": auroc(-m.errors(OWN), bad), "accuracy": auroc(m.accuracy, bad)}


def learned(m: Measured, law: str) -> dict[str, Estimate]:
    """Of seeds without an error on training's law: errors per read on another law, and the share that has none."""
    left = m.errors(law)[m.errors(OWN) == 0]
    none = clopper_pearson(int((left == 0).sum()), len(left), over="seeds")
    return {"errors": mean_over_seeds(list(left), support=SHARE), "faultless": none}


def ranks(m: Measured, law: str, score: str) -> Estimate:
    """Rank correlation over seeds of a score and the errors."""
    x, y = m.scores[score], m.errors(law)
    known = np.isfinite(x)
    return spearman(x[known], y[known])


def words_of(score: str) -> str:
    """A score in words."""
    return SCORES[score]
