"""Populations of `induction`, and the numbers that come of them, one per seed and over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from case_studies.induction.graphs import OfGraph
from case_studies.induction.measure import (
    PATHS,
    STRINGS,
    Edits,
    Heads,
    Strings,
    beyond_the_prior,
    composition,
    crossing,
    divergences,
    edit_losses,
    gradient_norm,
    head_scores,
    matching_without_first,
    nearest,
    onset,
    over_snapshots,
    strings_of,
)
from case_studies.populations import Family
from case_studies.study import Obtained
from interp.model import SandboxTransformer
from interp.population import Population
from interp.stats import POSITIVE, REALS, SHARE, Estimate, mean_over_seeds, spearman
from interp.worlds.markov import MarkovGrammar

BEYOND = (0.2, 5.0)  # beta of kernels that are rare under the trained beta of 1: uneven, and nearly even
FREQUENT = 10  # steps between evaluations where the step of a transition is asked for


def _every(steps: int, parts: int) -> tuple[int, ...]:
    return tuple(steps * part // parts for part in range(parts + 1))


FAMILIES = (
    Family("recall", "recall", {"eval_every": FREQUENT}, snapshots=_every(300, 15)),
    Family("recall, 1 layer", "recall", {"layers": 1}),
    Family("recall, 1 layer, width 192", "recall", {"layers": 1, "width": 192}),
    Family("chain", "markov", {"eval_every": FREQUENT}, snapshots=_every(500, 20)),
    Family("chain, 1 layer", "markov", {"layers": 1}),
    Family("chain, 1 layer, width 96", "markov", {"layers": 1, "width": 96}),
)
HIGHER = (
    Family("order 2", "markov-order-k", snapshots=_every(1000, 10)),
    Family("order 2, 3 layers of 1 head", "markov-order-k", {"layers": 3, "heads": 1}),
)


@dataclass(frozen=True)
class Moment:
    """One model at one snapshot. `divergence`: by rung, empty where the law has no predictions of rungs.

    `first`, `second`: the scores of both heads.  `alone`: the second with layer 0 constant.
    """

    step: int
    first: float
    second: float
    alone: float
    divergence: Mapping[str, float]
    gradient: float


@dataclass(frozen=True)
class Model:
    """One model: scores of its heads and of its untrained twin's, edits, composition, and its moments in order.

    - `metrics`: its last evaluation.  `transition`: the step at which its loss (recall: its accuracy) is half way.
    - `beyond`: by beta of other kernels, (its loss, that of the count with the trained beta); of chains alone.
    """

    seed: int
    metrics: Mapping[str, float]
    heads: Heads
    untrained: Heads
    edits: Edits
    composition: Mapping[str, float]
    moments: Sequence[Moment]
    transition: float | None
    beyond: Mapping[float, tuple[float, float]]

    def onset(self, which: str) -> float | None:
        """The step at which a head's score ("first", "second") is half way."""
        return onset([m.step for m in self.moments], [getattr(m, which) for m in self.moments])

    def carried(self) -> float | None:
        """Of the matching score above an even head's, the share that layer 0 carries, at the score's half-way step.

        Between two snapshots in proportion; None if the score does not rise, or is not above even there.
        """
        step = self.onset("second")
        if step is None:
            return None
        steps, even = [m.step for m in self.moments], self.heads.chance
        second, alone = (
            float(np.interp(step, steps, [getattr(m, which) for m in self.moments])) for which in ("second", "alone")
        )
        return (second - alone) / (second - even) if second > even else None


@dataclass(frozen=True)
class Measured:
    """One family and its models."""

    family: Family
    population: Population
    digest: str
    models: Sequence[Model]

    @property
    def is_chain(self) -> bool:
        return isinstance(self.population.grammar, MarkovGrammar)

    @property
    def steps(self) -> list[int]:
        return sorted(self.population.snapshots)

    def metric(self, name: str) -> list[float]:
        """A measure of the last evaluation, a seed each."""
        return [model.metrics[name] for model in self.models]


@dataclass(frozen=True)
class Findings:
    """All that is measured: families of recall and chains, and of causal graphs."""

    measured: Sequence[Measured]
    graphs: Sequence[OfGraph]


def measure(one: Obtained) -> Measured:
    """Everything, of every model of a population."""
    population, grammar = one.population, one.population.grammar
    strings = strings_of(grammar)
    moments = _moments(population, strings)
    finals = {row["seed"]: row for row in population.final_metrics()}
    models = []
    for place, (seed, model, fresh) in enumerate(
        zip(population.seeds, population, population.untrained(), strict=True)
    ):
        models.append(
            Model(
                seed,
                finals[seed],
                head_scores(model, strings),
                head_scores(fresh, strings),
                edit_losses(model, strings),
                composition(model) if model.config.n_layers > 1 else {},
                [at[place] for at in moments],
                transition([row for row in population.history if row["seed"] == seed]),
                _beyond(model, grammar),
            )
        )
    return Measured(one.family, population, one.digest, models)


def _beyond(model: SandboxTransformer, grammar: Any) -> dict[float, tuple[float, float]]:
    if not isinstance(grammar, MarkovGrammar) or grammar.order != 1:
        return {}
    return {beta: beyond_the_prior(model, grammar, beta) for beta in BEYOND}


