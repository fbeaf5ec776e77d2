"""The picture of a scan."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interp.errors import RequestError
from interp.numbers import estimate, number
from probes.audit.fits import Fit, LayerShare, ScannedHead
from probes.audit.words import shortened
from probes.claims import heads_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

TITLES = {"mass": "weight on", "even": "evenly over"}
LINE, GAP = 24, 46  # pixels: of a row, and between two panels


def scan_figure(
    fits: Sequence[Fit], heads: Sequence[ScannedHead], layers: Sequence[LayerShare], num_models: int, over: str
) -> "go.Figure":
    """Of one model, scores by relation and head, a panel a kind; of several, shares of seeds by relation and layer."""
    from interp.plots.style import VERDICTS, finish

    if not fits:
        raise RequestError("a scan without relations has no picture")
    panels = _shares(heads, layers) if num_models > 1 else _scores(fits, heads)
    held = sum(fit.pattern == "holds" for fit in fits)
    signs = {word: VERDICTS[verdict][1] for word, verdict in WORDS.items()}
    if num_models > 1:
        title = f"Every head against every relation, in {num_models} models"
        note = "Colour: share of seeds whose best head of the layer has the relation; the interval is in the hover; "
    else:
        title = f"Every head against every relation: {held} of the best relations hold"
        note = (
            f"{', '.join(f'{sign} {word}' for word, sign in signs.items())}; no sign: not asked. Colour: "
            "claim score over every query to which the relation applies, or share of the margin that a whole-head "
            "interchange moves. Numbers and reasons are in the hover; "
        )
    fig = _drawn(panels)
    rows = sum(len(panel["names"]) for panel in panels)
    columns = len(panels[0]["columns"])
    return finish(
        fig, title, note + over,
        width=max(860, 460 + (40 if columns <= 40 else 16) * columns),
        height=90 + LINE * rows + GAP * (len(panels) - 1),
        margin={"l": 360},
    )  # fmt: skip


WORDS = {"holds": "supported", "undecided": "undecided", "fails": "refuted"}  # signs as of verdicts


def _scores(fits: Sequence[Fit], scanned: Sequence[ScannedHead]) -> list[dict[str, Any]]:
    """A panel a kind of score, and one of what heads matter: cells [row][head] of value, sign and hover."""
    from interp.plots.style import VERDICTS

    heads = [(one.layer, one.head) for one in scanned]
    columns = [heads_text([head]) for head in heads]
    place = {head: i for i, head in enumerate(heads)}
    out = []
    for kind, title in TITLES.items():
        names = list(dict.fromkeys((fit.relation, fit.words) for fit in fits if fit.kind == kind))
        if not names:
            continue
        panel = _panel(title, [words for _, words in names], columns)
        row_of = {name: i for i, (name, _) in enumerate(names)}
        for fit in (fit for fit in fits if fit.kind == kind):
            row, column = row_of[fit.relation], place[fit.layer, fit.head]
            value = fit.score.value
            panel["values"][row][column] = None if value is None else max(value, 0.0)
            panel["marks"][row][column] = "" if fit.pattern is None else VERDICTS[WORDS[fit.pattern]][1]
            said = [f"{columns[column]}, {title} {fit.words}", f"claim score {estimate(fit.score, 2, n=True)}"]
            if fit.top1 is not None:
                said.append(f"largest weight there in {estimate(fit.top1, 2, n=True)} of the rows")
            if fit.p_value is not None:
                said.append(f"p against keys alike {number(fit.p_value, None)}")
            panel["told"][row][column] = _hover([*said, *([f"{fit.pattern}: {fit.reason}"] if fit.pattern else [])])
        out.append(panel)
    if any(one.matters is not None for one in scanned):
        panel = _panel("matters", ["share of the margin that it moves"], columns)
        for column, one in enumerate(scanned):
            if one.matters is None or one.matters.share.value is None:
                continue
            panel["values"][0][column] = min(abs(one.matters.share.value), 1.0)
            panel["marks"][0][column] = {"used": "used", "not moved": "0", "open": "?"}[one.matters.word]
            said = [
                f"{moved.kind} {estimate(moved.share, 2, n=True)} {moved.why}".strip() for moved in one.matters.kinds
            ]
            panel["told"][0][column] = _hover([f"{columns[column]}: {one.matters.word}", *said])
        out.append(panel)
    return out


def _shares(heads: Sequence[ScannedHead], shares: Sequence[LayerShare]) -> list[dict[str, Any]]:
    """A panel a kind: cells [relation][layer] of the share of seeds; 0 where no seed has it."""
    layers = sorted({one.layer for one in heads})
    out = []
    for kind, title in TITLES.items():
        rows = [one for one in shares if one.kind == kind]
        names = list(dict.fromkeys((one.relation, one.words) for one in rows))
        if not names:
            continue
        panel = _panel(title, [words for _, words in names], [f"layer {layer}" for layer in layers])
        row_of = {name: i for i, (name, _) in enumerate(names)}
        for one in rows:
            row, column = row_of[one.relation], layers.index(one.layer)
            panel["values"][row][column] = one.share.value
            panel["marks"][row][column] = number(one.share.value, 2)
            used = [] if one.used is None else [f"has it and is used: {estimate(one.used, 2, n=True)} of seeds"]
            said = f"layer {one.layer}, {title} {one.words}: {estimate(one.share, 2, n=True)} of seeds"
            panel["told"][row][column] = _hover([said, *used])
        out.append(panel)
    return out or [_panel("weight on", ["no relation is had by any seed"], [f"layer {layer}" for layer in layers])]


def _panel(title: str, names: list[str], columns: list[str]) -> dict[str, Any]:
    def cells(of: Any) -> list[list[Any]]:
        return [[of] * len(columns) for _ in names]

    return {
        "title": title, "names": names, "columns": columns,
        "values": cells(None), "marks": cells(""), "told": cells(""),
    }  # fmt: skip


def _drawn(panels: list[dict[str, Any]]) -> "go.Figure":
    """One above the other, each with an axis of relations of its own and all with the same columns."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import colorscale, colour_bar, escape

    sizes = [LINE * len(panel["names"]) for panel in panels]
    spacing = GAP / (sum(sizes) + GAP * (len(panels) - 1)) if len(panels) > 1 else 0
    fig = make_subplots(
        rows=len(panels), cols=1, row_heights=sizes, vertical_spacing=spacing, shared_xaxes=True,
        subplot_titles=[panel["title"] for panel in panels],
    )  # fmt: skip
    for row, panel in enumerate(panels, start=1):
        heat = go.Heatmap(
            z=panel["values"], x=panel["columns"], text=panel["marks"], texttemplate="%{text}",
            customdata=panel["told"], hoverongaps=True, zmin=0, zmax=1, colorscale=colorscale(),
            colorbar=colour_bar("score or share"), showscale=row == 1, hovertemplate="%{customdata}<extra></extra>",
            xgap=2, ygap=2,
        )  # fmt: skip
        fig.add_trace(heat, row=row, col=1)
        names = [escape(shortened(name, 50)) for name in panel["names"]]
        fig.update_yaxes(
            autorange="reversed", showgrid=False, tickvals=list(range(len(names))), ticktext=names, row=row, col=1
        )
    return fig


def _hover(said: list[str]) -> str:
    from interp.plots.style import literal

    return "<br>".join(literal(line) for text in said for line in textwrap.wrap(text, 90))
