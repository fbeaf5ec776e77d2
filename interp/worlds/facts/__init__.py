"""Facts: which answer belongs to the subject and the relation that stand somewhere among noise?"""

from interp.worlds.facts.grammar import FactsGrammar

__all__ = ["FactsGrammar"]
