"""Grammars: exact laws, samplers and ground truth. Each is a part of its world (`interp.worlds`); their names are here.

The names of the first worlds' grammars are written down, since they are imported from here; those of any other world
come from its own package.
"""

import importlib
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from interp.registry import grammar_from_dict
from interp.vocabulary import Ints, Vocabulary

if TYPE_CHECKING:
    from interp.worlds.brackets.grammar import BracketStrings
    from interp.worlds.copying.grammar import CopyGrammar
    from interp.worlds.dyck.grammar import DyckGrammar
    from interp.worlds.topics.grammar import TopicGrammar

__all__ = [
    "BracketStrings",
    "CopyGrammar",
    "DyckGrammar",
    "Grammar",
    "TopicGrammar",
    "Vocabulary",
    "grammar_from_dict",
]

_HOME = {
    "BracketStrings": "interp.worlds.brackets.grammar",
    "CopyGrammar": "interp.worlds.copying.grammar",
    "DyckGrammar": "interp.worlds.dyck.grammar",
    "TopicGrammar": "interp.worlds.topics.grammar",
}


class Grammar(Protocol):
    """What any grammar has: names of token ids, and a way from texts to ids and from itself to JSON and back."""

    KIND: ClassVar[str]

    @property
    def vocab(self) -> tuple[str, ...]:
        """The name of each token id."""

    @property
    def vocab_size(self) -> int:
        """How many token ids there are."""

    def to_tokens(self, texts: Any) -> Ints:
        """Model inputs [batch, longest] of texts."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready description; `grammar_from_dict` inverts it."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'interp.grammars' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
