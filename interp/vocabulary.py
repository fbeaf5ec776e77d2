"""`Vocabulary`: the tokens of a model whose language is not one of ours. No law, no ground truth; just names of ids."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.checks import make_plain
from interp.errors import GrammarError, quoted
from interp.limits import check_memory
from interp.names import first_duplicate, printable

Ints = NDArray[np.int64]

# What special tokens are usually called, signs around the word taken off and case ignored.
_SPECIALS = {
    "start": ("start", "bos", "s", "cls", "beginoftext"),
    "end": ("end", "eos", "/s", "sep", "endoftext"),
    "pad": ("pad", "padding"),
}
_NO_TASKS = ("unk", "unknown", "mask")  # what tokenizers have besides, and no language needs
_MEANING = {word: meaning for meaning, words in _SPECIALS.items() for word in words}
_BORROWED = ("[CLS]", "[SEP]")  # a model that has them calls them so: no other names of START and END
_AROUND = (("[", "]"), ("<|", "|>"), ("<", ">"), ("{", "}"))


def special_meaning(token: str) -> str | None:
    """ "start", "end" or "pad" for what is usually called so ([start], <s>, BOS, [PAD], ...), None for others."""
    return _MEANING.get(_bare(token))


def needed_nowhere(token: str) -> bool:
    """Whether it is usually called so that no language needs it: a tokenizer's unknown or masked token."""
    return _bare(token) in _NO_TASKS


def _bare(token: str) -> str:
    """The word within the signs of a special token, "" for a token that is none: "end" may be a word like others."""
    bare = token.strip().lower()
    for left, right in _AROUND:
        if bare.startswith(left) and bare.endswith(right) and len(bare) > len(left + right):
            return bare[len(left) : -len(right)]
    return bare if token.strip().isupper() and len(bare) > 2 else ""


def find_token(grammar: Any, text: str) -> int | None:
    """Id of a token by its name, or by a usual name of START, END or PAD where the grammar has such; None without."""
    ids: dict[str, int] | None = getattr(grammar, "token_ids", None)
    if ids is None:
        ids = {name: i for i, name in reversed(list(enumerate(getattr(grammar, "vocab", ()))))}
    if text in ids:
        return ids[text]
    meaning = None if text in _BORROWED else special_meaning(text)
    found = None if meaning is None else getattr(grammar, meaning, None)
    return None if found is None else int(found)


def cut(text: str, ids: dict[str, int], longest: int | None = None) -> list[int]:
    """Ids of a text, at every place the longest token that fits; blanks between tokens are skipped.

    Raises `GrammarError` with the place (from 0) where no token fits.
    """
    longest = max(map(len, ids), default=0) if longest is None else longest
    out: list[int] = []
    at = 0
    while at < len(text):
        for size in range(min(longest, len(text) - at), 0, -1):
            if (found := ids.get(text[at : at + size])) is not None:
                out.append(found)
                at += size
                break
        else:
            if not text[at].isspace():
                known, rest = " ".join(list(ids)[:8]), text[at:].split(maxsplit=1)[0][:12]
                raise GrammarError(
                    f"text {text[:60]!r} position {at}: no token fits {quoted(rest)}{_within(text, at)}; the "
                    f"first tokens of the vocabulary are {known}"
                )
            at += 1
    return out


def _within(text: str, at: int) -> str:
    """Where a word begins with tokens and goes on otherwise ("s99"): the word."""
    word = text[:at].rsplit(maxsplit=1)[-1:] if at and not text[at - 1].isspace() else []
    whole = word[0] + text[at:].split(maxsplit=1)[0] if word else ""
    return f" of {whole[:12]!r}" if whole and whole != text.strip() else ""


def texts_of(texts: Any, example: str) -> list[str]:
    """One text or a list of them, as a list. Raises `GrammarError`, which shows an `example`, for anything else."""
    given = [texts] if isinstance(texts, str) else texts
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(text, str) for text in given):
        raise GrammarError(f"{quoted(texts)} is neither a text nor a list of texts, such as {quoted(example)}")
    return list(given)


