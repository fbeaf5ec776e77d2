"""The task of brackets: what is minimised, and the regulariser that asks for balance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from interp.functional import Params
from interp.model import SandboxTransformer
from interp.model.counts import CountModel, count_arrays, counted_logits, num_states, states_of
from interp.model.masks import Trusted
from interp.recipe import Recipe
from interp.rng import generator
from interp.training.evaluation import beside
from interp.training.layout import IGNORE, Layout, pack
from interp.training.task import (
    DRAW_AHEAD,
    DRAW_BYTES,
    EVAL_STRINGS,
    FINAL_STRINGS,
    l2_penalty,
    masked_losses,
    placed,
)
from interp.worlds.dyck.batches import CompleteStrings, Corpus, Prefixes, Source, copy_targets
from interp.worlds.dyck.evaluate import BracketSet, evaluate, held_out
from interp.worlds.dyck.grammar import DyckGrammar
from interp.worlds.dyck.recipes import grammar_of, settings_of

Batch = tuple[NDArray[Any], ...]  # arrays [steps, ...]
LONG_STRINGS, LONG_FROM, LONG_TO = 24, 400, 500


def data_source(recipe: Recipe) -> Source:
    """The batches of a recipe for brackets."""
    s, grammar = settings_of(recipe), grammar_of(recipe)
    base: CompleteStrings | Prefixes = Prefixes(grammar, s.batch, s.length)
    if s.data == "complete":
        base = CompleteStrings(grammar, s.batch, s.min_length, s.max_length)
    return Corpus(base, s.corpus) if s.corpus else base


def draw_ahead(recipe: Recipe) -> int:
    """How many steps' batches are drawn together; not by how many seeds there are, which a seed must not know."""
    base = data_source(recipe).layout()
    cells, other = base.rows * base.width, 8 * base.rows * base.width  # what is read, and int64 targets
    if settings_of(recipe).contrastive:
        nested = contrast_of(recipe, base).layout
        cells, other = cells + nested.rows * nested.width, 2 * other  # indices
    counts = settings_of(recipe).compute == "counts"
    read = 8 * num_states(recipe.config) if counts else 8  # float32 twice a state, or int64
    return max(1, min(DRAW_AHEAD, int(DRAW_BYTES / (read * cells + other))))


class Objective:
    """The task of brackets: draws batches (numpy) and maps parameters and batches of all seeds to their losses."""

    def __init__(self, template: SandboxTransformer, recipe: Recipe, device: str):
        self.template, self.settings, self.grammar = template, settings_of(recipe), grammar_of(recipe)
        self.trained = [name for name, _ in template.named_parameters()]
        self.recipe, self.ahead = recipe, draw_ahead(recipe)
        self._small: list[tuple[str, BracketSet]] | None = None
        self.source = data_source(recipe)
        self.nested = contrast_of(recipe, self.source.layout()) if self.settings.contrastive else None
        self.layout = self.source.layout()
        causal = recipe.config.direction == "causal"
        self.where = placed(self.layout, device, causal)
        self.where_nested = placed(self.nested.layout, device, causal) if self.nested else {}
        self.counted = CountModel(template) if self.settings.compute == "counts" else None
        self._losses = torch.vmap(self._one)

    def draw(self, seed: int, steps: range) -> Batch:
        """What is read (`_read`) and targets [steps, rows, width]; with `contrastive` also its own and indices."""
        inputs, targets = self.source.draw(seed, steps)
        if self.grammar.copies:
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
        """Losses, closing accuracy and rungs on held-out strings: few on the way, all at the end."""
        if self._small is None:
            self._small = [("", in_distribution(self.recipe, EVAL_STRINGS))]
        out: dict[str, NDArray[Any]] = {}
        for prefix, data in final_eval_sets(self.recipe) if final else self._small:
            out |= {prefix + name: v for name, v in evaluate(self.template, params, data).items()}
            if not prefix:
                out |= beside(data.rung_losses(), len(out["loss"]))
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
        each = masked_losses(logits, targets, s.loss)
        loss = (each * counted).sum() / counted.sum().clamp(min=1)
        if contrast:
            loss = loss + s.contrastive * self._contrast(params, logits, contrast[:-1], contrast[-1])
        return loss + l2_penalty(params, s.l2, loss) if s.l2 else loss

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


