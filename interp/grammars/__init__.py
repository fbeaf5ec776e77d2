"""Grammars: exact laws, samplers and ground truth."""

from interp.grammars.dyck import DyckGrammar

__all__ = ["DyckGrammar"]
