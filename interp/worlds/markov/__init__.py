"""In-context Markov chains: a kernel is drawn for every string; order 1 and k, and causal graphs of one's choice."""

from interp.worlds.markov.grammar import MarkovGrammar, OrderGrammar
from interp.worlds.markov.graph import CausalGraphGrammar

__all__ = ["CausalGraphGrammar", "MarkovGrammar", "OrderGrammar"]
