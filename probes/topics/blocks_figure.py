"""Words and the picture of a topic-blocks result."""

from typing import TYPE_CHECKING, Any

import numpy as np

from interp.numbers import ABSENT, Cells, absent, estimate, number, reasons
from interp.stats import Estimate
from interp.text import fold

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from probes.topics.blocks import TopicBlocksResult

TITLES = {
    "value": "W_V from word to logits",
    "embedding": "Gram matrix of W_E",
    "attention": "average attention",
    "given": "the given matrix",
}


def topic_summary(result: "TopicBlocksResult") -> str:
    """A table, a line a number, with what to compare it with."""
    whose = "1 matrix" if result.num_models == 1 else f"{result.num_models} matrices"
    topics = "" if result.num_topics is None else f" of {result.num_topics} topics"
    lines = [f"Topic blocks in {TITLES[result.matrix]}: {whose}, {result.num_words} words{topics}"]
    if result.structure is not None:
        lines.append(f"Structure: {result.structure}")
    told = "" if result.p_value is None else f"topics p = {_p(result.p_value)}, "
    lines.append(f"{told}diagonal p = {_p(result.p_diagonal)} ({result.permutations} permutations)")
    lines.append(f"{'':<22}{'value':<26}{'random':>8}{'permuted':>10}{'untrained':>11}")
    table = (result.contrast, result.contrast_off_diagonal, result.diagonality, result.uniformity, result.ari)
    cells = Cells(table)
    for name, e in (
        ("contrast (R2)", result.contrast),
        ("  off the diagonal", result.contrast_off_diagonal),
        ("diagonality (R2)", result.diagonality),
        ("uniformity", result.uniformity),
        ("topics found (ARI)", result.ari),
    ):
        null = e.null if isinstance(e.null, dict) else {}
        chance = null.get("random", null.get("chance"))
        lines.append(
            f"{name:<22}{cells(e):<26}{number(chance, none=ABSENT):>8}"
            f"{number(null.get('permuted'), none=ABSENT):>10}{number(null.get('untrained'), none=ABSENT):>11}"
        )
    lines.append(f"intervals: {cells.over}")
    ideal = result.contrast.null["diagonal"] if isinstance(result.contrast.null, dict) else None
    if ideal is not None:
        lines.append(f"(a mere diagonal has contrast {number(ideal)}, mere blocks that diagonality)")
    whence = "of the labels" if result.clusters_from == "labels" else "estimated from the matrix"
    plural = "" if result.num_clusters == 1 else "s"
    lines.append(f"found {result.num_clusters} cluster{plural} (number {whence})")
    raw = result.raw_contrast
    if raw.value is not None:
        null = raw.null if isinstance(raw.null, dict) else {}
        aim = "" if null.get("theory") is None else f"; theory {number(null['theory'], None)}"
        off = number(result.raw_contrast_off_diagonal.value, None)
        lines.append(f"same less different topic: {number(raw.value, None)} (off the diagonal {off}){aim}")
    lines += [
        f"distance to {words}: {estimate(far, n=True)}, labels permuted {number(_null(far))}"
        for name, words in (("closed_form", "Thm 2.1.2"), ("family", "the optima"))
        if (far := result.theory.get(name)) is not None
    ]
    if result.relations is not None:
        lines += [f"{f'attention, {name}':<40}{number(e.value, 5)}" for name, e in result.relations.items()]
    lines += [*reasons(table), *absent(lines)]
    lines += [f"note: {note}" for note in result.notes]
    return fold(lines)


def topic_figure(result: "TopicBlocksResult") -> "go.Figure":
    """The matrix (mean over seeds), words sorted by topic, with lines between the topics."""
    import plotly.graph_objects as go

    from interp.plots.style import INK, colorscale, colour_bar, diverging, finish

    labels = np.array(result.labels) if result.labels is not None else result.clusters[0]
    kept = np.flatnonzero(labels >= 0)
    order = kept[np.argsort(labels[kept], kind="stable")]
    shown = result.values[np.ix_(order, order)]
    # One entry may tower over all others; the colours follow the bulk, the hover tells the value.
    low, high = np.quantile(shown, [0.002, 0.998])
    low, high = (low, high) if high > low else (float(shown.min()), float(shown.max()))
    scale = colorscale()
    if low < 0 < high and result.matrix != "attention":  # signed: 0 is paper, whatever the sign of the bulk
        low, high, scale = -max(-low, high), max(-low, high), diverging()
    names = [f"{i} (topic {labels[i]})" for i in order]
    heat = go.Heatmap(
        z=shown, zmin=low, zmax=high if high > low else low + 1, colorscale=scale, colorbar=colour_bar("entry"),
        customdata=np.broadcast_to(np.array(names), shown.shape),
        text=np.broadcast_to(np.array(names)[:, None], shown.shape),
        hovertemplate="%{text} &#8592; %{customdata}<br>%{z:.4g}<extra></extra>",
    )  # fmt: skip
    fig = go.Figure(heat)
    edges = np.flatnonzero(np.diff(labels[order])) + 0.5
    for edge in edges.tolist():
        fig.add_hline(y=edge, line={"color": INK, "width": 0.7})
        fig.add_vline(x=edge, line={"color": INK, "width": 0.7})
    verdict = f": {result.structure}" if result.structure is not None else ""
    whose = "" if result.num_models == 1 else f", mean of {result.num_models} seeds"
    lines = "topics" if result.labels is not None else _found(result.num_clusters)
    cells = Cells((result.contrast, result.diagonality, result.ari))
    told = [f"contrast {cells(result.contrast)}"]
    if result.contrast.value is None:
        told = ["no labels" if result.labels is None else f"no contrast: {result.contrast.reason}"]
    told.append(f"diagonality {cells(result.diagonality)}")
    if result.ari.value is not None:
        told.append(f"ARI {cells(result.ari)}")
    told += [] if result.p_value is None else [f"topics p = {_p(result.p_value)}"]
    told += [f"diagonal p = {_p(result.p_diagonal)}", f"[{cells.over}]"]
    if float(shown.min()) < low or float(shown.max()) > high:
        told.append("entries beyond the scale have its last colour")
    axis = {"showgrid": False, "range": [-0.5, len(order) - 0.5], "constrain": "domain"}
    sides = ("query word", "key word") if result.matrix == "attention" else ("predicted word", "attended word")
    sides = ("word", "word") if result.matrix == "embedding" else sides
    title = f"{TITLES[result.matrix]}{whose}{verdict}"
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


def _null(estimate: Estimate) -> Any:
    return estimate.null["permuted"] if isinstance(estimate.null, dict) else None


def _p(value: float) -> str:
    return number(value, 4 if value < 0.01 else 2)
