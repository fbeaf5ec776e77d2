"""What topic models are usually shown. Imports no torch."""

from interp.worlds.topics.grammar import Ints, TopicGrammar


def documents(grammar: TopicGrammar, count: int, seed: int, stream: str) -> Ints:
    """Documents without masks, cut to one length [document, min_length]."""
    return grammar.sample(count, seed=seed, stream=stream).words[:, : grammar.min_length]
