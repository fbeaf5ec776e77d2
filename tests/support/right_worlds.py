"""Small right worlds of several kinds, which every check passes, and ones whose law, rungs or draws are wrong.

`Sticky` is a chain of letters in which each repeats the one before it with probability `again`; `language` makes a
world of a kind of it. `WholeParity` is read in both directions; `Recall` puts one label at the end of a string.
"""

import itertools
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from interp.claims import Claims, Items, Relation
from interp.config import TransformerConfig
from interp.constraints import Annotated, Interval, check_fields, doc
from interp.errors import GrammarError
from interp.rng import generator
from interp.settings import TrainingSettings
from interp.vocabulary import cut
from interp.world import Overlay, Preset, World
from parity import lent


class Base:
    has_start = False

    def __post_init__(self):
        check_fields(self, GrammarError)

    def to_tokens(self, texts):
        ids = {name: i for i, name in enumerate(self.vocab)}
        return np.array([cut(text, ids) for text in ([texts] if isinstance(texts, str) else texts)])

    def to_dict(self):
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data):
        return cls(**{name: value for name, value in data.items() if name != "kind"})


@dataclass(frozen=True)
class Sticky(Base):
    KIND: ClassVar[str] = "sticky"
    vocab: ClassVar[tuple[str, ...]] = ("a", "b", "c")
    vocab_size: ClassVar[int] = 3
    length: Annotated[int, Interval(ge=2, le=40), doc("letters of a string")] = 6
    again: Annotated[float, Interval(gt=0, lt=1), doc("how often a letter repeats the one before")] = 0.6

    def draw(self, rng, count):
        steps = rng.integers(0, 3, (count, self.length))
        moved = np.where(rng.random((count, self.length)) < self.again, 0, rng.integers(1, 3, (count, self.length)))
        return (steps[:, :1] + np.cumsum(moved, axis=1)) % 3

    def labels(self, tokens):
        return np.concatenate([tokens[:, 1:], np.full((len(tokens), 1), -100)], axis=1)

    def next_law(self, tokens):
        """P(the label) [string, pos]."""
        return np.where(tokens == self.labels(tokens), self.again, (1 - self.again) / 2)

    def rungs(self, tokens):
        return {"uniform": np.full(tokens.shape, np.log(3))}


class Lawful(Sticky):
    def law_nll(self, tokens):
        return -np.log(self.next_law(tokens))


class Listed(Lawful):
    def enumerate(self):
        tokens = np.array(list(itertools.product(range(3), repeat=self.length)))
        return tokens, self.next_law(tokens)[:, :-1].prod(1) / 3


@dataclass(frozen=True)
class WholeParity(Base):
    """The parity of the whole string, at every position."""

    KIND: ClassVar[str] = "whole-parity"
    vocab: ClassVar[tuple[str, ...]] = ("0", "1")
    vocab_size: ClassVar[int] = 2
    length: Annotated[int, Interval(ge=2, le=20), doc("bits of a string")] = 6

    def draw(self, rng, count):
        return rng.integers(0, 2, (count, self.length))

    def labels(self, tokens):
        return np.broadcast_to(tokens.sum(1, keepdims=True) % 2, tokens.shape).copy()

    def law_nll(self, tokens):
        return np.zeros(tokens.shape)


class ListedParity(WholeParity):
    def enumerate(self):
        tokens = np.array(list(itertools.product((0, 1), repeat=self.length)))
        return tokens, np.full(len(tokens), 1 / len(tokens))


@dataclass(frozen=True)
class Majority(WholeParity):
    """One label a string, at its end: whether ones are more than half."""

    KIND: ClassVar[str] = "majority"

    def labels(self, tokens):
        labels = np.full(tokens.shape, -100)
        labels[:, -1] = 2 * tokens.sum(1) > tokens.shape[1]
        return labels

    def rungs(self, tokens):
        """Who reads the last bit only, and who does not read."""
        return {"uniform": np.full(tokens.shape, np.log(2))}


