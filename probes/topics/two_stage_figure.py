"""Words and the picture of a two-stage result."""

from typing import TYPE_CHECKING, Any

import numpy as np

from interp.numbers import count, estimate, reasons
from interp.text import fold

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from probes.topics.two_stage import TwoStageResult


def two_stage_summary(result: "TwoStageResult") -> str:
    """The verdict, the boundary, and what stands on its two sides."""
    runs = "1 run" if result.num_runs == 1 else f"{result.num_runs} runs"
    verdict = "two stages" if result.two_stages else "no two stages"
    lines = [f"Training of {runs}, steps {result.steps[0]:g} to {result.steps[-1]:g}: {verdict}"]
    if result.reason is not None:
        lines.append(f"  {result.reason}")
    told = [("runs with two stages", result.share, 2)] if result.num_runs > 1 else []
    if result.two_stages:
        told += [
            ("stage 1 ends at step", result.boundary, 0),
            ("growth of W_V by then", result.value_done, 2),
            ("growth of W_K, W_Q by then", result.attention_done, 2),
        ]
    for name, e in (("stage 1", result.rotation_stage_one), ("stage 2", result.rotation_stage_two)):
        told += [] if e is None else [(f"rotation of W_V, {name}", e, 4)]
    lines += [f"{name:<34}{estimate(e, digits, n=True)}" for name, e, digits in told]
    lines += reasons(e for _, e, _ in told)
    return fold(lines)


def two_stage_figure(result: "TwoStageResult") -> "go.Figure":
    """Norms over steps, a line a run, with the boundary; rotation below where there are snapshots."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import INK, MUTED, PALETTE, finish

    rows: list[tuple[str, Any, Any]] = [
        (f"|{name}|", result.steps, result.norms[name]) for name in ("W_K", "W_Q", "W_V")
    ]
    if result.rotation is not None:
        rows.append(("rotation of W_V", np.array(result.rotation_steps), result.rotation))
    fig = make_subplots(rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=0.04)
    fade = max(0.25, min(1.0, 4 / result.num_runs))
    for at, (name, x, curves) in enumerate(rows, start=1):
        for run, curve in enumerate(curves):
            has = result.runs[run].two_stages
            trace = go.Scatter(
                x=x, y=curve, mode="lines", opacity=fade, showlegend=False,
                name=f"run {run}: {'two stages' if has else 'no two stages'}",
                line={"color": PALETTE[0] if has else MUTED, "width": 1.2, "dash": "solid" if has else "dot"},
            )  # fmt: skip
            fig.add_trace(trace, row=at, col=1)
        if result.num_runs > 1:
            mean = go.Scatter(x=x, y=curves.mean(0), mode="lines", line={"color": INK, "width": 2.2}, showlegend=False)
            fig.add_trace(mean, row=at, col=1)
        fig.update_yaxes(title={"text": name}, rangemode="tozero", row=at, col=1)
    b = result.boundary
    if result.two_stages and b.value is not None:
        fig.add_vline(x=b.value, line={"color": PALETTE[1], "width": 2})
        if b.low is not None and b.high is not None:
            fig.add_vrect(x0=b.low, x1=b.high, fillcolor=PALETTE[1], opacity=0.15, line_width=0)
    fig.update_xaxes(title={"text": "step"}, row=len(rows), col=1)
    many = f" in {b.n} of {result.num_runs} runs" if result.num_runs > 1 else ""
    head = f"stage 1 ends at step {estimate(b, 0, n=True)}{many}" if result.two_stages else "no two stages"
    whose = "1 run" if result.num_runs == 1 else f"{result.num_runs} runs, black: their mean"
    if any(run.two_stages for run in result.runs) and not all(run.two_stages for run in result.runs):
        whose += f"; two stages in {count(result.share)} (drawn whole; dotted: none)"
    note = f"{whose}; {result.reason}" if result.reason is not None else f"{whose}; band: 95 % over {b.over}"
    if b.n < result.num_runs and result.two_stages:
        note += f", of the {b.n} runs that have two stages"
    return finish(fig, f"Two stages of training: {head}", note, width=760, height=70 + 160 * len(rows))
