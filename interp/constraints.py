"""Constraints declared once, at the field of a dataclass, and checked in one place. Imports no torch.

    @dataclass(frozen=True)
    class Settings:
        steps: Annotated[int, Interval(ge=1, le=10**9), doc("steps of training")] = 1500
        loss: Annotated[Literal["ce", "mse"], doc("what is minimised")] = "ce"

        def __post_init__(self) -> None:
            check_fields(self, ConfigError)

The bounds and texts are those of `annotated_types`, which pydantic reads too. What `--set` takes, and its help, come
from the same declarations.
"""

import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated as Annotated
from typing import Any, Union, get_args, get_origin, get_type_hints
from typing import Literal as Literal

from annotated_types import DocInfo, Ge, Gt, Le, Lt
from annotated_types import Interval as Interval
from annotated_types import doc as doc

from interp.checks import MOST, make_plain, one_of, whole_number
from interp.errors import InterpError, quoted


def check_fields(frozen: Any, error: type[InterpError]) -> None:
    """Make numpy's scalars plain numbers, and raise `error` for the first field whose value is not what it declares."""
    make_plain(frozen)
    cls: Any = type(frozen)
    for name, (kind, bounds, optional) in declared(cls).items():
        value = getattr(frozen, name)
        if value is None and optional:
            continue
        if kind is int and bounds[1] == INFINITE and not isinstance(bounds[0], Open):
            whole_number(name, value, int(bounds[0]), error=error)
        elif not _fits(value, kind, bounds):
            raise error(f"{name}={quoted(value)} is not {_wanted(kind, bounds)}")


def help_of(cls: type) -> dict[str, str]:
    """What each field of a dataclass means, where it says so: its text, and what it takes."""
    said = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        told = next((extra.documentation for extra in _extras(hint) if isinstance(extra, DocInfo)), None)
        if told is not None:
            said[name] = f"{told}: {allowed(cls, name)}" if name in declared(cls) else told
    return said


def allowed(cls: type, name: str) -> str:
    """What a field takes, in words: "a whole number from 1 to 9", "one of ce, mse"."""
    kind, bounds, _ = declared(cls)[name]
    return _wanted(kind, bounds)


@cache
def declared(cls: type) -> Mapping[str, tuple[Any, tuple[float, float], bool]]:
    """For each field that can be checked its kind (int, float, bool, or words), bounds, and whether it may be None."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for field in fields(cls):
        hint, extras, optional = hints[field.name], list(_extras(hints[field.name])), False
        hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if get_origin(hint) in (Union, types.UnionType):
            parts = [part for part in get_args(hint) if part is not type(None)]
            optional = len(parts) < len(get_args(hint))
            if len(parts) != 1:
                continue
            extras += _extras(parts[0])
            hint = get_args(parts[0])[0] if get_origin(parts[0]) is Annotated else parts[0]
        bounds = _bounds(extras)
        if get_origin(hint) is Literal:
            found[field.name] = (get_args(hint), bounds, optional)
        elif hint is bool or (hint in (int, float) and bounds != (-INFINITE, INFINITE)):
            found[field.name] = (hint, bounds, optional)
    return found


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


def _fits(value: Any, kind: Any, bounds: tuple[float, float]) -> bool:
    if isinstance(kind, tuple):
        return one_of(value, kind)
    if kind is bool:
        return isinstance(value, bool)
    right = isinstance(value, int) if kind is int else isinstance(value, (int, float))
    return right and not isinstance(value, bool) and _within(value, bounds) and (kind is float or value <= MOST)


def _wanted(kind: Any, bounds: tuple[float, float]) -> str:
    if isinstance(kind, tuple):
        return f"one of {', '.join(kind)}"
    if kind is bool:
        return "True or False"
    what = "a whole number" if kind is int else "a number"
    least, most = (f"{bound:g}" if kind is float or isinstance(bound, Open) else str(bound) for bound in bounds)
    if not any(isinstance(bound, Open) for bound in bounds) and INFINITE not in (-bounds[0], bounds[1]):
        return f"{what} from {least} to {most}"
    low = "" if bounds[0] == -INFINITE else f"{'above' if isinstance(bounds[0], Open) else 'of at least'} {least}"
    high = "" if bounds[1] == INFINITE else f"{'below' if isinstance(bounds[1], Open) else 'of at most'} {most}"
    return f"{what} {' and '.join(filter(None, (low, high)))}"
