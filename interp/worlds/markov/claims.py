"""What can be said of heads that count in context: relations, conditions, the question with both kinds of pair."""

from dataclasses import dataclass, replace
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
MOST_SEEN = 3  # times that an answer followed the current context: of many, one token decides little
OTHER_KERNELS = 5  # times the law's beta and a fifth of it: the kernels that the study of induction draws too


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
        raise RequestError(f"{quoted(relation.words)} has a name of its own in a chain: {quoted(instead)}")


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    early = general.position_at_least(max(1, longest // 4))  # of early rows few keys are right, and counts are small
    return [MATCHED, REPEATS, early]


def _tails(grammar: Any) -> dict[str, Any]:
    """Kernels that tell less, and more, than those of the law."""
    return {
        "strings whose kernels are nearly even": replace(grammar, beta=min(1e3, OTHER_KERNELS * grammar.beta)),
        "strings whose kernels are nearly fixed": replace(grammar, beta=max(0.05, grammar.beta / OTHER_KERNELS)),
    }


# -- the question -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Successor:
    """Which state is the likelier next? Read where one followed the current context once more often than any other:
    it is the answer. The fewer are to be counted the better, so that of each input the row with the fewest is taken,
    that is mostly one whose context was met once. Rows where it followed more than `MOST_SEEN` times are not asked.

    - `content`: one of the tokens that followed becomes another state, the foil, which then is the likelier.
    - `address`: one token of a context that was met becomes another, so that the answer is no likelier than the foil.
    """

    name: str = "successor"
    words: str = "predict the likelier next token"
    also: tuple[str, ...] = ("count in context",)
    kinds: tuple[str, ...] = ("content", "address")

    def items(self, tokens: Ints, grammar: InContext, rows: Bools, seed: int, kind: str = "content") -> Items:
        """Minimal pairs [item, pos] of one kind, one per input that has a row for it."""
        source, n, states = generator(seed, f"markov/{kind}"), tokens.shape[1], grammar.states
        text, at, key, times = _likeliest(tokens, grammar, rows)
        places = key[:, None] if kind == "content" else grammar.parents_of(n)[key]
        valid, followed = _changes(tokens[text], grammar, at, places, tokens[text, key], kind == "content")
        rank = np.where(valid.any((1, 2)), source.random(len(at)) - times, -np.inf)
        chosen = np.array([i for i in _best_of_each(text, rank) if np.isfinite(rank[i])], dtype=np.int64)
        drawn = np.where(valid[chosen], source.random(valid[chosen].shape), -1.0)
        pick = drawn.reshape(len(chosen), places.shape[1] * states).argmax(1)
        each, sequence, read = np.arange(len(chosen)), text[chosen], at[chosen]
        place, new = pick // states, pick % states
        flipped, base = places[chosen, place], tokens[sequence]
        donors = base.copy()
        donors[each, flipped] = new
        answer = base[each, key[chosen]]
        rivals = followed[chosen, place, new] + source.random((len(chosen), states))  # equal ones are drawn among
        rivals[each, answer] = -1
        return Items(sequence, base, donors, read, flipped, answer, new if kind == "content" else rivals.argmax(1))


def _counts(tokens: Ints, keys: Bools, states: int) -> Ints:
    """How often each state stands at the keys [..., key] -> [..., state]."""
    return np.stack([(keys & (tokens == state)).sum(-1) for state in range(states)], axis=-1)


def _likeliest(tokens: Ints, grammar: InContext, rows: Bools) -> tuple[Ints, Ints, Ints, Ints]:
    """(input, row, a key that holds the answer, how many do) of every row that can be asked, for each such key.

    Keys and their parents lie before the row's own context.
    """
    n = tokens.shape[1]
    matches = grammar.matches(tokens)
    followed = _counts(tokens[:, None, :], matches, grammar.states)
    first, second = np.sort(followed, axis=-1)[..., -1], np.sort(followed, axis=-1)[..., -2]
    asked = rows & grammar.asked_of(n) & (first == second + 1) & (first <= MOST_SEEN)
    holds = matches & (tokens[:, None, :] == followed.argmax(-1)[..., None]) & asked[..., None]
    apart = np.arange(n) <= np.arange(n)[:, None] - grammar.order
    text, at, key = np.nonzero(holds & apart)
    return text, at, key, first[text, at]


def _changes(
    tokens: Ints, grammar: InContext, at: Ints, places: Ints, answer: Ints, content: bool
) -> tuple[Bools, Ints]:
    """Which new states [row, place, state] at `places` [row, place] make a donor, and how often each state then
    followed the context at `at` [row, place, state, state]: the new one most often (`content`), or another as often
    as the answer at least."""
    count, n = tokens.shape
    each, here = np.arange(count), grammar.windows(tokens)[np.arange(count), at]
    behind = np.arange(n) <= at[:, None]
    shape = (*places.shape, grammar.states)
    valid, followed = np.zeros(shape, dtype=bool), np.zeros((*shape, grammar.states), dtype=np.int64)
    for place, state in np.ndindex(shape[1:]):
        changed = tokens.copy()
        changed[each, places[:, place]] = state
        found = _counts(changed, (grammar.contexts(changed) == here[:, None]) & behind, grammar.states)
        one = np.full(count, state) if content else answer
        others = found.copy()
        others[each, one] = -1
        right = found[each, one] > others.max(1) if content else found[each, one] <= others.max(1)
        valid[:, place, state] = right & (tokens[each, places[:, place]] != state)
        followed[:, place, state] = found
    return valid, followed


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
    tails=_tails,
    truth="strings of states with a kernel of their own",
    use="is asked of models that predict the next state of a chain",
)
__all__ = ["CLAIMS", "COPIED", "MATCHED", "MATCHES", "PARENTS", "REPEATS", "Successor", "parent"]
