"""What a result is of: by which call, of which models, it was computed. It stands first in every file of results."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from importlib.metadata import version
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from interp.checks import plain
from interp.errors import RequestError, quoted
from probes.core.arguments import argument_json, guest_json, is_guest

P = ParamSpec("P")
R = TypeVar("R")
FORMAT = 1
UNSEEN = ("progress", "workers")  # arguments on which no result depends


@dataclass(frozen=True)
class Origin:
    """Of one result.

    - `by`: the function that was called.  `checkpoint`: the models (see `guest_json`), None where it measures none.
    - `arguments`: those that were not the defaults, as JSON.  `seed`: apart from these.
    - `at`: of several results of one call, which it is (from 0) and of how many.
    """

    by: str | None
    version: str
    checkpoint: dict[str, Any] | None
    arguments: dict[str, Any] | None
    seed: Any = None
    at: tuple[int, int] | None = None

    def to_dict(self, kind: str) -> dict[str, Any]:
        """JSON-ready, in the order in which it is read."""
        names = ("by", "version", "checkpoint", "arguments", "seed")
        told = {"kind": kind, "format": FORMAT, **{name: getattr(self, name) for name in names}}
        return told if self.at is None else {**told, "at": list(self.at)}

    @classmethod
    def from_dict(cls, told: Any) -> "Origin":
        """What `to_dict` wrote. Raises `RequestError` for another format, and for what is none."""
        if not isinstance(told, dict) or not isinstance(told.get("kind"), str):
            raise RequestError(f"its header {quoted(told)} says no kind of result")
        if told.get("format") != FORMAT:
            raise RequestError(f"it has format {quoted(told.get('format'))}; this release reads {FORMAT}")
        kinds = {"by": str | None, "version": str, "checkpoint": dict | None, "arguments": dict | None}
        for name, kind in kinds.items():
            if name not in told or not isinstance(told[name], kind):
                raise RequestError(f"its header has no valid {quoted(name)}: {quoted(told.get(name))}")
        at = told.get("at")
        if at is not None and not (isinstance(at, list) and len(at) == 2 and all(type(i) is int for i in at)):
            raise RequestError(f"its header has no valid 'at': {quoted(at)}")
        return cls(**{name: told[name] for name in kinds}, seed=told.get("seed"), at=None if at is None else tuple(at))


def unknown() -> Origin:
    """Of a result that nobody recorded: made by hand, or by a function that is not `recorded`."""
    return Origin(None, release(), None, None)


def release() -> str:
    """The version of this package."""
    return version("interp-sandbox")


def recorded(run: Callable[P, R]) -> Callable[P, R]:
    """Decorate what returns a result, or a list of results: each then says what it is of, in `origin`.

    Stands outermost. Where one such function calls another, what the user called is told.
    """
    if getattr(run, "is_recorded", False):
        return run
    shape, name = signature(run), getattr(run, "__name__", type(run).__name__)

    @wraps(run)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        found = run(*args, **kwargs)
        origin = _origin(name, shape.bind(*args, **kwargs).arguments, shape.parameters)
        if isinstance(found, list):
            for i, one in enumerate(found):
                put(one, replace(origin, at=(i, len(found))))
        else:
            put(found, origin)
        return found

    setattr(called, "is_recorded", True)  # noqa: B010 - a function is marked
    return called


def put(result: Any, origin: Origin) -> None:
    """Let a result say that."""
    with contextlib.suppress(AttributeError, TypeError):  # of another package, and not made for it
        object.__setattr__(result, "origin", origin)


def _origin(name: str, arguments: dict[str, Any], parameters: Any) -> Origin:
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        given |= value if parameters[key].kind is Parameter.VAR_KEYWORD else {key: value}
    first = next(iter(parameters), "")
    checkpoint = _checkpoint(given.get(first))
    if checkpoint is not None:
        del given[first]
    seed = argument_json(plain(given.pop("seed", 0)))
    told = {
        key: argument_json(value)
        for key, value in given.items()
        if key not in UNSEEN and not (key in parameters and _same(value, parameters[key].default))
    }
    return Origin(name, release(), checkpoint, told, seed)


def _checkpoint(value: Any) -> dict[str, Any] | None:
    """The models that were measured; None for what is none, and for guests of which nothing can be asked."""
    try:
        listed = list(value) if isinstance(value, tuple) else value
        return guest_json(listed) if is_guest(listed) else None
    except Exception:  # objects of other people's, in any way
        return None


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, (bool, int, float, str, tuple)) and value == default
