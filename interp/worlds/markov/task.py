"""Training on causal graphs: cross entropy with the kernel's row at the query in the place of one drawn answer."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.training.task import Task, TokenTask
from interp.worlds.markov.graph import CausalGraphGrammar
from interp.worlds.markov.recipes import settings_of


def make_task(template: SandboxTransformer, recipe: Recipe, device: str) -> Task:
    """The task of a recipe: a plain one of chains, and where answers are drawn."""
    of_graph = isinstance(recipe.grammar, CausalGraphGrammar) and settings_of(recipe).answers == "law"
    return (LawTask if of_graph else TokenTask)(template, recipe, device)


class LawTask(TokenTask):
    """`TokenTask` whose one label a string is a law: -sum over states of its probability times the log of the model's
    (slides of seed 003, L2656)."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        super().__init__(template, recipe, device)
        grammar: CausalGraphGrammar = self.grammar
        self.asked = torch.from_numpy(self.layout.start + grammar.length - 1).to(device)  # cell of each string's query

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """Inputs and labels [steps, rows, width], and the laws of the answers [steps, string, state]."""
        found = [self.grammar.draw_with_laws(self.source(seed, step), self.settings.batch) for step in steps]
        strings, laws = zip(*found, strict=True)
        return *self.laid_out(strings), np.stack(laws).astype(np.float32)

    def losses(self, logits: Tensor, targets: Tensor, *more: Tensor) -> Tensor:
        """Cross entropy [rows, width] with the law of each string at its query, 0 elsewhere."""
        (laws,) = more
        asked = torch.log_softmax(logits.flatten(0, 1)[self.asked], -1)
        nats = -(laws * asked).sum(-1)
        return nats.new_zeros(targets.numel()).index_put((self.asked,), nats).view(targets.shape)
