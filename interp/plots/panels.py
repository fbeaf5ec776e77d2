"""Which matrices a heatmap shows: layers, heads and seeds, their nulls, or differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interp.errors import PatternError, RequestError, quoted
from interp.guests import is_model
from interp.plots.arrays import even_pattern, permute_keys
from interp.plots.sources import Show, Source, is_population, read_source, untrained
from interp.rng import generator

NULLS = {"uniform": "null: uniform", "untrained": "null: untrained", "sharpness": "null: keys permuted"}
NULL_NOTES = {
    "uniform": "null, uniform: every visible key alike",
    "untrained": "null, untrained: the same seed before training",
    "sharpness": "null, keys permuted: the row's own weights on its visible keys in a random order",
}


@dataclass(frozen=True)
class Panel:
    """One drawn matrix [query, key]: which layer and head, which seeds, which null (or none)."""

    place: str
    seeds: str
    weights: np.ndarray
    null: str = ""


@dataclass(frozen=True)
class Choice:
    """Which layer and head are drawn (None: see `attention_heatmap`), how seeds are shown, what they are called."""

    layer: int | None
    head: int | None
    population: Show
    seeds: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One panel that could be drawn: of a layer and head; of one seed, or (None) of all together."""

    place: str
    layer: int
    head: int
    seed: int | None
    seeds: str


Finish = Callable[[np.ndarray], np.ndarray]  # what becomes of a panel's weights [query, key] before they are kept


def seed_names(given: Sequence[object] | None, source: Source) -> tuple[str, ...]:
    """What each seed is called in a panel's name."""
    if given is None:
        return tuple(f"seed {name}" for name in (source.seeds or range(source.count)))
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise RequestError(f"seed_labels={quoted(given)} is not a list of names, one per seed")
    if len(given) != source.count:
        raise RequestError(f"{len(given)} seed_labels were given for {source.count} seeds")
    return tuple(label if isinstance(label, str) else quoted(label) for label in given)


def planned(source: Source, choice: Choice) -> list[Plan]:
    """Every panel that `choice` names, in the order in which they are drawn."""
    heads = source.heads
    if choice.layer is not None:
        chosen = [_index("layer", choice.layer, len(heads))]
    else:
        chosen = list(range(len(heads))) if choice.population == "one" else [len(heads) - 1]
    plans = []
    for i in chosen:
        for h in range(heads[i]) if choice.head is None else [_index("head", choice.head, heads[i])]:
            place = f"layer {i}, head {h}" if len(heads) > 1 or choice.layer is not None else f"head {h}"
            plans += [Plan(place, i, h, seed, name) for seed, name in _seeds_of(source.count, choice)]
    return plans


def _seeds_of(count: int, choice: Choice) -> list[tuple[int | None, str]]:
    """The panels of one head: a seed each, or one of all seeds."""
    if choice.population == "one":
        return [(0, "")]
    if choice.population == "grid":
        return list(enumerate(choice.seeds))
    if choice.population == "mean":
        return [(None, f"mean of {len(choice.seeds)} seeds")]
    if count < 2:
        raise RequestError("population='sd' needs two seeds at least, and one was given")
    return [(None, f"sd over {count} seeds")]


def collect(source: Source, plans: Sequence[Plan], show: Show, finish: Finish, null: str = "") -> list[Panel]:
    """The panels of `plans`. Seeds are read one after the other, and of each no more is kept than is drawn."""
    kept: dict[int, np.ndarray] = {}
    single = {plan.seed for plan in plans if plan.seed is not None}
    for seed in sorted(single):
        mine = [(at, plan) for at, plan in enumerate(plans) if plan.seed == seed]
        layers = sorted({plan.layer for _, plan in mine})
        for layer, patterns in zip(layers, source.read(seed, layers), strict=True):
            kept |= {at: finish(patterns[plan.head]) for at, plan in mine if plan.layer == layer}
    for layer in sorted({plan.layer for plan in plans if plan.seed is None}):
        mine = [(at, plan) for at, plan in enumerate(plans) if plan.layer == layer]
        together = over_seeds(source, [layer], [plan.head for _, plan in mine], spread=show == "sd")[0]
        kept |= {at: finish(weights) for (at, _), weights in zip(mine, together, strict=True)}
    return [Panel(plan.place, plan.seeds, kept[at], null) for at, plan in enumerate(plans)]


