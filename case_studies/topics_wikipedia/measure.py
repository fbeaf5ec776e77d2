"""Attention and likeness of embeddings between words of one topic and words of different ones.

Every mean is over pairs of *different* words. A ratio is always a ratio of means; its interval resamples articles
(attention) or words (embeddings) and takes both means from the same resample.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from case_studies.topics_wikipedia.attention import REFERENCE_LENGTH, Pairs, Sums
from case_studies.topics_wikipedia.contrast import (
    DOCUMENT_DRAWS,
    TAIL,
    WORD_DRAWS,
    Contrast,
    contrast_of_sums,
    resamples,
)
from case_studies.topics_wikipedia.corpus import Floats, Index
from case_studies.topics_wikipedia.lda import Labels, Setting
from interp.rng import generator
from interp.stats import holm
from probes.core import to_json

PERMUTATIONS = 200


def over_documents(sums: Sums, column: Any, seed: int) -> Contrast:
    """Same-topic against different-topic means of a column, or of the mean over several; articles resampled."""
    same, different = (np.atleast_2d(x[:, column].T).mean(0) for x in (sums.same, sums.different))
    weights = resamples(len(same), DOCUMENT_DRAWS, seed, "documents")
    units = int(((sums.same_n > 0) | (sums.different_n > 0)).sum())
    parts = (weights @ x for x in (same, sums.same_n, different, sums.different_n))
    return contrast_of_sums(*parts, units=units)


@dataclass(frozen=True)
class Heads:
    """Ratios of every head [layer, head] with intervals over articles, and Holm-adjusted p-values for 'not 1'.

    NaN where a head has no ratio: no pair of words on one side.
    """

    value: Floats
    low: Floats
    high: Floats
    p: Floats
    n: int

    @property
    def above(self) -> int:
        """Heads above 1 after Holm's correction over all heads."""
        return int(((self.p <= 0.05) & (self.value > 1)).sum())

    @property
    def below(self) -> int:
        """Heads below 1 after Holm's correction."""
        return int(((self.p <= 0.05) & (self.value < 1)).sum())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; None where a head has no ratio."""
        arrays = {k: to_json(np.round(getattr(self, k), 6)) for k in ("value", "low", "high")}
        return {**arrays, "n": self.n, "over": "inputs", "null": 1.0, "above_1": self.above, "below_1": self.below}


def every_head(sums: Sums, shape: tuple[int, int], seed: int) -> Heads:
    """The ratio of each head."""
    from scipy.stats import norm

    heads = slice(0, shape[0] * shape[1])
    weights = resamples(len(sums.same), DOCUMENT_DRAWS, seed, "documents")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (weights @ sums.same[:, heads] / (weights @ sums.same_n)[:, None]) / (
            weights @ sums.different[:, heads] / (weights @ sums.different_n)[:, None]
        )
        logs = np.log(ratio)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a head without a ratio has no interval: NaN
        low, high = np.nanquantile(ratio[1:], TAIL, axis=0)
        error = np.nanstd(logs[1:], axis=0, ddof=1)
    z = np.divide(np.abs(logs[0]), error, out=np.zeros_like(error), where=error > 0)
    p = holm(2 * norm.sf(np.nan_to_num(z))).reshape(shape)
    units = int(((sums.same_n > 0) | (sums.different_n > 0)).sum())
    return Heads(ratio[0].reshape(shape), low.reshape(shape), high.reshape(shape), p, units)


# -- attention averaged over all heads --------------------------------------------------------------------------


def attention_contrast(
    pairs: Pairs, labels: Labels, documents: int, seed: int, *, debias: bool = True, match: bool = False
) -> Contrast:
    """Attention between words of one topic against words of different ones, averaged over all heads.

    `match` weighs the different-topic pairs so that they are as far apart in the text as the same-topic ones;
    `debias=False` leaves the weights as the encoder gave them.
    """
    kept = pairs.take(labels.kept(pairs.i, pairs.j))
    same = labels.same(kept.i, kept.j)
    value = kept.attention if debias else kept.attention * (REFERENCE_LENGTH / kept.length)
    weight = matching_weights(kept.distance, same) if match else np.ones(len(same))
    weights = resamples(documents, DOCUMENT_DRAWS, seed, "documents")
    parts = []
    for side in (same, ~same):
        for x in (value * weight, weight):
            parts.append(weights @ np.bincount(kept.document[side], x[side], minlength=documents))
    return contrast_of_sums(*parts, units=len(np.unique(kept.document)))


def matching_weights(distance: Index, same: NDArray[np.bool_]) -> Floats:
    """Weights that give the pairs of different topics the distances of the pairs of one topic.

    Same-topic pairs at a distance that no different-topic pair has get 0.
    """
    a = np.bincount(distance[same], minlength=int(distance.max(initial=0)) + 1)
    b = np.bincount(distance[~same], minlength=len(a))
    each = np.divide(a, b, out=np.zeros(len(a)), where=b > 0)
    return np.where(same, (b > 0)[distance], each[distance])


def permuted_attention(pairs: Pairs, labels: Labels, seed: int, draws: int = PERMUTATIONS) -> Floats:
    """The attention ratio with topics permuted among the words of each piece [draw].

    How many words of which topics a piece holds stays, and so does everything about the piece; which word has which
    topic does not.
    """
    kept = pairs.take(labels.kept(pairs.i, pairs.j))
    if len(kept.i) == 0:
        return np.full(draws, np.nan)
    n = len(labels.bits)
    entries, where = np.unique(np.concatenate([kept.piece * n + kept.i, kept.piece * n + kept.j]), return_inverse=True)
    first, second = np.split(where, 2)
    piece, bits = entries // n, labels.bits[entries % n]
    total, count = kept.attention.sum(), len(kept.attention)
    ratios = np.full(draws, np.nan)
    for draw in range(draws):
        keys = generator(seed, "topics-wikipedia/permuted", draw).random(len(entries))
        own = bits[np.lexsort((keys, piece))]  # entries are in order of pieces: each keeps its place among them
        same = (own[first] & own[second]).any(axis=1)
        inside, own_n = kept.attention[same].sum(), int(same.sum())
        if 0 < own_n < count:
            ratios[draw] = (inside / own_n) / ((total - inside) / (count - own_n))
    return ratios


# -- embeddings -------------------------------------------------------------------------------------------------


def pair_sums(vectors: Floats, pairs: Index, weights: Floats) -> tuple[Floats, Floats]:
    """Sum of dot products over pairs, and their number, by resample: a pair counts weight times weight."""
    n = len(vectors)
    i, j = pairs[:, 0], pairs[:, 1]
    values = (vectors[i] * vectors[j]).sum(1)

    def over_pairs(of_pair: Floats) -> Floats:
        held = csr_matrix((of_pair, (i, j)), shape=(n, n))
        return np.asarray((np.asarray(weights @ held) * weights).sum(1))

    return over_pairs(values), over_pairs(np.ones(len(i)))


def all_pair_sums(vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The same over all pairs of different words. A word drawn twice makes no pair with itself."""
    squares = (vectors**2).sum(1)
    total = (((weights @ vectors) ** 2).sum(1) - (weights**2) @ squares) / 2
    count = (weights.sum(1) ** 2 - (weights**2).sum(1)) / 2
    return total, count


