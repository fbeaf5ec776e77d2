"""Topic models: documents whose words come from a few of T disjoint topics, masked for prediction."""

from interp.worlds.topics.grammar import TopicGrammar

__all__ = ["TopicGrammar"]
