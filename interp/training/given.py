"""What a grammar of other people draws and says of it, checked before a number is made of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import WorldError, quoted
from interp.recipe import num_labels
from interp.training.layout import IGNORE

ROUNDING = 5e-7  # nats: what is certain may come out so far below 0, as the logarithm of a sum in single precision


def drawn(grammar: Any, given: Any, count: int) -> NDArray[np.int64]:
    """Token ids [count, length] as `draw` gave them. Raises `WorldError` for anything else."""
    array = _whole(grammar, "draw", given)
    if array.ndim != 2 or len(array) != count or array.shape[1] == 0:
        _wrong(grammar, "draw", f"shape {list(array.shape)}", f"[{count}, length]")
    size = grammar.vocab_size
    if array.min(initial=0) < 0 or array.max(initial=0) >= size:
        _wrong(grammar, "draw", f"ids {array.min()} to {array.max()}", f"ids from 0 to {size - 1}")
    return array


def labelled(grammar: Any, tokens: NDArray[np.int64], *, some: bool = True) -> NDArray[np.int64]:
    """Labels [count, length] of tokens, -100 where there is none. Raises `WorldError` for anything else.

    `some`: no label at all is an error, as in a large sample; a single batch may have none where labels are rare.
    """
    array, size = _whole(grammar, "labels", grammar.labels(tokens)), num_labels(grammar)
    if array.shape != tokens.shape:
        _wrong(grammar, "labels", f"shape {list(array.shape)}", str(list(tokens.shape)))
    found = array[array != IGNORE]
    if found.size == 0 and some:
        _wrong(grammar, "labels", f"no label at all in {len(array)} strings", "labels somewhere")
    if found.min(initial=0) < 0 or found.max(initial=0) >= size:
        _wrong(grammar, "labels", f"labels {found.min()} to {found.max()}", f"{IGNORE}, or labels from 0 to {size - 1}")
    return array


def surprises(grammar: Any, method: str, given: Any, asked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Nats [count, length] at each label. Raises `WorldError` where they are none."""
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        _wrong(grammar, method, quoted(given), f"numbers {list(asked.shape)}")
    if array.shape != asked.shape:
        _wrong(grammar, method, f"shape {list(array.shape)}", str(list(asked.shape)))
    if not (np.isfinite(array[asked]) & (array[asked] >= -ROUNDING)).all():
        _wrong(grammar, method, "numbers that are no surprise", "nats, finite and not below 0")
    return np.where(asked, np.maximum(array, 0.0), 0.0)


def _whole(grammar: Any, method: str, given: Any) -> NDArray[np.int64]:
    try:
        array = np.asarray(given)
    except ValueError:
        _wrong(grammar, method, "rows of several lengths", "one array of whole numbers")
    if array.dtype.kind not in "iu":
        _wrong(grammar, method, f"{quoted(given)} of {array.dtype}", "whole numbers")
    return array.astype(np.int64)


def _wrong(grammar: Any, method: str, given: str, right: str) -> Any:
    raise WorldError(f"grammar {quoted(grammar)}: {method} gives {given}, and {right} are needed")
