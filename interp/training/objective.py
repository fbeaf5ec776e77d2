"""What is minimised: the loss of one seed on its batch, and the regulariser that asks for balance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from interp.functional import Params
from interp.grammars import CopyGrammar, DyckGrammar
from interp.model import SandboxTransformer
from interp.model.counts import CountModel, count_arrays, counted_logits, num_states, states_of
from interp.model.masks import Trusted
from interp.presets import Recipe
from interp.rng import generator
from interp.training.evaluate import EvalSet, evaluate, held_out
from interp.training.layout import IGNORE, CompleteStrings, Layout, Prefixes, Source, copy_targets, pack

Batch = tuple[NDArray[Any], ...]  # arrays [steps, ...]
DRAW_AHEAD, DRAW_BYTES = 32, 2.5e7  # steps whose strings are drawn together, and what they may hold, a seed
EVAL_STRINGS, FINAL_STRINGS = 400, 4000
LONG_STRINGS, LONG_FROM, LONG_TO = 24, 400, 500


def data_source(recipe: Recipe) -> Source:
    """The batches of a recipe for brackets."""
    s, grammar = recipe.settings, recipe.dyck
    if s.data == "complete":
        return CompleteStrings(grammar, s.batch, s.min_length, s.max_length)
    return Prefixes(grammar, s.batch, s.length)


def draw_ahead(recipe: Recipe) -> int:
    """How many steps' batches are drawn together; not by how many seeds there are, which a seed must not know."""
    if not isinstance(recipe.grammar, DyckGrammar):
        return DRAW_AHEAD
    base = data_source(recipe).layout()
    cells, other = base.rows * base.width, 8 * base.rows * base.width  # what is read, and int64 targets
    if recipe.settings.contrastive:
        nested = NestedPairs(recipe.dyck, base).layout
        cells, other = cells + nested.rows * nested.width, 2 * other  # indices
    counts = recipe.settings.compute == "counts"
    read = 8 * num_states(recipe.config) if counts else 8  # float32 twice a state, or int64
    return max(1, min(DRAW_AHEAD, int(DRAW_BYTES / (read * cells + other))))


class Task(Protocol):
    """What a training run needs to know of its task."""

    trained: list[str]  # names of the parameters that learn

    def draw(self, seed: int, steps: range) -> tuple[NDArray[Any], ...]:
        """Batches of one seed, arrays [steps, ...]."""

    def __call__(self, params: Params, *batch: Tensor) -> Tensor:
        """Loss of each seed [S]; `params` and `batch` have a leading seed axis."""

    def metrics(self, params: Params, final: bool) -> dict[str, NDArray[Any]]:
        """Held-out measurements, each [S]."""


