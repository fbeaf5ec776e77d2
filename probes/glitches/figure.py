"""The picture of an analysis of glitches."""

from typing import TYPE_CHECKING, Any

import numpy as np

from interp.numbers import significant
from probes.core import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

NULLS = {"untrained": "dashdot", "either bit": "dash", "last 8 tokens": "dot"}


def glitch_figure(result: Any) -> "go.Figure":
    """Errors a read: seeds as points on a logarithmic axis, those without an error below it, nulls as lines."""
    import plotly.graph_objects as go

    from interp.plots.style import INK, PALETTE, finish, rate_axis

    laws = list(result.errors)
    floor = 0.3 / max(result.reads.values())  # where no error is drawn
    fig = go.Figure()
    for at, law in enumerate(laws):
        values = np.array([e.value or 0.0 for e in result.each[law]])
        spots = at + 0.5 * (np.arange(len(values)) + 0.5) / len(values) - 0.25
        for none, name, symbol, colour in (
            (False, "seed", "circle", PALETTE[0]),
            (True, "no error", "circle-open", PALETTE[2]),
        ):
            chosen = (values == 0) == none
            points = go.Scatter(
                x=spots[chosen], y=np.where(values == 0, floor, values)[chosen], mode="markers", name=name,
                marker={"size": 7, "opacity": 0.6, "color": colour, "symbol": symbol}, legendgroup=name,
                showlegend=at == 0, hovertext=[significant(v) for v in values[chosen]], hoverinfo="text",
            )  # fmt: skip
            fig.add_trace(points)
    for at, (null, dash) in enumerate(NULLS.items()):
        found = [e.null.get(null) if isinstance(e.null, dict) else None for e in result.errors.values()]
        if any(value for value in found):
            x = [place for i in range(len(laws)) for place in (i - 0.4, i + 0.4, None)]
            y = [place for v in found for place in (v or None, v or None, None)]
            line = {"color": PALETTE[(1, 3, 4)[at]], "dash": dash, "width": 2}
            fig.add_trace(go.Scatter(x=x, y=y, mode="lines", name=null, line=line, hoverinfo="y+name"))
    mean = go.Scatter(
        x=list(range(len(laws))), y=[e.value or floor for e in result.errors.values()], mode="markers", name="mean",
        marker={"color": INK, "size": 10, "symbol": "diamond"},
        hovertext=[str(e) for e in result.errors.values()], hoverinfo="text",
    )  # fmt: skip
    fig.add_trace(mean)
    told = ", ".join(f"{significant(e.value, 2)} on p_i = {law}" for law, e in result.errors.items())
    names = [f"p_i = {law}{' (training)' if law in result.trained_on else ''}" for law in laws]
    whole = ", ".join(f"{result.reads[law]:,} reads of p_i = {law}" for law in laws)
    return finish(
        fig,
        f"Errors a read, {counted(result.num_models, 'model')}: {told}",
        f"every seed is a point; {whole}; strings of {result.length} tokens. Hollow: no error seen, which bounds the "
        "share and is not zero",
        height=380,
        xaxis={
            "tickvals": list(range(len(laws))),
            "ticktext": names,
            "range": [-0.5, len(laws) - 0.5],
            "showgrid": False,
        },
        yaxis=rate_axis("errors per read", floor),
        legend={"orientation": "h", "y": -0.14, "x": 0},
    )
