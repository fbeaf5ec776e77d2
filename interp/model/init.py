"""Initial weights as a pure function of (config, seed): the same on every device and in every population."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from interp.rng import generator


def init_params(model: nn.Module, init_std: float, n_layers: int, seed: int) -> dict[str, Tensor]:
    """Fresh weights for every parameter of `model`, float32 on the CPU.

    GPT-2's scheme: N(0, init_std), the two matrices that write to the residual stream divided by
    sqrt(2 n_layers), biases 0, norm gains 1. Each tensor has its own stream, keyed by its name, so
    that two configs that share a tensor start it alike.
    """
    params = {}
    for name, parameter in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        shape = tuple(parameter.shape)
        if leaf.startswith(("W_", "w_")):
            std = init_std / math.sqrt(2 * n_layers) if leaf in ("W_O", "W_out") else init_std
            draw = generator(seed, f"init/{name}").standard_normal(shape)
            params[name] = torch.from_numpy((std * draw).astype(np.float32))
        else:
            params[name] = torch.full(shape, float(leaf == "w"), dtype=torch.float32)
    return params
