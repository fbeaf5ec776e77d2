"""What heads give on other inputs of a task, those that have no claimed edge among them.

A claim is tried on inputs in which the claimed edges are there, with donors in which they are there as well. A head
may tell that there is one, or by how much weight it has what the donors leave as it is: no exchange along the edges
shows that. An exchange of all that it gives, for what it gives on any other input, does.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.rng import generator
from probes.audit.edits import Edges, Head
from probes.audit.exchanges import whole_rows
from probes.audit.side import Side


@dataclass(frozen=True)
class Other:
    """Of each pair another input of the task: patterns, v and z as in `Cache`, by layer; its claimed `keys`."""

    patterns: dict[int, Tensor]
    v: dict[int, Tensor]
    z: dict[int, Tensor]
    keys: Tensor


class Others:
    """Other inputs for the pairs of a side, drawn from all donors and the inputs that were left out of it.

    The donors, since all items may have one right answer. `keys` are the pairs' claimed edges, `donors` their
    donors', `aside` those of the inputs that were left out. Nothing is kept of layers that none of `heads` is in.
    """

    def __init__(
        self, side: Side, heads: tuple[Head, ...], keys: Tensor, donors: Tensor, aside: Tensor | None, seed: int
    ):
        self.side, self.keys, self.donors, self.aside, self.seed = side, keys, donors, aside, seed
        self.heads, self.layers = heads, sorted({layer for layer, _ in heads})

    @cached_property
    def drawn(self) -> Other:
        """One for each pair, of its length where there is one."""
        side = self.side
        pools = [(side.donor_cache, side.pairs, self.donors)]
        if side.aside is not None and self.aside is not None:
            pools.append((side.aside_cache, side.aside, self.aside))
        of_all = np.concatenate([items.upto.sum(1) for _, items, _ in pools])
        which = torch.from_numpy(_as_long(side.pairs.upto.sum(1), of_all, self.seed)).to(self.keys.device)
        patterns, v, z = (
            {layer: torch.cat([getattr(cache, part)[layer] for cache, _, _ in pools])[which] for layer in self.layers}
            for part in ("patterns", "v", "z")
        )
        return Other(patterns, v, z, torch.cat([keys for _, _, keys in pools])[which])

    def output(self) -> list[Edges]:
        """Edits by which the heads give all that they give there."""
        out = []
        for layer in self.layers:
            z = self.side.cache.z[layer]
            mine = tuple(head for at, head in self.heads if at == layer)
            none = torch.zeros(z.shape[0], z.shape[1], z.shape[1], dtype=torch.bool, device=z.device)
            out.append(Edges(layer, mine, none, add=self.drawn.z[layer] - z))
        return out

    def unclaimed(self) -> list[Edges]:
        """The same of patterns and values off the claimed edges alone, which keep their weights and values."""
        rows = self.side.lives(False)[..., None].expand_as(self.keys)
        return whole_rows(self.side, rows, self.heads, True, self.keys | self.drawn.keys, self.drawn)


def _as_long(length: NDArray[np.int64], pool: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """For each length one of the pool at random: of that length, or else of the next one there is."""
    rng = generator(seed, "audit/others")
    by_length = rng.permutation(len(pool))
    by_length = by_length[np.argsort(pool[by_length], kind="stable")]
    first, past = (np.searchsorted(pool[by_length], length, end) for end in ("left", "right"))
    at = first + np.floor(rng.random(len(length)) * np.maximum(past - first, 1)).astype(np.int64)
    return by_length[np.minimum(at, len(pool) - 1)]
