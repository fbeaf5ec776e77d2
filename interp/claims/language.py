"""Models of a language of which no law is known: inputs to audit them on, and the question what token comes next.

Inputs are drawn where nobody gives any. Of what they are depends on what is claimed. Where earlier copies matter
(induction, copies), random tokens of which a stretch comes twice: each token of its second copy is then told by the
first one, and by nothing else. For all other claims, pieces of a text, if the vocabulary reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interp.claims.general import COPIES, EARLIER_COPIES, INDUCTION
from interp.claims.types import Bools, Ints, Items, Relation
from interp.errors import AnalysisError, InterpError, RequestError
from interp.limits import read_whole
from interp.rng import generator
from interp.vocabulary import special_meaning

# "Alice's Adventures in Wonderland" by Lewis Carroll (1832-1898), chapter I and the beginning of chapter II.
PASSAGE, PASSAGE_NAME = Path(__file__).with_name("passage.txt"), "the beginning of Alice's Adventures in Wonderland"
NUM_INPUTS, LENGTH = (
    200,
    32,
)  # how many are drawn, and of how many tokens: fewer than of a world, since models are large
LEAST_INPUTS, LEAST_LENGTH = 100, 8  # pieces of the text are made shorter to be so many, down to so few tokens
STRETCH = (0.2, 0.375)  # of an input: the least and most that comes twice, so that no distance is always right
STRANGE = 0.05  # share of unknown tokens above which a vocabulary does not read the text
RICH = 20  # different tokens that a text must have at least
COPYING = frozenset(one.name for one in (COPIES, EARLIER_COPIES, INDUCTION))


# -- inputs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Model inputs `tokens` [input, pos], and what they are in `words`."""

    tokens: Ints
    words: str


def draw_language(
    vocabulary: Any, size: int, relations: Sequence[Relation], num_inputs: int | None, length: int, seed: int
) -> Drawn:
    """Inputs of a model of `size` tokens for claims of these relations; START first where the vocabulary has it.

    `vocabulary` None: ids are the words. Raises `AnalysisError` where too few tokens fit.
    """
    start = vocabulary.start if getattr(vocabulary, "has_start", False) else None
    first = "" if start is None else "START, then "
    why = "so that there are earlier copies to look for"
    if not any(about_copies(relation) for relation in relations):
        pieces, why = _pieces(vocabulary, size, num_inputs, length - (start is not None), seed)
        if pieces is not None:
            of = f"{len(pieces)} pieces of {PASSAGE_NAME} (Lewis Carroll), none of which overlap"
            return Drawn(_behind(start, pieces), f"{of}, {first}{pieces.shape[1]} tokens each")
    count = NUM_INPUTS if num_inputs is None else num_inputs
    rows = repeated(_words(vocabulary, size), count, length - (start is not None), seed)
    told = f"{len(rows)} of {first}{rows.shape[1]} random tokens, a stretch of which comes twice"
    return Drawn(_behind(start, rows), f"{told} ({why})")


def about_copies(relation: Relation) -> bool:
    """Whether a relation, or the one that it is made from, looks for earlier copies."""
    return relation.name in COPYING or (relation.of is not None and about_copies(relation.of))


def repeated(ids: Ints, count: int, length: int, seed: int) -> Ints:
    """Random tokens [count, length] out of `ids`, of each row a stretch twice, side by side, at a random place.

    All others are distinct where `ids` are enough. Raises `AnalysisError` for less than 4 tokens of 3 kinds.
    """
    if length < 4 or len(ids) < 3:
        raise AnalysisError(
            f"{len(ids)} kinds of tokens, {length} an input, are too few to repeat a stretch of: pass inputs="
        )
    rng = generator(seed, "language/repeated")
    least, most = (max(2, int(share * length)) for share in STRETCH)
    rows = np.empty((count, length), dtype=np.int64)
    for row in rows:
        row[:] = rng.choice(ids, length, replace=len(ids) < length)
        stretch = int(rng.integers(least, most + 1))
        at = int(rng.integers(0, length - 2 * stretch + 1))
        row[at + stretch : at + 2 * stretch] = row[at : at + stretch]
    return rows


