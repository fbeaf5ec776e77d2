"""An instance with a law worth checking: every token is labelled, and two laws are mixed."""

from interp.worlds.flipflop.grammar import FlipFlopGrammar


def generative() -> FlipFlopGrammar:
    """FFL(8, p) in generative mode, a mixture of p_i = .5 and .1, with more writes than reads."""
    return FlipFlopGrammar(length=8, ignore=(0.5, 0.1), writes=0.7, mode="generative")
