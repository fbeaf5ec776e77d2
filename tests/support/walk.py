"""Walking public signatures: another value of a keyword gives another outcome, or is refused by name.

A table says, for every keyword of a callable, two values and how to call it; `missing` compares the table with the
signature, so that a new keyword without an entry fails. An outcome is all that a call does: what it returns, what
becomes of its arguments, the files it writes, what it prints, or how it refuses. A part of it that merely repeats the
value that was given (the `seed` of a result, say) is no outcome: it would be there if nothing read the keyword. Objects
that only hold what they are given are therefore walked together with what is made of them: see `used`.
"""

import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from interp.errors import InterpError
from refusals import own_words


class Mute:
    """A value whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


HUGE = 10**5000  # more digits than Python writes: its repr raises
# What no keyword means, and what a careless check stumbles over: over its repr, its comparison, its truth value.
ODD = {
    "huge": HUGE,
    "-huge": -HUGE,
    "mute": Mute(),
    "bytes": b"x",
    "array": np.full((2, 2), np.nan),
    "list": [Mute(), HUGE],
}
MEASURED = ("timing",)  # fields that differ from run to run


@dataclass(frozen=True)
class Pair:
    """Two values of a keyword. Values that are `Made` are made anew for every call.

    - `given`: other keywords to call with, beside those of the entry.
    - `refusal`: what the refusal of the other value says, if that is one; None: it names the keyword.
    """

    value: Any
    other: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None


@dataclass(frozen=True)
class Made:
    """A value that a call may change, or that takes a while to make: `make()` at every call."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class Entry:
    """One callable.

    - `call`: what is called, with keywords only. Its first keywords may be made by `base`.
    - `pairs`: a `Pair` (or a tuple of its fields) a keyword.
    - `unwalked`: keywords that no outcome can show, with the reason.
    - `like`: whose signature is to be covered, by default that of `call`.
    """

    call: Callable[..., Any]
    pairs: Mapping[str, Any]
    base: Mapping[str, Any] = field(default_factory=dict)
    unwalked: Mapping[str, str] = field(default_factory=dict)
    like: Callable[..., Any] | None = None


def keywords_of(function: Callable[..., Any]) -> set[str]:
    """Names of the parameters, `self` and * and ** apart."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.items()
    return {name for name, p in parameters if p.kind not in kinds and name not in ("self", "cls")}


def missing(table: Mapping[str, Entry]) -> dict[str, set[str]]:
    """Entry -> keywords that its signature has and the table does not, or the other way round."""
    found = {}
    for name, entry in table.items():
        known = {*entry.pairs, *entry.unwalked}
        open_ended = any(
            p.kind is p.VAR_KEYWORD for p in inspect.signature(entry.like or entry.call).parameters.values()
        )
        expected = keywords_of(entry.like or entry.call)
        lost = expected - known if open_ended else expected ^ known
        if lost:
            found[name] = lost
    return found


def cases(table: Mapping[str, Entry]) -> list[tuple[str, str]]:
    """(entry, keyword) of all that is walked, for `pytest.mark.parametrize`."""
    return [(name, keyword) for name, entry in table.items() for keyword in entry.pairs]


def check(entry: Entry, keyword: str, folder: Path, capture: Callable[[], Any] | None = None) -> None:
    """Call with one value, with it again, and with the other; `folder` is the empty current folder of the calls."""
    pair = entry.pairs[keyword]
    pair = pair if isinstance(pair, Pair) else Pair(*pair)
    first, again, other = (
        outcome(entry.call, {**entry.base, **pair.given, keyword: value}, folder, capture)
        for value in (pair.value, pair.value, pair.other)
    )
    assert not isinstance(first, Refusal), f"{keyword}={pair.value!r} is refused: {first}"
    assert first == again, f"two calls with {keyword}={pair.value!r} differ: nothing can be told from a third"
    echo = tuple(fingerprint(value.make() if isinstance(value, Made) else value) for value in (pair.value, pair.other))
    assert differ(first, other, echo), f"{keyword}={pair.other!r} changes nothing"
    if isinstance(other, Refusal):
        named = (keyword, keyword.replace("_", " ")) if pair.refusal is None else (pair.refusal,)
        assert any(word in other for word in named), f"the refusal does not say {named[0]!r}: {other}"


def check_odd(entry: Entry, keyword: str, folder: Path) -> None:
    """Every odd value of a keyword is refused by ourselves: in one line of our words, whatever it is."""
    pair = entry.pairs[keyword]
    pair = pair if isinstance(pair, Pair) else Pair(*pair)
    for kind, value in ODD.items():
        try:
            found = outcome(entry.call, {**entry.base, **pair.given, keyword: value}, folder)
        except Exception as error:
            raise AssertionError(f"{keyword} of kind {kind!r}: a bare {type(error).__name__}") from error
        assert isinstance(found, Refusal), f"{keyword} of kind {kind!r} is taken"
        assert "could not be measured" not in found, f"{keyword} of kind {kind!r}: {found}"
        assert len(found) < 500, f"{keyword} of kind {kind!r}: {found}"


class Refusal(str):
    """The one line of an `InterpError`, without what it relays of a library's: `own_words`."""


