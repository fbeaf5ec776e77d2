"""All parameters of all seeds in one aligned buffer [S, P].

Two reasons. The optimizer then does its dozen element-wise operations once instead of once a
parameter. And a seed's numbers do not depend on its neighbours: vector units treat the last few
elements of an array apart, with other rounding, so every parameter starts and ends on a boundary of
`ALIGN` numbers, the same for each seed.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from interp.functional import Params

ALIGN = 64  # float32 numbers; a multiple of every vector width and of a cache line


class FlatParams:
    """`data` and `grad` [S, P], and `leaves`: name -> [S, ...] views of `data` to differentiate by."""

    def __init__(self, params: Params, device: str):
        self.slots: dict[str, tuple[int, torch.Size]] = {}
        end = 0
        for name, p in params.items():
            self.slots[name] = (end, p.shape[1:])
            end += -(-p[0].numel() // ALIGN) * ALIGN
        first = next(iter(params.values()))
        self.data = torch.zeros(first.shape[0], end, dtype=first.dtype, device=device)
        self.grad = torch.zeros_like(self.data)
        self.load(params)
        self.leaves = {name: view.requires_grad_() for name, view in self.views(self.data).items()}

    def views(self, flat: Tensor) -> Params:
        """The named parts of a buffer laid out like `data`, without copying."""
        flat = flat.detach()
        return {
            name: flat[:, begin : begin + math.prod(shape)].unflatten(1, shape)
            for name, (begin, shape) in self.slots.items()
        }

    def set_grad(self, grads: Mapping[str, Tensor]) -> None:
        """Overwrite the named parts of `grad`; parts never named stay 0."""
        views = self.views(self.grad)
        for name, grad in grads.items():
            views[name].copy_(grad)

    def load(self, params: Params) -> None:
        """Overwrite `data`."""
        for name, view in self.views(self.data).items():
            view.copy_(params[name])

    def copy(self, flat: Tensor | None = None) -> Params:
        """Separate CPU copies of the named parts of `data` (or of a buffer laid out like it)."""
        flat = self.data if flat is None else flat
        return {name: view.to("cpu", copy=True).contiguous() for name, view in self.views(flat).items()}

    def flatten(self, params: Params) -> Tensor:
        """A new buffer laid out like `data`."""
        flat = torch.zeros_like(self.data)
        for name, view in self.views(flat).items():
            view.copy_(params[name])
        return flat
