"""Where the strings of a training batch lie, so that almost no arithmetic is spent on padding.

A row holds several strings and each sees only itself. The layout of a batch is *fixed*: the same for every seed and
step, which lets many seeds train as one computation and keeps each of them independent of the others.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IGNORE = -100
ALIGN = 16


@dataclass(frozen=True)
class Layout:
    """Slots for B strings in `rows` rows of `width` positions. Slot i starts with START."""

    rows: int
    width: int
    capacity: NDArray[np.int64]  # [B] most tokens after its first that string i can have
    start: NDArray[np.int64]  # [B] flat index (row * width + column) of its START
    segment: NDArray[np.int64]  # [rows, width] which string a position belongs to, -1: none
    position: NDArray[np.int64]  # [rows, width] position within its string

    @property
    def visible(self) -> NDArray[np.bool_]:
        """[rows, 1, query, key]: same string and not later. Empty positions see themselves."""
        causal = np.tril(np.ones((self.width, self.width), dtype=bool))
        return self.together & causal

    @property
    def together(self) -> NDArray[np.bool_]:
        """[rows, 1, query, key]: same string. Empty positions see themselves."""
        same = self.segment[:, :, None] == self.segment[:, None, :]
        return ((same & (self.segment >= 0)[:, :, None]) | np.eye(self.width, dtype=bool))[:, None]


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
