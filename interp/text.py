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


def entry(name: str, text: str, column: int = 23) -> list[str]:
    """A name and what is said of it from `column` on, as lines of at most `WIDTH` columns."""
    first, text = f"  {printable(name)}", printable(text)
    lines = textwrap.wrap(text, WIDTH - column, break_on_hyphens=False) or [""]
    if len(first) < column:
        return [f"{first:<{column}}{lines[0]}", *(" " * column + line for line in lines[1:])]
    return [first, *(" " * column + line for line in lines)]


def folded(line: str) -> list[str]:
    """One line as lines of at most `WIDTH` columns."""
    if len(line) <= WIDTH:
        return [line]
    inner = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=inner, drop_whitespace=True)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """ "1 model", "2 models"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def ordinal(number: int) -> str:
    """ "1st", "2nd", "11th", "21st"."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"
