"""More relations that need no world: the mirror position, repeated tokens, tokens of a set, numbers by their size.

They are understood in claims, but are no rivals of others and are not scanned for by default.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import words_of
from interp.claims.general import VOCAB, places, token, token_id
from interp.claims.types import Made, Pairs, Relation, Tokens
from interp.errors import RequestError, quoted
from interp.numbers import written_number

Floats = NDArray[np.float64]
NUMBERS = "numbers"  # what a relation needs that compares tokens by the numbers that they write
MOST_NAMED = 64  # tokens of a set in a claim


def _mirror(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    seen = np.asarray(visible.any(axis=1))  # [batch, key]: some query sees it
    first, last = seen.argmax(1), tokens.shape[1] - 1 - seen[:, ::-1].argmax(1)
    return visible & places((first + last)[:, None] - np.arange(tokens.shape[1]))


def _repeated(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    same = (tokens[:, :, None] == tokens[:, None, :]).astype(np.float32)
    return np.asarray(visible & (visible.astype(np.float32) @ same >= 2))  # itself, and one more


MIRROR = Relation(
    "mirror",
    "the mirror position",  # n-1-i of the n tokens that some query of the input sees, START and END among them
    "mass",
    "tokens",
    _mirror,
    (
        "the mirrored position",
        "the mirror token",
        "the mirrored token",
        "the token at the mirror position",
        "the position mirrored about the middle",
        "the same position from the end",
    ),
)
REPEATED = Relation(
    "repeated",
    "repeated tokens",  # a visible key whose token stands at another visible key too, before or after
    "mass",
    "tokens",
    _repeated,
    (
        "tokens that repeat",
        "tokens that are repeated",
        "tokens that occur more than once",
        "tokens that appear more than once",
        "tokens that occur several times",
    ),
)


# -- numbers ------------------------------------------------------------------------------------------------


@lru_cache(64)
def _written(vocabulary: tuple[str, ...]) -> Floats:
    """The number that each token writes [id], NaN where it writes none."""
    found = (written_number(name) for name in vocabulary)
    return np.array([np.nan if value is None else value for value in found])


def has_numbers(grammar: Any) -> bool:
    """Whether two tokens of the vocabulary at least write different numbers."""
    values = _written(tuple(getattr(grammar, "vocab", ())))
    return len(np.unique(values[np.isfinite(values)])) > 1


def _numbers(tokens: Tokens, grammar: Any) -> Floats:
    vocabulary = tuple(getattr(grammar, "vocab", ()))
    if not has_numbers(grammar):
        known = f"its first tokens are {' '.join(vocabulary[:8])}" if vocabulary else "the model has none"
        raise RequestError(f"which token is larger is said of a vocabulary with numbers, and {known}")
    return np.asarray(_written(vocabulary)[tokens])


def _extreme(allowed: Callable[[Floats, Floats], Any], sign: int) -> Callable[[Tokens, Any, Pairs], Pairs]:
    """Keys of the least `sign` times number among the visible ones that are `allowed` beside the query's."""

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        value = _numbers(tokens, grammar)
        own, theirs = value[:, :, None], value[:, None, :]
        among = visible & np.isfinite(theirs) & allowed(theirs, own)
        ranked = np.where(among, sign * theirs, np.inf)
        return np.asarray(among & (ranked == ranked.min(-1, keepdims=True)))

    return keys


def _by_size(name: str, words: str, keys: Callable[[Tokens, Any, Pairs], Pairs], *also: str) -> Relation:
    return Relation(name, words, "mass", NUMBERS, keys, also, instead="name tokens: 'one of {a, b}'")


# Of the numbers that the query sees, itself among them; equal ones are all of them keys.
SMALLEST = _by_size(
    "smallest",
    "the smallest token",
    _extreme(lambda theirs, own: True, 1),
    "the smallest number",
    "the smallest visible token",
    "the smallest value",
    "the minimum",
    "the least token",
)
LARGEST = _by_size(
    "largest",
    "the largest token",
    _extreme(lambda theirs, own: True, -1),
    "the largest number",
    "the largest visible token",
    "the largest value",
    "the maximum",
    "the greatest token",
)
NEXT_LARGER = _by_size(
    "next-larger",
    "the next larger token",
    _extreme(lambda theirs, own: theirs > own, 1),
    "the next larger number",
    "the next largest token",
    "the smallest token larger than the current token",
    "the successor in sorted order",
)
NEXT_SMALLER = _by_size(
    "next-smaller",
    "the next smaller token",
    _extreme(lambda theirs, own: theirs < own, -1),
    "the next smaller number",
    "the next smallest token",
    "the largest token smaller than the current token",
    "the predecessor in sorted order",
)
RELATIONS = (MIRROR, REPEATED, SMALLEST, LARGEST, NEXT_LARGER, NEXT_SMALLER)


# -- tokens of a set ----------------------------------------------------------------------------------------


def names_of(texts: Any) -> tuple[str, ...]:
    """Tokens of a set, in order and each once. Raises `RequestError` for what could not be read back from {a, b}."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise RequestError(f"tokens={quoted(texts)} is not a list of tokens by their names")
    names = tuple(sorted({words_of("token", text) for text in texts}))
    if not names or len(names) > MOST_NAMED:
        raise RequestError(f"a set of {len(names)} tokens is not one of 1 to {MOST_NAMED}")
    if wrong := [name for name in names if not name or "," in name or any(map(str.isspace, name))]:
        raise RequestError(f"token {quoted(wrong[0])} cannot stand in a set such as {{a, b}}: it is empty, or holds a "
                           "comma or a blank")  # fmt: skip
    return names


def braced(inner: str) -> tuple[str, ...]:
    """The tokens that are written between braces, behind commas."""
    return names_of([part.strip() for part in inner.split(",")])


def tokens_of(texts: Iterable[str]) -> Relation:
    """Every token of the vocabulary that is one of `texts`."""
    names = names_of(texts)
    return token(names[0]) if len(names) == 1 else _tokens_of(names)


@lru_cache(10_000)
def _tokens_of(names: tuple[str, ...]) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & np.isin(tokens, [token_id(grammar, name) for name in names])[:, None, :]

    return Relation(f"one-of-{'-'.join(names)}", f"one of {{{', '.join(names)}}}", "mass", VOCAB, keys, tokens=names)


MADE: tuple[Made[Relation], ...] = (
    Made(
        "one of {a, b}",
        r"(?:(?:one|any) of (?:the )?)?(?:tokens? )?\{(.+)\}",
        lambda inner: tokens_of(braced(inner)),
        as_written=True,
    ),
)