def over_seeds(
    source: Source, layers: Sequence[int], heads: Sequence[int] | None = None, spread: bool = False
) -> list[np.ndarray]:
    """Mean over seeds [head, query, key] of each of these layers and heads, or standard deviation (n - 1).

    To the bit what numpy makes of all seeds stacked; for the deviation every seed is read twice.
    """

    def sums(of: Callable[[int, np.ndarray], np.ndarray]) -> list[np.ndarray]:
        totals: list[np.ndarray] = []
        for seed in range(source.count):
            for at, patterns in enumerate(source.read(seed, layers)):
                part = of(at, patterns if heads is None else patterns[list(heads)])
                if seed == 0:
                    totals.append(part.astype(np.float64, copy=True))
                else:
                    totals[at] += part
        return totals

    means = [total / source.count for total in sums(lambda at, p: p)]
    if not spread:
        return means

    def square(at: int, patterns: np.ndarray) -> np.ndarray:
        apart = patterns - means[at]
        return np.square(apart, out=apart)

    return [np.sqrt(total / (source.count - 1)) for total in sums(square)]


def null_names(null: Any) -> list[str]:
    """`null` as a list of known names."""
    names = [] if null is None else list(null) if isinstance(null, (list, tuple)) else [null]
    for name in names:
        if not isinstance(name, str) or name not in NULLS:
            raise RequestError(f"null={quoted(name)} is not one of {', '.join(NULLS)}")
    return names


def with_nulls(
    panels: list[Panel], plans: Sequence[Plan], source: Source, given: Any, names: Sequence[str], choice: Choice,
    causal: bool, finish: Finish,
) -> list[Panel]:  # fmt: skip
    """Each panel followed by its nulls; the uniform one, the same for all, stands once at the end."""
    out = [[panel] for panel in panels]
    for name in names:
        if name == "uniform":
            continue
        null = _untrained(given, source, choice) if name == "untrained" else _permuted(source, plans, causal)
        for group, other in zip(out, collect(null, plans, choice.population, finish, NULLS[name]), strict=True):
            group.append(other)
    flat = [panel for group in out for panel in group]
    if "uniform" in names:
        n = len(source.labels)
        spread = choice.population == "sd"
        even = np.zeros((n, n)) if spread else even_pattern(n, causal)
        flat.append(Panel(panels[-1].place, panels[-1].seeds, finish(even), NULLS["uniform"]))
    return flat


def difference(source: Source, minus: Any, text: Any, grammar: Any, population: Show, task_check: bool) -> Source:
    """`source` minus another model, population or array; one seed is taken from every seed."""
    if population == "sd":
        raise RequestError("population='sd' with minus=: a spread has no difference; use 'mean', 'grid' or 'one'")
    single = is_model(minus) or (is_population(minus) and len(minus) == 1)
    other = read_source(minus, text, "one" if single else population, grammar, task_check)
    shapes = [(side.heads, len(side.labels)) for side in (source, other)]
    if shapes[0] != shapes[1]:
        words = [f"{len(heads)} layer(s) of {heads[0]} head(s) and {n} positions" for heads, n in shapes]
        raise PatternError(f"minus= has {words[1]}, and what it is taken from {words[0]}")
    if other.count not in (1, source.count) and population == "grid":
        raise PatternError(f"minus= has {other.count} seeds, and what it is taken from {source.count}")

    def verify() -> tuple[str, ...]:
        other.verify()
        return source.verify()

    if population == "mean":
        means = lambda _, layers: _minus(over_seeds(source, layers), over_seeds(other, layers))  # noqa: E731
        return replace(source, count=1, read=means, verify=verify)

    def read(seed: int, layers: Sequence[int]) -> list[np.ndarray]:
        return _minus(source.read(seed, layers), other.read(seed if other.count > 1 else 0, layers))

    return replace(source, read=read, count=1 if population == "one" else source.count, verify=verify)


def _minus(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [a - b for a, b in zip(first, second, strict=True)]


def _index(kind: str, given: int, count: int) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not -count <= given < count:
        names = f"{kind}s are 0 to {count - 1}" if count > 1 else f"the only {kind} is 0"
        raise RequestError(f"{kind}={quoted(given)} does not exist: {names}")
    return int(given) % count


def _permuted(source: Source, plans: Sequence[Plan], causal: bool) -> Source:
    """The same weights with each row's keys permuted. One draw goes through all seeds of a layer, so they are held."""
    drawn = {
        layer: permute_keys(source.stacked(layer), causal, generator(0, "heatmap-permuted-keys", layer))
        for layer in {plan.layer for plan in plans}
    }
    return replace(source, read=lambda seed, layers: [drawn[i][seed] for i in layers])


def _untrained(given: Any, source: Source, choice: Choice) -> Source:
    if not (is_model(given) or is_population(given)):
        raise RequestError("null='untrained' needs a model or population, and plain patterns were given")
    if choice.population == "one" and not is_model(given):
        given = given[0]
    return read_source(untrained(given), source.tokens, choice.population, source.grammar, task_check=False)
