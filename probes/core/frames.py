"""Results as tables: rows of plain numbers, and a pandas frame of them where pandas is there."""

from collections.abc import Iterator, Mapping
from typing import Any

from interp.errors import RequestError

ENDS = ("value", "low", "high", "n", "over", "reason")


def is_estimate(value: Any) -> bool:
    """Whether a part of a result's JSON is an estimate."""
    return isinstance(value, Mapping) and {"value", "low", "high", "n", "over", "null"} <= value.keys()


def estimate_rows(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row an estimate: the field, the place within it ("1.0": layer 1, head 0), its numbers, and each null."""
    return [
        {"field": field, "at": ".".join(at), **{name: one.get(name) for name in ENDS}, **_nulls(one["null"])}
        for field, value in told.items()
        for at, one in _estimates(value, ())
    ]


def table_rows(rows: Any) -> list[dict[str, Any]]:
    """Rows of a table, each a mapping: an estimate becomes its value, with `_low`, `_high`, `_n` beside it."""
    out = []
    for row in rows:
        flat: dict[str, Any] = {}
        for name, value in row.items():
            if is_estimate(value):
                flat |= {name: value["value"], **{f"{name}_{end}": value[end] for end in ("low", "high", "n")}}
            elif isinstance(value, Mapping):
                flat |= {f"{name}_{key}": one for key, one in value.items() if not isinstance(one, (dict, list))}
            else:
                flat[name] = value
        out.append(flat)
    return out


def frame(rows: list[dict[str, Any]]) -> Any:
    """A pandas `DataFrame` of the rows. Raises `RequestError` without pandas."""
    try:
        import pandas
    except ImportError:
        raise RequestError("to_frame() needs the package pandas: pip install 'interp-sandbox[frames]'") from None
    return pandas.DataFrame(rows)


def _estimates(value: Any, at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if is_estimate(value):
        yield at, value
        return
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from _estimates(one, (*at, str(key)))


def _nulls(null: Any) -> dict[str, Any]:
    """Each null in a column of its own, its value alone where it is an estimate."""
    if is_estimate(null):
        return {"null": null["value"]}
    if not isinstance(null, Mapping):
        return {} if null is None else {"null": null}
    return {f"null_{name}": one["value"] if is_estimate(one) else one for name, one in null.items()}
