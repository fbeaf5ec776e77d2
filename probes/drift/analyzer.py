"""Attention drift: mass on the last write against the gap to it (thesis, section 3.5.6.5 and Fig. 3.33).

A head that attends to the last write at the gaps of training may leave it for recent tokens as the gap grows: where
positions enter the scores, their differences grow with the gap (Proposition 5). Beside the weight stands what a weight
is worth, that times the norm of what the key's value adds to the stream (footnote 44), and the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import true_or_false, whole_number
from interp.errors import AnalysisError, RequestError
from interp.guests import (
    check_length,
    guest_errors,
    hosting,
    layers_and_heads,
    longest_input,
    models_of,
    undisturbed,
    untrained_of,
)
from interp.limits import check_memory
from interp.rng import check_seed, generator
from interp.stats import POSITIVE, SHARE, Estimate, clopper_pearson
from interp.task_check import check_task, checked_logits
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from probes.core import errors_over_seeds, mean_over_inputs, mean_over_seeds, recorded, unread_seed
from probes.drift.result import DriftResult, Failing
from probes.drift.strings import Asked, drift_strings, possible_gaps

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WHO = "drift"
GAPS = 16  # that are measured, at most
SCORE, TOP1 = 0.25, 0.75  # where the claim "attends to the last write" holds: an audit's bounds
FARTHER = 4  # times the length of training, where positions do not end
PAIRED = 40  # strings of the law on which heads are compared
TIE = 1e-5  # weights this close (relative) to the largest share the top place


@recorded
@hosting(WHO)
def analyze_drift(
    model: Any,
    *,
    grammar: Any = None,
    length: int | None = None,
    before: int = 0,
    seed: int = 0,
    untrained: bool = True,
    task_check: bool = True,
) -> DriftResult:
    """Mass on the last write of every head of a model, a population, or a list of models of one shape, by gap.

    Strings hold one write that matters and nothing but what is to be ignored after it (`drift_strings`), `length`
    tokens at most: by default as many as in training, and four times as many where the model's positions do not end.
    `before`: write the other bit this many tokens before (0: write once). `seed` draws ignored bits, and the strings on
    which heads are compared.

    Intervals are over seeds for a population, over inputs for one model; where few seeds answer wrongly their mean has
    none. Null: the same before training, and a head that attends evenly.

    The numbering of heads means nothing across seeds: of a population each seed's heads of a layer are ranked by their
    mass on the last write at the gaps of training, those of untrained models likewise, and "head 0" is the first.

    Raises `AnalysisError` when no grammar of flip-flops is known, a model is not causal, takes shorter strings, or is
    at chance in the task; `RequestError` for a `length` that holds no gap.
    """
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    task_check = true_or_false("task_check", task_check)
    before = whole_number("before", before, 0, 10**6)
    models = models_of(model, WHO)
    grammar = _flipflop_of(model, models, grammar)
    if before % 2 and isinstance(grammar, FlipFlopGrammar):
        raise RequestError(f"before={before} is odd, and a write fills a pair of tokens: give an even number")
    size = _length(models[0], grammar, length)
    gaps = possible_gaps(grammar, size, before, GAPS)
    if not gaps:
        raise RequestError(f"{WHO}: strings of {size} tokens with before={before} have no gap: give a longer length")
    asked = drift_strings(grammar, size, gaps, before, seed=seed)
    common = grammar.draw(generator(seed, "drift/heads"), PAIRED)
    common = common[:, : longest_input(models[0])]  # causal models take beginnings
    checked = check_task(models, grammar, common, seed, WHO, task_check)
    _check_size(models[0], asked)
    measured = _measure(models, grammar, asked, common)
    fresh = untrained_of(model) if untrained else None
    start = None if fresh is None else _measure(fresh, grammar, asked, common)
    order = _order(measured, asked, grammar.length)
    if order is not None:
        measured = _ranked(measured, order)
        start = None if start is None else _ranked(start, _order(start, asked, grammar.length))
    result = _result(measured, start, asked, grammar, size, before, checked)
    result = replace(result, ranked=() if order is None else tuple(tuple(map(tuple, row)) for row in order.tolist()))
    drawn = isinstance(grammar, FlipFlopGrammar) or checked is not None or layers_and_heads(models[0])[1] > 1
    return replace(result, unread=unread_seed(seed, read=drawn))


def _flipflop_of(given: Any, models: Sequence[Any], grammar: Any) -> FlipFlopGrammar | TransductionGrammar:
    from probes.glitches import flipflop_of

    return flipflop_of(given, models, grammar, WHO)


def _length(model: Any, grammar: Any, length: int | None) -> int:
    if length is not None:
        size = whole_number("length", length, 2, 10**6)
        check_length(model, size, WHO)
        if size % 2 and isinstance(grammar, FlipFlopGrammar):
            raise RequestError(f"length={size} is odd, and strings are pairs of tokens: give an even number")
        return size
    most = longest_input(model)
    size = FARTHER * int(grammar.length) if most is None else min(most, FARTHER * int(grammar.length))
    return size - size % 2 if isinstance(grammar, FlipFlopGrammar) else size


def _check_size(model: Any, asked: Sequence[Asked]) -> None:
    """Refuse what memory does not hold: the patterns of one gap's strings."""
    layers, heads = layers_and_heads(model)
    rows, width = asked[0].tokens.shape
    check_memory(f"{WHO} over {width} tokens", 16 * rows * layers * heads * width**2, "give a shorter length")


