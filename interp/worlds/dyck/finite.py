"""All complete strings of at most six brackets: a law that can be held against a list (see `interp.checking`)."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from interp.rng import check_draw
from interp.training.layout import IGNORE
from interp.worlds.dyck.grammar import DyckGrammar
from interp.worlds.dyck.law import Floats, Ints

BOUNDS: Any = {"min_length": 2, "max_length": 6}


@dataclass(frozen=True)
class ShortStrings(DyckGrammar):
    """Model inputs [n, 7] of 2 to 6 brackets; labels are the next bracket, or END."""

    open_prob: float = 0.7
    end_prob: float = 0.3

    def enumerate(self) -> tuple[Ints, Floats]:
        brackets = [c for n in (2, 4, 6) for c in itertools.product(range(self.start), repeat=n)]
        rows = np.array([[*c, *[self.pad] * (6 - len(c))] for c in brackets])
        probs = np.exp(self.log_prob(rows, **BOUNDS))
        return np.insert(rows[probs > 0], 0, self.start, axis=1), probs[probs > 0]

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        count = check_draw(rng, count, 100)
        lengths, probs = self.length_distribution(**BOUNDS)
        rows = self.fill(rng.random((count, 6)), rng.choice(lengths, count, p=probs))
        return np.insert(rows.astype(np.int64), 0, self.start, axis=1)

    def labels(self, tokens: Ints) -> Ints:
        after = np.insert(tokens[:, 1:], tokens.shape[1] - 1, self.pad, axis=1)
        return np.where(tokens == self.pad, IGNORE, np.where(after == self.pad, self.end, after))

    def law_nll(self, tokens: Ints) -> Floats:
        asked = np.maximum(self.labels(tokens), 0)[..., None]
        law = np.take_along_axis(self.next_token_probs(tokens, **BOUNDS), asked, -1)[..., 0]
        return np.where(tokens == self.pad, 0.0, -np.log(np.where(tokens == self.pad, 1.0, law)))

    def rungs(self, tokens: Ints) -> dict[str, Floats]:
        return {"uniform": np.full(tokens.shape, np.log(self.vocab_size))}
