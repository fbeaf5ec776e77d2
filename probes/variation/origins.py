"""Attention variation split by where it comes from: the first weights, the order of data, or both together.

Models i (first weights) by j (data) attend with patterns P_ij = common + weights_i + data_j + together_ij, parts of
which nothing is asked but that they are drawn independently. Half the expected squared distance of two models is then

    s_data + s_both                where they share first weights,
    s_weights + s_both             where they share data,
    s_weights + s_data + s_both    where they share neither (which is what independent seeds do),

so the means over the three kinds of pairs give each part without bias (Henderson's first method of variance components,
with squared Frobenius distances in the place of squares). An estimate without bias may come out below 0.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import whole_number
from interp.dip import clustered
from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import hosting, is_model, models_of
from interp.settings import origins
from interp.stats import FEWEST_PAIRED, MANY, Estimate, Null
from probes.core import recorded, t_interval
from probes.variation.analyzer import analyze_variation, variation_from_patterns
from probes.variation.origins_result import ORIGINS, OriginsResult
from probes.variation.result import VariationResult

Array = NDArray[np.float64]
ROUNDING = 1e-12  # of squared distances of rows that sum to 1: below, patterns are the same
NO_ORIGIN = "the patterns do not vary between models that share nothing"


@recorded
@hosting("origins of variation")
def share_of_origins(
    model: Any,
    inputs: Any = None,
    *,
    grammar: Any = None,
    seed: int = 0,
    num_inputs: int | None = None,
    untrained: bool = True,
    task_check: bool = True,
) -> OriginsResult:
    """Which share of attention variation the first weights make, which the data, and which both together.

    `model`: a population whose seeds were crossed (`--set crossed=n`, seeds 0 to n * n - 1, in any order), or a list of
    its models (`interp.settings.origins` says whose first weights and whose data a seed has). All else as for
    `analyze_variation`, which measures the distances: with several heads those of each pair are matched first.

    Raises `AnalysisError` for models that were not crossed, or not all of them are there; else as `analyze_variation`.
    """
    if is_model(model):
        raise AnalysisError("share_of_origins compares models of crossed seeds, and one model was given")
    models = models_of(model, "origins of variation")
    order, levels = _crossed(models)
    measured = analyze_variation(
        model,
        inputs,
        grammar=grammar,
        seed=seed,
        num_inputs=num_inputs,
        untrained=untrained,
        task_check=task_check,
    )
    return _result(measured, order, levels)


def origins_from_patterns(
    patterns: Iterable[Sequence[Any]] | Sequence[Any],
    levels: int,
    *,
    untrained: Iterable[Sequence[Any]] | Sequence[Any] | None = None,
    causal: bool | None = None,
    seed: int = 0,
) -> OriginsResult:
    """The same from arrays of weights as `variation_from_patterns` takes them, seeds 0 to levels * levels - 1 in order.

    Raises `AnalysisError` for another number of seeds than levels * levels.
    """
    levels = whole_number("levels", levels, least=2)
    measured = variation_from_patterns(patterns, untrained=untrained, causal=causal, seed=seed)
    if measured.num_models != levels**2:
        raise AnalysisError(
            f"{levels} first weights by {levels} data are {levels**2} models, not {measured.num_models}"
        )
    return _result(measured, np.arange(levels**2), levels)


# -- the split -------------------------------------------------------------------------------------


def split_of(distances: Array) -> Array:
    """(variation, weights, data, both), in units of variation, from distances [weights, data, weights, data].

    Variation is the mean over the pairs that share neither, and the three parts sum to it.
    """
    a, b = distances.shape[:2]
    same_weights = np.einsum("idie->", distances)
    same_data = np.einsum("idjd->", distances)
    neither = (distances.sum() - same_weights - same_data) / (a * (a - 1) * b * (b - 1))
    same_weights, same_data = same_weights / (a * b * (b - 1)), same_data / (a * (a - 1) * b)
    return np.array([neither, neither - same_weights, neither - same_data, same_weights + same_data - neither])


def _result(measured: VariationResult, order: NDArray[np.int64], levels: int) -> OriginsResult:
    grids = [_grid(pairs, order, levels) for pairs in measured.pairs]
    starts = None if measured.untrained_pairs is None else [_grid(p, order, levels) for p in measured.untrained_pairs]
    fresh: list[Array | None] = [None] * len(grids) if starts is None else [split_of(start) for start in starts]
    layers = [
        _layer(grid, start, estimate.null)
        for grid, start, estimate in zip(grids, fresh, measured.variation, strict=True)
    ]
    variation, weights, data, both = (tuple(estimates[i] for estimates, _ in layers) for i in range(4))
    return OriginsResult(
        variation=variation,
        weights=weights,
        data=data,
        both=both,
        parts=tuple(dict(zip(ORIGINS, map(float, parts[1:]), strict=True)) for _, parts in layers),
        levels=levels,
        num_heads=measured.num_heads,
        num_inputs=measured.num_inputs,
        positions=measured.positions,
        inputs=measured.inputs,
        task_check=measured.task_check,
        unread=measured.unread,
    )


def _layer(distances: Array, start: Array | None, null: Null) -> tuple[list[Estimate], Array]:
    """Variation and the three shares of one layer, and (variation, parts) in units of variation."""
    parts, levels = split_of(distances), len(distances)
    assert isinstance(null, dict)
    nulls: list[Null] = [{**null, "untrained": None if start is None else float(start[0])}]
    for i, independent in enumerate((0.0, 0.0, 1.0), 1):
        own = None if start is None or start[0] <= ROUNDING else float(start[i] / start[0])
        nulls.append({"independent": independent, "untrained": own})
    if parts[0] <= ROUNDING:
        undefined = [Estimate.undefined(NO_ORIGIN, levels, "seeds", own) for own in nulls[1:]]
        return [Estimate(0.0, 0.0, 0.0, levels, "seeds", nulls[0]), *undefined], parts
    values = _with_shares(parts)
    if reason := _without_interval(distances):
        pairs = zip(values, nulls, strict=True)
        return [Estimate(float(v), None, None, levels, "seeds", own, reason) for v, own in pairs], parts
    errors = _errors(distances)
    # Of the variation, which is a size, on the logarithmic scale; shares may lie below 0.
    factor = math.exp(t_interval(0.0, float(errors[0] / values[0]), levels, over="seeds").high or 0.0)
    found = [Estimate(float(values[0]), float(values[0]) / factor, float(values[0]) * factor, levels, "seeds")]
    found += [t_interval(float(v), float(e), levels, over="seeds") for v, e in zip(values[1:], errors[1:], strict=True)]
    return [estimate.with_null(own) for estimate, own in zip(found, nulls, strict=True)], parts


def _with_shares(parts: Array) -> Array:
    """(variation, shares of it); a share is not a number where nothing varies."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([parts[0], *(parts[1:] / parts[0])])


