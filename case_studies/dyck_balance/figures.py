"""Pictures of `dyck-balance`: a point a model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from case_studies.corrections import Comparison
from case_studies.dyck_balance.comparisons import BETWEEN, WITHIN, change_name, correlation_name
from case_studies.dyck_balance.measure import SHOWN, TRAININGS, Arm, Findings, pair_name
from case_studies.dyck_balance.sentences import KINDS, effect
from case_studies.page import Figure
from interp.numbers import estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go

Found = Mapping[str, Comparison]
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x")
ACROSS, UP = "balance violation β", "accuracy, non-trivial closing brackets at 400-499"


def clouds(f: Findings, data: str) -> Figure:
    """Both arms on one kind of data, a panel per training."""
    from plotly.subplots import make_subplots

    from interp.plots.style import finish

    titles = list(TRAININGS.values())
    fig = make_subplots(1, len(titles), shared_yaxes="all", horizontal_spacing=0.04, subplot_titles=titles)
    for column, training in enumerate(TRAININGS, start=1):
        for i, (arm, name) in enumerate(
            zip(f.pairs[pair_name(training, data)], ("standard", "contrastive"), strict=True)
        ):
            fig.add_trace(_points(arm, i, name, showlegend=column == 1, legendgroup=name), row=1, col=column)
        fig.update_xaxes(title_text=ACROSS, rangemode="tozero", row=1, col=column)
    fig.update_yaxes(title_text=UP, row=1, col=1)
    found, pair = f.compared, pair_name("released", data)
    beta, accuracy = found[change_name(pair, "beta")], found[change_name(pair, SHOWN)]
    inside = "; ".join(
        f"{estimate(found[correlation_name(f'standard, {pair_name(training, data)}', SHOWN)].estimate, 2, n=True)} "
        f"({name})"
        for training, name in TRAININGS.items()
    )
    finish(
        fig,
        f"Trained on {KINDS[data]} as the released code does, the regulariser {effect(beta, 'β')} and "
        f"{effect(accuracy, 'accuracy')}",
        f"a point a seed; rank correlation within the standard arm: {inside}",
        width=1160,
        height=380,
        legend={"x": 1.01, "y": 1},
    )
    caption = (
        f"Trained on {KINDS[data]}, in three ways. Each point is one seed: its balance violation and its accuracy on "
        "non-trivial closing brackets at positions 400-499 (mass rule)."
    )
    return Figure(fig, caption)


def grid_figure(spread: Sequence[Arm], found: Found) -> Figure:
    """Every model of the grid."""
    import plotly.graph_objects as go

    from interp.plots.style import finish

    between, within = (found[correlation_name(where, SHOWN)].estimate for where in (BETWEEN, WITHIN))
    fig = go.Figure([_points(arm, i, arm.family.name) for i, arm in enumerate(spread)])
    finish(
        fig,
        f"Over the grid β and accuracy have a rank correlation of {estimate(between, 2, n=True)} between cells and of "
        f"{estimate(within, 2, n=True)} within them",
        f"{sum(len(arm.beta) for arm in spread)} models, a colour and shape a cell",
        width=860,
        height=400,
        xaxis={"title": {"text": ACROSS}, "rangemode": "tozero"},
        yaxis={"title": {"text": UP}},
        legend={"x": 1.02, "y": 1},
    )
    return Figure(fig, "Each point is one model of the grid.")


def _points(arm: Arm, i: int, name: str, **more: Any) -> "go.Scatter":
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE

    symbol = SYMBOLS[i // len(PALETTE) % len(SYMBOLS)]
    return go.Scatter(
        x=arm.beta.tolist(),
        y=arm.accuracy[SHOWN].tolist(),
        mode="markers",
        name=name,
        marker={"color": PALETTE[i % len(PALETTE)], "symbol": symbol, "size": 8, "opacity": 0.75},
        hovertemplate="β %{x:.3f}, accuracy %{y:.3f}",
        **more,
    )
