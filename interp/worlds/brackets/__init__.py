"""Any strings of brackets, balanced or not, as other people's classifiers read them. Nothing is trained on it here."""

from interp.worlds.brackets.grammar import BracketStrings

__all__ = ["BracketStrings"]
