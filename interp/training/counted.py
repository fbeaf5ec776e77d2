"""Held-out strings as weighted (state, counts) rows: evaluation whose cost a prediction does not grow with length.

Positions that see the same counts from the same state get the same prediction (`interp.model.counts`), so each
distinct row is computed once, with the total weight of every true token that follows it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.model.counts import CountModel, counted_logits, log_table, num_states, states_of

if TYPE_CHECKING:
    from interp.training.evaluate import EvalSet

_ROWS = 1024  # rows a forward pass, per seed: what lies in the caches


@dataclass(frozen=True)
class CountedSet:
    """Distinct rows of an `EvalSet`.

    - `query` [row, state]: one-hot state of the own token. `log_counts` [row, state]: of all keys that it sees.
    - `target` [row, vocab]: weight of each true token.
    - `after_closer` [row]: is the own token a closer (closers that follow are not trivial).
    - `at_distance`: open-close distance -> weights [row, type] of closers at that distance.
    - `law`: total surprise (nats) of the exact law at all targets.
    """

    query: NDArray[np.float32]
    log_counts: NDArray[np.float32]
    target: NDArray[np.float32]
    after_closer: NDArray[np.bool_]
    at_distance: dict[int, NDArray[np.float32]]
    law: float


def count_rows(config: TransformerConfig, data: "EvalSet", by_distance: bool) -> CountedSet:
    """`data` as distinct rows, padded to a multiple of 16 by rows of weight 0."""
    width = num_states(config)
    states = states_of(config, torch.from_numpy(data.inputs)).numpy()
    string, position = np.nonzero(data.targets >= 0)
    counts = np.cumsum(np.eye(width, dtype=np.int16)[states], axis=1, dtype=np.int16)[string, position]
    keys = np.concatenate([states[string, position, None].astype(np.int16), counts], axis=1)
    void = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).ravel()
    _, first, row = np.unique(void, return_index=True, return_inverse=True)
    size = -(-max(len(first), 1) // 16) * 16
    weight = data.weight[string]

    def table(column: NDArray[Any], weights: NDArray[Any], columns: int) -> NDArray[np.float32]:
        flat = np.bincount(row * columns + column, weights, minlength=size * columns)
        return flat.reshape(size, columns).astype(np.float32)

    target, own = data.targets[string, position], data.inputs[string, position]
    after_closer = np.zeros(size, dtype=bool)
    after_closer[row] = (own < 2 * data.num_types) & (own % 2 == 1)
    at_distance = {}
    if by_distance:
        distance, closer = data.distance[string, position], data.closer[string, position]
        kind = np.minimum(target // 2, data.num_types - 1)
        for d in np.unique(distance[closer]):
            at_distance[int(d)] = table(kind, weight * (distance == d), data.num_types)
    pad = size - len(first)
    return CountedSet(
        np.eye(width, dtype=np.float32)[np.pad(keys[first, 0], (0, pad))],
        log_table(data.inputs.shape[1])[np.pad(counts[first], ((0, pad), (0, 0)), constant_values=1)],
        table(target, weight, config.d_out),
        after_closer,
        at_distance,
        float((data.law_nll[string, position] * weight).sum()),
    )


def evaluate_counted(
    template: SandboxTransformer, params: Params, data: "EvalSet", by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """`evaluate` through counts: the same metrics, name -> [S], to rounding."""
    rows = count_rows(template.config, data, by_distance)
    like = next(iter(params.values()))
    model = CountModel(template)
    totals: dict[str, Any] = {}

    def add(name: str, value: Tensor, weight: Tensor) -> None:
        old_value, old_weight = totals.get(name, (0.0, 0.0))
        totals[name] = (old_value + value.double(), old_weight + weight.sum().double())

    def part(array: NDArray[Any], rows: slice) -> Tensor:
        return torch.from_numpy(array[rows]).to(like.device, like.dtype)

    with torch.no_grad():
        for begin in range(0, len(rows.query), _ROWS):
            here = slice(begin, begin + _ROWS)
            query, counts = part(rows.query, here), part(rows.log_counts, here)
            logits = torch.vmap(lambda p, q=query, c=counts: counted_logits(model, p, q, c))(params)
            target = part(rows.target, here)
            surprise = ((torch.logsumexp(logits, -1)[..., None] - logits) * target).sum((-1, -2))
            add("loss", surprise, target)
            if data.copying:
                add("copied", _weight_of(target, logits.argmax(-1)), target)
            if data.copying or data.num_types < 2:
                continue  # one type: nothing to get right
            closers = target[:, 1 : 2 * data.num_types : 2]
            nontrivial = closers * part(rows.after_closer, here)[:, None]
            right = right_closers(logits, data.num_types)
            for kind, weight in (("", closers), ("_nontrivial", nontrivial)):
                for rule, of_type in right.items():
                    add(rule + kind, (of_type * weight).sum((-1, -2)), weight)
            for d, weights in rows.at_distance.items():
                add(f"mass@{d}", (right["mass"] * part(weights, here)).sum((-1, -2)), part(weights, here))
    if "loss" in totals:
        loss, weight = totals["loss"]
        totals["excess"] = (loss - rows.law, weight)
    return {name: (v / w).cpu().numpy() for name, (v, w) in totals.items()}


def right_closers(logits: Float[Tensor, "*row vocab"], num_types: int) -> dict[str, Tensor]:
    """For each rule and type whether the closer of that type, were it true, would count as right [..., row, type]."""
    from interp.training.evaluate import MASS_THRESHOLD

    closers = logits[..., 1 : 2 * num_types : 2]
    kinds = torch.arange(num_types, device=logits.device)
    return {
        "argmax": logits.argmax(-1)[..., None] == 2 * kinds + 1,
        "argmax_closers": closers.argmax(-1)[..., None] == kinds,
        "mass": closers.softmax(-1) > MASS_THRESHOLD,
    }


def _weight_of(table: Float[Tensor, "row vocab"], chosen: Tensor) -> Tensor:
    """Total weight of the chosen tokens [S, row] -> [S]."""
    return table.expand(*chosen.shape, -1).gather(-1, chosen[..., None]).sum((-1, -2))
