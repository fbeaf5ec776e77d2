"""Progress bars: tqdm's on a terminal, plain lines now and then where standard error is a file or a pipe."""

import contextlib
import sys
from typing import Any

from tqdm import tqdm

EVERY = 15  # seconds between lines


def progress_bar(items: Any = None, **options: Any) -> Any:
    """As `tqdm(items, **options)`: an iterator, or with `total=` something to `update`."""
    if sys.stderr is None:
        return tqdm(items, **{**options, "disable": True})
    if sys.stderr.isatty():
        return tqdm(items, **{"mininterval": 0.5, "dynamic_ncols": True, **options})
    return _Lines(items, **{**options, "mininterval": EVERY, "delay": EVERY, "leave": False})


class _Lines(tqdm):
    """No carriage returns: a log keeps every line, so there are few, and none for work that is soon done."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        text = str(self) if msg is None else msg
        if text:  # tqdm clears its bar with an empty one
            with contextlib.suppress(OSError):  # whoever read the log has gone: no reason to end the work
                self.fp.write(f"{text}\n")
                self.fp.flush()

    def __str__(self) -> str:
        now = self.format_dict
        done, whole, unit = now["n"], now["total"], now["unit"]
        share = f"{done / whole:.0%}, " if whole else ""
        total = f" of {whole:g}" if whole else ""
        return f"{now['prefix'] or 'progress'}: {share}{done:g}{total} {unit}, {self.format_interval(now['elapsed'])}"

    def close(self) -> None:
        if not self.disable:
            self.disable = True
            # Of tqdm, and not in its stubs: takes this bar off its list.
            self._decr_instances(self)  # type: ignore[attr-defined]
