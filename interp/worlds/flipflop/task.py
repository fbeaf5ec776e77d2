"""Training of flip-flop models: masked cross entropy, and the penalties that sharpen attention."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.functional import Params
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.training.task import Task, TokenTask
from interp.worlds.flipflop.recipes import settings_of

LEAST = 1e-12  # weights below count as this in a logarithm, so that its gradient is finite


def entropy(pattern: Tensor) -> Tensor:
    """Entropy (nats) of each query's attention [..., key] -> [...]."""
    return -(pattern * pattern.clamp(min=LEAST).log()).sum(-1)


def minus_l2norm(pattern: Tensor) -> Tensor:
    """Minus the 2-norm of each query's attention."""
    return -(pattern.square().sum(-1) + LEAST).sqrt()


def minus_maximum(pattern: Tensor) -> Tensor:
    """Minus the largest weight of each query's attention."""
    return -pattern.amax(-1)


PENALTIES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "entropy": entropy,
    "l2norm": minus_l2norm,
    "maximum": minus_maximum,
}


def make_task(template: SandboxTransformer, recipe: Recipe, device: str) -> Task:
    """The task of a recipe: a plain one where attention is not sharpened."""
    return (TokenTask if settings_of(recipe).sharpen == "none" else SharpTask)(template, recipe, device)


class SharpTask(TokenTask):
    """`TokenTask` with a penalty on the attention of every query of every string; `FlipFlopSettings` says which."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        super().__init__(template, recipe, device)
        self.sharpening = settings_of(recipe)
        self.each = PENALTIES[self.sharpening.sharpen]
        self.queries = torch.from_numpy(self.layout.segment >= 0).to(device)  # [rows, query], empty ones left out

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """Inputs and labels [steps, rows, width], and the weight of the penalty [steps]."""
        weights = np.array([self.sharpening.sharpening(step) for step in steps], dtype=np.float32)
        return *super().draw(seed, steps), weights

    def penalty(self, params: Params, patterns: Sequence[Tensor], *more: Tensor) -> Tensor:
        """The weight of this step times the mean over layers, heads and queries."""
        (weight,) = more
        chosen = patterns[:1] if self.sharpening.sharpen_layers == "first" else patterns
        return weight * torch.stack([self._mean(pattern) for pattern in chosen]).mean()

    def _mean(self, pattern: Tensor) -> Tensor:
        each = self.each(pattern).mean(1)  # over heads: [rows, query]
        return (each * self.queries).sum() / self.queries.sum()
