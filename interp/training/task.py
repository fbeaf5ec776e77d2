"""What a training run needs of its task, and the one that serves every world that writes none."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from interp.errors import ConfigError, WorldError, quoted
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.model.masks import Trusted
from interp.recipe import Recipe, string_length
from interp.rng import generator
from interp.training.evaluation import EvalSet, evaluate, plain_set
from interp.training.given import drawn, labelled
from interp.training.layout import IGNORE, Layout, pack

DRAW_AHEAD = 32  # steps whose batches are drawn together, at most
DRAW_BYTES = 2.5e7  # what these may hold, a seed
EVAL_STRINGS, FINAL_STRINGS = 400, 4000


class Task(Protocol):
    """What a training run needs to know of its task."""

    trained: list[str]  # names of the parameters that learn
    ahead: int  # how many steps' batches are drawn together; not by how many seeds there are, which none must know

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """Batches of one seed, arrays [steps, ...]."""

    def __call__(self, params: Params, *batch: Tensor) -> Tensor:
        """Loss of each seed [S]; `params` and `batch` have a leading seed axis."""

    def metrics(self, params: Params, final: bool) -> Mapping[str, NDArray[Any]]:
        """Held-out measurements, each [S]."""


def make_task(template: SandboxTransformer, recipe: Recipe, device: str) -> Task:
    """What the recipe's world asks a model to do."""
    own = recipe.world.load("task")
    made: Task = TokenTask(template, recipe, device) if own is None else own(template, recipe, device)
    return made


