"""What can be said of heads that recall: relations, conditions, the question with both kinds of minimal pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.claims import Claims, Condition, Items, Pairs, Relation, Rows, Tokens, general
from interp.rng import generator
from interp.worlds.recall.grammar import RecallGrammar, last_copy

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
RECALL = "recall"


def _last(tokens: Tokens) -> Ints:
    """Of any tokens, with or without a grammar: worlds of other strings share these relations."""
    return last_copy(tokens, int(tokens.max(initial=0)) + 1)


def _after_last(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    at = _last(tokens)
    return visible & general.places(np.where(at < 0, -1, at + 1))


def _last_copy(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & general.places(_last(tokens))


def _copied(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    return np.asarray(_last(tokens) >= 0)


def _repeats(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    return np.concatenate([np.zeros((len(tokens), 1), bool), tokens[:, 1:] == tokens[:, :-1]], axis=1)


AFTER_LAST_COPY = Relation(
    "after-last-copy",
    "the token after the last earlier copy of the current token",
    "mass",
    RECALL,
    _after_last,
    ("the token that followed the last earlier copy of the current token", "the token to recall"),
)
LAST_COPY = Relation(
    "last-copy",
    "the last earlier copy of the current token",
    "mass",
    RECALL,
    _last_copy,
    ("the last earlier copy of itself",),
)
COPIED = Condition(
    "copied", "an earlier copy of the current token exists", RECALL, _copied, ("an earlier copy exists",)
)
REPEATS = Condition(
    "repeats",
    "the current token repeats the previous one",  # what followed its last earlier copy is then the query itself
    RECALL,
    _repeats,
    ("the current token is the previous one again",),
)


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    return [COPIED, REPEATS, general.position_at_least(max(1, longest // 4))]


@dataclass(frozen=True)
class Recall:
    """What followed the last earlier copy? Read where that is not the query itself.

    - `content`: the symbol that followed the last copy becomes another one, which is then the answer.
    - `address`: the last copy itself becomes another symbol, so that the copy before it decides, which was followed by
      something else. Read where there is such a one.
    """

    name: str = "recall"
    words: str = "recall what followed the last copy"
    also: tuple[str, ...] = ("recall", "tell what followed the last earlier copy")
    kinds: tuple[str, ...] = ("content", "address")

    def items(self, tokens: Ints, grammar: RecallGrammar, rows: Bools, seed: int, kind: str = "content") -> Items:
        """Minimal pairs [item, pos] of one kind, one per input that has a row for it."""
        last, place = grammar.last_copy(tokens), np.arange(tokens.shape[1])
        before = np.where(last < 0, -1, np.take_along_axis(last, np.maximum(last, 0), axis=1))

        def following(at: Ints) -> Ints:
            return np.take_along_axis(tokens, np.clip(at + 1, 0, tokens.shape[1] - 1), axis=1)

        wanted = rows & (last >= 0) & (last + 1 < place)
        if kind == "address":
            wanted = wanted & (before >= 0) & (before + 1 < last) & (following(before) != following(last))
        source = generator(seed, f"recall/{kind}")
        sequence = np.flatnonzero(wanted.any(1))
        read = np.where(wanted, source.random(wanted.shape), -1.0).argmax(1)[sequence]
        base, each = tokens[sequence], np.arange(len(sequence))
        copy, asked = last[sequence, read], base[each, read]
        answer = base[each, copy + 1]
        # Any symbol but two: the one asked for, of which there would be one more copy, and the one that stands there.
        flipped = copy + (kind == "content")
        new = _other(source, grammar.symbols, asked, base[each, flipped])
        donors = base.copy()
        donors[each, flipped] = new
        foil = new if kind == "content" else base[each, before[sequence, read] + 1]
        return Items(sequence, base, donors, read, flipped, answer, foil)


def _other(source: np.random.Generator, size: int, one: Ints, two: Ints) -> Ints:
    """A symbol [item] below `size` that is neither `one` nor `two`, drawn evenly."""
    chance = source.random((len(one), size))
    each = np.arange(len(one))
    chance[each, one] = chance[each, two] = -1.0
    return np.asarray(chance.argmax(1))


CLAIMS = Claims(
    relations=(AFTER_LAST_COPY, LAST_COPY),
    conditions=(COPIED, REPEATS),
    questions=(Recall(),),
    question=lambda grammar: "recall",
    suggest=_suggest,
    truth="strings of symbols in which earlier copies are looked for",
    use="is asked of models that recall what followed an earlier copy",
)
