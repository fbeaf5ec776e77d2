"""The picture of a stack-likeness result, and the names it shares with the summary."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from interp.numbers import Cells, estimate, number
from interp.stats import Estimate
from probes.core import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]

NAME = "Stack-likeness (closers)"  # the audit's "claim score" is over other queries
BESIDE, LETTERS = 310, 44  # pixels right of the panel, and characters of a line there
RIVALS = {
    "unmatched": "all unmatched open brackets",
    "same_depth": "all opening brackets at this depth",
    "all_openers": "all opening brackets so far",
    "most_recent_opener": "most recent opening bracket",
    "previous_token": "previous token",
    "start": "START",
}


def null_of(estimate: Estimate) -> dict[str, Any]:
    """The nulls of an estimate by name."""
    assert isinstance(estimate.null, dict)
    return estimate.null


def merged(rivals: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """(words, value), those of equal value in one, from the best down."""
    found: dict[float, list[str]] = {}
    for name, value in rivals.items():
        if value is not None:
            found.setdefault(round(value, 9), []).append(RIVALS[name])
    return [(", ".join(names), value) for value, names in sorted(found.items(), reverse=True)]


def stack_figure(
    score: Sequence[Sequence[Estimate]],
    *,
    rivals: Mapping[str, float | None],
    per_model: Sequence[Array],
    num_models: int,
    num_inputs: int,
    queries: int,
) -> "go.Figure":
    """`score` by layer and head over seeds, `per_model` a layer [models, heads], with rivals and nulls as lines."""
    import plotly.graph_objects as go

    from interp.plots.style import GRID, INK, MUTED, PALETTE, error_bars, finish

    heads = [(layer, head) for layer, row in enumerate(score) for head in range(len(row))]
    estimates = [score[layer][head] for layer, head in heads]
    single_head = max(map(len, score)) == 1
    names = [f"layer {layer}" if single_head else f"{layer}.{head}" for layer, head in heads]
    count = len(heads)
    fig = go.Figure()
    lines = [*merged(rivals), ("every visible key", 0.0)]
    points = [x for layer in per_model for x in layer.ravel()]
    low = min([*points, *(v for _, v in lines), *(e.low for e in estimates if e.low is not None)])
    span = (min(low - 0.06, -0.1), max([1.05, *(e.high + 0.06 for e in estimates if e.high is not None)]))
    named = [wrap(f"{words} {number(value, 2)}", LETTERS, break_long_words=False) for words, value in lines]
    height = 0.047 * (span[1] - span[0])  # of a line
    places = _spaced([value for _, value in lines], [height * len(broken) for broken in named])
    for (_, value), broken, label in zip(lines, named, places, strict=True):
        fig.add_hline(y=value, line={"color": MUTED if value else INK, "width": 1, "dash": "dot" if value else "solid"})
        fig.add_annotation(
            text="<br>".join(broken), x=1, xshift=8, xref="paper", y=label, xanchor="left", yanchor="middle",
            align="left", showarrow=False, font={"size": 11, "color": MUTED if value else INK},
        )  # fmt: skip
    if num_models > 1:
        for at, (layer, head) in enumerate(heads):
            box = go.Box(
                y=per_model[layer][:, head], x0=at, name=names[at], boxpoints="all", jitter=0.7, pointpos=0,
                width=0.5, marker={"size": 5, "opacity": 0.5, "color": PALETTE[0]},
                line={"width": 1.2, "color": PALETTE[0]}, fillcolor="rgba(0,114,178,0.08)", hoverinfo="y",
                showlegend=False,
            )  # fmt: skip
            fig.add_trace(box)
    for name, words, colour, dash in (
        ("permuted", "targets permuted among opening brackets", PALETTE[1], "dash"),
        ("untrained", "untrained models", PALETTE[2], "dashdot"),
    ):
        values = [null_of(e)[name] for e in estimates]
        if any(v is not None for v in values):
            x = [place for i in range(count) for place in (i - 0.4, i + 0.4, None)]
            y = [place for v in values for place in (v, v, None)]
            line = {"color": colour, "dash": dash, "width": 2.5}
            fig.add_trace(go.Scatter(x=x, y=y, mode="lines", name=words, line=line, hoverinfo="y+name"))
    cells = Cells(estimates)
    mean = go.Scatter(
        x=list(range(count)), y=[e.value for e in estimates], error_y=error_bars(e.ends for e in estimates),
        mode="markers", marker={"color": INK, "size": 9, "symbol": "diamond"}, name=f"mean [{cells.over}]",
        hovertext=[estimate(e, n=True) for e in estimates], hoverinfo="text",
    )  # fmt: skip
    fig.add_trace(mean)
    whose = f"{num_models} seeds, each a point" if num_models > 1 else "one model"
    inputs = counted(num_inputs, "input")
    note = f"{whose}; {inputs}, {counted(queries, 'closer')} inside a bracket; [{cells.over}]"
    told = ", ".join(f"{cells(e)} in {name}" for e, name in zip(estimates, names, strict=True))
    known = [(e.value, i) for i, e in enumerate(estimates) if e.value is not None]
    if count > 4 and known:
        best = max(known)[1]
        told = f"at most {cells(estimates[best])} (head {names[best]})"
    ticks = {"tickvals": list(range(count)), "ticktext": names, "range": [-0.6, count - 0.4]}
    return finish(
        fig,
        f"{NAME}, attention to the last unmatched open bracket: {told}",
        f"{note}; dotted, named at the right: a head that attends evenly to these keys",
        width=max(960, 500 + (90 if count <= 12 else 20) * count),
        height=430,
        margin={"r": BESIDE},
        xaxis={**ticks, "showgrid": False, "title": {"text": "" if single_head else "layer.head"}},
        yaxis={
            "title": {"text": "stack-likeness (closers): (m - c) / (1 - c)"},
            "range": list(span),
            "gridcolor": GRID,
        },
        legend={"orientation": "h", "y": -0.16, "x": 0},
    )


def _spaced(values: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places of labels of these heights for lines at `values`, moved apart where they would overlap, order kept."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[list[int]] = []  # labels that touch, centred together on the mean of their lines

    def centre(group: list[int]) -> float:
        return sum(values[i] for i in group) / len(group)

    def height(group: list[int]) -> float:
        return sum(heights[i] for i in group)

    for i in order:
        groups.append([i])
        while len(groups) > 1:
            low, high = groups[-2:]
            if centre(high) - centre(low) >= (height(low) + height(high)) / 2:
                break
            groups[-2:] = [low + high]
    out = [0.0] * len(values)
    for group in groups:
        below = centre(group) - height(group) / 2
        for i in group:
            out[i] = below + heights[i] / 2
            below += heights[i]
    return out
