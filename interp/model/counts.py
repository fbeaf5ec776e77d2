"""One layer without positions, exactly, from counts: no work that grows with the length of a string.

What such a layer gives at a position depends on the *state* of its own token and on how often each state occurs
among the keys it sees. States are those that an oracle first layer tells apart, and tokens of any other embedding:

    z(q, c) = sum_s c_s exp(score(q, s)) v_s / sum_s c_s exp(score(q, s))
            = softmax over s of (score(q, s) + log c_s), applied to the v_s.

Queries, keys, values and scores are thus computed once a state instead of once a position. Hooks of the attention
do not run: a model that carries one is evaluated position by position.
"""

from typing import Any

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from interp.config import TransformerConfig
from interp.model.blocks import BareAttention
from interp.model.parts import Attention, LayerNorm, UniformAttention, heads_in
from interp.model.products import times
from interp.model.transformer import SandboxTransformer
from interp.world import load


def states_of(config: TransformerConfig, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
    """The state of each token: row of the embedding's table."""
    if config.oracle is None:
        return tokens
    found: Tensor = load(config.oracle.read)(config, tokens)
    return found


def num_states(config: TransformerConfig) -> int:
    """Rows of the embedding's table, rounded up to a multiple of 4.

    A seed's bits depend on where in a stack it lies unless its matrices start on 64-byte boundaries.
    """
    return -(-config.num_states // 4) * 4


class CountModel(nn.Module):
    """A `SandboxTransformer` of one layer as a function of (states, counts). `model` gives the parts."""

    def __init__(self, model: SandboxTransformer):
        super().__init__()
        self.model = model

    def forward(
        self, query: Float[Tensor, "*batch row state"], log_counts: Float[Tensor, "*batch row state"]
    ) -> Float[Tensor, "*batch row vocab"]:
        """Logits of rows: `query` is the one-hot state of the own token, `log_counts` those of all visible keys."""
        block: Any = self.model.blocks[0]
        embed: Any = self.model.embed
        table = embed.W_state if hasattr(embed, "W_state") else embed.W_E  # [state, d_model]
        table = F.pad(table, (0, 0, 0, query.shape[-1] - table.shape[0]))  # states that never occur
        read = block.read(table)
        pattern = state_pattern(block.attn, read, query, log_counts)
        values = by_head(read, block.attn.W_V, block.attn.b_V)
        if (
            isinstance(block, BareAttention)
            and isinstance(block.ln1_post, LayerNorm)
            and self.model.config.n_heads == 1
        ):
            return norm_and_unembed(block.ln1_post, self.model.unembed, pattern[..., 0, :, :], values[0])
        attended = block.attn.project(times(pattern, values).transpose(-2, -3))
        return self.model.unembed(self.model.ln_final(block.finish(query @ table, attended)))


def state_pattern(
    attn: UniformAttention,
    x: Float[Tensor, "state d_model"],
    query: Float[Tensor, "*batch row state"],
    log_counts: Float[Tensor, "*batch row state"],
) -> Float[Tensor, "*batch head row state"]:
    """Attention of rows to states (to all keys of a state together), where `x` is what `attn` reads of each state."""
    if not isinstance(attn, Attention):
        return log_counts.softmax(-1)[..., None, :, :].expand(*log_counts.shape[:-2], attn.W_V.shape[0], -1, -1)
    q, k = by_head(x, attn.W_Q, attn.b_Q), by_head(x, attn.W_K, attn.b_K)
    scores = q @ k.transpose(-1, -2) * (1 / attn.attn_scale)  # [head, state, state]
    # A product with a one-hot is exact, and its gradient is a product too, not a scatter.
    return (query[..., None, :, :] @ scores + log_counts[..., None, :, :]).softmax(-1)


def by_head(
    x: Float[Tensor, "state d_model"], w: Float[Tensor, "head d_model d_head"], b: Tensor
) -> Float[Tensor, "head state d_head"]:
    """x W + b, a contiguous matrix a head (MKL takes strided ones by other paths, with other rounding)."""
    return heads_in(x, w, b).transpose(0, 1).contiguous()


def norm_and_unembed(
    norm: LayerNorm,
    unembed: nn.Module,
    pattern: Float[Tensor, "*batch row state"],
    values: Float[Tensor, "state width"],
) -> Float[Tensor, "*batch row vocab"]:
    """unembed(norm(pattern @ values)), the linear maps applied once a state or a token instead of once a row."""
    centred = values - values.mean(-1, keepdim=True)  # a pattern's rows sum to 1: centring values centres the mix
    mixed = pattern @ centred
    inverse = (mixed.square().mean(-1, keepdim=True) + norm.eps).rsqrt()
    weight: Any = unembed.W_U
    bias: Any = unembed.b_U
    if norm.affine:
        bias = bias + (norm.b[:, None] * weight).sum(0)  # as a product of one row its gradient's bits know the stack
        weight = norm.w[:, None] * weight
    return times(mixed, weight) * inverse + bias


def counted_logits(
    model: CountModel, params: dict[str, Tensor], query: Tensor, log_counts: Float[Tensor, "*batch row state"]
) -> Float[Tensor, "*batch row vocab"]:
    """Logits with `params` (named as in the `SandboxTransformer`) in place of the model's own."""
    return functional_call(model, {f"model.{name}": p for name, p in params.items()}, (query, log_counts))


def count_arrays(
    states: NDArray[np.int64], before: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """One-hot states and log counts of visible states, both [..., pos, state].

    `states` [..., row, pos]; `before` [row or 1, pos]: each position sees so many positions before itself, and itself.
    log 0 is -inf.
    """
    query = np.eye(count, dtype=np.float32)[states]
    counts = query.astype(np.int32)
    np.cumsum(counts, axis=-2, out=counts)
    rows, width = states.shape[-2:]
    first = np.broadcast_to(np.arange(width) - before, (rows, width))
    if first.any():  # take off what the row held before
        until = np.pad(counts, [(0, 0)] * (counts.ndim - 2) + [(1, 0), (0, 0)])
        counts -= until[..., np.arange(rows)[:, None], first, :]
    return query, log_table(width)[counts]


def log_table(most: int) -> NDArray[np.float32]:
    """Logarithms of 0 (-inf) to `most`."""
    with np.errstate(divide="ignore"):
        return np.log(np.arange(most + 1)).astype(np.float32)
