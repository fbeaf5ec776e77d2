"""Bounded Dyck languages: strings of k types of brackets, nested at most D deep."""

from interp.worlds.dyck.grammar import DyckGrammar

__all__ = ["DyckGrammar"]
