"""Arguments that many entry points take, each checked in one way. Imports no torch."""

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from interp.errors import InterpError, RequestError, quoted

MOST = 2**53  # beyond, floating point no longer counts one by one
T = TypeVar("T")


def whole_number(
    name: str, value: Any, least: int = 1, most: int = MOST, error: type[InterpError] = RequestError
) -> int:
    """`value` as an int, numpy's integers included; an `error` unless it is whole and from `least` to `most`."""
    whole = _is_whole(value)
    if not whole or not least <= value <= most:
        upto = f" and at most {most}" if most != MOST or (whole and value > most) else ""
        raise error(f"{name}={quoted(value)} is not a whole number of at least {least}{upto}")
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole_from(what: str, value: Any, least: int, most: int) -> int:
    """`value` as an int, numpy's integers included; `RequestError`, which begins with `what`, for any other."""
    if not _is_whole(value) or not least <= value <= most:
        raise RequestError(f"{what} {quoted(value)} is not a whole number from {least} to {most}")
    return int(value)


def finite_number(name: str, value: Any) -> float:
    """`value` as a float, numpy's numbers included; `RequestError` for any other, infinities and NaN among them."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise RequestError(f"{name}={quoted(value)} is not a finite number")
    try:
        found = float(value)
    except OverflowError:  # an int beyond floats
        found = math.inf
    if not math.isfinite(found):
        raise RequestError(f"{name}={quoted(value)} is not a finite number")
    return found


def instance_of(name: str, value: Any, kind: type[T]) -> T:
    """`value`, or a `RequestError` where it is of another type than `kind`."""
    if not isinstance(value, kind):
        raise RequestError(f"{name}={quoted(value)} is not a {kind.__name__}")
    return value


def given_or_default(name: str, value: Any, kind: type[T]) -> T:
    """`instance_of`, with `kind()` in the place of None."""
    return kind() if value is None else instance_of(name, value, kind)


def words_of(what: str, value: Any) -> str:
    """`value`, a text; `RequestError`, which begins with `what`, for anything else."""
    if not isinstance(value, str):
        raise RequestError(f"{what} {quoted(value)} is not a text: give a str")
    return value


def optional_whole(name: str, value: Any, default: int, least: int = 1, most: int = MOST) -> int:
    """`whole_number`, with `default` in the place of None."""
    return default if value is None else whole_number(name, value, least, most)


def true_or_false(name: str, value: Any) -> bool:
    """`value`, or a `RequestError` where it is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise RequestError(f"{name}={quoted(value)} is neither True nor False")
    return bool(value)


def one_of(value: Any, known: Collection[str]) -> bool:
    """Whether `value` is one of several words: of an array, which equals nothing as a whole, False."""
    return isinstance(value, str) and value in known


def index_of(name: str, value: Any, count: SupportsIndex, who: str = "") -> int:
    """A place among `count`, from 0, negative ones from the end. Raises `RequestError` for any other."""
    size = int(count)
    if not _is_whole(value) or not -size <= value < size:
        before = f"{who}: " if who else ""
        raise RequestError(
            f"{before}{name}={quoted(value)}: this model has {name}s 0..{size - 1}, negative ones counted from the end"
        )
    return int(value) % size


def not_read(why: str, **given: Any) -> None:
    """Refuse, by name, an option that was given (is not None) where nothing reads it."""
    for name, value in given.items():
        if value is not None:
            raise RequestError(f"{name}={quoted(value)} changes nothing here: {why}; leave it out")


def plain(value: Any) -> Any:
    """numpy's numbers as Python's, which JSON and equality know; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def make_plain(frozen: Any) -> None:
    """`plain` for every field of a frozen dataclass, at the start of its `__post_init__`."""
    for field in fields(frozen):
        value = getattr(frozen, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(frozen, field.name, value.item())
