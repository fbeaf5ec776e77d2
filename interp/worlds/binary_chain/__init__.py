"""A fixed binary first-order Markov chain: its law, the landscape of one-layer models of it, and a reduced flow."""

from interp.worlds.binary_chain.grammar import BinaryChain

__all__ = ["BinaryChain"]
