"""Which kinds of results there are: the class of each, and the functions that give one. Imports none of them.

Ours stand in `probes.declared`. A result of another package is of the kind that its `Analyzer` names
(`probes.analyzers`): its class is what the function says that it returns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints

from interp.errors import RequestError, quoted
from interp.world import load


@dataclass(frozen=True)
class Kind:
    """A kind of result: "module:class", and "module:function" of each function that gives one, or a list of them."""

    result: str
    makers: tuple[str, ...]

    def load(self) -> Any:
        """The class."""
        return load(self.result)

    def maker(self, name: str) -> Any:
        """The function of that name. Raises `RequestError` where there is none."""
        for path in self.makers:
            if path.split(":")[1] == name:
                return load(path)
        raise RequestError(f"no function {quoted(name)} gives such a result: {', '.join(self.makers)}")


def ours() -> dict[str, Kind]:
    """The kinds of this package, by name."""
    declared: Any = import_module("probes.declared")  # which imports nothing of this package
    return {name: Kind(result, makers) for name, (result, makers) in declared.RESULTS.items()}


def kind_of(result: type) -> str:
    """The name of a class's kind; the class's own where nobody declares it."""
    for name, kind in _every():
        module, _, attribute = kind.result.partition(":")
        if attribute == result.__name__ and f"{result.__module__}.".startswith(f"{module}."):
            return name
    return result.__name__


def get_kind(name: Any) -> Kind:
    """The kind of that name. Raises `RequestError` for another."""
    known = dict(_every())
    if not isinstance(name, str) or name not in known:
        raise RequestError(f"no kind of result {quoted(name)}; kinds are {', '.join(known)}")
    return known[name]


def _every() -> Iterator[tuple[str, Kind]]:
    known = ours()
    yield from known.items()
    declared: Any = import_module("probes.analyzers")  # which knows of other packages, and not of this one
    for name, analyzer in declared.find_analyzers()[0].items():
        if name not in known and (kind := _declared(analyzer)) is not None:
            yield name, kind


def _declared(analyzer: Any) -> Kind | None:
    """The kind that an analyzer of another package declares by what its function returns."""
    try:
        returned = get_type_hints(load(analyzer.run)).get("return")
    except Exception:  # theirs, and broken: nothing can be of its kind
        return None
    if not isinstance(returned, type):
        return None
    return Kind(f"{returned.__module__}:{returned.__qualname__}", (analyzer.run,))
