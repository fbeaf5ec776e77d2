"""Figures of `real-heads`: two heads of the same look, score against cost, and what every head costs."""

from typing import TYPE_CHECKING

import numpy as np

from case_studies.page import Figure
from case_studies.real_heads.findings import NOTHING, Costs, Findings
from case_studies.real_heads.pair import LEAST
from interp.numbers import estimate, number
from interp.plots import attention_heatmap
from interp.plots.style import PALETTE, colorscale, colour_bar, escape, finish
from probes.claims import heads_text

if TYPE_CHECKING:
    import plotly.graph_objects as go


def pair_figure(f: Findings) -> Figure:
    """Both heads of the pair on a sentence that comes twice, with score and cost of each."""
    heads = f.pair.heads if f.pair else ((0, 0), (0, 1))
    labels = []
    for head in heads:
        cost = f.cost(head)
        told = "" if cost is None else f", costs {number(cost.value, 2)} nats"
        labels.append(f"{heads_text([head])}: score {number(f.score(head).value, 2)}{told}")
    figure = attention_heatmap(
        f.picture.patterns,
        list(f.picture.tokens),
        population="grid",
        seed_labels=labels,
        title="Two heads of the same look" if f.pair else "No two heads of the same look",
    )
    caption = (
        f"Attention of {_and([heads_text([head]) for head in heads])} of {f.decoder.name} on a sentence that comes "
        "twice. Scores: of “the previous token”, on repeated random tokens; costs: nats by which the loss of the "
        f"second copy grows when all that the head gives is replaced by its mean. {_intervals(f)}"
    )
    return Figure(figure, caption)


def _intervals(f: Findings) -> str:
    if f.pair is None:
        return "The rule found no pair; these are the first two heads."
    told = [
        f"{heads_text([head])}: score {estimate(f.score(head), 2, n=True)}, cost {estimate(f.cost(head), 2, n=True)}"
        for head in f.pair.heads
    ]
    return "; ".join(told) + "."


def scatter(f: Findings) -> Figure | None:
    """Score against cost on half B, a point a head, for both relations of the circuit."""
    import plotly.graph_objects as go

    costs = f.every.get("repetition", f.costs["repetition"])
    figure = go.Figure()
    for colour, relation in zip(PALETTE, f.scores, strict=False):
        means = np.nanmean(f.scores[relation], -1)
        shown = list(costs.heads)
        figure.add_trace(
            go.Scatter(
                x=[float(means[head]) for head in shown],
                y=[float(costs.more[i].mean()) for i in range(len(shown))],
                mode="markers",
                name=relation,
                marker={"color": colour, "size": 7},
                customdata=[heads_text([head]) for head in shown],
                hovertemplate="%{customdata}: score %{x:.2f}, cost %{y:.3f} nats<extra></extra>",
            )
        )
    figure.add_vline(x=LEAST, line={"dash": "dot", "width": 1})
    finish(
        figure,
        "What heads look like, and what they cost",
        "a point a head and relation",
        xaxis={"title": "claim score of the relation"},
        yaxis={"title": "nats lost without the head"},
        height=420,
    )
    what = "every head" if costs.every else "heads of a high score"
    return Figure(
        figure,
        f"Repetitions, half B ({len(costs.inputs.tokens)} inputs): {what}. Dotted: from there on a head looks like the "
        "relation.",
    )


def cost_map(f: Findings, costs: Costs) -> "go.Figure":
    """What each head costs, a row per layer."""
    import plotly.graph_objects as go

    layers, heads = (max(head[i] for head in costs.heads) + 1 for i in (0, 1))
    grid = np.full((layers, heads), np.nan)
    for head, row in zip(costs.heads, costs.more, strict=True):
        grid[head] = row.mean()
    most = float(np.nanmax(np.abs(grid)))
    # A square root, so that a head of .1 nats shows beside one of several.
    shade = np.sqrt(np.clip(grid, 0, None))
    ticks = [most * share for share in (0.01, 0.1, 0.3, 0.6, 1.0)]
    figure = go.Figure(
        go.Heatmap(
            z=[[None if np.isnan(v) else float(v) for v in row] for row in shade.T],
            x=list(range(layers)),
            y=list(range(heads)),
            customdata=[[f"{heads_text([(i, j)])}: {number(float(grid[i, j]), 3)} nats" for i in range(layers)]
                for j in range(heads)],
            hovertemplate="%{customdata}<extra></extra>",
            zmin=0,
            zmax=float(np.sqrt(most)),
            colorscale=colorscale(),
            colorbar=colour_bar("nats", tickvals=[float(np.sqrt(t)) for t in ticks],
                                ticktext=[number(t, 2) for t in ticks]),
            xgap=1,
            ygap=1,
        )
    )  # fmt: skip
    return finish(
        figure,
        escape(f"Loss without each head, {costs.inputs.name}"),
        f"mean over {len(costs.inputs.tokens)} inputs; square root scale; less than 0 is shown as 0",
        xaxis={"title": "layer", "showgrid": False},
        yaxis={"title": "head", "autorange": "reversed", "showgrid": False},
        height=330,
    )


def cost_caption(costs: Costs) -> str:
    """What the map shows."""
    return (
        f"{costs.inputs.words[:1].upper()}{costs.inputs.words[1:]}: the first {len(costs.inputs.tokens)}. The output "
        f"of a head is replaced by its mean over the inputs at each position. Below {NOTHING:g} nats it costs nothing."
    )


def _and(names: list[str]) -> str:
    return " and ".join(names)
