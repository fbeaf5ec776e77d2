"""What was tried for the rows of Tables 2.4 and 2.5 that come out otherwise than in the thesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from case_studies.page import Table
from case_studies.topics_wikipedia.attention import Pairs
from case_studies.topics_wikipedia.contrast import Contrast
from case_studies.topics_wikipedia.corpus import (
    Floats,
    Index,
    Piece,
    Vocabulary,
    article_pairs,
    cooccurrence,
    near_pairs,
    pair_counts,
)
from case_studies.topics_wikipedia.lda import MODES, WORDS, Labels, Setting, Topics, memberships
from case_studies.topics_wikipedia.measure import (
    Cooccurrence,
    against_cooccurrence,
    attention_contrast,
    cooccurring_cosine,
    embedding_contrast,
    pairs_of_words,
    unit_rows,
)
from case_studies.words import Cell, Row
from interp.numbers import number
from interp.stats import Estimate

MOST_ARTICLES = 500  # of which each may be a topic; of more a topic is not an article anyway
REACH = 10  # tokens from one word of a pair to the other
COMPONENTS = 3
LAYER_NAMES = {"with_token_type": "with the token type's vector", "embedding_layer": "the whole embedding layer"}
OFTEN = 5  # sequences that hold a pair, at least, before what is above chance is asked


@dataclass(frozen=True)
class Shared:
    """Table 2.4 with one fit of the topics and number of words: both modes, and how much further topics of a word add.

    `words`: the share of words with a topic that have several; `pairs`: the share of the pairs that share a topic in
    Table 2.4 which share none in Table 2.3.
    """

    words: float
    pairs: float
    attention: tuple[Contrast, Contrast]  # one topic per word, several
    cosine: tuple[Contrast, Contrast]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        contrasts = {
            name: {mode: c.to_dict() for mode, c in zip(MODES, getattr(self, name), strict=True)}
            for name in ("attention", "cosine")
        }
        return {"words_with_several": self.words, "pairs_added": self.pairs, **contrasts}


@dataclass(frozen=True)
class Sharing:
    """Table 2.4 with one fit of the topics, by words per topic."""

    name: str
    topics: int
    rows: Mapping[int, Shared]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"topics": self.topics, **{str(words): row.to_dict() for words, row in self.rows.items()}}


@dataclass(frozen=True)
class Tried:
    """Table 2.5 with other pairs of words, or other vectors, a row for each of `WORDS`."""

    name: str
    rows: Sequence[Cooccurrence]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {str(row.words): row.to_dict() for row in self.rows}


def sharing(name: str, likelihood: Floats, pairs: Pairs, vectors: Floats, documents: int) -> Sharing:
    """Of the likeliest words of each topic [topic, word]."""
    units = unit_rows(vectors)
    rows = {words: shared(likelihood, words, pairs, units, documents) for words in WORDS}
    return Sharing(name, len(likelihood), rows)


def shared(likelihood: Floats, words: int, pairs: Pairs, units: Floats, documents: int) -> Shared:
    """The same for so many words per topic; `units`: embeddings of length 1."""
    one, several = (Labels.of(memberships(likelihood, words, mode)) for mode in MODES)
    counts = several.member.sum(1)
    added = several.pairs()
    return Shared(
        float((counts > 1).sum() / (counts > 0).sum()),
        float(1 - one.same(added[:, 0], added[:, 1]).mean()),
        (attention_contrast(pairs, one, documents), attention_contrast(pairs, several, documents)),
        (embedding_contrast(units, one), embedding_contrast(units, several)),
    )


def articles_as_topics(counts: csr_matrix) -> Floats:
    """Likelihood [article, word] where every article is a topic of its own: tf-idf, rows of sum 1.

    If topics of a small corpus are its articles, so are the tables' numbers.
    """
    dense = np.asarray(counts.todense(), dtype=np.float64)
    held = np.maximum((dense > 0).sum(0), 1)
    weighed = dense * np.log(len(dense) / held)
    return np.asarray(weighed / np.maximum(weighed.sum(1, keepdims=True), 1e-12))


def fits(
    topics: Mapping[str, Topics], counts: csr_matrix, pairs: Pairs, vectors: Floats, documents: int
) -> list[Sharing]:
    """Table 2.4's question of every fit, and of articles in the place of topics."""
    found = {name: fit.likelihood for name, fit in topics.items()}
    if documents <= MOST_ARTICLES:
        found["articles as topics"] = articles_as_topics(counts)
    return [sharing(name, likelihood, pairs, vectors, documents) for name, likelihood in found.items()]


