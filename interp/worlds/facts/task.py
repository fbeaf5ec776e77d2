"""Training of models of facts: masked cross entropy at END; from the slides' first weights, two maps alone learn."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.functional import Params, stacked_logits
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.rng import generator
from interp.training.task import Task, TokenTask
from interp.worlds.facts.recipes import settings_of

KEYS, VALUES = "blocks.0.attn.W_K", "blocks.0.attn.W_V"
FROZEN = ("embed.", "unembed.")


STRINGS = 400  # held out, on which predictions are compared with those of the rungs


def make_task(template: SandboxTransformer, recipe: Recipe, device: str) -> Task:
    """The task of a recipe."""
    return FactsTask(template, recipe, device)


class FactsTask(TokenTask):
    """`TokenTask` that measures, beside it, how far predictions at END are from what each rung predicts.

    - `kl/<rung>`: KL(rung, model), nats, mean over strings; `kl/fact` is from the law, p(a | s, r).
    - `accuracy_block`: the likeliest answer is one of the relation's.
    """

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        super().__init__(template, recipe, device)
        settings = settings_of(recipe)
        if settings.start == "slides":
            self.trained = [KEYS, VALUES]
        elif settings.trained == "maps":
            self.trained = [name for name in self.trained if not name.startswith(FROZEN)]
        tokens = self.grammar.draw(generator(0, "facts/predictions"), STRINGS)
        self.told = self.grammar.predictions(tokens)
        self.block = torch.from_numpy(self.grammar.blocks[self.grammar.facts(tokens)[1]]).to(device)
        self.held = torch.from_numpy(tokens).to(device)

    def metrics(self, params: Params, final: bool) -> dict[str, NDArray[Any]]:
        """Those of `TokenTask`, and the distances, each [seed]."""
        with torch.no_grad():
            logits = stacked_logits(self.template, params, self.held, first=self.length - 1)[:, :, 0]
        nats = -torch.log_softmax(logits.double(), -1).cpu().numpy()
        found = super().metrics(params, final)
        for name, told in self.told.items():
            known = np.where(told > 0, told, 1.0)
            found[f"kl/{name}"] = (told * (nats + np.log(known))).sum(-1).mean(-1)
        best = logits.argmax(-1, keepdim=True)
        inside = self.block.expand(len(best), -1, -1).gather(-1, best)[..., 0]
        found["accuracy_block"] = inside.double().mean(-1).cpu().numpy()
        return found


def start(params: Params, recipe: Recipe) -> Params:
    """First weights of each seed: as drawn, or the slides' (see `FactsSettings`)."""
    settings: Any = settings_of(recipe)
    if settings.start == "drawn":
        return params
    made = {name: torch.zeros_like(p) for name, p in params.items()}
    made["blocks.0.attn.W_Q"][..., 0] = 1.0
    made[KEYS][..., 0] = settings.alpha
    made[VALUES] += settings.alpha
    return made
