"""Results in files: `result.save(path)`, `load_result(path)`.

    {"of": {kind, format, version, checkpoint, arguments, seed, ...}, what to_dict gives ..., "kept": {...}}

`kept` holds the fields that `to_dict` leaves out or shortens, so that nothing is lost. The command line writes the same
form, and leaves out of `kept` what is large.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from interp.errors import RequestError, quoted
from interp.files import as_path, write_text
from interp.limits import read_whole
from probes.core.kinds import get_kind, kind_of
from probes.core.origin import Origin, release, unknown
from probes.core.reading import LeftOut, Unfit, from_json, hints, packed

OF, KEPT, SEVERAL = "of", "kept", "results"
BRIEF = 60_000  # characters of a field that the command line still keeps
ToJson = Callable[[Any], Any]


def file_of(result: Any, to_json: ToJson, brief: bool = False) -> dict[str, Any]:
    """A result as the content of its file. `brief`: without what is large and not in `to_dict`."""
    told = result.to_dict()
    kept: dict[str, Any] = {}
    for f in fields(result):
        value = getattr(result, f.name)
        if isinstance(value, LeftOut) or (f.name not in told and f.default is not MISSING and value == f.default):
            continue
        try:
            plain = to_json(value)
        except TypeError:  # models: `save_checkpoint` keeps them
            continue
        if f.name not in told or told[f.name] != plain:
            kept[f.name] = to_json(_packed(value))
            if brief and len(json.dumps(kept[f.name])) > BRIEF:
                del kept[f.name]
    origin = result.origin or unknown()
    of = {OF: origin.to_dict(kind_of(type(result)))}
    return {**of, **{name: told[name] for name in sorted(told)}, **({KEPT: kept} if kept else {})}


def written(content: Mapping[str, Any]) -> str:
    """The text of a file: the header first, and all else in the order of names, which is the same every time."""
    return json.dumps({**content}, indent=2, allow_nan=False) + "\n"


def save(result: Any, path: Any, to_json: ToJson) -> Path:
    """Write a result's file, whole or not at all. Raises `OutputError`."""
    path = as_path(path)
    write_text(path, written(file_of(result, to_json)))
    return path


def load_result(path: str | Path) -> Any:
    """The result that `save` (or `--json`) wrote; a list of them from a file of several.

    What a file leaves out (models; from `--json` also large arrays) is refused when it is asked for. Raises
    `RequestError` for a file that is none, damaged, of another kind or of a version whose results had other fields.
    """
    path = as_path(path, error=RequestError)
    data = read_file(path)
    if SEVERAL in data and data[OF].get("kind") == SEVERAL:
        rows = data[SEVERAL]
        if not isinstance(rows, list):
            raise RequestError(f"{str(path)!r} is damaged: {SEVERAL}={quoted(rows)} is no list")
        return [_result(path, row) for row in rows]
    return _result(path, data)


def read_file(path: Path) -> dict[str, Any]:
    """The content of a file of results: a dict that has a header. Raises `RequestError`."""
    try:
        data = json.loads(read_whole(path, "result"))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{str(path)!r} is no result: it is not JSON ({error})") from error
    if not isinstance(data, dict) or not isinstance(data.get(OF), dict):
        raise RequestError(f"{str(path)!r} is no result: it has no header {OF!r}, which save() and --json write first")
    return data


def _result(path: Path, data: Any) -> Any:
    try:
        if not isinstance(data, dict):
            raise RequestError(f"{quoted(data)} is no result")
        origin = Origin.from_dict(data.get(OF))
        kind = get_kind(data[OF]["kind"]).load()
    except RequestError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error}") from error
    kept = data.get(KEPT, {})
    try:
        given = {} if not isinstance(kept, dict) else _fields(kind, data, kept)
        result = kind(**given)
    except Exception as error:  # a forged or damaged file breaks constructors in any way
        whose = (
            "" if origin.version == release() else f", written by version {quoted(origin.version)}, not {release()},"
        )
        raise RequestError(f"{str(path)!r}{whose} is damaged or of other fields: {error}") from error
    object.__setattr__(result, "origin", origin)
    return result


def _fields(kind: Any, data: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for f in fields(kind):
        held = kept if f.name in kept else data
        if f.name in held:
            value = _shortened(held[f.name]) if held is data else held[f.name]
            try:
                given[f.name] = from_json(hints(kind)[f.name], value, f.name)
            except Unfit:
                if held is kept or f.name not in getattr(kind, "SHORTENED", ()):
                    raise
                given[f.name] = _left_out(kind, f.name)
        elif f.default is MISSING and f.default_factory is MISSING:
            given[f.name] = _left_out(kind, f.name)
    return given


def _left_out(kind: Any, name: str) -> LeftOut:
    return LeftOut(
        f"the file of this {kind.__name__} does not hold {name!r}: result.save(path) keeps all but models, which "
        "save_checkpoint keeps; --json leaves out what is large"
    )


def _shortened(value: Any) -> Any:
    """Quantiles that stand in the place of more numbers (`probes.core.result`), as these."""
    return value["quantiles"] if isinstance(value, dict) and value.keys() == {"of", "quantiles"} else value


def _packed(value: Any) -> Any:
    """Large arrays within as text."""
    if isinstance(value, (list, tuple)):
        return [_packed(one) for one in value]
    if isinstance(value, dict):
        return {key: _packed(one) for key, one in value.items()}
    return packed(value)
