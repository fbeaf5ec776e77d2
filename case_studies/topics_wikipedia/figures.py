"""The pictures of `topics-wikipedia`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from case_studies.page import Figure
from case_studies.topics_wikipedia.findings import BERT, Findings
from case_studies.topics_wikipedia.lda import WORDS
from case_studies.topics_wikipedia.measure import Heads
from interp.numbers import UNDEFINED, Cells, number

if TYPE_CHECKING:
    import plotly.graph_objects as go


def ratio_figure(f: Findings) -> Figure:
    """The attention ratio by words per topic, beside its nulls and the thesis's Bert."""
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE, error_bars, finish

    fig = go.Figure()
    lines = [
        ("one topic per word", [f.trained.rows[w, "one"].attention.ratio for w in WORDS], PALETTE[0], "circle"),
        (
            "several topics per word",
            [f.trained.rows[w, "several"].attention.ratio for w in WORDS],
            PALETTE[2],
            "square",
        ),
    ]
    if f.random:
        own = [f.random[0].rows[w, "one"].attention.ratio for w in WORDS]
        lines.append(("randomly initialised, one topic", own, PALETTE[6], "diamond"))
    for place, (name, estimates, colour, symbol) in enumerate(lines):
        values = [e.value for e in estimates]
        fig.add_trace(
            go.Scatter(
                x=[i + 0.08 * (place - 1.5) for i in range(len(WORDS))],
                y=values,
                error_y=error_bars(e.ends for e in estimates),
                mode="markers",
                marker={"size": 10, "color": colour, "symbol": symbol},
                name=name,
            )
        )
    fig.add_trace(
        go.Scatter(
            x=[i + 0.08 * 1.5 for i in range(len(WORDS))],
            y=[BERT["one"][w][2] for w in WORDS],
            mode="markers",
            marker={"size": 11, "color": PALETTE[1], "symbol": "x"},
            name="thesis, Bert, one topic",
        )
    )
    fig.add_hline(y=1, line_dash="dash", line_color=PALETTE[6])
    fig.update_xaxes(title_text="words per topic", tickvals=list(range(len(WORDS))), ticktext=[str(w) for w in WORDS])
    fig.update_yaxes(title_text="attention ratio")
    cells = Cells(lines[0][1])
    known = [e.value for e in lines[0][1] if e.value is not None]
    ends = dict.fromkeys(number(v, 2) for v in (min(known), max(known))) if known else {UNDEFINED: None}
    told = " to ".join(ends)
    finish(
        fig,
        f"Words attend to their own topic {told} times as much as to another",
        f"{WORDS[0]} to {WORDS[-1]} words per topic, one topic per word; dashed: topics do not matter",
        width=860,
        height=360,
    )
    return Figure(
        fig,
        f"Attention averaged over all layers and heads, intervals over articles ({cells.over}). 1: topics do not "
        "matter.",
    )


def head_figure(shown: Sequence[tuple[str, Heads]]) -> "go.Figure":
    """Heatmaps of ratios [layer, head] on one colour scale, logarithmic about 1."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import colour_bar, diverging, escape, finish

    fig = make_subplots(rows=1, cols=len(shown), subplot_titles=[escape(n) for n, _ in shown], horizontal_spacing=0.07)
    finite = [np.where(np.isfinite(h.value) & (h.value > 0), h.value, 1.0) for _, h in shown]
    span = max(0.1, *(float(np.abs(np.log2(v)).max()) for v in finite))
    marks = [m for m in (0.25, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4) if abs(np.log2(m)) <= span]
    for column, ((_, heads), value) in enumerate(zip(shown, finite, strict=True), start=1):
        text = [
            [number(float(v), 2) + ("*" if p <= 0.05 else "") for v, p in zip(*pair, strict=True)]
            for pair in zip(heads.value, heads.p, strict=True)
        ]
        fig.add_trace(
            go.Heatmap(
                z=np.log2(value),
                text=text,
                texttemplate="%{text}",
                textfont={"size": 10},
                colorscale=diverging(),
                zmin=-span,
                zmax=span,
                showscale=column == len(shown),
                colorbar=colour_bar(
                    "same by different topic, ratio",
                    tickvals=[float(np.log2(m)) for m in marks],
                    ticktext=[f"{m:g}\u00a0\u00a0" for m in marks],
                ),
                hovertemplate="layer %{y}, head %{x}: %{text}<extra></extra>",
            ),
            row=1,
            col=column,
        )
        fig.update_xaxes(title_text="head", dtick=1, showline=False, row=1, col=column)
        fig.update_yaxes(dtick=1, autorange="reversed", showline=False, row=1, col=column)
    fig.update_yaxes(title_text="layer", row=1, col=1)
    layers = shown[0][1].value.shape[0]
    first = shown[0][1]
    above = int(((first.value > 1) & (first.p <= 0.05)).sum())
    return finish(
        fig,
        f"{above} of {first.value.size} heads attend more within topics than across",
        "a star: not 1 after Holm's correction; red above 1, blue below",
        width=1180,
        height=90 + 38 * layers,
    )
