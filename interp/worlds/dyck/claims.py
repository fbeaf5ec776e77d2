"""What can be said of heads in strings of brackets: relations, conditions, questions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import MOST as MOST_ID
from interp.checks import whole_from, words_of
from interp.claims import Called, Claims, Condition, Items, Made, Pairs, Question, Relation, Rows, Tokens, general
from interp.claims.general import MOST, MOST_PLACE, places, whole
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.worlds.dyck.grammar import DyckGrammar

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
DYCK = "dyck"
FEWEST = 50  # inputs with a place where the deciding opener is not the current token; with fewer, all places count


def _dyck(grammar: Any) -> DyckGrammar:
    if not isinstance(grammar, DyckGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is no DyckGrammar: this relation is one of brackets")
    return grammar


def _bracket(tokens: Tokens, grammar: Any) -> Bools:
    return np.asarray(tokens < _dyck(grammar).start)


# -- relations ----------------------------------------------------------------------------------------------


def _start(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (tokens == _dyck(grammar).start)[:, None, :]


def _opening(tokens: Tokens, grammar: Any) -> Bools:
    return _bracket(tokens, grammar) & (tokens % 2 == 0)


def _openers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & _opening(tokens, grammar)[:, None, :]


def _closers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (_bracket(tokens, grammar) & (tokens % 2 == 1))[:, None, :]


def _same_type(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    kind = np.where(_bracket(tokens, grammar), tokens // 2, -1)
    return visible & (kind[:, :, None] == kind[:, None, :]) & (kind >= 0)[:, None, :]


def _stack_top(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & places(_dyck(grammar).stack_top(tokens))


def _unmatched(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & _dyck(grammar).unmatched(tokens)


def _partner(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    partner = _dyck(grammar).partner(tokens)
    return visible & places(np.where(partner < np.arange(tokens.shape[1]), partner, -1))


def _same_depth(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    depth = _dyck(grammar).depth(tokens)
    return visible & (depth[:, :, None] == depth[:, None, :])


def _last_opener(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    place = np.arange(tokens.shape[1])
    recent = np.maximum.accumulate(np.where(_opening(tokens, grammar), place, -1), axis=1)
    return visible & np.asarray(recent[:, :, None] == place)


def _same_depth_openers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    openers = _opening(tokens, grammar)
    depth = grammar.depth(tokens)
    return visible & openers[:, None, :] & (depth[:, :, None] == depth[:, None, :])


def bracket_tokens(tokens: Iterable[int], words: str) -> Relation:
    """The relation to keys that are one of `tokens` (ids of brackets)."""
    given = tuple(tokens) if isinstance(tokens, Iterable) and not isinstance(tokens, bytes) else (tokens,)
    ids = tuple(sorted(whole_from("token", token, 0, MOST_ID) for token in given))
    words = words_of("words", words)

    def keys(inputs: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (_bracket(inputs, grammar) & np.isin(inputs, ids))[:, None, :]

    return Relation(f"tokens-{'-'.join(map(str, ids))}", words, "mass", DYCK, keys)


def bracket_type(i: int) -> Relation:
    """The relation to brackets of type `i` (from 0), opening and closing."""
    i = whole_from("bracket type", i, 0, MOST_ID)
    relation = bracket_tokens((2 * i, 2 * i + 1), f"brackets of type {i}")
    return Relation(f"type-{i}", relation.words, "mass", DYCK, relation.keys)


def brackets_of_type(kind: int) -> Relation:
    """Brackets of one type (from 0), opening and closing; the same object every time."""
    return _brackets_of_type(whole_from("bracket type", kind, 0, MOST))


@cache
def _brackets_of_type(kind: int) -> Relation:
    return next((r for r in OWN_RELATIONS if r.name == f"type-{kind}"), None) or bracket_type(kind)


def _relation(name: str, words: str, keys: Any, *also: str) -> Relation:
    return Relation(name, words, "mass", DYCK, keys, also)


# An opener counts as unmatched, and as the last such, from its own position on. START and END have a depth (0 in
# complete strings) and so count among tokens at the same depth; an opener counts itself in, a closer does not.
OWN_RELATIONS: tuple[Relation, ...] = (
    Relation(
        "start",
        "START",
        "mass",
        DYCK,
        _start,
        ("the START token", "the start of the string"),
        instead="'the first token' needs nothing",
    ),
    _relation("openers", "open brackets", _openers, "all open brackets", "any open bracket"),
    _relation("closers", "closing brackets", _closers, "all closing brackets", "any closing bracket"),
    _relation(
        "same-type", "brackets of the same type", _same_type, "tokens of the same type", "the same type", "same type"
    ),
    bracket_type(0),
    bracket_type(1),
    _relation(
        "stack-top",
        "the last unmatched open bracket",
        _stack_top,
        "the last unclosed open bracket",
        "the most recent unmatched open bracket",
        "the unmatched open bracket nearest by",
        "the innermost open bracket that is unmatched",
        "the innermost unmatched open bracket",
        "the open bracket on top of the stack",
        "the top of the stack",
        "the stack top",
    ),
    _relation(
        "unmatched",
        "all unmatched open brackets",
        _unmatched,
        "unmatched open brackets",
        "all unclosed open brackets",
        "all brackets on the stack",
    ),
    _relation(
        "partner", "the matching open bracket", _partner, "the open bracket that matches it", "its partner",
        "the partner", "its matching open bracket", "its matching bracket", "the matching bracket",
        "the open bracket that it closes", "the corresponding open bracket",
    ),
    _relation("same-depth", "tokens at the same depth", _same_depth, "all tokens at the same depth"),
    _relation(
        "last-opener", "the most recent open bracket", _last_opener, "the last open bracket", "the latest open bracket"
    ),
    _relation(
        "same-depth-openers",
        "open brackets at the same depth",
        _same_depth_openers,
        "all open brackets at the same depth",
    ),
)  # fmt: skip
# The register of the first studies, in their order.
RELATIONS: dict[str, Relation] = {
    name: next(r for r in (*general.RELATIONS, *OWN_RELATIONS) if r.name == name)
    for name in (
        *("current", "previous", "first", "start", "openers", "closers", "same-type", "type-0", "type-1", "stack-top"),
        *("unmatched", "partner", "copies", "earlier-copies", "same-depth", "all"),
    )
}


def _refuse(relation: Relation, grammar: Any) -> None:
    kind = relation.name.removeprefix("type-")
    types = _dyck(grammar).num_types
    if relation.name.startswith("type-") and kind.isdigit() and int(kind) >= types:
        right = f"types 0 to {types - 1}" if types > 1 else "type 0 only"
        raise RequestError(f"{quoted(relation.words)} are not there: the grammar has brackets of {right}")


# -- conditions ---------------------------------------------------------------------------------------------


def _side(tokens: Tokens, grammar: Any, side: int) -> Rows:
    if not isinstance(grammar, DyckGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is no DyckGrammar: this condition is one of brackets")
    return np.asarray((tokens < grammar.start) & (tokens % 2 == side))


CLOSING = Condition(
    "closing",
    "the current token is a closing bracket",
    DYCK,
    lambda tokens, grammar, keys: _side(tokens, grammar, 1),
    ("at closing brackets", "the query is a closing bracket"),
)
OPENING = Condition(
    "opening",
    "the current token is an open bracket",
    DYCK,
    lambda tokens, grammar, keys: _side(tokens, grammar, 0),
    ("at open brackets", "the query is an open bracket"),
)


def depth_at_least(least: int) -> Condition:
    """The stack, once the current token is read, holds `least` brackets or more."""
    return _depth(whole_from("depth", least, 0, MOST_PLACE), MOST_PLACE, "at least ", "")


def depth_is(depth: int) -> Condition:
    """The stack, once the current token is read, holds `depth` brackets."""
    depth = whole_from("depth", depth, 0, MOST_PLACE)
    return _depth(depth, depth, "", "is-")


def depth_at_most(most: int) -> Condition:
    """The stack, once the current token is read, holds `most` brackets or fewer."""
    return _depth(0, whole_from("depth", most, 0, MOST_PLACE), "at most ", "most-")


@cache
def _depth(least: int, most: int, how: str, name: str) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        inside = (tokens != grammar.pad) if isinstance(grammar, DyckGrammar) else _side(tokens, grammar, 0)
        depth = grammar.depth(tokens)
        return np.asarray(inside & (depth >= least) & (depth <= most))

    number = most if name else least
    return Condition(f"depth-{name}{number}", f"the depth is {how}{number}", DYCK, rows)


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    return [CLOSING, OPENING, *(depth_at_least(d) for d in range(2, grammar.max_depth + 1))]


# -- questions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Closers:
    """Which bracket closes next. The deciding opener, the last unmatched one, changes type.

    Read where a closing bracket has just been read, if at least `FEWEST` inputs have such a place: elsewhere the
    current token is itself the deciding opener, and nothing has to be attended to.
    """

    name: str = "closers"
    words: str = "predict closing brackets"
    also: tuple[str, ...] = ("predict the closing bracket", "close brackets", "predict the right closing bracket")

    def items(self, tokens: Ints, grammar: DyckGrammar, rows: Bools, seed: int) -> Items:
        """Minimal pairs in the type of the last unmatched opener."""
        top = grammar.stack_top(tokens)
        wanted = rows & (tokens < grammar.start) & (top >= 0)
        away = wanted & (top < np.arange(tokens.shape[1]))
        if away.any(1).sum() >= FEWEST:
            wanted = away
        sequence, read = _one_each(wanted, seed, "audit/closers")
        return _pairs(tokens, grammar, sequence, read, top[sequence, read], 1, seed)


@dataclass(frozen=True)
class Copies:
    """Which bracket stands here: the task of copying models. That bracket changes type."""

    name: str = "copies"
    words: str = "repeat the current token"
    also: tuple[str, ...] = ("copy the current token", "copy brackets")

    def items(self, tokens: Ints, grammar: DyckGrammar, rows: Bools, seed: int) -> Items:
        """Minimal pairs in the type of the current bracket."""
        sequence, read = _one_each(rows & (tokens < grammar.start), seed, "audit/copies")
        return _pairs(tokens, grammar, sequence, read, read, 0, seed)


def _one_each(wanted: Bools, seed: int, stream: str) -> tuple[Ints, Ints]:
    """One position of each input among `wanted` [input, pos], drawn evenly: inputs that have one, and theirs."""
    drawn = np.where(wanted, generator(seed, stream).random(wanted.shape), -1.0)
    sequence = np.flatnonzero(wanted.any(1))
    return sequence, drawn.argmax(1)[sequence]


def _pairs(
    tokens: Ints, grammar: DyckGrammar, sequence: Ints, read: Ints, flipped: Ints, step: int, seed: int
) -> Items:
    """`step`: from the token that decides to the answer, 1 from an opener to its closer."""
    base = tokens[sequence]
    donors = grammar.counterfactual(base, flipped, seed=seed) if len(base) else base
    each = np.arange(len(base))
    answer, foil = (text[each, flipped] + step for text in (base, donors))
    return Items(sequence, base, np.asarray(donors), read, flipped, answer, foil)


def _question(grammar: DyckGrammar) -> str | None:
    if grammar.num_types == 1:
        return None  # one type of bracket leaves nothing to get right
    return "copies" if grammar.copies else "closers"


CALLED = (
    Called(
        "matches brackets",
        "the matching open bracket",
        ("is a bracket-matching head", "is a bracket matcher", "is a matching head", "pairs brackets"),
    ),
    Called(
        "tracks depth",
        "",
        (
            "tracks the depth",
            "tracks the nesting depth",
            "counts depth",
            "counts the depth",
            "computes depth",
            "computes the depth",
            "is a depth head",
            "is a depth-tracking head",
            "is a counting head",
        ),
        "many patterns give the depth: claim 'attends to all visible tokens evenly', 'attends to all unmatched open "
        "brackets evenly', or 'attends to tokens at the same depth'",
    ),
    Called(
        "tracks the stack",
        "the last unmatched open bracket",
        ("is a stack head", "is a stack-top head", "reads the top of the stack"),
    ),
)
QUESTIONS: tuple[Question, ...] = (Closers(), Copies())

# -- inputs -------------------------------------------------------------------------------------------------


def _inputs(grammar: DyckGrammar, count: int, length: int, seed: int, stream: str) -> Tokens:
    return grammar.to_tokens(grammar.sample(count, mode="prefix", length=length, seed=seed, stream=stream))


def _roles(tokens: Tokens, grammar: DyckGrammar) -> Ints:
    """Closing bracket, open bracket, START, other."""
    special = np.where(tokens == grammar.start, 2, 3)
    return np.where(tokens < grammar.start, tokens % 2, special)


def _tails(grammar: Any) -> dict[str, Any]:
    """Strings that are deep most of the time; none where no string is deep."""
    known = _dyck(grammar)
    return {"strings that are deep most of the time": replace(known, open_prob=0.8)} if known.max_depth > 1 else {}


CLAIMS = Claims(
    relations=OWN_RELATIONS,
    conditions=(CLOSING, OPENING),
    relations_made=(
        Made("brackets of type t", r"bracket of type (\d+)", lambda t: brackets_of_type(whole(t))),
    ),
    conditions_made=(
        Made(
            "the depth is at least n",
            r"(?:depth is )?(?:at )?(?:depth )?at least (\d+)",
            lambda n: depth_at_least(whole(n)),
        ),
        Made("the depth is n", r"(?:at )?depth(?: is)? (\d+)", lambda n: depth_is(whole(n))),
        Made(
            "the depth is at most n",
            r"(?:at )?depth (?:is )?at most (\d+)",
            lambda n: depth_at_most(whole(n)),
        ),
    ),
    questions=QUESTIONS,
    question=_question,
    refuse=_refuse,
    suggest=_suggest,
    tails=_tails,
    inputs=_inputs,
    longest=lambda grammar, length: length + 1,
    roles=_roles,
    called=CALLED,
    same=(
        (r"\b(opening|open) bracket", "open bracket"),
        (r"\bopeners?\b", "open bracket"),
        (r"\b(closed|close) bracket", "closing bracket"),
        (r"\bclosers?\b", "closing bracket"),
        (r"\bunclosed\b", "unmatched"),
        (r"\bbrackets\b", "bracket"),
    ),
    aliases=(frozenset({"start", "first", "token-START"}),),
    truth="a grammar of brackets",
    use="is about brackets, and the model has no grammar of brackets",
    nothing="has nothing to get right in a grammar of one bracket type",
)  # fmt: skip
