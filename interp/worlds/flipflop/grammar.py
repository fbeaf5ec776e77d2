"""Law and truth of flip-flops: FFL(T, p), and the transduction of the flip-flop automaton.

B. Liu's thesis (2024), section 3.5.1: Definition 11 is the automaton, section 3.5.1.2 the language. Positions count
from 0 here, and from 1 there.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Interval, Len, doc
from numpy.typing import NDArray

from interp.constraints import check_fields, from_fields
from interp.errors import GrammarError, quoted
from interp.numeric_arrays import id_array, token_ids
from interp.rng import check_draw
from interp.worlds.flipflop.strings import after, check_few, classes_of, data_of, ids_of, ignored, latest, read, stored

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

IGNORE = -100
WINDOW = 8  # tokens that the rung of short memory looks back on, the one that asks included
LONGEST = 10_000
Ignores = Annotated[
    tuple[Annotated[float, Interval(ge=0, le=1)], ...],
    Len(1),
    doc("p_i, probability of ignoring; of several, each string takes one, all equally likely"),
]
Writes = Annotated[float, Interval(ge=0, le=1), doc("p_w / (p_w + p_r), share of writes among what is not ignored")]


@dataclass(frozen=True)
class FlipFlopGrammar:
    """FFL(T, p): pairs of an instruction (w, r, i) and a bit; the bit after r is that after the last w.

    The first instruction is w and the last r; the others are independent, i with probability `ignore` and w with
    `writes` (1 - `ignore`). Bits after w and i are even and independent. Several values of `ignore` are the uniform
    mixture of their laws (section 3.5.4.1).

    `mode`: labels at every token, the one that follows (`generative`), or at r alone, where it is certain
    (`deterministic`).

    Source: Liu et al. 2023; thesis of B. Liu, section 3.5.1.
    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "flipflop"
    vocab: ClassVar[tuple[str, ...]] = ("w", "r", "i", "0", "1")
    vocab_size: ClassVar[int] = 5

    length: Annotated[int, Interval(ge=4, le=LONGEST), doc("tokens of a string, T: an even number")] = 32
    ignore: Ignores = (0.8,)
    writes: Writes = 0.5
    mode: Annotated[Literal["deterministic", "generative"], doc("labels after reads alone, or at every token")] = (
        "deterministic"
    )

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)
        if self.length % 2:
            raise GrammarError(f"length={self.length} is odd: a string is pairs of an instruction and a bit")

    @classmethod
    def small(cls) -> Self:
        """An instance whose strings can be listed."""
        return cls(length=12, ignore=(0.5,))

    def with_ignore(self, ignore: float) -> Self:
        """The same law with another p_i."""
        return replace(self, ignore=(ignore,))

    # -- texts ------------------------------------------------------------------------------------

    def to_tokens(self, texts: Any) -> Ints:
        """Token ids [text, pos] of strings or beginnings of strings ("w1 i0 r"), all of one length.

        Raises `GrammarError` for a text that breaks the law, in one line that quotes it.
        """
        tokens = read(texts, self.vocab)
        self.check_inputs(tokens)
        return tokens

    def format(self, row: Any) -> str:
        """The text of one string of ids."""
        words = [self.vocab[token] for token in token_ids(row, 5, axes=1).tolist()]
        return " ".join("".join(words[at : at + 2]) for at in range(0, len(words), 2))

    def check_inputs(self, tokens: Any, start: bool = True) -> None:
        """Raise `GrammarError` unless every row [input, pos] is a string or the beginning of one, of any length."""
        tokens = token_ids(np.atleast_2d(ids_of(self, tokens)), 5, axes=2)
        at = np.arange(tokens.shape[1])
        wrong = (tokens > 2) != (at % 2 == 1)
        wrong[:, :1] |= tokens[:, :1] != 0
        said = self.state(tokens)
        wrong |= self.answers(tokens) & (tokens - 3 != said)
        if wrong.any():
            row, place = (int(i) for i in np.argwhere(wrong)[0])
            text = self.format(tokens[row])
            raise GrammarError(f"string {quoted(text)} position {place}: {self._why(tokens[row], place)}")

    def _why(self, row: Ints, place: int) -> str:
        found = self.vocab[row[place]]
        if place == 0:
            return f"{found!r} stands where every string begins with 'w'"
        if (row[place] > 2) != (place % 2 == 1):
            return f"{found!r} stands where {'a bit' if place % 2 else 'an instruction'} has to be"
        return f"'r' reads {found}, and {1 - int(found)} was written last"

    # -- law --------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """Strings [count, length], a function of the generator alone."""
        count, pairs = check_draw(rng, count, 4 * self.length), self.length // 2
        idle = ignored(rng, self.ignore, count)
        chance = rng.random((count, pairs))
        bits = rng.integers(0, 2, (count, pairs))
        what = np.where(chance < self.writes * (1 - idle), 0, np.where(chance < 1 - idle, 1, 2))
        what[:, 0], what[:, -1] = 0, 1
        last = np.maximum.accumulate(np.where(what == 0, np.arange(pairs), 0), axis=1)
        bits = np.where(what == 1, np.take_along_axis(bits, last, axis=1), bits)
        return np.stack([what, 3 + bits], axis=-1).reshape(count, self.length)

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, length] and their probabilities [n]. Raises `GrammarError` for long ones."""
        check_few(self, self.length // 2 - 2)
        found = dict(self._strings())
        return np.array(list(found), dtype=np.int64), np.array(list(found.values()))

    def _strings(self) -> Iterator[tuple[tuple[int, ...], float]]:
        free = self.length // 2 - 2
        for middle in itertools.product(range(3), repeat=free):
            each = [math.prod(law[what] for what in middle) for law in self._laws()]
            chance = sum(each) / len(each)
            if chance == 0:
                continue
            what = (0, *middle, 1)
            drawn = [at for at, one in enumerate(what) if one != 1]
            for bits in itertools.product(range(2), repeat=len(drawn)):
                of = dict(zip(drawn, bits, strict=True))
                row, state = [], 0
                for at, one in enumerate(what):
                    state = of[at] if one == 0 else state
                    row += [one, 3 + of.get(at, state)]
                yield tuple(row), chance / 2 ** len(drawn)

    def _laws(self) -> list[tuple[float, float, float]]:
        """(p_w, p_r, p_i) of each part of the mixture."""
        return [(self.writes * (1 - p), (1 - self.writes) * (1 - p), p) for p in self.ignore]

    def labels(self, tokens: Any) -> Ints:
        """The token that follows, -100 where none is asked. Raises `GrammarError` for what is no string."""
        tokens = token_ids(tokens, 5, axes=2)
        self.check_inputs(tokens)
        found = np.where(tokens == 1, 3 + self.state(tokens), IGNORE)
        if self.mode == "generative":
            found[:, :-1] = tokens[:, 1:]
        return found

    def law_nll(self, tokens: Any) -> Floats:
        """Nats of the exact law at each label [count, pos]; 0 at reads, and wherever there is no label.

        Infinite before an instruction that is impossible after those before it. Such a one tells nothing of the part
        of the mixture: what follows has the law that it would have after the possible ones alone.
        """
        tokens = token_ids(tokens, 5, axes=2)
        self.check_inputs(tokens)
        out = np.zeros(tokens.shape)
        if self.mode == "deterministic":
            return out
        if tokens.shape[1] > self.length:
            raise GrammarError(f"strings of {tokens.shape[1]} tokens have no law: length={self.length}")
        out[:, ::2] = np.where(tokens[:, ::2] == 1, 0.0, math.log(2))
        out[:, 1::2] = self._instruction_nll(tokens[:, ::2])[:, : tokens.shape[1] // 2]
        out[:, -1] = 0.0  # nothing follows
        return out

    def _instruction_nll(self, what: Ints) -> Floats:
        """Nats of the instruction after each, given all up to it; 0 after the last."""
        with np.errstate(divide="ignore"):
            each = np.log(np.array(self._laws()))[:, what]  # [part, string, pair]
        each[..., self.length // 2 - 1 :] = np.where(what == 1, 0.0, -np.inf)[
            :, self.length // 2 - 1 :
        ]  # the last is r
        known = np.zeros(each.shape[:2])  # log likelihood of each part, of the possible instructions so far
        before = np.logaddexp.reduce(known, axis=0)
        out = np.zeros(what.shape)
        for at in range(1, what.shape[1]):
            joint = known + each[..., at]
            now = np.logaddexp.reduce(joint, axis=0)
            possible = now > -np.inf
            out[:, at - 1] = before - now
            known, before = np.where(possible, joint, known), np.where(possible, now, before)
        return out

    def rungs(self, tokens: Any) -> dict[str, Floats]:
        """Nats at each label of: even over tokens; the law, but for the state (`either bit`); and the law, but for a
        state that no pair of the last `WINDOW` tokens tells."""
        tokens = token_ids(tokens, 5, axes=2)
        law, asked = self.law_nll(tokens), tokens == 1
        far = np.arange(tokens.shape[1]) - (self.told(tokens) - 1) >= WINDOW
        return {
            "uniform": np.full(tokens.shape, math.log(5)),
            "either bit": np.where(asked, math.log(2), law),
            f"last {WINDOW} tokens": np.where(asked & far, math.log(2), law),
        }

    def classes(self, tokens: Any) -> dict[str, Bools]:
        """Reads; those whose last write lies back half a string or more; those before which both bits were written."""
        tokens = token_ids(tokens, 5, axes=2)
        return classes_of(self, tokens, tokens == 1)

    # -- truth ------------------------------------------------------------------------------------

    def reads(self, tokens: Any) -> Bools:
        """Where the stored bit is asked for: at r."""
        return np.asarray(ids_of(self, tokens) == 1)

    def written(self, tokens: Any) -> Bools:
        """Where a written bit stands: right after w."""
        return after(ids_of(self, tokens), 0)

    def answers(self, tokens: Any) -> Bools:
        """Where a bit stands that was read: right after r."""
        return after(ids_of(self, tokens), 1)

    def idle(self, tokens: Any) -> Bools:
        """Where a bit stands that means nothing: right after i."""
        return after(ids_of(self, tokens), 2)

    def value(self, tokens: Any) -> Ints:
        """The bit that stands at each position, -1 for an instruction."""
        return np.maximum(ids_of(self, tokens) - 3, -1)

    def last_write(self, tokens: Any) -> Ints:
        """Where the bit written last stands, as far as each position has read; -1 before the first."""
        return latest(self.written(tokens))

    def told(self, tokens: Any) -> Ints:
        """Where the state was last told: the latest bit that was written or read, -1 before the first."""
        return latest(self.written(tokens) | self.answers(tokens))

    def state(self, tokens: Any) -> Ints:
        """The stored bit after each token, -1 before the first write."""
        return stored(self, tokens)

    def counterfactual(self, tokens: Any, positions: Any) -> Ints:
        """Each string with the token at its own position changed, and every later answer with it.

        A bit becomes the other one, w becomes i and i becomes w. Raises `GrammarError` for r, for the bit that
        follows it, and for the first w: no other token may stand there.
        """
        tokens, positions = token_ids(tokens, 5, axes=2).copy(), id_array(positions, "positions", GrammarError)
        if positions.shape != tokens.shape[:1] or not ((positions >= 0) & (positions < tokens.shape[1])).all():
            raise GrammarError(
                f"positions={quoted(positions.tolist())}: one of each of {len(tokens)} strings is needed"
            )
        each = np.arange(len(tokens))
        here = tokens[each, positions]
        fixed = (here == 1) | self.answers(tokens)[each, positions] | (positions == 0)
        if fixed.any():
            i = int(np.flatnonzero(fixed)[0])
            raise GrammarError(
                f"string {quoted(self.format(tokens[i]))} position {positions[i]}: nothing else may stand"
            )
        tokens[each, positions] = np.array([2, 1, 0, 4, 3])[here]
        return np.where(self.answers(tokens), 3 + self.state(tokens), tokens)

    # -- files ------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return data_of(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there."""
        made: Self = from_fields(cls, data, GrammarError)
        return made


