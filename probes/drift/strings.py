"""Strings with one write that matters, ever further back: what drift is measured on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.rng import generator
from interp.worlds.flipflop import FlipFlopGrammar

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """Queries of one gap: `tokens` [input, pos], all asked at `query`; the last write stands at `target`."""

    tokens: Ints
    query: int
    target: int

    @property
    def gap(self) -> int:
        """Tokens from the last write to the query."""
        return self.query - self.target


def drift_strings(grammar: Any, length: int, gaps: Any, before: int = 0, inputs: int = 8, seed: int = 0) -> list[Asked]:
    """For each gap strings of `length` tokens: a write, and nothing but what is to be ignored up to the query.

    Of transduction one string for either bit, [v . . .]; of FFL `inputs` strings, "w v i x i x r v ...", the ignored
    bits x drawn with `seed`, so that gaps are odd. Without `before` the write is the string's first. With it the other
    bit is written `before` tokens earlier, and ignored tokens lie between (Fig. 3.33 has [1, 0 x 32, 2, 0 x 800]).
    """
    out = []
    for gap in gaps:
        if isinstance(grammar, FlipFlopGrammar):
            out.append(_reading(length, int(gap), before, inputs, generator(seed, "drift", int(gap))))
        else:
            tokens = np.zeros((2, length), dtype=np.int64)
            tokens[:, 0] = (2, 1) if before else (1, 2)
            tokens[:, before] = (1, 2)
            out.append(Asked(tokens, before + int(gap), before))
    return out


def _reading(length: int, gap: int, before: int, inputs: int, rng: np.random.Generator) -> Asked:
    pairs = length // 2
    bits = rng.integers(0, 2, (inputs, pairs))
    value = np.arange(inputs) % 2
    what = np.full(pairs, 2)
    write, read = before // 2, before // 2 + (gap + 1) // 2
    bits[:, 0] = 1 - value
    what[[0, write]] = 0
    what[read] = 1
    bits[:, write] = bits[:, read] = value
    tokens = np.empty((inputs, 2 * pairs), dtype=np.int64)
    tokens[:, ::2], tokens[:, 1::2] = what, 3 + bits
    return Asked(tokens, 2 * read, 2 * write + 1)


def possible_gaps(grammar: Any, length: int, before: int, most: int) -> list[int]:
    """Gaps that fit into `length` tokens, all of them, or about `most` from the shortest to the longest, log-spaced."""
    if isinstance(grammar, FlipFlopGrammar):
        every = [gap for gap in range(1, length) if gap % 2 and before + 1 + gap + 1 < length]
    else:
        every = list(range(1, length - before))
    if len(every) <= most:
        return every
    places = np.unique(np.round(np.geomspace(1, len(every), most)).astype(int) - 1)
    return [every[place] for place in places]
