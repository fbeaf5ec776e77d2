"""Words and their topics, and the types that all modules of the topic blocks share."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interp.errors import AnalysisError, RequestError
from interp.numeric_arrays import id_array

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["value", "embedding", "attention"]

MEMORY = 2**22  # float64 numbers held at once: 32 MB


@dataclass(frozen=True)
class Words:
    """`kept` [n]: rows that take part; `topic` [w] of those, 0.., or None; `all_labels` [n] as given."""

    kept: NDArray[np.bool_]
    topic: Ints | None
    all_labels: Ints | None

    @property
    def sizes(self) -> Ints:
        """Words of each topic."""
        assert self.topic is not None
        return np.bincount(self.topic).astype(np.int64)

    def peers(self) -> Array:
        """m: how many other words share the topic of each word, [w]."""
        return (self.sizes[self.topic] - 1).astype(np.float64)


def words_of(labels: Any, grammar: Any, size: int) -> Words:
    """Topics from `labels` or else the grammar, checked against a matrix of `size` rows."""
    where = "labels"
    if labels is None and grammar is not None:
        where = f"the grammar's topics ({type(grammar).__name__})"
        labels = _grammar_labels(grammar)
    if labels is None:
        if size < 3:
            raise AnalysisError(f"topic blocks: a matrix of {size} rows has no structure to speak of: 3 at least")
        return Words(np.ones(size, dtype=bool), None, None)
    given = id_array(labels, f"topic blocks: {where}, which are to be one whole number a row,", RequestError)
    if given.ndim != 1:
        raise RequestError(f"topic blocks: labels of shape {list(given.shape)} are not one whole number a row")
    if len(given) != size:
        raise RequestError(
            f"topic blocks: {where} cover {len(given)} tokens, the matrix has {size} rows: one topic a row is needed, "
            "-1 for special tokens"
        )
    all_labels = given
    kept = all_labels >= 0
    names, topic = np.unique(all_labels[kept], return_inverse=True)
    if len(names) < 2:
        only = f"one topic ({names[0]})" if len(names) else "no topic"
        raise AnalysisError(f"topic blocks: labels name {only}, and at least two are needed to compare")
    sizes = np.bincount(topic)
    if (sizes < 2).any():
        lone = int(names[sizes.argmin()])
        raise AnalysisError(
            f"topic blocks: topic {lone} has one word and hence no same-topic pair: give it another, or label it -1"
        )
    return Words(kept, topic.astype(np.int64), all_labels)


def _grammar_labels(grammar: Any) -> Any:
    if hasattr(grammar, "topic_of"):
        return grammar.topic_of
    if hasattr(grammar, "num_topics") and hasattr(grammar, "words_per_topic"):
        return np.concatenate([[-1], np.repeat(np.arange(grammar.num_topics), grammar.words_per_topic)])
    raise AnalysisError(f"topic blocks: {type(grammar).__name__} has no topics: pass labels=, one topic a token")
