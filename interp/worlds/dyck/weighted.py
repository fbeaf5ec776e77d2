"""Metrics from cells that stand for several predictions at once, each with the weight of every true token.

Two predictions that a model cannot tell apart have the same logits: they are computed once, in a *cell*, and what
truly follows in either is weighed. `interp.worlds.dyck.counted` and `interp.worlds.dyck.shared` say which these are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from interp.training.evaluation import each_sum

if TYPE_CHECKING:
    from interp.worlds.dyck.evaluate import BracketSet

MASS_THRESHOLD = 0.8


@dataclass(frozen=True)
class Weights:
    """What is to be predicted in each cell.

    - `target` [cell, vocab]: weight of each true token.
    - `after_closer` [cell]: is the own token a closer (closers that follow are not trivial).
    - `at_distance`: open-close distance -> weights [cell, type] of closers at that distance.
    - `law`: total surprise (nats) of the exact law at all targets.
    """

    target: NDArray[np.float32]
    after_closer: NDArray[np.bool_]
    at_distance: dict[int, NDArray[np.float32]]
    law: float


def weigh(
    data: "BracketSet",
    string: NDArray[np.int64],
    position: NDArray[np.int64],
    cell: NDArray[np.int64],
    cells: int,
    vocab: int,
    by_distance: bool,
) -> Weights:
    """Weights of the predictions at (string, position), each in a cell; all three [prediction]."""
    weight = data.weight[string]

    def table(column: NDArray[Any], weights: NDArray[Any], columns: int) -> NDArray[np.float32]:
        flat = np.bincount(cell * columns + column, weights, minlength=cells * columns)
        return flat.reshape(cells, columns).astype(np.float32)

    target, own = data.targets[string, position], data.inputs[string, position]
    after_closer = np.zeros(cells, dtype=bool)
    after_closer[cell] = (own < 2 * data.num_types) & (own % 2 == 1)
    at_distance = {}
    if by_distance:
        distance, closer = data.distance[string, position], data.closer[string, position]
        kind = np.minimum(target // 2, data.num_types - 1)
        for d in np.unique(distance[closer]):
            at_distance[int(d)] = table(kind, weight * (distance == d), data.num_types)
    law = float((data.law_nll[string, position] * weight).sum())
    return Weights(table(target, weight, vocab), after_closer, at_distance, law)


def weighted_metrics(
    data: "BracketSet", weights: Weights, passes: Iterable[tuple[slice, Float[Tensor, "seed cell vocab"]]]
) -> dict[str, NDArray[np.float64]]:
    """The metrics of `interp.worlds.dyck.evaluate.evaluate`; `passes` gives the logits of all cells, some at a time."""
    totals: dict[str, Any] = {}

    def add(name: str, value: Tensor, weight: Tensor) -> None:
        old_value, old_weight = totals.get(name, (0.0, 0.0))
        totals[name] = (old_value + each_sum(value), old_weight + weight.sum().double())

    for here, logits in passes:

        def part(array: NDArray[Any], here: slice = here, like: Tensor = logits) -> Tensor:
            return torch.from_numpy(array[here]).to(like.device, like.dtype)

        target = part(weights.target)
        add("loss", ((torch.logsumexp(logits, -1)[..., None] - logits) * target), target)
        if data.copying:
            add("copied", _weight_of(target, logits.argmax(-1)), target)
        if data.copying or data.num_types < 2:
            continue  # one type: nothing to get right
        closers = target[:, 1 : 2 * data.num_types : 2]
        nontrivial = closers * part(weights.after_closer)[:, None]
        right = right_closers(logits, data.num_types)
        for kind, weight in (("", closers), ("_nontrivial", nontrivial)):
            for rule, of_type in right.items():
                add(rule + kind, (of_type * weight), weight)
        for d, at_distance in weights.at_distance.items():
            chosen = part(at_distance)
            add(f"mass@{d}", (right["mass"] * chosen), chosen)
    if "loss" in totals:
        loss, weight = totals["loss"]
        totals["excess"] = (loss - weights.law, weight)
    return {name: (v / w).cpu().numpy() for name, (v, w) in totals.items()}


def right_closers(logits: Float[Tensor, "*cell vocab"], num_types: int) -> dict[str, Tensor]:
    """For each rule and type whether the closer of that type, were it true, would count as right [..., cell, type]."""
    closers = logits[..., 1 : 2 * num_types : 2]
    kinds = torch.arange(num_types, device=logits.device)
    return {
        "argmax": logits.argmax(-1)[..., None] == 2 * kinds + 1,
        "argmax_closers": closers.argmax(-1)[..., None] == kinds,
        "mass": closers.softmax(-1) > MASS_THRESHOLD,
    }


def _weight_of(table: Float[Tensor, "cell vocab"], chosen: Tensor) -> Tensor:
    """Weight of the chosen tokens [S, cell]."""
    return table.expand(*chosen.shape, -1).gather(-1, chosen[..., None])
