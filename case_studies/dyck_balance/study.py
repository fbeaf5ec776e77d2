"""`dyck-balance`: does balance violation predict length generalisation, and does asking for balance help?

Wen et al. 2023, section 4.2, Figs. 3 and 10. Models with a minimal first layer (eq. 15) are trained with and
without the contrastive regulariser (eq. 18), on complete strings and on prefixes; each model gives beta (exact) and its
closing accuracy at positions 400-499. The two arms are compared pairwise (same seed: same initial weights, same
strings). The paper shows the two clouds in one picture, where a correlation mostly tells the arms apart: ours is
the rank correlation *within* an arm. A third arm spreads beta over a grid of weights and steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from case_studies.page import Figure, Page, Section, Table, command_of, write_study
from case_studies.populations import Family, obtain
from interp.files import make_folder
from interp.grammars import DyckGrammar
from interp.population import Population
from interp.stats import Estimate, mean_over_seeds, spearman
from interp.training.evaluate import evaluate
from interp.training.objective import long_prefixes
from probes.balance import balance_tables

if TYPE_CHECKING:
    import plotly.graph_objects as go

QUICK_SEEDS, FULL_SEEDS = 6, 40
LONG_PREFIXES = 150  # of 500 brackets: about 2,500 non-trivial closers are scored
WEIGHT = 0.3  # of the regulariser, as in the released configs; the paper's text gives none
RULES = {
    "long_argmax": "argmax",
    "long_argmax_closers": "argmax of closers",
    "long_mass": "mass > 0.8",
    "long_mass_nontrivial": "mass, non-trivial",
}
SHOWN = "long_mass_nontrivial"  # far from its ceiling, so that differences show
IN_DISTRIBUTION = ("argmax", "argmax_closers", "mass")


@dataclass(frozen=True)
class Arm:
    """Models trained one way: their family, and what was measured on each."""

    family: Family
    digest: str
    beta: np.ndarray  # [S]
    accuracy: dict[str, np.ndarray]  # rule -> [S]
    worst_in_distribution: float


def arms(data: str, steps: int | None = None) -> tuple[Family, Family]:
    """Standard and contrastive training on one kind of data."""
    options: dict[str, Any] = {} if data == "complete" else {"data": "prefix"}
    return (
        Family(f"standard, {data}", "dyck-minimal", options, steps),
        Family(f"contrastive, {data}", "dyck-minimal", {**options, "contrastive": WEIGHT}, steps),
    )


def grid(full: bool, steps: int | None = None) -> list[Family]:
    """The spread arm: weights of the regulariser by lengths of training."""
    weights = (0.0, 0.03, 0.1, 1.0, 3.0) if full else (0.0, 1.0)
    lengths = (200, 400, 1600) if full else (200, 400)
    return [
        Family(f"weight {w}, {n} steps", "dyck-minimal", {"contrastive": w} if w else {}, steps or n)
        for w in weights
        for n in lengths
    ]


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
) -> Path:
    """Train or load every arm, measure, and write index.html and results.json; return the page's path."""
    count = seeds or (FULL_SEEDS if full else QUICK_SEEDS)
    folder = make_folder(out)

    def all_of(families: Sequence[Family], n: int) -> list[Arm]:
        return [measure(family, n, folder / "populations", workers) for family in families]

    pairs = {data: all_of(arms(data, steps), count) for data in ("complete", "prefix")}
    spread = all_of(grid(full, steps), min(count, 8 if full else 2))
    results = to_results(pairs, spread, count)
    page = report(pairs, spread, results, count, command_of("dyck-balance", full, out))
    return write_study(results, page, folder)


def measure(family: Family, count: int, folder: Path, workers: int | None) -> Arm:
    """Train or load one family; beta and accuracies of each seed."""
    population, digest = obtain(family, count, folder, workers)
    rows = population.final_metrics()
    accuracy = long_accuracy(population)
    worst = min(float(row[rule]) for row in rows for rule in IN_DISTRIBUTION)
    return Arm(family, digest, betas(population), accuracy, worst)


def long_accuracy(population: Population) -> dict[str, np.ndarray]:
    """Closing accuracy at positions 400-499 of `LONG_PREFIXES` prefixes: rule -> [S]."""
    assert isinstance(population.grammar, DyckGrammar)
    data = long_prefixes(population.grammar, LONG_PREFIXES)
    parts = []
    for begin in range(0, len(population), 5):  # a few seeds at a time: attention over 500 keys is large
        params = {name: p[begin : begin + 5] for name, p in population.params.items()}
        parts.append(evaluate(population[0], params, data))
    return {rule: np.concatenate([part[rule.removeprefix("long_")] for part in parts]) for rule in RULES}


