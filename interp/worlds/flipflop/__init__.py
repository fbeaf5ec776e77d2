"""Flip-flops: a bit that is written, kept through no-ops, and read (Liu et al. 2023, attention glitches)."""

from interp.worlds.flipflop.grammar import FlipFlopGrammar, TransductionGrammar

__all__ = ["FlipFlopGrammar", "TransductionGrammar"]