class TokenTask:
    """Masked cross entropy on labels: language models, transduction (a label per position) and classification.

    The grammar gives `draw(rng, count)` -> token ids [count, length], and `labels(tokens)` -> the label of each
    position [count, length], -100 where there is none (a classifier's label stands at the last position). Strings
    that end early are filled up with the grammar's `pad`. Each string lies in a slot of its own and sees only itself,
    in a layout that is the same at every step, so that a seed's bits do not depend on which others train beside it.
    """

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        self.template, self.settings, self.recipe = template, recipe.settings, recipe
        self.grammar: Any = recipe.grammar
        self.trained = [name for name, _ in template.named_parameters()]
        self.length = string_length(self.grammar)
        self.layout = pack(np.full(recipe.settings.batch, self.length - 1), self.length)
        self.where = placed(self.layout, device, recipe.config.direction == "causal")
        cells = self.layout.rows * self.layout.width
        self.ahead = max(1, min(DRAW_AHEAD, int(DRAW_BYTES / (16 * cells))))
        self._penalised = type(self).penalty is not TokenTask.penalty
        self._losses = torch.vmap(self._one)
        self._sets: dict[int, EvalSet] = {}

    def penalty(self, params: Params, patterns: Sequence[Tensor], *more: Tensor) -> Tensor:
        """What is added to the loss of one seed, a number; a task of one's own that writes it adds it.

        - `patterns`: the attention of this very batch, a tensor [rows, head, query, key] a layer (where each string
          lies is told by `self.layout`); gradients go through them.
        - `more`: what the task's own `draw` gives beside inputs and labels, of this seed and step.
        """
        raise NotImplementedError

    def losses(self, logits: Tensor, targets: Tensor, *more: Tensor) -> Tensor:
        """Loss at each position [rows, width] of one seed, of which those with a label count.

        A task of one's own that asks for more than a label per position writes it; `more` as of `penalty`.
        """
        return masked_losses(logits, targets, self.settings.loss)

    def source(self, seed: int, step: int) -> np.random.Generator:
        """What a step's strings are drawn from."""
        return generator(seed, "train", step)

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """Inputs and labels [steps, rows, width], a function of (seed, step)."""
        return self.laid_out([self.grammar.draw(self.source(seed, step), self.settings.batch) for step in steps])

    def laid_out(self, strings: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Inputs and labels [steps, rows, width] of the strings [batch, length] of each step, in their slots."""
        batch = self.settings.batch
        parts = [drawn(self.grammar, part, batch) for part in strings]
        if any(part.shape[1] != self.length for part in parts):
            raise WorldError(
                f"grammar {quoted(self.grammar)}: draw gives strings of several lengths; fill them with PAD"
            )
        tokens = np.stack(parts)
        labels = np.stack([labelled(self.grammar, part, some=False) for part in tokens])
        if self.recipe.config.direction != "causal" and (tokens == getattr(self.grammar, "pad", None)).any():
            raise ConfigError("direction='bidirectional' sees the PAD of short strings: give strings of one length")
        shape = (len(parts), self.layout.rows, self.layout.width)
        inputs = np.full((len(parts), shape[1] * shape[2]), _filler(self.grammar))
        targets = np.full(inputs.shape, IGNORE)
        cells = (self.layout.start[:, None] + np.arange(self.length)).ravel()
        inputs[:, cells] = tokens.reshape(len(parts), -1)
        targets[:, cells] = labels.reshape(len(parts), -1)
        return inputs.reshape(shape), targets.reshape(shape)

    def __call__(self, params: Params, *batch: Tensor) -> Tensor:
        """Loss of each seed [S]."""
        return self._losses(params, *batch)

    def metrics(self, params: Params, final: bool) -> dict[str, NDArray[Any]]:
        """Held-out loss, excess over the exact law, accuracy and rungs: few strings on the way, all at the end."""
        count = FINAL_STRINGS if final else EVAL_STRINGS
        if count not in self._sets:
            self._sets[count] = plain_set(self.grammar, count)
        return evaluate(self.template, params, self._sets[count])

    def _one(self, params: Params, inputs: Tensor, targets: Tensor, *more: Tensor) -> Tensor:
        patterns: list[Tensor] = []
        logits = self._logits(params, inputs, patterns)
        each = self.losses(logits, targets, *more)
        counted = targets != IGNORE
        loss = (each * counted).sum() / counted.sum().clamp(min=1)
        if self._penalised:
            loss = loss + self.penalty(params, patterns, *more)
        return loss + l2_penalty(params, self.settings.l2, loss) if self.settings.l2 else loss

    def _logits(self, params: Params, inputs: Tensor, patterns: list[Tensor]) -> Tensor:
        """Logits of one seed; `patterns` gets the attention of each layer, where a penalty reads it.

        Under `vmap` a hook sees tensors that mean nothing outside: they are used up before the loss is returned.
        """
        if not self._penalised:
            return functional_call(self.template, params, (inputs,), self.where)

        def keep(pattern: Tensor, hook: Any) -> None:
            patterns.append(pattern)

        names = [name for name in self.template.hook_dict if name.endswith("attn.hook_pattern")]
        with self.template.hooks(fwd_hooks=[(name, keep) for name in names]):
            return functional_call(self.template, params, (inputs,), self.where)


def masked_losses(logits: Tensor, targets: Tensor, loss: str) -> Tensor:
    """Loss at each position [rows, width]: cross entropy (nats), or squared distance to the one-hot target (eq. 5)."""
    picked = logits.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    if loss == "ce":
        return torch.logsumexp(logits, -1) - picked
    return logits.square().sum(-1) - 2 * picked + 1


def l2_penalty(params: Params, l2: float, like: Tensor) -> Tensor:
    """l2 / 2 times the squared norm of all parameters."""
    return l2 / 2 * sum((p.square().sum() for p in params.values()), like.new_zeros(()))


def placed(layout: Layout, device: str, causal: bool = True) -> dict[str, Trusted]:
    """The keyword arguments that place a batch in a model."""
    return {
        "visible": Trusted(torch.from_numpy(layout.visible if causal else layout.together).to(device)),
        "positions": Trusted(torch.from_numpy(layout.position).to(device)),
    }


def _filler(grammar: Any) -> int:
    """The id that lies where no string is; nothing sees it there."""
    pad = getattr(grammar, "pad", None)
    return 0 if pad is None else int(pad)
