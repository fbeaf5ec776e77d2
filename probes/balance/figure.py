"""The picture of a balance result: |S| / P over depths, and predictions against pairs inserted."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interp.numbers import UNDEFINED, Cells, estimate, number

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from interp.stats import Estimate

Array = NDArray[np.float64]


def balance_figure(
    table: Array,
    *,
    by_count: "Mapping[int, Estimate]",
    shift_control: "Mapping[int, Estimate]",
    beta: "Estimate",
    functional: "Estimate",
    norm_on_output: bool,
    num_models: int,
) -> "go.Figure":
    """|S| / P over (d, d') of `table` [d, d', i, j], and total variation by pairs inserted; see `BalanceResult`."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import PALETTE, colorscale, colour_bar, error_bars, finish

    table = table[1:].mean((2, 3)) if table.size else table
    has_table = bool(table.size) and bool(np.isfinite(table).all())
    fig = make_subplots(
        rows=1,
        cols=2 if has_table else 1,
        horizontal_spacing=0.24,
        subplot_titles=(["|S| / P of a matched pair, mean over types"] if has_table else [])
        + ["How far predictions move"],
    )
    if has_table:
        depth = table.shape[1]
        fig.add_trace(
            go.Heatmap(
                z=table,
                x=list(range(1, depth + 1)),
                y=list(range(2, depth + 1)),
                colorscale=colorscale(),
                zmin=0,
                zmax=max(float(table.max()), 1e-9),
                colorbar=colour_bar("|S| / P", x=0.4),
                text=[[number(v, 2) for v in row] for row in table] if depth <= 6 else None,
                texttemplate="%{text}" if depth <= 6 else None,
                xgap=2,
                ygap=2,
                hovertemplate="query at depth %{y}, pair at depth %{x}: %{z:.3f}<extra></extra>",
            ),
            row=1,
            col=1,
        )
        fig.update_xaxes(title_text="depth d' of the pair", dtick=1, row=1, col=1)
        fig.update_yaxes(title_text="depth d of the query's pair", dtick=1, row=1, col=1)
    column = 2 if has_table else 1
    for rows, name, colour in (
        (by_count, "matched pairs put before", PALETTE[0]),
        (shift_control, "positions moved alone", PALETTE[1]),
    ):
        if not rows:
            continue
        values = [e.value for e in rows.values()]
        bars = error_bars(e.ends for e in rows.values())
        fig.add_trace(
            go.Scatter(
                x=list(rows),
                y=values,
                error_y=bars,
                mode="lines+markers",
                name=f"{name} [{Cells(rows.values()).over}]",
                marker_color=colour,
                hovertext=[estimate(e, n=True) for e in rows.values()],
                hoverinfo="x+text",
            ),
            row=1,
            col=column,
        )
    scale = null_of(functional)
    if scale is not None:
        fig.add_hline(
            y=scale, line_dash="dash", line_color=PALETTE[6], annotation_text="unrelated strings", row=1, col=column
        )
    fig.update_xaxes(title_text="balanced pairs put before the string", row=1, col=column)
    fig.update_yaxes(title_text="total variation distance", rangemode="tozero", row=1, col=column)
    told = f"β is {UNDEFINED}" if beta.value is None else f"β = {estimate(beta, n=True)}"
    moved = f"1 to D pairs put before a string move predictions by {estimate(functional, n=True)}"
    title = f"Balance violation: {told}; {moved}"
    if not norm_on_output:
        little = "" if beta.value is None else ", which without a norm on the attention output says little"
        title = f"Balance violation: {moved}; {told}{little}"
    whose = "one model" if num_models == 1 else f"mean over {num_models} seeds"
    why = "" if beta.value is not None else f"; β is {UNDEFINED}: {beta.reason}"
    return finish(
        fig,
        title,
        f"{whose}, 95 % intervals; |S| / P: what a matched pair leaves, over what decides a closing bracket (eqs "
        f"31-33); 0: pairs cancel{why}",
        width=980,
        height=350,
        legend={"orientation": "h", "y": -0.25},
    )


def null_of(e: "Estimate") -> float | None:
    """The null of an estimate that has one number for it."""
    return e.null if isinstance(e.null, float) else None