# -- one model at a time ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """All models. Arrays [model, gap, input, layer, head]; `wrong` [model, gap, input]; `apart` [model, layer].

    `mass`: weight on the last write.  `weighted`: its share of weights times norms of values.  `top`: whether it has
    the largest weight (tied ones share it).  `apart`: mean distance of two heads' rows, NaN of one head.
    """

    mass: Array
    weighted: Array
    top: Array
    wrong: Array
    apart: Array


def _measure(models: Iterable[Any], grammar: Any, asked: Sequence[Asked], common: Ints) -> Measured:
    from interp.patterns import has_signed_weights

    parts: list[tuple[Array, ...]] = []
    for model in models:
        if has_signed_weights(model):
            raise AnalysisError(f"{WHO}: attention='linear' has weights of either sign, and mass is of shares")
        each = [_at(model, grammar, one) for one in asked]
        stacked = tuple(np.stack([one[i] for one in each]) for i in range(4))
        parts.append((*stacked, _apart(model, common)))
        if parts[-1][0].shape != parts[0][0].shape:
            raise AnalysisError(f"{WHO}: model {len(parts) - 1} has other layers or heads than model 0")
    return Measured(*(np.stack([part[i] for part in parts]) for i in range(5)))


def _at(model: Any, grammar: Any, one: Asked) -> tuple[Array, Array, Array, Array]:
    """Of one model at one gap: mass, weighted share, top place [input, layer, head], and wrong answers [input]."""
    import torch

    from interp.patterns import written_norms

    layers = range(model.cfg.n_layers)
    names = [f"blocks.{layer}.attn.{hook}" for layer in layers for hook in ("hook_pattern", "hook_v")]
    if missing := [name for name in names if name not in model.hook_dict]:
        raise AnalysisError(f"{WHO}: this model has no {missing[0]}: it does not expose its attention")
    ids = torch.from_numpy(one.tokens).to(model.cfg.device)
    with undisturbed(model), torch.no_grad(), guest_errors(WHO, model, f"fails on {ids.shape[1]} tokens"):
        logits, cache = model.run_with_cache(ids, names_filter=names)
        values = [cache[f"blocks.{layer}.attn.hook_v"] for layer in layers]
        sizes = [
            written_norms(v.double(), model.blocks[layer].attn.W_O.double()).transpose(0, 2, 1)  # [input, head, key]
            for layer, v in zip(layers, values, strict=True)
        ]
        weights = [
            cache[f"blocks.{layer}.attn.hook_pattern"][:, :, one.query].double().cpu().numpy() for layer in layers
        ]
    rows = np.stack(weights, axis=1)  # [input, layer, head, key]
    if not np.isfinite(rows).all():
        raise AnalysisError(f"{WHO}: attention weights are not finite: the model has diverged")
    worth = rows * np.stack(sizes, axis=1)
    total = worth.sum(-1)
    share = np.divide(worth[..., one.target], total, out=np.zeros_like(total), where=total > 0)
    largest = rows >= rows.max(-1, keepdims=True) * (1 - TIE)
    top = largest[..., one.target] / largest.sum(-1)
    size = len(getattr(grammar, "label_names", grammar.vocab))
    told = checked_logits(logits, ids.shape, size, WHO, model)[:, one.query].argmax(-1).numpy()
    right = grammar.state(one.tokens)[:, one.query] + (3 if isinstance(grammar, FlipFlopGrammar) else 0)
    return rows[..., one.target], share, top, (told != right).astype(np.float64)


def _apart(model: Any, tokens: Ints) -> Array:
    """Mean 2-norm of the difference of two heads' rows, over pairs of heads, rows and inputs [layer]."""
    import torch

    from interp.patterns import attention_patterns

    out = []
    for pattern in attention_patterns(model, torch.from_numpy(tokens).to(model.cfg.device)):
        heads = pattern.shape[1]
        one, other = np.triu_indices(heads, 1)
        gap = np.linalg.norm(pattern[:, one] - pattern[:, other], axis=-1)
        out.append(gap.mean() if heads > 1 else np.nan)
    return np.array(out)


