"""One look for every figure: template, palette, colour scales."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from interp.names import printable

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe & Ito's palette: told apart under the common kinds of colour blindness, and in print.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6F6F6F")
INK = "#1F2933"
MUTED = "#5B6770"
GRID = "#E3E7EB"
PAPER = "#FFFFFF"
OVERLAY = "#D55E00"  # vermilion: stands out from every colour of SEQUENTIAL
BOXES = (OVERLAY, "#009E73", "#E69F00")
# What a number says of a claim, and so what a verdict says: in every picture the same colour, symbol and sign, so that
# nothing is told by colour alone. "nothing": it says nothing by itself.
SAYING = {
    "for": (PALETTE[2], "circle", "✓"),
    "against": (PALETTE[1], "x", "✗"),
    "open": (PALETTE[4], "diamond", "?"),
    "nothing": (PALETTE[6], "square-open", ""),
}
VERDICTS = {  # colour and sign
    "supported": (PALETTE[2], "✓"),
    "misleading": (PALETTE[3], "!"),
    "undecided": (PALETTE[4], "?"),
    "refuted": (PALETTE[1], "✗"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"
MONO = "'DejaVu Sans Mono', 'SF Mono', Consolas, monospace"

# cmocean's "dense" (Thyng et al. 2016): perceptually uniform, lightness falls steadily, so that a
# weight of 0 is nearly paper and still differs from a masked cell, which is paper itself.
SEQUENTIAL = (
    "rgb(230,240,240)",
    "rgb(191,221,229)",
    "rgb(156,201,226)",
    "rgb(129,180,227)",
    "rgb(115,154,228)",
    "rgb(117,127,221)",
    "rgb(120,100,202)",
    "rgb(119,74,175)",
    "rgb(113,50,141)",
    "rgb(100,31,104)",
    "rgb(80,20,66)",
    "rgb(54,14,36)",
)

# cmocean's "balance" without its darkest ends: differences, 0 nearly paper.
DIVERGING = (
    "rgb(12,94,190)",
    "rgb(75,142,185)",
    "rgb(145,178,195)",
    "rgb(241,236,235)",
    "rgb(214,161,143)",
    "rgb(193,98,72)",
    "rgb(160,32,43)",
)
LEVELS = ("rgb(255,243,196)", "rgb(240,180,41)", "rgb(178,88,12)", "rgb(84,36,16)")  # pale: level 0


def colorscale(power: float = 1.0, pale: float = 0.0) -> list[list[object]]:
    """`SEQUENTIAL` as plotly stops on [0, 1]; a weight w gets the colour of w**power.

    With power = 1/2 the data stay weights (for the hover) and only the colours follow their root. `pale`: the share of
    paper in every colour, for a ground on which other things are drawn.
    """
    steps = 64 if power != 1 else len(SEQUENTIAL) - 1
    stops = [i / steps for i in range(steps + 1)]
    scale = [mix([colour, "rgb(255,255,255)"], pale) for colour in SEQUENTIAL] if pale else SEQUENTIAL
    return [[stop ** (1 / power), mix(scale, stop)] for stop in stops]


def diverging(power: float = 1.0) -> list[list[object]]:
    """`DIVERGING` as plotly stops on [0, 1], the middle at 1/2; a difference d gets the colour of its signed power."""
    stops = [i / 64 for i in range(65)]
    signed = [2 * stop - 1 for stop in stops]
    places = [(1 + math.copysign(abs(s) ** (1 / power), s)) / 2 for s in signed]
    return [[place, mix(DIVERGING, stop)] for place, stop in zip(places, stops, strict=True)]


def template() -> "go.layout.Template":
    """The shared layout. Paper is white on purpose: figures stay legible in dark notebooks."""
    import plotly.graph_objects as go

    axis = {
        "gridcolor": GRID,
        "linecolor": MUTED,
        "showline": True,
        "ticks": "outside",
        "tickcolor": MUTED,
        "ticklen": 4,
        "zeroline": False,
        "title": {"standoff": 8, "font": {"size": 13}},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": INK},
            "title": {"font": {"size": TITLE}, "x": 0.0, "xref": "paper", "xanchor": "left"},
            "paper_bgcolor": PAPER,
            "plot_bgcolor": PAPER,
            "colorway": list(PALETTE),
            "hoverlabel": {"font": {"family": MONO, "size": 13}, "bgcolor": PAPER, "bordercolor": MUTED},
            "legend": {"bgcolor": "rgba(255,255,255,0.85)", "title": {"font": {"size": 13}}},
            # The toolbar lies over the top right corner: as few buttons as do the work.
            "modebar": {
                "remove": ["zoomIn", "zoomOut", "autoScale", "select", "lasso", "sendChartToCloud"],
                "color": MUTED,
            },
            "margin": {"l": 70, "r": 30, "t": 70, "b": 60},
            "xaxis": axis,
            "yaxis": axis,
        }
    )


TITLE, NOTE = 16, 12  # font sizes
MOST_LINES = 8  # of a title
LIFT = 11  # pixels by which plotly lifts a title for each line after the first
NARROW = 600  # pixels that a picture without a width of its own has at least
TOOLBAR = 130  # pixels at the top right that plotly's buttons may cover


def finish(
    fig: "go.Figure", title: str, note: str = "", *, height: int, width: int | None = 760, **layout: Any
) -> "go.Figure":
    """Give `fig` the shared look: a title that says what is seen, and below it a note (n, nulls, how to read it).

    Both are plain text, broken into lines that fit, and escaped. `height`: of everything without these lines and
    without the panels' own titles. `width=None`: whatever room there is, `NARROW` pixels or more. `layout`: as of
    `update_layout`.
    """
    room = (width or NARROW) - 28
    head = textwrap.wrap(title, max((room - TOOLBAR) // 8, 20), max_lines=MOST_LINES, placeholder=" …") or [""]
    below = textwrap.wrap(note, max(room // 7, 30))
    placed = {"yref": "paper", "xanchor": "center", "yanchor": "bottom"}  # as `make_subplots` places them
    panels = [a for a in fig.layout.annotations if all(a[name] == value for name, value in placed.items())]
    for panel in panels:
        panel.font.size = 13
    lines = max((str(panel.text).count("<br>") + 1 for panel in panels), default=0)
    more = LIFT * (len(head) - 1)
    top = 30 + more + 21 * len(head) + (4 + 17 * len(below) if below else 0) + 18 * lines
    fig.update_layout(
        template=template(),
        title={
            "text": "<br>".join(map(escape, head)),
            "subtitle": {"text": "<br>".join(map(escape, below)), "font": {"size": NOTE, "color": MUTED}},
            "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top",
            "pad": {"l": 14, "t": 14 + more},
        },
        height=height + top,
        margin={"t": top},
    )  # fmt: skip
    fig.update_layout(**({"width": width} if width else {"autosize": True}), **layout)
    return fig


def label_last_rows(fig: "go.Figure", panels: int, columns: int, title: str) -> None:
    """Title and tick labels of the x axes of a grid whose panels share them: below the last panel of every column,
    also where the last row is not full."""
    for at in range(max(panels - columns, 0), panels):
        fig.update_xaxes(title_text=title, showticklabels=True, row=at // columns + 1, col=at % columns + 1)


def log_axis(title: str = "", ends: tuple[float, float] | None = None) -> dict[str, Any]:
    """A logarithmic axis with a tick a decade, written as a power of ten.

    `ends` of a short one: it has these, and ticks at 1, 2 and 5, plain numbers all.
    """
    if ends is not None:
        first, last = (math.log10(end) for end in ends)
        ticks = [n * 10.0**power for power in range(math.floor(first), math.ceil(last) + 1) for n in (1, 2, 5)]
        ticks = [tick for tick in ticks if ends[0] * (1 - 1e-9) <= tick <= ends[1] * (1 + 1e-9)]
        room = 0.04 * (last - first)
        return {
            "type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "gridcolor": GRID,
            "range": [first - room, last + room], "title": {"text": title},
        }  # fmt: skip
    return {
        "type": "log", "dtick": 1, "exponentformat": "power", "gridcolor": GRID, "title": {"text": title},
        "tickfont": {"size": 11},  # plotly writes powers of ten larger
    }  # fmt: skip


def rate_axis(title: str, floor: float) -> dict[str, Any]:
    """A logarithmic axis of rates up to 1, on which `floor` stands for none: ticks that it would cover are left out."""
    ticks = [10.0**power for power in range(math.ceil(math.log10(2 * floor)), 1)]
    return {
        **log_axis(title),
        "tickfont": {"size": 13},
        "range": [math.log10(floor) - 0.15, 0.1],
        "tickvals": [floor, *ticks],
        "ticktext": ["none", *(f"{tick:g}" for tick in ticks)],
    }


def colour_bar(title: str, **more: Any) -> dict[str, Any]:
    """The bar of a colour scale, as heatmaps of attention have it."""
    return {
        "thickness": 14, "outlinewidth": 0, "tickfont": {"size": 12},
        "ticksuffix": "\u00a0\u00a0",  # else plotly sets the title close to its tick labels
        "title": {"side": "right", "font": {"size": 12}, "text": title}, **more,
    }  # fmt: skip


def error_bars(ends: Iterable[tuple[float | None, float | None, float | None]], **more: Any) -> dict[str, Any]:
    """Intervals (value, low, high) as plotly's error bars; none where there is none."""
    known = list(ends)
    up = [None if value is None or high is None else high - value for value, _, high in known]
    down = [None if value is None or low is None else value - low for value, low, _ in known]
    return {"symmetric": False, "array": up, "arrayminus": down, "thickness": 2, "width": 6, **more}


def escape(label: object) -> str:
    """A user's text for plotly, which renders some HTML in labels: shown as text, whatever it is.

    Control characters become escapes: an SVG that holds one is no XML.
    """
    return printable(str(label)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def literal(label: object) -> str:
    """The same inside a hover template, where plotly would also put in what stands in %{...}."""
    return escape(label).replace("%{", "%&#123;")


def shorten(text: str, width: int) -> str:
    """At most `width` characters, the middle left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def mix(colours: Sequence[str], share: float) -> str:
    """The colour at `share` in [0, 1] of a scale of rgb() colours at equal distances."""
    place = share * (len(colours) - 1)
    left = min(int(place), len(colours) - 2)
    pair = [[int(c) for c in colours[i][4:-1].split(",")] for i in (left, left + 1)]
    mixed = [round(a + (b - a) * (place - left)) for a, b in zip(*pair, strict=True)]
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
