"""What `attention_heatmap` was given, as arrays: models are run, plain arrays are checked and labelled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from interp.checks import not_read
from interp.errors import PatternError, RequestError, quoted
from interp.guests import (
    grammar_of,
    is_model,
    language_of,
    models_of,
    pad_of,
    read_tokens,
    refuse_padding,
    untrained_of,
)
from interp.numeric_arrays import id_array
from interp.plots.arrays import check_patterns
from interp.registry import read_strings

Show = Literal["one", "mean", "grid", "sd"]


@dataclass(frozen=True)
class Source:
    """Patterns that are read one seed at a time, since those of all seeds and layers may not fit in memory.

    - `heads`: how many each layer has; `count`: how many seeds there are; `labels`: one per position.
    - `read(seed, layers)`: the patterns [head, query, key] of these layers of one seed. A model runs at each call.
    - `tokens` [pos] and `grammar` are None where they are not known; `seeds` is empty where seeds have no names.
    - `ready`: the patterns are arrays that someone holds already, so that nothing has to run.
    - `verify()`: runs the models on the task of their grammar, see `interp.task_check`; notes on what came out.
    """

    heads: tuple[int, ...]
    count: int
    read: Callable[[int, Sequence[int]], list[np.ndarray]]
    labels: tuple[str, ...]
    tokens: np.ndarray | None
    grammar: Any
    seeds: tuple[object, ...] = ()
    ready: bool = False
    verify: Callable[[], tuple[str, ...]] = tuple

    def stacked(self, layer: int) -> np.ndarray:
        """One layer of all seeds, [seed, head, query, key]."""
        return np.stack([self.read(seed, [layer])[0] for seed in range(self.count)])


def read_source(given: Any, text: Any, population: Show, grammar: Any, task_check: bool = True) -> Source:
    """Patterns of a model, a population, or plain arrays."""
    if is_model(given) or is_population(given):
        return _from_models(given, text, population, grammar, task_check)
    return _from_arrays(given, text, population, grammar)


def is_population(thing: Any) -> bool:
    """A sequence of models."""
    if isinstance(thing, np.ndarray) or hasattr(thing, "detach") or not isinstance(thing, Sequence):
        return False
    return len(thing) > 0 and is_model(thing[0])


def untrained(given: Any) -> Any:
    """The same model or population before training; `RequestError` where that cannot be rebuilt."""
    found = untrained_of(given)
    if found is None:
        raise RequestError(
            f"null='untrained' needs a model whose first weights can be drawn again, and {type(given).__name__} "
            "carries no config and seed of a training"
        )
    return found if is_population(given) else found[0]


# -- models ----------------------------------------------------------------------------------------


def _from_models(given: Any, text: Any, population: Show, grammar: Any, task_check: bool) -> Source:
    import torch

    from interp.patterns import attention_patterns
    from interp.task_check import check_task

    if text is None:
        raise RequestError("a model needs a text or tokens to attend to: attention_heatmap(model, '([])')")
    if population != "one" and is_model(given):
        raise RequestError(f"population={quoted(population)} needs a population of models, and one model was given")
    every = models_of(given, "heatmap")
    grammar = grammar_of(given, every, grammar, "heatmap")
    names = () if is_model(given) else tuple(getattr(given, "seeds", range(len(every))))
    count = 1 if population == "one" else len(every)
    first = every[0]
    tokens = read_tokens(text, first, grammar, "heatmap")
    if len(tokens) != 1:
        raise RequestError(f"one heatmap shows one text, and {len(tokens)} were given")
    tokens = tokens[:, _without_padding(tokens[0], pad_of(first, grammar))]
    refuse_padding(tokens, first, grammar, "heatmap")
    ids = torch.from_numpy(tokens).to(first.cfg.device)
    layers = int(first.cfg.n_layers)

    def read(seed: int, wanted: Sequence[int]) -> list[np.ndarray]:
        found = attention_patterns(first if seed == 0 else every[seed], ids, list(wanted))
        return [_checked(p[0], layer, layers) for layer, p in zip(wanted, found, strict=True)]

    def verify() -> tuple[str, ...]:
        # A model that says itself that nobody trained it may be looked at.
        shown = [first] if count == 1 else every
        if hasattr(shown, "params"):  # a population, which says it for all
            asked: Sequence[Any] = shown if _may_be_trained(shown) else []
        else:
            asked = [model for model in shown if _may_be_trained(model)]
        checked = check_task(asked, grammar, tokens, 0, "heatmap", task_check) if asked else None
        return () if checked is None else (str(checked),)

    labels = tuple(_labels_of(first, tokens[0], grammar))
    return Source((int(first.cfg.n_heads),) * layers, count, read, labels, tokens[0], grammar, names, verify=verify)


def _may_be_trained(model: Any) -> bool:
    return (getattr(model, "provenance", None) or {}).get("trained") is not False


def _labels_of(model: Any, ids: np.ndarray, grammar: Any) -> list[str]:
    if grammar is None and language_of(model) is not None:
        import torch

        return [str(word) for word in model.to_str_tokens(torch.from_numpy(ids))]
    return _names(ids, grammar)


# -- plain arrays ----------------------------------------------------------------------------------


def _from_arrays(given: Any, text: Any, population: Show, grammar: Any) -> Source:
    grammar = grammar_of(None, [None], grammar, "heatmap")
    items = list(given) if _is_layer_list(given) else [given]
    if not items:
        raise PatternError("an empty list holds no patterns")
    layers = []
    for i, item in enumerate(items):
        p = _checked(item, i, len(items))
        if p.ndim > 4:
            raise PatternError(f"patterns of shape {list(p.shape)}: at most [seed, head, query, key]")
        seeds_first = population != "one" and p.ndim == 3
        layers.append(p[:, None] if seeds_first else p.reshape((1,) * (4 - p.ndim) + p.shape))
    if len({(p.shape[0], p.shape[2]) for p in layers}) > 1:
        shapes = ", ".join(str(list(p.shape)) for p in layers)
        raise PatternError(f"layers differ in seeds or positions: {shapes}")
    labels, tokens = _labels_for(text, layers[0].shape[-1], grammar)
    return source_of(layers, tuple(labels), tokens, grammar)


def source_of(layers: Sequence[np.ndarray], labels: tuple[str, ...], tokens: np.ndarray | None, grammar: Any) -> Source:
    """A source of arrays [seed, head, query, key], one per layer."""
    heads = tuple(p.shape[1] for p in layers)
    return Source(
        heads, len(layers[0]), lambda seed, wanted: [layers[i][seed] for i in wanted], labels, tokens, grammar,
        ready=True,
    )  # fmt: skip


def _is_layer_list(source: Any) -> bool:
    """A list of arrays is one per layer; nested lists of numbers are one array."""
    return isinstance(source, (list, tuple)) and all(hasattr(item, "shape") for item in source)


def _checked(patterns: Any, index: int, count: int) -> np.ndarray:
    return check_patterns(patterns, "patterns" if count == 1 else f"patterns of layer {index}")


def _labels_for(text: Any, n: int, grammar: Any) -> tuple[list[str], np.ndarray | None]:
    """A label for each of `n` positions of plain arrays, and token ids where they are known."""
    if text is None:
        not_read("plain patterns without a text have no tokens to name", grammar=grammar)
        return [str(i) for i in range(n)], None
    if isinstance(text, str) and grammar is not None:
        text = read_strings(grammar, text)[0]
    if isinstance(text, str) or (isinstance(text, (list, tuple)) and any(isinstance(t, str) for t in text)):
        names, tokens = [str(t) for t in text], None
    else:
        tokens = _whole_numbers(text)
        tokens = tokens[_without_padding(tokens, getattr(grammar, "pad", None))]
        names = _names(tokens, grammar)
    start = getattr(grammar, "start", None)
    if isinstance(text, str) and len(names) + 1 == n:
        names = ["START", *names]
    elif tokens is not None and start is not None and len(names) + 1 == n and tokens[:1] != start:
        names, tokens = ["START", *names], np.concatenate([[start], tokens])
    if len(names) != n:
        raise RequestError(f"{len(names)} tokens were given for patterns of {n} positions")
    return names, tokens


def _whole_numbers(text: Any) -> np.ndarray:
    neither = f"{quoted(text)} is neither a text, nor token ids [pos], nor strings, one per position: inputs"
    values = id_array(text, neither, RequestError)
    if values.ndim == 2 and len(values) == 1:
        values = values[0]
    if values.ndim != 1:
        raise RequestError(f"{neither} of shape {list(values.shape)}")
    return values


def _without_padding(tokens: np.ndarray, pad: int | None) -> slice:
    """The part of `tokens` [pos] without PAD at its ends; all of them where nothing else is there."""
    kept = np.flatnonzero(tokens != pad) if pad is not None else np.arange(len(tokens))
    return slice(int(kept[0]), int(kept[-1]) + 1) if len(kept) else slice(None)


def _names(tokens: np.ndarray, grammar: Any) -> list[str]:
    vocab = getattr(grammar, "vocab", None)
    if vocab is None:
        return [str(i) for i in tokens]
    if len(bad := tokens[(tokens < 0) | (tokens >= len(vocab))]):
        raise RequestError(f"token {bad[0]} is outside the grammar's vocabulary of {len(vocab)}")
    return [vocab[i] for i in tokens]
