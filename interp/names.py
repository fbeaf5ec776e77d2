"""Names that others chose: whether one stands twice, which known one is meant, and how one is shown on a terminal."""

import difflib
import unicodedata
from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
LONGEST = 200  # characters of a name that are compared: the time grows with the product of the lengths


def first_duplicate(items: Iterable[T]) -> T | None:
    """The first of `items` that stood before, None without; in one pass, however many they are."""
    seen: set[T] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def nearest_names(word: object, known: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Those of `known` that are most like `word`, at most so many, the nearest first; none where `word` is no text.

    `cutoff`: the least likeness [0, 1] that counts, by `difflib`'s ratio.
    """
    if not isinstance(word, str):
        return []
    return difflib.get_close_matches(word[:LONGEST], list(known), n=most, cutoff=cutoff)


def nearest_name(word: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that is most like `word`; None where none is alike enough. See `nearest_names`."""
    return next(iter(nearest_names(word, known, 1, cutoff)), None)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The text " (did you mean 'x'?)" with the nearest name, for a message behind the wrong one; "" where none is."""
    near = nearest_name(word, known)
    return "" if near is None else f" (did you mean {near!r}?)"


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