def unit_rows(vectors: Floats) -> Floats:
    """Rows of length 1: their dot products are cosines. A zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


def embedding_contrast(vectors: Floats, labels: Labels, seed: int) -> Contrast:
    """Mean dot product of different words of one topic against words of different ones; words resampled.

    `vectors` [word, d]: give rows of length 1 for cosines.
    """
    words = labels.words
    local = np.full(len(labels.bits), -1)
    local[words] = np.arange(len(words))
    weights = resamples(len(words), WORD_DRAWS, seed, "words")
    same, same_n = pair_sums(vectors[words], local[labels.pairs()], weights)
    total, count = all_pair_sums(vectors[words], weights)
    return contrast_of_sums(same, same_n, total - same, count - same_n, units=len(words), over="words")


def permuted_embedding(vectors: Floats, labels: Labels, seed: int, draws: int = PERMUTATIONS) -> Floats:
    """The difference of means with topics on permuted words [draw]."""
    words = labels.words
    once = np.ones((1, len(words)))
    local = np.full(len(labels.bits), -1)
    local[words] = np.arange(len(words))
    i, j = local[labels.pairs()].T
    total, count = (float(x[0]) for x in all_pair_sums(vectors[words], once))
    gram = vectors[words] @ vectors[words].T
    differences = np.full(draws, np.nan)
    for draw in range(draws):
        order = generator(seed, "topics-wikipedia/permuted", draw).permutation(len(words))
        same = float(gram[order[i], order[j]].sum())
        if 0 < len(i) < count:
            differences[draw] = same / len(i) - (total - same) / (count - len(i))
    return differences


def null_range(draws: Floats) -> dict[str, float | None]:
    """Mean and central 95 % of what permuted topics give."""
    rest = draws[np.isfinite(draws)]
    if not len(rest):
        return {"mean": None, "low": None, "high": None}
    low, high = np.quantile(rest, TAIL)
    return {"mean": float(rest.mean()), "low": float(low), "high": float(high)}


# -- co-occurrence, Table 2.5 -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cooccurrence:
    """Words of one topic against the pairs of words that co-occur most: attention and cosine.

    The differences are same-topic minus co-occurring, from the same resamples.
    """

    words: int
    pairs: int
    shared: int  # top pairs that are of one topic too
    attention: Contrast
    cosine: Contrast

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; 'different' holds the co-occurring pairs."""
        return {
            "words": self.words,
            "pairs": self.pairs,
            "shared_with_same_topic": self.shared,
            "attention": self.attention.to_dict(),
            "cosine": self.cosine.to_dict(),
        }


