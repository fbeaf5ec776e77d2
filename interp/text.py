"""Lines for a terminal."""

import textwrap
from collections.abc import Iterable

from interp.names import printable

WIDTH = 80


def fold(lines: Iterable[str]) -> str:
    """The lines as one text; those longer than `WIDTH` columns go on below, further in.

    Names in them may come from anybody's file: what would steer the terminal is written out.
    """
    return "\n".join(part for line in lines for part in folded(printable(line)))


def folded(line: str) -> list[str]:
    """One line as lines of at most `WIDTH` columns."""
    if len(line) <= WIDTH:
        return [line]
    inner = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=inner, drop_whitespace=True)
