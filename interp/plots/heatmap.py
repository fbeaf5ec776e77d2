"""`attention_heatmap`: attention patterns of one or several heads, with the truth drawn over them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from interp.errors import PatternError, RequestError
from interp.plots.arrays import as_array, check_patterns, is_causal
from interp.plots.style import MONO, OVERLAY, colorscale, escape, shorten, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

Show = Literal["one", "mean", "grid", "sd"]
Cells = Sequence[tuple[int, int]]
OVERLAYS = {
    "stack_top": "last unmatched opening bracket (top of the true stack)",
    "partner": "the bracket that a closer closes",
}
LINEAR_UP_TO = 64  # tokens; beyond, one even row is so pale on [0, 1] that it would vanish
FOUR_ABREAST = 202  # pixels a panel, so that four fit a page of 1,200
DRAWN_AT_MOST = 2048  # tokens; beyond, blocks of cells are averaged
QUERY, KEY = "query (attends from)", "key (attended to)"


@dataclass(frozen=True)
class Panel:
    """One drawn matrix [query, key]: which layer and head, which seeds, if it is not the only one."""

    place: str
    seeds: str
    weights: np.ndarray


@dataclass(frozen=True)
class Drawing:
    """All that the figure shows: panels of equal size, a label a position, cells to box.

    `text` is what was attended to, for the title; `block` is how many tokens wide a drawn cell is.
    """

    panels: tuple[Panel, ...]
    labels: tuple[str, ...]
    boxes: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]
    text: str
    block: int = 1


def attention_heatmap(
    model_or_patterns: Any,
    text_or_tokens: Any = None,
    layer: int | None = None,
    head: int | None = None,
    overlay: Literal["stack_top", "partner"] | Cells | None = None,
    population: Show = "one",
    seed_labels: Sequence[object] | None = None,
    title: str | None = None,
    grammar: Any = None,
    max_panels: int = 12,
) -> "go.Figure":
    """Heatmaps of attention weights; rows are queries (downwards), columns are keys.

    `model_or_patterns`
        A model, a population (sequence of models), or weights as arrays (numpy or torch):
        [query, key]; [head, query, key] (with population "mean", "grid" or "sd": [seed, query, key]);
        [seed, head, query, key]; or a list of any of these, one a layer.
    `text_or_tokens`
        A model's input: text, or token ids [pos] or [1, pos]. Beside arrays: one text, ids, or a
        list of strings, one a position; text without its START gets one. PAD at the end is cut off.
    `layer`, `head`
        Which to draw, from 0, negative from the end. `layer=None`: every layer where one model is drawn
        (population="one"), the last layer otherwise. `head=None`: every head.
    `overlay`
        Boxes: "stack_top" on (query, last unmatched opener) of every query of depth at least 1,
        "partner" on (closer, its opener), or a list of cells (query, key). The first two need a
        grammar: the model's, or `grammar=`.
    `population`
        "one": the first seed; "mean" and "sd" (n - 1) over seeds; "grid": a panel a seed.
    `max_panels`
        Further panels are left out, and the title says so.

    All panels share one colour scale: [0, 1] up to 64 tokens, square root beyond, to a labelled end.
    Cells that a causal pattern cannot reach are blank. Beyond 2,048 tokens blocks of cells are
    averaged, and the title says so.

    Raises `PatternError` for weights that are not square, finite, nonnegative and normalised, and
    `RequestError` for arguments that do not fit.
    """
    if population not in get_args(Show):
        raise RequestError(f"population={population!r} is not one of {', '.join(get_args(Show))}")
    if max_panels < 1:
        raise RequestError(f"max_panels={max_panels} must be at least 1")
    if _is_model(model_or_patterns) or _is_population(model_or_patterns):
        source = _from_models(model_or_patterns, text_or_tokens, population, grammar)
    else:
        source = _from_arrays(model_or_patterns, text_or_tokens, population, grammar)
    layers, labels, tokens, grammar, seeds = source
    seeds = _seed_names(seed_labels, seeds, layers[0].shape[0])
    panels = _panels(layers, layer, head, population, seeds)
    boxes, notes = _overlay(overlay, tokens, grammar, len(labels))
    if len(panels) > max_panels:
        notes = (*notes, f"first {max_panels} of {len(panels)} panels")
    text = "" if text_or_tokens is None else "".join(t for t in labels if t not in ("START", "END"))
    drawing = Drawing(tuple(panels[:max_panels]), tuple(labels), boxes, notes, text)
    return _draw(_reduced(drawing), population, title)


# -- from what was given to layers [seed, head, query, key] ----------------------------------------

Source = tuple[list[np.ndarray], Sequence[str], np.ndarray | None, Any, Sequence[object]]


def _is_model(thing: Any) -> bool:
    return hasattr(thing, "to_tokens")


def _is_population(thing: Any) -> bool:
    if isinstance(thing, np.ndarray) or hasattr(thing, "detach") or not isinstance(thing, Sequence):
        return False
    return len(thing) > 0 and _is_model(thing[0])


def _from_models(source: Any, text: Any, population: Show, grammar: Any) -> Source:
    from interp.patterns import attention_patterns

    if text is None:
        raise RequestError("a model needs a text or tokens to attend to: attention_heatmap(model, '([])')")
    if population != "one" and _is_model(source):
        raise RequestError(f"population={population!r} needs a population of models, and one model was given")
    models = [source] if _is_model(source) else [source[0]] if population == "one" else list(source)
    names = [] if _is_model(source) else list(getattr(source, "seeds", range(len(source))))
    first = models[0]
    grammar = grammar if grammar is not None else getattr(first, "grammar", None)
    ids = first.to_tokens(text)
    if ids.ndim == 1:
        ids = ids[None]
    if len(ids) != 1:
        raise RequestError(f"one heatmap shows one text, and {len(ids)} were given")
    ids = ids[:, : _without_padding(as_array(ids[0]).astype(int), _pad_of(first, grammar))]
    runs = [attention_patterns(model, ids) for model in models]
    layers = [np.concatenate([as_array(run[i]) for run in runs]) for i in range(len(runs[0]))]
    tokens = as_array(ids[0]).astype(int)
    labels = list(first.to_str_tokens(ids[0])) if hasattr(first, "to_str_tokens") else _names(tokens, grammar)
    return [_checked(p, i, len(layers)) for i, p in enumerate(layers)], labels, tokens, grammar, names


def _from_arrays(source: Any, text: Any, population: Show, grammar: Any) -> Source:
    given = list(source) if _is_layer_list(source) else [source]
    if not given:
        raise PatternError("an empty list holds no patterns")
    layers = []
    for i, item in enumerate(given):
        p = _checked(item, i, len(given))
        if p.ndim > 4:
            raise PatternError(f"patterns of shape {list(p.shape)}: at most [seed, head, query, key]")
        seeds_first = population != "one" and p.ndim == 3
        layers.append(p[:, None] if seeds_first else p.reshape((1,) * (4 - p.ndim) + p.shape))
    if len({(p.shape[0], p.shape[2]) for p in layers}) > 1:
        shapes = ", ".join(str(list(p.shape)) for p in layers)
        raise PatternError(f"layers differ in seeds or positions: {shapes}")
    labels, tokens = _labels_for(text, layers[0].shape[-1], grammar)
    return layers, labels, tokens, grammar, []


def _is_layer_list(source: Any) -> bool:
    """A list of arrays is one a layer; nested lists of numbers are one array."""
    return isinstance(source, (list, tuple)) and all(hasattr(item, "shape") for item in source)


def _checked(patterns: Any, index: int, count: int) -> np.ndarray:
    return check_patterns(patterns, "patterns" if count == 1 else f"patterns of layer {index}")


def _pad_of(model: Any, grammar: Any) -> int | None:
    pad = getattr(getattr(model, "config", None), "pad_token", None)
    return pad if pad is not None else getattr(grammar, "pad", None)


def _without_padding(tokens: np.ndarray, pad: int | None) -> int:
    """Length of `tokens` [pos] without PAD at its end."""
    kept = np.flatnonzero(tokens != pad) if pad is not None else np.arange(len(tokens))
    return int(kept[-1]) + 1 if len(kept) else len(tokens)


def _names(tokens: np.ndarray, grammar: Any) -> list[str]:
    vocab = getattr(grammar, "vocab", None)
    if vocab is None:
        return [str(i) for i in tokens]
    if len(bad := tokens[(tokens < 0) | (tokens >= len(vocab))]):
        raise RequestError(f"token {bad[0]} is outside the grammar's vocabulary of {len(vocab)}")
    return [vocab[i] for i in tokens]


def _labels_for(text: Any, n: int, grammar: Any) -> tuple[list[str], np.ndarray | None]:
    """A label for each of `n` positions of plain arrays, and token ids where they are known."""
    if text is None:
        return [str(i) for i in range(n)], None
    if isinstance(text, str) and grammar is not None:
        text = grammar.to_tokens(text)[0]
    if isinstance(text, str) or (not hasattr(text, "shape") and all(isinstance(t, str) for t in text)):
        names, tokens = list(text), None
    else:
        tokens = np.atleast_1d(as_array(text).astype(int).squeeze())
        tokens = tokens[: _without_padding(tokens, getattr(grammar, "pad", None))]
        names = _names(tokens, grammar)
    if isinstance(text, str) and len(names) + 1 == n:
        names = ["START", *names]
    elif tokens is not None and grammar is not None and len(names) + 1 == n and tokens[0] != grammar.start:
        names, tokens = ["START", *names], np.concatenate([[grammar.start], tokens])
    if len(names) != n:
        raise RequestError(f"{len(names)} tokens were given for patterns of {n} positions")
    return names, tokens


# -- which panels ----------------------------------------------------------------------------------


def _seed_names(given: Sequence[object] | None, known: Sequence[object], count: int) -> list[str]:
    if given is None:
        return [f"seed {name}" for name in (known or range(count))]
    if len(given) != count:
        raise RequestError(f"{len(given)} seed_labels were given for {count} seeds")
    return [str(label) for label in given]


def _panels(
    layers: list[np.ndarray], layer: int | None, head: int | None, population: Show, seeds: list[str]
) -> list[Panel]:
    if layer is not None:
        chosen = [_index("layer", layer, len(layers))]
    else:
        chosen = list(range(len(layers))) if population == "one" else [len(layers) - 1]
    panels = []
    for i in chosen:
        heads = layers[i].shape[1]
        for h in range(heads) if head is None else [_index("head", head, heads)]:
            place = f"layer {i}, head {h}" if len(layers) > 1 or layer is not None else f"head {h}"
            panels += _of_seeds(layers[i][:, h], place, population, seeds)
    return panels


def _of_seeds(patterns: np.ndarray, place: str, population: Show, seeds: list[str]) -> list[Panel]:
    """Panels of one head, from [seed, query, key]."""
    if population == "one":
        return [Panel(place, "", patterns[0])]
    if population == "grid":
        return [Panel(place, seed, p) for seed, p in zip(seeds, patterns, strict=True)]
    if population == "mean":
        return [Panel(place, f"mean of {len(patterns)} seeds", patterns.mean(axis=0))]
    if len(patterns) < 2:
        raise RequestError("population='sd' needs two seeds at least, and one was given")
    return [Panel(place, f"sd over {len(patterns)} seeds", patterns.std(axis=0, ddof=1))]


def _index(kind: str, given: int, count: int) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not -count <= given < count:
        names = f"{kind}s are 0 to {count - 1}" if count > 1 else f"the only {kind} is 0"
        raise RequestError(f"{kind}={given!r} does not exist: {names}")
    return int(given) % count


def _overlay(
    overlay: str | Cells | None, tokens: np.ndarray | None, grammar: Any, n: int
) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """Cells to box, and what the boxes mean."""
    if overlay is None:
        return (), ()
    if not isinstance(overlay, str):
        cells = tuple((int(query), int(key)) for query, key in overlay)
        for cell in cells:
            if not all(0 <= at < n for at in cell):
                raise RequestError(f"overlay cell {cell} lies outside the {n} positions")
        return cells, ()
    if overlay not in OVERLAYS:
        raise RequestError(f"overlay={overlay!r} is not one of {', '.join(OVERLAYS)}, nor a list of cells (query, key)")
    if grammar is None or tokens is None:
        raise RequestError(f"overlay={overlay!r} needs a grammar and the text: pass grammar= and text_or_tokens=")
    if not hasattr(grammar, overlay):
        raise RequestError(
            f"overlay={overlay!r} is for brackets: {type(grammar).__name__} has none; give cells or None"
        )
    targets = getattr(grammar, overlay)(tokens)
    if overlay == "partner":
        targets = np.where(targets < np.arange(n), targets, -1)  # closers only
    cells = tuple((int(q), int(targets[q])) for q in np.flatnonzero(targets >= 0))
    return cells, (f"boxes: {OVERLAYS[overlay]}",)


def _reduced(drawing: Drawing) -> Drawing:
    """Means over square blocks of cells, so that at most `DRAWN_AT_MOST` rows are drawn."""
    n = len(drawing.labels)
    block = math.ceil(n / DRAWN_AT_MOST)
    if block == 1:
        return drawing
    edges = range(0, n, block)
    labels = tuple(f"{drawing.labels[i]} … {drawing.labels[min(i + block, n) - 1]}" for i in edges)
    panels = tuple(replace(p, weights=_block_means(p.weights, block)) for p in drawing.panels)
    boxes = tuple(sorted({(q // block, k // block) for q, k in drawing.boxes}))
    note = f"drawn reduced: a cell is the mean of {block} x {block} weights"
    return replace(drawing, panels=panels, labels=labels, boxes=boxes, notes=(*drawing.notes, note), block=block)


def _block_means(weights: np.ndarray, block: int) -> np.ndarray:
    starts = np.arange(0, len(weights), block)
    sums = np.add.reduceat(np.add.reduceat(weights, starts, axis=0), starts, axis=1)
    sizes = np.diff(np.append(starts, len(weights)))
    cells = np.outer(sizes, sizes).astype(float)
    if is_causal(weights):  # only the cells on and below the diagonal can hold anything
        cells[np.diag_indices(len(sizes))] = sizes * (sizes + 1) / 2
    return np.asarray(sums / cells)


# -- drawing ---------------------------------------------------------------------------------------


def _draw(drawing: Drawing, population: Show, title: str | None) -> "go.Figure":
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    count, n = len(drawing.panels), len(drawing.labels)
    columns = min(count, 4 if count > 6 or count == 4 else 3)
    rows = math.ceil(count / columns)
    side = _side(n, count) if columns < 4 else min(_side(n, count), FOUR_ABREAST)
    gap_x, gap_y = 58, 66
    plot_width, plot_height = columns * side + (columns - 1) * gap_x, rows * side + (rows - 1) * gap_y
    common, names = _panel_names(drawing)
    fig = make_subplots(
        rows=rows,
        cols=columns,
        horizontal_spacing=gap_x / plot_width if columns > 1 else 0,
        vertical_spacing=gap_y / plot_height if rows > 1 else 0,
        subplot_titles=names if count > 1 else None,
    )
    causal = is_causal(np.stack([panel.weights for panel in drawing.panels]))
    queries, keys = _axis_names(drawing, "query"), _axis_names(drawing, "key")
    verb = "%{y} attends %{z:.3f} to %{x}"
    if population == "sd":
        verb = "%{y} to %{x}: sd of the weight %{z:.3f}"
    for i, panel in enumerate(drawing.panels):
        weights = np.where(np.tri(n, dtype=bool), panel.weights, np.nan) if causal else panel.weights
        trace = go.Heatmap(
            z=weights,
            x=keys,
            y=queries,
            coloraxis="coloraxis",
            hoverongaps=False,
            hovertemplate=f"{verb}<extra>{names[i]}</extra>",
            name=names[i],
        )
        fig.add_trace(trace, row=i // columns + 1, col=i % columns + 1)
    _axes(fig, drawing, side, columns, queries, keys)
    _boxes(fig, drawing.boxes, side / n)
    bar = _colours(drawing, population, causal)
    head = escape(title) if title is not None else _title(drawing, population, common)
    left, right, top, bottom = 76, 120, 44 + 18 * len(drawing.notes) + (26 if count > 1 else 0), 64
    height = top + plot_height + bottom
    notes = {"text": "<br>".join(escape(note) for note in drawing.notes), "font": {"size": 12}}
    fig.update_layout(
        template=template(),
        width=max(left + plot_width + right, 460),
        height=height,
        margin={"l": left, "r": max(right, 460 - left - plot_width), "t": top, "b": bottom},
        title={"text": head, "subtitle": notes, "y": 1 - 12 / height, "yref": "container", "yanchor": "top"},
        coloraxis=bar,
        showlegend=False,
    )
    fig.update_annotations(font={"size": 12}, selector={"yanchor": "bottom"})
    return fig


def _side(n: int, count: int) -> int:
    """Pixels of a panel's side."""
    if count == 1:
        return min(max(26 * n, 260), 620 if n <= 64 else 760)
    return min(max(13 * n, 170), 260 if count > 2 else 420)


