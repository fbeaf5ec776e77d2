"""Phase portraits of the canonical flow: where gradient flow goes in the plane of w and e, and where it ends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from interp.checks import finite_number, instance_of
from interp.errors import RequestError, quoted
from interp.numbers import number
from interp.plots.style import INK, MUTED, PALETTE, colorscale, colour_bar, finish
from interp.worlds.binary_chain.flow import SADDLE, CanonicalFlow, Path, boundary

if TYPE_CHECKING:
    import plotly.graph_objects as go

REACH = 2.5  # of both axes
ARROWS, FINE, CURVE = 21, 161, 800  # arrows a side, cells a side of the loss, points of a curve
LEARNED, STUCK, WAYS = PALETTE[2], PALETTE[1], PALETTE[3]


def phase_portrait(flow: CanonicalFlow, paths: Sequence[Path] = (), reach: float = REACH) -> "go.Figure":
    """The plane (w, e), each from -`reach` to `reach`, b at its optimum.

    Shading: loss above that of the kernel. Arrows: direction of gradient flow. Green: global minima. The line e = 0:
    unigram points, minima of the plane (solid) or not (dotted). Black: the boundary between the basins. `paths`:
    trajectories, from their open ends. Raises `RequestError` for a reach that shows nothing.
    """
    import plotly.graph_objects as go

    instance_of("flow", flow, CanonicalFlow)
    for path in paths:
        instance_of("paths", path, Path)
    if not 0.8 <= finite_number("reach", reach) <= 10:
        raise RequestError(f"reach={quoted(reach)} is not a number from 0.8 to 10")
    axis = np.linspace(-reach, reach, FINE)
    loss = flow.loss(axis[:, None], axis[None, :]) - flow.chain.entropy_rate
    traces = [
        go.Heatmap(
            x=axis,
            y=axis,
            z=np.minimum(loss, 2 * (flow.chain.unigram_loss - flow.chain.entropy_rate) + 1e-3),
            customdata=loss,
            colorscale=colorscale(0.5, pale=0.55),  # and no opacity, which the bar would not share
            colorbar=colour_bar("loss above the kernel's (nats)"),
            hovertemplate="w %{x:.2f}, e %{y:.2f}<br>%{customdata:.4f} nats above the kernel<extra></extra>",
        ),
        _arrows(flow, reach),
        *_unigram_line(flow, reach),
        *_minima(flow, reach),
        *_boundary(flow, reach),
        *(trace for i, path in enumerate(paths) for trace in _way(path, first=i == 0)),
    ]
    fig = go.Figure(traces)
    for update in (fig.update_xaxes, fig.update_yaxes):
        update(range=[-reach, reach], showgrid=False)
    fig.update_xaxes(title_text="w, scale of the MLP")
    fig.update_yaxes(title_text="e, scale of the embedding")
    return finish(
        fig,
        said(flow),
        f"p = {number(flow.p, 2)}, q = {number(flow.q, 2)}; arrows: gradient flow with b at its optimum"
        + ("" if flow.pace == 1 else f", e at {flow.pace:g} times the pace of w"),
        height=560,
        width=760,
        legend={"orientation": "h", "y": -0.14, "x": 0, "xanchor": "left", "yanchor": "top"},
    )


def said(flow: CanonicalFlow) -> str:
    """What a portrait shows, in a sentence."""
    total = number(flow.p + flow.q, 2)
    if flow.target == 0:
        return f"p + q = {total}: states are independent, and the unigram is the kernel"
    end = flow.basin(0.02, 0.02)
    where = "to a global minimum" if end == "global" else "to unigram points, which are local minima"
    return f"p + q = {total}: from small weights gradient flow goes {where}"


def _arrows(flow: CanonicalFlow, reach: float) -> "go.Scatter":
    """Unit arrows against the gradient, as one broken line with heads."""
    import plotly.graph_objects as go

    axis = np.linspace(-reach, reach, ARROWS + 1)[:-1] + reach / ARROWS
    w, e = np.meshgrid(axis, axis)
    by_e, by_w, _ = flow.gradient(e, w)
    by_e = flow.pace * by_e
    size = np.hypot(by_e, by_w)
    step = 1.3 * reach / ARROWS / np.where(size > 0, size, 1)
    dw, de = -by_w * step, -by_e * step
    x, y = [], []
    for w0, e0, x1, y1 in zip(*(part.ravel() for part in (w - dw / 2, e - de / 2, dw, de)), strict=True):
        tip = (w0 + x1, e0 + y1)
        for side in (1, -1):
            back = (tip[0] - 0.35 * x1 - side * 0.2 * y1, tip[1] - 0.35 * y1 + side * 0.2 * x1)
            x += [*([w0, tip[0]] if side == 1 else [tip[0]]), back[0], None]
            y += [*([e0, tip[1]] if side == 1 else [tip[1]]), back[1], None]
    line = {"color": MUTED, "width": 1}
    return go.Scatter(x=x, y=y, mode="lines", line=line, name="gradient flow", hoverinfo="skip", showlegend=False)


def _unigram_line(flow: CanonicalFlow, reach: float) -> "list[go.Scatter]":
    import plotly.graph_objects as go

    if flow.target == 0:
        return [_curve([-reach, reach], [0, 0], LEARNED, "unigram points: global minima here")]
    parts = [(-reach, SADDLE), (SADDLE, reach)]
    minima, others = parts if flow.target > 0 else parts[::-1]
    saddle = go.Scatter(
        x=[SADDLE],
        y=[0],
        mode="markers",
        name="saddle",
        marker={"color": INK, "symbol": "diamond", "size": 9},
        hovertemplate="saddle: w %{x:.3f}, e 0<extra></extra>",
    )
    return [
        _curve(minima, (0, 0), STUCK, "unigram points: local minima"),
        _curve(others, (0, 0), STUCK, "unigram points: local maxima", dash="dot"),
        saddle,
    ]


def _minima(flow: CanonicalFlow, reach: float) -> "list[go.Scatter]":
    """The hyperbola-like curves e^2 (1 + 2 w |w|) = target."""
    if flow.target == 0:
        return [_curve((SADDLE, SADDLE), (-reach, reach), LEARNED, "global minima")]
    w = np.linspace(SADDLE, reach, CURVE)[1:] if flow.target > 0 else np.linspace(-reach, SADDLE, CURVE)[:-1]
    e = np.sqrt(flow.target / (1 + 2 * w * np.abs(w)))
    return [_both_signs(w, e, reach, LEARNED, "global minima", width=3)]


def _boundary(flow: CanonicalFlow, reach: float) -> "list[go.Scatter]":
    if flow.target == 0:
        return []
    w = np.linspace(-reach, SADDLE, CURVE) if flow.target > 0 else -np.geomspace(-SADDLE, 1e-9, CURVE)
    e = np.sqrt(np.maximum(boundary(w, flow.pace), 0.0))
    return [_both_signs(w, e, reach, INK, "boundary of the basins", width=2)]


def _both_signs(w: np.ndarray, e: np.ndarray, reach: float, colour: str, name: str, width: int) -> "go.Scatter":
    shown = e <= reach
    w, e = w[shown], e[shown]
    return _curve([*w, None, *w], [*e, None, *-e], colour, name, width=width)


def _curve(x: Sequence, y: Sequence, colour: str, name: str, dash: str = "solid", width: int = 3) -> "go.Scatter":
    import plotly.graph_objects as go

    line = {"color": colour, "width": width, "dash": dash}
    return go.Scatter(x=list(x), y=list(y), mode="lines", line=line, name=name, hoverinfo="name")


def _way(path: Path, first: bool) -> "list[go.Scatter]":
    import plotly.graph_objects as go

    line = {"color": WAYS, "width": 2}
    drawn = go.Scatter(
        x=path.w,
        y=path.e,
        mode="lines",
        line=line,
        name="trajectories",
        legendgroup="ways",
        showlegend=first,
        customdata=path.loss,
        hovertemplate="w %{x:.3f}, e %{y:.3f}<br>loss %{customdata:.4f}<extra></extra>",
    )
    begins = go.Scatter(
        x=path.w[:1],
        y=path.e[:1],
        mode="markers",
        legendgroup="ways",
        showlegend=False,
        marker={"color": "white", "size": 8, "line": line},
        hoverinfo="skip",
    )
    return [drawn, begins]
