"""What can be said of heads in flip-flops: relations, conditions, the question and its two kinds of minimal pair."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.checks import whole_from
from interp.claims import Claims, Condition, Items, Made, Pairs, Relation, Rows, Tokens
from interp.claims.general import MOST_PLACE, places, whole
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.worlds.flipflop.grammar import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.strings import both_written

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
FLIPFLOP = "flipflop"
Grammar = FlipFlopGrammar | TransductionGrammar


def _known(grammar: Any) -> Grammar:
    if not isinstance(grammar, (FlipFlopGrammar, TransductionGrammar)):
        raise RequestError(f"grammar={quoted(grammar)} is not a grammar of flip-flops: this is about what was written")
    return grammar


# -- relations ----------------------------------------------------------------------------------------------


def _past(visible: Pairs) -> Pairs:
    """What a query sees that is not behind it: truth in a flip-flop is of what was read."""
    return visible & np.tri(visible.shape[-1], dtype=bool)


def _last_write(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & places(_known(grammar).last_write(tokens))


def _writes(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return _past(visible) & _known(grammar).written(tokens)[:, None, :]


def _of_value(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    stored, value = _known(grammar).state(tokens), grammar.value(tokens)
    return _writes(tokens, grammar, visible) & (stored[:, :, None] == value[:, None, :])


def _write_before(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    last = _known(grammar).last_write(tokens)
    before = np.take_along_axis(
        last, np.maximum(last - 1, 0), axis=-1
    )  # the last write as the position before it has it
    return visible & places(np.where(last > 0, before, -1))


def _told(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & places(_known(grammar).told(tokens))


def _idle(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return _past(visible) & _known(grammar).idle(tokens)[:, None, :]


LAST_WRITE = Relation(
    "last-write",
    "the last write",
    "mass",
    FLIPFLOP,
    _last_write,
    ("the bit that was written last", "the bit of the last write", "the last written bit"),
)
OF_VALUE = Relation(
    "writes-of-value",
    "all writes of the stored bit",
    "mass",
    FLIPFLOP,
    _of_value,
    ("all writes of that value", "writes of the stored bit", "all writes of the right value"),
)
RELATIONS: tuple[Relation, ...] = (
    LAST_WRITE,
    OF_VALUE,
    Relation(
        "writes-of-value-even",
        "all writes of the stored bit evenly",
        "even",
        FLIPFLOP,
        _of_value,
        ("all writes of that value evenly",),
    ),
    Relation("writes", "all writes", "mass", FLIPFLOP, _writes, ("any write", "written bits")),
    Relation(
        "write-before", "the write before the last", "mass", FLIPFLOP, _write_before, ("the write before the last one",)
    ),
    Relation(
        "last-told",
        "the last bit that was written or read",
        "mass",
        FLIPFLOP,
        _told,
        ("the last token that tells the stored bit",),
    ),
    Relation("idle", "what is to be ignored", "mass", FLIPFLOP, _idle, ("ignored bits", "no-ops")),
)


def _refuse(relation: Relation, grammar: Any) -> None:
    if relation.name == "last-told" and isinstance(grammar, TransductionGrammar):
        raise RequestError(f"{quoted(relation.words)}: nothing is read in this grammar; say {quoted(LAST_WRITE.words)}")


# -- conditions ---------------------------------------------------------------------------------------------

READ = Condition(
    "read",
    "the stored bit is read",
    FLIPFLOP,
    lambda tokens, grammar, keys: _known(grammar).reads(tokens),
    ("at a read", "at reads", "the query is a read"),
)
CONTESTED = Condition(
    "contested",
    "both bits were written",
    FLIPFLOP,
    lambda tokens, grammar, keys: both_written(_known(grammar), tokens),
    ("another bit was written before",),
)


def gap_at_least(least: int) -> Condition:
    """The last write lies `least` tokens back or more."""
    return _gap_at_least(whole_from("gap", least, 0, MOST_PLACE))


@cache
def _gap_at_least(least: int) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        last = _known(grammar).last_write(tokens)
        return np.asarray((last >= 0) & (np.arange(tokens.shape[1]) - last >= least))

    return Condition(f"gap-{least}", f"the last write is at least {least} tokens back", FLIPFLOP, rows)


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    return [READ, CONTESTED, *(gap_at_least(longest // part) for part in (4, 2))]


# -- the question -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredBit:
    """Which bit is stored? Asked where it is read.

    Kinds of minimal pair: `content`, the last write writes the other bit; `address`, the last write is none (w
    becomes i, a write a no-op), so that the write before decides, which wrote the other bit. Answers between change
    with it. An input without such a read (one write only, say) has no item.
    """

    name: str = "stored-bit"
    words: str = "tell the stored bit"
    also: tuple[str, ...] = ("tell the bit that was written last", "answer reads", "predict what is read")
    kinds: ClassVar[tuple[str, ...]] = ("content", "address")

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int, kind: str = "content") -> Items:
        """Minimal pairs of a kind; at most one per input."""
        if kind not in self.kinds:
            raise RequestError(f"kind={quoted(kind)} is none of {', '.join(self.kinds)}")
        last = _known(grammar).last_write(tokens)
        asked = rows & grammar.reads(tokens) & (last >= 0)
        stored = grammar.state(tokens)
        if kind == "address":
            earlier = np.take_along_axis(stored, np.maximum(last - 1, 0), axis=-1)  # the state just before it
            asked &= (last > 0) & (earlier >= 0) & (earlier != stored)
        sequence, read = _one_each(asked, seed, f"audit/stored-bit/{kind}")
        base, at = tokens[sequence], last[sequence, read]
        donors, flipped = _donors(base, at, grammar, kind)
        of = stored[sequence, read]
        shift = 3 if isinstance(grammar, FlipFlopGrammar) else 0  # from a bit to the token, or label, that says it
        return Items(sequence, base, donors, read, flipped, of + shift, 1 - of + shift)


def _donors(base: Ints, at: Ints, grammar: Any, kind: str) -> tuple[Ints, Ints]:
    """Donors [item, pos], and where each differs first."""
    if isinstance(grammar, FlipFlopGrammar):
        flipped = at if kind == "content" else at - 1
        return (grammar.counterfactual(base, flipped) if len(base) else base), flipped
    donors = base.copy()
    each = np.arange(len(base))
    donors[each, at] = 3 - base[each, at] if kind == "content" else 0
    return donors, at


def _one_each(wanted: Bools, seed: int, stream: str) -> tuple[Ints, Ints]:
    """One position of each input among `wanted` [input, pos], drawn evenly: inputs that have one, and theirs."""
    drawn = np.where(wanted, generator(seed, stream).random(wanted.shape), -1.0)
    sequence = np.flatnonzero(wanted.any(1))
    return sequence, drawn.argmax(1)[sequence]


def _roles(tokens: Tokens, grammar: Any) -> Ints:
    """Instructions by kind and bits; writes and no-ops."""
    return np.minimum(tokens, 3) if isinstance(grammar, FlipFlopGrammar) else np.minimum(tokens, 1)


CLAIMS = Claims(
    relations=RELATIONS,
    conditions=(READ, CONTESTED),
    conditions_made=(
        Made(
            "the last write is at least g tokens back",
            r"last write is at least (\d+)(?: token)?(?: back)?",
            lambda g: gap_at_least(whole(g)),
        ),
    ),
    questions=(StoredBit(),),
    question=lambda grammar: "stored-bit",
    refuse=_refuse,
    suggest=_suggest,
    tails=lambda grammar: {
        "strings with a write in fifty steps": replace(grammar, ignore=(0.98,)),
        "strings with few no-ops": replace(grammar, ignore=(0.1,)),
    },
    roles=_roles,
    truth="a grammar of flip-flops",
    use="is about flip-flops, and the model has no grammar of flip-flops",
)
