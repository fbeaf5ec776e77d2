"""Conditions on the query that a claim may carry: "... when the current token is a closing bracket"."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interp.checks import whole_from, words_of
from interp.errors import RequestError, quoted
from interp.grammars import DyckGrammar
from interp.vocabulary import find_token
from probes.claims.relations import Pairs, Tokens

Rows = NDArray[np.bool_]  # [batch, query]


@dataclass(frozen=True)
class Condition:
    """Which queries a claim is about.

    - `words`: how a claim says it, after "when".
    - `needs`: `tokens` (any model) or a `dyck` grammar.
    - `rows(tokens [batch, pos], grammar, keys [batch, query, key])`: [batch, query]; `keys` is the claimed relation.
    """

    name: str
    words: str
    needs: Literal["tokens", "dyck"]
    rows: Callable[[Tokens, Any, Pairs], Rows]


def _brackets(tokens: Tokens, grammar: Any, side: int) -> Rows:
    if not isinstance(grammar, DyckGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is no DyckGrammar: this condition is one of brackets")
    return np.asarray((tokens < grammar.start) & (tokens % 2 == side))


CLOSING = Condition(
    "closing",
    "the current token is a closing bracket",
    "dyck",
    lambda tokens, grammar, keys: _brackets(tokens, grammar, 1),
)
OPENING = Condition(
    "opening",
    "the current token is an open bracket",
    "dyck",
    lambda tokens, grammar, keys: _brackets(tokens, grammar, 0),
)
ELSEWHERE = Condition(
    "elsewhere",
    "the current token is not itself the target",
    "tokens",
    lambda tokens, grammar, keys: ~np.einsum("bqq->bq", keys),
)


MOST = 10**9 - 1  # of a depth and a position


def depth_at_least(least: int) -> Condition:
    """The stack, once the current token is read, holds `least` brackets or more."""
    return _depth_at_least(whole_from("depth", least, 0, MOST))


@cache
def _depth_at_least(least: int) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        inside = (tokens != grammar.pad) if isinstance(grammar, DyckGrammar) else _brackets(tokens, grammar, 0)
        return np.asarray(inside & (grammar.depth(tokens) >= least))

    return Condition(f"depth-{least}", f"the depth is at least {least}", "dyck", rows)


def position_at_least(least: int) -> Condition:
    """The current token stands at `least` (from 0) or later."""
    return _position_at_least(whole_from("position", least, 0, MOST))


@cache
def _position_at_least(least: int) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        return np.broadcast_to(np.arange(tokens.shape[1]) >= least, tokens.shape)

    return Condition(f"position-{least}", f"the position is at least {least}", "tokens", rows)


def token_is(text: str) -> Condition:
    """The current token is `text` of the vocabulary, such as [CLS]."""
    return _token_is(words_of("token", text))


@cache
def _token_is(text: str) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        found = find_token(grammar, text)
        if found is None:
            raise RequestError(
                f"no token {quoted(text)} in the model's vocabulary: 'when the current token is' needs one of it"
            )
        return np.asarray(tokens == found)

    return Condition(f"token-{text}", f"the current token is {text}", "tokens", rows)


BUILT_IN_CONDITIONS: dict[str, Condition] = {c.name: c for c in (CLOSING, OPENING, ELSEWHERE)}


def suggestions(grammar: Any, longest: int) -> list[Condition]:
    """Conditions worth trying where a claim holds in some rows only."""
    if not isinstance(grammar, DyckGrammar):
        return [ELSEWHERE, position_at_least(longest // 2)]
    depths = [depth_at_least(d) for d in range(2, grammar.max_depth + 1)]
    return [CLOSING, OPENING, ELSEWHERE, *depths, position_at_least(longest // 2)]
