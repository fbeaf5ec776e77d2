"""What the theory says the matrix should be, and how far from it the matrix is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interp.errors import RequestError
from interp.rng import generator
from interp.stats import Estimate
from interp.worlds.topics.theory import TopicTheory
from interp.worlds.topics.value_theory import Family, frobenius
from probes.topics.rows import mean_of
from probes.topics.words import Array, Ints, Kind, Words

SCOPE = "the theorems are for squared loss with even attention"
SHUFFLES = 20  # word orders behind the null of the distances to the theory


@dataclass(frozen=True)
class Aim:
    """A theory with its order of rows ([MASK] first), or the reason why there is none."""

    theory: TopicTheory | None
    reason: str | None
    family: Family = "value"
    order: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def distances(self, matrices: Array, biases: Array | None, seed: int) -> dict[str, Estimate]:
        """Distances over seeds; their null is the mean over random orders of the words."""
        theory = self.theory
        if theory is None:
            return {}
        count = len(self.order)
        shuffled = [
            np.concatenate([self.order[:1], generator(seed, "topic-theory", i).permutation(self.order[1:])])
            for i in range(SHUFFLES)
        ]
        aims = {"closed_form": theory.value_matrix(), "diagonal_form": theory.diagonal_value_matrix()}
        aims = aims if self.family == "value" else {}
        biases = np.zeros((len(matrices), count)) if biases is None else biases
        out: dict[str, list[Array]] = {}
        for order in [self.order, *shuffled]:
            each: dict[str, list[float]] = {}
            for matrix, bias in zip(matrices, biases, strict=True):
                found = _distances(theory, self.family, aims, matrix[np.ix_(order, order)], bias[order])
                for name, value in found.items():
                    each.setdefault(name, []).append(value)
            for name, values in each.items():
                out.setdefault(name, []).append(np.array(values))
        estimates = {}
        for name, (first, *rest) in out.items():
            null = {"permuted": float(np.mean(rest))}
            if name == "block_sum":
                null["theory"] = theory.c3
            estimates[name] = mean_of(first).with_null(null)
        return estimates


def outside_theory(model: Any, models: Sequence[Any]) -> str | None:
    """Why the theorems are not about this population or these models, or None."""
    each = [model] if hasattr(model, "params") else models
    for one in each:
        settings = (getattr(one, "provenance", None) or {}).get("settings") or {}
        loss = settings.get("loss", "mse")
        if loss != "mse":
            return f"{SCOPE}; this model was trained with {loss}"
        attention = getattr(getattr(one, "config", None), "attention", "uniform")
        if attention != "uniform":
            return f"{SCOPE}; this model's attention is {attention}"
    return None


def aim_of(given: TopicTheory | None, kind: Kind, grammar: Any, words: Words, outside: str | None) -> Aim:
    """The theory and its order of rows, or why none applies; `outside`: why not, unless one is `given`."""
    if kind == "attention":
        return Aim(None, "the theory has no closed form of average attention")
    theory = given
    if theory is None:
        if not all(hasattr(grammar, name) for name in ("num_topics", "mask_prob")):
            return Aim(None, "no topic grammar and no theory= were given")
        try:
            theory = TopicTheory.from_grammar(grammar)
        except RequestError as error:
            return Aim(None, f"the grammar is outside the theory: {error}")
        if outside is not None:
            return Aim(None, outside)
    if words.topic is None:
        return Aim(None, "no topic labels were given")
    left_out = np.flatnonzero(~words.kept)
    sizes = set(words.sizes.tolist())
    shape = (len(words.sizes), *sorted(sizes))
    if len(left_out) != 1 or shape != (theory.num_topics, theory.words_per_topic):
        return Aim(
            None,
            f"the theory is for [MASK] and {theory.num_topics} x {theory.words_per_topic} words; here "
            f"{len(left_out)} rows are left out and {len(words.sizes)} topics have {sorted(sizes)} words",
        )
    order = np.concatenate([left_out, np.flatnonzero(words.kept)[np.argsort(words.topic, kind="stable")]])
    return Aim(theory, None, "embedding" if kind == "embedding" else "value", order)


def _distances(
    theory: TopicTheory, family: Family, aims: dict[str, Array], matrix: Array, bias: Array
) -> dict[str, float]:
    out = {name: frobenius(matrix - aim) / frobenius(aim) for name, aim in aims.items()}
    # The attended vector sums to 1, so a bias is the same as that much more in each entry of its row.
    fit = theory.project(matrix + bias[:, None] if family == "value" else matrix, family)
    out["family"] = math.nan if fit.relative is None else fit.relative
    out["block_sum"] = float(theory.block_sum_contrast(matrix).mean())
    return out
