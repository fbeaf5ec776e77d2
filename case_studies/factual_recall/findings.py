"""All that is measured of an arm, and of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from case_studies.factual_recall.arms import ALPHA, PRIMARY
from case_studies.factual_recall.capacity import Sizes
from case_studies.factual_recall.heads import Heads, heads
from case_studies.factual_recall.maps import Maps, key_weights, maps
from case_studies.factual_recall.stages import Stages, by_alpha, stages
from case_studies.populations import Family
from case_studies.study import Obtained
from interp import Population
from interp.stats import POSITIVE, Estimate, mean_over_seeds

ALPHAS: Mapping[str, float] = {"linear, alpha = .1": 0.1, "linear": ALPHA, "linear, alpha = 1e-5": 1e-5}


@dataclass(frozen=True)
class Measured:
    """An arm. `heads`: of models with several.  `keys`: of linear ones, mean |w_KQ| by kind over that of noise."""

    family: Family
    population: Population
    digest: str
    stages: Stages
    maps: Maps
    heads: Heads | None
    keys: Mapping[str, Estimate] | None

    @property
    def primary(self) -> bool:
        """Named before the run?"""
        return self.family.name in PRIMARY


@dataclass(frozen=True)
class Findings:
    """Everything. `memory`: facts that sums of outer products hold, by width, and the slope of their logarithm."""

    measured: Sequence[Measured]
    sizes: Sequence[Sizes]
    memory: tuple[Mapping[int, float], Estimate]

    def arm(self, name: str) -> Measured:
        """The arm of a name."""
        return next(m for m in self.measured if m.family.name == name)


def measure(one: Obtained) -> Measured:
    """All of an arm."""
    population = one.population
    linear = population.config.attention == "linear"
    keys: Any = None
    if linear:
        found = key_weights(population)
        keys = {
            name: mean_over_seeds(found[name] / found["noise"], support=POSITIVE) for name in ("subject", "relation")
        }
    return Measured(
        one.family,
        population,
        one.digest,
        stages(population),
        maps(population),
        None if linear else heads(population),
        keys,
    )


def alphas(measured: Sequence[Measured]) -> Estimate:
    """Steps by which the stage is longer for each factor of ten of smaller first weights."""
    return by_alpha([(ALPHAS[m.family.name], m.stages) for m in measured if m.family.name in ALPHAS])
