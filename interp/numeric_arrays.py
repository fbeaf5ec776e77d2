"""Arrays that users give, read by one rule: real numbers of 32 bits and more, and token ids that are whole numbers.

What numpy would convert in silence is refused here by its type: complex numbers lose their imaginary part, times and
truth values become numbers, objects whatever they say of themselves, masks are forgotten, and half precision rounds too
coarsely for weights that sum to 1. Importing this module loads no torch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import GrammarError, InterpError, quoted

_KINDS = {"b": "truth values", "c": "complex numbers", "m": "times", "M": "times", "O": "objects", "V": "records"}
_REAL = "real numbers of 32 bits or more are needed"
_WHOLE = "whole numbers are needed"
_LARGEST = np.iinfo(np.int64).max


def real_array(values: Any, what: str, error: type[InterpError]) -> NDArray[np.float64]:
    """`values`, an array, a tensor or nested lists of real numbers, as float64.

    Raises `error`, which begins with `what`, for any other type and for numbers of less than 32 bits.
    """
    found = _array(values, what, _REAL, error)
    kind = found.dtype.kind
    if kind not in "iuf" or (kind == "f" and found.dtype.itemsize < 4):
        raise error(f"{what} of type {_type_of(found)}: {_REAL}")
    return np.asarray(found, dtype=np.float64)


def id_array(values: Any, what: str, error: type[InterpError]) -> NDArray[np.int64]:
    """`values`, an array, a tensor or nested lists of whole numbers, as int64.

    Raises `error`, which begins with `what`, for any other type: truth values, and floating point too.
    """
    found = _array(values, what, _WHOLE, error)
    if found.dtype.kind not in "iu":
        raise error(f"{what} of type {_type_of(found)}: {_WHOLE}")
    if found.dtype.kind == "u" and found.size and int(found.max()) > _LARGEST:
        raise error(f"{what} that holds {found.max()}: {_WHOLE}, up to {_LARGEST}")
    return np.asarray(found, dtype=np.int64)


def token_ids(tokens: Any, size: int, axes: int | None = None) -> NDArray[np.int64]:
    """`tokens` as ids [..., pos] from 0 to `size` - 1, one position at least; `axes`: of so many axes, position last.

    Raises `GrammarError` for anything else.
    """
    found = id_array(tokens, "token ids", GrammarError)
    if found.ndim == 0 or not found.shape[-1] or (axes is not None and found.ndim != axes):
        wanted = {None: "[..., pos]", 1: "[pos]", 2: "[string, pos]"}[axes]
        raise GrammarError(f"token ids of shape {found.shape}: {wanted} is needed, with a position at least")
    if found.size and not 0 <= found.min() <= found.max() < size:
        raise GrammarError(f"{quoted(found.tolist())} are not token ids from 0 to {size - 1}")
    return found


def _array(values: Any, what: str, needed: str, error: type[InterpError]) -> NDArray[Any]:
    if values is None or isinstance(values, (str, bytes)):
        raise error(f"{what} of type {type(values).__name__}: {needed}")
    if isinstance(values, np.ma.MaskedArray):
        raise error(f"{what} of type {type(values).__name__}, whose mask would be lost: {needed}")
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            if values.is_floating_point() and values.element_size() < 4:  # numpy does not know all of these
                raise error(f"{what} of type {values.dtype}: {needed}")
            values = values.numpy()
        return np.asarray(values)
    except (
        TypeError,
        ValueError,
        OverflowError,
        RuntimeError,
    ) as failed:  # rows of unequal lengths; sparse or meta tensors
        raise error(f"{what} of type {type(values).__name__}, {quoted(values)}: {needed}") from failed


def _type_of(found: NDArray[Any]) -> str:
    told = _KINDS.get(found.dtype.kind)
    return f"{found.dtype}" if told is None else f"{found.dtype} ({told})"
