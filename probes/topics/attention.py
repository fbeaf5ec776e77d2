"""Average attention by pairs of words, and by how the two words are related."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import index_of
from interp.errors import AnalysisError
from interp.guests import read_tokens, refuse_padding
from interp.stats import POSITIVE, Estimate
from probes.core import mean_over_seeds
from probes.topics.words import MEMORY, Array, Ints, Words

DOCUMENTS = 500  # of attention averages: as many as the papers' code takes, and cut as there
REFERENCE_LENGTH = 100  # attention is rescaled to documents of this length (thesis L641)


@dataclass(frozen=True)
class PairSums:
    """Attention summed over pairs of positions by (query token, key token): `sums`, `counts` [n, n].

    `own_sums`, `own_counts` [n]: the part of the diagonal where a position attends to itself.
    """

    sums: NDArray[Any]
    counts: NDArray[Any]
    own_sums: NDArray[Any]
    own_counts: NDArray[Any]

    def __add__(self, other: "PairSums") -> "PairSums":
        return PairSums(
            self.sums + other.sums,
            self.counts + other.counts,
            self.own_sums + other.own_sums,
            self.own_counts + other.own_counts,
        )

    def means(self) -> Array:
        """Mean weight [query token, key token]; a pair never seen gets the mean of its row, a token never seen 0."""
        seen = self.counts > 0
        out = np.divide(self.sums, self.counts, out=np.zeros_like(self.sums), where=seen)
        rows = out.sum(1) / np.maximum(seen.sum(1), 1)
        return np.asarray(np.where(seen, out, rows[:, None]))


def pair_sums(patterns: Array, tokens: Ints, size: int) -> PairSums:
    """`patterns` [batch, head, query, key] and `tokens` [batch, pos] (below 0: padding) by pair of tokens.

    Heads are averaged. A document of N positions counts N / 100 times its weights, so that even attention is 1 / 100 in
    each (thesis L641); otherwise short documents, which hold fewer topics, would raise same-topic means.
    """
    real = tokens >= 0
    length = real.sum(1)
    weights = patterns.mean(1) * (length / REFERENCE_LENGTH)[:, None, None]
    both = real[:, :, None] & real[:, None, :]
    flat = (tokens[:, :, None] * size + tokens[:, None, :])[both]
    own = np.diagonal(weights, axis1=1, axis2=2)[real]
    return PairSums(
        np.bincount(flat, weights[both], size * size).reshape(size, size),
        np.bincount(flat, minlength=size * size).reshape(size, size).astype(float),
        np.bincount(tokens[real], own, size),
        np.bincount(tokens[real], minlength=size).astype(float),
    )


def attention_sums(model: Any, tokens: Ints, layer: int, head: int | None) -> PairSums:
    """A model's attention on `tokens` [batch, pos], summed by pairs of words."""
    import torch

    from interp.patterns import attention_patterns

    cfg = model.cfg
    layer = index_of("layer", layer, cfg.n_layers, "topic blocks")
    step = max(1, MEMORY // (cfg.n_heads * tokens.shape[1] ** 2))
    total: PairSums | None = None
    for first in range(0, len(tokens), step):
        part = tokens[first : first + step]
        (patterns,) = attention_patterns(model, torch.from_numpy(part).to(cfg.device), [layer])
        if head is not None:
            patterns = patterns[:, [index_of("head", head, patterns.shape[1], "topic blocks")]]
        found = pair_sums(patterns, part, cfg.d_vocab)
        total = found if total is None else total + found
    assert total is not None
    return total


def documents(inputs: Any, model: Any, grammar: Any, seed: int) -> Ints:
    """Token ids [batch, pos], every document of one length: attention to padding cannot be told from attention."""
    if inputs is not None:
        tokens = read_tokens(inputs, model, grammar, "topic blocks")
        refuse_padding(tokens, model, grammar, "topic blocks")
        return tokens
    if not hasattr(grammar, "topic_of") or not hasattr(grammar, "sample"):
        raise AnalysisError("topic blocks: average attention needs inputs= (token ids) or a model with a TopicGrammar")
    words = grammar.sample(DOCUMENTS, seed=seed, stream="topic-attention").words
    return np.ascontiguousarray(words[:, : int((words >= 0).sum(1).min())])


def relations(pairs: Sequence[PairSums], words: Words) -> dict[str, Estimate]:
    """Mean attention over pairs of positions for each relation of their words (thesis L586-601)."""
    values: dict[str, list[float]] = {}
    labels = words.all_labels
    assert labels is not None
    known = (labels[:, None] >= 0) & (labels >= 0)
    same = known & (labels[:, None] == labels)
    itself = np.eye(len(labels), dtype=bool) & known
    for p in pairs:
        here = {
            "same word": (p.sums[itself].sum(), p.counts[itself].sum()),
            "same word, other position": (
                p.sums[itself].sum() - p.own_sums[labels >= 0].sum(),
                p.counts[itself].sum() - p.own_counts[labels >= 0].sum(),
            ),
            "same topic, different word": (p.sums[same & ~itself].sum(), p.counts[same & ~itself].sum()),
            "different topic": (p.sums[known & ~same].sum(), p.counts[known & ~same].sum()),
        }
        for name, (total, count) in here.items():
            values.setdefault(name, []).append(float(total / count) if count else math.nan)
    return {name: mean_over_seeds(each, support=POSITIVE) for name, each in values.items()}