def _order(measured: Measured, asked: Sequence[Asked], trained: int) -> Ints | None:
    """Of several models the heads of a layer, most mass at the gaps of training first [model, layer, rank]; else None.

    Means over all those gaps: at a single one, several heads may be as good as perfect.
    """
    if len(measured.mass) == 1 or measured.mass.shape[-1] == 1:
        return None
    near = [one.gap < trained for one in asked]
    means = measured.mass[:, near if any(near) else slice(None)].mean((1, 2))
    return np.argsort(-means, axis=-1, kind="stable")


def _ranked(measured: Measured, order: Ints | None) -> Measured:
    """The same with each model's heads in this order."""
    assert order is not None
    of = order[:, None, None]
    by_head = {name: np.take_along_axis(getattr(measured, name), of, -1) for name in ("mass", "weighted", "top")}
    return replace(measured, **by_head)


# -- the result ---------------------------------------------------------------------------------------------


def _result(
    measured: Measured,
    start: Measured | None,
    asked: Sequence[Asked],
    grammar: Any,
    size: int,
    before: int,
    checked: Any,
) -> DriftResult:
    models, _, _, layers, heads = measured.mass.shape
    even = [1 / (one.query + 1) for one in asked]

    def nested(name: str, evenly: Sequence[float]) -> Any:
        return tuple(
            tuple(
                {
                    one.gap: _estimate(getattr(measured, name)[:, i, :, layer, head]).with_null(
                        {"untrained": _mean(start, name, i, layer, head), "even": evenly[i]}
                    )
                    for i, one in enumerate(asked)
                }
                for head in range(heads)
            )
            for layer in range(layers)
        )

    return DriftResult(
        mass=nested("mass", even),
        weighted=nested("weighted", even),
        top1=nested("top", even),
        wrong={
            one.gap: _estimate(measured.wrong[:, i], errors_over_seeds).with_null(
                {"untrained": None if start is None else float(start.wrong[:, i].mean()), "either bit": 0.5}
            )
            for i, one in enumerate(asked)
        },
        failing=tuple(
            tuple(_failing(measured, start, asked, layer, head) for head in range(heads)) for layer in range(layers)
        ),
        heads_apart=tuple(_heads_apart(measured, start, layer) for layer in range(layers)),
        gaps=tuple(one.gap for one in asked),
        trained_length=grammar.length,
        length=size,
        before=before,
        num_models=models,
        num_inputs=len(asked[0].tokens),
        curves=measured.mass.mean(2).transpose(0, 2, 3, 1),
        task_check=checked,
    )


def _share_over_seeds(values: Array) -> Estimate:
    return mean_over_seeds(values, support=SHARE)


def _estimate(values: Array, over_seeds: Callable[[Array], Estimate] = _share_over_seeds) -> Estimate:
    """Over seeds of several models, over inputs of one; `values` [model, input]."""
    if len(values) == 1:
        return mean_over_inputs(values[0], support=SHARE)
    return over_seeds(values.mean(1))


def _mean(start: Measured | None, name: str, gap: int, layer: int, head: int) -> float | None:
    return None if start is None else float(getattr(start, name)[:, gap, :, layer, head].mean())


def first_failures(measured: Measured, asked: Sequence[Asked], layer: int, head: int) -> list[int | None]:
    """Of each model the least gap at which its head's claim fails, None where it holds at all."""
    even = np.array([1 / (one.query + 1) for one in asked])
    score = (measured.mass[..., layer, head].mean(2) - even) / (1 - even)
    fails = (score < SCORE) | (measured.top[..., layer, head].mean(2) < TOP1)
    return [asked[int(row.argmax())].gap if row.any() else None for row in fails]


def _failing(measured: Measured, start: Measured | None, asked: Sequence[Asked], layer: int, head: int) -> Failing:
    found = first_failures(measured, asked, layer, head)
    at_once = sum(gap == asked[0].gap for gap in found)
    known = sorted(gap for gap in found if gap is not None)
    middle = sorted(np.inf if gap is None else gap for gap in found)[(len(found) - 1) // 2]
    before = None if start is None else first_failures(start, asked, layer, head)
    null = None if before is None else sum(gap is not None for gap in before) / len(before)
    return Failing(
        share=clopper_pearson(len(known), len(found), over="seeds").with_null({"untrained": null}),
        never_held=at_once,
        least=known[0] if known else None,
        median=None if np.isinf(middle) else int(middle),
        each=tuple(found),
    )


def _heads_apart(measured: Measured, start: Measured | None, layer: int) -> Estimate:
    values = measured.apart[:, layer]
    if np.isnan(values).any():
        return Estimate.undefined("one head has no other to be compared with", len(values), "seeds")
    null = {"untrained": None if start is None else float(start.apart[:, layer].mean())}
    return mean_over_seeds(values, support=POSITIVE).with_null(null)
