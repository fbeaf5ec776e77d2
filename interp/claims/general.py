"""Relations and conditions that need no world: places, offsets, copies, tokens by name."""

from functools import cache
from typing import Any

import numpy as np

from interp.checks import whole_from, words_of
from interp.claims.types import Condition, Made, Pairs, Relation, Rows, Tokens
from interp.errors import RequestError, quoted
from interp.numbers import written_whole
from interp.vocabulary import find_token

VOCAB = "vocab"  # what a relation needs that names a token
MOST = 10_000  # a layer, a head, a position or an offset beyond is a slip of the pen
ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MOST_PLACE = 10**9 - 1  # of a position in a condition
DIGITS = 9  # of a number in a claim; a longer one is a slip of the pen, and Python reads no more than 4300


def whole(digits: str) -> int:
    """The number of a claim written so, a sign included."""
    if len(digits) > DIGITS:
        raise RequestError(f"number {quoted(digits)} of a claim is too long: {DIGITS} digits at most")
    number = written_whole(digits)
    if number is None:
        raise RequestError(f"number {quoted(digits)} of a claim is not written in the digits 0 to 9")
    return number


def places(target: Tokens) -> Pairs:
    """The one key each query is given, -1 for none: [batch, query, key]."""
    return np.asarray(target[..., None] == np.arange(target.shape[-1]))


# -- relations ----------------------------------------------------------------------------------------------


def _current(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], dtype=bool)


def _previous(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], k=-1, dtype=bool)


def _next(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], k=1, dtype=bool)


