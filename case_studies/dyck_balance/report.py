"""The page of `dyck-balance`. Every sentence is made from the numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from case_studies.dyck_balance.measure import RULES, SHOWN, WEIGHT, Arm, Findings
from case_studies.dyck_balance.results import to_results
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import estimate, number
from interp.stats import POSITIVE, SHARE, Estimate, mean_over_seeds

if TYPE_CHECKING:
    import plotly.graph_objects as go


def report(f: Findings, command: str) -> Page:
    """The report of the measured arms."""
    results = to_results(f)
    every = [a for both in f.pairs.values() for a in both]
    clouds = {data: cloud(both, data, results) for data, both in f.pairs.items()}
    return Page(
        title="Balance and length generalisation",
        asked=(
            "Does a model that lets matched brackets cancel generalise better to strings 18 times longer than its "
            f"training strings, and does training for balance help? {f.count} seeds an arm."
        ),
        said=[
            "The less matched brackets violate balance, the better a model closes strings of 400-500 brackets (Wen et "
            "al. 2023, 4.2, Fig. 3; on prefixes no relation, Fig. 10).",
            "A contrastive regulariser, which asks that a balanced prefix changes no logit, lowers balance violation "
            "and raises that accuracy.",
        ],
        answer=answers(results),
        sure=(
            f"95 % intervals over {f.count} seeds an arm; differences between arms are paired by seed (same initial "
            "weights, same strings), and rank correlations are within an arm, where 0 is unrelated: pooled, they would "
            "mostly tell the arms apart."
        ),
        lead=clouds["complete"],
        compared=[paper_table(results)],
        sections=[
            Section("Contrastive against standard", [paired_table(results), arm_table(every)]),
            Section("Balance violation and accuracy at length 400-500", [correlation_table(results), clouds["prefix"]]),
            Section(
                "An arm that spreads balance",
                [
                    "Weights of the regulariser and lengths of training on a grid. The pooled correlation mixes cells "
                    "that differ in how long they trained: it says that both move together, not that one moves the "
                    "other.",
                    grid_figure(f.spread, results),
                ],
            ),
        ],
        settings=[settings_table([*every, *f.spread])],
        command=command,
        digests=[(a.family.name, a.digest) for a in [*every, *f.spread]],
    )


def cloud(both: Sequence[Arm], data: str, results: dict[str, Any]) -> Figure:
    """The two arms of one kind of data."""
    what = "complete strings" if data == "complete" else "prefixes"
    inside = ", ".join(
        f"{estimate(Estimate.from_dict(results['arms'][a.family.name]['rank_correlation'][SHOWN]), 2, n=True)} "
        f"({a.family.name})"
        for a in both
    )
    change = results["contrastive_minus_standard"][data]
    figure = scatter(
        both,
        f"Trained on {what}, the regulariser {_moves(Estimate.from_dict(change['beta']))} β and "
        f"{_moves(Estimate.from_dict(change[SHOWN]))} accuracy",
        f"a point a seed; rank correlation within an arm: {inside}",
    )
    caption = (
        "Each point is one seed: its balance violation and its accuracy on non-trivial closers at positions 400-499 "
        "(mass rule)."
    )
    return Figure(figure, caption)


def grid_figure(spread: Sequence[Arm], results: dict[str, Any]) -> Figure:
    """Every model of the grid."""
    pooled = Estimate.from_dict(results["spread"]["rank_correlation"][SHOWN])
    figure = scatter(
        spread,
        f"Over the whole grid β and accuracy have a rank correlation of {estimate(pooled, 2, n=True)}",
        f"{results['spread']['models']} models, a colour and shape a cell",
    )
    return Figure(figure, "Each point is one model of the grid.")


def settings_table(every: Sequence[Arm]) -> Table:
    """What was trained, how long."""
    names = ("steps", "batch", "lr", "schedule", "optimizer", "data", "max_length", "contrastive")
    rows = []
    for a in every:
        settings = a.family.recipe.settings
        rows.append([a.family.name, a.family.preset, str(len(a.beta)), *(str(getattr(settings, n)) for n in names)])
    return Table(["arm", "preset", "seeds", *names], rows, "Batch counts strings a seed and step.")


def answers(results: dict[str, Any]) -> list[str]:
    """Three sentences, made from the numbers."""
    sentences = []
    difference = results["contrastive_minus_standard"]["complete"]
    beta, accuracy = Estimate.from_dict(difference["beta"]), Estimate.from_dict(difference[SHOWN])
    sentences.append(
        f"Trained on complete strings, the regulariser {_moves(beta)} balance violation (change "
        f"{estimate(beta, n=True)}, paired over seeds) and {_moves(accuracy)} accuracy on non-trivial closers at "
        f"length 400-500 (change {estimate(accuracy, n=True)})."
    )
    difference = results["contrastive_minus_standard"]["prefix"]
    beta, accuracy = Estimate.from_dict(difference["beta"]), Estimate.from_dict(difference[SHOWN])
    sentences.append(
        f"Trained on prefixes, it {_moves(beta)} balance violation (change {estimate(beta, n=True)}) and "
        f"{_moves(accuracy)} that accuracy (change {estimate(accuracy, n=True)})."
    )
    inside = {name: Estimate.from_dict(arm["rank_correlation"][SHOWN]) for name, arm in results["arms"].items()}
    sentences.append(
        "Within an arm the rank correlation of balance violation and that accuracy is "
        + "; ".join(f"{estimate(e, n=True)} ({name})" for name, e in inside.items())
        + "."
    )
    return sentences


def paired_table(results: dict[str, Any]) -> Table:
    """Contrastive minus standard, paired over seeds."""
    rows = []
    for data, difference in results["contrastive_minus_standard"].items():
        rows.append([data] + [Cell(Estimate.from_dict(difference[name]), 3) for name in ("beta", *RULES)])
    return Table(
        ["trained on", "β", *RULES.values()],
        rows,
        "Contrastive minus standard, mean of paired differences over seeds. Accuracy at positions 400-499.",
    )


def arm_table(every: Sequence[Arm]) -> Table:
    """Each arm by itself."""
    rows = [
        [a.family.name, Cell(mean_over_seeds(a.beta, support=POSITIVE), 3)]
        + [Cell(mean_over_seeds(a.accuracy[rule], support=SHARE), 3) for rule in RULES]
        + [number(a.worst_in_distribution)]
        for a in every
    ]
    return Table(
        ["arm", "β", *RULES.values(), "worst seed and rule in distribution"],
        rows,
        "Means over seeds. The last column is the least of three rules on strings of the training law.",
    )


def correlation_table(results: dict[str, Any]) -> Table:
    """Rank correlation of beta with accuracy within each arm, and in the grid."""
    rows = [
        [name] + [Cell(Estimate.from_dict(arm["rank_correlation"][rule]), 3) for rule in RULES]
        for name, arm in results["arms"].items()
    ]
    spread = results["spread"]
    rows.append(
        [f"grid ({spread['models']} models)"]
        + [Cell(Estimate.from_dict(spread["rank_correlation"][rule]), 3) for rule in RULES]
    )
    return Table(
        ["arm", *RULES.values()],
        rows,
        "Spearman's rank correlation of β and accuracy at positions 400-499 (intervals: Bonett and Wright); 0 if "
        "unrelated.",
    )


def paper_table(results: dict[str, Any]) -> Table:
    """What the paper says in words, and our numbers."""

    def sign(e: Estimate) -> Cell:
        return Cell(e, 3)

    d = results["contrastive_minus_standard"]
    arms_ = results["arms"]
    return Table(
        ["statement", "paper", "ours"],
        [
            [
                "standard, complete: β against accuracy (Fig. 3)",
                "negative",
                sign(Estimate.from_dict(arms_["standard, complete"]["rank_correlation"][SHOWN])),
            ],
            ["contrastive lowers β (Fig. 3)", "yes", sign(Estimate.from_dict(d["complete"]["beta"]))],
            ["contrastive raises accuracy (Fig. 3)", "yes", sign(Estimate.from_dict(d["complete"][SHOWN]))],
            [
                "standard, prefixes: β against accuracy (Fig. 10)",
                "none",
                sign(Estimate.from_dict(arms_["standard, prefix"]["rank_correlation"][SHOWN])),
            ],
            ["contrastive lowers β (Fig. 10)", "yes", sign(Estimate.from_dict(d["prefix"]["beta"]))],
            ["contrastive raises accuracy (Fig. 10)", "yes", sign(Estimate.from_dict(d["prefix"][SHOWN]))],
        ],
        "The paper gives pictures without a coefficient. Accuracy here: non-trivial closers by the mass rule, "
        f"positions 400-499. The weight of the regulariser is not in the paper; ours is {WEIGHT}, as in its released "
        "configs.",
    )


def scatter(arms_: Sequence[Arm], title: str, note: str) -> "go.Figure":
    """beta against accuracy, a colour an arm."""
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE, finish

    fig = go.Figure()
    symbols = ("circle", "diamond", "square", "triangle-up", "x")
    for i, arm in enumerate(arms_):
        fig.add_trace(
            go.Scatter(
                x=arm.beta.tolist(),
                y=arm.accuracy[SHOWN].tolist(),
                mode="markers",
                name=arm.family.name,
                marker={
                    "color": PALETTE[i % len(PALETTE)],
                    "symbol": symbols[i // len(PALETTE) % len(symbols)],
                    "size": 8,
                    "opacity": 0.75,
                },
                hovertemplate="β %{x:.3f}, accuracy %{y:.3f}",
            )
        )
    return finish(
        fig,
        title,
        note,
        width=860,
        height=400,
        xaxis={"title": {"text": "balance violation β"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "accuracy, non-trivial closers at 400-499"}},
        legend={"x": 1.02, "y": 1},
    )


def _moves(e: Estimate) -> str:
    """What an interval of a difference allows one to say."""
    if e.value is None or e.low is None or e.high is None:
        return "has an undetermined effect on"
    return "lowers" if e.high < 0 else "raises" if e.low > 0 else "does not measurably move"
