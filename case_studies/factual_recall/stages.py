"""What a model predicts while it trains: how far it is from each rung at every evaluation, and which is nearest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.factual_recall.capacity import base_accuracy
from interp import Population
from interp.stats import POSITIVE, REALS, SHARE, Estimate, clopper_pearson, mean_over_seeds
from interp.worlds.facts import FactsGrammar

Array = NDArray[np.float64]
RUNGS = ("uniform", "subject", "relation", "fact")
PATH = 2000  # points of the straight way from the first rung to the last
LEARNED = 0.99  # accuracy


@dataclass(frozen=True)
class Stages:
    """Of an arm, from its history. Arrays [seed, evaluation].

    - `steps` [evaluation].  `far`: by rung, KL(rung, model) in nats.  `right`, `block`: share of answers that are
      right, and in the right block.
    - `seeds`: those that did not diverge: the others stay at weights of some step, where they are near to whatever.
      `diverged`: how many of all.
    - `path`: the least KL(p(a | r), q) of q on the straight way from uniform to the facts: what passing by costs.
    - `guess`: the share that is right of who knows the relation alone.
    """

    steps: NDArray[np.int64]
    far: Mapping[str, Array]
    right: Array
    block: Array
    path: float
    seeds: tuple[int, ...]
    diverged: Estimate
    guess: float

    @cached_property
    def nearest(self) -> NDArray[np.int64]:
        """Place in `RUNGS` of the nearest rung: the phase."""
        return np.asarray(np.stack([self.far[name] for name in RUNGS]).argmin(0))

    @property
    def every(self) -> int:
        """Steps between evaluations."""
        return int(self.steps[1] - self.steps[0]) if len(self.steps) > 1 else 1

    def lasts(self, rung: str) -> Array:
        """Steps for which a seed is nearest to a rung [seed]."""
        return np.asarray((self.nearest == RUNGS.index(rung)).sum(1) * float(self.every))

    def length(self, rung: str = "relation") -> Estimate:
        """Mean over seeds of these steps."""
        return mean_over_seeds(self.lasts(rung), support=POSITIVE)

    @property
    def begins(self) -> list[int | None]:
        """The first evaluation at which a seed is nearest to p(a | r); None for one that never is."""
        there = self.nearest == RUNGS.index("relation")
        return [int(self.steps[row.argmax()]) if row.any() else None for row in there]

    def share(self) -> Estimate:
        """Share of seeds that have the stage."""
        found = self.lasts("relation") > 0
        return clopper_pearson(int(found.sum()), len(found), over="seeds")

    @property
    def at(self) -> NDArray[np.int64]:
        """The evaluation at which a seed is closest to p(a | r) [seed]."""
        return np.asarray(self.far["relation"].argmin(1))

    def closest(self) -> dict[str, Estimate]:
        """There: the divergence, and less that of the straight way; accuracy, what of it lies beyond guessing, and the
        accuracy of the block; the step. `known` is 0 where as many are right as the relation alone gives, 1 where all.
        """
        each = np.arange(len(self.at))
        least, right = self.far["relation"][each, self.at], self.right[each, self.at]
        return {
            "divergence": mean_over_seeds(least, support=POSITIVE).with_null(self.path),
            "less_path": mean_over_seeds(least - self.path, support=REALS),
            "right": mean_over_seeds(right, support=SHARE).with_null(self.guess),
            "known": mean_over_seeds((right - self.guess) / (1 - self.guess), support=REALS).with_null(0.0),
            "block": mean_over_seeds(self.block[each, self.at], support=SHARE),
            "step": mean_over_seeds(self.steps[self.at], support=POSITIVE),
        }

    def learned(self) -> Estimate:
        """Share of seeds that have learned the table by the last step."""
        return clopper_pearson(int((self.right[:, -1] >= LEARNED).sum()), len(self.right), over="seeds")

    def to_dict(self) -> dict[str, Any]:
        """What results.json holds."""
        return {
            "share": self.share().to_dict(),
            "length": {rung: self.length(rung).to_dict() for rung in RUNGS},
            "closest": {name: one.to_dict() for name, one in self.closest().items()},
            "path": self.path,
            "guess": self.guess,
            "begins": self.begins,
            "learned": self.learned().to_dict(),
            "diverged": self.diverged.to_dict(),
            "accuracy": mean_over_seeds(self.right[:, -1], support=SHARE).to_dict(),
            "loss": mean_over_seeds(self.far["fact"][:, -1], support=POSITIVE).to_dict(),
            "every": self.every,
        }


def kept(population: Population) -> list[int]:
    """Places of the seeds that did not diverge."""
    diverged = {int(seed) for seed in population.provenance.get("diverged", ())}
    return [i for i, seed in enumerate(population.seeds) if seed not in diverged]


def stages(population: Population) -> Stages:
    """Of a trained population."""
    rows = population.history
    steps = sorted({row["step"] for row in rows})
    at = {(row["seed"], row["step"]): row for row in rows}

    seeds = tuple(population.seeds[i] for i in kept(population))

    def read(name: str) -> Array:
        return np.array([[at[seed, step][name] for step in steps] for seed in seeds], dtype=float).reshape(
            len(seeds), -1
        )

    grammar: Any = population.grammar
    return Stages(
        np.array(steps),
        {name: read(f"kl/{name}") for name in RUNGS},
        read("accuracy"),
        read("accuracy_block"),
        straight_path(grammar),
        seeds,
        clopper_pearson(len(population) - len(seeds), len(population), over="seeds"),
        base_accuracy(grammar),
    )


def partial_knowledge(grammar: FactsGrammar) -> dict[str, dict[str, float]]:
    """Of who knows the subject or the relation alone: the loss (nats), and how often the likeliest answer is right."""
    by_subject = np.eye(grammar.outputs)[grammar.table].mean(1)  # p(a | s) [subject, answer]
    told = {"subject": by_subject, "relation": grammar.chances}
    return {
        name: {
            "loss": float(-(p * np.log(np.where(p > 0, p, 1.0))).sum(1).mean()),
            "right": float(p.max(1).mean()),
        }
        for name, p in told.items()
    }


def straight_path(grammar: FactsGrammar) -> float:
    """Least over t of the mean KL(p(a | r), (1 - t) / answers + t fact), exactly over all facts."""
    told = np.repeat(grammar.chances[None], grammar.subjects, 0)  # [subject, relation, answer]
    fact = np.eye(grammar.outputs)[grammar.table]
    # Two values of q are met: at the fact, and elsewhere.
    own = (told * fact).sum(-1).mean()
    entropy = -(told * np.log(np.where(told > 0, told, 1.0))).sum(-1).mean()
    t = np.linspace(0, 1, PATH, endpoint=False)
    even = (1 - t) / grammar.outputs
    return float((-entropy - own * np.log(even + t) - (1 - own) * np.log(even)).min())


def by_alpha(found: Sequence[tuple[float, Stages]]) -> Estimate:
    """Steps that the stage is longer for each factor of ten by which first weights are smaller: slope a seed."""
    x = np.array([-np.log10(alpha) for alpha, _ in found])
    common = sorted(set.intersection(*(set(one.seeds) for _, one in found)))
    y = np.stack([one.lasts("relation")[np.isin(one.seeds, common)] for _, one in found])  # [alpha, seed]
    return mean_over_seeds(np.polyfit(x, y, 1)[0], support=REALS)
