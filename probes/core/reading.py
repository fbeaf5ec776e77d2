"""The inverse of `to_json`: values of the types that a dataclass's fields are annotated with."""

import base64
import math
import types
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from interp.errors import RequestError, quoted
from interp.stats import Estimate

PACKED = "packed"  # how an array is written that is large: deflated, base64
PACK_FROM = 200  # numbers


class Unfit(ValueError):
    """A value that is not of the type; the message says where and what."""


class LeftOut:
    """Stands for a field that a file does not hold: whatever is asked of it is refused in one line."""

    def __init__(self, what: str):
        object.__setattr__(self, "_what", what)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        what: str = object.__getattribute__(self, "_what")
        raise RequestError(f"{what}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python itself asks whether there is such a thing
            raise AttributeError(name)
        self._refuse()

    __getitem__ = __iter__ = __len__ = __array__ = __call__ = __bool__ = _refuse

    def __repr__(self) -> str:
        return "<not kept>"


def packed(value: Any) -> Any:
    """Arrays of numbers as text where they are large, exact to the last bit; all else as it is."""
    if not isinstance(value, np.ndarray) or value.size < PACK_FROM or value.dtype.kind not in "fiub":
        return value
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 6)).decode()
    return {PACKED: text, "dtype": value.dtype.newbyteorder("<").str, "shape": list(value.shape)}


@cache
def hints(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    known = get_type_hints(kind)
    return {f.name: known[f.name] for f in fields(kind)}


def from_json(hint: Any, value: Any, where: str) -> Any:
    """`value`, which `to_json` gave of something of type `hint`, as that something again.

    None stands for a number that is not finite where a number must be: NaN. Raises `Unfit`.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(args, value, where)
    if origin is Literal:
        return value if any(type(value) is type(one) and value == one for one in args) else _unfit(hint, value, where)
    if hint is None or hint is type(None):
        return None if value is None else _unfit("None", value, where)
    if hint in (bool, int, float, str):
        return _plain(hint, value, where)
    if hint is np.ndarray or origin is np.ndarray:
        return _array(args, value, where)
    if hint is Estimate:
        return _estimate(value, where)
    if is_dataclass(hint):
        return dataclass_from(hint, value, where)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return _mapping(args, value, where)
    if kind is tuple and args and args[-1:] != (...,):
        if not isinstance(value, list) or len(value) != len(args):
            _unfit(hint, value, where)
        return tuple(
            from_json(one, item, f"{where}[{i}]") for i, (one, item) in enumerate(zip(args, value, strict=True))
        )
    if isinstance(kind, type) and issubclass(kind, (Sequence, set, frozenset)):
        if not isinstance(value, list):
            _unfit(hint, value, where)
        items = (from_json(args[0] if args else Any, item, f"{where}[{i}]") for i, item in enumerate(value))
        return kind(items) if kind in (list, set, frozenset) else tuple(items)
    raise Unfit(f"{where} is of type {quoted(hint)}, which has no JSON form")


def dataclass_from(kind: Any, value: Any, where: str) -> Any:
    """The dataclass of these fields; those that are not there have their defaults."""
    if not isinstance(value, dict):
        _unfit(kind.__name__, value, where)
    given: dict[str, Any] = {}
    for f in fields(kind):
        if f.name in value:
            given[f.name] = from_json(hints(kind)[f.name], value[f.name], f"{where}.{f.name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise Unfit(f"{where} has no {quoted(f.name)}")
    return kind(**given)


def _plain(hint: Any, value: Any, where: str) -> Any:
    if hint is float and value is None:
        return math.nan
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is float and number:
        return float(value)
    return value if type(value) is hint else _unfit(hint, value, where)


def _one_of(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    failed = Unfit(f"{where} fits nothing")
    for one in args:
        try:
            return from_json(one, value, where)
        except Unfit as error:
            failed = error
    raise failed


def _mapping(args: tuple[Any, ...], value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        _unfit("mapping", value, where)
    key, item = args or (str, Any)
    out = {}
    for name, one in value.items():
        if key is int and not name.removeprefix("-").isdecimal():
            _unfit("whole number", name, where)
        out[int(name) if key is int else name] = from_json(item, one, f"{where}[{quoted(name)}]")
    return out


def _estimate(value: Any, where: str) -> Estimate:
    known = isinstance(value, dict) and {"value", "low", "high", "n", "over"} <= value.keys()
    if not known or not isinstance(value["n"], int):
        _unfit("Estimate", value, where)
    for name in ("value", "low", "high"):
        from_json(float | None, value[name], f"{where}.{name}")
    try:
        return Estimate.from_dict(value)
    except (RequestError, TypeError, ValueError) as error:
        raise Unfit(f"{where}: {error}") from error


def _array(args: tuple[Any, ...], value: Any, where: str) -> np.ndarray:
    dtype = np.dtype(get_args(args[1])[0]) if len(args) > 1 else None
    try:
        if isinstance(value, dict):
            found = np.frombuffer(zlib.decompress(base64.b64decode(value[PACKED])), dtype=np.dtype(value["dtype"]))
            found = found.reshape(value["shape"]).copy()
        elif isinstance(value, list):
            found = np.array(value, dtype=float if dtype is None and _has_none(value) else dtype)
        else:
            _unfit("array", value, where)
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise Unfit(f"{where} is not an array: {error}") from error
    if found.dtype.kind not in "fiub":
        _unfit("array of numbers", value, where)
    return found if dtype is None else found.astype(dtype, copy=False)


def _has_none(value: Any) -> bool:
    return value is None or (isinstance(value, list) and any(map(_has_none, value)))


def _unfit(hint: Any, value: Any, where: str) -> Any:
    raise Unfit(f"{where}={quoted(value)} is no {getattr(hint, '__name__', None) or str(hint)}")
