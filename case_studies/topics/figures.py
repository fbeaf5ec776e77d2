"""Figures of `topics`: matrices with their topics, and loss landscapes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from case_studies.topics.findings import Findings
from case_studies.topics.measure import TAUS, GroupResult
from interp.numbers import number

if TYPE_CHECKING:
    import plotly.graph_objects as go

AXIS = np.logspace(-4, 7, 56)


def panel_figure(g: GroupResult, title: str) -> "go.Figure":
    """Four matrices side by side, each on its own diverging scale."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import diverging, finish

    titles = [f"{arm.family.name}<br>{arm.result.structure}" for arm in g.arms]
    fig = make_subplots(1, len(g.arms), subplot_titles=titles, horizontal_spacing=0.04)
    for i, arm in enumerate(g.arms):
        values = arm.result.values[1:, 1:]
        top = float(np.quantile(np.abs(values), 0.995)) or 1.0
        digits = max(0, 2 - int(np.floor(np.log10(top))))
        heat = go.Heatmap(
            z=np.round(values, digits).astype(np.float32), zmin=-top, zmax=top, colorscale=diverging(), showscale=False,
            hovertemplate="row word %{y}, column word %{x}: %{z:.4g}<extra></extra>",
        )  # fmt: skip
        fig.add_trace(heat, row=1, col=i + 1)
        fig.add_annotation(
            text=f"scale ±{top:.2g}", x=0.5, y=-0.24, xref="x domain" if i == 0 else f"x{i + 1} domain",
            yref="y domain" if i == 0 else f"y{i + 1} domain", showarrow=False, font={"size": 11},
        )  # fmt: skip
    ticks: dict[str, Any] = {"tickvals": list(range(0, 101, 20)), "showgrid": False, "constrain": "domain"}
    fig.update_xaxes(**ticks)
    fig.update_yaxes(**ticks, autorange="reversed", scaleanchor="x")
    for i in range(len(g.arms)):
        fig.update_yaxes(scaleanchor=f"x{i + 1}" if i else "x", row=1, col=i + 1)
    note = f"words sorted by topic; mean of {g.arms[0].result.num_models} seeds; red above 0, blue below"
    return finish(fig, title, note, width=1160, height=300, margin={"b": 70, "l": 40, "r": 10})


def landscape_figure(f: Findings, kind: str) -> "go.Figure":
    """Four landscapes side by side, darker is lower; each on its own scale, stretched near the minimum."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import colorscale, finish

    titles = [f"τ = {tau}" for tau in TAUS]
    fig = make_subplots(1, len(TAUS), subplot_titles=titles, horizontal_spacing=0.05)
    for i, tau in enumerate(TAUS):
        loss = f.landscapes[kind][tau]
        least = float(loss.min())
        rank = np.log10(loss - least + 1e-6 * max(float(np.ptp(loss)), 1e-12))
        heat = go.Contour(
            x=np.log10(AXIS), y=np.log10(AXIS), z=np.round(rank, 3), colorscale=colorscale(), reversescale=True,
            showscale=False, ncontours=14, contours={"coloring": "heatmap"}, line={"width": 0.6, "color": "white"},
            customdata=np.round(loss, 6),
            hovertemplate="β = 10^%{x:.1f}, α = 10^%{y:.1f}: loss %{customdata}<extra></extra>",
        )  # fmt: skip
        fig.add_trace(heat, row=1, col=i + 1)
        best = f.optima[kind][i]
        alpha, beta = (best.gamma, best.gamma) if kind == "block" else (max(best.alpha, AXIS[0]), best.beta)
        mark = {"symbol": "x", "size": 10, "color": "white", "line": {"width": 1, "color": "black"}}
        fig.add_trace(
            go.Scatter(
                x=[np.log10(beta)], y=[np.log10(alpha)], mode="markers", marker=mark, showlegend=False, hoverinfo="skip"
            ),
            row=1,
            col=i + 1,
        )
    fig.update_xaxes(title_text="log₁₀ β", range=[-4, 7])
    fig.update_yaxes(range=[-4, 7])
    fig.update_yaxes(title_text="log₁₀ α", row=1, col=1)
    ends = " and ".join(f"{number(f.optima[kind][i].loss, 4)} (τ = {TAUS[i]})" for i in (0, -1))
    return finish(
        fig,
        f"{kind.capitalize()} W_V: the lowest loss is {ends}",
        "loss over attention to other words of the topic (α) and to the same word (β), in units of other topics'; "
        "darker is lower, each panel on its own scale; x: the optimum",
        width=1160,
        height=300,
        margin={"b": 60, "l": 60, "r": 10},
    )
