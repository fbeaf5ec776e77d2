"""How interpretable a head's pattern looks: the relation that fits it best on half of the strings, scored on others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.model import SandboxTransformer
from interp.patterns import attention_patterns
from probes.relations import RELATIONS, Relation, relation_scores

Array = NDArray[np.float64]
Scores = dict[str, tuple[float, float]]  # relation -> mean score on half A, on half B

INTERPRETABLE = 0.5  # a head looks interpretable from this score on
MASS = tuple(relation for relation in RELATIONS.values() if relation.kind == "mass")


@dataclass(frozen=True)
class Fit:
    """A relation chosen on half A: its score on half B, and that of the same head before training."""

    relation: str
    words: str
    score: float
    untrained: float


class Looks:
    """Relations laid over strings once, for all models.

    `tokens`: model inputs [string, pos], padded behind. Half A is every other string, beginning with the first.
    `relations`: `MASS` and any others that `choose` is to be asked of. `causal`: whether models see no later key.
    """

    def __init__(
        self, tokens: NDArray[np.int64], grammar: Any, relations: Sequence[Relation] = MASS, causal: bool = True
    ):
        self.tokens = tokens
        real = tokens != grammar.pad
        self.visible = real[:, :, None] & real[:, None, :]
        if causal:
            self.visible &= np.tri(tokens.shape[1], dtype=bool)
        self.keys = {r.name: r.keys(tokens, grammar, self.visible) for r in relations}

    def patterns(self, model: SandboxTransformer) -> list[Array]:
        """Of each layer, [string, head, query, key]."""
        return attention_patterns(model, torch.from_numpy(self.tokens))

    def scores(self, model: SandboxTransformer) -> list[Scores]:
        """Of each layer's only head."""
        return [self.scores_of(layer) for layer in self.patterns(model)]

    def scores_of(self, pattern: Array) -> Scores:
        """Of the only head of one layer, whose pattern is [string, 1, query, key]."""
        return {name: self._halves(pattern, keys) for name, keys in self.keys.items()}

    def _halves(self, pattern: Array, keys: NDArray[np.bool_]) -> tuple[float, float]:
        """Mean over strings of the mean over their rows; strings without a row that counts are left out."""
        rows = relation_scores(pattern, keys, self.visible).rows[:, 0]
        there = ~np.isnan(rows)
        number = there.sum(1)
        each = np.where(there, rows, 0.0).sum(1) / np.maximum(number, 1)
        a, b = (
            float(half[counted > 0].mean()) if (counted > 0).any() else float("nan")
            for half, counted in ((each[0::2], number[0::2]), (each[1::2], number[1::2]))
        )
        return a, b


def choose(options: Sequence[Relation], trained: Scores, untrained: Scores) -> Fit:
    """The one of `options` that fits best on half A."""
    on_a = [trained[relation.name][0] for relation in options]
    chosen = options[int(np.argmax(np.nan_to_num(on_a, nan=-np.inf)))]
    return Fit(chosen.name, chosen.words, trained[chosen.name][1], untrained[chosen.name][1])
