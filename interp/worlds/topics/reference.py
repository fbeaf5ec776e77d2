"""What is true in documents of topics, read off the names of words: t3w1 is of topic 3."""

from interp.world import Reference, Row
from interp.worlds.topics.grammar import TopicGrammar


def _topics(row: Row, grammar: TopicGrammar) -> list[int]:
    """The topic of each word, -1 for [MASK]."""
    names = [grammar.vocab[token] for token in row]
    return [int(name[1:].split("w")[0]) if name.startswith("t") else -1 for name in names]


def _same_topic(row: Row, grammar: TopicGrammar) -> list[set[int]]:
    topics = _topics(row, grammar)
    return [{key for key, other in enumerate(topics) if here == other >= 0} for here in topics]


REFERENCE = Reference(keys={"same-topic": _same_topic}, overlays={"topic_blocks": _topics})
