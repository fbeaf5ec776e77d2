"""`metrics.jsonl`: what a run measures, a line per seed and evaluated step, as it goes.

The file lies in the run's folder. Lines are appended whole, by several processes, after the state that they belong to
has been written: whatever is killed when, no step stands twice, and what is missing is added on resuming. The finished
checkpoint holds the same rows.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from interp.errors import InterpError, TrainingError, WriteError

METRICS_FILE = "metrics.jsonl"
Row = dict[str, Any]
Callback = Callable[[list[Row]], Any]


class Metrics:
    """The lines of some seeds: each row is appended once."""

    def __init__(self, folder: Path, seeds: Sequence[int]):
        self._path = folder / METRICS_FILE
        mine = set(seeds)
        self._there = {_key(row) for row in read_rows(self._path) if row["seed"] in mine}

    def add(self, rows: Iterable[Row]) -> None:
        """Append those rows that are not there. Raises `WriteError`."""
        new = [row for row in rows if _key(row) not in self._there]
        if not new:
            return
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in new)
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, text.encode())  # in one: other processes append too
            finally:
                os.close(handle)
        except OSError as error:
            raise WriteError(f"cannot write {str(self._path)!r}: {error.strerror or error}") from error
        self._there |= {_key(row) for row in new}


class Watch:
    """Gives a callback the rows that are appended from now on, when it is asked to."""

    def __init__(self, folder: Path, callback: Callback | None):
        self._path, self._callback = folder / METRICS_FILE, callback
        _mend(self._path)
        self._at = self._path.stat().st_size if self._path.exists() else 0

    def __call__(self) -> None:
        """Look for new rows. What the callback raises is a `TrainingError` if it is none of ours."""
        if self._callback is None or not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        rows = list(_rows(whole))
        if not rows:
            return
        try:
            self._callback(rows)
        except InterpError:
            raise
        except Exception as error:
            raise TrainingError(
                f"the callback failed with {type(error).__name__}: {error}; what was done so far is kept"
            ) from error


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, each (seed, step) once; none where there is no file. Lines that are no rows are left out."""
    try:
        text = path.read_bytes()
    except OSError:
        return []
    return list({_key(row): row for row in _rows(text)}.values())


def _rows(text: bytes) -> Iterable[Row]:
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and all(type(row.get(name)) is int for name in ("seed", "step")):
                yield row


def _key(row: Row) -> tuple[int, int]:
    return row["seed"], row["step"]


def _mend(path: Path) -> None:
    """Cut off a last line that was not written to its end: the next would be glued to it. Nobody appends yet."""
    with contextlib.suppress(OSError):
        text = path.read_bytes()
        if text and not text.endswith(b"\n"):
            os.truncate(path, text.rfind(b"\n") + 1)
