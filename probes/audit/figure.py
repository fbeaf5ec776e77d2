"""The picture of an audit."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probes.audit.rows import COUNTS, LOGITS, MARGINS, OUTPUTS, SCORES, SEEDS
from probes.audit.thresholds import MIXED
from probes.audit.words import SCORED, numbers_of, required

if TYPE_CHECKING:
    import plotly.graph_objects as go

Row = dict[str, Any]
LABEL = 34  # characters of a line beside the marks: a page may be 600 pixels wide
LINE, GAP = 16, 12  # pixels: a line of a label, and what is left between two rows
TOP, BOTTOM = 34, 52  # pixels above a panel for its name, and below it for its axis
FRAME = "rgba(240,200,40,0.16)"  # behind the rows that decide
# Numbers of one unit share an axis, and only those.
PANELS = {
    COUNTS: ("Is there enough?", "count"),
    SEEDS: ("Seeds", "share of seeds"),
    SCORES: ("Where it attends", "score or share"),
    LOGITS: ("Does it do the task?", "logits"),
    OUTPUTS: ("Does anything move?", "share of the output"),
    MARGINS: ("Is it used?", "share of the intact margin"),
}
WORDS = {
    "for": "speaks for the claim",
    "against": "speaks against it",
    "open": "leaves it open",
    "nothing": "says neither",
}


def audit_figure(
    evidence: Sequence[Row],
    *,
    claim: str,
    pattern: str,
    use: str,
    verdict: str,
    reason: str,
    num_models: int,
    over: str,
) -> "go.Figure":
    """Every number of the evidence with its interval and what was required; the reason, and which rows decide.

    `evidence`: rows as of `Evidence.to_dict`; `over`: how many models and inputs, and the level of the intervals. The
    other arguments are what `AuditResult` has under these names.
    """
    from interp.plots.style import finish

    panels = [(unit, [r for r in evidence if r["unit"] == unit]) for unit in PANELS]
    # Counts that suffice are told in words.
    panels = [(unit, rows) for unit, rows in panels if rows and (unit != COUNTS or any(r["decides"] for r in rows))]
    placed = _placed(panels)
    height = sum(sum(panel.sizes) + TOP + BOTTOM for panel in placed)
    fig = _drawn(placed, height, num_models > 1)
    counts = "; ".join(f"{r['words']}: {numbers_of(r)}" for r in evidence if r["unit"] == COUNTS)
    return finish(
        fig,
        f"{verdict.capitalize()}: {claim}",
        f"Pattern {pattern}, use {use}. {reason} ({over}{f'; {counts}' if counts else ''}. {SCORED}.)",
        width=None,
        height=height + 70,
        margin={"l": 20, "b": 70},
        legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "xref": "container"},
        **{name: layout for panel in placed for name, layout in _axes(panel, height).items()},
    )


@dataclass(frozen=True)
class _Panel:
    """Rows of one unit: the name of its axes ("" for the first), and the pixels above it and of each row."""

    unit: str
    rows: Sequence[Row]
    axis: str
    above: int  # pixels from the top of the figure
    sizes: Sequence[int]

    @property
    def middle(self) -> list[float]:
        """Where each row is drawn."""
        return [sum(self.sizes[:i]) + self.sizes[i] / 2 for i in range(len(self.rows))]


def _placed(panels: Sequence[tuple[str, list[Row]]]) -> list[_Panel]:
    """The panels, one below the other."""
    out, above = [], 0
    for at, (unit, rows) in enumerate(panels, start=1):
        above += TOP
        sizes = [LINE * _label(row).count("<br>") + LINE + GAP for row in rows]
        out.append(_Panel(unit, rows, "" if at == 1 else str(at), above, sizes))
        above += sum(sizes) + BOTTOM
    return out


def _drawn(panels: Sequence[_Panel], height: int, over_seeds: bool) -> "go.Figure":
    """All marks, frames and titles."""
    import plotly.graph_objects as go

    from interp.plots.style import INK, SAYING

    fig, named = go.Figure(), set()
    for panel in panels:
        rows, middle = panel.rows, panel.middle
        for says, (colour, symbol, _) in SAYING.items():
            mine = [i for i, row in enumerate(rows) if (row["says"] or "nothing") == says and row["value"] is not None]
            if mine:
                fig.add_trace(_marks([rows[i] for i in mine], [middle[i] for i in mine], colour, symbol, panel.axis))
                fig.data[-1].update(name=WORDS[says], legendgroup=says, showlegend=says not in named)
                named.add(says)
        fig.add_trace(_required(rows, middle, panel.sizes, panel.axis))
        _frame(fig, panel)
        title = PANELS[panel.unit][0]
        title += " (means over seeds)" if panel.unit != SEEDS and over_seeds else ""
        fig.add_annotation(text=f"<b>{title}</b>", x=0, xref="paper", xanchor="left",
                           y=(height - panel.above) / height, yref="paper", yanchor="bottom", yshift=3,
                           showarrow=False, font={"size": 13})  # fmt: skip
    if any(row["decides"] for panel in panels for row in panel.rows):
        frame = {"color": FRAME, "line": {"color": INK, "width": 1}}
        fig.add_trace(go.Bar(x=[None], y=[None], name="▶ framed: the verdict rests on it", marker=frame))
    return fig


def _frame(fig: "go.Figure", panel: _Panel) -> None:
    """A frame around each row that decides."""
    from interp.plots.style import INK

    for row, middle, size in zip(panel.rows, panel.middle, panel.sizes, strict=True):
        if not row["decides"]:
            continue
        edges = {"y0": middle - size / 2 + 2, "y1": middle + size / 2 - 2, "yref": f"y{panel.axis}"}
        fig.add_shape(type="rect", x0=0, x1=1, xref="paper", **edges, line={"width": 1, "color": INK},
                      fillcolor=FRAME, layer="below")  # fmt: skip
        if row["value"] is None:
            fig.add_annotation(text="no number: see the reason", x=0.5, xref="paper", y=middle, yref=f"y{panel.axis}",
                               showarrow=False, font={"size": 12, "color": INK})  # fmt: skip


def _axes(panel: _Panel, height: int) -> dict[str, Any]:
    """The layout of both axes of a panel."""
    from interp.plots.style import GRID, MUTED

    top, axis = height - panel.above, panel.axis
    return {
        f"yaxis{axis}": {
            "domain": [(top - sum(panel.sizes)) / height, top / height], "range": [sum(panel.sizes), 0],
            "tickvals": panel.middle, "ticktext": [_label(row) for row in panel.rows], "tickfont": {"size": 12},
            "showgrid": False, "anchor": f"x{axis}", "ticks": "",
        },
        f"xaxis{axis}": {
            "anchor": f"y{axis}", "title": {"text": PANELS[panel.unit][1], "standoff": 4}, "gridcolor": GRID,
            "zeroline": True, "zerolinecolor": MUTED, "range": _span(panel.rows), "nticks": 6,
        },
    }  # fmt: skip


def _marks(rows: Sequence[Row], places: Sequence[float], colour: str, symbol: str, axis: str) -> "go.Scatter":
    import plotly.graph_objects as go

    from interp.plots.style import INK, error_bars, literal

    ends = [(row["value"], row["low"], row["high"]) for row in rows]
    return go.Scatter(
        x=[row["value"] for row in rows], y=list(places), mode="markers", xaxis=f"x{axis}", yaxis=f"y{axis}",
        marker={"color": colour, "symbol": symbol, "size": 11, "line": {"width": 2 if "open" in symbol else 0,
                                                                       "color": colour}},
        error_x=error_bars(ends, color=INK, thickness=1.5, width=4),
        customdata=[f"{literal(row['words'])}: {numbers_of(row)}" for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _required(rows: Sequence[Row], places: Sequence[float], sizes: Sequence[float], axis: str) -> "go.Scatter":
    """A stroke in each row where the number is to be beyond or below."""
    import plotly.graph_objects as go

    from interp.plots.style import INK

    x: list[float | None] = []
    y: list[float | None] = []
    for row, place, size in zip(rows, places, sizes, strict=True):
        for at in _thresholds(row):
            x += [at, at, None]
            y += [place - 0.42 * size, place + 0.42 * size, None]
    first = axis == ""
    return go.Scatter(x=x, y=y, mode="lines", name="required", legendgroup="required", showlegend=first,
                      line={"color": INK, "width": 2.5, "dash": "dot"}, xaxis=f"x{axis}", yaxis=f"y{axis}",
                      hoverinfo="skip")  # fmt: skip


def _thresholds(row: Row) -> tuple[float, ...]:
    if row["threshold"] is None:
        return ()
    if row["side"] == "within":
        return -row["threshold"], row["threshold"]
    return MIXED if row["side"] == "not in" else (row["threshold"],)


def _span(rows: Sequence[Row]) -> list[float]:
    """From 0 or below to 1 or beyond (of counts and logits: to the largest), everything inside."""
    ends = [
        end for row in rows for end in (row["value"], row["low"], row["high"], *_thresholds(row)) if end is not None
    ]
    unit = rows[0]["unit"]
    least, most = min([0.0, *ends]), max([1.0 if unit in (SCORES, SEEDS, MARGINS) else 0.0, *ends])
    if least == most:
        most = 1.0
    room = 0.04 * (most - least)
    return [least - room, most + room]


def _label(row: Row) -> str:
    """What the row is, its number and n, and what is required for which word, in lines for a narrow page."""
    from interp.plots.style import SAYING, escape

    words = [escape(line) for line in textwrap.wrap(row["words"], LABEL)] or [""]
    if row["decides"]:
        words = [f"<b>▶ {words[0]}</b>", *(f"<b>{line}</b>" for line in words[1:])]
    asked = required(row)
    said = f"{SAYING[row['says']][2]} {row['says']}" if row["says"] else ""
    last = ": ".join(part for part in (asked, said) if part)
    return "<br>".join([*words, escape(numbers_of(row)), *([escape(last)] if last else [])])