def _first(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (np.arange(tokens.shape[1]) == 0)


def _all(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible.copy()


def _following(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & ~np.tri(tokens.shape[1], dtype=bool)


def _copies(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & (tokens[:, :, None] == tokens[:, None, :]) & np.tri(tokens.shape[1], dtype=bool)


def _earlier_copies(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return _copies(tokens, grammar, visible) & ~np.eye(tokens.shape[1], dtype=bool)


def _induction(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    after = np.zeros_like(visible)  # the token before the key is an earlier copy of the query's
    after[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    return np.asarray(visible & after & np.tri(tokens.shape[1], dtype=bool))


CURRENT = Relation(
    "current",
    "the current token",
    "mass",
    "tokens",
    _current,
    ("itself", "the current position", "its own position", "its own token", "the query itself", "the token itself"),
)
PREVIOUS = Relation(
    "previous",
    "the previous token",
    "mass",
    "tokens",
    _previous,
    (
        "the preceding token",
        "the token before",
        "the token just before",
        "the token right before",
        "the token immediately before",
        "the token before it",
        "the previous position",
    ),
)
FIRST = Relation(
    "first",
    "the first token",
    "mass",
    "tokens",
    _first,
    (
        "the initial token",
        "the first position",
        "the first token of the sequence",
        "the beginning of the sequence",
        "the beginning of sequence token",
        "the start of the sequence",
        "the beginning of the input",
        "the start of the input",
        "the beginning of the string",
        "the attention sink",
        "the sink",
    ),
)
COPIES = Relation("copies", "earlier or current copies of the current token", "mass", "tokens", _copies)
EARLIER_COPIES = Relation(
    "earlier-copies",
    "earlier copies of the current token",
    "mass",
    "tokens",
    _earlier_copies,
    (
        "an earlier copy of the current token",
        "earlier copies of itself",
        "earlier occurrences of the current token",
        "previous occurrences of the current token",
        "an earlier occurrence of the current token",
        "the previous occurrence of the current token",
        "previous copies of the current token",
        "earlier instances of the current token",
        "previous instances of the current token",
        "duplicate tokens",
    ),
)
ALL = Relation(
    "all",
    "all visible tokens evenly",
    "even",
    "tokens",
    _all,
    (
        "all tokens evenly",
        "everything evenly",
        "all visible keys evenly",
        "every token evenly",
        "every visible token evenly",
        "all previous tokens evenly",
        "all positions evenly",
        "all visible positions evenly",
        "the whole sequence evenly",
        "the whole context evenly",
    ),
)
NEXT = Relation("next", "the next token", "mass", "tokens", _next, ("the following token", "the token after"))
INDUCTION = Relation(
    "induction",
    "the token after an earlier copy of the current token",
    "mass",
    "tokens",
    _induction,
    (
        "token after an earlier copy",
        "the token after an earlier copy",
        "the token that followed an earlier copy of the current token",
        "the token after an earlier occurrence of the current token",
        "the token after a previous occurrence of the current token",
        "the token after the previous occurrence of the current token",
        "the token following an earlier occurrence of the current token",
        "the token following a previous occurrence of the current token",
        "the token following the previous occurrence of the current token",
        "the token following an earlier copy of the current token",
        "the token that followed an earlier occurrence of the current token",
        "the token that followed a previous occurrence of the current token",
        "the token that followed the previous occurrence of the current token",
        "the induction target",
    ),
)
FOLLOWING = Relation(
    "following", "all following tokens evenly", "even", "tokens", _following, ("all later tokens evenly",)
)
RELATIONS = (CURRENT, PREVIOUS, FIRST, COPIES, EARLIER_COPIES, ALL, NEXT, INDUCTION, FOLLOWING)


def offset(steps: int) -> Relation:
    """The token `steps` positions after the query, before it where negative."""
    return _offset(whole_from("offset", steps, -MOST, MOST))


@cache
def _offset(steps: int) -> Relation:
    if steps in (-1, 0, 1):
        return (CURRENT, NEXT, PREVIOUS)[steps]

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & np.eye(tokens.shape[1], k=steps, dtype=bool)

    words = f"the token {abs(steps)} positions {'before' if steps < 0 else 'after'}"
    return Relation(f"offset{steps:+d}", words, "mass", "tokens", keys)


def position(place: int) -> Relation:
    """The token at `place`, from 0."""
    return _position(whole_from("position", place, 0, MOST))


@cache
def _position(place: int) -> Relation:
    if place == 0:
        return FIRST

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (np.arange(tokens.shape[1]) == place)

    return Relation(f"position-{place}", f"position {place}", "mass", "tokens", keys)


def token_id(grammar: Any, text: str) -> int:
    """Id of a token that a claim names; `RequestError` where the vocabulary has no such token."""
    if (found := find_token(grammar, text)) is None:
        vocabulary = tuple(getattr(grammar, "vocab", ()))
        known = f"its first are {' '.join(vocabulary[:8])}" if vocabulary else "it has no vocabulary"
        raise RequestError(f"no token {quoted(text)} in the model's vocabulary; {known}")
    return found


def token(text: str) -> Relation:
    """Every `text` of the grammar's vocabulary, such as [SEP]."""
    return _token(words_of("token", text))


@cache
def _token(text: str) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (tokens == token_id(grammar, text))[:, None, :]

    return Relation(f"token-{text}", f"the token {text}", "mass", VOCAB, keys, tokens=(text,))


RELATIONS_MADE: tuple[Made[Relation], ...] = (
    Made("position p", r"(?:token at |tokens at )?position (\d+)", lambda p: position(whole(p))),
    Made(
        "the second token",
        rf"({'|'.join(ORDINALS)}) (?:token|position)",
        lambda which: position(ORDINALS.index(which) + 1),
    ),
    Made("offset -n", r"(?:token at )?offset ([+-]?\d+)", lambda n: offset(whole(n))),
    Made(
        "the token n positions before",
        r"token (\d+) (?:positions?|tokens?|places?|steps?) (?:before|back|earlier|ago)",
        lambda n: offset(-whole(n)),
    ),
    Made(
        "the token n positions after",
        r"token (\d+) (?:positions?|tokens?|places?|steps?) (?:after|ahead|later)",
        lambda n: offset(whole(n)),
    ),
)
TOKENS_MADE: tuple[Made[Relation], ...] = (
    Made("the token [SEP]", r"(?:special )?tokens? (\S+)", token, as_written=True),
    Made(
        "[SEP]",  # what looks like a special token: [SEP], <s>, BOS
        r"(\[[^\]\s]+\]|<[^>\s]+>|BOS|EOS|CLS|SEP|PAD|MASK|UNK|START|END)(?: tokens?)?",
        token,
        as_written=True,
    ),
)

# -- conditions ---------------------------------------------------------------------------------------------

ELSEWHERE = Condition(
    "elsewhere",
    "the current token is not itself the target",
    "tokens",
    lambda tokens, grammar, keys: ~np.einsum("bqq->bq", keys),
    ("the target is not the current token", "the query is non-trivial", "non-trivial"),
)
CONDITIONS = (ELSEWHERE,)


def position_at_least(least: int) -> Condition:
    """The current token stands at `least` (from 0) or later."""
    return _position_at_least(whole_from("position", least, 0, MOST_PLACE))


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


CONDITIONS_MADE: tuple[Made[Condition], ...] = (
    Made(
        "the current token is [CLS]",
        r"(?:the )?(?:query|current token) is (?:the token )?(\S+)",
        token_is,
        as_written=True,
    ),
    Made(
        "the position is at least p",
        r"position (?:is )?at least (\d+)",
        lambda p: position_at_least(whole(p)),
    ),
)