class Single(Listed):
    """The same law, in single precision."""

    KIND: ClassVar[str] = "single"

    def law_nll(self, tokens):
        return super().law_nll(tokens).astype(np.float32)

    def rungs(self, tokens):
        return {"uniform": np.full(tokens.shape, np.log(3), dtype=np.float32)}


@dataclass(frozen=True)
class Biased(Base):
    """Letters that are nearly always the first: eight strings may all be alike."""

    KIND: ClassVar[str] = "biased"
    vocab: ClassVar[tuple[str, ...]] = ("a", "b")
    vocab_size: ClassVar[int] = 2
    length: Annotated[int, Interval(ge=2, le=40), doc("letters of a string")] = 4
    rare: ClassVar[float] = 0.001

    def draw(self, rng, count):
        return (rng.random((count, self.length)) < self.rare).astype(np.int64)

    def labels(self, tokens):
        return np.concatenate([tokens[:, 1:], np.full((len(tokens), 1), -100)], axis=1)

    def law_nll(self, tokens):
        return -np.log(np.where(self.labels(tokens) == 1, self.rare, 1 - self.rare))


def kind(base, **how):
    """A grammar with other attributes, as a frozen dataclass."""
    return dataclass(frozen=True)(type(base.__name__, (base,), {"__module__": __name__, **how}))


def of(base, direction="causal", **changes):
    """The world of a grammar."""

    def model(grammar):
        sizes = {"d_model": 8, "d_head": 8, "d_mlp": 8, "positions": "learned", "n_ctx": 40}
        return TransformerConfig(grammar.vocab_size, 1, direction=direction, **sizes)

    settings = TrainingSettings(steps=20, batch=8, eval_every=20)
    return World(
        base.KIND,
        "small and right",
        (base,),
        presets={f"{base.KIND}-small": Preset("one layer", model, settings, base)},
        **{"options": {"length": "length"}, **changes},
    )


# -- what may be said of heads in them ----------------------------------------------------------------------


class Likeliest:
    """The likeliest next letter, that is the one at `read`; which letter comes next stays open within a pair."""

    name, words = "likeliest", "repeat the current letter"

    def items(self, tokens, grammar, rows, seed):
        sequence, each = np.flatnonzero(rows.any(1)), np.arange(rows.any(1).sum())
        read = np.where(rows, generator(seed, "likeliest").random(rows.shape), -1.0).argmax(1)[sequence]
        base, donors = tokens[sequence], tokens[sequence].copy()
        donors[each, read] = (base[each, read] + 1) % 3
        return Items(sequence, base, donors, read, read, base[each, read], donors[each, read])


LIKELIEST = Claims(questions=(Likeliest(),), question=lambda grammar: "likeliest")


def like_the_end(tokens, grammar, visible):
    return visible & (tokens == tokens[:, -1:])[:, None, :]


LIKE_THE_END = Claims(relations=(Relation("end-like", "tokens like the end", "mass", "whole-parity", like_the_end),))
FORESEEING = {
    "claims": lent(LIKE_THE_END),
    "overlays": {"end": Overlay("targets", lambda tokens, grammar: np.full(len(tokens), len(tokens) - 1), "the end")},
}

RIGHT = {
    "language whose answers are not certain": lambda: of(Lawful, claims=lent(LIKELIEST)),
    "the same, listed": lambda: of(Listed, claims=lent(LIKELIEST)),
    "truth that reads on, in both directions": lambda: of(WholeParity, "bidirectional", **FORESEEING),
    "language without a law": lambda: of(Sticky),
    "language with a law": lambda: of(Lawful),
    "language that can be listed": lambda: of(Listed),
    "long language with a law": lambda: of(kind(Lawful, small=classmethod(lambda cls: cls(length=40)))),
    "transduction in both directions": lambda: of(WholeParity, "bidirectional"),
    "listed transduction in both directions": lambda: of(ListedParity, "bidirectional"),
    "language that can be listed, in single precision": lambda: of(Single),
    "language of one string nearly always": lambda: of(Biased),
    "language of one string mostly": lambda: of(kind(Biased, rare=0.03)),
    "classification": lambda: of(Majority),
    "classification in both directions": lambda: of(Majority, "bidirectional"),
}
