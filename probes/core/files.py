"""Results in files: `result.save(path)`, `load_result(path)`.

    {"of": {kind, format, version, checkpoint, arguments, seed, ...}, what to_dict gives ..., "in_full": {...}}

`in_full` holds the fields that `to_dict` leaves out or shortens, so that nothing is lost. The command line writes the
same form without those of them that are large, whose names are in `left_out`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from interp.errors import RequestError, quoted
from interp.files import as_path, write_text
from interp.limits import read_whole
from probes.core.kinds import get_kind, kind_of
from probes.core.origin import Origin, release, unknown
from probes.core.plain import to_json
from probes.core.reading import LeftOut, Unfit, from_json, hints, packed

OF, KEPT, LEFT, SEVERAL = "of", "in_full", "left_out", "audits"
BRIEF = 60_000  # characters of a field that the command line still keeps


def file_of(result: Any, brief: bool = False) -> dict[str, Any]:
    """A result as the content of its file. `brief`: without what is large and not in `to_dict`."""
    told = result.to_dict()
    kept: dict[str, Any] = {}
    left: list[str] = []
    for f in fields(result):
        value = getattr(result, f.name)
        if brief and _bytes(value) > 10 * BRIEF:  # not looked at: it would take seconds
            left.append(f.name)
            continue
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
                left.append(f.name)
    of = header_of(result)
    return {
        OF: of,
        **{name: told[name] for name in sorted(told)},
        **({KEPT: kept} if kept else {}),
        **({LEFT: left} if left else {}),
    }


def header_of(result: Any) -> dict[str, Any]:
    """What a result is of, as it stands in files; of those of other packages that do not say, the kind and version."""
    return (getattr(result, "origin", None) or unknown()).to_dict(kind_of(type(result)))


def header_of_several(results: Sequence[Any]) -> dict[str, Any]:
    """Of a file of several results of one call: all but which of them."""
    return {name: value for name, value in header_of(results[0]).items() if name != "at"} | {"kind": SEVERAL}


def header_of_command(kind: str, **arguments: Any) -> dict[str, Any]:
    """Of a file that is not a result: a table that a command wrote."""
    return Origin(None, release(), None, arguments).to_dict(kind)


def written(content: Mapping[str, Any]) -> str:
    """The text of a file: a line for each list of numbers, else one for each value."""
    text = json.dumps(content, indent=2, allow_nan=False)
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n"


def save(result: Any, path: Any) -> Path:
    """Write a result's file, whole or not at all. Raises `OutputError`."""
    path = as_path(path)
    write_text(path, written(file_of(result)))
    return path


def load_result(path: str | Path) -> Any:
    """The result that `save` (or `--json`) wrote; a list of them from a file of several.

        >>> import tempfile
        >>> import numpy as np
        >>> from probes import analyze_topic_blocks, load_result
        >>> result = analyze_topic_blocks(np.kron(np.eye(3), np.ones((4, 4))), labels=np.repeat(range(3), 4))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_result(result.save(f"{folder}/blocks.json"))
        >>> again.contrast == result.contrast
        True

    What a file leaves out (models; from `--json` also large arrays) is refused when it is asked for. Raises
    `RequestError` for a file that is none, damaged, of another kind or of a version whose results had other fields.
    """
    path = as_path(path, error=RequestError)
    data = read_file(path)
    if SEVERAL in data and data[OF].get("kind") == SEVERAL:
        rows = data[SEVERAL]
        if not isinstance(rows, list):
            raise RequestError(f"{str(path)!r} is damaged: {SEVERAL}={quoted(rows)} is not a list")
        return [_result(path, row) for row in rows]
    return _result(path, data)


def read_file(path: Path) -> dict[str, Any]:
    """The content of a file of results: a dict that has a header. Raises `RequestError`."""
    try:
        data = json.loads(read_whole(path, "result"))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{str(path)!r} is not a result: it is not JSON ({error})") from error
    if not isinstance(data, dict) or not isinstance(data.get(OF), dict):
        raise RequestError(
            f"{str(path)!r} is not a result: it has no header {quoted(OF)}, which save() and --json write first"
        )
    return data


def _result(path: Path, data: Any) -> Any:
    try:
        if not isinstance(data, dict):
            raise RequestError(f"{quoted(data)} is not a result")
        origin = Origin.from_dict(data.get(OF))
        kind = get_kind(data[OF]["kind"]).load()
    except RequestError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error}") from error
    kept = data.get(KEPT, {})
    left = data.get(LEFT, [])
    try:
        if not isinstance(kept, dict) or not isinstance(left, list):
            raise Unfit(f"{KEPT}={quoted(kept)}, {LEFT}={quoted(left)}")
        result = kind(**_fields(kind, data, kept, left))
    except Exception as error:  # a forged or damaged file breaks constructors in any way
        other = origin.version != release()
        whose = f", written by version {quoted(origin.version)}, not {release()}," if other else ""
        raise RequestError(f"{str(path)!r}{whose} is damaged or of other fields: {error}") from error
    object.__setattr__(result, "origin", origin)
    return result


def _fields(kind: Any, data: Mapping[str, Any], kept: Mapping[str, Any], left: list[Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for f in fields(kind):
        held = kept if f.name in kept else data
        if f.name in held:
            value = _shortened(held[f.name]) if f.name in left else held[f.name]
            try:
                given[f.name] = from_json(hints(kind)[f.name], value, f.name)
            except Unfit:
                if f.name not in left:
                    raise
                given[f.name] = _left_out(kind, f.name)
        elif f.name in left or (f.default is MISSING and f.default_factory is MISSING):
            given[f.name] = _left_out(kind, f.name)
    return given


def _left_out(kind: Any, name: str) -> LeftOut:
    return LeftOut(
        f"the file of this {kind.__name__} does not hold {quoted(name)}: result.save(path) keeps all but models, which "
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


def _bytes(value: Any) -> int:
    """Of all arrays within."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 0))
