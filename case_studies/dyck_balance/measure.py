"""What `dyck-balance` measures: arms of minimal models, their balance violation and accuracy at length 400-500."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from case_studies.corrections import Comparison
from case_studies.dyck_attention.families import EPOCH, PREFIX_EPOCH
from case_studies.populations import Family
from case_studies.study import Obtained
from interp.grammars import DyckGrammar
from interp.population import Population
from interp.worlds.dyck.evaluate import evaluate
from interp.worlds.dyck.task import long_prefixes
from probes.balance import balance_tables

DATA = ("complete", "prefix")  # kinds of training strings
LONG_PREFIXES = 150  # of 500 brackets: about 2,500 non-trivial closing brackets are scored
WEIGHT = 0.3  # of the regulariser, as in the released configs; the paper's text gives none
RULES = {
    "long_argmax": "argmax",
    "long_argmax_closers": "argmax of closing brackets",
    "long_mass": "mass > 0.8",
    "long_mass_nontrivial": "mass, non-trivial",
}
SHOWN = "long_mass_nontrivial"  # far from its ceiling, so that differences show
IN_DISTRIBUTION = ("argmax", "argmax_closers", "mass")
# How the arms are trained: the released code's settings, ours with its loss, ours with the loss on every prediction.
TRAININGS = {"released": "released code", "closers": "loss on closers", "all": "loss on all tokens"}


@dataclass(frozen=True)
class Arm:
    """Models trained one way: their family, and what was measured on each."""

    family: Family
    digest: str
    beta: np.ndarray  # [S]
    beta_released: np.ndarray  # [S], by the released code's definition: largest pair over least stack
    accuracy: dict[str, np.ndarray]  # rule -> [S]
    worst_in_distribution: float


@dataclass(frozen=True)
class Findings:
    """All that the page is made of: two arms (standard, contrastive) a training and kind of data, and the grid's cells.

    - `pairs`: by `pair_name`. `spread`: the same seeds in every cell, so the same initial weights.
    - `further`: the standard arms of Fig. 3 again, then those of Fig. 10, a training each, of seeds that are in no
      other arm.
    - `count`: seeds of an arm. `compared`: every comparison by name, corrected (see `comparisons.py`).
    """

    pairs: dict[str, list[Arm]]
    spread: list[Arm]
    count: int
    compared: Mapping[str, Comparison]
    further: Sequence[Arm] = ()


def pair_name(training: str, data: str) -> str:
    """What the two arms of one training are called together; their families carry it in their names."""
    return data if training == "all" else f"{data}, {'released code' if training == 'released' else training}"


def families(training: str, data: str) -> tuple[Family, Family]:
    """Standard and contrastive training of one of `TRAININGS` on one kind of data."""
    return released(data) if training == "released" else arms(data, training)


def arms(data: str, targets: str = "all") -> tuple[Family, Family]:
    """Standard and contrastive training on one kind of data; the loss on all predictions or on `closers` only."""
    options: dict[str, Any] = {} if data == "complete" else {"data": "prefix"}
    options |= {} if targets == "all" else {"targets": targets}
    name = data if targets == "all" else f"{data}, {targets}"
    return (
        Family(f"standard, {name}", "dyck-minimal", options),
        Family(f"contrastive, {name}", "dyck-minimal", {**options, "contrastive": WEIGHT}),
    )


def released(data: str) -> tuple[Family, Family]:
    """The same in the released code: loss on closers, one corpus, ten epochs, its string before START."""
    epoch = EPOCH if data == "complete" else PREFIX_EPOCH
    options: dict[str, Any] = {"targets": "closers", "corpus": 100_000, "width": 50, "hold": epoch, "eval_every": epoch}
    options |= {} if data == "complete" else {"data": "prefix"}
    contrast = {"contrastive": WEIGHT, "contrast": "released"}
    return (
        Family(f"standard, {data}, released code", "dyck-minimal", options, 10 * epoch, 100),
        Family(f"contrastive, {data}, released code", "dyck-minimal", {**options, **contrast}, 10 * epoch, 100),
    )


def further(training: str, data: str = "complete") -> Family:
    """The standard arm of Fig. 3 (of prefixes: of Fig. 10) under the name of its further seeds."""
    standard = families(training, data)[0]
    return replace(standard, name=f"{standard.name}, further seeds")


def grid(weights: Sequence[float], lengths: Sequence[int]) -> list[Family]:
    """The spread arm: weights of the regulariser by lengths of training."""
    return [
        Family(f"weight {w}, {n} steps", "dyck-minimal", {"contrastive": w} if w else {}, n)
        for w in weights
        for n in lengths
    ]


def measure(one: Obtained) -> Arm:
    """Beta and accuracies of each seed of one family."""
    population = one.population
    rows = population.final_metrics()
    worst = min(float(row[rule]) for row in rows for rule in IN_DISTRIBUTION)
    return Arm(one.family, one.digest, *betas(population), long_accuracy(population), worst)


def long_accuracy(population: Population) -> dict[str, np.ndarray]:
    """Closing accuracy at positions 400-499 of `LONG_PREFIXES` prefixes: rule -> [S]."""
    assert isinstance(population.grammar, DyckGrammar)
    data = long_prefixes(population.grammar, LONG_PREFIXES)
    parts = []
    for begin in range(0, len(population), 5):  # a few seeds at a time: attention over 500 keys is large
        params = {name: p[begin : begin + 5] for name, p in population.params.items()}
        parts.append(evaluate(population[0], params, data))
    return {rule: np.concatenate([part[rule.removeprefix("long_")] for part in parts]) for rule in RULES}


def betas(population: Population) -> tuple[np.ndarray, np.ndarray]:
    """Exact balance violation of each seed's only attention layer [S]: ours (the paper's), and the released code's."""
    assert isinstance(population.grammar, DyckGrammar)
    tables = [balance_tables(model, 0, population.grammar, seed=0)[0][0] for model in population]
    ours, theirs = ([getattr(table, name) for table in tables] for name in ("beta", "released"))
    return np.array(ours, dtype=float), np.array(theirs, dtype=float)  # None becomes NaN
