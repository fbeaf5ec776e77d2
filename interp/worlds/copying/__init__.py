"""Copying: the strings of `interp.worlds.dyck`, and each bracket is to be repeated where it stands."""

from interp.worlds.copying.grammar import CopyGrammar

__all__ = ["CopyGrammar"]