def _moments(population: Population, strings: Strings) -> list[list[Moment]]:
    grammar = population.grammar
    rungs = grammar.predictions(strings.tokens) if isinstance(grammar, MarkovGrammar) else {}

    def read(model: SandboxTransformer) -> tuple[Heads, float, Mapping[str, float], float]:
        with torch.no_grad():
            logits = model(torch.from_numpy(strings.tokens))
        return (
            head_scores(model, strings),
            matching_without_first(model, strings),
            divergences(logits, rungs, strings.labels),
            gradient_norm(model, strings),
        )

    return [
        [Moment(step, heads.first, heads.second, alone, told, norm) for heads, alone, told, norm in found]
        for step, found in over_snapshots(population, read).items()
    ]


def transition(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Of one seed: the step at which the loss is half way from the count of single tokens to that of the right order
    (the last count that its evaluations tell), or at which half of what is recalled is right."""
    steps = [row["step"] for row in history]
    counts = [name for name in history[-1] if name.endswith("gram") and name.startswith("rung/") and "lag" not in name]
    best = [name for name in counts if name != "rung/unigram"]
    if best:
        lowest = min(history[-1][name] for name in best)
        level = (history[-1]["rung/unigram"] + lowest) / 2
        return crossing(steps, [row["loss"] for row in history], level)
    return crossing(steps, [row["accuracy"] for row in history], 0.5)


# -- over seeds ---------------------------------------------------------------------------------------------


def known(values: Sequence[float | None]) -> tuple[list[float], int]:
    """Those that there are, and how many there are not: these are counted, not averaged in."""
    found = [value for value in values if value is not None]
    return found, len(values) - len(found)


def share(values: Sequence[float]) -> Estimate:
    """Mean of shares over seeds."""
    return mean_over_seeds(values, support=SHARE)


def nats(values: Sequence[float]) -> Estimate:
    """Mean of losses over seeds."""
    return mean_over_seeds(values, support=POSITIVE)


def more(values: Sequence[float]) -> Estimate:
    """Mean of differences over seeds."""
    return mean_over_seeds(values, support=REALS)


def steps_of(values: Sequence[float | None]) -> tuple[Estimate, int]:
    """Mean step over the seeds that have one, and how many have none."""
    found, missing = known(values)
    return mean_over_seeds(found, support=POSITIVE), missing


def order_of_heads(measured: Measured) -> dict[str, Any]:
    """Onsets of both heads, and how their order over seeds agrees; seeds without an onset are counted and left out."""
    pairs = [(model.onset("first"), model.onset("second")) for model in measured.models]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    return {
        "first": steps_of([a for a, _ in pairs])[0],
        "second": steps_of([b for _, b in pairs])[0],
        "later": more([b - a for a, b in both]),
        "carried": more(known([model.carried() for model in measured.models])[0]),
        "correlation": spearman([a for a, _ in both], [b for _, b in both]),
        "without": len(pairs) - len(both),
    }


def phases(measured: Measured) -> list[dict[str, Any]]:
    """At each snapshot: mean divergence to each rung, how many seeds are nearest to it, and the gradient's norm."""
    rows = []
    for at, step in enumerate(measured.steps):
        moments = [model.moments[at] for model in measured.models]
        names = list(moments[0].divergence)
        near = [nearest(moment.divergence) for moment in moments] if names else []
        rows.append(
            {
                "step": step,
                "divergence": {name: float(np.mean([m.divergence[name] for m in moments])) for name in names},
                "nearest": {name: near.count(name) for name in names},
                "gradient": float(np.mean([moment.gradient for moment in moments])),
                "first": float(np.mean([moment.first for moment in moments])),
                "second": float(np.mean([moment.second for moment in moments])),
                "second_alone": float(np.mean([moment.alone for moment in moments])),
            }
        )
    return rows


def of_family(m: Measured) -> dict[str, Any]:
    """What results.json holds of a family; intervals are over seeds."""
    names = [name for name in m.models[0].metrics if name.startswith(("rung/", "accuracy")) or name == "loss"]
    found: dict[str, Any] = {
        "digest": m.digest,
        "options": dict(m.family.options),
        "metrics": {name: (share if name.startswith("accuracy") else nats)(m.metric(name)) for name in names},
        "previous": share([x.heads.first for x in m.models]).with_null(_mean([x.untrained.first for x in m.models])),
        "matching": share([x.heads.second for x in m.models]).with_null(_mean([x.untrained.second for x in m.models])),
        "even": m.models[0].heads.chance,
        "edits": {
            "intact": nats([x.edits.intact for x in m.models]),
            "first": more([x.edits.first - x.edits.intact for x in m.models]),
            "last": more([x.edits.last - x.edits.intact for x in m.models]),
            **{
                path: more([x.edits.paths[path] - x.edits.intact for x in m.models])
                for path in PATHS
                if m.models[0].edits.paths
            },
        },
        "composition": {path: share([x.composition[path] for x in m.models]) for path in m.models[0].composition},
        "beyond": {
            f"{beta:g}": more([x.beyond[beta][0] - x.beyond[beta][1] for x in m.models]) for beta in m.models[0].beyond
        },
        "phases": phases(m),
        "strings": STRINGS,
    }
    if m.steps:
        found["onsets"] = order_of_heads(m)
        step, missing = steps_of([x.transition for x in m.models])
        found["transition"] = {"step": step, "without": missing}
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
