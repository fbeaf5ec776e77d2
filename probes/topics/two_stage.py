"""Two stages of training: does W_V grow first, and do W_K and W_Q leave zero only when it has?

Li, Li, Risteski 2023, thesis section 2.1.4.1 and Figs 2.4, 2.9 (L427, L463-467, L694-717): from near-zero weights the
norms of W_K and W_Q stay flat while that of W_V rises (stage 1), then rise while it stays (stage 2). The thesis reads
the boundary off a plot. Here it is the first corner of a ramp, flat, then rising, then flat or not, fitted to the
geometric mean of ||W_K|| and ||W_Q||, and a rule says when there are two stages at all (`TwoStageResult`).
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import index_of, not_read
from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import hosting
from interp.limits import check_memory
from interp.numeric_arrays import real_array
from interp.stats import CONFIDENCE, SHARE, Estimate
from probes.core import clopper_pearson, mean_over_seeds, recorded
from probes.topics.two_stage_result import Run, TwoStageResult

Array = NDArray[np.float64]

NAMES = ("W_Q", "W_K", "W_V")
FEWEST_STEPS = 10
EVIDENCE = 10.0  # gain in log-likelihood x 2 of a first flat stretch over a rise from the start, net of a parameter
RISE = 4.0  # the rise of W_K and W_Q, in standard deviations of what the ramp leaves over
VALUE_DONE = 0.5  # share of W_V's growth that stage 1 holds, at least
ATTENTION_DONE = 0.2  # share of W_K's and W_Q's rise that stage 1 holds, at most
SLOWDOWN = 0.5  # growth of W_V a step in stage 2 over that in stage 1, at most
BEGINS, LENGTHS = 400, 60  # places of the first corner that are tried, lengths of the rise after each
LATEST = 1e15  # steps beyond are hardly told apart
MEMORY = 2**22  # float64 numbers held at once: 32 MB
WINDOW = 0.02  # share of the run over which a norm is averaged to be read at a step


@recorded
@hosting("two stages")
def analyze_two_stages(
    norms: Any,
    *,
    steps: ArrayLike | None = None,
    snapshots: Mapping[int, Any] | None = None,
    layer: int | None = None,
) -> TwoStageResult:
    """Looks for the two stages in norms of W_Q, W_K and W_V over training.

    `norms`
        A mapping of "W_Q", "W_K", "W_V" to Frobenius norms [steps] or [runs, steps]; or a population whose history
        holds them ("norm/blocks.0.attn.W_V", ...).
    `steps`
        Training step of each column; default 0, 1, 2, ... A population knows its own.
    `snapshots`
        Step -> W_V at that step, [...] of one run or [runs, ...]: gives the rotation. A population has its own.
    `layer`
        Of a population, from 0 or negative from the end; the last by default.

        >>> import numpy as np
        >>> from probes import analyze_two_stages
        >>> step = np.arange(20.0)
        >>> late = np.maximum(step - 8, 0) + 0.1
        >>> print(analyze_two_stages({"W_V": np.minimum(step, 8) + 0.1, "W_Q": late, "W_K": late}).share)
        1.000 [0.025, 1.000] (n=1 seed)

    Source: thesis of Y. Li, section 2.1.4.1; the rule is ours.
    Raises `AnalysisError` where a population carries no such norms, `RequestError` for arrays that do not fit.
    """
    at = None
    if not hasattr(norms, "history"):
        not_read("norms are given, and not a population", layer=layer)
    else:
        not_read("a population knows its own steps", steps=steps)
        at, norms, steps, found = _from_population(norms, -1 if layer is None else layer)
        snapshots = found if snapshots is None else snapshots
    curves = _curves(norms)
    count, length = curves["W_V"].shape
    check_memory(
        f"two stages of {count} runs of {length} steps",
        8 * (7 * max(MEMORY, LENGTHS * max(length, count)) + 2 * BEGINS * count),
        "give fewer runs or steps",
    )  # fmt: skip
    where = _steps(steps, length)
    runs = _runs(where, curves)
    rotation, later = _rotation(snapshots, len(runs))
    return _result(where, curves, runs, rotation, later, at)


def rotation(first: ArrayLike, second: ArrayLike) -> float:
    """(1 - cos) / 2 between two matrices of one shape: 0 for one direction, 1/2 at right angles; NaN for a zero."""
    a, b = (_numbers(x, "a matrix to compare").ravel() for x in (first, second))
    if a.shape != b.shape:
        raise RequestError(f"matrices of {a.size} and {b.size} numbers have no angle between them")
    a, b = _in_units(a), _in_units(b)
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return min(max((1 - float(a @ b) / size) / 2, 0.0), 1.0) if size > 0 else math.nan


# -- from what was given to curves -----------------------------------------------------------------


def _from_population(population: Any, layer: int) -> tuple[int, dict[str, Array], Array, dict[int, Any] | None]:
    at = index_of("layer", layer, population.config.n_layers, "two stages")
    keys = {name: f"blocks.{at}.attn.{name}" for name in NAMES}
    rows = population.history
    for name, key in keys.items():
        if not any(f"norm/{key}" in row for row in rows):
            frozen = getattr(population.config, "attention", "learned") == "uniform" and name != "W_V"
            why = "its attention is frozen uniform" if frozen else "train it with snapshots, or pass arrays"
            raise AnalysisError(f"two stages: the population's history holds no norm/{key}: {why}")
    table = {(row["seed"], row["step"]): row for row in rows if f"norm/{keys['W_V']}" in row}
    steps = sorted({step for _, step in table})
    if len(steps) < FEWEST_STEPS:
        raise AnalysisError(
            f"two stages: the history holds norms at {len(steps)} steps, {FEWEST_STEPS} at least are needed: train "
            "with a smaller eval_every"
        )
    curves = {}
    for name, key in keys.items():
        values = []
        for seed in population.seeds:
            for step in steps:
                value = table.get((seed, step), {}).get(f"norm/{key}")
                if value is None:
                    raise AnalysisError(f"two stages: seed {seed} has no norm/{key} at step {step}")
                values.append(float(value))
        curves[name] = np.array(values).reshape(len(population.seeds), len(steps))
    found = {step: params[keys["W_V"]] for step, params in population.snapshots.items()}
    return at, curves, np.array(steps, dtype=np.float64), found or None


def _numbers(values: Any, what: str) -> Array:
    array = real_array(values, f"two stages: {what}", RequestError)
    if not np.isfinite(array).all():
        raise RequestError(f"two stages: {what} is not finite at {np.argwhere(~np.isfinite(array))[0].tolist()}")
    return array


def _in_units(values: Array) -> Array:
    """Each curve (last axis) in units of its own, a power of 2, so that no square over- or underflows."""
    return np.asarray(np.ldexp(values, -np.frexp(np.abs(values).max(-1, keepdims=True, initial=0.0))[1]))


def _curves(norms: Any) -> dict[str, Array]:
    """[runs, steps] of each matrix."""
    if not isinstance(norms, Mapping) or (missing := [name for name in NAMES if name not in norms]):
        lacks = f"a mapping without {missing[0]}" if isinstance(norms, Mapping) else type(norms).__name__
        raise RequestError(f"two stages: {lacks} was given: pass a population, or norms of {', '.join(NAMES)} by name")
    curves = {name: np.atleast_2d(_numbers(norms[name], f"norms of {name}")) for name in NAMES}
    shapes = {name: list(curve.shape) for name, curve in curves.items()}
    if curves["W_V"].ndim != 2 or len({tuple(shape) for shape in shapes.values()}) > 1:
        raise RequestError(f"two stages: norms of shapes {shapes} are not all [runs, steps]")
    if curves["W_V"].shape[1] < FEWEST_STEPS or len(curves["W_V"]) == 0:
        raise RequestError(f"two stages: norms of shape {shapes['W_V']}: one run and {FEWEST_STEPS} steps at least")
    for name, curve in curves.items():
        if (curve < 0).any():
            raise RequestError(f"two stages: the norm of {name} is {curve.min():.4g}: norms are not negative")
    return curves


def _steps(steps: ArrayLike | None, count: int) -> Array:
    if steps is None:
        return np.arange(count, dtype=np.float64)
    out = _numbers(steps, "steps")
    if out.shape != (count,) or (np.diff(out) <= 0).any():
        raise RequestError(f"two stages: steps of shape {list(out.shape)} are not {count} rising numbers")
    if np.abs(out).max() > LATEST:
        raise RequestError(f"two stages: step {out[np.abs(out).argmax()]:g} is beyond {LATEST:g}")
    return out


# -- the ramp --------------------------------------------------------------------------------------


def _runs(steps: Array, curves: dict[str, Array]) -> list[Run]:
    # Every number of a run is a ratio, and knows no unit.
    attention = _in_units(np.sqrt(curves["W_K"]) * np.sqrt(curves["W_Q"]))
    value = _in_units(curves["W_V"])
    begins = np.linspace(steps[0], steps[-3], BEGINS)
    left, tallest = _left_over(steps, attention, begins)
    return [
        _run(steps, attention[i], value[i], begins, left[:, i], int(left[:, i].argmin()), tallest[:, i])
        for i in range(len(attention))
    ]


def _left_over(steps: Array, curves: Array, begins: Array) -> tuple[Array, Array]:
    """Sum of squares that the best ramp from each of `begins` leaves [begin, run], and its two lengths' end.

    Curves [run, step]. The ramp is c + h clip((t - begin) / (end - begin), 0, 1); the second array is its best end.
    """
    centred = curves - curves.mean(1, keepdims=True)
    total = (centred**2).sum(1)
    shares = np.linspace(0, 1, LENGTHS + 1)[1:]
    left, end = np.empty((len(begins), len(curves))), np.empty((len(begins), len(curves)))
    size = max(1, MEMORY // (LENGTHS * max(len(steps), len(curves))))
    for first in range(0, len(begins), size):
        begin = begins[first : first + size, None]
        # At least two steps long, so that a jump of one value is no rise.
        stop = np.maximum(begin + shares * (steps[-1] - begin), np.interp(begin, steps[:-2], steps[2:]))
        ramp = np.clip((steps - begin[..., None]) / (stop - begin)[..., None], 0, 1)
        ramp -= ramp.mean(-1, keepdims=True)
        spread = (ramp**2).sum(-1)
        along = ramp @ centred.T
        # A ramp that falls is none: it explains nothing.
        gain = np.where(along > 0, along, 0.0) ** 2 / np.where(spread > 0, spread, 1.0)[..., None]
        best = gain.argmax(1)
        left[first : first + size] = total - np.take_along_axis(gain, best[:, None], 1)[:, 0]
        end[first : first + size] = np.take_along_axis(stop, best, 1)
    floor = 1e-20 * (curves**2).sum(1)  # a perfect fit, up to rounding
    return np.maximum(left, floor), end


def _run(steps: Array, attention: Array, value: Array, begins: Array, left: Array, at: int, ends: Array) -> Run:
    corner, end, n = float(begins[at]), float(ends[at]), len(steps)
    if attention.max() - attention.min() <= 1e-9 * attention.max():
        return _none("W_K and W_Q never grow")
    ramp = np.clip((steps - corner) / (end - corner), 0, 1)
    slope, constant = np.polyfit(ramp, attention, 1)
    residual = attention - constant - slope * ramp
    effective = _effective(residual)
    sigma = math.sqrt(float(left[at]) / max(n - 4, 1))
    if slope <= 0 or slope < RISE * sigma:
        return _none("W_K and W_Q do not rise above their scatter")
    if effective * math.log(float(left[0] / left[at])) - math.log(effective) < EVIDENCE:
        return _none("W_K and W_Q grow from the start, as far as these steps show")
    low, high = _profile(begins, left, effective)
    before, after = _level(steps, value, steps[0]), _level(steps, value, steps[-1])
    middle = _level(steps, value, corner)
    growth = max(_level(steps, value, float(t)) for t in steps) - before
    start, reached = _level(steps, attention, steps[0]), _level(steps, attention, corner)
    risen = max(_level(steps, attention, float(t)) for t in steps) - start
    early = (middle - before) / (corner - float(steps[0]))
    late = (after - middle) / (float(steps[-1]) - corner)
    done = (middle - before) / growth if growth > 0 else None
    share = (reached - start) / risen if risen > 0 else None
    slowdown = late / early if early > 0 else None
    reason = None
    if done is None or slowdown is None:
        reason = "W_V does not grow before W_K and W_Q do"
    elif done < VALUE_DONE:
        reason = "W_V has done less than half of its growth when W_K and W_Q start"
    elif share is None or share > ATTENTION_DONE:
        reason = "W_K and W_Q have done more than a fifth of their rise before they bend upwards"
    elif slowdown > SLOWDOWN:
        reason = "W_V goes on growing more than half as fast when W_K and W_Q have started"
    return Run(reason is None, reason, corner, low, high, done, share, slowdown)


def _none(reason: str) -> Run:
    return Run(False, reason, None, None, None, None, None, None)


def _effective(residual: Array) -> float:
    """How many independent residuals these are worth: n (1 - r) / (1 + r), r the correlation of neighbours."""
    n, spread = len(residual), float((residual**2).sum())
    r = float((residual[1:] * residual[:-1]).sum()) / spread if spread > 0 else 0.0
    return max(n * (1 - max(r, 0.0)) / (1 + max(r, 0.0)), 6.0)


def _profile(begins: Array, left: Array, effective: float) -> tuple[float, float]:
    """Corners whose best ramp leaves no more than an F test at 95 % allows."""
    from scipy.special import fdtri

    freedom = effective - 4
    fits = np.flatnonzero(left <= left.min() * (1 + float(fdtri(1, freedom, CONFIDENCE)) / freedom))
    # Half a cell wider: corners are tried on a grid.
    half = (begins[1] - begins[0]) / 2
    return float(max(begins[fits[0]] - half, begins[0])), float(begins[fits[-1]] + half)


def _level(steps: Array, curve: Array, at: float) -> float:
    """The curve near a step: mean within 1 % of the run on either side, or interpolated where there is no point."""
    near = np.abs(steps - at) <= WINDOW / 2 * (steps[-1] - steps[0])
    return float(curve[near].mean()) if near.sum() > 1 else float(np.interp(at, steps, curve))


# -- rotation and result ---------------------------------------------------------------------------


def _rotation(snapshots: Mapping[int, Any] | None, runs: int) -> tuple[Array | None, tuple[int, ...]]:
    """[run, snapshot - 1], and the later step of each."""
    if snapshots is None:
        return None, ()
    if not isinstance(snapshots, Mapping):
        raise RequestError(f"two stages: snapshots={type(snapshots).__name__} is not a mapping of steps to W_V")
    for step in snapshots:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise RequestError(f"two stages: snapshot step {quoted(step)} is not a whole number")
    steps = sorted(snapshots)
    if len(steps) < 2:
        return None, ()
    arrays = [_numbers(snapshots[step], f"the snapshot of step {step}") for step in steps]
    if other := [list(a.shape) for a in arrays if a.shape != arrays[0].shape]:
        raise RequestError(f"two stages: snapshots of shape {list(arrays[0].shape)} and {other[0]} do not compare")
    if runs > 1 and (arrays[0].ndim < 2 or len(arrays[0]) != runs):
        raise RequestError(f"two stages: snapshots of shape {list(arrays[0].shape)} do not hold {runs} runs")
    each = [a.reshape(runs, -1) for a in arrays]
    out = [[rotation(a[i], b[i]) for a, b in pairwise(each)] for i in range(runs)]
    return np.array(out), tuple(int(step) for step in steps[1:])


def _result(
    steps: Array,
    curves: dict[str, Array],
    runs: list[Run],
    turned: Array | None,
    later: tuple[int, ...],
    layer: int | None,
) -> TwoStageResult:
    having = [run for run in runs if run.two_stages]
    two = 2 * len(having) > len(runs)
    reasons = [run.reason for run in runs if run.reason is not None]
    common = max(sorted(set(reasons)), key=reasons.count) if reasons else None
    reason = None if two else common
    n = len(having)
    missing = "no run has two stages"
    if len(runs) == 1 and having:
        run = having[0]
        boundary = Estimate(run.boundary, run.low, run.high, len(steps), "steps")
    else:
        ends = float(steps[0]), float(steps[-1])
        boundary = Estimate.undefined(missing, 0, "seeds")
        if n:
            boundary = mean_over_seeds([r.boundary for r in having], support=ends)
    means = [_mean_share([getattr(r, name) for r in having], missing) for name in ("value_done", "attention_done")]
    sides: list[Estimate | None] = [None, None]
    if turned is not None and boundary.value is not None:
        early = np.array(later) <= boundary.value
        sides = [
            mean_over_seeds(turned[:, part].mean(1), support=SHARE) if part.any() else None for part in (early, ~early)
        ]
    return TwoStageResult(
        two_stages=two,
        reason=reason,
        boundary=boundary,
        share=clopper_pearson(n, len(runs), over="seeds"),
        value_done=means[0],
        attention_done=means[1],
        rotation_stage_one=sides[0],
        rotation_stage_two=sides[1],
        num_runs=len(runs),
        layer=layer,
        runs=tuple(runs),
        rotation=turned,
        rotation_steps=later,
        steps=steps,
        norms=curves,
    )


def _mean_share(values: list[float], missing: str) -> Estimate:
    """Mean share of a rise; a curve that falls a little before its rise has a share below 0."""
    if not values:
        return Estimate.undefined(missing, 0, "seeds")
    return mean_over_seeds(values, support=(min(0.0, min(values)), 1.0))
