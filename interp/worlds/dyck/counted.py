"""Evaluation through counts: what a prediction costs does not grow with the length of its string.

Positions that see the same counts from the same state get the same prediction (`interp.model.counts`), so each
distinct (state, counts) is one cell.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.model.counts import CountModel, counted_logits, log_table, num_states, states_of
from interp.worlds.dyck.weighted import Weights, weigh, weighted_metrics

if TYPE_CHECKING:
    from interp.worlds.dyck.evaluate import BracketSet

_CELLS = 1024  # cells a forward pass, per seed: what lies in the caches


def count_cells(
    config: TransformerConfig, data: "BracketSet", by_distance: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32], Weights]:
    """One-hot states and log counts [cell, state] of all distinct cells, and their weights.

    Padded to a multiple of 16 by cells of weight 0.
    """
    width = num_states(config)
    states = states_of(config, torch.from_numpy(data.inputs)).numpy()
    string, position = np.nonzero(data.targets >= 0)
    counts = np.cumsum(np.eye(width, dtype=np.int16)[states], axis=1, dtype=np.int16)[string, position]
    keys = np.concatenate([states[string, position, None].astype(np.int16), counts], axis=1)
    void = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).ravel()
    _, first, cell = np.unique(void, return_index=True, return_inverse=True)
    size = -(-max(len(first), 1) // 16) * 16
    pad = size - len(first)
    query = np.eye(width, dtype=np.float32)[np.pad(keys[first, 0], (0, pad))]
    logs = log_table(data.inputs.shape[1])[np.pad(counts[first], ((0, pad), (0, 0)), constant_values=1)]
    return query, logs, weigh(data, string, position, cell, size, config.d_out, by_distance)


def evaluate_counted(
    template: SandboxTransformer, params: Params, data: "BracketSet", by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """`evaluate` through counts: the same metrics, name -> [S], to rounding."""
    query, logs, weights = count_cells(template.config, data, by_distance)
    like = next(iter(params.values()))
    model = CountModel(template)

    def passes() -> Iterator[tuple[slice, Tensor]]:
        for begin in range(0, len(query), _CELLS):
            here = slice(begin, begin + _CELLS)
            q, c = (torch.from_numpy(x[here]).to(like.device, like.dtype) for x in (query, logs))
            yield here, torch.vmap(lambda p, q=q, c=c: counted_logits(model, p, q, c))(params)

    with torch.no_grad():
        return weighted_metrics(data, weights, passes())
