"""Constraints declared once, at the field of a dataclass, and checked in one place. Imports no torch.

    @dataclass(frozen=True)
    class Settings:
        steps: Annotated[int, Interval(ge=1, le=10**9), doc("steps of training")] = 1500
        loss: Annotated[Literal["ce", "mse"], doc("what is minimised")] = "ce"

        def __post_init__(self) -> None:
            check_fields(self, ConfigError)

A field may hold several values: `tuple[Annotated[float, Interval(ge=0, le=1)], ...]` checks each entry, `Len(1, 3)`
beside it how many there are. The bounds and texts are those of `annotated_types`, which pydantic reads too. What
`--set` takes, and its help, come from the same declarations.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated as Annotated
from typing import Any, Union, get_args, get_origin, get_type_hints
from typing import Literal as Literal

import numpy as np
from annotated_types import DocInfo, Ge, Gt, Le, Lt, MaxLen, MinLen
from annotated_types import Interval as Interval
from annotated_types import Len as Len
from annotated_types import doc as doc

from interp.checks import MOST, make_plain, one_of, plain, whole_number
from interp.errors import ConfigError, InterpError, quoted
from interp.numbers import Written, written_number, written_whole


@dataclass(frozen=True)
class Several:
    """The kind of a field that holds a tuple: kind and bounds of each entry, and how many there may be."""

    kind: Any
    bounds: tuple[float, float]
    least: int
    most: float


def check_fields(frozen: Any, error: type[InterpError]) -> None:
    """Raise `error` for the first field whose value is not what it declares.

    Before, numpy's scalars become plain numbers, and lists and arrays tuples where a field holds several.
    """
    make_plain(frozen)
    cls: Any = type(frozen)
    for name, (kind, bounds, optional) in declared(cls).items():
        given = getattr(frozen, name)
        if given is None and optional:
            continue
        value = _as_tuple(given) if isinstance(kind, Several) else given
        if kind is int and bounds[1] == INFINITE and not isinstance(bounds[0], Open):
            whole_number(name, value, int(bounds[0]), error=error)
        elif not _fits(value, kind, bounds):
            raise error(f"{name}={quoted(given)} is not {_wanted(kind, bounds)}{_misfit(value, kind)}")
        if value is not given:
            object.__setattr__(frozen, name, value)


def from_fields(cls: type[Any], data: Any, error: type[InterpError], *more: str) -> Any:
    """A grammar of its class from {"kind": its `KIND`, field: value}; `more`: keys that are not read here.

    Raises `error` unless exactly these keys are there, the kind among them.
    """
    expected = {"kind", *more, *(field.name for field in fields(cls))}
    if not isinstance(data, Mapping) or set(data) != expected or data["kind"] != cls.KIND:
        raise error(
            f"{quoted(data)} describes no {cls.__name__}: kind {quoted(cls.KIND)} and the keys {sorted(expected)} do"
        )
    return cls(**{name: value for name, value in data.items() if name not in ("kind", *more)})


def read_option(cls: type, name: str, value: Any) -> Any:
    """The value of a field as `--set` gives it, where that is not a number or word.

    Of a field that holds several, "a,b,c", one entry alone, and lists become tuples; "True" and "False" are what they
    say. Nothing is checked: the class does that.
    """
    kind, _, _ = declared(cls).get(name, (None, None, None))
    if not isinstance(kind, Several):
        if isinstance(value, Written):
            words = isinstance(kind, tuple) or get_type_hints(cls).get(name) is str
            return str(value) if words else _read(str(value), bool if kind is bool else float)
        return _read(value, kind) if kind is bool and isinstance(value, str) else value
    if isinstance(value, str):
        return tuple(_read(entry.strip(), kind.kind) for entry in value.removesuffix(",").split(","))
    return (value,) if isinstance(value, (int, float)) else _as_tuple(value)


def help_of(cls: type) -> dict[str, str]:
    """What each field of a dataclass means, where it says so: its text, and what it takes."""
    said = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        told = next((extra.documentation for extra in _all_extras(hint) if isinstance(extra, DocInfo)), None)
        if told is not None:
            said[name] = f"{told}: {allowed(cls, name)}" if name in declared(cls) else told
            said[name] += ", separated by commas" if _holds_several(cls, name) else ""
    return said


def _all_extras(hint: Any) -> list[Any]:
    """What is annotated at a field itself, whether it may be None or not."""
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    parts = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else ()
    return [*_extras(hint), *(extra for part in parts for extra in _extras(part))]


def _holds_several(cls: type, name: str) -> bool:
    return name in declared(cls) and isinstance(declared(cls)[name][0], Several)


def allowed(cls: type, name: str) -> str:
    """What a field takes, in words: "a whole number from 1 to 9", "one of ce, mse"."""
    kind, bounds, _ = declared(cls)[name]
    return _wanted(kind, bounds)


@cache
def declared(cls: type) -> Mapping[str, tuple[Any, tuple[float, float], bool]]:
    """For each field that can be checked its kind, its bounds, and whether it may be None.

    A kind is int, float, bool, the words of a choice, or `Several`.
    """
    hints = get_type_hints(cls, include_extras=True)
    rules = {field.name: _rule(hints[field.name]) for field in fields(cls)}
    for name, rule in rules.items():
        kind = None if rule is None else rule[0]
        if kind not in (int, float) and _bounds(_all_extras(hints[name])) != (-INFINITE, INFINITE):
            entries = ": give each entry its own, tuple[Annotated[float, Interval(...)], ...]"
            cure = entries if isinstance(kind, Several) else ""
            raise ConfigError(f"{cls.__name__}.{name} has bounds that nothing checks{cure}")
    return {name: rule for name, rule in rules.items() if rule is not None}


def _rule(hint: Any, entry: bool = False) -> tuple[Any, tuple[float, float], bool] | None:
    """What `declared` says of one field, or of an entry of a tuple: there text and unbounded numbers count, too."""
    extras, optional = list(_extras(hint)), False
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        optional = len(parts) < len(get_args(hint))
        if len(parts) != 1:
            return None
        extras += _extras(parts[0])
        hint = get_args(parts[0])[0] if get_origin(parts[0]) is Annotated else parts[0]
    bounds = _bounds(extras)
    if get_origin(hint) is Literal:
        return get_args(hint), bounds, optional
    if get_origin(hint) is tuple:
        several = _several(get_args(hint), extras)
        return None if several is None else (several, bounds, optional)
    if hint is bool or (hint in (int, float) and (entry or bounds != (-INFINITE, INFINITE))) or (entry and hint is str):
        return hint, bounds, optional
    return None


def _several(parts: tuple[Any, ...], extras: Any) -> Several | None:
    """Of `tuple[X, ...]`, and of as many X as are written; None where entries differ in kind, or are unknown."""
    if not parts or any(part not in (parts[0], ...) for part in parts):
        return None
    rule = _rule(parts[0], entry=True)
    if rule is None or rule[2] or isinstance(rule[0], Several):
        return None
    if ... not in parts:
        return Several(rule[0], rule[1], len(parts), len(parts))
    told = [one for extra in extras for one in (extra if isinstance(extra, Len) else (extra,))]
    least = max((one.min_length for one in told if isinstance(one, MinLen)), default=0)
    most = min((one.max_length for one in told if isinstance(one, MaxLen)), default=INFINITE)
    return Several(rule[0], rule[1], least, most)


INFINITE = float("inf")


def _extras(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _bounds(extras: Any) -> tuple[float, float]:
    """Least and most, as `Open` where the bound itself is not allowed."""
    given: dict[type, Any] = {}
    for extra in extras:
        for one in extra if isinstance(extra, Interval) else (extra,):
            for kind, part in ((Ge, "ge"), (Gt, "gt"), (Le, "le"), (Lt, "lt")):
                if isinstance(one, kind):
                    given[kind] = getattr(one, part)
    least = Open(given[Gt]) if Gt in given else given.get(Ge, -INFINITE)
    most = Open(given[Lt]) if Lt in given else given.get(Le, INFINITE)
    return least, most


class Open(float):
    """A bound that is not itself allowed."""


def _within(value: float, bounds: tuple[float, float]) -> bool:
    least, most = bounds
    above = value > least if isinstance(least, Open) else value >= least
    below = value < most if isinstance(most, Open) else value <= most
    return above and below


def _as_tuple(value: Any) -> Any:
    """Lists and arrays as tuples of plain numbers; anything else as it is."""
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return tuple(map(plain, value)) if listed else value


def _read(text: str, kind: Any) -> Any:
    """A text as a value of a kind, where it is one: else as it is, and to be refused."""
    if kind is bool:
        return {"True": True, "False": False}.get(text, text)
    if kind not in (int, float):
        return text
    whole = written_whole(text)
    number = written_number(text) if whole is None else whole
    return text if number is None else number


def _fits(value: Any, kind: Any, bounds: tuple[float, float]) -> bool:
    if isinstance(kind, Several):
        enough = isinstance(value, tuple) and kind.least <= len(value) <= kind.most
        return enough and all(_fits(entry, kind.kind, kind.bounds) for entry in value)
    if isinstance(kind, tuple):
        return one_of(value, kind)
    if kind in (bool, str):
        return isinstance(value, kind)
    right = isinstance(value, int) if kind is int else isinstance(value, (int, float))
    if not right or isinstance(value, bool) or not _within(value, bounds):
        return False
    return -INFINITE < value < INFINITE if kind is float else value <= MOST  # an infinity is no JSON


def _misfit(value: Any, kind: Any) -> str:
    """Which entry of several is wrong, if one is."""
    if not isinstance(kind, Several) or not isinstance(value, tuple):
        return ""
    wrong = [entry for entry in value if not _fits(entry, kind.kind, kind.bounds)]
    return f": {quoted(wrong[0])} is none" if wrong else ""


def _wanted(kind: Any, bounds: tuple[float, float], many: bool = False) -> str:
    if isinstance(kind, Several):
        return f"a list of {_wanted(kind.kind, kind.bounds, many=True)}{_how_many(kind.least, kind.most)}"
    if isinstance(kind, tuple):
        return f"{'words, each ' if many else ''}one of {', '.join(kind)}"
    if kind is bool:
        return f"{'values ' if many else ''}True or False"
    what = {str: "string", int: "whole number", float: "number"}[kind]
    what = f"{what}s" if many else f"a {what}"
    if bounds == (-INFINITE, INFINITE):
        return what
    least, most = (f"{bound:g}" if kind is float or isinstance(bound, Open) else str(bound) for bound in bounds)
    if not any(isinstance(bound, Open) for bound in bounds) and INFINITE not in (-bounds[0], bounds[1]):
        return f"{what} from {least} to {most}"
    low = "" if bounds[0] == -INFINITE else f"{'above' if isinstance(bounds[0], Open) else 'of at least'} {least}"
    high = "" if bounds[1] == INFINITE else f"{'below' if isinstance(bounds[1], Open) else 'of at most'} {most}"
    return f"{what} {' and '.join(filter(None, (low, high)))}"


def _how_many(least: int, most: float) -> str:
    if least == most:
        return f", {least} of them"
    if most == INFINITE:
        return f", at least {least} of them" if least else ""
    return f", {least} to {most} of them" if least else f", at most {most} of them"
