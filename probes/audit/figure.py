"""The picture of an audit."""

import textwrap
from collections.abc import Sequence
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
    import plotly.graph_objects as go

    from interp.plots.style import GRID, INK, MUTED, SAYING, finish

    panels = [(unit, [r for r in evidence if r["unit"] == unit]) for unit in PANELS]
    # Counts that suffice are told in words.
    panels = [(unit, rows) for unit, rows in panels if rows and (unit != COUNTS or any(r["decides"] for r in rows))]
    sizes = [[LINE * _label(row).count("<br>") + LINE + GAP for row in rows] for _, rows in panels]
    height = sum(map(sum, sizes)) + (TOP + BOTTOM) * len(panels)
    fig, top, named = go.Figure(), height, set()
    layout: dict[str, Any] = {}
    for at, ((unit, rows), size) in enumerate(zip(panels, sizes, strict=True), start=1):
        top -= TOP
        axis, domain = "" if at == 1 else str(at), [(top - sum(size)) / height, top / height]
        middle = [sum(size[:i]) + size[i] / 2 for i in range(len(rows))]
        for says, (colour, symbol, _) in SAYING.items():
            mine = [i for i, row in enumerate(rows) if (row["says"] or "nothing") == says and row["value"] is not None]
            if mine:
                fig.add_trace(_marks([rows[i] for i in mine], [middle[i] for i in mine], colour, symbol, axis))
                fig.data[-1].update(name=WORDS[says], legendgroup=says, showlegend=says not in named)
                named.add(says)
        fig.add_trace(_required(rows, middle, size, axis))
        for i in [i for i, row in enumerate(rows) if row["decides"]]:
            edges = {"y0": middle[i] - size[i] / 2 + 2, "y1": middle[i] + size[i] / 2 - 2, "yref": f"y{axis}"}
            fig.add_shape(type="rect", x0=0, x1=1, xref="paper", **edges, line={"width": 1, "color": INK},
                          fillcolor=FRAME, layer="below")  # fmt: skip
            if rows[i]["value"] is None:
                fig.add_annotation(text="no number: see the reason", x=0.5, xref="paper", y=middle[i], yref=f"y{axis}",
                                   showarrow=False, font={"size": 12, "color": INK})  # fmt: skip
        title, unit_words = PANELS[unit]
        title += " (means over seeds)" if unit != SEEDS and num_models > 1 else ""
        fig.add_annotation(text=f"<b>{title}</b>", x=0, xref="paper", xanchor="left", y=top / height, yref="paper",
                           yanchor="bottom", yshift=3, showarrow=False, font={"size": 13})  # fmt: skip
        layout[f"yaxis{axis}"] = {
            "domain": domain, "range": [sum(size), 0], "tickvals": middle, "ticktext": [_label(row) for row in rows],
            "tickfont": {"size": 12}, "showgrid": False, "anchor": f"x{axis}", "ticks": "",
        }  # fmt: skip
        layout[f"xaxis{axis}"] = {
            "anchor": f"y{axis}", "title": {"text": unit_words, "standoff": 4}, "gridcolor": GRID, "zeroline": True,
            "zerolinecolor": MUTED, "range": _span(rows), "nticks": 6,
        }  # fmt: skip
        top -= sum(size) + BOTTOM
    if any(row["decides"] for row in evidence):
        frame = {"color": FRAME, "line": {"color": INK, "width": 1}}
        fig.add_trace(go.Bar(x=[None], y=[None], name="▶ framed: the verdict rests on it", marker=frame))
    counts = "; ".join(f"{r['words']}: {numbers_of(r)}" for r in evidence if r["unit"] == COUNTS)
    return finish(
        fig,
        f"{verdict.capitalize()}: {claim}",
        f"Pattern {pattern}, use {use}. {reason} ({over}{f'; {counts}' if counts else ''}. {SCORED}.)",
        width=None,
        height=height + 70,
        margin={"l": 20, "b": 70},
        legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "xref": "container"},
        **layout,
    )


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
