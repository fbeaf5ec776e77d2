"""Figures of `markov-landscape`: where every model ends, how it got there, and the portraits."""

from collections.abc import Sequence

import numpy as np

from case_studies.markov_landscape.arms import CHAIN
from case_studies.markov_landscape.measure import HALF, Measured, canonical_w
from case_studies.markov_landscape.points import Case
from case_studies.page import Figure
from interp.numbers import number
from interp.worlds.binary_chain.flow import IN_WEIGHTS, CanonicalFlow
from interp.worlds.binary_chain.portrait import REACH, phase_portrait

COLUMNS = 3


def ends(measured: Sequence[Measured]) -> Figure:
    """Every model's loss after training, between the kernel's and the unigram's."""
    import plotly.graph_objects as go

    from interp.plots.style import MUTED, PALETTE, finish

    fig = go.Figure()
    for m in reversed(measured):
        final, seeds = m.way[:, -1], m.population.seeds
        jitter = np.linspace(-0.28, 0.28, len(seeds))
        row = len(fig.data)
        fig.add_trace(
            go.Scatter(
                x=final,
                y=row + jitter,
                mode="markers",
                name=m.name,
                text=[f"{m.name}, seed {seed}" for seed in seeds],
                hovertemplate="%{text}: %{x:.3f}<extra></extra>",
                marker={"size": 7, "opacity": 0.7, "color": np.where(m.stuck, PALETTE[1], PALETTE[2]).tolist()},
                showlegend=False,
            )
        )
    fig.add_vline(x=HALF, line_dash="dash", line_color=MUTED, line_width=1)
    fig.update_yaxes(
        tickmode="array", tickvals=list(range(len(measured))), ticktext=[m.name for m in reversed(measured)]
    )
    fig.update_xaxes(title_text="loss above the kernel's, as a share of the unigram's (0: kernel, 1: unigram)")
    stuck, every = sum(int(m.stuck.sum()) for m in measured), sum(len(m.stuck) for m in measured)
    drawn = finish(
        fig,
        f"{stuck} of {every} models end nearer to the unigram than to the kernel",
        "each point a model; vermilion: stuck, green: learned",
        height=60 + 34 * len(measured),
        width=1000,
    )
    return Figure(
        drawn,
        "Each point is a model after its last step, on held-out strings. Left of the dashed line it counts as learned.",
    )


def ways(measured: Sequence[Measured]) -> Figure:
    """Loss over steps, a panel per arm, a line per seed."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import PALETTE, finish, label_last_rows

    rows = -(-len(measured) // COLUMNS)
    fig = make_subplots(
        rows=rows,
        cols=COLUMNS,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[m.name for m in measured],
        vertical_spacing=0.32 / rows,
        horizontal_spacing=0.04,
    )
    for i, m in enumerate(measured):
        for seed, row, stuck in zip(m.population.seeds, m.way, m.stuck, strict=True):
            line = {"color": PALETTE[1] if stuck else PALETTE[2], "width": 1}
            trace = go.Scatter(
                x=m.steps,
                y=row,
                mode="lines",
                line=line,
                opacity=0.6,
                name=f"seed {seed}",
                showlegend=False,
                hovertemplate=f"seed {seed}, step %{{x}}: %{{y:.3f}}<extra></extra>",
            )
            fig.add_trace(trace, row=i // COLUMNS + 1, col=i % COLUMNS + 1)
    fig.update_yaxes(range=[-0.1, 1.7])
    label_last_rows(fig, len(measured), COLUMNS, "step")
    fig.update_yaxes(title_text="loss", col=1)
    drawn = finish(
        fig,
        "Plateaus at the unigram, and who leaves them",
        "loss above the kernel's as a share of the unigram's; a line per seed",
        height=190 * rows,
        width=1100,
    )
    return Figure(drawn, "0 is the kernel's loss, 1 the unigram's, both on the strings that are evaluated.")


def portrait(kernel: tuple[float, float], found: Sequence[Case]) -> Figure:
    """The plane of the canonical model with the ways of its cases."""
    paths = [one.path for one in found if (one.p, one.q) == kernel]
    return Figure(
        phase_portrait(CanonicalFlow(*kernel), paths),
        f"The canonical model at p = {number(kernel[0], 2)}, q = {number(kernel[1], 2)}, the attention scalar 0; pink: "
        "integrated gradient flow from five starts (open circles).",
    )


def trained_portrait(measured: Sequence[Measured]) -> Figure:
    """Ways of trained models on the portrait: norm of e, and the w that gives their gap."""
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE

    fig: go.Figure = phase_portrait(CanonicalFlow(*CHAIN, IN_WEIGHTS))
    colours = (PALETTE[0], PALETTE[3], PALETTE[5], PALETTE[4], PALETTE[6])
    shown = [m for m in measured if m.arm.kernel == CHAIN and m.arm.family.preset == "binary-chain"]
    shown = [m for m in shown if m.arm.said is not None][: len(colours)]
    for m, colour in zip(shown, colours, strict=False):
        x, y = [], []
        for i in range(len(m.population)):
            scale = np.array([m.path[step][0][i] for step in sorted(m.path)])
            gap = np.array([m.path[step][1][i] for step in sorted(m.path)])
            w = np.clip(canonical_w(scale, gap), -REACH, REACH)
            inside = scale > 1e-2  # below, the quotient of two numbers near 0 says nothing
            x += [*np.where(inside, w, np.nan), np.nan]
            y += [*np.where(inside, scale, np.nan), np.nan]
        trace = go.Scatter(
            x=x,
            y=y,
            mode="lines+markers",
            name=m.name,
            line={"color": colour, "width": 1},
            marker={"size": 4},
            opacity=0.8,
            hovertemplate=f"{m.name}<br>w %{{x:.2f}}, e %{{y:.2f}}<extra></extra>",
        )
        fig.add_trace(trace)
    # Wide enough for two columns of long names, which plotly lays out one below the other otherwise.
    fig.update_layout(
        title={"text": "Trained models on the portrait of the canonical one"}, width=900, height=fig.layout.height + 60
    )
    return Figure(
        fig,
        "Each line is a model from its first to its last kept weights: e is the norm of its embedding difference, w "
        "the number that gives its gap between mean log-odds. Drawn where e is above 0.01, and w is cut to the "
        "picture. The boundary is that of weights that are trained themselves, where e moves at 16 times its pace.",
    )
