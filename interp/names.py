"""Names that others chose: whether one stands twice, and how it is shown on a terminal."""

import unicodedata
from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def first_duplicate(items: Iterable[T]) -> T | None:
    """The first of `items` that stood before, None without; in one pass, however many they are."""
    seen: set[T] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def printable(text: str, keep: str = "") -> str:
    """`text` with what would steer a terminal, rather than be shown on it, written as Python escapes.

    That is control and format characters (colours, cursors, the direction of writing), line separators and what is no
    character at all. `keep`: characters that stay, such as the ends of lines.
    """
    if text.isprintable():  # nearly always
        return text
    return "".join(ch if ch in keep or _is_shown(ch) else ch.encode("unicode_escape").decode() for ch in text)


def _is_shown(ch: str) -> bool:
    return ch.isprintable() or unicodedata.category(ch) == "Zs"  # blanks of any width are harmless
