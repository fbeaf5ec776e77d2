"""Which matrices a heatmap shows: layers, heads and seeds, their nulls, or differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from interp.errors import PatternError, RequestError
from interp.guests import is_model
from interp.plots.arrays import even_pattern, is_causal, permute_keys
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


def seed_names(given: Sequence[object] | None, source: Source) -> tuple[str, ...]:
    """What each seed is called in a panel's name."""
    count = source.layers[0].shape[0]
    if given is None:
        return tuple(f"seed {name}" for name in (source.seeds or range(count)))
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise RequestError(f"seed_labels={given!r} is not a list of names, one a seed")
    if len(given) != count:
        raise RequestError(f"{len(given)} seed_labels were given for {count} seeds")
    return tuple(str(label) for label in given)


def choose(layers: Sequence[np.ndarray], choice: Choice) -> list[Panel]:
    """Panels of layers [seed, head, query, key]."""
    if choice.layer is not None:
        chosen = [_index("layer", choice.layer, len(layers))]
    else:
        chosen = list(range(len(layers))) if choice.population == "one" else [len(layers) - 1]
    panels = []
    for i in chosen:
        heads = layers[i].shape[1]
        for h in range(heads) if choice.head is None else [_index("head", choice.head, heads)]:
            place = f"layer {i}, head {h}" if len(layers) > 1 or choice.layer is not None else f"head {h}"
            panels += _of_seeds(layers[i][:, h], place, choice)
    return panels


def null_names(null: Any) -> list[str]:
    """`null` as a list of known names."""
    names = [] if null is None else list(null) if isinstance(null, (list, tuple)) else [null]
    for name in names:
        if not isinstance(name, str) or name not in NULLS:
            raise RequestError(f"null={name!r} is not one of {', '.join(NULLS)}")
    return names


def with_nulls(panels: list[Panel], source: Source, given: Any, names: Sequence[str], choice: Choice) -> list[Panel]:
    """Each panel followed by its nulls; the uniform one, the same for all, stands once at the end."""
    causal = is_causal_all(source.layers)
    out = [[panel] for panel in panels]
    for name in names:
        if name == "uniform":
            continue
        layers = _untrained_layers(given, source, choice) if name == "untrained" else _permuted(source, causal)
        for group, other in zip(out, choose(layers, choice), strict=False):  # `panels` may be the first of more
            group.append(Panel(other.place, other.seeds, other.weights, NULLS[name]))
    flat = [panel for group in out for panel in group]
    if "uniform" in names:
        n = panels[0].weights.shape[-1]
        spread = choice.population == "sd"
        even = np.zeros((n, n)) if spread else even_pattern(n, causal)
        flat.append(Panel(panels[-1].place, panels[-1].seeds, even, NULLS["uniform"]))
    return flat


def difference(
    source: Source, minus: Any, text: Any, grammar: Any, population: Show, task_check: bool
) -> tuple[np.ndarray, ...]:
    """Layers of `source` minus those of another model, population or array; one seed is taken from every seed."""
    if population == "sd":
        raise RequestError("population='sd' with minus=: a spread has no difference; use 'mean', 'grid' or 'one'")
    single = is_model(minus) or (is_population(minus) and len(minus) == 1)
    other = read_source(minus, text, "one" if single else population, grammar, task_check)
    shapes = [[layer.shape[1:] for layer in side.layers] for side in (source, other)]
    if shapes[0] != shapes[1]:
        words = [f"{len(s)} layer(s) of {s[0][0]} head(s) and {s[0][1]} positions" for s in shapes]
        raise PatternError(f"minus= has {words[1]}, and what it is taken from {words[0]}")
    counts = [side.layers[0].shape[0] for side in (source, other)]
    if counts[1] not in (1, counts[0]) and population == "grid":
        raise PatternError(f"minus= has {counts[1]} seeds, and what it is taken from {counts[0]}")
    if population == "grid":
        return tuple(a - b for a, b in zip(source.layers, other.layers, strict=True))
    if population == "one":
        return tuple(a[:1] - b[:1] for a, b in zip(source.layers, other.layers, strict=True))
    means = [[layer.mean(axis=0, keepdims=True) for layer in side.layers] for side in (source, other)]
    return tuple(a - b for a, b in zip(*means, strict=True))


def is_causal_all(layers: Sequence[np.ndarray]) -> bool:
    """True if no layer attends to a later key."""
    return all(is_causal(layer) for layer in layers)


def _of_seeds(patterns: np.ndarray, place: str, choice: Choice) -> list[Panel]:
    """Panels of one head, from [seed, query, key]."""
    if choice.population == "one":
        return [Panel(place, "", patterns[0])]
    if choice.population == "grid":
        return [Panel(place, seed, p) for seed, p in zip(choice.seeds, patterns, strict=True)]
    if choice.population == "mean":
        return [Panel(place, f"mean of {len(choice.seeds)} seeds", patterns.mean(axis=0))]
    if len(patterns) < 2:
        raise RequestError("population='sd' needs two seeds at least, and one was given")
    return [Panel(place, f"sd over {len(patterns)} seeds", patterns.std(axis=0, ddof=1))]


def _index(kind: str, given: int, count: int) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not -count <= given < count:
        names = f"{kind}s are 0 to {count - 1}" if count > 1 else f"the only {kind} is 0"
        raise RequestError(f"{kind}={given!r} does not exist: {names}")
    return int(given) % count


def _permuted(source: Source, causal: bool) -> list[np.ndarray]:
    return [
        permute_keys(layer, causal, generator(0, "heatmap-permuted-keys", i)) for i, layer in enumerate(source.layers)
    ]


def _untrained_layers(given: Any, source: Source, choice: Choice) -> tuple[np.ndarray, ...]:
    if not (is_model(given) or is_population(given)):
        raise RequestError("null='untrained' needs a model or population, and plain patterns were given")
    if choice.population == "one" and not is_model(given):
        given = given[0]
    return read_source(untrained(given), source.tokens, choice.population, source.grammar, task_check=False).layers
