"""Relations between query and key positions that a head can be claimed to attend by, and how well it does.

A relation names, for every query, a set of keys among those the query sees. Its kind says how a pattern is
held against the set: `mass`, how much weight lies on it, or `even`, how evenly the weight is spread over it.
Both scores are 1 for a perfect head and 0 for a uniform one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import MOST, one_of, whole_from, words_of
from interp.errors import AnalysisError, RequestError, quoted
from interp.grammars import DyckGrammar
from interp.numeric_arrays import real_array

Tokens = NDArray[np.int64]  # [batch, pos]
Pairs = NDArray[np.bool_]  # [batch, query, key]
Kind = Literal["mass", "even"]
Keys = Callable[[Tokens, Any, Pairs], Pairs]

OUTSIDE = 1e-4  # weight a float32 pattern may have lost, or put on keys it does not see


@dataclass(frozen=True)
class Relation:
    """A set of keys for every query.

    - `name`: short, for tables and files; `words`: how a claim says it, after "attends to".
    - `kind`: `mass` or `even`, see `relation_scores`.
    - `needs`: what the set is made from: `tokens` alone (`grammar` may then be None), or a `dyck` grammar.
    - `keys(tokens [batch, pos], grammar, visible [batch, query, key])`: the set, [batch, query, key], always within
      `visible`. A query that is not to be asked (PAD) is one that sees nothing.
    """

    name: str
    words: str
    kind: Kind
    needs: Literal["tokens", "dyck"]
    keys: Keys


@dataclass(frozen=True)
class RelationScores:
    """`rows` [batch, head, query]: a score, or NaN where there is none.

    Of the queries that see anything, `scored` have a score, `empty` have no key in the relation, and in
    `certain` ones every visible key is in it (no head could miss; a query that sees one key is of this kind).
    """

    rows: NDArray[np.float64]
    scored: int
    empty: int
    certain: int


def relation_scores(patterns: ArrayLike, keys: ArrayLike, visible: ArrayLike, kind: Kind = "mass") -> RelationScores:
    """How well patterns [batch, head, query, key] fit the sets `keys` [batch, query, key], row by row.

    With c the share of the visible keys that are in the set, a row scores (s - c) / (1 - c), where s is

    - `mass`: the weight on the set.
    - `even`: 1 - the total variation between the row and the even distribution on the set.

    A uniform row has s = c in both, hence 0. Rows with an empty set have no score, nor have `mass` rows with c = 1.
    An `even` row with c = 1 and two visible keys or more scores s itself, without the correction for chance: the
    uniform head *is* then the perfect one, and no score could tell luck from fit.

    Raises `AnalysisError` for weights that are not finite, are negative, or do not sum to 1 over the visible keys.
    """
    if not one_of(kind, get_args(Kind)):
        raise RequestError(f"kind={quoted(kind)} is not one of {', '.join(get_args(Kind))}")
    weights = real_array(patterns, "patterns", RequestError)
    chosen, seen = np.asarray(keys, bool), np.asarray(visible, bool)
    if weights.ndim != 4 or chosen.shape != seen.shape or seen.shape != (weights.shape[0], *weights.shape[2:]):
        raise RequestError(
            f"patterns {list(weights.shape)}, keys {list(chosen.shape)} and visible {list(seen.shape)} do not fit: "
            "[batch, head, query, key] and twice [batch, query, key]"
        )
    if (chosen & ~seen).any():
        raise RequestError("a key of the relation is not visible: keys must lie within visible")
    number, size = seen.sum(-1), chosen.sum(-1)
    asked = number > 0
    _check_rows(weights, seen, asked)
    chance = size / np.maximum(number, 1)
    if kind == "mass":
        hit = (weights * chosen[:, None]).sum(-1)
    else:
        even = chosen / np.maximum(size, 1)[..., None]
        hit = 1 - np.abs(weights * seen[:, None] - even[:, None]).sum(-1) / 2
    whole = size == number
    has = asked & (size > 0) & ((~whole) if kind == "mass" else (number > 1))
    base = np.where(has & ~whole, chance, 0.0)[:, None]
    rows = np.where(has[:, None], (hit - base) / (1 - base), np.nan)
    empty = int((asked & (size == 0)).sum())
    return RelationScores(rows, int(has.sum()), empty, int(asked.sum() - has.sum()) - empty)


def _check_rows(weights: NDArray[np.float64], seen: Pairs, asked: NDArray[np.bool_]) -> None:
    inside = (weights * seen[:, None]).sum(-1)
    wrong = ~(np.abs(inside - 1) <= OUTSIDE) | ~(weights.min(-1, initial=0.0) >= -OUTSIDE)
    wrong &= asked[:, None]
    if wrong.any():
        batch, head, query = (int(at) for at in np.argwhere(wrong)[0])
        raise AnalysisError(
            f"input {batch}, head {head}, query {query}: the weights on visible keys sum to "
            f"{inside[batch, head, query]:.4g}, or some are negative or not finite; a pattern's row sums to 1"
        )


# -- the sets -----------------------------------------------------------------------------------------------


def _current(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], dtype=bool)


def _previous(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], k=-1, dtype=bool)


def _first(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (np.arange(tokens.shape[1]) == 0)


def _all(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible.copy()


def _copies(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (tokens[:, :, None] == tokens[:, None, :]) & _not_later(tokens)


def _earlier_copies(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return _copies(tokens, grammar, visible) & ~np.eye(tokens.shape[1], dtype=bool)


def _start(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (tokens == _dyck(grammar).start)[:, None, :]


def _openers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (_bracket(tokens, grammar) & (tokens % 2 == 0))[:, None, :]


def _closers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (_bracket(tokens, grammar) & (tokens % 2 == 1))[:, None, :]


def _same_type(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    kind = np.where(_bracket(tokens, grammar), tokens // 2, -1)
    return visible & (kind[:, :, None] == kind[:, None, :]) & (kind >= 0)[:, None, :]


def _stack_top(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & _places(_dyck(grammar).stack_top(tokens))


def _unmatched(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & _dyck(grammar).unmatched(tokens)


def _partner(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    partner = _dyck(grammar).partner(tokens)
    return visible & _places(np.where(partner < np.arange(tokens.shape[1]), partner, -1))


def _same_depth(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    depth = _dyck(grammar).depth(tokens)
    return visible & (depth[:, :, None] == depth[:, None, :])


def bracket_tokens(tokens: Iterable[int], words: str) -> Relation:
    """The relation to keys that are one of `tokens` (ids of brackets)."""
    given = tuple(tokens) if isinstance(tokens, Iterable) and not isinstance(tokens, bytes) else (tokens,)
    ids, words = tuple(sorted(_whole("token", token) for token in given)), words_of("words", words)

    def keys(inputs: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (_bracket(inputs, grammar) & np.isin(inputs, ids))[:, None, :]

    return Relation(f"tokens-{'-'.join(map(str, ids))}", words, "mass", "dyck", keys)


def bracket_type(i: int) -> Relation:
    """The relation to brackets of type `i` (from 0), opening and closing."""
    i = _whole("bracket type", i)
    relation = bracket_tokens((2 * i, 2 * i + 1), f"brackets of type {i}")
    return Relation(f"type-{i}", relation.words, "mass", "dyck", relation.keys)


def complement(relation: Relation) -> Relation:
    """Everything visible but the relation's keys: a head that scores 1 never attends to those.

    Where the relation has no key there is nothing to avoid, and its complement's row (c = 1) has no score.
    """
    if not isinstance(relation, Relation):
        raise RequestError(f"relation={quoted(relation)} is no Relation, and its complement none")

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & ~relation.keys(tokens, grammar, visible)

    return Relation(f"not-{relation.name}", f"anything but {relation.words}", "mass", relation.needs, keys)


def _whole(what: str, value: Any) -> int:
    return whole_from(what, value, 0, MOST)


def _dyck(grammar: Any) -> DyckGrammar:
    if not isinstance(grammar, DyckGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is no DyckGrammar: this relation is one of brackets")
    return grammar


def _bracket(tokens: Tokens, grammar: Any) -> NDArray[np.bool_]:
    return np.asarray(tokens < _dyck(grammar).start)


def _places(target: Tokens) -> Pairs:
    """The one key each query is given, -1 for none: [batch, query, key]."""
    return np.asarray(target[..., None] == np.arange(target.shape[-1]))


def _not_later(tokens: Tokens) -> NDArray[np.bool_]:
    return np.tri(tokens.shape[1], dtype=bool)


# -- the register -------------------------------------------------------------------------------------------

# An opener counts as unmatched, and as the last such, from its own position on. START and END have a depth (0 in
# complete strings) and so count among tokens at the same depth; an opener counts itself in, a closer does not.
RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation("current", "the current token", "mass", "tokens", _current),
        Relation("previous", "the previous token", "mass", "tokens", _previous),
        Relation("first", "the first token", "mass", "tokens", _first),
        Relation("start", "START", "mass", "dyck", _start),
        Relation("openers", "open brackets", "mass", "dyck", _openers),
        Relation("closers", "closing brackets", "mass", "dyck", _closers),
        Relation("same-type", "brackets of the same type", "mass", "dyck", _same_type),
        bracket_type(0),
        bracket_type(1),
        Relation("stack-top", "the last unmatched open bracket", "mass", "dyck", _stack_top),
        Relation("unmatched", "all unmatched open brackets", "mass", "dyck", _unmatched),
        Relation("partner", "the matching open bracket", "mass", "dyck", _partner),
        Relation("copies", "earlier or current copies of the current token", "mass", "tokens", _copies),
        Relation("earlier-copies", "earlier copies of the current token", "mass", "tokens", _earlier_copies),
        Relation("same-depth", "tokens at the same depth", "mass", "dyck", _same_depth),
        Relation("all", "all visible tokens evenly", "even", "tokens", _all),
    )
}
