"""Panels of attention weights as one plotly figure: sizes, axes, boxes, strips and titles."""

import math
import re
from dataclasses import dataclass
from html import unescape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from interp.plots.overlays import Boxes, Strip
from interp.plots.panels import Panel
from interp.plots.scales import LINEAR_UP_TO, Kind, colour_axis
from interp.plots.style import LIFT, MONO, MOST_LINES, MUTED, TOOLBAR, escape, literal, shorten, template

if TYPE_CHECKING:
    from interp.plots.compact import CompactFigure

QUERY, KEY = "query (attends from)", "key (attended to)"
FOUR_ABREAST = 195  # pixels a panel, so that four fit a page of 1,200 with its margins
LONGEST_LABEL = 12  # characters of a tick label
FOR_NOTES = 760  # pixels that notes may make a narrow figure wide; longer ones are broken
READABLE = 11  # pixels a cell, from which each gets its token as a tick label
STRIP, STRIP_GAP = 7, 3  # pixels: thickness of the coloured axis, and its distance


@dataclass(frozen=True)
class Drawing:
    """All that the figure shows: panels of equal size, a label and a place a position, the truth over them.

    `notes` are lines of HTML; `text` is what was attended to, for the title; `block` is how many tokens wide a drawn
    cell is; `seeds` is how many are drawn, in words; `ordered` says that positions are not in the text's order;
    `answers` are the names of the labels that are asked for at the positions, "" where none is, or no names at all.
    """

    panels: tuple[Panel, ...]
    labels: tuple[str, ...]
    places: tuple[str, ...]
    notes: tuple[str, ...]
    text: str
    kind: Kind
    boxes: tuple[Boxes, ...] = ()
    strip: Strip | None = None
    causal: bool = True
    seeds: str = ""
    block: int = 1
    ordered: bool = False
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """Pixels: of a panel's side, a cell, a tick label's font and longest word, and whether words under keys stand."""

    side: int
    cell: float
    font: int
    label: float
    upright: bool
    strip: int


