"""`attention_heatmap`: attention patterns of one or several heads, with the truth drawn over them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from interp.checks import not_read, true_or_false, whole_number
from interp.errors import RequestError, quoted
from interp.guests import hosting, is_model
from interp.limits import check_memory
from interp.plots.arrays import is_causal
from interp.plots.drawing import Drawing, draw
from interp.plots.overlays import Boxes, Truth, read_overlay
from interp.plots.panels import (
    NULL_NOTES,
    Choice,
    Panel,
    Plan,
    collect,
    difference,
    null_names,
    planned,
    seed_names,
    with_nulls,
)
from interp.plots.sources import Show, Source, is_population, read_source
from interp.plots.style import escape

if TYPE_CHECKING:
    import plotly.graph_objects as go

Null = Literal["uniform", "untrained", "sharpness"]
Cells = Sequence[tuple[int, int]]
DRAWN_AT_MOST = 2048  # tokens; beyond, blocks of cells are averaged


@hosting("heatmap")
def attention_heatmap(
    model_or_patterns: Any,
    text_or_tokens: Any = None,
    layer: int | None = None,
    head: int | None = None,
    overlay: str | Sequence[str] | Cells | None = None,
    population: Show = "one",
    seed_labels: Sequence[object] | None = None,
    title: str | None = None,
    grammar: Any = None,
    max_panels: int = 12,
    null: Null | Sequence[Null] | None = None,
    minus: Any = None,
    task_check: bool = True,
) -> "go.Figure":
    """Heatmaps of attention weights; rows are queries (downwards), columns are keys.

    `model_or_patterns`
        A model (ours or a `TransformerBridge`), a population (sequence of models), or weights as arrays (numpy or
        torch): [query, key]; [head, query, key] (with population "mean", "grid" or "sd": [seed, query, key]);
        [seed, head, query, key]; or a list of any of these, one per layer.
    `text_or_tokens`
        A model's input: text, or token ids [pos] or [1, pos]. Beside arrays: one text, ids, or a
        list of strings, one per position; text without its START gets one. PAD at the end is cut off.
    `layer`, `head`
        Which to draw, from 0, negative from the end. `layer=None`: every layer where one model is drawn
        (population="one"), the last layer otherwise. `head=None`: every head.
    `overlay`
        The truth over the pattern, one or several of those that the grammar's world knows (`interp list`): the key
        of each query in a box, a number or class that colours both axes, or classes that box their pairs (and sort the
        positions of a bidirectional pattern). These need a grammar: the model's, or `grammar=`. Or a list of cells
        (query, key) to box.
    `population`
        "one": the first seed; "mean" and "sd" (n - 1) over seeds; "grid": a panel per seed.
    `max_panels`
        Further patterns (with their nulls) are left out, and a note says so; one and its nulls are always there.
    `null`
        What to show beside each pattern, one or several: "uniform" (every visible key alike), "untrained" (the same
        seed before training), "sharpness" (the same weights, each row's keys permuted).
    `minus`
        Another model, population or array: differences are drawn, on a diverging scale around 0.
    `task_check`
        A model that was not trained here must do its grammar's task better than chance (see `interp.task_check`), and
        a note says how well it does; False draws it all the same.

    All panels share one colour scale: [0, 1] up to 64 tokens, square root beyond, to a labelled end.
    Cells that a causal pattern cannot reach are blank. Beyond 2,048 tokens blocks of cells are
    averaged, and the title says so. The figure is plotly's; its HTML carries large patterns compressed.

        >>> from interp import load_checkpoint
        >>> from interp.plots import attention_heatmap
        >>> model = load_checkpoint("constructed/stack")
        >>> figure = attention_heatmap(model, "([])", layer=1, overlay="stack_top")
        >>> len(figure.data)
        1

    Raises `PatternError` for weights that are not square, finite, nonnegative and normalised, and
    `RequestError` for arguments that do not fit.
    """
    if not isinstance(population, str) or population not in get_args(Show):
        raise RequestError(f"population={quoted(population)} is not one of {', '.join(get_args(Show))}")
    max_panels, task_check = whole_number("max_panels", max_panels), true_or_false("task_check", task_check)
    if population != "grid":
        not_read("only population='grid' names its seeds", seed_labels=seed_labels)
    nulls = null_names(null)
    if minus is not None and nulls:
        raise RequestError("null= and minus= are two pictures: draw the difference, or the pattern beside its null")
    if not any(is_model(given) or is_population(given) for given in (model_or_patterns, minus)):
        not_read("plain patterns are asked no task", task_check=None if task_check else False)
    source = read_source(model_or_patterns, text_or_tokens, population, grammar, task_check)
    choice = Choice(layer, head, population, seed_names(seed_labels, source))
    if minus is not None:
        source = difference(source, minus, text_or_tokens, grammar, population, task_check)
    every = planned(source, choice)
    # Each pattern keeps its nulls: what there is no room for is left out with them.
    paired = sum(name != "uniform" for name in nulls)
    plans = every[: max(1, (max_panels - ("uniform" in nulls)) // (1 + paired))]
    shown = {plan.seeds for plan in plans}
    cut = f"first {len(plans)} of {len(every)} {'patterns' if nulls else 'panels'}" if len(plans) < len(every) else ""
    check_memory(*_need(source, plans, population, nulls, minus is not None))
    checked = source.verify()
    n, block = len(source.labels), math.ceil(len(source.labels) / DRAWN_AT_MOST)

    def read(causal: bool) -> tuple[list[Panel], Truth]:
        truth = read_overlay(overlay, source.tokens, source.grammar, n, causal)
        finish = _Finish(truth.order, block, causal)
        panels = collect(source, plans, population, finish)
        return with_nulls(panels, plans, source, model_or_patterns, nulls, choice, causal, finish), truth

    causal = True  # which decides on the means of blocks and on the order of positions: tried first
    try:
        panels, truth = read(causal)
    except _LaterKeys:
        causal = False
        panels, truth = read(causal)
    notes = (*truth.notes, *map(escape, checked), *(NULL_NOTES[name] for name in nulls))
    if minus is not None:
        notes = (*notes, "red: the first attends more; blue: the second")
    if cut:
        notes = (*notes, f"{cut}; the others: max_panels={len(every)}, or one layer, head or seed at a time")
    drawing = Drawing(
        panels=tuple(panels),
        labels=source.labels,
        places=tuple(map(str, range(n))),
        notes=notes,
        text="" if text_or_tokens is None else _text(source),
        kind="difference" if minus is not None else "sd" if population == "sd" else "weight",
        boxes=truth.boxes,
        strip=truth.strip,
        causal=causal,
        seeds=_told(len(shown), len(choice.seeds)) if population == "grid" else "",
        answers=_answers(source, n),
    )
    heading = title if title is None or isinstance(title, str) else quoted(title)
    return draw(_reduced(_ordered(drawing, truth.order), block), heading)


class _LaterKeys(Exception):
    """No error: a pattern turned out to attend to later keys, and all have to be read as such ones are."""


@dataclass(frozen=True)
class _Finish:
    """Weights [query, key] as they are drawn: positions in `order`, means over blocks of `block` x `block` cells."""

    order: np.ndarray | None
    block: int
    causal: bool

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        if self.causal and not is_causal(weights):
            raise _LaterKeys
        if self.order is not None:
            weights = weights[np.ix_(self.order, self.order)]
        if self.block > 1:
            return _block_means(weights, self.block, self.causal)
        return np.ascontiguousarray(weights).copy()  # a view would hold all heads


def _need(
    source: Source, plans: Sequence[Plan], show: Show, nulls: Sequence[str], minus: bool
) -> tuple[str, float, str]:
    """What is drawn, the bytes that it needs, and how to ask for less: the arguments of `check_memory`."""
    n, drawn = len(source.labels), min(len(source.labels), DRAWN_AT_MOST)
    layers = {plan.layer for plan in plans}
    heads = max(source.heads)
    patterns = heads * n**2
    # A run keeps scores, a softmax and masks of one layer in float32, and each layer's pattern twice.
    running = 0 if source.ready else patterns * (16 + 12 * len(layers))
    means = {"mean": 2, "sd": 4}.get(show, 1) + 2 * minus
    stacked = 2 * source.count * len(layers) if "sharpness" in nulls else 0
    kept = len(plans) * (1 + len(nulls)) * drawn**2
    need = max(running + 8 * patterns * (means + stacked) + 8 * kept, 36 * kept)  # drawing copies what is kept
    what = f"a heatmap of {source.count} seed(s), {len(layers)} layer(s), {heads} head(s) and {n} tokens"
    return what, need, "give a shorter text, or draw fewer panels (max_panels) and nulls"


def _told(drawn: int, given: int) -> str:
    if given == 1:
        return ""
    return f"{drawn} seeds" if drawn == given else f"{drawn} of {given} seeds"


def _answers(source: Source, n: int) -> tuple[str, ...]:
    """Names of the labels of a grammar that names some, one per position, "" where none is asked for."""
    names = getattr(source.grammar, "label_names", None)
    if names is None or source.tokens is None:
        return ()
    labels = np.asarray(source.grammar.labels(source.tokens[None]))[0, :n]
    return tuple(names[label] if label >= 0 else "" for label in labels)


def _text(source: Source) -> str:
    """What is read: as the grammar writes such a string, START left out."""
    words = [t for t in source.labels if t != "START"]
    if source.tokens is not None and hasattr(source.grammar, "format") and "START" not in words:
        return str(source.grammar.format(source.tokens))
    return ("" if all(len(w) == 1 for w in words) else " ").join(words)


def _ordered(drawing: Drawing, order: np.ndarray | None) -> Drawing:
    """Labels rearranged; weights, boxes and strip are in the new order already."""
    if order is None:
        return drawing
    rows = (drawing.labels, drawing.places, drawing.answers)
    labels, places, answers = (tuple(row[i] for i in order) if row else () for row in rows)
    return replace(drawing, labels=labels, places=places, answers=answers, ordered=True)


def _reduced(drawing: Drawing, block: int) -> Drawing:
    """Labels, boxes and strip of square blocks of cells, so that at most `DRAWN_AT_MOST` rows are drawn."""
    n = len(drawing.labels)
    if block == 1:
        return drawing
    starts = range(0, n, block)
    ends = [min(i + block, n) - 1 for i in starts]
    strip = drawing.strip
    note = f"drawn reduced: a cell is the mean of {block} x {block} weights"
    return replace(
        drawing,
        labels=tuple(f"{drawing.labels[i]} … {drawing.labels[j]}" for i, j in zip(starts, ends, strict=True)),
        places=tuple(f"{drawing.places[i]} to {drawing.places[j]}" for i, j in zip(starts, ends, strict=True)),
        boxes=tuple(
            Boxes(
                _coarser(boxes.rectangles, block),
                boxes.colour,
                tuple(sorted({(a // block, -(-b // block)) for a, b in boxes.corners})),
            )
            for boxes in drawing.boxes
        ),
        strip=None if strip is None else replace(strip, classes=strip.classes[::block]),
        notes=(*drawing.notes, escape(note)),
        block=block,
        answers=(),
    )


def _coarser(rectangles: Sequence[tuple[int, int, int, int]], block: int) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(
        sorted({(a // block, -(-b // block), c // block, -(-d // block)) for a, b, c, d in rectangles})
    )  # fmt: skip


def _block_means(weights: np.ndarray, block: int, causal: bool) -> np.ndarray:
    starts = np.arange(0, len(weights), block)
    sums = np.add.reduceat(np.add.reduceat(weights, starts, axis=0), starts, axis=1)
    sizes = np.diff(np.append(starts, len(weights)))
    cells = np.outer(sizes, sizes).astype(float)
    if causal:  # only the cells on and below the diagonal can hold anything
        cells[np.diag_indices(len(sizes))] = sizes * (sizes + 1) / 2
    return np.asarray(sums / cells)
