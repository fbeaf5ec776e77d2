"""Learning curves: measures over training steps."""

from typing import TYPE_CHECKING, Any

from interp.plots.style import INK, MUTED, PALETTE, finish

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_LINES = 100  # seeds that are drawn one by one


def learning_curves(source: Any, measures: Any = None) -> "go.Figure":
    """Measures over training steps, each seed a line, of a population, a checkpoint, or a run under way.

    `source` and `measures` as for `interp.curves.Curves.read`.

        >>> from interp.plots import learning_curves
        >>> figure = learning_curves("recall", ["loss"])
        >>> len(figure.data) > 8  # eight seeds, and their mean
        True

    Raises `RequestError` for a source that measured nothing, and for a measure that it does not have;
    `CheckpointError` for a file that cannot be read.
    """
    from interp.curves import Curves

    return curves_figure(Curves.read(source, measures))


def curves_figure(curves: Any) -> "go.Figure":
    """The figure of `Curves`."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.compact import CompactFigure

    heads = [column.head for column in curves.columns.values()]
    fig = make_subplots(rows=1, cols=len(heads), subplot_titles=heads, horizontal_spacing=0.3 / max(2, len(heads)))
    seeds = curves.seeds
    for i, measure in enumerate(curves.columns, start=1):
        for seed in seeds[:MOST_LINES]:
            steps, values = curves.line(measure, seed)
            thin = {"color": PALETTE[5], "width": 1}
            fig.add_trace(
                go.Scatter(x=steps, y=values, mode="lines", line=thin, name=f"seed {seed}", showlegend=False),
                row=1, col=i,
            )  # fmt: skip
        means = curves.mean(measure)
        fig.add_trace(
            go.Scatter(
                x=list(means), y=[e.value for e in means.values()], mode="lines+markers", showlegend=i == 1,
                line={"color": PALETTE[0], "width": 3}, marker={"size": 5}, name="mean of all seeds",
            ),
            row=1, col=i,
        )  # fmt: skip
        for name, value in (curves.rungs() if measure == "loss" else {}).items():
            fig.add_hline(
                y=value, line={"color": INK, "width": 1, "dash": "dot"}, row=1, col=i,
                annotation={"text": name, "font": {"size": 11, "color": MUTED}},
            )  # fmt: skip
        fig.update_xaxes(title_text="step", row=1, col=i)
    more = f", {MOST_LINES} drawn" if len(seeds) > MOST_LINES else ""
    finish(
        fig,
        f"Learning curves of {curves.name}",
        f"thin: {len(seeds)} seeds{more}; thick: their mean as far as all have come; dotted: simpler predictors",
        width=max(520, 380 * len(heads)),
        height=330,
        legend={"orientation": "h", "y": -0.25, "x": 0},
    )
    return CompactFigure(fig)
