"""Recall: what followed the last earlier copy of the current token? The task that an induction head is for."""

from interp.worlds.recall.grammar import RecallGrammar

__all__ = ["RecallGrammar"]