def draw(drawing: Drawing, title: str | None) -> "CompactFigure":
    """The figure. `title=None` writes what all panels share."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.compact import CompactFigure

    count, n = len(drawing.panels), len(drawing.labels)
    columns = _columns(drawing)
    rows = math.ceil(count / columns)
    sizes = _sizes(drawing, columns)
    gap_x = max(58, math.ceil(sizes.label) + sizes.strip + 22)
    gap_y = 66 + sizes.strip + (math.ceil(sizes.label) - 16 if sizes.upright else 0)
    plot_width, plot_height = columns * sizes.side + (columns - 1) * gap_x, rows * sizes.side + (rows - 1) * gap_y
    common, names = _panel_names(drawing)
    heads = [escape(shorten(name, max(12, (sizes.side + gap_x // 2) // 7))) for name in names]
    fig = make_subplots(
        rows=rows,
        cols=columns,
        horizontal_spacing=gap_x / plot_width if columns > 1 else 0,
        vertical_spacing=gap_y / plot_height if rows > 1 else 0,
        subplot_titles=heads if count > 1 else None,
        figure=CompactFigure(),
    )
    queries, keys = _axis_names(drawing, "query", drawing.answers), _axis_names(drawing, "key")
    for i, panel in enumerate(drawing.panels):
        trace = go.Heatmap(
            z=np.where(np.tri(n, dtype=bool), panel.weights, np.nan) if drawing.causal else panel.weights,
            x=keys,
            y=queries,
            coloraxis="coloraxis",
            hoverongaps=False,
            zsmooth="fast" if sizes.cell < 1 else False,  # plotly would skip cells that get no pixel of their own
            hovertemplate=f"{_verb(drawing)}<extra>{literal(names[i])}</extra>",
            name=escape(names[i]),
        )
        fig.add_trace(trace, row=i // columns + 1, col=i % columns + 1)
    _axes(fig, drawing, sizes, columns, queries, keys)
    panelwise = [_shapes(drawing, sizes, str(i + 1) if i else "") for i in range(count)]
    shapes = [shape for same in zip(*panelwise, strict=True) for shape in same]  # alike side by side: they pack well
    left = max(76, 36 + sizes.strip + math.ceil(sizes.label))
    longest = max(map(_letters, drawing.notes), default=0)
    right = 160 if n * drawing.block > LINEAR_UP_TO else 130  # too little, and plotly shrinks the panels
    width = max(left + plot_width + right, min(left + 7 * longest + 20, FOR_NOTES), 460)
    notes = [line for note in drawing.notes for line in wrapped(note, (width - left - 20) // 7)]
    head = title if title is not None else _title(drawing, common)
    room = max((width - left - TOOLBAR) // 9, 20)
    lines = wrap(" ".join(str(head).split()), room, max_lines=MOST_LINES, placeholder=" …") or [""]
    top = _top(len(lines), len(notes)) + (22 if count > 1 else 0)
    bottom = 50 + sizes.strip + (math.ceil(sizes.label) if sizes.upright else 14)
    height = top + plot_height + bottom
    fig.update_layout(
        template=template(),
        width=width,
        height=height,
        margin={"l": left, "r": width - left - plot_width, "t": top, "b": bottom},
        title={
            "text": "<br>".join(map(escape, lines)),
            "subtitle": {"text": "<br>".join(notes), "font": {"size": 12}},
            "y": 1 - (12 + LIFT * (len(lines) - 1)) / height, "yref": "container", "yanchor": "top",
        },
        coloraxis=colour_axis([p.weights for p in drawing.panels], drawing.kind, n * drawing.block, drawing.causal,
                              plot_height),
        shapes=shapes,
        showlegend=False,
    )  # fmt: skip
    fig.update_annotations(font={"size": 12}, selector={"yanchor": "bottom"})
    return fig


def wrapped(note: str, room: int) -> list[str]:
    """A line of HTML as lines of `room` characters, tags not counted. A coloured mark stays with what it marks."""
    lines = [""]
    for word in re.findall(r"(?:</span> |<[^>]*>|[^ <])+ *", note):
        if lines[-1] and _letters(lines[-1]) + _letters(word.rstrip()) > room:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _letters(note: str) -> int:
    """How many characters of a line of HTML are seen."""
    return len(unescape(re.sub(r"<[^>]*>", "", note)))


def _columns(drawing: Drawing) -> int:
    count = len(drawing.panels)
    pairs = sum(1 for panel in drawing.panels if panel.null)
    if pairs and pairs * 2 == count and count <= 8:
        return 2 if count <= 4 else 4  # a pattern and its null stand side by side
    if count > 1 and FOUR_ABREAST / READABLE < len(drawing.labels) <= 260 / READABLE:
        return 2 if count == 4 else min(count, 3)  # wider panels have room for their tokens
    return min(count, 4 if count > 6 or count == 4 else 3)


def _top(lines: int, notes: int) -> int:
    """Pixels above the panels, as plotly sets a title of so many lines and a subtitle of so many notes."""
    return 46 + (21 + LIFT) * (lines - 1) + (0, 32)[notes > 0] + 16 * max(notes - 2, 0) + 6 * (notes > 1)


def _sizes(drawing: Drawing, columns: int) -> Sizes:
    n, count = len(drawing.labels), len(drawing.panels)
    if count == 1:
        side = min(max(26 * n, 260), 620) if 12 * n < 620 else min(12 * n, 780)
    else:
        side = min(max(13 * n, 170), 260 if count > 2 else 460)
    side = side if columns < 4 else min(side, FOUR_ABREAST)
    cell = side / n
    font = 13 if cell >= 20 else 11
    strip = STRIP + STRIP_GAP if drawing.strip is not None else 0
    if cell < READABLE:
        return Sizes(side, cell, font, 4 * 0.61 * font, False, strip)
    words = [len(label) for label in drawing.labels]
    label = min(max(words), LONGEST_LABEL) * 0.61 * font
    # The first label may reach out to the left, where nothing is.
    upright = max(words[1:], default=0) * 0.61 * font > cell
    return Sizes(side, cell, font, label, upright, strip)


def _verb(drawing: Drawing) -> str:
    digits = 3 if len(drawing.labels) * drawing.block <= LINEAR_UP_TO else 4
    if drawing.kind == "sd":
        return f"%{{y}} to %{{x}}: sd of the weight %{{z:.{digits}f}}"
    if drawing.kind == "difference":
        return f"%{{y}} to %{{x}}: %{{z:+.{digits}f}}"
    return f"%{{y}} attends %{{z:.{digits}f}} to %{{x}}"


# -- axes ------------------------------------------------------------------------------------------


def _axis_names(drawing: Drawing, word: str, answers: tuple[str, ...] = ()) -> list[str]:
    """`query 5 ')'` for each position: unique, so they serve as categories and as hover text."""
    asked = [f" (label '{escape(answer)}')" if answer else "" for answer in answers or ("",) * len(drawing.labels)]
    every = zip(drawing.places, drawing.labels, asked, strict=True)
    return [f"{word} {p} '{escape(label)}'{answer}" for p, label, answer in every]


def _axes(fig: Any, drawing: Drawing, sizes: Sizes, columns: int, queries: list[str], keys: list[str]) -> None:
    n, count = len(drawing.labels), len(drawing.panels)
    common = {
        "type": "category", "showgrid": False, "tickmode": "array", "automargin": False, "title": None,
        "tickfont": {"family": MONO, "size": sizes.font}, "constrain": "domain",
    }  # fmt: skip
    if sizes.strip:
        common |= {"ticklen": sizes.strip + 2, "tickcolor": "rgba(0,0,0,0)"}
    if n > LINEAR_UP_TO:  # lines from the cell under the mouse to both axes
        common |= {
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "spikecolor": MUTED,
            "spikedash": "dot",
        }
    shown, x_text, y_text = _ticks(drawing, sizes)
    for i in range(count):
        at = {"row": i // columns + 1, "col": i % columns + 1}
        fig.update_xaxes(
            **common, tickvals=[keys[j] for j in shown], ticktext=x_text, tickangle=-90 if sizes.upright else 0,
            range=[-0.5, n - 0.5], **at,
        )  # fmt: skip
        fig.update_yaxes(
            **common, tickvals=[queries[j] for j in shown], ticktext=y_text, range=[n - 0.5, -0.5],
            scaleanchor=f"x{i + 1 if i else ''}", **at,
        )  # fmt: skip
        if i + columns >= count:  # nothing below it: the words stand once a row and column
            fig.update_xaxes(title_text=KEY, title_font_size=12, **at)
        if i % columns == 0:
            fig.update_yaxes(title_text=QUERY, title_font_size=12, **at)


def _ticks(drawing: Drawing, sizes: Sizes) -> tuple[list[int], list[str], list[str]]:
    """Positions that get a tick, their words under the keys and beside the queries."""
    n = len(drawing.labels)
    if sizes.cell < READABLE:  # a token far from its neighbours says nothing: positions do
        if drawing.ordered and drawing.strip is not None:
            return _class_ticks(drawing.strip, sizes.cell)
        step = next(s for s in (5, 10, 20, 25, 50, 100, 200, 250, 500) if sizes.cell * s >= 32 or s == 500)
        shown = list(range(0, n, step))
        text = [str(i * drawing.block) for i in shown]
        return shown, text, text
    words = [escape(_cut(label)) for label in drawing.labels]
    under = list(words)
    if not sizes.upright:  # plotly centres labels: blanks on its right push a long first one to the left
        over = len(drawing.labels[0][:LONGEST_LABEL]) - max(int(sizes.cell / (0.61 * sizes.font)), 1)
        under[0] += "\u00a0" * max(over, 0)
    return list(range(n)), under, words


def _class_ticks(strip: Strip, cell: float) -> tuple[list[int], list[str], list[str]]:
    """A tick amid each class of positions sorted by class, where there is room for its name."""
    shown, text = [], []
    for c in np.unique(strip.classes):
        inside = np.flatnonzero(strip.classes == c)
        if len(inside) * cell >= 14:
            shown.append(int(inside[len(inside) // 2]))
            text.append(strip.short[c])
    return shown, text, text


BLANKS = {"": "∅", " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def _cut(word: str) -> str:
    word = BLANKS.get(word, word)
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"


# -- shapes ----------------------------------------------------------------------------------------


def _shapes(drawing: Drawing, sizes: Sizes, axis: str) -> list[dict[str, Any]]:
    """Boxes and strips of one panel. Many rectangles are one path: a shape a cell would be slow."""
    shapes: list[dict[str, Any]] = []
    for boxes in drawing.boxes:
        path = "".join(
            f"M{k0 - 0.5},{q0 - 0.5}H{k1 - 0.5}V{q1 - 0.5}H{k0 - 0.5}Z" for q0, q1, k0, k1 in boxes.rectangles
        )
        path += "".join(map(_corner, boxes.corners))
        line = {"color": boxes.colour, "width": 2 if sizes.cell >= 18 else 1.4 if sizes.cell >= 8 else 0.8}
        if path:
            shapes.append({"type": "path", "path": path, "xref": f"x{axis}", "yref": f"y{axis}", "line": line})
    if drawing.strip is None:
        return shapes
    near, far = -STRIP_GAP / sizes.side, -(STRIP_GAP + STRIP) / sizes.side
    for c, colour in enumerate(drawing.strip.colours):
        runs = _runs(drawing.strip.classes == c)
        under = "".join(f"M{a - 0.5},{near:.5f}H{b - 0.5}V{far:.5f}H{a - 0.5}Z" for a, b in runs)
        beside = "".join(f"M{near:.5f},{a - 0.5}H{far:.5f}V{b - 0.5}H{near:.5f}Z" for a, b in runs)
        if runs:
            fill = {"type": "path", "fillcolor": colour, "line": {"width": 0}}
            shapes.append({**fill, "path": under, "xref": f"x{axis}", "yref": f"y{axis} domain"})
            shapes.append({**fill, "path": beside, "xref": f"x{axis} domain", "yref": f"y{axis}"})
    return shapes


def _corner(run: tuple[int, int]) -> str:
    """The frame of a run's cells on and below the diagonal: straight at the left and below, in steps above."""
    first, end = run
    steps = "".join(f"H{at + 0.5}V{at + 0.5}" for at in range(first, end - 1))
    return f"M{first - 0.5},{first - 0.5}{steps}H{end - 0.5}V{end - 0.5}H{first - 0.5}Z"


def _runs(inside: np.ndarray) -> list[tuple[int, int]]:
    """Half-open stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


# -- words -----------------------------------------------------------------------------------------


def _panel_names(drawing: Drawing) -> tuple[str, list[str]]:
    """What all panels share (for the title), and what tells each from the others; not escaped."""
    places, seeds = ({getattr(panel, part) for panel in drawing.panels} for part in ("place", "seeds"))
    shared = ", ".join(next(iter(group)) for group in (places, seeds) if len(group) == 1 and group != {""})
    nulls = any(panel.null for panel in drawing.panels)
    names = []
    for panel in drawing.panels:
        parts = [panel.place] * (len(places) > 1) + [panel.seeds] * (len(seeds) > 1) + [panel.null] * bool(panel.null)
        names.append(", ".join(parts) or ("the pattern" if nulls else shared))
    return shared, names


def _title(drawing: Drawing, shared: str) -> str:
    what = {"sd": "Spread of attention", "difference": "Difference of attention", "weight": "Attention"}[drawing.kind]
    if drawing.seeds:
        what += f" of {drawing.seeds}"
    head = f"{what}, {shared}" if shared else what
    return f"{head}: {shorten(drawing.text, 40)}" if drawing.text else head
