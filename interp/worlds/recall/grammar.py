"""Law and truth of recall: START, then symbols drawn evenly; a token is asked what followed its last earlier copy.

The task of a two-layer induction circuit (slides of seed 003, L1256-1272 and L2431-2446): one layer carries to each
position the token before it, the next finds the position that holds the current token there.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import true_or_false
from interp.constraints import Annotated, Interval, check_fields, doc, from_fields
from interp.errors import GrammarError, quoted
from interp.numeric_arrays import token_ids
from interp.rng import check_draw
from interp.vocabulary import cut, padded, texts_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
IGNORE = -100
COPIES_BETA = 0.1  # what the rung "any copy" adds to each count: a few successors are all that it ever sees


@dataclass(frozen=True)
class RecallGrammar:
    """START and `length` symbols, drawn evenly from `symbols` of them.

    The label of a position is the symbol that followed the last earlier copy of its token; a token that was not there
    before has none. Symbols have the ids 0 to `symbols` - 1, START the next one.

    Source: tutorial slides (*Sandbox for the Blackbox*).
    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "recall"
    has_start: ClassVar[bool] = True

    symbols: Annotated[int, Interval(ge=3, le=len(LETTERS)), doc("symbols that are drawn from")] = 12
    length: Annotated[int, Interval(ge=2, le=2000), doc("symbols of a string")] = 32

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)

    # -- vocabulary -------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Id of START."""
        return self.symbols

    @property
    def vocab(self) -> tuple[str, ...]:
        """The symbols a, b, c, ..., then START."""
        return (*LETTERS[: self.symbols], "START")

    @property
    def vocab_size(self) -> int:
        """Symbols and START."""
        return self.symbols + 1

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels are symbols, by their ids."""
        return tuple(LETTERS[: self.symbols])

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """Texts of one length as ids [batch, pos], START first. Raises `GrammarError` for anything else."""
        ids = {name: i for i, name in enumerate(self.vocab)}
        given = texts_of(texts, "abcab")
        rows = [cut(text, ids) for text in given]
        for text, row in zip(given, rows, strict=True):
            if self.start in row[1:]:
                raise GrammarError(self._no_string(text))
        return padded([row if row[:1] == [self.start] else [self.start, *row] for row in rows], None)

    def format(self, tokens: ArrayLike) -> str:
        """Text of one row of ids, its START left out."""
        row = token_ids(tokens, self.vocab_size, axes=1)
        return "".join(self.vocab[i] for i in (row[1:] if row[:1].tolist() == [self.start] else row))

    def check_inputs(self, tokens: ArrayLike, start: bool = True) -> None:
        """Raise `GrammarError` unless every row [..., pos] is START and symbols; `start`: whether START must be there.

        It stands nowhere but first in any case.
        """
        array = self._ids(tokens)
        starts = (array == self.start).reshape(-1, array.shape[-1])
        wrong = starts[:, 1:].any(1)
        if true_or_false("start", start):
            wrong |= ~starts[:, 0]
        for row in array.reshape(starts.shape)[wrong][:1]:
            raise GrammarError(self._no_string(row.tolist()))

    def _no_string(self, given: Any) -> str:
        return f"{quoted(given)} is not a string of this law: START ({self.start}) stands first and nowhere else"

    # -- law --------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` strings [count, 1 + length]."""
        count = check_draw(rng, count, 2 * self.length)
        symbols = rng.integers(0, self.symbols, (count, self.length))
        return np.concatenate([np.full((count, 1), self.start), symbols], axis=1)

    def labels(self, tokens: ArrayLike) -> Ints:
        """What followed the last earlier copy [..., pos], -100 without one. Raises `GrammarError` for no string."""
        array = self._ids(tokens)
        self.check_inputs(array)
        at = self.recalled(array)
        return np.where(at < 0, IGNORE, np.take_along_axis(array, np.maximum(at, 0), axis=-1))

    def law_nll(self, tokens: ArrayLike) -> Floats:
        """Zeros [..., pos]: a string says its labels for certain."""
        return np.zeros(self.labels(tokens).shape)

    def rungs(self, tokens: Ints) -> dict[str, Floats]:
        """Nats at each label [string, pos] of who guesses; who counts the symbols so far (add-1); and who counts what
        followed any earlier copy, not only the last one (add-0.1)."""
        tokens = token_ids(tokens, self.vocab_size, axes=2)
        labels = np.maximum(self.labels(tokens), 0)
        rows, n = tokens.shape
        each = np.arange(rows)
        seen = np.zeros((rows, self.vocab_size))
        after = np.zeros((rows, self.vocab_size, self.vocab_size), dtype=np.float32)
        symbols, copies = np.zeros(tokens.shape), np.zeros(tokens.shape)
        for at in range(n):
            here, label = tokens[:, at], labels[:, at]
            if at:
                seen[each, here] += 1
                after[each, tokens[:, at - 1], here] += 1
            symbols[:, at] = (seen[each, label] + 1) / (at + self.symbols)
            followed = after[each, here]
            copies[:, at] = (followed[each, label] + COPIES_BETA) / (followed.sum(1) + COPIES_BETA * self.symbols)
        even = np.full(tokens.shape, np.log(self.symbols))
        return {"uniform": even, "unigram": -np.log(symbols), "any copy": -np.log(copies)}

    def classes(self, tokens: Ints) -> dict[str, NDArray[np.bool_]]:
        """Where the key is not the query itself, and where earlier copies were followed by different symbols."""
        at = self.recalled(token_ids(tokens, self.vocab_size, axes=2))
        place = np.arange(at.shape[1])
        return {"elsewhere": (at >= 0) & (at < place), "contested": self.contested(tokens)}

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, 1 + length] of a small instance, and their probabilities [n], which are equal."""
        number = self.symbols**self.length
        if number > 10**6:
            raise GrammarError(f"{self.symbols} symbols make {number} strings of {self.length}: too many to list")
        rows = np.array(list(itertools.product(range(self.symbols), repeat=self.length)))
        tokens = np.concatenate([np.full((number, 1), self.start), rows], axis=1)
        return tokens, np.full(number, 1 / number)

    @classmethod
    def small(cls) -> "RecallGrammar":
        """Three symbols in strings of seven, for checks."""
        return cls(symbols=3, length=7)

    # -- truth ------------------------------------------------------------------------------------

    def last_copy(self, tokens: ArrayLike) -> Ints:
        """Where the last earlier copy of each token stands, -1 without one [..., pos]."""
        return last_copy(self._ids(tokens), self.vocab_size)

    def recalled(self, tokens: ArrayLike) -> Ints:
        """The key of each query [..., pos]: the position after the last earlier copy, which may be the query itself;
        -1 without a copy."""
        at = self.last_copy(tokens)
        return np.where(at < 0, -1, at + 1)

    def contested(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Where an earlier copy was followed by another symbol than the last one was [..., pos]."""
        array = self._ids(tokens)
        last, following = self.last_copy(array), np.roll(array, -1, axis=-1)
        answer = np.take_along_axis(following, np.maximum(last, 0), axis=-1)
        differs = np.zeros(array.shape, dtype=bool)
        earlier = last
        for _ in range(array.shape[-1]):
            earlier = np.where(earlier < 0, -1, np.take_along_axis(last, np.maximum(earlier, 0), axis=-1))
            if (earlier < 0).all():
                break
            differs |= (earlier >= 0) & (np.take_along_axis(following, np.maximum(earlier, 0), axis=-1) != answer)
        return differs

    def _ids(self, tokens: ArrayLike) -> Ints:
        return token_ids(tokens, self.vocab_size)

    # -- as data ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RecallGrammar":
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there."""
        made: RecallGrammar = from_fields(cls, data, GrammarError)
        return made


def last_copy(tokens: Ints, size: int) -> Ints:
    """Where the last earlier copy of each token below `size` stands, -1 without one [..., pos]."""
    rows = tokens.reshape(-1, tokens.shape[-1])
    out = np.full(rows.shape, -1, dtype=np.int64)
    seen, each = np.full((len(rows), size), -1, dtype=np.int64), np.arange(len(rows))
    for at, column in enumerate(rows.T):
        out[:, at] = seen[each, column]
        seen[each, column] = at
    return out.reshape(tokens.shape)