def pairs_of_words(words: int) -> int:
    """Pairs of different words within one topic."""
    return words * (words - 1) // 2


def against_cooccurrence(
    pairs: Pairs, vectors: Floats, labels: Labels, words: int, top: Index, documents: int, seed: int
) -> Cooccurrence:
    """Table 2.5's row for `words` words a topic; `top` are the most frequent pairs, [pair, 2] with i < j."""
    top = top[: pairs_of_words(words)]
    n = len(vectors)
    low, high = np.minimum(pairs.i, pairs.j), np.maximum(pairs.i, pairs.j)
    often = np.isin(low * n + high, top[:, 0] * n + top[:, 1])
    weights = resamples(documents, DOCUMENT_DRAWS, seed, "documents")
    parts = []
    for side in (labels.same(pairs.i, pairs.j), often):
        parts.append(weights @ np.bincount(pairs.document[side], pairs.attention[side], minlength=documents))
        parts.append(weights @ np.bincount(pairs.document[side], minlength=documents).astype(np.float64))
    attention = contrast_of_sums(*parts, units=len(np.unique(pairs.document)))
    both = np.union1d(labels.words, top.ravel())
    local = np.full(n, -1)
    local[both] = np.arange(len(both))
    own, drawn = unit_rows(vectors[both]), resamples(len(both), WORD_DRAWS, seed, "words")
    sums = (*pair_sums(own, local[labels.pairs()], drawn), *pair_sums(own, local[top], drawn))
    shared = int(labels.same(top[:, 0], top[:, 1]).sum())
    return Cooccurrence(words, len(top), shared, attention, contrast_of_sums(*sums, units=len(both), over="words"))


# -- a whole setting --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row of Tables 2.3 or 2.4 for one encoder."""

    setting: Setting
    distinct: int  # words with a topic
    attention: Contrast
    raw: Contrast  # attention not debiased
    matched: Contrast  # at equal distances in the text
    cosine: Contrast
    dot: Contrast

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        names = ("attention", "raw", "matched", "cosine", "dot")
        return {"distinct_words": self.distinct, **{name: getattr(self, name).to_dict() for name in names}}


def measure_row(
    setting: Setting, labels: Labels, pairs: Pairs, vectors: Floats, documents: int, seed: int, *, permute: bool
) -> Row:
    """All contrasts of one setting; with `permute`, those of attention and cosine carry the permuted topics' too."""
    attention = attention_contrast(pairs, labels, documents, seed)
    cosine = embedding_contrast(unit_rows(vectors), labels, seed)
    if permute:
        drawn = null_range(permuted_attention(pairs, labels, seed))
        attention = replace(attention, ratio=attention.ratio.with_null({"equal": 1.0, "permuted_topics": drawn}))
        drawn = null_range(permuted_embedding(unit_rows(vectors), labels, seed))
        cosine = replace(cosine, difference=cosine.difference.with_null({"equal": 0.0, "permuted_topics": drawn}))
    return Row(
        setting,
        len(labels.words),
        attention,
        attention_contrast(pairs, labels, documents, seed, debias=False),
        attention_contrast(pairs, labels, documents, seed, match=True),
        cosine,
        embedding_contrast(vectors, labels, seed),
    )
