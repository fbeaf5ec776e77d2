"""How well a pattern fits a relation between query and key positions.

A relation names, for every query, a set of keys among those the query sees. Its kind says how a pattern is
held against the set: `mass`, how much weight lies on it, `even`, how evenly the weight is spread over it and nothing
else, or `among`, how evenly what lies on it is spread within it. The first two scores are 1 for a perfect head and 0
for a uniform one. The third is 1 for both: it says something beside the `mass` score of the same set only, which
has the null.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import one_of
from interp.claims import Kind, Pairs
from interp.errors import AnalysisError, RequestError, quoted
from interp.numeric_arrays import real_array

LEAST_WITHIN = 0.25  # weight on the set from which on the way it is spread within is scored
OUTSIDE = 1e-4  # weight a float32 pattern may have lost, or put on keys it does not see


@dataclass(frozen=True)
class RelationScores:
    """`rows` [batch, head, query]: a score, or NaN where there is none.

    Of the queries that see anything, `scored` have a score, `empty` have no key in the relation, and in
    `certain` ones no head could miss: every visible key is in it (a query that sees one key is of this kind), or of
    kind `among` it has one key. Of kind `among` a head has a score in those of the `scored` rows only where it puts
    `LEAST_WITHIN` of its weight on the set.
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

    An `among` row scores 1 - the total variation between the row's weights on the set, made to sum to 1, and the even
    distribution on it: 1 where they are equal, 1/m where one of m keys has all. There is no correction for chance:
    whether the weight lies on the set at all is what `mass` asks, and the uniform head, even within any set, fails
    there. A row with less than `LEAST_WITHIN` of its weight on the set has no score, for it says nothing of how the
    head attends to it (and of next to no weight the shares are rounding); nor has one whose set has a single key.

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
    on = (weights * chosen[:, None]).sum(-1)
    even = (chosen / np.maximum(size, 1)[..., None])[:, None]
    whole = size == number
    if kind == "mass":
        hit, has = on, asked & (size > 0) & ~whole
    elif kind == "even":
        hit = 1 - np.abs(weights * seen[:, None] - even).sum(-1) / 2
        has = asked & (size > 0) & (number > 1)
    else:
        within = weights * chosen[:, None] / np.maximum(on, LEAST_WITHIN)[..., None]
        hit = np.where(on >= LEAST_WITHIN, 1 - np.abs(within - even).sum(-1) / 2, np.nan)
        has = asked & (size > 1)
    base = np.where(has & ~whole & (kind != "among"), chance, 0.0)[:, None]
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
