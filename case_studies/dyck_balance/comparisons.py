"""What `dyck-balance` compares: the primary comparisons, named before the run, and all others, corrected together."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from case_studies.corrections import Comparison, Interval, compared, corrected
from case_studies.dyck_balance.measure import DATA, RULES, SHOWN, Arm, further, pair_name
from interp.stats import (
    FEWEST_RANKED,
    GAP,
    REALS,
    Estimate,
    Support,
    jackknife,
    mean_over_seeds,
    spearman,
)

# Up to these a number counts as none: named before the run. A rank correlation of .3 leaves 9 % of the variance of the
# ranks explained, and is about the least that 40 seeds can tell from 0; two points of accuracy; a tenth of beta as
# standard training on all tokens leaves it. The released code's variant has no scale known beforehand, and so no bound.
CORRELATION, ACCURACY, BETA = 0.3, 0.02, 0.01

VIOLATIONS = {"beta": "beta", "beta_released": "beta by the released code"}
MEASURES = VIOLATIONS | RULES


def correlation_name(arm: str, rule: str, violation: str = "beta") -> str:
    """Of the rank correlation of a balance violation and an accuracy within an arm."""
    return f"{arm}: rank correlation of {VIOLATIONS[violation]} and accuracy by {RULES[rule]}"


def change_name(pair: str, measure: str) -> str:
    """Of the change that the regulariser makes of one of `MEASURES`."""
    what = MEASURES[measure] if measure in VIOLATIONS else f"accuracy by {MEASURES[measure]}"
    return f"{pair}: contrastive minus standard, {what}"


def _primary() -> tuple[str, ...]:
    names = []
    for data in DATA:
        pair = pair_name("released", data)
        names.append(correlation_name(f"standard, {pair}", SHOWN))
        names += [change_name(pair, "beta"), change_name(pair, SHOWN)]
    return tuple(names)


# The claims of Figs. 3 and 10, of the models that are nearest to the paper's, by one rule of accuracy.
PRIMARY = _primary()


# Named after the runs over the first seeds, which left them undecided, and before any further seed was trained: Fig. 3
# by the released code's training; Fig. 10 by the only training whose first seeds neither showed a correlation nor
# excluded one.
LATER = tuple(
    correlation_name(further(*which).name, SHOWN) for which in (("released", "complete"), ("closers", "prefix"))
)


def comparisons(
    pairs: Mapping[str, Sequence[Arm]], spread: Sequence[Arm], again: Sequence[Arm] = ()
) -> dict[str, Comparison]:
    """Every comparison of the study by name, corrected; `pairs`, `spread`, `again` (`further`): as of `Findings`."""
    found = [one for name, both in pairs.items() for one in _of_pair(name, both)]
    later = [
        _correlation(correlation_name(a.family.name, rule), a.beta, a.accuracy[rule]) for a in again for rule in RULES
    ]
    names = {one.name for one in later}
    return corrected([*found, *_of_grid(spread), *later], [*PRIMARY, *(name for name in LATER if name in names)])


def _of_pair(name: str, both: Sequence[Arm]) -> Iterator[Comparison]:
    for a in both:
        for rule in RULES:
            yield _correlation(correlation_name(a.family.name, rule), a.beta, a.accuracy[rule])
        yield _correlation(correlation_name(a.family.name, SHOWN, "beta_released"), a.beta_released, a.accuracy[SHOWN])
    old, new = both
    yield _change(change_name(name, "beta"), new.beta - old.beta, REALS, BETA)
    yield _change(change_name(name, "beta_released"), new.beta_released - old.beta_released, REALS, None)
    for rule in RULES:
        yield _change(change_name(name, rule), new.accuracy[rule] - old.accuracy[rule], GAP, ACCURACY)


def _of_grid(spread: Sequence[Arm]) -> Iterator[Comparison]:
    beta = np.array([a.beta for a in spread])
    for rule in RULES:
        accuracy = np.array([a.accuracy[rule] for a in spread])
        yield compared(correlation_name(BETWEEN, rule), between_cells(beta, accuracy), bound=CORRELATION)
        yield compared(correlation_name(WITHIN, rule), within_cells(beta, accuracy), bound=CORRELATION)


BETWEEN, WITHIN = "grid, means of cells", "grid, within cells"


def _correlation(name: str, x: np.ndarray, y: np.ndarray) -> Comparison:
    return compared(name, lambda level: spearman(x, y, level=level), bound=CORRELATION)


def _change(name: str, values: np.ndarray, support: Support, bound: float | None) -> Comparison:
    return compared(name, lambda level: mean_over_seeds(values, support=support, level=level), bound=bound)


def between_cells(x: np.ndarray, y: np.ndarray) -> Interval:
    """Rank correlation of the cells' means; `x`, `y` [cell, seed]. As if the settings of the cells had been drawn."""
    return lambda level: spearman(x.mean(1), y.mean(1), over="cells", level=level)


def within_cells(x: np.ndarray, y: np.ndarray) -> Interval:
    """Mean of the rank correlations within the cells; `x`, `y` [cell, seed]; interval over the seeds.

    A seed has the same initial weights in every cell, so that cells are not independent of each other: an interval
    that takes them so is far too short where they share much. Deleting a seed from all cells at once (jackknife) covers
    whatever they share (a test simulates both). Cells in which one of the two does not vary are left out.
    """
    seeds = x.shape[1]
    value = _mean_within(x, y)
    if value is None:
        reason = f"in no cell do both vary over {seeds} seeds, of which 4 are needed"
        return lambda level: Estimate.undefined(reason, seeds, "seeds", 0.0)
    without = [_mean_within(np.delete(x, i, axis=1), np.delete(y, i, axis=1)) for i in range(seeds)]
    known = np.array([one for one in without if one is not None])
    if seeds < FEWEST_RANKED or len(known) < seeds:
        reason = f"{seeds} seeds per cell are too few for an interval that covers: {FEWEST_RANKED} at least"
        return lambda level: Estimate(value, None, None, seeds, "seeds", 0.0, reason)
    return lambda level: jackknife(value, known, over="seeds", support=GAP, level=level).with_null(0.0)


def within_over_cells(x: np.ndarray, y: np.ndarray) -> Estimate:
    """The same mean with the interval over cells, as if no seed were shared: n is the cells in which both vary."""
    return mean_over_seeds(_each_within(x, y), over="cells", support=GAP).with_null(0.0)


def _each_within(x: np.ndarray, y: np.ndarray) -> list[float]:
    found = (spearman(a, b).value for a, b in zip(x, y, strict=True))
    return [one for one in found if one is not None]


def _mean_within(x: np.ndarray, y: np.ndarray) -> float | None:
    each = _each_within(x, y)
    return float(np.mean(each)) if each else None
