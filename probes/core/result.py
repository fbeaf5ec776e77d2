"""`Result`: what every analyzer returns has in common."""

import html
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from interp.names import printable
from interp.stats import Estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Result:
    """Base of the frozen dataclasses that analyzers return.

    A subclass writes `summary()` and `figure()`; in every summary what would steer a terminal is written out, since
    names and claims come from anybody's files. Fields whose metadata say `json=False` (arrays kept
    for the picture, say) stay out of `to_dict()`; those that say `json="given"` do where they are empty.

    `HEADLINES`: the fields whose estimates have a null that untrained models score (`probes.check_analyzer`); where a
    class names none, all fields that are estimates.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if "summary" in vars(cls):
            setattr(cls, "summary", _for_terminals(cls.summary))  # noqa: B010 - a method is assigned

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain JSON: Estimates and dataclasses as dicts, arrays as lists, NaN as None."""
        assert is_dataclass(self), f"{type(self).__name__} must be a dataclass"
        kept = {f.name: f.metadata.get("json", True) for f in fields(self)}
        return {
            name: to_json(getattr(self, name))
            for name, how in kept.items()
            if how is True or (how == "given" and getattr(self, name))
        }

    def summary(self) -> str:
        """A few lines of at most 80 columns for a terminal."""
        raise NotImplementedError

    def figure(self) -> "go.Figure":
        """The result as a plotly figure."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Summary and figure for a notebook. The plotly script (4.8 MB) travels along: no network needed."""
        from interp.plots.export import notebook_html

        return f"<pre>{html.escape(self.summary())}</pre>\n{notebook_html(self.figure())}"


def unread_seed(seed: int, *, read: bool) -> tuple[str, ...]:
    """What a result says of a seed that its analyzer did not need; nothing of the default, 0.

    Every analyzer takes a seed, so that one loop may pass it to all of them: a seed is not refused where nothing is
    drawn at random, but whoever gave one is told that another would have given the same numbers.
    """
    return () if read or seed == 0 else (f"seed={seed} changes nothing here: nothing was drawn at random",)


def _for_terminals(summary: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(summary)
    def shown(self: Any) -> str:
        return printable(summary(self), keep="\n")

    return shown


def to_json(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None; what is not finite becomes None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (Estimate, Result)):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(to_json(item) for item in value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json(value.tolist())
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
