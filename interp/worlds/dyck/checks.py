"""Checks of the arguments of `DyckGrammar`: the value as it is used, or a `GrammarError` that quotes it."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import MOST, one_of
from interp.errors import GrammarError, quoted
from interp.worlds.dyck.law import Bools, Ints

Mode = Literal["complete", "prefix"]


def whole(name: str, value: Any, low: int, high: int | None) -> int:
    """`value` as an int within low..high (or no upper end)."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not low <= value <= (MOST if high is None else high):
        span = f"{low} or more" if high is None else f"{low} to {high}"
        raise GrammarError(f"{name}={quoted(value)} is not a whole number of {span}")
    return int(value)


def probability(name: str, value: Any, one_allowed: bool) -> float:
    """`value` as a float above 0 and below 1 (or up to 1)."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not (0 < value < 1 or (one_allowed and value == 1)):
        span = "0 < p <= 1" if one_allowed else "0 < p < 1"
        raise GrammarError(f"{name}={quoted(value)} is not a probability with {span}")
    return float(value)


def known_mode(mode: Any) -> Mode:
    """`mode`, if it is one."""
    if one_of(mode, ("complete", "prefix")):
        kind: Mode = mode
        return kind
    raise GrammarError(f"mode={quoted(mode)} is unknown: 'complete' or 'prefix'")


def of_mode(mode: Any, min_length: int | None, max_length: int | None, **prefix: Any) -> tuple[Mode, int, int]:
    """The mode and its length bounds, by default 2 and 26. Raises `GrammarError` for an option of the other mode.

    `prefix`: options that only mode "prefix" reads, None where they were not given.
    """
    kind = known_mode(mode)
    bounds = {"min_length": min_length, "max_length": max_length}
    other, why = (prefix, "it is for prefixes") if kind == "complete" else (bounds, "it is for complete strings")
    for name, value in other.items():
        if value is not None:
            raise GrammarError(f"{name}={quoted(value)} changes nothing with mode={quoted(kind)}: {why}; leave it out")
    return kind, 2 if min_length is None else min_length, 26 if max_length is None else max_length


def length_range(length: Any) -> tuple[int, int]:
    """`length` of prefixes, a whole number or a pair, as (low, high)."""
    pair = tuple(length) if isinstance(length, (tuple, list)) else (length, length)
    if len(pair) != 2:
        raise GrammarError(f"length={quoted(length)} is neither a whole number nor a pair (low, high)")
    low, high = (whole("length", value, 0, None) for value in pair)
    if low > high:
        raise GrammarError(f"length={quoted(length)} is empty: low must not exceed high")
    return low, high


def as_uniforms(uniforms: ArrayLike) -> NDArray[np.floating]:
    """`uniforms` as floats [n, width] in [0, 1)."""
    draws = np.asarray(uniforms)
    if draws.ndim != 2 or draws.dtype.kind != "f":
        raise GrammarError(f"uniforms of shape {draws.shape} and type {draws.dtype}: give floats [n, width]")
    if draws.size and not (draws.min() >= 0 and draws.max() < 1):
        raise GrammarError(f"uniforms from {draws.min()} to {draws.max()}: each must lie in [0, 1)")
    return draws


def per_row(name: str, value: ArrayLike, count: int, limit: int) -> Ints:
    """A whole number, or one per row, within 0..limit-1, as int64 [count]."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.shape not in ((), (count,)):
        raise GrammarError(f"{name} {quoted(value)}: give a whole number, or one for each of the {count} rows")
    wrong = (array < 0) | (array >= limit)
    if wrong.any():
        raise GrammarError(f"{name} {int(array[wrong][0])} is out of range: 0 to {limit - 1}")
    return np.broadcast_to(array, (count,)).astype(np.int64)


def first_true(mask: Bools) -> tuple[int, int]:
    """(row, position) of the first True of [..., pos], rows counted over all leading axes."""
    row, at = divmod(int(mask.reshape(-1).argmax()), mask.shape[-1])
    return row, at


def log_or_minus_inf(values: Any) -> Any:
    """Natural logarithm with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def quote(text: str) -> str:
    """`text` in quotes, its middle cut out when long."""
    return repr(text) if len(text) <= 60 else repr(text[:40] + "..." + text[-15:])