def _axis_names(drawing: Drawing, word: str) -> list[str]:
    """`query 5 ')'` for each position: unique, so they serve as categories and as hover text."""
    places = [str(i) for i in range(len(drawing.labels))]
    if drawing.block > 1:
        places = [f"block from {i * drawing.block}" for i in range(len(drawing.labels))]
    return [f"{word} {place} '{escape(label)}'" for place, label in zip(places, drawing.labels, strict=True)]


def _axes(fig: "go.Figure", drawing: Drawing, side: int, columns: int, queries: list[str], keys: list[str]) -> None:
    n = len(drawing.labels)
    common = {"type": "category", "showgrid": False, "tickmode": "array", "automargin": False, "title": None}
    size = 13 if side / n >= 20 else 11
    font = {"family": MONO, "size": size}
    shown, x_text = _ticks(drawing, side, width=0.62 * size)
    _, y_text = _ticks(drawing, side, width=None)
    count = len(drawing.panels)
    for i in range(count):
        row, column = i // columns + 1, i % columns + 1
        lowest = i + columns >= count  # nothing below it: the words stand once a row and column
        fig.update_xaxes(
            **common, tickvals=[keys[j] for j in shown], ticktext=x_text, tickangle=0, tickfont=font,
            range=[-0.5, n - 0.5], constrain="domain", row=row, col=column,
        )  # fmt: skip
        fig.update_yaxes(
            **common, tickvals=[queries[j] for j in shown], ticktext=y_text, tickfont=font,
            range=[n - 0.5, -0.5], constrain="domain", scaleanchor=f"x{i + 1 if i else ''}",
            row=row, col=column,
        )  # fmt: skip
        if lowest:
            fig.update_xaxes(title_text=KEY, title_font_size=12, row=row, col=column)
        if column == 1:
            fig.update_yaxes(title_text=QUERY, title_font_size=12, row=row, col=column)


