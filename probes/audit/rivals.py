"""Other relations beside the claimed one: which tell a different story of the same pattern, and which only a wider one.

Two relations are compared in rows where neither set of keys holds the other, on the scale on which the claim itself is
scored. A rival that contains the claimed keys, or is contained in them, is a wider or narrower description of the same
thing, and is told as such. A claim of evenness is the exception: evenness over more or fewer keys is another claim.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interp.claims import Pairs, Tokens
from interp.stats import Estimate
from interp.vocabulary import find_token
from probes.audit.pattern import Asked, Head, Laid, mean_of, overlap, scored
from probes.audit.stats import Floats, low
from probes.audit.thresholds import LEAD, MIN_DIFFERENT, MIXED, RIVAL_SEQUENCES, TOP1
from probes.claims import Relation, offset, position, same_relation, token

Bools = NDArray[np.bool_]
Nested = Literal["wider", "narrower"]


@dataclass(frozen=True)
class Rival:
    """Another relation against the claimed one.

    - `different`: rows of half B in which the two name different keys.
    - `lead`: mean score of the claim less that of the rival where neither set of keys holds the other, in half B;
      `lead_a`: in half A. None where there are too few rows, or the rival has a key in fewer of the claim's rows than
      1 - `TOP1`.
    - `nested`: what the rival is where, but for such rows, one set always holds the other; `beside`: the claim's score
      less the rival's there.
    - `placed`: "the token n positions before" or "position p", which a reason names only if no other does.
    """

    name: str
    words: str
    different: int
    lead: Estimate | None
    lead_a: float | None
    nested: Nested | None = None
    beside: Estimate | None = None
    placed: bool = False


@dataclass(frozen=True)
class Rivals:
    """All rivals of a claim, and the words of relations that must name the very same keys wherever it applies."""

    rivals: tuple[Rival, ...] = ()
    same: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class _Told:
    """Rows [input, query] of a claim beside a rival: it names a key; keys differ; neither holds the other; the rival
    is the wider; the narrower."""

    named: Bools
    differ: Bools
    apart: Bools
    wider: Bools
    narrower: Bools


def rivals_of(head: Head, asked: Asked, level: float) -> Rivals:
    """Every relation that the grammar knows, the token that the claimed keys hold if it is always the same, and the
    offset and the position that come nearest in half A.
    """
    found, same = [], []
    for one in (*_named(head, asked, level), *_placed(head, asked, level)):
        if isinstance(one, Rival):
            found.append(one)
        else:
            same.append(one.words)
    known = {f"the token {words}" for words in same}  # a token that a world has as a relation, such as START
    return Rivals(tuple(found), tuple(words for words in dict.fromkeys(same) if words not in known))


def thin(laid: Laid, asked: Asked, times: float) -> bool:
    """Whether some named relation has too few rows here to be compared with the claim, and enough in so many times the
    inputs: it would go unasked.
    """
    even = asked.claim.relation.kind == "even"
    found = (_compared(_told(laid, asked, rival), even) for rival in _relations(laid, asked))
    return any(not _enough(laid, rows) and _enough(laid, rows, times) for rows in found)


def worst(rivals: tuple[Rival, ...]) -> Rival | None:
    """The rival whose lower bound is least: the one that comes nearest. Of those that may fit as well, if any does."""
    bounds = [(low(rival.lead), rival) for rival in rivals if rival.lead is not None]
    return best_told([pair for pair in bounds if pair[0] <= 0] or bounds)


def best_told(bounds: Sequence[tuple[float, Rival]]) -> Rival | None:
    """The rival of the least bound; one with a name of its own rather than a place that is hardly less."""
    if not bounds:
        return None
    least, first = min(bounds, key=lambda pair: pair[0])
    named = [(bound, rival) for bound, rival in bounds if not rival.placed and bound <= least + LEAD]
    return min(named, key=lambda pair: pair[0])[1] if first.placed and named else first


# -- inside -------------------------------------------------------------------------------------------------


def _named(head: Head, asked: Asked, level: float) -> Iterator[Rival | Relation]:
    """Relations of the grammar; one that is the same wherever the claim applies comes as it is."""
    laid, taken = head.laid, head.taken(asked)
    even = asked.claim.relation.kind == "even"
    own = overlap(taken, asked.keys) if even else scored(taken, asked.keys, asked.seen)
    for rival in _relations(laid, asked):
        told = _told(laid, asked, rival)
        if _equal(laid, told, asked, rival):
            yield rival
            continue
        other = head.fit(rival, False, even)
        if asked.sink.any():
            other = np.where(asked.sink, head.fit(rival, True, even), other)
        yield _against(laid, asked, rival, own - other, told, level)


def _relations(laid: Laid, asked: Asked) -> Iterator[Relation]:
    """The relations of the grammar, and "the token X" where the claimed keys are X in nearly all rows, and too few
    others tell: a head that looks for X has the same pattern, wherever X stands.
    """
    yield from laid.rivals(asked.claim)
    tokens, keys = laid.inputs.tokens, asked.keys & asked.free[..., None]
    held = np.bincount(tokens.ravel(), weights=keys.sum(1).ravel())
    if not held.any():
        return
    most = int(held.argmax())
    half, other = laid.inputs.half_b, (keys & (tokens != most)[:, None, :]).any(-1)
    count = other[half].sum()
    if count < MIN_DIFFERENT and count <= (1 - MIXED[1]) * asked.free[half].sum():
        relation = _token(most, laid.inputs.grammar)
        if not same_relation(relation, asked.claim.relation):
            yield relation


def _token(number: int, grammar: Any) -> Relation:
    """Every token of this id; by its name where the vocabulary has one for it."""
    names = tuple(getattr(grammar, "vocab", ()))
    if number < len(names) and find_token(grammar, names[number]) == number:
        return token(names[number])
    return _numbered(number)


@cache
def _numbered(number: int) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (tokens == number)[:, None, :]

    return Relation(f"token-{number}", f"the token of id {number}", "mass", "tokens", keys)


def _placed(head: Head, asked: Asked, level: float) -> Iterator[Rival | Relation]:
    """Of offsets and of positions: those that are the same, those that cannot be told apart, and the best of the rest.

    Offset and position name one key in each row, so that no set of keys is made for each of them.
    """
    laid, taken = head.laid, head.taken(asked)
    inputs, claimed = laid.inputs, asked.claim.relation
    even = claimed.kind == "even"
    own = overlap(taken, asked.keys) if even else scored(taken, asked.keys, asked.seen)
    chance = np.zeros(own.shape) if even else 1 / np.maximum(asked.seen.sum(-1), 2)
    last = inputs.tokens.shape[1] - 1
    places, single = np.arange(last + 1), asked.keys.sum(-1) == 1
    for family in (
        [(offset(step), places + step) for step in range(-last, last + 1)],
        [(position(place), np.full(last + 1, place)) for place in range(last + 1)],
    ):
        best: tuple[float, Rival] | None = None
        for rival, target in family:
            inside = np.clip(target, 0, last)
            named = asked.free & (target == inside) & asked.seen[:, places, inside]
            if same_relation(rival, claimed) or not named.any():
                continue
            held = asked.keys[:, places, inside] & named  # the one key is among the claimed ones
            told = _Told(named, asked.free & ~(held & single), named & ~held, np.zeros_like(held), held & ~single)
            if _equal(laid, told, asked, rival):
                yield rival
                continue
            weight = np.take_along_axis(taken, inside[None, :, None], -1)[..., 0]
            one = _against(laid, asked, rival, own - (weight - chance) / (1 - chance), told, level)
            one = replace(one, placed=True)
            if one.different < MIN_DIFFERENT:
                yield one
            elif one.lead_a is not None and (best is None or one.lead_a < best[0]):
                best = one.lead_a, one
        if best is not None:
            yield best[1]


def _told(laid: Laid, asked: Asked, rival: Relation) -> _Told:
    """The rows, which are the same for all heads."""
    key = (asked.claim.relation, asked.claim.when, rival)
    if key not in laid.told:
        keys = laid.keys(rival) & asked.seen
        more, less = (keys & ~asked.keys).any(-1), (asked.keys & ~keys).any(-1)
        named = asked.free & keys.any(-1)
        both, one, other = named & more & less, named & more & ~less, named & less & ~more
        laid.told[key] = _Told(named, asked.free & (more | less), both, one, other)
    told = laid.told[key]
    assert isinstance(told, _Told)
    return told


def _equal(laid: Laid, told: _Told, asked: Asked, rival: Relation) -> bool:
    """Whether the two name the same keys here, and must do so whatever the tokens are."""
    return not told.differ.any() and laid.must_agree(asked, rival)


def _against(laid: Laid, asked: Asked, rival: Relation, lead: Floats, told: _Told, level: float) -> Rival:
    a, b, even = laid.inputs.half_a, laid.inputs.half_b, asked.claim.relation.kind == "even"
    nested, rows = told.wider | told.narrower, _compared(told, even)
    # What is there in few of the rows only cannot be what a head does in too many of them for the claim to hold.
    there = told.named[b].sum() >= (1 - TOP1) * asked.free[b].sum()
    told_apart, held = _enough(laid, rows), _enough(laid, nested) and not even
    enough = there and told_apart
    kind: Nested = "wider" if told.wider[b].sum() >= told.narrower[b].sum() else "narrower"
    return Rival(
        rival.name,
        rival.words,
        int(told.differ[b].sum()),
        mean_of("rival", lead, rows, b, level) if enough else None,
        float(lead[a][rows[a]].mean()) if enough else None,
        kind if held and not told_apart else None,
        mean_of("rival", lead, nested, b, level) if held and not told_apart else None,
    )


def _compared(told: _Told, even: bool) -> Bools:
    """The rows in which a rival tells another story."""
    return (told.apart | told.wider | told.narrower) if even else told.apart


def _enough(laid: Laid, rows: Bools, times: float = 1.0) -> bool:
    """Whether rows [input, query], so many `times`, are enough to compare two relations on, in either half."""
    halves = [rows[half] for half in (laid.inputs.half_a, laid.inputs.half_b)]
    return all(times * r.sum() >= MIN_DIFFERENT and times * r.any(1).sum() >= RIVAL_SEQUENCES for r in halves)
