"""More conditions that need no world: positions, the distance to the target, tokens that the query is or is not."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from interp.checks import whole_from
from interp.claims.asking import rows_of
from interp.claims.general import ELSEWHERE, MOST_PLACE, position_at_least, token_id, token_is, whole
from interp.claims.places import braced, names_of
from interp.claims.types import Condition, Made, Pairs, Rows, Tokens
from interp.errors import RequestError, quoted

KEPT = 10_000
IS, IS_NOT = "the current token is ", "the current token is not "


def _last(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    pad = getattr(grammar, "pad", None)
    real = np.ones(tokens.shape, bool) if pad is None else tokens != pad
    behind = np.concatenate([real[:, 1:], np.zeros((len(real), 1), bool)], axis=1)[:, ::-1]
    return np.asarray(real & ~np.maximum.accumulate(behind, axis=1)[:, ::-1])


AT_LAST = Condition(
    "last-position",
    "the position is the last",  # PAD apart
    "tokens",
    _last,
    (
        "at the last position",
        "at the last token",
        "at the final position",
        "at the final token",
        "at the end of the input",
        "the query is the last token",
        "the current token is the last",
        "the current token is the last token",
    ),
)
CONDITIONS = (AT_LAST,)


def position_is(place: int) -> Condition:
    """The current token stands at `place`, from 0."""
    place = whole_from("position", place, 0, MOST_PLACE)
    return _between(place, place, f"position-is-{place}", f"the position is {place}")


def position_at_most(most: int) -> Condition:
    """The current token stands at `most` (from 0) or before."""
    most = whole_from("position", most, 0, MOST_PLACE)
    return _between(0, most, f"position-most-{most}", f"the position is at most {most}")


def position_between(first: int, last: int) -> Condition:
    """The current token stands at `first` to `last`, both from 0 and both included."""
    first, last = whole_from("position", first, 0, MOST_PLACE), whole_from("position", last, 0, MOST_PLACE)
    if first > last:
        raise RequestError(f"no position is from {first} to {last}: write the smaller one first")
    return _between(first, last, f"position-{first}-{last}", f"the position is from {first} to {last}")


@lru_cache(KEPT)
def _between(first: int, last: int, name: str, words: str) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        place = np.arange(tokens.shape[1])
        return np.broadcast_to((place >= first) & (place <= last), tokens.shape)

    return Condition(name, words, "tokens", rows)


def target_gap_at_least(least: int) -> Condition:
    """The nearest key of the claimed relation lies `least` positions from the query or farther, to either side."""
    return _target_gap(whole_from("gap", least, 0, MOST_PLACE))


@lru_cache(KEPT)
def _target_gap(least: int) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        place = np.arange(tokens.shape[1])
        near = np.abs(place - place[:, None]) < least
        return np.asarray(keys.any(-1) & ~(keys & near).any(-1))

    return Condition(f"target-gap-{least}", f"the gap is at least {least}", "tokens", rows)


def not_so(condition: Condition) -> Condition:
    """The current token is not what a condition says that it is."""
    said = isinstance(condition, Condition) and condition.words.startswith(IS)
    if not said or condition.words.startswith(IS_NOT):
        raise RequestError(f"condition {quoted(getattr(condition, 'words', condition))} does not say what a token is")
    return _not_so(condition)


@lru_cache(KEPT)
def _not_so(condition: Condition) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        return ~rows_of(condition, tokens, grammar, keys)

    words = f"{IS_NOT}{condition.words.removeprefix(IS)}"
    return Condition(f"not-{condition.name}", words, condition.needs, rows)


def token_is_not(text: str) -> Condition:
    """The current token is any but `text` of the vocabulary."""
    return not_so(token_is(text))


def token_in(texts: Iterable[str]) -> Condition:
    """The current token is one of `texts` of the vocabulary."""
    names = names_of(texts)
    return token_is(names[0]) if len(names) == 1 else _token_in(names)


@lru_cache(KEPT)
def _token_in(names: tuple[str, ...]) -> Condition:
    def rows(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
        return np.isin(tokens, [token_id(grammar, name) for name in names])

    words = f"{IS}one of {{{', '.join(names)}}}"
    return Condition(f"one-of-{'-'.join(names)}", words, "tokens", rows)


def _from_to(two: str) -> Condition:
    first, _, last = two.split(" ")
    return position_between(whole(first), whole(last))


_QUERY = r"(?:the )?(?:query|current token) is "
MADE: tuple[Made[Condition], ...] = (
    Made(
        "the current token is one of {a, b}",
        _QUERY + r"(?:(?:one|any) of (?:the )?(?:tokens? )?)?\{(.+)\}",
        lambda inner: token_in(braced(inner)),
        as_written=True,
    ),
    Made("the current token is not [CLS]", _QUERY + r"not (?:the token )?(\S+)", token_is_not, as_written=True),
    Made("the position is p", r"(?:at )?position(?: is)? (\d+)", lambda p: position_is(whole(p))),
    Made(
        "the position is at most p",
        r"(?:at )?position (?:is )?at most (\d+)",
        lambda p: position_at_most(whole(p)),
    ),
    Made("the position is from 2 to 5", r"(?:at )?position (?:is )?(?:from |between )?(\d+ (?:to|and) \d+)", _from_to),
    Made(
        "the gap is at least g",
        r"(?:gap|distance) (?:is |of )?at least (\d+)(?: token| position)?",
        lambda g: target_gap_at_least(whole(g)),
    ),
)


def suggest(longest: int) -> list[Condition]:
    """Conditions worth trying in any world, of inputs of `longest` tokens: early and late rows, far targets."""
    early, late = position_at_most(longest // 2), [position_at_least(longest * part // 4) for part in (2, 3)]
    return [ELSEWHERE, early, *late, *(target_gap_at_least(longest // part) for part in (4, 2))]