def padded(rows: Sequence[Sequence[int]], pad: int | None) -> Ints:
    """Rows of ids [batch, longest], PAD on the right. Raises `GrammarError` where that is needed and there is none."""
    longest = max(map(len, rows), default=0)
    if rows and not longest:
        raise GrammarError("a text without tokens: '' says nothing, give one token at least")
    if pad is None and any(len(row) != longest for row in rows):
        short = next(i for i, row in enumerate(rows) if len(row) != longest)
        raise GrammarError(
            f"text {short} has {len(rows[short])} tokens and the longest {longest}: there is no padding token, so "
            "texts must be of one length (or say pad_token in the model's config)"
        )
    what = f"token ids of {len(rows):,} texts, {longest:,} tokens the longest,"
    check_memory(what, 24 * len(rows) * longest, "take fewer or shorter ones", GrammarError)
    return np.array([[*row, *[pad or 0] * (longest - len(row))] for row in rows], dtype=np.int64).reshape(-1, longest)


@dataclass(frozen=True)
class Vocabulary:
    """`names`: the text of each token id. `start`, `end`, `pad`: ids of special tokens, None without.

    Default ids of special tokens: those whose names are the usual ones. A text gets START first if there is one,
    unless `prepend_start` is False: then it stands where a text writes it.
    """

    KIND: ClassVar[str] = "vocabulary"

    names: tuple[str, ...]
    start: int | None = None
    end: int | None = None
    pad: int | None = None
    prepend_start: bool = True

    def __post_init__(self) -> None:
        make_plain(self)
        object.__setattr__(self, "names", checked_names(self.names))
        for name in ("start", "end", "pad"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(self.names)
            ):
                raise GrammarError(f"{name}={quoted(value)} is not an id of a vocabulary of {len(self.names)} tokens")
        if not isinstance(self.prepend_start, bool):
            raise GrammarError(f"prepend_start={quoted(self.prepend_start)} is neither True nor False")

    @classmethod
    def of(cls, names: Sequence[str]) -> "Vocabulary":
        """With the special tokens that have usual names; none where two tokens would fit."""
        names = checked_names(names)
        meanings = [special_meaning(name) for name in names]
        once = {m: meanings.index(m) for m in ("start", "end", "pad") if meanings.count(m) == 1}
        return cls(names, once.get("start"), once.get("end"), once.get("pad"))

    @property
    def vocab(self) -> tuple[str, ...]:
        return self.names

    @property
    def vocab_size(self) -> int:
        return len(self.names)

    @property
    def has_start(self) -> bool:
        """Whether a text gets START first."""
        return self.start is not None and self.prepend_start

    @cached_property
    def token_ids(self) -> dict[str, int]:
        """Id of each token by its name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.names))

    def read(self, text: str) -> list[int]:
        """Ids of one text, START first if there is one. Longest token first, blanks between tokens skipped."""
        if not isinstance(text, str):
            raise GrammarError(f"{quoted(text)} is not a text: give a str")
        ids = cut(text, self.token_ids, self._longest)
        if self.start is None or not self.prepend_start or ids[:1] == [self.start]:
            return ids
        return [self.start, *ids]

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """Model inputs [batch, longest], PAD on the right."""
        return padded([self.read(text) for text in ([texts] if isinstance(texts, str) else texts)], self.pad)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready description; `from_dict` inverts it."""
        special: dict[str, Any] = {"start": self.start, "end": self.end, "pad": self.pad}
        if not self.prepend_start:  # added later: at its default no old checkpoint's bytes change
            special["prepend_start"] = False
        return {"kind": self.KIND, "names": list(self.names), **special}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Vocabulary":
        """The vocabulary `to_dict` described. Raises `GrammarError` unless exactly its keys are there."""
        expected = {"kind", *(field.name for field in fields(cls))}
        if set(data) | {"prepend_start"} != expected:
            raise GrammarError(f"keys {sorted(data)} describe no vocabulary: {sorted(expected)} do")
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    def __repr__(self) -> str:
        shown = printable(" ".join(name if len(name) <= 20 else f"{name[:20]}..." for name in self.names[:8]))
        return f"Vocabulary of {len(self.names)}: {shown}{' ...' if len(self.names) > 8 else ''}"


def checked_names(names: Any) -> tuple[str, ...]:
    """The names of ids as a tuple. Raises `GrammarError` unless they are distinct texts."""
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) and n for n in names):
        raise GrammarError(f"vocabulary {quoted(names)} is not a list of strings, none of them empty")
    if (twice := first_duplicate(names)) is not None:
        raise GrammarError(f"vocabulary names {quoted(twice)} twice: each token id has a name of its own")
    return tuple(names)