def _ticks(drawing: Drawing, side: int, width: float | None) -> tuple[list[int], list[str]]:
    """Positions that get a tick, and their words; `width` (pixels a character) limits words side by side."""
    n = len(drawing.labels)
    if side / n < 11:  # a bracket far from its neighbours says nothing: positions do
        step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 250, 500) if side / n * s >= 32 or s == 500)
        shown = list(range(0, n, step))
        return shown, [str(i * drawing.block) for i in shown]
    shown = list(range(n))
    room = 6 if width is None else max(int(side / n / width), 1)
    return shown, [escape(_cut(drawing.labels[i], room)) for i in shown]


def _cut(word: str, room: int) -> str:
    """The first `room` characters at most, with a mark where there is room for one."""
    return word if len(word) <= room else word[: room - 1] + "…" if room > 2 else word[:1]


def _boxes(fig: "go.Figure", cells: tuple[tuple[int, int], ...], cell: float) -> None:
    """All boxes of a panel as one path: a shape a cell would be slow for long sequences."""
    if not cells:
        return
    path = "".join(f"M{k - 0.5},{q - 0.5}H{k + 0.5}V{q + 0.5}H{k - 0.5}Z" for q, k in cells)
    line = {"color": OVERLAY, "width": 2 if cell >= 18 else 1.4 if cell >= 8 else 0.8}
    for i in range(len(fig.data)):
        axis = str(i + 1) if i else ""
        fig.add_shape(type="path", path=path, xref=f"x{axis}", yref=f"y{axis}", line=line)


