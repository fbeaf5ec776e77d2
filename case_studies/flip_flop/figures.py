"""Pictures of `flip-flop`: every seed by its errors on sparse and dense strings, and heads on one string."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from case_studies.flip_flop.measure import DENSE, SPARSE, Measured
from case_studies.page import Figure
from interp.plots import attention_heatmap
from interp.plots.style import PALETTE, finish, rate_axis
from interp.registry import world_of

SYMBOLS = ("circle", "x", "diamond", "square", "triangle-up", "cross", "star")


def errors_figure(measured: Sequence[Measured]) -> Figure:
    """Errors on dense against errors on sparse strings, a point a seed (as Fig. 3.25).

    A seed without an error is drawn below what its own reads can show, at 0.3 errors among them.
    """
    import plotly.graph_objects as go

    fig = go.Figure()
    for at, m in enumerate(measured):
        floors = [0.3 / m.glitches.reads[law] for law in (DENSE, SPARSE)]
        x, y = (np.maximum(m.errors(law), floor) for law, floor in zip((DENSE, SPARSE), floors, strict=True))
        shift = 1 + 0.03 * (np.arange(len(x)) % 7 - 3)  # seeds without an error would lie on one point
        points = go.Scatter(
            x=x * np.where(x == floors[0], shift, 1),
            y=y * np.where(y == floors[1], shift, 1),
            mode="markers",
            name=m.arm.family.name,
            marker={
                "size": 7,
                "opacity": 0.6,
                "color": PALETTE[at % len(PALETTE)],
                "symbol": SYMBOLS[(at + at // len(PALETTE)) % len(SYMBOLS)],
            },
        )
        fig.add_trace(points)
    finish(
        fig,
        "Errors per read beyond training's law, every seed a point",
        "dense: p_i = 0.1, sparse: p_i = 0.98; no error in n reads is drawn at 0.3 / n, n being the models' own",
        height=460,
        width=900,
        xaxis=_axis("errors per read, dense strings", measured, DENSE),
        yaxis=_axis("errors per read, sparse strings", measured, SPARSE),
        legend={"orientation": "v", "x": 1.02, "y": 1},
    )
    return Figure(fig, "Each point is a model: its errors on dense strings, and its errors on sparse ones.")


def _axis(title: str, measured: Sequence[Measured], law: str) -> dict[str, Any]:
    """The axis of a law, with a tick where each number of reads has its seeds without an error."""
    reads = sorted({m.glitches.reads[law] for m in measured}, reverse=True)
    axis = rate_axis(title, 0.3 / reads[0])
    ticks = [(value, text) for value, text in zip(axis["tickvals"], axis["ticktext"], strict=True) if text != "none"]
    ticks = [(0.3 / n, f"none in {n:,}") for n in reads] + [tick for tick in ticks if tick[0] > 0.6 / reads[-1]]
    return {**axis, "tickvals": [value for value, _ in ticks], "ticktext": [text for _, text in ticks]}


def heatmaps(m: Measured) -> Figure:
    """The seeds' last layer on the string that is usually shown, the true last write boxed."""
    world: Any = world_of(m.population.grammar)
    grammar: Any = m.population.grammar
    text = world.sentence(grammar) or grammar.format(grammar.draw(np.random.default_rng(0), 1)[0])
    fig = attention_heatmap(m.population, text, layer=-1, population="mean", overlay="last_write")
    return Figure(fig, f"{m.arm.family.name}: mean attention of the last layer; boxed is the last write.")