class Objective:
    """The task of brackets: draws batches (numpy) and maps parameters and batches of all seeds to their losses."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        self.template, self.settings, self.grammar = template, recipe.settings, recipe.dyck
        self.trained = [name for name, _ in template.named_parameters()]
        self.recipe = recipe
        self._small: list[tuple[str, EvalSet]] | None = None
        self.source = data_source(recipe)
        self.nested = NestedPairs(self.grammar, self.source.layout()) if self.settings.contrastive else None
        self.layout = self.source.layout()
        self.where = _on(self.layout, device)
        self.where_nested = _on(self.nested.layout, device) if self.nested else {}
        self.counted = CountModel(template) if self.settings.compute == "counts" else None
        self._losses = torch.vmap(self._one)

    def draw(self, seed: int, steps: range) -> Batch:
        """What is read (`_read`) and targets [steps, rows, width]; with `contrastive` also its own and indices."""
        inputs, targets = self.source.draw(seed, steps)
        if isinstance(self.grammar, CopyGrammar):
            targets = copy_targets(self.grammar, inputs)
        if self.nested is None:
            return *self._read(inputs, self.layout), targets
        nested, index = self.nested.draw(seed, steps, inputs)
        return *self._read(inputs, self.layout), targets, *self._read(nested, self.nested.layout), index

    def _read(self, tokens: NDArray[np.int64], layout: Layout) -> Batch:
        """What the computation reads: tokens, or one-hot states and log counts where it goes through counts."""
        if self.counted is None:
            return (tokens,)
        config = self.template.config
        states = states_of(config, torch.from_numpy(tokens)).numpy()
        return count_arrays(states, layout.position, num_states(config))

    def __call__(self, params: Params, *batch: Tensor) -> Tensor:
        """Loss of each seed [S]; `params` and `batch` have a leading seed axis."""
        return self._losses(params, *batch)

    def metrics(self, params: Params, final: bool) -> dict[str, NDArray[Any]]:
        """Losses and closing accuracy of each seed on held-out strings: few on the way, all at the end."""
        if self._small is None:
            self._small = [("", in_distribution(self.recipe, EVAL_STRINGS))]
        out: dict[str, NDArray[Any]] = {}
        for prefix, data in final_eval_sets(self.recipe) if final else self._small:
            out |= {prefix + name: v for name, v in evaluate(self.template, params, data).items()}
        return out

    def _logits(self, params: Params, read: Sequence[Tensor], where: dict[str, Trusted]) -> Tensor:
        """Logits [rows, width, vocab] of one seed."""
        if self.counted is None:
            return functional_call(self.template, params, (*read,), where)
        query, log_counts = (x.to(next(iter(params.values())).dtype) for x in read)
        return counted_logits(self.counted, params, query, log_counts)

    def _one(self, params: Params, *batch: Tensor) -> Tensor:
        s, n = self.settings, 1 if self.counted is None else 2  # arrays that hold what is read
        targets, contrast = batch[n], batch[n + 1 :]
        logits = self._logits(params, batch[:n], self.where)
        counted = targets != IGNORE
        if s.targets == "closers":
            counted = counted & (targets < 2 * self.grammar.num_types) & (targets % 2 == 1)
        picked = logits.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        if s.loss == "ce":
            each = torch.logsumexp(logits, -1) - picked
        else:  # squared distance to the one-hot target, eq. 5
            each = logits.square().sum(-1) - 2 * picked + 1
        loss = (each * counted).sum() / counted.sum().clamp(min=1)
        if contrast:
            loss = loss + s.contrastive * self._contrast(params, logits, contrast[:-1], contrast[-1])
        if s.l2:
            loss = loss + s.l2 / 2 * sum((p.square().sum() for p in params.values()), loss.new_zeros(()))
        return loss

    def _contrast(self, params: Params, logits: Tensor, read: Sequence[Tensor], index: Tensor) -> Tensor:
        """Mean squared difference of the logits with and without nested pairs before a string (eq. 18)."""
        moved = self._logits(params, read, self.where_nested).flatten(0, 1)
        vocab = moved.shape[-1]
        compared = (index >= 0).flatten()
        again = moved.gather(0, index.clamp(min=0).flatten()[:, None].expand(-1, vocab))
        squares = (again - logits.flatten(0, 1)).square().mean(-1)
        return (squares * compared).sum() / compared.sum().clamp(min=1)


@dataclass(frozen=True)
class NestedPairs:
    """The strings of a batch again, each after r nested pairs of random types, r ~ U[1..D] (paper eq. 18).

    The first prediction of a string is not compared: after START no string may end, after pairs it may.
    """

    grammar: DyckGrammar
    base: Layout

    @property
    def layout(self) -> Layout:
        """A slot for every string with the longest nest before it."""
        capacity = self.base.capacity + 2 * self.grammar.max_depth
        return pack(capacity, max(int(capacity.max()) + 1, self.base.width))

    def draw(self, seed: int, steps: range, inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs [steps, rows', width'], and for each cell of the base layout the flat cell to compare, or -1."""
        layout, depth, batch = self.layout, self.grammar.max_depth, len(self.base.start)
        draws = [generator(seed, "contrastive", step) for step in steps]
        r = np.stack([g.integers(1, depth + 1, batch) for g in draws])
        types = np.stack([g.integers(0, self.grammar.num_types, (batch, depth)) for g in draws])
        flat = inputs.reshape(len(steps), -1)
        out = np.full((len(steps), layout.rows * layout.width), self.grammar.pad)
        index = np.full(flat.shape, -1)
        out[:, layout.start] = self.grammar.start
        s, b, level = np.nonzero(np.arange(depth) < r[:, :, None])
        out[s, layout.start[b] + 1 + level] = 2 * types[s, b, level]
        out[s, layout.start[b] + 2 * r[s, b] - level] = 2 * types[s, b, level] + 1
        for i, (begin, size) in enumerate(zip(self.base.start, self.base.capacity, strict=True)):
            cells = begin + 1 + np.arange(size)
            used = flat[:, cells] != self.grammar.pad  # [steps, size]
            s, j = np.nonzero(used)
            target = layout.start[i] + 1 + 2 * r[s, i] + j
            out[s, target] = flat[s, cells[j]]
            index[s, cells[j]] = target
        return out.reshape(len(steps), layout.rows, layout.width), index.reshape(inputs.shape)


def _on(layout: Layout, device: str) -> dict[str, Trusted]:
    """The keyword arguments that place a batch in a model."""
    return {
        "visible": Trusted(torch.from_numpy(layout.visible).to(device)),
        "positions": Trusted(torch.from_numpy(layout.position).to(device)),
    }


def in_distribution(recipe: Recipe, count: int) -> EvalSet:
    """Held-out strings of the recipe's own data law."""
    s = recipe.settings
    if s.data == "prefix":
        return held_out(recipe.dyck, count, data="prefix", length=s.length)
    return held_out(recipe.dyck, count, data="complete", min_length=s.min_length, max_length=s.max_length)


def long_prefixes(grammar: DyckGrammar, count: int = LONG_STRINGS) -> EvalSet:
    """Length generalisation: prefixes of 500 brackets, scored from position 400 on."""
    return held_out(grammar, count, data="prefix", length=LONG_TO, score_from=LONG_FROM)


def final_eval_sets(recipe: Recipe) -> list[tuple[str, EvalSet]]:
    """In distribution, and (where positions allow) length generalisation under `long_`."""
    sets = [("", in_distribution(recipe, FINAL_STRINGS))]
    config = recipe.config
    if config.positions != "learned" or config.n_ctx >= LONG_TO:
        sets.append(("long_", long_prefixes(recipe.dyck)))
    return sets
