"""The picture of a lottery-ticket result."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interp.numbers import estimate, number, power, size
from interp.stats import Estimate
from probes.lottery.measures import Control, Level

if TYPE_CHECKING:
    import plotly.graph_objects as go

POOR = 0.1  # relative error beyond which a warning stands in the summary
DIFFERENT = "NOT the same function: take more candidates, or larger weights in the target"


def poor(relative_error_max: Estimate) -> bool:
    """Whether the pruned network is too far from its target to be called the same function."""
    return (relative_error_max.value or 0.0) > POOR


def lottery_figure(
    levels: Sequence[Level],
    *,
    decay: float | None,
    accuracy: Mapping[str, Mapping[str, float | None]],
    reference: Control | None,
    controls: Mapping[str, Control],
    working: Sequence[int],
    relative_error_max: Estimate,
    accuracy_gap: Estimate,
    d_model: int,
    d_mlp: int,
) -> "go.Figure":
    """Left: errors against candidates an entry. Right: closing accuracy beside other masks; see `LotteryResult`."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import MUTED, PALETTE, PAPER, finish

    fig = make_subplots(
        rows=1, cols=2, column_widths=[0.58, 0.42], horizontal_spacing=0.24,
        subplot_titles=["Error against candidates per entry", "Closing accuracy of masks of one density"],
    )  # fmt: skip
    n = [level.candidates for level in levels]
    lines = [
        ("one entry, absolute, theory (median)", [x.theory for x in levels], MUTED, "dot"),
        ("one entry, absolute, median", [x.entry_median for x in levels], PALETTE[0], "solid"),
        ("one entry, absolute, largest", [x.entry_max for x in levels], PALETTE[5], "solid"),
        ("end to end, largest, relative", [x.worst for x in levels], PALETTE[1], "solid"),
        (
            "the same in float32",
            [max(x.relative_float32.values()) for x in levels],
            PALETTE[4],
            "dash",
        ),
    ]
    for name, y, colour, dash in lines:
        marker = {"color": colour, "size": 8}
        mode = "lines" if dash == "dot" else "lines+markers"
        line: dict[str, Any] = {"color": colour, "dash": dash}
        fig.add_trace(go.Scatter(x=n, y=y, name=name, mode=mode, line=line, marker=marker), 1, 1)
    if decay is not None:
        middle = sum(n) / len(n), sum(math.log10(x.worst) for x in levels) / len(n)
        fitted = [10 ** (middle[1] + decay * (x - middle[0])) for x in n]
        line = {"color": PALETTE[1], "dash": "dot", "width": 1.5}
        words = f"fit: a factor {number(10**-decay, 2)} a candidate"
        fig.add_trace(go.Scatter(x=n, y=fitted, name=words, mode="lines", line=line), 1, 1)
    if accuracy:
        rows = {"target": accuracy["target"]["argmax"], "pruned network": accuracy["pruned"]["argmax"]}
        rows |= {name: c.accuracy["argmax"].value for name, c in controls.items()}
        rows["close the token before, else guess"] = accuracy["floor"].get("argmax")
        names = list(rows)[::-1]
        colours = [PALETTE[0] if name in ("target", "pruned network") else PALETTE[6] for name in names]
        values = [rows[name] or 0.0 for name in names]  # a bar of length 0 for what is undefined, and says so
        bars = go.Bar(
            x=values, y=names, orientation="h", marker={"color": colours}, showlegend=False, hoverinfo="x+y",
            text=[number(rows[k]) for k in names], textposition=["inside" if v > 0.2 else "outside" for v in values],
        )  # fmt: skip
        fig.add_trace(bars, 1, 2)
        refits = {**({"pruned network": reference} if reference else {}), **controls}
        refitted = {name: c.refitted.value for name, c in refits.items() if c.refitted.value is not None}
        if refitted:
            marker = {"color": PAPER, "size": 10, "line": {"color": PALETTE[1], "width": 2}}
            points = go.Scatter(
                x=list(refitted.values()), y=list(refitted), mode="markers", marker=marker,
                name="which closing bracket, unembedding refitted", hoverinfo="x+y",
            )  # fmt: skip
            fig.add_trace(points, 1, 2)
    fig.update_xaxes(title_text="candidates n (subsets of n products)", dtick=4, row=1, col=1)
    fig.update_yaxes(title_text="error", type="log", exponentformat="power", dtick=1, row=1, col=1)
    fig.update_xaxes(range=[0, 1.02], title_text="share of closing brackets, argmax", row=1, col=2)
    layers = len(working)
    error = f"largest relative error {power(relative_error_max.value)} ({size(relative_error_max)})"
    note = [f"width {d_model}, MLPs {d_mlp}", "every kept weight is the random one"]
    note.append(f"accuracy gap (target minus pruned, argmax) {estimate(accuracy_gap, 4, n=True)}")
    if missing := [name for name, c in controls.items() if c.refitted.value is None]:
        note.append(f"no refit: {', '.join(missing)}")
    return finish(
        fig,
        f"A {layers}-layer Transformer inside a random one of {4 * layers} layers: {error}"
        + (f". {DIFFERENT}" if poor(relative_error_max) else ""),
        "; ".join(note),
        width=1160,
        height=380,
        legend={"orientation": "h", "y": -0.2, "x": 0},
    )
