"""Every error this project raises on purpose.

One tree under `InterpError`. A message is one line that quotes what was given and says what
would be right. `exit_code` is what the command line returns for it: 2 when the request was
wrong, 1 when the work itself failed.
"""

from typing import Any

from interp.names import printable


def quoted(thing: Any) -> str:
    """`thing` as a message quotes it: its repr on one line, the middle cut out when it is long."""
    if isinstance(thing, str):
        return repr(thing) if len(thing) <= 60 else repr(thing[:40] + "..." + thing[-15:])
    try:
        text = " ".join(repr(thing).split())
    except Exception as error:  # a number of more digits than Python writes, or a repr of other people's that fails
        text = f"(of type {type(thing).__name__}, cannot be written: {type(error).__name__})"
    return text if len(text) <= 60 else text[:40] + "..." + text[-15:]


class InterpError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 2

    def __str__(self) -> str:
        """The message on one line, with nothing in it that would steer a terminal."""
        return printable(" ".join(super().__str__().splitlines()))

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show: the message, and none of our frames above it."""
        return [f"{type(self).__name__}: {self}"]


class RequestError(InterpError):
    """An argument, option or combination of options that cannot be honoured."""


class PlaceError(RequestError, IndexError):
    """A place in a sequence that it does not have: Python's own protocol of sequences ends at an `IndexError`."""


class GrammarError(InterpError):
    """A grammar, a text or a token array that breaks the grammar's rules."""


class ConfigError(InterpError):
    """A model or training configuration that does not describe a buildable model."""


class WorldError(InterpError):
    """A world that breaks the shape of worlds, or that cannot be loaded."""


class CheckpointError(InterpError):
    """A checkpoint that is missing, damaged, edited or not ours."""


class PatternError(InterpError):
    """Attention patterns that are not square, not normalised or not finite."""


class AnalysisError(InterpError):
    """An analyzer was given a model on which its number has no meaning."""


class AnalyzerError(InterpError):
    """An analyzer that does not keep what analyzers promise."""


class OutputError(InterpError):
    """A path that cannot be written, refused before the work."""


class WriteError(OutputError):
    """A write that failed while the work went on: the disk is full, the folder was removed, and the like."""

    exit_code = 1


class WorkerError(InterpError):
    """A process that did a part of the work died."""

    exit_code = 1


class TrainingError(InterpError):
    """Training failed: it diverged, or a worker died."""

    exit_code = 1


class ExportError(InterpError):
    """A picture could not be rendered: no browser, or the exporter failed."""

    exit_code = 1
