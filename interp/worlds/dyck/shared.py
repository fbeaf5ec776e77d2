"""Evaluation of many short strings, what they have in common computed once.

Among thousands of strings of one law, half of all positions repeat the beginning of another string. Strings sorted by
their tokens share rows: the first lies there whole, the next from where it departs from the one before, and every
position sees its own string only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.functional import Params, stacked_logits
from interp.model import SandboxTransformer
from interp.model.masks import Trusted
from interp.worlds.dyck.weighted import weigh, weighted_metrics

if TYPE_CHECKING:
    from interp.worlds.dyck.evaluate import BracketSet

WIDTH = 64  # positions a row: longer ones share more and attend over more
_ROWS = 24  # rows a forward pass, per seed: what lies in the caches


@dataclass(frozen=True)
class SharedRows:
    """Strings in rows. All arrays [row, column] but `visible` [row, query, key]; `cell` [string, position].

    `cell`: flat index (row * width + column) where each position of each string lies, -1 beyond its end.
    """

    tokens: NDArray[np.int64]
    position: NDArray[np.int64]
    visible: NDArray[np.bool_]
    cell: NDArray[np.int64]


def share_rows(inputs: NDArray[np.int64], lengths: NDArray[np.int64], pad: int) -> SharedRows:
    """Lay strings [string, pos] out; an even number of rows, of a width at which bits do not depend on the stack."""
    longest = int(lengths.max(initial=1))
    width = max(WIDTH, -(-longest // 16) * 16)
    cell = np.full(inputs.shape, -1)
    row, used, before = -1, width, None  # the row being filled, its used columns, the string before
    for i in np.lexsort(inputs.T[::-1]):
        length = int(lengths[i])
        shared = 0
        if before is not None:
            most = min(length, int(lengths[before]))
            differ = np.flatnonzero(inputs[i, :most] != inputs[before, :most])
            shared = int(differ[0]) if len(differ) else most
        if used + length - shared > width:
            row, used, shared = row + 1, 0, 0
        if shared:
            cell[i, :shared] = cell[before, :shared]
        cell[i, shared:length] = row * width + used + np.arange(length - shared)
        used, before = used + length - shared, i
    rows = -(-(row + 1) // 2) * 2
    tokens, position = np.full(rows * width, pad), np.zeros(rows * width, dtype=np.int64)
    visible = np.zeros((rows * width, width), dtype=bool)
    visible[np.arange(rows * width), np.arange(rows * width) % width] = True  # an empty position sees itself
    string, column = np.nonzero(cell >= 0)
    tokens[cell[string, column]], position[cell[string, column]] = inputs[string, column], column
    for back in range(longest):  # each position sees those before it in its string
        s, c = string[column >= back], column[column >= back]
        visible[cell[s, c], cell[s, c - back] % width] = True
    shape = (rows, width)
    return SharedRows(tokens.reshape(shape), position.reshape(shape), visible.reshape(rows, width, width), cell)


def evaluate_shared(
    template: SandboxTransformer, params: Params, data: "BracketSet", rows: SharedRows, by_distance: bool = False
) -> dict[str, NDArray[np.float64]]:
    """`evaluate` of strings that share `rows`: the same metrics, name -> [S], to rounding.

    Not for an oracle first layer, which takes its depths from whole rows.
    """
    string, position = np.nonzero(data.targets >= 0)
    width = rows.tokens.shape[1]
    cells = rows.cell[string, position]
    weights = weigh(data, string, position, cells, rows.tokens.size, template.config.d_out, by_distance)
    device = next(iter(params.values())).device

    def passes() -> Iterator[tuple[slice, Tensor]]:
        for begin in range(0, len(rows.tokens), _ROWS):
            here = slice(begin, begin + _ROWS)
            arrays = (rows.tokens[here], rows.visible[here, None], rows.position[here])
            tokens, seen, places = (torch.from_numpy(array).to(device) for array in arrays)
            logits = stacked_logits(template, params, tokens, visible=Trusted(seen), positions=Trusted(places))
            yield slice(begin * width, (begin + _ROWS) * width), logits.flatten(1, 2)

    with torch.no_grad():
        return weighted_metrics(data, weights, passes())
