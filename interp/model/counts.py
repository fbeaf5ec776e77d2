"""One layer without positions, exactly, from counts: no work that grows with the length of a string.

What such a layer gives at a position depends on the *state* of its own token and on how often each state occurs
among the keys it sees. States are (type, depth) of an oracle first layer, and tokens of any other embedding:

    z(q, c) = sum_s c_s exp(score(q, s)) v_s / sum_s c_s exp(score(q, s))
            = softmax over s of (score(q, s) + log c_s), applied to the v_s.

Queries, keys, values and scores are thus computed once a state instead of once a position. Hooks of the attention
do not run: a model that carries one is evaluated position by position.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from interp.config import MINIMAL_EMBEDDINGS, TransformerConfig
from interp.model.parts import Attention, UniformAttention, heads_in, oracle_states
from interp.model.transformer import SandboxTransformer


def counts_suffice(config: TransformerConfig) -> bool:
    """Do a causal model's logits depend on nothing but its token's state and the counts of visible states?"""
    return config.n_layers == 1 and config.positions == "none" and config.direction == "causal"


def states_of(config: TransformerConfig, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
    """The state of each token: row of the embedding's table."""
    if config.embedding not in MINIMAL_EMBEDDINGS:
        return tokens
    assert config.num_types is not None
    assert config.max_depth is not None
    return oracle_states(tokens, config.num_types, config.max_depth)


def num_states(config: TransformerConfig) -> int:
    """Rows of the embedding's table."""
    if config.embedding not in MINIMAL_EMBEDDINGS:
        return config.d_vocab
    return 2 * (config.num_types or 0) * (config.max_depth or 0) + 3


class CountModel(nn.Module):
    """A `SandboxTransformer` of one layer as a function of (states, counts). `model` gives the parts."""

    def __init__(self, model: SandboxTransformer):
        super().__init__()
        self.model = model

    def forward(
        self, query: Float[Tensor, "*row state"], counts: Float[Tensor, "*row state"]
    ) -> Float[Tensor, "*row vocab"]:
        """Logits of rows: `query` is the one-hot state of the own token, `counts` those of all visible keys."""
        block: Any = self.model.blocks[0]
        embed: Any = self.model.embed
        table = embed.W_state if hasattr(embed, "W_state") else embed.W_E  # [state, d_model]
        attended = attend(block.attn, block.read(table), query, counts)
        return self.model.unembed(self.model.ln_final(block.finish(query @ table, attended)))


def attend(
    attn: UniformAttention,
    x: Float[Tensor, "state d_model"],
    query: Float[Tensor, "*row state"],
    counts: Float[Tensor, "*row state"],
) -> Float[Tensor, "*row d_out"]:
    """What `attn` gives at rows (query, counts), where `x` is what it reads of each state."""
    values = heads_in(x, attn.W_V, attn.b_V).transpose(0, 1)  # [head, state, d_head]
    if isinstance(attn, Attention):
        q = heads_in(x, attn.W_Q, attn.b_Q).transpose(0, 1)
        k = heads_in(x, attn.W_K, attn.b_K).permute(1, 2, 0)
        scores = q @ k * (1 / attn.attn_scale)  # [head, state, state]
        # A product with a one-hot is exact, and its gradient is a product too, not a scatter.
        logits = query[..., None, :, :] @ scores + counts.log()[..., None, :, :]
        pattern = logits.softmax(-1)  # [..., head, row, state]
    else:
        pattern = (counts / counts.sum(-1, keepdim=True))[..., None, :, :]
    return attn.project((pattern @ values).transpose(-2, -3))


def counted_logits(
    model: CountModel, params: dict[str, Tensor], query: Float[Tensor, "*row state"], counts: Tensor
) -> Float[Tensor, "*row vocab"]:
    """Logits with `params` (named as in the `SandboxTransformer`) in place of the model's own."""
    return functional_call(model, {f"model.{name}": p for name, p in params.items()}, (query, counts))


def is_hooked(model: SandboxTransformer) -> bool:
    """Does any part of the model carry a hook, of TransformerLens or of torch?"""
    return any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())


def one_hot(states: Int[Tensor, "*row"], count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """[..., state]. A look-up, because `torch.nn.functional.one_hot` checks its input and so waits for a device."""
    return torch.eye(count, dtype=dtype, device=states.device)[states]
