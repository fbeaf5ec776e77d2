"""Models of three layers (App. D.3): how even their first layer is, and whether their higher ones show clear patterns.

Even: the overlap of each row with an even one, 1 - total variation, mean over rows of two keys or more. Clear: the
registered relation that fits the head best on half of the strings holds half of its weight on the others.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.looks import INTERPRETABLE, MASS, Looks, choose
from case_studies.page import Table
from case_studies.study import Obtained
from case_studies.words import Cell, Row
from interp.numbers import number, percent
from interp.stats import SHARE, Estimate, clopper_pearson, mean_over_seeds
from interp.worlds.dyck.recipes import grammar_of
from interp.worlds.dyck.task import in_distribution

DEPTH = 3
STRINGS = 200  # drawn; the distinct ones are looked at
EVEN = 0.9  # a layer is called even where its overlap with even rows is larger
MOST = 0.5  # share of the models of a population that counts as most of them


@dataclass(frozen=True)
class Layer:
    """One layer of a population, over its seeds.

    - `even`: overlap with even rows; null: of rows drawn evenly from all that sum to 1, and before training.
    - `clear`: share of models whose head looks interpretable; null: before training.
    - `relations`: what the heads that do fit, and how many of them.
    """

    even: Estimate
    clear: Estimate
    relations: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"even": self.even.to_dict(), "clear": self.clear.to_dict(), "relations": self.relations}


@dataclass(frozen=True)
class Deep:
    """One population of three layers."""

    name: str
    digest: str
    layers: Sequence[Layer]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"digest": self.digest, "layers": [layer.to_dict() for layer in self.layers]}


def measure_deep(one: Obtained) -> Deep:
    """Every layer of a population whose models have one head a layer."""
    recipe, population = one.family.recipe, one.population
    looks = Looks(in_distribution(recipe, STRINGS).inputs, grammar_of(recipe))
    rows: list[list[tuple[float, float, Any, Any]]] = [[] for _ in range(population.config.n_layers)]
    for model, fresh in zip(population, population.untrained(), strict=True):
        for into, now, before in zip(rows, looks.patterns(model), looks.patterns(fresh), strict=True):
            scores, untrained = looks.scores_of(now), looks.scores_of(before)
            fits = choose(MASS, scores, scores), choose(MASS, untrained, untrained)
            into.append((evenness(now, looks.visible), evenness(before, looks.visible), *fits))
    return Deep(one.family.name, one.digest, [_layer(row, random_evenness(looks.visible)) for row in rows])


def _layer(rows: Sequence[tuple[float, float, Any, Any]], random: float) -> Layer:
    even, before, fits, untrained = zip(*rows, strict=True)
    clear = [fit for fit in fits if fit.score >= INTERPRETABLE]
    at_start = sum(fit.score >= INTERPRETABLE for fit in untrained) / len(rows)
    null = {"random_rows": random, "untrained": float(np.mean(before))}
    return Layer(
        mean_over_seeds(even, support=SHARE).with_null(null),
        clopper_pearson(len(clear), len(rows), over="seeds").with_null(at_start),
        dict(Counter(fit.words for fit in clear).most_common()),
    )


def evenness(pattern: NDArray[np.float64], visible: NDArray[np.bool_]) -> float:
    """Mean over rows of two keys or more of 1 - total variation to an even row.

    `pattern` [string, 1, query, key]; `visible` [string, query, key].
    """
    counts = visible.sum(-1)
    even = visible / np.maximum(counts, 1)[..., None]
    overlap = 1 - np.abs(pattern[:, 0] - even).sum(-1) / 2
    return float(overlap[counts > 1].mean())


def random_evenness(visible: NDArray[np.bool_]) -> float:
    """The same of rows drawn evenly from all that sum to 1, exactly: 1 - (1 - 1/n)^n of n keys."""
    n = visible.sum(-1)
    n = n[n > 1]
    return float(np.mean(1 - (1 - 1 / n) ** n))


# -- the page ----------------------------------------------------------------------------------------


def deep_parts(found: Sequence[Deep]) -> list[str | Table]:
    """A table of every layer, and what may be said of the first layer and of the others."""
    if not found:
        return []
    rows: list[Row] = []
    for deep in found:
        for i, layer in enumerate(deep.layers):
            null = layer.even.null
            assert isinstance(null, dict)
            nulls = f"{number(null['random_rows'], 2)} / {number(null['untrained'], 2)}"
            fits = ", ".join(f"{words} ({count})" for words, count in layer.relations.items()) or "–"
            assert isinstance(layer.clear.null, float)
            before = number(layer.clear.null, 2)
            rows.append([f"{deep.name}, layer {i}", Cell(layer.even, 2), nulls, Cell(layer.clear, 2), before, fits])
    even = [deep.name for deep in found if (deep.layers[0].even.low or 0.0) > EVEN]
    higher = [layer.clear for deep in found for layer in deep.layers[1:]]
    rarely = sum(e.high is not None and e.high < MOST for e in higher)
    mostly = sum(e.low is not None and e.low > MOST for e in higher)
    return [
        Table(
            [
                "models, layer",
                "overlap with even rows",
                "random rows / untrained",
                "models with a clear pattern",
                "untrained",
                "which",
            ],
            rows,
            f"Clear: the best of {len(MASS)} relations, chosen on half of the strings, holds at least "
            f"{percent(INTERPRETABLE)} of the weight on the others. Counts with exact intervals.",
            text=[5],
        ),
        f"The first layer overlaps with even rows by more than {EVEN} in {len(even)} of {len(found)} populations, "
        f"by the whole interval. Of the {len(higher)} higher layers, {rarely} show a clear pattern in less than half "
        f"of their models, {mostly} in more than half; in {len(higher) - rarely - mostly} the interval does not say.",
    ]