def _errors(distances: Array) -> Array:
    """Standard errors of `_with_shares`: the jackknife over first weights and that over data, squares added.

    Each of the two holds what both do together, so that counts twice where it is all there is: intervals are then too
    wide rather than too narrow.
    """
    levels, squares = len(distances), np.zeros(4)
    for axis in (0, 1):
        without = np.array(
            [_with_shares(split_of(np.delete(np.delete(distances, i, axis), i, axis + 2))) for i in range(levels)]
        )
        squares += (levels - 1) / levels * np.square(without - without.mean(0)).sum(0)
    return np.asarray(np.sqrt(squares))


def _without_interval(distances: Array) -> str | None:
    """Why no interval would cover: few levels, or first weights, or data, that fall into clusters."""
    levels, upper = len(distances), np.triu_indices(len(distances), 1)
    if levels < FEWEST_PAIRED:
        return f"{levels} first weights and data are too few for an interval: {FEWEST_PAIRED} at least"
    for name, axes in (("first weights", (1, 3)), ("data", (0, 2))):
        apart = distances.mean(axis=axes)[upper]
        if levels < MANY and np.ptp(apart) > ROUNDING and clustered(apart):
            return f"the {name} fall into clusters: {levels} are too few"
    return None


def _grid(pairs: Array, order: NDArray[np.int64], levels: int) -> Array:
    """Distances [weights, data, weights, data] of the pairs of models, of whom `order` says where they stand."""
    size = levels**2
    square = np.zeros((size, size))
    square[np.triu_indices(size, 1)] = pairs
    square = (square + square.T)[np.ix_(order, order)]
    return square.reshape(levels, levels, levels, levels)


# -- models ----------------------------------------------------------------------------------------


def _crossed(models: Sequence[Any]) -> tuple[NDArray[np.int64], int]:
    """Where each model of the grid (first weights by data) stands among the models given, and how many levels."""
    told = [getattr(one, "provenance", None) or {} for one in models]
    each = {(one.get("settings") or {}).get("crossed", 0) for one in told}
    levels = each.pop() if len(each) == 1 else 0
    if not levels:
        raise AnalysisError(
            "share_of_origins needs models whose first weights and data were crossed, and these were not: train with "
            "--set crossed=8 --seeds 64"
        )
    if levels == 1:
        raise AnalysisError("crossed=1 is one model: two first weights by two data at least tell them apart")
    seeds = [one.get("seed") for one in told]
    place = {seed: i for i, seed in enumerate(seeds)}
    if missing := [seed for seed in range(levels**2) if seed not in place]:
        raise AnalysisError(
            f"crossed={levels} are seeds 0 to {levels**2 - 1}, and {len(missing)} of them are not there, the first "
            f"{missing[0]}: every first weights have to be seen with every data"
        )
    if len(seeds) > levels**2:
        other = next(seed for i, seed in enumerate(seeds) if place[seed] != i or seed not in range(levels**2))
        raise RequestError(
            f"crossed={levels} are {levels**2} models, not {len(seeds)}: seed {quoted(other)} is one too many"
        )
    in_order = sorted(range(levels**2), key=lambda seed: origins(levels, seed))  # by first weights, then by data
    return np.array([place[seed] for seed in in_order]), levels
