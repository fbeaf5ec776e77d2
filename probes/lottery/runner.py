"""Running a pruned network on the few entries that are left, at float64 or float32.

A pruned matrix is nearly all zeros, in whole rows and columns. Leaving those out of the products changes no
sum (they would add zeros), and is far cheaper than the model itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from interp.model import SandboxTransformer
from probes.lottery.pruning import extended_norm
from probes.lottery.subset_sum import Mask
from probes.lottery.ticket import ATTENTION, MLPS, Ticket

AT_ONCE = 16  # inputs: what lies between two matrices then stays in the caches


@dataclass(frozen=True)
class Trimmed:
    """Matrices one after the other, [in, h], [h, h'], ..., without the rows and columns that carry nothing."""

    rows: Tensor
    columns: Tensor
    blocks: tuple[Tensor, ...]
    width: int

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray], dtype: torch.dtype, live: Mask) -> "Trimmed":
        """`live`: input coordinates that can differ from 0; others are left out too."""
        filled = [m != 0 for m in matrices]
        filled[0] &= live[:, None]
        kept = [np.flatnonzero(filled[0].any(1))]
        for before, after in pairwise(filled):
            kept.append(np.flatnonzero(before.any(0) & after.any(1)))
        kept.append(np.flatnonzero(filled[-1].any(0)))
        blocks = [m[np.ix_(*pair)] for m, pair in zip(matrices, pairwise(kept), strict=True)]
        places = torch.from_numpy(kept[0]), torch.from_numpy(kept[-1])
        return cls(*places, tuple(torch.from_numpy(b).to(dtype) for b in blocks), matrices[-1].shape[1])

    @property
    def empty(self) -> bool:
        """Whether the output is 0 whatever the input."""
        return self.columns.numel() == 0

    @property
    def written(self) -> Mask:
        """Which outputs can differ from 0, [out]."""
        out = np.zeros(self.width, dtype=bool)
        out[self.columns.numpy()] = True
        return out

    def __call__(self, x: Tensor) -> Tensor:
        """ReLUs stand between the matrices."""
        out = x.new_zeros(*x.shape[:-1], self.width)
        x = x[..., self.rows]
        for i, block in enumerate(self.blocks):
            x = (x.relu() if i else x) @ block
        out[..., self.columns] = x
        return out


@dataclass(frozen=True)
class TrimmedLayer:
    """One pruned layer of eq. 6, bias-free, LN_C[1] on the attention output."""

    query: Trimmed
    key: Trimmed
    value: Trimmed
    mlp: Trimmed
    c: float

    def __call__(self, x: Tensor, visible: Tensor, attend: bool = False) -> tuple[Tensor, Tensor | None]:
        """The stream after the layer, and the pattern [batch, query, key] if it is used or asked for."""
        pattern = None
        if attend or not self.value.empty:
            scores = self.query(x) @ self.key(x).transpose(-1, -2)
            pattern = scores.masked_fill(~visible[:, 0], -torch.inf).softmax(-1)
            if not self.value.empty:  # else LN(0) = 0
                x = x + extended_norm(pattern @ self.value(x), self.c)
        return self.mlp(x), pattern


class Runner:
    """A pruned network without its zeros."""

    def __init__(self, ticket: Ticket, dtype: torch.dtype = torch.float64):
        self.width, self.d_model, self.dtype = ticket.target.width, ticket.config.d_model, dtype
        live = np.arange(self.d_model) < self.width
        self.layers = []
        for i in range(ticket.config.n_layers):
            weights = [ticket.weights(f"blocks.{i}.{kind}")[0] for kind in ATTENTION]
            query, key, value = (Trimmed.of([w], dtype, live) for w in weights)
            whole = live if value.empty else np.ones_like(live)  # centring reaches every coordinate
            mlp = Trimmed.of([ticket.weights(f"blocks.{i}.{kind}") for kind in MLPS], dtype, whole)
            self.layers.append(TrimmedLayer(query, key, value, mlp, ticket.config.norm_eps))
            live = mlp.written

    def __call__(
        self, x: Tensor, visible: Tensor, patterns: tuple[int, ...] = (), whole: bool = False
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """From the target's stream [batch, pos, m] to the last one, also [batch, pos, m]: what the unembedding reads.

        `whole`: [batch, pos, d_model] instead. Also the attention patterns of the layers `patterns`, [batch, query,
        key].
        """
        out: list[Tensor] = []
        seen: dict[int, list[Tensor]] = {i: [] for i in patterns}
        for part, sees in zip(x.split(AT_ONCE), visible.split(AT_ONCE), strict=True):
            stream = torch.nn.functional.pad(part.to(self.dtype), (0, self.d_model - self.width))
            for i, layer in enumerate(self.layers):
                stream, pattern = layer(stream, sees, i in patterns)
                if i in seen and pattern is not None:
                    seen[i].append(pattern)
            out.append(stream if whole else stream[..., : self.width].clone())
        return torch.cat(out), {i: torch.cat(p) for i, p in seen.items()}


def target_stream(model: SandboxTransformer, x: Tensor, visible: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The target's last stream [batch, pos, m] for an input stream x, and each layer's pattern, at x's precision."""
    patterns = []
    for block in model.blocks:
        patterns.append(block.attn.pattern(x, visible)[:, 0])
        x = block(x, visible)
    return x, patterns


def input_stream(model: SandboxTransformer, tokens: Tensor) -> Tensor:
    """What the first layer reads: embedding and positions, [batch, pos, m].

    PAD beyond n_ctx has the last position, as in `evaluate`: nobody sees or scores it.
    """
    x: Tensor = model.embed(tokens)
    if model.pos_embed is not None:
        places = torch.arange(tokens.shape[-1]).clamp(max=model.config.n_ctx - 1)[None].expand(tokens.shape)
        x = x + model.pos_embed(places)
    return x


def largest_column(x: Tensor) -> Tensor:
    """The paper's 1,2-norm of each input: the largest 2-norm of a position, [batch, pos, m] -> [batch]."""
    return torch.linalg.vector_norm(x, dim=-1).amax(-1)
