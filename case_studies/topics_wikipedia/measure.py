"""Attention and likeness of embeddings between words of one topic and words of different ones.

Every mean is over pairs of *different* words. A ratio is always a ratio of means; its interval leaves articles
(attention) or words (embeddings) in turn out of both means (`case_studies.topics_wikipedia.contrast`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.topics_wikipedia.attention import REFERENCE_LENGTH, Pairs, Sums
from case_studies.topics_wikipedia.contrast import FEWEST, Contrast, contrast_of_sums, without_each
from case_studies.topics_wikipedia.corpus import Floats, Index
from case_studies.topics_wikipedia.lda import Labels, Setting
from interp.rng import generator
from interp.stats import holm
from probes.core import to_json

PERMUTATIONS = 200
TAIL = (0.025, 0.975)  # of what permuted topics give


def over_documents(sums: Sums, column: Any) -> Contrast:
    """Same-topic against different-topic means of a column, or of the mean over several; over articles."""
    same, different = (np.atleast_2d(x[:, column].T).mean(0) for x in (sums.same, sums.different))
    units = int(((sums.same_n > 0) | (sums.different_n > 0)).sum())
    parts = (without_each(x) for x in (same, sums.same_n, different, sums.different_n))
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


def every_head(sums: Sums, shape: tuple[int, int]) -> Heads:
    """The ratio of each head: jackknife over articles on the logarithmic scale, with Student's t."""
    from scipy.special import stdtr, stdtrit

    heads = slice(0, shape[0] * shape[1])
    units = int(((sums.same_n > 0) | (sums.different_n > 0)).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(without_each(sums.same[:, heads]) / without_each(sums.same_n)[:, None]) - np.log(
            without_each(sums.different[:, heads]) / without_each(sums.different_n)[:, None]
        )
        rest = logs[1:]
        error = np.sqrt(max(units - 1, 0) / max(units, 1) * np.square(rest - rest.mean(0)).sum(0))
    freedom = max(units - 1, 1)
    z = np.divide(np.abs(logs[0]), error, out=np.zeros_like(error), where=error > 0)
    p = holm(2 * stdtr(freedom, -np.nan_to_num(z))).reshape(shape)
    half = float(stdtrit(freedom, 0.975)) * (error if units >= FEWEST else np.full_like(error, np.nan))
    value, low, high = (np.exp(logs[0] + side * half) for side in (0.0, -1.0, 1.0))
    value = np.exp(logs[0])
    return Heads(value.reshape(shape), low.reshape(shape), high.reshape(shape), p, units)


# -- attention averaged over all heads --------------------------------------------------------------------------


def attention_contrast(
    pairs: Pairs, labels: Labels, documents: int, *, debias: bool = True, match: bool = False
) -> Contrast:
    """Attention between words of one topic against words of different ones, averaged over all heads.

    `match` weighs the different-topic pairs so that they are as far apart in the text as the same-topic ones;
    `debias=False` leaves the weights as the encoder gave them.
    """
    kept = pairs.take(labels.kept(pairs.i, pairs.j))
    same = labels.same(kept.i, kept.j)
    value = kept.attention if debias else kept.attention * (REFERENCE_LENGTH / kept.length)
    weight = matching_weights(kept.distance, same) if match else np.ones(len(same))
    parts = []
    for side in (same, ~same):
        for x in (value * weight, weight):
            parts.append(without_each(np.bincount(kept.document[side], x[side], minlength=documents)))
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


def pair_sums(vectors: Floats, pairs: Index) -> tuple[Floats, Floats]:
    """Sum of dot products over pairs, and their number: of all, and without each word in turn [word + 1]."""
    i, j = pairs[:, 0], pairs[:, 1]

    def over_pairs(of_pair: Floats) -> Floats:
        own = np.bincount(i, of_pair, len(vectors)) + np.bincount(j, of_pair, len(vectors))
        return np.concatenate([[of_pair.sum()], of_pair.sum() - own])

    return over_pairs((vectors[i] * vectors[j]).sum(1)), over_pairs(np.ones(len(i)))


def all_pair_sums(vectors: Floats) -> tuple[Floats, Floats]:
    """The same over all pairs of different words."""
    n, whole = len(vectors), without_each(vectors)
    total = ((whole**2).sum(1) - without_each((vectors**2).sum(1))) / 2
    left = np.concatenate([[n], np.full(n, n - 1)]).astype(np.float64)
    return total, left * (left - 1) / 2


def unit_rows(vectors: Floats) -> Floats:
    """Rows of length 1: their dot products are cosines. A zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


def embedding_contrast(vectors: Floats, labels: Labels) -> Contrast:
    """Mean dot product of different words of one topic against words of different ones; over words.

    `vectors` [word, d]: give rows of length 1 for cosines.
    """
    words = labels.words
    local = np.full(len(labels.bits), -1)
    local[words] = np.arange(len(words))
    same, same_n = pair_sums(vectors[words], local[labels.pairs()])
    total, count = all_pair_sums(vectors[words])
    return contrast_of_sums(same, same_n, total - same, count - same_n, units=len(words), over="words")


def permuted_embedding(vectors: Floats, labels: Labels, seed: int, draws: int = PERMUTATIONS) -> Floats:
    """The difference of means with topics on permuted words [draw]."""
    words = labels.words
    local = np.full(len(labels.bits), -1)
    local[words] = np.arange(len(words))
    i, j = local[labels.pairs()].T
    total, count = (float(x[0]) for x in all_pair_sums(vectors[words]))
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

    The differences are same-topic minus co-occurring.
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
    pairs: Pairs, vectors: Floats, labels: Labels, words: int, top: Index, documents: int
) -> Cooccurrence:
    """Table 2.5's row for `words` words per topic; `top` are the most frequent pairs, [pair, 2] with i < j."""
    top = top[: pairs_of_words(words)]
    shared = int(labels.same(top[:, 0], top[:, 1]).sum())
    attention = cooccurring_attention(pairs, labels, top, documents)
    return Cooccurrence(words, len(top), shared, attention, cooccurring_cosine(vectors, labels, top))


def cooccurring_attention(pairs: Pairs, labels: Labels, top: Index, documents: int) -> Contrast:
    """Attention between words of one topic against that between the pairs of `top`, over articles."""
    n = len(labels.bits)
    low, high = np.minimum(pairs.i, pairs.j), np.maximum(pairs.i, pairs.j)
    often = np.isin(low * n + high, top[:, 0] * n + top[:, 1])
    parts = []
    for side in (labels.same(pairs.i, pairs.j), often):
        parts.append(without_each(np.bincount(pairs.document[side], pairs.attention[side], minlength=documents)))
        parts.append(without_each(np.bincount(pairs.document[side], minlength=documents)))
    return contrast_of_sums(*parts, units=len(np.unique(pairs.document)))


def cooccurring_cosine(vectors: Floats, labels: Labels, top: Index) -> Contrast:
    """Cosine of words of one topic against that of the pairs of `top`, over words."""
    both = np.union1d(labels.words, top.ravel())
    local = np.full(len(vectors), -1)
    local[both] = np.arange(len(both))
    own = unit_rows(vectors[both])
    sums = (*pair_sums(own, local[labels.pairs()]), *pair_sums(own, local[top]))
    return contrast_of_sums(*sums, units=len(both), over="words")


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
    layer: Mapping[str, tuple[Contrast, Contrast]]  # cosine and dot product of what the embedding layer makes of words

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        names = ("attention", "raw", "matched", "cosine", "dot")
        layer = {name: {"cosine": c.to_dict(), "dot": d.to_dict()} for name, (c, d) in self.layer.items()}
        return {"distinct_words": self.distinct, **{name: getattr(self, name).to_dict() for name in names}, **layer}


def measure_row(
    setting: Setting,
    labels: Labels,
    pairs: Pairs,
    vectors: Floats,
    documents: int,
    seed: int,
    *,
    permute: bool,
    layer: Mapping[str, Floats] | None = None,
) -> Row:
    """All contrasts of one setting; with `permute`, those of attention and cosine carry the permuted topics' too.

    `layer`: other vectors [word, d] in the place of `vectors`, by name.
    """
    attention = attention_contrast(pairs, labels, documents)
    cosine = embedding_contrast(unit_rows(vectors), labels)
    if permute:
        drawn = null_range(permuted_attention(pairs, labels, seed))
        attention = replace(attention, ratio=attention.ratio.with_null({"equal": 1.0, "permuted_topics": drawn}))
        drawn = null_range(permuted_embedding(unit_rows(vectors), labels, seed))
        cosine = replace(cosine, difference=cosine.difference.with_null({"equal": 0.0, "permuted_topics": drawn}))
    return Row(
        setting,
        len(labels.words),
        attention,
        attention_contrast(pairs, labels, documents, debias=False),
        attention_contrast(pairs, labels, documents, match=True),
        cosine,
        embedding_contrast(vectors, labels),
        layer_contrasts(layer or {}, labels),
    )


def layer_contrasts(layer: Mapping[str, Floats], labels: Labels) -> dict[str, tuple[Contrast, Contrast]]:
    """Cosine and dot product of each of these vectors [word, d]."""
    return {
        name: (embedding_contrast(unit_rows(v), labels), embedding_contrast(v, labels)) for name, v in layer.items()
    }
