"""`Result`: what every analyzer returns has in common."""

import html
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from interp.guests import longest_input
from interp.names import printable
from interp.stats import Estimate
from interp.text import counted
from probes.core.files import save
from probes.core.frames import estimate_rows, frame, table_rows
from probes.core.origin import Origin
from probes.core.plain import to_json

if TYPE_CHECKING:
    import plotly.graph_objects as go

LONGEST = 160  # characters that a repr tells


class Result:
    """Base of the frozen dataclasses that analyzers return.

    A subclass writes `summary()` and `figure()`; in every summary what would steer a terminal is written out, since
    names and claims come from anybody's files. Fields whose metadata say `json=False` (arrays kept
    for the picture, say) stay out of `to_dict()`; those that say `json="given"` do where they are empty.

    - `HEADLINES`: the fields whose estimates have a null that untrained models score (`probes.check_analyzer`); where a
      class names none, all fields that are estimates.
    - `TABLE`: the field that `to_frame` shows, a row per entry; where a class names none, all estimates.
    - `origin`: by which call, of which models, it was computed; None where it was not recorded
      (`probes.core.recorded`). No part of the value: `dataclasses.replace` gives a result that does not say so.

    Raises, in its methods, `OutputError` where a file cannot be written and `RequestError` where pandas is missing.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ()
    TABLE: ClassVar[str] = ""
    origin: ClassVar[Origin | None] = None

    def __init_subclass__(cls) -> None:
        if "summary" in vars(cls):
            setattr(cls, "summary", _for_terminals(cls.summary))  # noqa: B010 - a method is assigned
        if "figure" in vars(cls):
            setattr(cls, "figure", _for_notebooks(cls.figure))  # noqa: B010
        if "__repr__" not in vars(cls):  # else the dataclass would write one of all fields
            setattr(cls, "__repr__", Result.__repr__)  # noqa: B010

    def __repr__(self) -> str:
        """One line: what it is and its first numbers."""
        return _line(self)

    def save(self, path: str | Path) -> Path:
        """Write it with all that it was computed from: `load_result` gives it back, `interp replay` computes it again.

        Raises `OutputError` for a path that cannot be written.
        """
        return save(self, path)

    def to_frame(self) -> Any:
        """Its table as a pandas `DataFrame`: a row per estimate, or an entry of the field that the class shows.

        Raises `RequestError` where pandas is not installed.
        """
        told = self.to_dict()
        return frame(table_rows(to_json(getattr(self, self.TABLE))) if self.TABLE else estimate_rows(told))

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

    def _ipython_display_(self) -> None:
        """Summary and figure in a notebook, which holds the plotly script once; in a terminal the summary."""
        from interp.plots import notebook

        if notebook.in_notebook():
            notebook.show_result(self.summary(), self.figure())
        else:
            print(self.summary())

    def _repr_html_(self) -> str:
        """Summary and figure for any page. The plotly script (4.8 MB) travels along: no network needed."""
        from interp.plots.export import notebook_html

        return f"<pre>{html.escape(self.summary())}</pre>\n{notebook_html(self.figure())}"


def _line(result: Result) -> str:
    """The first line of the summary, and the headlines; of a result without such the next line."""
    name = type(result).__name__
    try:
        lines = [" ".join(line.split()) for line in result.summary().split("\n") if line.strip()]
        shown = [f"{field} {e}" for field in result.HEADLINES for e in _first(getattr(result, field))]
    except Exception:  # half-made, or a summary of other people's that fails
        return f"<{name}>"
    text = "; ".join([*lines[:1], ", ".join(shown[:2]) or " ".join(lines[1:2])])
    text = printable(text.rstrip("; "))
    return f"<{name}: {text if len(text) <= LONGEST else text[: LONGEST - 4] + ' ...'}>"


def _first(value: Any) -> list[Estimate]:
    """The first estimate in a field, however deep."""
    while isinstance(value, (tuple, list, dict)) and value:
        value = next(iter(value.values() if isinstance(value, dict) else value))
    return [value] if isinstance(value, Estimate) else []


def unread_seed(seed: int, *, read: bool) -> tuple[str, ...]:
    """What a result says of a seed that its analyzer did not need; nothing of the default, 0.

    Every analyzer takes a seed, so that one loop may pass it to all of them: a seed is not refused where nothing is
    drawn at random, but whoever gave one is told that another would have given the same numbers.
    """
    return () if read or seed == 0 else (f"seed={seed} changes nothing here: nothing was drawn at random",)


def cut_short(length: int, usual: int, unit: str, model: Any) -> tuple[str, ...]:
    """What a result says of strings that nobody gave a length and that are shorter than usual, as the model needs."""
    if length == usual:
        return ()
    return (f"strings of {counted(length, unit)}, not {usual}: the model takes {longest_input(model)} tokens at most",)


def _for_notebooks(figure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A figure that a notebook shows like all of ours: with one script for all."""

    @wraps(figure)
    def drawn(self: Any) -> Any:
        import plotly.graph_objects as go

        from interp.plots.compact import CompactFigure

        fig = figure(self)
        return CompactFigure(fig) if type(fig) is go.Figure else fig

    return drawn


def _for_terminals(summary: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(summary)
    def shown(self: Any) -> str:
        return printable(summary(self), keep="\n")

    return shown