@dataclass(frozen=True)
class TransductionGrammar:
    """The flip-flop automaton (Definition 11): no-ops ".", writes "0" and "1"; labelled is the state after each token.

    The first token is a write, so that every state was written. Each further one is a no-op with probability
    `ignore`, and either write is equally likely. Several values of `ignore` are the uniform mixture of their laws.

    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "flipflop-transduction"
    vocab: ClassVar[tuple[str, ...]] = (".", "0", "1")
    vocab_size: ClassVar[int] = 3
    label_names: ClassVar[tuple[str, ...]] = ("stores 0", "stores 1")

    length: Annotated[int, Interval(ge=2, le=LONGEST), doc("tokens of a string, T")] = 32
    ignore: Ignores = (0.8,)

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)

    @classmethod
    def small(cls) -> Self:
        """An instance whose strings can be listed."""
        return cls(length=6, ignore=(0.5,))

    def with_ignore(self, ignore: float) -> Self:
        """The same law with another p_i."""
        return replace(self, ignore=(ignore,))

    def to_tokens(self, texts: Any) -> Ints:
        """Token ids [text, pos] of strings of one length. Raises `GrammarError` for one that begins with a no-op."""
        tokens = read(texts, self.vocab)
        self.check_inputs(tokens)
        return tokens

    def format(self, row: Any) -> str:
        """The text of one string of ids."""
        return "".join(self.vocab[token] for token in token_ids(row, 3, axes=1).tolist())

    def check_inputs(self, tokens: Any, start: bool = True) -> None:
        """Raise `GrammarError` unless every row [input, pos] begins with a write."""
        tokens = token_ids(np.atleast_2d(ids_of(self, tokens)), 3, axes=2)
        for row in np.flatnonzero(tokens[:, 0] == 0)[:1]:
            raise GrammarError(
                f"string {quoted(self.format(tokens[row]))} position 0: every string begins with a write"
            )

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """Strings [count, length], a function of the generator alone."""
        count = check_draw(rng, count, 3 * self.length)
        idle = ignored(rng, self.ignore, count)
        chance = rng.random((count, self.length))
        chance[:, 0] = 1.0
        return np.where(chance < idle, 0, 1 + rng.integers(0, 2, (count, self.length)))

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, length] and their probabilities [n]. Raises `GrammarError` for long ones."""
        check_few(self, self.length - 1)
        rows = [(first, *rest) for first in (1, 2) for rest in itertools.product(range(3), repeat=self.length - 1)]
        tokens = np.array(rows, dtype=np.int64)
        idle = (tokens == 0).sum(1)
        each = [p**idle * ((1 - p) / 2) ** (self.length - 1 - idle) / 2 for p in self.ignore]
        chance = np.mean(each, axis=0)
        return tokens[chance > 0], chance[chance > 0]

    def labels(self, tokens: Any) -> Ints:
        """The stored bit after each token. Raises `GrammarError` for what is no string."""
        self.check_inputs(token_ids(tokens, 3, axes=2))
        return self.state(tokens)

    def law_nll(self, tokens: Any) -> Floats:
        """0 nats: the tokens say every label."""
        self.check_inputs(tokens)
        return np.zeros(ids_of(self, tokens).shape)

    def rungs(self, tokens: Any) -> dict[str, Floats]:
        """Nats at each label of: even over both; a memory of the last `WINDOW` tokens."""
        tokens = token_ids(tokens, 3, axes=2)
        far = np.arange(tokens.shape[1]) - self.last_write(tokens) >= WINDOW
        return {
            "uniform": np.full(far.shape, math.log(2)),
            f"last {WINDOW} tokens": np.where(far, math.log(2), 0.0),
        }

    def classes(self, tokens: Any) -> dict[str, Bools]:
        """No-ops; those whose last write lies back half a string or more; those before which both were written."""
        return classes_of(self, token_ids(tokens, 3, axes=2), self.reads(tokens))

    def reads(self, tokens: Any) -> Bools:
        """Where the stored bit has to be remembered: at no-ops."""
        return np.asarray(ids_of(self, tokens) == 0)

    def written(self, tokens: Any) -> Bools:
        """Where a write stands."""
        return np.asarray(ids_of(self, tokens) > 0)

    def answers(self, tokens: Any) -> Bools:
        """Nowhere: no token repeats the state."""
        return np.zeros(ids_of(self, tokens).shape, dtype=bool)

    def idle(self, tokens: Any) -> Bools:
        """Where a no-op stands."""
        return self.reads(tokens)

    def value(self, tokens: Any) -> Ints:
        """The bit that each position writes, -1 for a no-op."""
        return ids_of(self, tokens) - 1

    def last_write(self, tokens: Any) -> Ints:
        """Where the last write stands, the current token included; -1 before the first."""
        return latest(self.written(tokens))

    def told(self, tokens: Any) -> Ints:
        """Where the state was last told: the last write."""
        return self.last_write(tokens)

    def state(self, tokens: Any) -> Ints:
        """The stored bit after each token, -1 before the first write."""
        return stored(self, tokens)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return data_of(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there."""
        made: Self = from_fields(cls, data, GrammarError)
        return made
