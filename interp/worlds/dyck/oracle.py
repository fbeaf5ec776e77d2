"""Oracle first layers: what they give depends on a bracket's type and depth only (Wen et al. 2023, eqs. 15-17)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp.config import TransformerConfig
from interp.model.parts import DTYPE
from interp.worlds.dyck.oracles import oracle_width


class OracleEmbed(nn.Module):
    """Minimal first layer: what it gives depends on a bracket's type and depth only.

    Wen et al. 2023, eqs. 15-17. Both partners carry the depth of the pair (the opener's): as printed,
    eq. 15 maps a closer at depth 0 and the opener before it at depth D to one coordinate. START has
    the last coordinate to itself; END and PAD are zero. Depth starts anew at every START, so that
    several strings can share a row. Depths beyond the bound are clamped.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        assert config.num_types is not None
        assert config.max_depth is not None
        self.num_types, self.max_depth = config.num_types, config.max_depth
        table = oracle_table(config.embedding, self.num_types, self.max_depth)
        self.W_state: Tensor
        self.register_buffer("W_state", table, persistent=False)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return F.embedding(oracle_states(tokens, self.num_types, self.max_depth), self.W_state)


def oracle_states(tokens: Int[Tensor, "batch pos"], num_types: int, max_depth: int) -> Tensor:
    """Index of (type, pair depth) for brackets, then START, END, PAD; an unknown id is outside the table."""
    is_bracket = tokens < 2 * num_types
    is_open = is_bracket & (tokens % 2 == 0)
    is_close = is_bracket & (tokens % 2 == 1)
    depth = torch.cumsum(is_open.long() - is_close.long(), dim=-1)
    places = torch.arange(tokens.shape[-1], device=tokens.device).expand(tokens.shape)
    start = torch.where(tokens == 2 * num_types, places, 0).cummax(dim=-1).values  # last START, or 0
    depth = depth - depth.gather(-1, start) * (start > 0)  # what earlier strings of the row left open
    pair_depth = (depth + is_close.long()).clamp(1, max_depth)
    other = 2 * num_types * (max_depth - 1) + tokens
    return torch.where(is_bracket, tokens * max_depth + pair_depth - 1, other)


def oracle_table(embedding: str, num_types: int, max_depth: int) -> Float[Tensor, "state d_model"]:
    """Rows e(token, pair depth) in the order of `oracle_states`: brackets, START, END and PAD (zero)."""
    width = oracle_width(embedding, num_types, max_depth)
    table = torch.zeros(2 * num_types * max_depth + 3, width, dtype=DTYPE)
    for token in range(2 * num_types):
        for d in range(1, max_depth + 1):
            row = table[token * max_depth + d - 1]
            if embedding == "minimal":
                row[token * max_depth + d - 1] = 1.0
            elif embedding == "minimal-sum":
                row[token] = row[2 * num_types + d - 1] = 1.0
            else:
                angle = math.atan(d / (max_depth + 2 - d))
                row[token] = 1.0
                row[2 * num_types], row[2 * num_types + 1] = math.cos(angle), math.sin(angle)
    table[-3, -1] = 1.0
    return table


def states_of(config: TransformerConfig, tokens: Int[Tensor, "*batch pos"]) -> Tensor:
    """`oracle_states` for the sizes of a config."""
    assert config.num_types is not None
    assert config.max_depth is not None
    return oracle_states(tokens, config.num_types, config.max_depth)
