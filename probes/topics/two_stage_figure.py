"""The picture of a two-stage result."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from interp.numbers import count, estimate
from interp.stats import Estimate
from probes.core import counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]


def two_stage_figure(
    steps: Array,
    norms: Mapping[str, Array],
    *,
    rotation: Array | None,
    rotation_steps: Sequence[int],
    staged: Sequence[bool],
    two_stages: bool,
    reason: str | None,
    boundary: Estimate,
    share: Estimate,
) -> "go.Figure":
    """Norms [run, step] over steps, a line per run, with the boundary; rotation below where there are snapshots.

    `staged`: whether each run has two stages. The other arguments are what `TwoStageResult` has under these names.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import INK, MUTED, PALETTE, finish

    num_runs = len(staged)
    rows: list[tuple[str, Any, Any]] = [(f"|{name}|", steps, norms[name]) for name in ("W_K", "W_Q", "W_V")]
    if rotation is not None:
        rows.append(("rotation of W_V", np.array(rotation_steps), rotation))
    fig = make_subplots(rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=0.04)
    fade = max(0.25, min(1.0, 4 / num_runs))
    for at, (name, x, curves) in enumerate(rows, start=1):
        for run, curve in enumerate(curves):
            has = staged[run]
            trace = go.Scatter(
                x=x, y=curve, mode="lines", opacity=fade, showlegend=False,
                name=f"run {run}: {'two stages' if has else 'no two stages'}",
                line={"color": PALETTE[0] if has else MUTED, "width": 1.2, "dash": "solid" if has else "dot"},
            )  # fmt: skip
            fig.add_trace(trace, row=at, col=1)
        if num_runs > 1:
            mean = go.Scatter(x=x, y=curves.mean(0), mode="lines", line={"color": INK, "width": 2.2}, showlegend=False)
            fig.add_trace(mean, row=at, col=1)
        fig.update_yaxes(title={"text": name}, rangemode="tozero", row=at, col=1)
    b = boundary
    if two_stages and b.value is not None:
        fig.add_vline(x=b.value, line={"color": PALETTE[1], "width": 2})
        if b.low is not None and b.high is not None:
            fig.add_vrect(x0=b.low, x1=b.high, fillcolor=PALETTE[1], opacity=0.15, line_width=0)
    fig.update_xaxes(title={"text": "step"}, row=len(rows), col=1)
    many = f" in {b.n} of {num_runs} runs" if num_runs > 1 else ""
    head = f"stage 1 ends at step {estimate(b, 0, n=True)}{many}" if two_stages else "no two stages"
    whose = counted(num_runs, "run") + (", black: their mean" if num_runs != 1 else "")
    if any(staged) and not all(staged):
        whose += f"; two stages in {count(share)} (drawn whole; dotted: none)"
    note = f"{whose}; {reason}" if reason is not None else f"{whose}; band: 95 % over {b.over}"
    if b.n < num_runs and two_stages:
        note += f", of the {b.n} runs that have two stages"
    return finish(fig, f"Two stages of training: {head}", note, width=760, height=70 + 160 * len(rows))
