"""Arguments of a call as JSON, and back: what a result was computed with.

What JSON lacks is written as {"is": what, "value": ...}. What cannot be written (a function, a model that no file
holds) is written as its type, and refused by whoever wants to call again.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from interp.errors import InterpError, RequestError, quoted
from interp.registry import grammar_from_dict
from interp.sources import Part, digest_of, source_of
from interp.world import load

IS = "is"
MOST = 20_000  # numbers of an array that stand in a file
CLAIM, LABELLED = "probes.claims:Claim", "LabelledInput"


def is_guest(value: Any) -> bool:
    """A model, a population, or a list of models."""
    if isinstance(value, list):
        return bool(value) and all(map(is_guest, value))
    return not isinstance(value, type) and (hasattr(value, "hook_dict") or hasattr(value, "params"))


def guest_json(guest: Any) -> dict[str, Any]:
    """Which files models are from (None: not known), what they were given as, and the digest of their weights."""
    source = source_of(guest)
    several = isinstance(guest, list)
    return {
        "files": None if source is None else [part.to_dict() for part in source],
        "given": "list" if several else "population" if hasattr(guest, "params") else "model",
        "models": len(guest) if several or hasattr(guest, "params") else 1,
        "digest": digest_of(guest),
    }


def argument_json(value: Any) -> Any:
    """One argument. Never raises: whoever measures is not to fail for what cannot be written."""
    try:
        return _written(value)
    except Exception:  # objects of other people's, in any way
        return {IS: "unwritten", "value": type(value).__name__}


def _written(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, PurePath):
        return {IS: "path", "value": str(value)}
    if is_guest(value):
        return {IS: "models", "value": guest_json(value)}
    if isinstance(value, (list, tuple, range)):
        return [_written(one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and IS not in value:
        return {key: _written(one) for key, one in value.items()}
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.size <= MOST and value.dtype.kind in "fiub":
        return {IS: "array", "value": value.tolist(), "dtype": value.dtype.str}
    return _of_ours(value)


def _of_ours(value: Any) -> Any:
    name = type(value).__name__
    if name == LABELLED and is_dataclass(value):
        return {f.name: _written(getattr(value, f.name)) for f in fields(value)}
    if name == "Claim" and load(CLAIM).parse(value.text) == value and value.question is None:
        return {IS: "claim", "value": value.text}
    if name == "Relation" and load(CLAIM)([(0, 0)], value.words).relation == value:
        return {IS: "relation", "value": value.words}
    if hasattr(value, "KIND") and grammar_from_dict(value.to_dict()) == value:
        return {IS: "grammar", "value": value.to_dict()}
    raise TypeError(name)


def argument_from(value: Any, name: str, load_guest: Any) -> Any:
    """What `argument_json` wrote, as an argument again. Raises `RequestError` for what could not be written.

    `load_guest`: what loads the models that `guest_json` describes.
    """
    if isinstance(value, list):
        return [argument_from(one, name, load_guest) for one in value]
    if not isinstance(value, dict):
        return value
    if IS not in value:
        return {key: argument_from(one, name, load_guest) for key, one in value.items()}
    kind, content = value[IS], value.get("value")
    readers: dict[str, Any] = {
        "path": Path,
        "array": lambda given: np.array(given, dtype=value.get("dtype")),
        "claim": lambda text: load(CLAIM).parse(text),
        "relation": lambda words: load(CLAIM)([(0, 0)], words).relation,
        "grammar": grammar_from_dict,
        "models": load_guest,
    }
    if kind not in readers:
        raise RequestError(
            f"{name} was {quoted(content)}, which no file can hold: the result cannot be computed again from it"
        )
    try:
        return readers[kind](content)
    except InterpError:
        raise
    except Exception as error:  # a damaged file may hold anything
        raise RequestError(f"{name}={quoted(content)} is no {kind}: {error}") from error


def parts_from(value: Any) -> tuple[Part, ...]:
    """The files that `guest_json` told of. Raises `RequestError` for what is not of their form."""
    rows: list[Any] = value if isinstance(value, list) else []
    if not rows or not all(map(_is_part, rows)):
        raise RequestError(f"checkpoint files {quoted(value)} are not of the form that results have")
    return tuple(Part(**{**row, "seeds": None if row.get("seeds") is None else tuple(row["seeds"])}) for row in rows)


def _is_part(row: Any) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("file"), str) or row.keys() - {f.name for f in fields(Part)}:
        return False
    seeds = row.get("seeds")
    return seeds is None or (isinstance(seeds, list) and all(type(seed) is int for seed in seeds))
