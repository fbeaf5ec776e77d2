"""`BracketStrings`: any string of brackets, as a classifier of balanced ones reads it, in its own spelling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.errors import GrammarError, quoted
from interp.vocabulary import checked_names, cut, padded, special_meaning
from interp.worlds.dyck import law
from interp.worlds.dyck.grammar import DyckGrammar
from interp.worlds.dyck.law import Ints


@dataclass(frozen=True)
class BracketStrings(DyckGrammar):
    """A `DyckGrammar` that takes strings it would not produce: a classifier's inputs need not be balanced.

    Ground truth holds up to the first bracket that breaks a string (closes nothing, closes another type, or goes over
    `max_depth`): from there on there is no stack, so no partner, no stack top and no unmatched open bracket. Depth goes
    on counting opening brackets less closing ones. `names`: how each id is spelled. `append_end`: a text gets END
    after it.

    Raises `GrammarError` for numbers and `names` that make no grammar; methods for texts that are no brackets.
    """

    KIND: ClassVar[str] = "brackets"

    names: tuple[str, ...] = ()
    append_end: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", checked_names(self.names or DyckGrammar(self.num_types).vocab))
        if len(self.names) != self.vocab_size or not isinstance(self.append_end, bool):
            raise GrammarError(
                f"names={quoted(list(self.names))}, append_end={quoted(self.append_end)}: {self.vocab_size} names of "
                "tokens and "
                "True or False are needed"
            )

    def read(self, text: str) -> list[int]:
        """Ids of one text: START, the brackets, and END if texts get it; special tokens may be written out."""
        if not isinstance(text, str):
            raise GrammarError(f"{quoted(text)} is not a text of brackets: give a str such as '(()'")
        ids = cut(text, self.token_ids)
        ids = ids if ids[:1] == [self.start] else [self.start, *ids]
        return [*ids, self.end] if self.append_end and ids[-1] != self.end else ids

    def to_tokens(self, texts: str | Sequence[Any] | NDArray[np.integer]) -> Ints:
        """Model inputs int64 [batch, longest]: START, the brackets, END after texts if they get it, PAD.

        texts: as in `DyckGrammar`; ids are brackets and nothing is put after them.
        """
        if isinstance(texts, str):
            return padded([self.read(texts)], self.pad)
        if not isinstance(texts, np.ndarray) and all(isinstance(text, str) for text in texts):
            return padded([self.read(text) for text in texts], self.pad)
        return super().to_tokens(texts)

    def _structure(self, tokens: ArrayLike) -> law.Structure:
        found = law.structure(self._ids(tokens), self.num_types, self.max_depth)
        broken = np.logical_or.accumulate(found.bad, axis=-1)
        whole = (~broken).sum(-1, keepdims=True)  # how many tokens stand before the first that breaks the string
        partner = np.where(broken | (found.partner >= whole), -1, found.partner)
        top = np.where(broken, -1, found.top)
        return found._replace(partner=partner, top=top, bad=np.zeros_like(broken))

    def unmatched(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """As in `DyckGrammar`, and none from the first bracket on that breaks the string."""
        array = self._ids(tokens)
        self._check_pairs(array)
        found = law.structure(array, self.num_types, self.max_depth)
        whole = ~np.logical_or.accumulate(found.bad, axis=-1)
        open_keys = np.zeros((*array.shape, array.shape[-1]), dtype=bool)
        opener = (array < self.start) & (array % 2 == 0)
        for level in range(1, int(found.depth[whole].max(initial=0)) + 1):
            latest = law.last_opener(opener & (found.depth == level))
            place = np.nonzero(whole & (found.depth >= level))
            open_keys[(*place, latest[place])] = True
        return open_keys

    def _name(self, token: int) -> str:
        return self.names[int(token)] if self.names else super()._name(token)


PAIRS = ("()", "[]", "{}", "<>")


def bracket_ids(names: Sequence[str]) -> tuple[list[int | None], list[str]] | None:
    """A vocabulary of brackets as a grammar orders it, or None for any other.

    (for each id of the grammar the id in `names`, None for an END or PAD that is not there; the pairs in order).
    It is one of brackets if it holds whole pairs and START, and nothing else but END and PAD.
    """
    meanings: dict[str, int] = {}
    for i, name in enumerate(names):
        meaning = special_meaning(name)
        if meaning is not None:
            if meaning in meanings:
                return None
            meanings[meaning] = i
    pairs = [pair for pair in PAIRS if pair[0] in names and pair[1] in names]
    if not pairs or "start" not in meanings or 2 * len(pairs) + len(meanings) != len(names):
        return None
    brackets = [names.index(bracket) for pair in pairs for bracket in pair]
    return [*brackets, meanings["start"], meanings.get("end"), meanings.get("pad")], pairs
