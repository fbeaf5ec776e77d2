"""The picture of an attention-variation result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interp.numbers import Cells, estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from interp.stats import Estimate

Array = NDArray[np.float64]

MOST_POINTS = 2001  # pairs of models that are drawn one by one
BASELINES = {
    "uniform_simplex": "rows uniform on the simplex",
    "sharpness_matched": "as sharp, other keys",
    "untrained": "untrained models",
}


def _thinned(pairs: np.ndarray) -> np.ndarray:
    """What is drawn of all pairs: themselves, or quantiles of very many, which have their median and quartiles."""
    return pairs if len(pairs) <= MOST_POINTS else np.quantile(pairs, np.linspace(0, 1, MOST_POINTS))


def variation_figure(
    variation: "Sequence[Estimate]", pairs: Sequence[Array], *, num_models: int, num_inputs: int, positions: int
) -> "go.Figure":
    """Every pair of models as a point, layer by layer, with the baselines as lines.

    `variation`: an estimate a layer; `pairs`: a layer [S(S-1)/2], what it is the mean of.
    """
    import plotly.graph_objects as go

    from interp.plots.style import INK, PALETTE, error_bars, finish

    fig = go.Figure()
    count = len(variation)
    names = [f"layer {i}" for i in range(count)]
    for i, every in enumerate(pairs):
        box = go.Box(
            y=_thinned(every), x0=i, name=names[i], boxpoints="all", jitter=0.7, pointpos=0, width=0.5,
            marker={"size": 5, "opacity": 0.45, "color": PALETTE[0]},
            line={"width": 1.2, "color": PALETTE[0]},
            fillcolor="rgba(0,114,178,0.08)", hoverinfo="y", showlegend=False,
        )  # fmt: skip
        fig.add_trace(box)
    styles = zip(PALETTE[1:4], ("dash", "dot", "dashdot"), strict=True)
    for (name, words), (colour, dash) in zip(BASELINES.items(), styles, strict=True):
        values = [e.null[name] if isinstance(e.null, dict) else None for e in variation]
        if any(v is not None for v in values):
            x = [at for i in range(count) for at in (i - 0.4, i + 0.4, None)]
            y = [at for v in values for at in (v, v, None)]
            line = {"color": colour, "dash": dash, "width": 2}
            fig.add_trace(go.Scatter(x=x, y=y, mode="lines", name=words, line=line, hoverinfo="y+name"))
    cells = Cells(variation, 2)
    mean = go.Scatter(
        x=list(range(count)), y=[e.value for e in variation],
        error_y=error_bars(e.ends for e in variation), mode="markers",
        marker={"color": INK, "size": 9, "symbol": "diamond"}, name=f"mean over pairs [{cells.over}]",
        hovertext=[estimate(e, n=True) for e in variation], hoverinfo="text",
    )  # fmt: skip
    fig.add_trace(mean)
    told = ", ".join(f"{cells(e)} in layer {i}" for i, e in enumerate(variation))
    known = [(e.value, i) for i, e in enumerate(variation) if e.value is not None]
    if count > 4 and known:
        (_, low), (_, high) = min(known), max(known)
        told = f"{cells(variation[low])} (layer {low}) to {cells(variation[high])} (layer {high})"
    ticks = {"tickvals": list(range(count)), "ticktext": names, "range": [-0.6, count - 0.4]}
    inputs = "1 input" if num_inputs == 1 else f"mean of {num_inputs} inputs"
    count_pairs = len(pairs[0])
    points = "every pair of models is a point"
    if count_pairs > MOST_POINTS:
        points = f"{MOST_POINTS} quantiles of {count_pairs} pairs of models"
    note = f"{points}; {inputs}, N = {positions} positions; [{cells.over}, jackknife]"
    return finish(
        fig,
        f"Attention variation between {num_models} seeds: {told}",
        note,
        width=max(760, 260 + (160 if count <= 6 else 50) * count),
        height=390,
        xaxis={**ticks, "showgrid": False},
        yaxis={"title": {"text": "squared Frobenius distance |A₁ - A₂|²"}, "rangemode": "tozero"},
        legend={"orientation": "h", "y": -0.12, "x": 0},
    )
