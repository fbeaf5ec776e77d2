"""Grammars: exact laws, samplers and ground truth."""

from collections.abc import Mapping
from typing import Any

from interp.errors import GrammarError, quoted
from interp.grammars.brackets import BracketStrings
from interp.grammars.copying import CopyGrammar
from interp.grammars.dyck import DyckGrammar
from interp.grammars.topics import TopicGrammar
from interp.grammars.vocabulary import Vocabulary

__all__ = [
    "BracketStrings",
    "CopyGrammar",
    "DyckGrammar",
    "Grammar",
    "TopicGrammar",
    "Vocabulary",
    "grammar_from_dict",
]

Grammar = DyckGrammar | TopicGrammar | Vocabulary
_KINDS: Mapping[str, type[DyckGrammar] | type[TopicGrammar] | type[Vocabulary]] = {
    kind.KIND: kind for kind in (DyckGrammar, CopyGrammar, BracketStrings, TopicGrammar, Vocabulary)
}


def grammar_from_dict(data: dict[str, Any]) -> Grammar:
    """The grammar that `to_dict` described, by its kind. Raises `GrammarError` for an unknown one."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise GrammarError(f"no grammar of kind {quoted(kind)}; kinds are {', '.join(_KINDS)}")
    return _KINDS[kind].from_dict(data)