def betas(population: Population) -> np.ndarray:
    """Exact balance violation of each seed's only attention layer."""
    assert isinstance(population.grammar, DyckGrammar)
    values = []
    for model in population:
        table = balance_tables(model, 0, population.grammar, seed=0)[0][0]
        values.append(float("nan") if table.beta is None else table.beta)
    return np.array(values)


def to_results(pairs: dict[str, list[Arm]], spread: Sequence[Arm], count: int) -> dict[str, Any]:
    """Every number of the report with its interval and n."""

    def arm(a: Arm) -> dict[str, Any]:
        return {
            "options": dict(a.family.options),
            "digest": a.digest,
            "beta": mean_over_seeds(a.beta).to_dict(),
            "accuracy": {rule: mean_over_seeds(v, support=(0, 1)).to_dict() for rule, v in a.accuracy.items()},
            "worst_in_distribution": a.worst_in_distribution,
            "rank_correlation": {rule: spearman(a.beta, v).to_dict() for rule, v in a.accuracy.items()},
            "per_seed": {"beta": a.beta.tolist(), **{rule: v.tolist() for rule, v in a.accuracy.items()}},
        }

    beta = np.concatenate([a.beta for a in spread])
    pooled = {rule: np.concatenate([a.accuracy[rule] for a in spread]) for rule in RULES}
    return {
        "seeds": count,
        "arms": {a.family.name: arm(a) for both in pairs.values() for a in both},
        "contrastive_minus_standard": {
            data: {
                "beta": mean_over_seeds(new.beta - old.beta).to_dict(),
                **{rule: mean_over_seeds(new.accuracy[rule] - old.accuracy[rule]).to_dict() for rule in RULES},
            }
            for data, (old, new) in pairs.items()
        },
        "spread": {
            "models": len(beta),
            "rank_correlation": {rule: spearman(beta, v, over="seeds").to_dict() for rule, v in pooled.items()},
            "cells": {a.family.name: arm(a) for a in spread},
        },
    }


# -- the page ---------------------------------------------------------------------------------------------


def report(
    pairs: dict[str, list[Arm]], spread: Sequence[Arm], results: dict[str, Any], count: int, command: str
) -> Page:
    """The report of the measured arms."""
    every = [a for both in pairs.values() for a in both]
    return Page(
        title="Balance and length generalisation",
        asked=(
            "Does a model that lets matched brackets cancel generalise better to strings 18 times longer than its "
            f"training strings, and does training for balance help? {count} seeds an arm."
        ),
        answer=answers(results),
        sections=[
            Section("Contrastive against standard", [paired_table(results), arm_table(every)]),
            Section(
                "Balance violation and accuracy at length 400-500",
                [
                    correlation_table(results),
                    *(
                        Figure(
                            scatter(both, f"Trained on {'complete strings' if data == 'complete' else 'prefixes'}"),
                            "Each point is one seed: its balance violation and its accuracy on non-trivial closers at "
                            "positions 400-499 (mass rule).",
                        )
                        for data, both in pairs.items()
                    ),
                ],
            ),
            Section(
                "An arm that spreads balance",
                [
                    "Weights of the regulariser and lengths of training on a grid. The pooled correlation mixes cells "
                    "that differ in how long they trained: it says that both move together, not that one moves the "
                    "other.",
                    Figure(scatter(spread, "A grid of weights and steps"), "Each point is one model of the grid."),
                ],
            ),
            Section("Paper and ours", [paper_table(results)]),
        ],
        command=command,
        footer=[f"{a.family.name}: checkpoint digest {a.digest}" for a in [*every, *spread]],
    )


def answers(results: dict[str, Any]) -> list[str]:
    """Three sentences, made from the numbers."""
    sentences = []
    difference = results["contrastive_minus_standard"]["complete"]
    beta, accuracy = _estimate(difference["beta"]), _estimate(difference[SHOWN])
    sentences.append(
        f"Trained on complete strings, the regulariser {_moves(beta)} balance violation (change {_text(beta)}, paired "
        f"over seeds) and {_moves(accuracy)} accuracy on non-trivial closers at length 400-500 (change "
        f"{_text(accuracy)})."
    )
    difference = results["contrastive_minus_standard"]["prefix"]
    beta, accuracy = _estimate(difference["beta"]), _estimate(difference[SHOWN])
    sentences.append(
        f"Trained on prefixes, it {_moves(beta)} balance violation (change {_text(beta)}) and {_moves(accuracy)} that "
        f"accuracy (change {_text(accuracy)})."
    )
    inside = {name: _estimate(arm["rank_correlation"][SHOWN]) for name, arm in results["arms"].items()}
    sentences.append(
        "Within an arm the rank correlation of balance violation and that accuracy is "
        + "; ".join(f"{_text(e)} ({name})" for name, e in inside.items())
        + "."
    )
    return sentences


