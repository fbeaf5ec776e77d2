"""Grammars: exact laws, samplers and ground truth."""

from typing import Any

from interp.errors import GrammarError
from interp.grammars.copying import CopyGrammar
from interp.grammars.dyck import DyckGrammar

__all__ = ["CopyGrammar", "DyckGrammar", "grammar_from_dict"]

_KINDS: dict[str, type[DyckGrammar]] = {kind.KIND: kind for kind in (DyckGrammar, CopyGrammar)}


def grammar_from_dict(data: dict[str, Any]) -> DyckGrammar:
    """The grammar that `to_dict` described, by its kind. Raises `GrammarError` for an unknown one."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in _KINDS:
        raise GrammarError(f"no grammar of kind {kind!r}; kinds are {', '.join(_KINDS)}")
    return _KINDS[kind].from_dict(data)
