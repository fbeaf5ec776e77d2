"""The picture of a topic-blocks result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from interp.numbers import Cells, number
from interp.stats import Estimate
from probes.topics.words import Array, Ints

if TYPE_CHECKING:
    import plotly.graph_objects as go

TITLES = {
    "value": "W_V from word to logits",
    "embedding": "Gram matrix of W_E",
    "attention": "average attention",
    "given": "the given matrix",
}


def topic_figure(
    values: Array,
    *,
    labels: Sequence[int] | None,
    clusters: Ints,
    matrix: str,
    structure: str | None,
    contrast: Estimate,
    diagonality: Estimate,
    ari: Estimate,
    p_value: float | None,
    p_diagonal: float,
    num_models: int,
    num_clusters: int,
) -> "go.Figure":
    """The matrix `values` [word, word], words sorted by topic (or cluster), with lines between these.

    The other arguments are what `TopicBlocksResult` has under these names.
    """
    import plotly.graph_objects as go

    from interp.plots.style import INK, colorscale, colour_bar, diverging, finish

    topic = np.array(labels) if labels is not None else clusters[0]
    kept = np.flatnonzero(topic >= 0)
    order = kept[np.argsort(topic[kept], kind="stable")]
    shown = values[np.ix_(order, order)]
    # One entry may tower over all others; the colours follow the bulk, the hover tells the value.
    low, high = np.quantile(shown, [0.002, 0.998])
    low, high = (low, high) if high > low else (float(shown.min()), float(shown.max()))
    scale = colorscale()
    if low < 0 < high and matrix != "attention":  # signed: 0 is paper, whatever the sign of the bulk
        low, high, scale = -max(-low, high), max(-low, high), diverging()
    names = [f"{i} (topic {topic[i]})" for i in order]
    heat = go.Heatmap(
        z=shown, zmin=low, zmax=high if high > low else low + 1, colorscale=scale, colorbar=colour_bar("entry"),
        customdata=np.broadcast_to(np.array(names), shown.shape),
        text=np.broadcast_to(np.array(names)[:, None], shown.shape),
        hovertemplate="%{text} &#8592; %{customdata}<br>%{z:.4g}<extra></extra>",
    )  # fmt: skip
    fig = go.Figure(heat)
    edges = np.flatnonzero(np.diff(topic[order])) + 0.5
    for edge in edges.tolist():
        fig.add_hline(y=edge, line={"color": INK, "width": 0.7})
        fig.add_vline(x=edge, line={"color": INK, "width": 0.7})
    verdict = f": {structure}" if structure is not None else ""
    whose = "" if num_models == 1 else f", mean of {num_models} seeds"
    lines = "topics" if labels is not None else _found(num_clusters)
    cells = Cells((contrast, diagonality, ari))
    told = [f"contrast {cells(contrast)}"]
    if contrast.value is None:
        told = ["no labels" if labels is None else f"no contrast: {contrast.reason}"]
    told.append(f"diagonality {cells(diagonality)}")
    if ari.value is not None:
        told.append(f"ARI {cells(ari)}")
    told += [] if p_value is None else [f"topics p = {p_text(p_value)}"]
    told += [f"diagonal p = {p_text(p_diagonal)}", f"[{cells.over}]"]
    if float(shown.min()) < low or float(shown.max()) > high:
        told.append("entries beyond the scale have its last colour")
    axis = {"showgrid": False, "range": [-0.5, len(order) - 0.5], "constrain": "domain"}
    sides = ("query word", "key word") if matrix == "attention" else ("predicted word", "attended word")
    sides = ("word", "word") if matrix == "embedding" else sides
    title = f"{TITLES[matrix]}{whose}{verdict}"
    return finish(
        fig,
        title[:1].upper() + title[1:],
        f"{'; '.join(told)}; lines between {lines}",
        width=760,
        height=650,
        xaxis={**axis, "title": {"text": sides[1]}},
        yaxis={**axis, "title": {"text": sides[0]}, "range": [len(order) - 0.5, -0.5], "scaleanchor": "x"},
    )


def _found(clusters: int) -> str:
    return "the only cluster found" if clusters == 1 else f"the {clusters} clusters found"


def p_text(value: float) -> str:
    """A p-value as it is written."""
    return number(value, 4 if value < 0.01 else 2)