def _words(vocabulary: Any, size: int) -> Ints:
    """Ids of a vocabulary that are no special tokens."""
    if vocabulary is None:
        return np.arange(size)
    tokenizer = getattr(vocabulary, "tokenizer", None)
    special = {getattr(vocabulary, name, None) for name in ("start", "end", "pad")}
    if tokenizer is not None:
        special |= {*tokenizer.all_special_ids}
        return np.array([i for i in range(min(size, len(tokenizer))) if i not in special], dtype=np.int64)
    named = enumerate(vocabulary.vocab)
    return np.array([i for i, name in named if i not in special and special_meaning(name) is None], dtype=np.int64)


def _pieces(vocabulary: Any, size: int, num_inputs: int | None, length: int, seed: int) -> tuple[Ints | None, str]:
    """Pieces of the text [input, pos], START left out; or None, and why not."""
    tokenizer = getattr(vocabulary, "tokenizer", None)
    if not hasattr(vocabulary, "read"):
        return None, "the model has no vocabulary that reads a text"
    special = {getattr(vocabulary, name, None) for name in ("start", "end", "pad")}
    paragraphs = read_whole(PASSAGE, "text").decode().splitlines()
    try:
        ids = np.array([i for text in paragraphs for i in vocabulary.read(text) if i not in special], dtype=np.int64)
    except InterpError:
        return None, "the vocabulary does not read English text"
    unknown = getattr(tokenizer, "unk_token_id", None)
    strange = 0.0 if unknown is None or not len(ids) else float((ids == unknown).mean())
    if strange > STRANGE or len(np.unique(ids)) < RICH or ids.max() >= size:
        return None, "the vocabulary does not read English text"
    least = LEAST_INPUTS if num_inputs is None else num_inputs
    width = min(length, max(LEAST_LENGTH, len(ids) // least))
    pieces = ids[: len(ids) // width * width].reshape(-1, width)
    if len(pieces) < least:
        raise RequestError(
            f"num_inputs={least} is more than the {len(pieces)} pieces of {width} tokens of the text: pass inputs="
        )
    most = NUM_INPUTS if num_inputs is None else num_inputs
    chosen = generator(seed, "language/pieces").permutation(len(pieces))[:most]
    return pieces[np.sort(chosen)], ""


def _behind(start: int | None, rows: Ints) -> Ints:
    return rows if start is None else np.concatenate([np.full((len(rows), 1), start), rows], axis=1)


# -- the question -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NextToken:
    """Which token comes next? The answer is the token that does.

    Each text has another one of its length as its donor, which has one text only; both are read at the same places,
    `positions` of them at most, where their next tokens differ. The foil is the donor's next token. Items of one text
    count as one in intervals. Inputs most of which repeat themselves are asked `Repeated` instead.
    """

    name: str = "next-token"
    words: str = "predict the next token"
    needs: str = "have another one of their length in which another token follows at the same place"
    positions: int = 2

    def on(self, tokens: Ints, grammar: Any) -> "NextToken | Repeated":
        """What is asked of these inputs [input, pos]."""
        often = _foretold(tokens, _real(tokens, grammar)).any(1).mean() >= 0.5
        return Repeated() if often else self

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        """Pairs of texts [item, pos], several items an input."""
        rng, real = generator(seed, "language/next"), _real(tokens, grammar)
        length, donor = real.sum(1), np.full(len(tokens), -1)
        asked = np.flatnonzero(rows.any(1))
        for size in np.unique(length[asked]):
            ring = rng.permutation(asked[length[asked] == size])
            donor[ring] = np.roll(ring, 1)
        after, width = _after(tokens), tokens.shape[1]
        there = rows & (donor >= 0)[:, None] & (np.arange(width) + 1 < length[:, None])
        there &= after != after[donor]
        order = np.where(there, rng.random(there.shape), -1.0).argsort(1)[:, ::-1][:, : self.positions]
        chosen = np.zeros_like(there)
        np.put_along_axis(chosen, order, True, axis=1)
        base, read = np.nonzero(chosen & there)
        other = donor[base]
        return Items(base, tokens[base], tokens[other], read, None, after[base, read], after[other, read], unit=base)


@dataclass(frozen=True)
class Repeated:
    """Which token comes next, of inputs that repeat themselves? Read where it is the one that followed an earlier copy.

    - `content`: the token that followed the last earlier copy becomes another one of the inputs', the foil.
    - `address`: the only earlier copy and another earlier token change places, so that a copy is followed by another
      token: that one is the foil.
    """

    name: str = "next-token"
    words: str = "predict the next token"
    needs: str = "have a token whose earlier copy tells what follows"
    kinds: tuple[str, ...] = ("content", "address")

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int, kind: str = "content") -> Items:
        """Minimal pairs [item, pos] of one kind, one an input that has a row for it."""
        rng, real, place = generator(seed, f"language/{kind}"), _real(tokens, grammar), np.arange(tokens.shape[1])
        wanted = rows & _foretold(tokens, real)
        if kind == "address":
            wanted = wanted & (_earlier(tokens).sum(-1) == 1)
        sequence = np.flatnonzero(wanted.any(1))
        read = np.where(wanted, rng.random(wanted.shape), -1.0).argmax(1)[sequence]
        base, each = tokens[sequence], np.arange(len(sequence))
        copy = _last(tokens)[sequence, read]
        asked, answer = base[each, read], base[each, copy + 1]
        donors = base.copy()
        if kind == "content":
            pool = np.setdiff1d(tokens[real], _special(grammar))
            chance = rng.random((len(base), len(pool)))
            chance[(pool == asked[:, None]) | (pool == answer[:, None])] = -1.0
            foil = pool[chance.argmax(1)] if len(pool) else answer
            donors[each, copy + 1] = foil
            kept = (chance.max(1, initial=-1.0) >= 0) & (foil != answer)
            return Items(sequence, base, donors, read, copy + 1, answer, foil).only(np.flatnonzero(kept))
        free = (place + 1 < read[:, None]) & (np.abs(place - copy[:, None]) > 1)
        free &= ~np.isin(base, _special(grammar)) & (_after(base) != answer[:, None]) & (base != asked[:, None])
        other = np.where(free, rng.random(free.shape), -1.0).argmax(1)
        donors[each, copy], donors[each, other] = base[each, other], asked
        foil = _after(base)[each, other]
        found = Items(sequence, base, donors, read, copy, answer, foil)
        return found.only(np.flatnonzero(free.any(1)))


NEXT_TOKEN = NextToken()


def _real(tokens: Ints, grammar: Any) -> Bools:
    pad = getattr(grammar, "pad", None)
    return np.ones(tokens.shape, dtype=bool) if pad is None else np.asarray(tokens != pad)


def _special(grammar: Any) -> list[int]:
    found = (getattr(grammar, name, None) for name in ("start", "end", "pad"))
    return [int(one) for one in found if one is not None]


def _after(tokens: Ints) -> Ints:
    """The token after each; after the last, itself."""
    return np.concatenate([tokens[:, 1:], tokens[:, -1:]], axis=1)


def _earlier(tokens: Ints) -> Bools:
    """[input, query, key]: the key is an earlier copy."""
    return (tokens[:, :, None] == tokens[:, None, :]) & np.tri(tokens.shape[1], k=-1, dtype=bool)


def _last(tokens: Ints) -> Ints:
    """Where the last earlier copy is [input, pos], -1 for none."""
    return np.asarray((_earlier(tokens) * (np.arange(tokens.shape[1]) + 1)).max(-1) - 1)


def _foretold(tokens: Ints, real: Bools) -> Bools:
    """Where the last earlier copy, not the token before, is followed by what comes next [input, pos]."""
    last, place = _last(tokens), np.arange(tokens.shape[1])
    next_real = np.concatenate([real[:, 1:], np.zeros_like(real[:, :1])], axis=1)
    told = np.take_along_axis(_after(tokens), np.maximum(last, 0), axis=1) == _after(tokens)
    return np.asarray((last >= 0) & (last + 1 < place) & told & real & next_real)