def _result_of(call: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    try:
        return call(**keywords)
    except InterpError as error:
        return Refusal(own_words(error))


def outcome(call: Callable[..., Any], keywords: Mapping[str, Any], folder: Path, capture: Any = None) -> Any:
    """What a call does, as something that can be compared."""
    made = {name: value.make() if isinstance(value, Made) else value for name, value in keywords.items()}
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    if capture:
        capture()
    result = _result_of(call, made)
    if isinstance(result, Refusal):
        assert "\n" not in result, f"a refusal is one line: {result}"
        return result
    files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return fingerprint([result, made, files, capture() if capture else None])


def differ(first: Any, other: Any, echo: tuple[Any, Any]) -> bool:
    """Whether two outcomes differ in more than that the one holds `echo[0]` where the other holds `echo[1]`.

    All are fingerprints.
    """
    if first == other or (_alike(first, echo[0]) and _alike(other, echo[1])):
        return False
    if isinstance(first, dict) and isinstance(other, dict) and first.keys() == other.keys():
        return any(differ(first[name], other[name], echo) for name in first)
    nested = isinstance(first, (tuple, list)) and type(first) is type(other) and len(first) == len(other)
    return not nested or any(differ(a, b, echo) for a, b in zip(first, other, strict=True))


def _alike(one: Any, other: Any) -> bool:
    """Equal fingerprints, where a tuple is what a list of the same is: constructors make one of the other."""
    listed = (tuple, list)
    if not (isinstance(one, listed) and isinstance(other, listed) and len(one) == len(other)):
        return bool(one == other or (one in ("list", "tuple") and other in ("list", "tuple")))
    return all(map(_alike, one, other))


def used(make: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
    """A constructor as a function of keywords that gives what `use` makes of the object, and not the object."""
    return lambda **keywords: use(make(**keywords))


def fingerprint(thing: Any) -> Any:
    """Something comparable that is alike for things that are alike: bytes of arrays, fields of objects."""
    if isinstance(thing, torch.Tensor):
        values = thing.detach() if thing.is_meta else thing.detach().cpu().contiguous().view(-1).numpy()
        content = "" if thing.is_meta else hashlib.sha256(values.tobytes()).hexdigest()
        return ("tensor", str(thing.dtype), str(thing.device), tuple(thing.shape), thing.requires_grad, content)
    if isinstance(thing, np.ndarray):
        return (
            "array",
            str(thing.dtype),
            thing.shape,
            hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest(),
        )
    if hasattr(thing, "hook_dict"):
        return _model(thing)
    if hasattr(thing, "cache_dict"):  # an ActivationCache
        return ("cache", thing.has_batch_dim, fingerprint(thing.cache_dict))
    if hasattr(thing, "to_json"):
        return ("figure", thing.to_json())
    if is_dataclass(thing) and not isinstance(thing, type):
        values = {f.name: getattr(thing, f.name) for f in fields(thing)}
        return (type(thing).__name__, {n: bool(v) if n in MEASURED else fingerprint(v) for n, v in values.items()})
    if isinstance(thing, Mapping):
        return (type(thing).__name__, [(repr(key), fingerprint(value)) for key, value in thing.items()])
    if isinstance(thing, (list, tuple)):
        return (type(thing).__name__, [fingerprint(value) for value in thing])
    if isinstance(thing, bytes):
        return hashlib.sha256(thing).hexdigest()
    return repr(thing) if not callable(thing) else type(thing).__name__


def _model(model: Any) -> Any:
    hooks = {
        name: [
            [[(h.is_permanent, h.context_level) for h in listed] for listed in (point.fwd_hooks, point.bwd_hooks)],
            sorted(point.ctx),
        ]
        for name, point in model.hook_dict.items()
    }
    state = {name: fingerprint(p) for name, p in model.named_parameters()}
    told = [getattr(model, name, None) for name in ("config", "grammar", "provenance")]
    return ("model", hooks, state, [fingerprint(one) for one in told], model.training)


def public(package: ModuleType) -> dict[str, Any]:
    """What the package and its modules promise, by name: all in an `__all__` or a table of lazy names (`_HOME`)."""
    inside = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [package.__name__, *(found.name for found in inside if not found.name.endswith("__main__"))]
    modules = [importlib.import_module(name) for name in names]
    return {
        name: getattr(module, name)
        for module in modules
        for name in {*getattr(module, "__all__", ()), *getattr(module, "_HOME", ())}
    }


def public_methods(kind: type) -> set[str]:
    """Names of the methods that a class itself defines, properties and underscored ones apart."""
    return {
        name
        for name, member in vars(kind).items()
        if not name.startswith("_") and callable(getattr(kind, name)) and not isinstance(member, property)
    }


def covered(table: Mapping[str, Entry], wanted: Iterable[str]) -> set[str]:
    """Which of the names `wanted` the table lacks."""
    return set(wanted) - set(table)
