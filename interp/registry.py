"""Finds worlds: folders under `interp/worlds/`, and what other packages declare as entry points `interp.worlds`.

A world of another package is declared in its pyproject.toml, by the module that holds its `WORLD`:

    [project.entry-points."interp.worlds"]
    parity = "my_package.parity:WORLD"

Names are known without importing anything; a world is imported when it is first asked for. Imports no torch.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar

from interp import plugins
from interp.errors import GrammarError, InterpError, RequestError, WorldError, quoted
from interp.names import did_you_mean
from interp.theirs import load_theirs
from interp.vocabulary import Vocabulary
from interp.world import Preset, World

T = TypeVar("T")
GROUP = "interp.worlds"
EXAMPLE = 50  # characters of a string that is shown as an example
_TRIED: ContextVar[World | None] = ContextVar("tried", default=None)  # see `trying`


def list_worlds() -> list[str]:
    """Names of all worlds, ours first; those that cannot be loaded too.

        >>> from interp import list_worlds
        >>> "recall" in list_worlds()
        True

    Raises nothing: `get_world` says what is wrong with a world.
    """
    tried = _TRIED.get()
    names = [*_built_in(), *_declared()]
    return names if tried is None or tried.name in names else [*names, tried.name]


def get_world(name: str) -> World:
    """The world of a name.

        >>> from interp import get_world
        >>> get_world("recall").about
        'strings of symbols; each is asked what followed its last earlier copy'

    Raises `RequestError` for an unknown name, `WorldError` for a world that cannot be loaded.
    """
    if not isinstance(name, str):
        raise RequestError(f"name={quoted(name)} is not a name of a world; worlds are {', '.join(list_worlds())}")
    found = _found(name)
    if name not in _built_in() and (reason := broken().get(name)) is not None:
        raise WorldError(reason)
    return found


@cache
def _found(name: str) -> World:
    tried = _TRIED.get()
    if tried is not None and tried.name == name:
        found = tried
    elif name in _built_in():
        found = importlib.import_module(f"{GROUP}.{name}.world").WORLD
    else:
        point = _declared().get(name)
        if point is None:
            known = list_worlds()
            raise RequestError(f"no world {quoted(name)}{did_you_mean(name, known)}; worlds are {', '.join(known)}")
        found = load_theirs(point.load, WorldError, f"world {quoted(name)} ({point.value}) cannot be loaded")
    if not isinstance(found, World) or found.name != name:
        raise WorldError(f"world {quoted(name)}: {quoted(found)} is no World of this name")
    return found


def worlds() -> tuple[World, ...]:
    """Every world that can be loaded; see `broken` for the others."""
    return _loaded()[0]


def broken() -> Mapping[str, str]:
    """Worlds of other packages that cannot be loaded, each with the reason in one line."""
    return _loaded()[1]


def kept(function: Callable[[], T]) -> Callable[[], T]:
    """What is read from all worlds, kept until they are looked for again (`refresh`)."""
    found: list[tuple[object, T]] = []  # at most one: of which worlds, and what

    @wraps(function)
    def read() -> T:
        now = _loaded()
        if not found or found[0][0] is not now:
            found[:] = [(now, function())]
        return found[0][1]

    return read


def refresh() -> None:
    """Look for worlds again: a package was installed, or a test declares one."""
    plugins.refresh()
    for known in (_found, _built_in, _loaded):
        known.cache_clear()


@contextmanager
def trying(world: World) -> Iterator[None]:
    """Inside the `with` block `world` is found by its name, in place of another of this name, without a declaration.

        with trying(WORLD):
            population = train_population("my-preset", 2)

    Raises what `get_world` raises where another world of this name cannot be loaded.
    """
    if world.name in list_worlds() and get_world(world.name) is world:
        yield
        return
    token = _TRIED.set(world)
    refresh()
    try:
        yield
    finally:
        _TRIED.reset(token)
        refresh()


def world_of(grammar: Any) -> World | None:
    """The world that a grammar is of; None for a plain vocabulary, and for what is no grammar."""
    for kind in type(grammar).__mro__:
        for world in worlds():
            if kind in world.grammars:
                return world
    return None


def presets() -> dict[str, Preset]:
    """All presets by name, in the order of their worlds."""
    return {name: preset for world in worlds() for name, preset in world.presets.items()}


def grammar_kinds() -> dict[str, type[Any]]:
    """The class of each kind of grammar that a file can name."""
    kinds: list[type[Any]] = [*(kind for world in worlds() for kind in world.grammars), Vocabulary]
    return {kind.KIND: kind for kind in kinds}


def world_of_kind(kind: Any) -> World | None:
    """The world of a kind of grammar that a file names; None for one that no world here has."""
    found = grammar_kinds().get(kind) if isinstance(kind, str) else None
    return next((world for world in worlds() if found in world.grammars), None)


def grammar_from_dict(data: dict[str, Any]) -> Any:
    """The grammar that `to_dict` described, by its kind. Raises `GrammarError` for an unknown one."""
    kind, kinds = data.get("kind") if isinstance(data, dict) else None, grammar_kinds()
    if not isinstance(kind, str) or kind not in kinds:
        lost = "".join(f"; {name} cannot be used: {reason}" for name, reason in broken().items())
        raise GrammarError(f"no grammar of kind {quoted(kind)}; kinds are {', '.join(kinds)}{lost}")
    found: Any = kinds[kind]
    return found.from_dict(data)


def merged(part: str) -> dict[str, Any]:
    """A part of worlds that is a mapping, of all worlds together: `embeddings`, `overlays`, `constructed`, ..."""
    return {name: thing for world in worlds() for name, thing in getattr(world, part).items()}


@cache
def _built_in() -> tuple[str, ...]:
    folder = Path(__file__).parent / "worlds"
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if module.ispkg))


def _declared() -> Mapping[str, EntryPoint]:
    """Entry points of other packages by name."""
    return plugins.declared("world", GROUP, _built_in)[0]


@cache
def _loaded() -> tuple[tuple[World, ...], dict[str, str]]:
    found: list[World] = []
    lost = dict(plugins.declared("world", GROUP, _built_in)[1])
    for name in list_worlds():
        try:
            world = _found(name)
            if name not in _built_in() and _TRIED.get() is not world:
                from interp.company import check_joins  # which reads what worlds say, and so worlds themselves

                check_joins(world, found)
            found.append(world)
        except InterpError as error:
            lost[name] = str(error)
    return tuple(found), lost


def read_strings(grammar: Any, texts: Any) -> Any:
    """`grammar.to_tokens(texts)`, whose `GrammarError` shows a string of the grammar's world."""
    try:
        return grammar.to_tokens(texts)
    except GrammarError as error:
        text = example_of(grammar)
        if text is None or "such as" in str(error):
            raise
        raise GrammarError(f"{error}; it reads strings such as {quoted(text)}") from error


def example_of(grammar: Any) -> str | None:
    """The text that models of a grammar are usually shown, or a drawn one, cut to what a line holds; None without."""
    world = world_of(grammar)
    if world is None:
        return None
    text = world.sentence(grammar)
    if text is None:
        try:
            drawn = world.draw_inputs(grammar, 1, 0, "example")[0]
        except InterpError:  # the law of a grammar may not be one that is drawn from
            return None
        written = getattr(grammar, "format", lambda row: "".join(grammar.vocab[token] for token in row))
        text = drawn if isinstance(drawn, str) else written(drawn)
    return text if len(text) <= EXAMPLE else f"{text[:EXAMPLE].rstrip()} ..."
