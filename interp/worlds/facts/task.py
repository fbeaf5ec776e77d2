"""Training of models of facts: masked cross entropy at END; from the slides' first weights, two maps alone learn."""

from typing import Any

import torch

from interp.functional import Params
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.training.task import Task, TokenTask
from interp.worlds.facts.recipes import settings_of

KEYS, VALUES = "blocks.0.attn.W_K", "blocks.0.attn.W_V"


def make_task(template: SandboxTransformer, recipe: Recipe, device: str) -> Task:
    """The task of a recipe."""
    task = TokenTask(template, recipe, device)
    if settings_of(recipe).start == "slides":
        task.trained = [KEYS, VALUES]
    return task


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