def other_pairs(
    pieces: Sequence[Piece],
    vocabulary: Vocabulary,
    counts: csr_matrix,
    reading: Pairs,
    vectors: Floats,
    layer: Mapping[str, Floats],
    labels: Mapping[Setting, Labels],
    documents: int,
) -> list[Tried]:
    """Table 2.5's question of other choices of the pairs that co-occur, and of other vectors of words.

    `counts`: of each article's words [article, word].
    """
    pairs, often, alone = pair_counts(pieces, vocabulary)
    i, j = pairs.T
    lift = np.where(often >= OFTEN, often / (alone[i] * alone[j]), 0.0)
    most = pairs_of_words(max(WORDS))
    above = pairs[np.argsort(-lift, kind="stable")][:most]
    near, of_articles = near_pairs(pieces, vocabulary, REACH, most), article_pairs(counts, most)

    def chosen(own: Labels) -> dict[str, Index]:
        kept, same = own.kept(i, j), own.same(i, j)
        return {
            "as above": pairs,
            "without pairs of one topic": pairs[~same],
            "both words with a topic": pairs[kept],
            "both with a topic, not the same": pairs[kept & ~same],
            f"most above chance, in {OFTEN} sequences or more": above,
            f"at most {REACH} tokens apart": near,
            "counted over articles": of_articles,
        }

    rows: dict[str, list[Cooccurrence]] = {}
    for words in WORDS:
        own = labels[words, "one"]
        for name, top in chosen(own).items():
            if len(top):
                row = against_cooccurrence(reading, vectors, own, words, top, documents)
                rows.setdefault(name, []).append(row)
        first = rows["as above"][-1]
        for name, other in other_vectors(vectors, layer).items():
            cosine = cooccurring_cosine(other, own, pairs[: first.pairs])
            rows.setdefault(name, []).append(replace(first, cosine=cosine))
    return [Tried(name, found) for name, found in rows.items()]


def other_vectors(vectors: Floats, layer: Mapping[str, Floats]) -> dict[str, Floats]:
    """Embeddings [word, d] without what many words share, and after the whole embedding layer."""
    centred = vectors - vectors.mean(0)
    first = np.linalg.svd(centred, full_matrices=False)[2][:COMPONENTS]
    named = {LAYER_NAMES.get(name, name): rows for name, rows in layer.items()}
    return {
        "embeddings centred": centred,
        f"centred, without {COMPONENTS} principal components": centred - (centred @ first.T) @ first,
        **named,
    }


def with_every_token(
    wide: Sequence[Piece], tokens: Vocabulary, vectors: Floats, labels: Mapping[Setting, Labels]
) -> Tried:
    """The cosine with every token a word that topics can hold and pairs be made of (`corpus.every_token`)."""
    top = cooccurrence(wide, tokens, pairs_of_words(max(WORDS)))
    none = Estimate.undefined("attention between these tokens was not read", 0, "inputs")
    rows = []
    for words in WORDS:
        own, first = labels[words, "one"], top[: pairs_of_words(words)]
        both = int(own.same(first[:, 0], first[:, 1]).sum())
        cosine = cooccurring_cosine(vectors, own, first)
        rows.append(Cooccurrence(words, len(first), both, Contrast(none, none, none, none), cosine))
    return Tried("every token a word", rows)


def tried_parts(fitted: Sequence[Sharing], others: Sequence[Tried]) -> list[str | Table]:
    """Tables 2.4 and 2.5 as far as they come out otherwise, and what was tried."""
    lower = [s.name for s in fitted if all(_below(row.attention) for row in s.rows.values())]
    cosine = [t.name for t in others if all((row.cosine.difference.low or 0) > 0 for row in t.rows)]
    first: list[Row] = []
    for s in fitted:
        for words, row in s.rows.items():
            ratios = [Cell(c.ratio) for c in (*row.attention, *row.cosine)]
            first.append(
                [f"{s.name}, {words} words", str(s.topics), number(row.words, 2), number(row.pairs, 2), *ratios]
            )
    second: list[Row] = [
        [f"{t.name}, {row.pairs}", Cell(row.attention.difference, 4), Cell(row.cosine.difference, 3)]
        for t in others
        for row in t.rows
    ]
    return [
        "Table 2.4: several topics per word lower the attention ratio, as in the thesis, intervals apart for "
        f"{', '.join(map(str, WORDS))} words per topic alike, in {len(lower)} of {len(fitted)} fits of the topics "
        f"({'; '.join(lower) or 'none'}).",
        Table(
            [
                "fit of the topics", "topics", "words with several", "pairs added",
                "attention, one topic", "attention, several", "cosine, one topic", "cosine, several",
            ],
            first,
            "Ratios of same to different topic. Added: of the pairs that share a topic where words have several, those "
            "that share none where they have one. Articles as topics: every article is a topic, its words by tf-idf.",
        ),
        f"Table 2.5: words of one topic have more similar embeddings than co-occurring pairs, as in the thesis, for "
        f"every number of pairs in {len(cosine)} of {len(others)} choices of the pairs and vectors "
        f"({'; '.join(cosine) or 'none'}).",
        Table(
            ["co-occurring pairs or vectors, pairs", "attention, same topic minus co-occurring", "cosine, the same"],
            second,
            "Above chance: sequences with both words by the product of those with each. Tokens apart: how often both "
            "stand so near. Every token: parts of words, digits and signs too, in topics and in pairs.",
        ),
    ]  # fmt: skip


def _below(contrasts: tuple[Contrast, Contrast]) -> bool:
    """Whether the second ratio lies below the first, intervals apart."""
    one, several = (c.ratio for c in contrasts)
    return one.low is not None and several.high is not None and several.high < one.low
