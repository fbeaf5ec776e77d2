"""Running many models of one config as one computation: `torch.vmap` over a leading seed axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call

from interp.model import SandboxTransformer

Params = dict[str, Tensor]  # name -> [seed, ...]


def stack_params(models: Sequence[Mapping[str, Tensor]]) -> Params:
    """Stack equally named tensors of several models along a new leading seed axis."""
    return {name: torch.stack([m[name] for m in models]) for name in models[0]}


def stacked_logits(
    template: SandboxTransformer,
    params: Params,
    tokens: Int[Tensor, "*seed batch pos"],
    own_tokens: bool = False,
    **kwargs: Any,
) -> Float[Tensor, "seed batch pos vocab"]:
    """Logits of every seed. With `own_tokens` each seed has its own batch, else all share one.

    `template` gives the architecture; its own weights are not used. Hooks on it would see batched
    tensors, so it must have none.
    """

    def one(p: Params, t: Tensor) -> Tensor:
        return functional_call(template, p, (t,), kwargs)

    return torch.vmap(one, in_dims=(0, 0 if own_tokens else None))(params, tokens)
