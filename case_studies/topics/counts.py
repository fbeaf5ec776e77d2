"""Attention of models without positions, by pairs of words, from the counts of words in documents of any length.

A position that shows word q attends to each position of word k with exp(s_qk) / sum_l n_l exp(s_ql), whatever their
places, so that the sums over pairs of positions are products of counts and need no pattern.
"""

import numpy as np
from numpy.typing import NDArray

from interp.grammars import TopicGrammar
from probes.topics import PairSums

DOCUMENTS = 500  # as many as the released code takes
REFERENCE_LENGTH = 100  # where attention is rescaled, to documents of so many positions (thesis L641)
LEAST = -60.0  # scores this far below the largest of a row are nothing in float64

Floats = NDArray[np.float64]


def whole_documents(grammar: TopicGrammar, seed: int = 0) -> Floats:
    """Counts [document, token] of held-out documents without masks, whole: those of `probes.topics.documents` uncut."""
    words = grammar.sample(DOCUMENTS, seed=seed, stream="topic-attention").words
    inside = words >= 0
    counts = np.zeros((len(words), grammar.vocab_size))
    np.add.at(counts, (np.nonzero(inside)[0], words[inside]), 1.0)
    return counts


def count_sums(scores: Floats, counts: Floats, rescaled: bool) -> PairSums:
    """Attention summed over pairs of positions, from `scores` [query, key] and `counts` [document, token].

    `rescaled`: each document counts as one of `REFERENCE_LENGTH` positions, so that even attention is 1 / 100 in all;
    else the weights stand as they are, and even attention is 1 / length.
    """
    weight = np.exp(np.maximum(scores - scores.max(1, keepdims=True), LEAST))  # [query, key], 1 at a row's largest
    total = counts @ weight.T  # [document, query]: what the weights of all positions sum to
    length = counts.sum(1, keepdims=True)
    share = counts / np.where(total > 0, total, 1.0)  # of each query's positions, a unit of weight
    if rescaled:
        share = share * length / REFERENCE_LENGTH
    return PairSums(
        weight * (share.T @ counts), counts.T @ counts, np.diagonal(weight) * share.sum(0), counts.sum(0)
    )  # fmt: skip