def _colours(drawing: Drawing, population: Show, causal: bool) -> dict[str, Any]:
    """The shared colour axis with its bar."""
    bar: dict[str, Any] = {
        "thickness": 14, "len": 1, "lenmode": "fraction", "outlinewidth": 0, "ypad": 0,
        "tickfont": {"size": 12}, "title": {"side": "right", "font": {"size": 12}},
    }  # fmt: skip
    n = len(drawing.labels) * drawing.block
    if population == "sd":
        largest = max(float(panel.weights.max()) for panel in drawing.panels)
        bar["title"]["text"] = "sd of the attention weight over seeds"
        end = 0.5 if largest <= 0.5 else 0.75  # two seeds, 0 and 1: .707 is the most there is
        return {"cmin": 0, "cmax": end, "colorscale": colorscale(), "colorbar": bar}
    if n <= LINEAR_UP_TO:
        bar["title"]["text"] = "attention weight"
        return {"cmin": 0, "cmax": 1, "colorscale": colorscale(), "colorbar": bar}
    end, cut = _scale_end(drawing, causal)
    ticks = [t for t in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if end / 40 <= t <= end]
    text = [f"{t:g}" for t in ticks]
    if cut:
        text[-1] = f"≥ {text[-1]}"
    bar |= {"tickvals": [0, *ticks], "ticktext": ["0", *text]}
    bar["title"]["text"] = "attention weight (colours follow its square root)"
    return {"cmin": 0, "cmax": end, "colorscale": colorscale(0.5), "colorbar": bar}


