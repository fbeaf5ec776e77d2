"""What other packages add by entry points: worlds, analyzers and studies, found by one rule. Imports no torch.

Ours come first, then the others' by name; whoever has a name first keeps it, and who comes later is named as broken.
What cannot be loaded, or is not what it should be, is named with its package and stops no other. All of it is looked
for once, and again after `refresh`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from interp.errors import RequestError, quoted
from interp.theirs import load_theirs

Loaders = Mapping[str, Callable[[], Any]]


@cache
def declared(
    what: str, group: str, ours: Callable[[], tuple[str, ...]]
) -> tuple[Mapping[str, EntryPoint], Mapping[str, str]]:
    """(entry points of other packages by name; those whose name is taken, each with the reason). Loads none.

    `what` they declare, in a word.  `ours` () -> our own names.
    """
    return _by_name(what, group, ours())


def _by_name(what: str, group: str, ours: Collection[str]) -> tuple[Mapping[str, EntryPoint], dict[str, str]]:
    found: dict[str, EntryPoint] = {}
    taken: dict[str, str] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if point.name in ours or point.name in found:
            taken[f"{point.name} of {package_of(point)}"] = f"another {what} has this name"
        else:
            found[point.name] = point
    return found, taken


@cache
def find(
    what: str, group: str, ours: Callable[[], Loaders], wrong: Callable[[str, Any, Mapping[str, Any]], str]
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """(what can be used by name; what cannot, each with the reason).

    `ours` () -> what loads each of ours.  `wrong` (name, thing, those before it) -> why it is not what it should be,
    or "".
    """
    loaders = ours()
    points, lost = _by_name(what, group, loaders)
    found: dict[str, Any] = {}
    for name, load in {**loaders, **{name: point.load for name, point in points.items()}}.items():
        of = f" (of {package_of(points[name])})" if name in points else ""
        try:
            thing = load_theirs(load, RequestError)
        except RequestError as error:  # it must not end a command that is not about it
            lost[name] = f"{error}{of}"
            continue
        reason = wrong(name, thing, found)
        if reason:
            lost[name] = f"{reason}{of}"
        else:
            found[name] = thing
    return found, lost


def check_words(thing: Any, *fields: str) -> None:
    """Raise `RequestError` where a field of what somebody declares is no line of text."""
    for field in fields:
        value = getattr(thing, field)
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            raise RequestError(f"{field}={quoted(value)} of a {type(thing).__name__} is not a line of text")


def package_of(point: EntryPoint) -> str:
    """The package that declares an entry point; where it is not known, what the point names."""
    return point.dist.name if point.dist is not None else point.value


def refresh() -> None:
    """Look again: a package was installed, or a test declares something."""
    declared.cache_clear()
    find.cache_clear()