def paired_table(results: dict[str, Any]) -> Table:
    """Contrastive minus standard, paired over seeds."""
    rows = []
    for data, difference in results["contrastive_minus_standard"].items():
        rows.append([data] + [_text(_estimate(difference[name])) for name in ("beta", *RULES)])
    return Table(
        ["trained on", "beta", *RULES.values()],
        rows,
        "Contrastive minus standard, mean of paired differences [95 % over seeds]. Accuracy at positions 400-499.",
    )


def arm_table(every: Sequence[Arm]) -> Table:
    """Each arm by itself."""
    rows = [
        [a.family.name, _text(mean_over_seeds(a.beta))]
        + [_text(mean_over_seeds(a.accuracy[rule], support=(0, 1))) for rule in RULES]
        + [f"{a.worst_in_distribution:.3f}"]
        for a in every
    ]
    return Table(
        ["arm", "beta", *RULES.values(), "worst seed and rule in distribution"],
        rows,
        "Means over seeds [95 %]. The last column is the least of three rules on strings of the training law.",
    )


def correlation_table(results: dict[str, Any]) -> Table:
    """Rank correlation of beta with accuracy within each arm, and in the grid."""
    rows = [
        [name] + [_text(_estimate(arm["rank_correlation"][rule])) for rule in RULES]
        for name, arm in results["arms"].items()
    ]
    spread = results["spread"]
    rows.append(
        [f"grid ({spread['models']} models)"] + [_text(_estimate(spread["rank_correlation"][rule])) for rule in RULES]
    )
    return Table(
        ["arm", *RULES.values()],
        rows,
        "Spearman's rank correlation of beta and accuracy at positions 400-499 [95 %, Bonett and Wright]; "
        "0 if unrelated.",
    )


def paper_table(results: dict[str, Any]) -> Table:
    """What the paper says in words, and our numbers."""

    def sign(e: Estimate) -> str:
        return _text(e)

    d = results["contrastive_minus_standard"]
    arms_ = results["arms"]
    return Table(
        ["statement", "paper", "ours"],
        [
            [
                "standard, complete: beta against accuracy (Fig. 3)",
                "negative",
                sign(_estimate(arms_["standard, complete"]["rank_correlation"][SHOWN])),
            ],
            ["contrastive lowers beta (Fig. 3)", "yes", sign(_estimate(d["complete"]["beta"]))],
            ["contrastive raises accuracy (Fig. 3)", "yes", sign(_estimate(d["complete"][SHOWN]))],
            [
                "standard, prefixes: beta against accuracy (Fig. 10)",
                "none",
                sign(_estimate(arms_["standard, prefix"]["rank_correlation"][SHOWN])),
            ],
            ["contrastive lowers beta (Fig. 10)", "yes", sign(_estimate(d["prefix"]["beta"]))],
            ["contrastive raises accuracy (Fig. 10)", "yes", sign(_estimate(d["prefix"][SHOWN]))],
        ],
        "The paper gives pictures without a coefficient. Accuracy here: non-trivial closers by the mass rule, "
        f"positions 400-499. The weight of the regulariser is not in the paper; ours is {WEIGHT}, as in its released "
        "configs.",
    )


def scatter(arms_: Sequence[Arm], title: str) -> "go.Figure":
    """beta against accuracy, a colour an arm."""
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE, template

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
                hovertemplate="beta %{x:.3f}, accuracy %{y:.3f}",
            )
        )
    fig.update_layout(
        template=template(),
        title=title,
        width=820,
        height=460,
        xaxis={"title": {"text": "balance violation beta"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "accuracy, non-trivial closers at 400-499"}},
        legend={"x": 1.02, "y": 1},
    )
    return fig


def _estimate(data: dict[str, Any]) -> Estimate:
    return Estimate(**data)


def _text(e: Estimate) -> str:
    if e.value is None:
        return "undefined"
    return f"{e.value:.3f}" + ("" if e.low is None or e.high is None else f" [{e.low:.3f}, {e.high:.3f}]")


def _moves(e: Estimate) -> str:
    """What an interval of a difference allows one to say."""
    if e.value is None or e.low is None or e.high is None:
        return "has an undetermined effect on"
    return "lowers" if e.high < 0 else "raises" if e.low > 0 else "does not measurably move"
