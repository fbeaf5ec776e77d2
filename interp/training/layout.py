"""Where the strings of a training batch lie, so that almost no arithmetic is spent on padding.

Complete bracket strings are short (9.4 predictions on average where the longest has 27), so a row
holds several strings and each sees only itself. The layout of a batch is *fixed*: the same for every
seed and step, which lets many seeds train as one computation and keeps each of them independent of
the others. It is fixed because a batch samples lengths systematically: string i of B has the
length at quantile (i + u) / B of the exact length law, with one u ~ U[0,1) a batch. Every string
thus follows its law exactly, the expected number of strings of each length is exact, and string i
never outgrows the slot for quantile (i + 1) / B.
"""

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from interp.grammars import DyckGrammar
from interp.rng import generator

IGNORE = -100
ALIGN = 16


@dataclass(frozen=True)
class Layout:
    """Slots for B strings in `rows` rows of `width` positions. Slot i starts with START."""

    rows: int
    width: int
    capacity: NDArray[np.int64]  # [B] most brackets string i can have
    start: NDArray[np.int64]  # [B] flat index (row * width + column) of its START
    segment: NDArray[np.int64]  # [rows, width] which string a position belongs to, -1: none
    position: NDArray[np.int64]  # [rows, width] position within its string

    @property
    def visible(self) -> NDArray[np.bool_]:
        """[rows, 1, query, key]: same string and not later. Empty positions see themselves."""
        same = self.segment[:, :, None] == self.segment[:, None, :]
        causal = np.tril(np.ones((self.width, self.width), dtype=bool))
        return ((same & causal & (self.segment >= 0)[:, :, None]) | np.eye(self.width, dtype=bool))[:, None]


def pack(capacity: NDArray[np.int64], width: int) -> Layout:
    """The smallest layout of slots of capacity + 1 positions in rows of `width` or a little more.

    Only layouts with a multiple of `ALIGN` positions, of 4 a row, and of two rows or more count:
    vector units and MKL round odd elements differently (and one row of several heads is handed to MKL
    without a copy when the seed is alone), and a seed must not notice where among the others it lies.
    """
    least = max(ALIGN, -(-width // 4) * 4)
    layouts = [_pack_rows(capacity, w) for w in range(least, least + ALIGN + 1, 4)]
    return min(layouts, key=lambda layout: (layout.rows * layout.width, layout.width))


def _pack_rows(capacity: NDArray[np.int64], width: int) -> Layout:
    """First-fit-decreasing, then empty rows to two or more and a multiple of `ALIGN` positions."""
    free: list[int] = []
    first: list[list[int]] = [[] for _ in range(width + 1)]  # rows by what is free in them, a heap each
    start = np.zeros(len(capacity), dtype=np.int64)
    for i in np.argsort(-capacity, kind="stable"):
        need = int(capacity[i]) + 1
        row = min((rows[0] for rows in first[need:] if rows), default=None)
        if row is None:
            row = len(free)
            free.append(width)
        else:
            heapq.heappop(first[free[row]])
        start[i] = row * width + width - free[row]
        free[row] -= need
        heapq.heappush(first[free[row]], row)
    while len(free) < 2 or len(free) * width % ALIGN:
        free.append(width)
    segment = np.full(len(free) * width, -1, dtype=np.int64)
    position = np.zeros(len(free) * width, dtype=np.int64)
    for i, (begin, size) in enumerate(zip(start, capacity + 1, strict=True)):
        segment[begin : begin + size] = i
        position[begin : begin + size] = np.arange(size)
    shape = (len(free), width)
    return Layout(len(free), width, capacity, start, segment.reshape(shape), position.reshape(shape))


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


Source = CompleteStrings | Prefixes


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
