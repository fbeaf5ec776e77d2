"""What can be said of heads in documents of topics."""

from typing import Any

import numpy as np

from interp.claims import Claims, Pairs, Relation, Tokens
from interp.errors import RequestError, quoted
from interp.worlds.topics.grammar import TopicGrammar


def _same_topic(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    if not hasattr(grammar, "topic_of"):
        raise RequestError(f"grammar={quoted(grammar)} has no topics: this relation needs a TopicGrammar")
    topic = np.asarray(grammar.topic_of)[tokens]
    return visible & (topic[:, :, None] == topic[:, None, :]) & (topic >= 0)[:, :, None]


def _inputs(grammar: TopicGrammar, count: int, length: int, seed: int, stream: str) -> Tokens:
    documents = grammar.sample(count, seed=seed, stream=stream)
    return np.asarray(documents.shown[:, : grammar.min_length])


CLAIMS = Claims(
    relations=(
        Relation(
            "same-topic",
            "tokens of the same topic",
            "mass",
            "topics",
            _same_topic,
            ("words of the same topic", "the same topic", "same topic"),
        ),
    ),
    inputs=_inputs,
    longest=lambda grammar, length: int(grammar.min_length),
    truth="topics of tokens",
)