def _scale_end(drawing: Drawing, causal: bool) -> tuple[float, bool]:
    """End of the scale for long sequences: the 99.9 % quantile of the weights, rounded up; is any above?

    One cell in a row is 1 where a head is sharp, which is more than 1 in 1,000 up to 2,000 keys: the
    scale then ends at 1. An even head stays visible, since only its first rows hold large weights.
    """
    weights = np.stack([panel.weights for panel in drawing.panels])
    if causal:
        weights = weights[:, np.tri(weights.shape[-1], dtype=bool)]
    quantile = np.quantile(weights, 0.999)
    end = next(t for t in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if t >= min(quantile, 1.0))
    return end, bool(weights.max() > end * (1 + 1e-6))


def _panel_names(drawing: Drawing) -> tuple[str, list[str]]:
    """What all panels share (for the title), and what tells each from the others."""
    places, seeds = ({getattr(panel, part) for panel in drawing.panels} for part in ("place", "seeds"))
    shared = ", ".join(group.copy().pop() for group in (places, seeds) if len(group) == 1 and group != {""})
    names = []
    for panel in drawing.panels:
        parts = [panel.place] * (len(places) > 1) + [panel.seeds] * (len(seeds) > 1)
        names.append(escape(", ".join(parts) or shared))
    return escape(shared), names


def _title(drawing: Drawing, population: Show, shared: str) -> str:
    what = "Spread of attention" if population == "sd" else "Attention"
    if population == "grid":
        what += f" of {len({panel.seeds for panel in drawing.panels})} seeds"
    head = f"{what}, {shared}" if shared else what
    return f"{head}: {escape(shorten(drawing.text, 40))}" if drawing.text else head