@dataclass(frozen=True)
class ReleasedPairs:
    """The strings of a batch again, each after what the released code of Wen et al. 2023 puts before START.

    That is D nested pairs of each type, one type after the other, and a pair more of type t where so many pairs of that
    type are open, both drawn a step. Everything that the model says of the string is compared, START included.
    """

    grammar: DyckGrammar
    base: Layout

    @property
    def before(self) -> int:
        """Brackets before START."""
        return 2 * self.grammar.num_types * self.grammar.max_depth + 2

    @property
    def layout(self) -> Layout:
        """A row a string: where the depth of brackets is read, it is counted from the beginning of a row, or START."""
        capacity = np.full_like(self.base.capacity, self.base.capacity.max() + self.before)
        return pack(capacity, int(capacity.max()) + 1)

    def draw(self, seed: int, steps: range, inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs [steps, rows', width'], and for each cell of the base layout the flat cell to compare, or -1."""
        layout, g = self.layout, self.grammar
        draws = [generator(seed, "contrastive", step) for step in steps]
        before = np.array([self._string(int(d.integers(g.num_types)), int(d.integers(g.max_depth))) for d in draws])
        flat = inputs.reshape(len(steps), -1)
        out = np.full((len(steps), layout.rows * layout.width), g.pad)
        index = np.full(flat.shape, -1)
        out[:, layout.start[:, None] + np.arange(self.before)] = before[:, None]
        for i, (begin, size) in enumerate(zip(self.base.start, self.base.capacity + 1, strict=True)):
            cells, moved = begin + np.arange(size), layout.start[i] + self.before + np.arange(size)
            out[:, moved] = flat[:, cells]
            index[:, cells] = np.where(flat[:, cells] != g.pad, moved, -1)
        return out.reshape(len(steps), layout.rows, layout.width), index.reshape(inputs.shape)

    def _string(self, more: int, depth: int) -> list[int]:
        out: list[int] = []
        for t in range(self.grammar.num_types):
            pairs = [2 * t] * self.grammar.max_depth
            if t == more:
                pairs[depth:depth] = [2 * t, 2 * t + 1]
            out += [*pairs, *([2 * t + 1] * self.grammar.max_depth)]
        return out


def contrast_of(recipe: Recipe, base: Layout) -> NestedPairs | ReleasedPairs:
    """What is put before the strings of a batch."""
    kind = NestedPairs if settings_of(recipe).contrast == "nested" else ReleasedPairs
    return kind(grammar_of(recipe), base)


def in_distribution(recipe: Recipe, count: int) -> BracketSet:
    """Held-out strings of the recipe's own data law, as long as training reads them."""
    s = settings_of(recipe)
    if s.data == "prefix":  # whose last bracket is a target only: a copy, which is asked where it stands, has none
        length = s.length - grammar_of(recipe).copies
        return held_out(grammar_of(recipe), count, data="prefix", length=length)
    return held_out(grammar_of(recipe), count, data="complete", min_length=s.min_length, max_length=s.max_length)


def long_prefixes(grammar: DyckGrammar, count: int = LONG_STRINGS) -> BracketSet:
    """Length generalisation: prefixes of 500 brackets, scored from position 400 on."""
    return held_out(grammar, count, data="prefix", length=LONG_TO, score_from=LONG_FROM)


def final_eval_sets(recipe: Recipe) -> list[tuple[str, BracketSet]]:
    """In distribution, and (where positions allow) length generalisation under `long_`."""
    sets = [("", in_distribution(recipe, FINAL_STRINGS))]
    config = recipe.config
    if not config.bounded or config.n_ctx >= LONG_TO + grammar_of(recipe).copies:
        sets.append(("long_", long_prefixes(grammar_of(recipe))))
    return sets
