"""What can be said of heads that count in context: relations, conditions, the question with both kinds of pair."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import whole_from
from interp.claims import Claims, Condition, Items, Made, Pairs, Relation, Rows, Tokens, general
from interp.claims.general import whole
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.worlds.markov.base import InContext
from interp.worlds.markov.grammar import MarkovGrammar
from interp.worlds.recall.claims import COPIED, REPEATS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MARKOV = "markov"
MOST_PARENTS = 8


def _in_context(grammar: Any) -> InContext:
    if not isinstance(grammar, InContext):
        raise RequestError(
            f"grammar={quoted(grammar)} draws no kernel for each string: this relation is of one that does"
        )
    return grammar


# -- relations and conditions -------------------------------------------------------------------------------


def _parents(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    parents = _in_context(grammar).parents_of(tokens.shape[1])
    return visible & (parents[:, :, None] == np.arange(tokens.shape[1])).any(1)


def _matches(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & _in_context(grammar).matches(tokens)


PARENTS = Relation(
    "parents",
    "the causal parents of the current token",
    "mass",
    MARKOV,
    _parents,
    ("its causal parents", "the causal parent of the current token", "its parents"),
    instead="of a chain of order 1 say 'the previous token'",
)
MATCHES = Relation(
    "matches",
    "tokens whose causal parents match the current context",
    "mass",
    MARKOV,
    _matches,
    ("tokens that followed the current context before",),
    instead="of a chain of order 1 say 'the token after an earlier copy of the current token'",
)


def parent(number: int) -> Relation:
    """The causal parent of that number, 1 for the nearest."""
    return _parent(whole_from("parent", number, 1, MOST_PARENTS))


@cache
def _parent(number: int) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & general.places(_in_context(grammar).parents_of(tokens.shape[1])[:, -number])

    return Relation(f"parent-{number}", f"parent {number} of the current token", "mass", MARKOV, keys)


def _matched(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    return np.asarray(_in_context(grammar).matches(tokens).any(-1))


MATCHED = Condition(
    "matched", "the current context was there before", MARKOV, _matched, ("the context was there before",)
)


def _refuse(relation: Relation, grammar: Any) -> None:
    order = _in_context(grammar).order
    chain = isinstance(grammar, MarkovGrammar)
    if relation.name in ("parents", "matches") and chain and order == 1:
        raise RequestError(f"{quoted(relation.words)} has a name of its own here: {relation.instead}")
    number = relation.name.removeprefix("parent-")
    if number == relation.name or not number.isdigit():
        return
    if int(number) > order:
        raise RequestError(f"{quoted(relation.words)} is not there: a token has order={order} of them")
    if chain:
        instead = "the previous token" if number == "1" else f"the token {number} positions before"
        raise RequestError(f"{quoted(relation.words)} has a name of its own in a chain: {instead!r}")


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    early = general.position_at_least(max(1, longest // 4))  # of early rows few keys are right, and counts are small
    return [MATCHED, REPEATS, general.ELSEWHERE, early]


# -- the question -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Successor:
    """Which state is the likelier next? Read where the current context was there once before, and apart from it.

    The token that followed it then is the one that a counting model holds for likeliest.

    - `content`: that token becomes another state, which is then the likelier one.
    - `address`: one token of the earlier context becomes another, so that the current context was never there, and the
      answer is no likelier than the foil, any other state.

    Pairs are taken where the one change makes no other match.
    """

    name: str = "successor"
    words: str = "predict the likelier next token"
    also: tuple[str, ...] = ("predict the next token", "count in context")
    kinds: tuple[str, ...] = ("content", "address")

    def items(self, tokens: Ints, grammar: InContext, rows: Bools, seed: int, kind: str = "content") -> Items:
        """Minimal pairs [item, pos] of one kind, one an input that has a row for it."""
        source, n = generator(seed, f"markov/{kind}"), tokens.shape[1]
        text, at, key = _lone(tokens, grammar, rows)
        places = key[:, None] if kind == "content" else grammar.parents_of(n)[key]
        valid = _valid(tokens[text], grammar, at, key, places, found=kind == "content")
        rank = np.where(valid.any((1, 2)), source.random(len(at)), -1.0)
        chosen = np.array([i for i in _best_of_each(text, rank) if rank[i] >= 0], dtype=np.int64)
        pick = np.where(valid[chosen], source.random(valid[chosen].shape), -1.0).reshape(len(chosen), -1).argmax(1)
        each, sequence, read = np.arange(len(chosen)), text[chosen], at[chosen]
        flipped = places[chosen, pick // grammar.states]
        base, new = tokens[sequence], pick % grammar.states
        donors = base.copy()
        donors[each, flipped] = new
        answer = base[each, key[chosen]]
        other = (answer + source.integers(1, grammar.states, len(chosen))) % grammar.states
        return Items(sequence, base, donors, read, flipped, answer, new if kind == "content" else other)


def _lone(tokens: Ints, grammar: InContext, rows: Bools) -> tuple[Ints, Ints, Ints]:
    """(input, row, the one key whose context is the row's) wherever there is one, and it is not in the row's window."""
    n = tokens.shape[1]
    matches = grammar.matches(tokens)
    key = matches.argmax(-1)
    apart = key <= np.arange(n) - grammar.order
    text, at = np.nonzero(rows & grammar.asked_of(n) & (matches.sum(-1) == 1) & apart)
    return text, at, key[text, at]


def _valid(tokens: Ints, grammar: InContext, at: Ints, key: Ints, places: Ints, found: bool) -> Bools:
    """Which new states [row, place, state] at `places` [row, place] leave one match at `key`, or none (`found`)."""
    count, n = tokens.shape
    each, here = np.arange(count), grammar.windows(tokens)[np.arange(count), at]
    behind = np.arange(n) <= at[:, None]
    out = np.zeros((*places.shape, grammar.states), dtype=bool)
    for place in range(places.shape[1]):
        for state in range(grammar.states):
            changed = tokens.copy()
            changed[each, places[:, place]] = state
            same = (grammar.contexts(changed) == here[:, None]) & behind
            right = (same.sum(1) == 1) & same[each, key] if found else ~same.any(1)
            out[:, place, state] = right & (tokens[each, places[:, place]] != state)
    return out


def _best_of_each(text: Ints, rank: NDArray[np.float64]) -> list[int]:
    """The place of the largest rank of each text, texts rising."""
    order = np.lexsort((-rank, text))
    first = np.unique(text[order], return_index=True)[1]
    return [int(i) for i in order[first]]


CLAIMS = Claims(
    relations=(PARENTS, MATCHES),
    conditions=(MATCHED,),
    relations_made=(
        Made(
            "parent n of the current token",
            r"(?:causal )?parent (\d+)(?: of current token)?",
            lambda number: parent(whole(number)),
        ),
    ),
    questions=(Successor(),),
    question=lambda grammar: "successor",
    refuse=_refuse,
    suggest=_suggest,
    truth="strings of states with a kernel of their own",
    use="is asked of models that predict the next state of a chain",
)
__all__ = ["CLAIMS", "COPIED", "MATCHED", "MATCHES", "PARENTS", "REPEATS", "Successor", "parent"]
