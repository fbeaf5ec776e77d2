"""Batches of bracket strings: complete ones, and prefixes of one length.

Complete strings are short (9.4 predictions on average where the longest has 27), so a row holds several
(`interp.training.layout`). Its layout is fixed because a batch samples lengths systematically: string i of B has the
length at quantile (i + u) / B of the exact length law, with one u ~ U[0,1) a batch. Every string thus follows its law
exactly, the expected number of strings of each length is exact, and string i never outgrows the slot for quantile
(i + 1) / B.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from interp.rng import generator
from interp.training.layout import IGNORE, Layout, pack
from interp.worlds.dyck.grammar import DyckGrammar


@dataclass(frozen=True)
class CompleteStrings:
    """Batches of complete strings under length bounds; the model also predicts END."""

    grammar: DyckGrammar
    batch: int
    min_length: int
    max_length: int

    def layout(self) -> Layout:
        """Slot i holds whatever length the quantiles [i/B, (i+1)/B) can give."""
        return self._layout

    @cached_property
    def _layout(self) -> Layout:
        lengths, probs = self.grammar.length_distribution(self.min_length, self.max_length)
        top = np.minimum((np.arange(self.batch) + 1) / self.batch, 1.0)
        capacity = lengths[_quantile(probs, top, side="left")]
        return pack(capacity.astype(np.int64), int(lengths.max()) + 1)

    def draw(self, seed: int, steps: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets [len(steps), rows, width] of one seed, a function of (seed, step)."""
        layout = self.layout()
        lengths, probs = self.grammar.length_distribution(self.min_length, self.max_length)
        longest = int(lengths.max())
        draws = [generator(seed, "train", step).random(1 + self.batch * longest) for step in steps]
        uniforms = np.stack(draws)
        quantiles = (np.arange(self.batch) + uniforms[:, :1]) / self.batch
        drawn = lengths[_quantile(probs, quantiles, side="right")]
        drawn = np.minimum(drawn, layout.capacity)  # rounding at a quantile's edge
        cells = uniforms[:, 1:].reshape(len(steps) * self.batch, longest)
        strings = self.grammar.fill(cells, drawn.ravel()).reshape(len(steps), self.batch, longest)
        return place(layout, strings.astype(np.int64), drawn, self.grammar)


@dataclass(frozen=True)
class Prefixes:
    """Batches of prefixes of one length; every position predicts the next bracket, no END."""

    grammar: DyckGrammar
    batch: int
    length: int

    def layout(self) -> Layout:
        """START and all but the last bracket of each prefix are read."""
        return self._layout

    @cached_property
    def _layout(self) -> Layout:
        return pack(np.full(self.batch, self.length - 1), self.length)

    def draw(self, seed: int, steps: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets [len(steps), rows, width] of one seed, a function of (seed, step)."""
        draws = [generator(seed, "train", step).random((self.batch, self.length)) for step in steps]
        strings = self.grammar.fill_prefix(np.concatenate(draws)).astype(np.int64)
        strings = strings.reshape(len(steps), self.batch, self.length)
        lengths = np.full((len(steps), self.batch), self.length)
        return place(self.layout(), strings, lengths, self.grammar, end=False)


@dataclass(frozen=True)
class Corpus:
    """Batches of one corpus of `tokens` brackets and ENDs, the same for all seeds, read again and again.

    `base` says of what strings it is. Each seed reads them in an order of its own, and in another at each epoch. The
    strings are sorted by length and cut into as many parts as a batch has strings; each batch holds one of each part,
    so that it has the lengths of the whole corpus, and a fixed layout. Strings that fill no batch are left out.
    """

    base: CompleteStrings | Prefixes
    tokens: int

    @cached_property
    def strings(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Brackets [string, longest], filled up with PAD, and how many each has [string]: the last one ends it."""
        rng, base = generator(0, "corpus"), self.base
        if isinstance(base, Prefixes):
            count = self._whole(-(-self.tokens // base.length))
            rows = base.grammar.fill_prefix(rng.random((count, base.length))).astype(np.int64)
            return rows, np.full(count, base.length)
        lengths, probs = base.grammar.length_distribution(base.min_length, base.max_length)
        most = max(base.batch, self.tokens // (int(lengths.min()) + 1) + 1)
        drawn = rng.choice(lengths, most, p=probs)
        count = self._whole(int(np.searchsorted(np.cumsum(drawn + 1), self.tokens)) + 1)
        drawn = np.sort(drawn[:count])
        cells = rng.random((count, int(lengths.max())))
        return base.grammar.fill(cells, drawn).astype(np.int64), drawn.astype(np.int64)

    def _whole(self, count: int) -> int:
        return max(1, count // self.base.batch) * self.base.batch

    @property
    def epoch(self) -> int:
        """Steps in which every string is read once."""
        return len(self.strings[0]) // self.base.batch

    def layout(self) -> Layout:
        """Slot i holds the longest string of part i."""
        return self._layout

    @cached_property
    def _layout(self) -> Layout:
        read = self.strings[1].reshape(self.base.batch, self.epoch).max(1) - isinstance(self.base, Prefixes)
        return pack(read, int(read.max()) + 1)

    def draw(self, seed: int, steps: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets [len(steps), rows, width] of one seed, a function of (seed, step)."""
        rows, lengths = self.strings
        parts = np.arange(len(rows)).reshape(self.base.batch, self.epoch)
        orders = {
            epoch: generator(seed, "corpus-order", epoch).permuted(parts, axis=1)
            for epoch in range(steps.start // self.epoch, (steps.stop - 1) // self.epoch + 1)
        }
        chosen = np.stack([orders[step // self.epoch][:, step % self.epoch] for step in steps])
        end = isinstance(self.base, CompleteStrings)
        return place(self.layout(), rows[chosen], lengths[chosen], self.base.grammar, end=end)


Source = CompleteStrings | Prefixes | Corpus


def place(
    layout: Layout,
    strings: NDArray[np.int64],
    lengths: NDArray[np.int64],
    grammar: DyckGrammar,
    end: bool = True,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lay strings [steps, B, longest] into inputs and targets [steps, rows, width].

    With `end` the last target is END; without, the last bracket is a target and not an input.
    """
    steps, batch, longest = strings.shape
    inputs = np.full((steps, layout.rows * layout.width), grammar.pad)
    targets = np.full((steps, layout.rows * layout.width), IGNORE)
    inputs[:, layout.start] = grammar.start
    column = np.arange(longest)
    s, b, j = np.nonzero(column < lengths[:, :, None])
    targets[s, layout.start[b] + j] = strings[s, b, j]
    s, b, j = np.nonzero(column < lengths[:, :, None] - (not end))
    inputs[s, layout.start[b] + 1 + j] = strings[s, b, j]
    if end:
        s, b = np.nonzero(np.ones((steps, batch), dtype=bool))
        targets[s, layout.start[b] + lengths[s, b]] = grammar.end
    shape = (steps, layout.rows, layout.width)
    return inputs.reshape(shape), targets.reshape(shape)


def copy_targets(grammar: DyckGrammar, inputs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The copying task: each bracket is its own target."""
    return np.where(inputs < 2 * grammar.num_types, inputs, IGNORE)


def _quantile(probs: NDArray[np.float64], q: NDArray[np.float64], side: Literal["left", "right"]) -> NDArray[np.int64]:
    """Index of the length at quantile q of a law; `left` takes the quantile as an upper end."""
    edges = np.cumsum(probs)
    edges[-1] = 1.0
    index = np.searchsorted(edges, q - (1e-12 if side == "left" else 0.0), side=side)
    return np.minimum(index, len(probs) - 1)
