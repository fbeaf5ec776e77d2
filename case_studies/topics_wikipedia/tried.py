"""What was tried for the rows of Tables 2.4 and 2.5 that come out otherwise than in the thesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from case_studies.page import Table
from case_studies.topics_wikipedia.attention import Pairs
from case_studies.topics_wikipedia.contrast import Contrast
from case_studies.topics_wikipedia.corpus import Floats, Index, Piece, Vocabulary, pair_counts
from case_studies.topics_wikipedia.lda import WORDS, Labels, Topics, memberships
from case_studies.topics_wikipedia.measure import (
    Cooccurrence,
    against_cooccurrence,
    attention_contrast,
    embedding_contrast,
    pairs_of_words,
    unit_rows,
)
from case_studies.words import Cell, Row
from interp.numbers import number

FEWEST = WORDS[0]
MOST_ARTICLES = 500  # of which each may be a topic; of more a topic is not an article anyway
OFTEN = 5  # sequences that hold a pair, at least, before what is above chance is asked


@dataclass(frozen=True)
class Sharing:
    """Table 2.4 with one fit of the topics: both modes, and how much a word's further topics add.

    `words`: the share of words with a topic that have several; `pairs`: the share of the pairs that share a topic in
    Table 2.4 which share none in Table 2.3.
    """

    name: str
    words: float
    pairs: float
    attention: tuple[Contrast, Contrast]  # one topic a word, several
    cosine: tuple[Contrast, Contrast]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        modes = ("one", "several")
        contrasts = {
            name: {mode: c.to_dict() for mode, c in zip(modes, getattr(self, name), strict=True)}
            for name in ("attention", "cosine")
        }
        return {"words_with_several": self.words, "pairs_added": self.pairs, **contrasts}


@dataclass(frozen=True)
class Tried:
    """Table 2.5 with other pairs of words, or other vectors."""

    name: str
    row: Cooccurrence


def sharing(name: str, likelihood: Floats, pairs: Pairs, vectors: Floats, documents: int) -> Sharing:
    """Of the likeliest words of each topic [topic, word]."""
    one, several = (Labels.of(memberships(likelihood, FEWEST, mode)) for mode in ("one", "several"))
    counts = several.member.sum(1)
    added = several.pairs()
    rows = unit_rows(vectors)
    return Sharing(
        name,
        float((counts > 1).sum() / (counts > 0).sum()),
        float(1 - one.same(added[:, 0], added[:, 1]).mean()),
        (attention_contrast(pairs, one, documents), attention_contrast(pairs, several, documents)),
        (embedding_contrast(rows, one), embedding_contrast(rows, several)),
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
    reading: Pairs,
    vectors: Floats,
    labels: Labels,
    documents: int,
) -> list[Tried]:
    """Table 2.5's question of other choices of the pairs that co-occur, and of centred embeddings."""
    pairs, counts, alone = pair_counts(pieces, vocabulary)
    i, j = pairs.T
    kept, same = labels.kept(i, j), labels.same(i, j)
    lift = np.where(counts >= OFTEN, counts / (alone[i] * alone[j]), 0.0)
    size = pairs_of_words(FEWEST)

    def first(which: Any, by: Floats | None = None) -> Index:
        chosen = pairs[which]
        order = np.arange(len(chosen)) if by is None else np.argsort(-by[which], kind="stable")
        return chosen[order][:size]

    centred = vectors - vectors.mean(0)
    everything = np.ones(len(pairs), dtype=bool)
    asked: dict[str, tuple[Index, Floats]] = {
        "as above": (first(everything), vectors),
        "without pairs of one topic": (first(~same), vectors),
        "both words with a topic": (first(kept), vectors),
        "both with a topic, not the same": (first(kept & ~same), vectors),
        f"most above chance, in {OFTEN} sequences or more": (first(everything, lift), vectors),
        "embeddings centred": (first(everything), centred),
    }
    return [
        Tried(name, against_cooccurrence(reading, rows, labels, FEWEST, top, documents))
        for name, (top, rows) in asked.items()
        if len(top)
    ]


def tried_parts(shared: Sequence[Sharing], others: Sequence[Tried]) -> list[str | Table]:
    """Tables 2.4 and 2.5 as far as they come out otherwise, and what was tried."""
    lower = [s.name for s in shared if _value(s.attention[1]) < _value(s.attention[0])]
    cosine = [t.name for t in others if (low := t.row.cosine.difference.low) is not None and low > 0]
    first: list[Row] = []
    for s in shared:
        ratios = [Cell(c.ratio) for c in (*s.attention, *s.cosine)]
        first.append([s.name, number(s.words, 2), number(s.pairs, 2), *ratios])
    second: list[Row] = [
        [t.name, str(t.row.pairs), Cell(t.row.attention.difference, 4), Cell(t.row.cosine.difference, 3)]
        for t in others
    ]
    return [
        f"Table 2.4, {FEWEST} words a topic: several topics a word lower the attention ratio, as in the thesis, in "
        f"{len(lower)} of {len(shared)} fits of the topics ({', '.join(lower) or 'none'}).",
        Table(
            [
                "fit of the topics", "words with several topics", "pairs that only 2.4 calls of one topic",
                "attention, one topic", "attention, several", "cosine, one topic", "cosine, several",
            ],
            first,
            "Ratios of same to different topic. Articles as topics: every article is a topic, its words by tf-idf.",
        ),
        f"Table 2.5, {FEWEST} words a topic: words of one topic have more alike embeddings than co-occurring pairs, as "
        f"in the thesis, in {len(cosine)} of {len(others)} choices of those pairs ({', '.join(cosine) or 'none'}).",
        Table(
            ["co-occurring pairs", "pairs", "attention, same topic minus co-occurring", "cosine, the same"],
            second,
            "Above chance: sequences with both words by the product of those with each.",
        ),
    ]  # fmt: skip


def _value(c: Contrast) -> float:
    return float("nan") if c.ratio.value is None else c.ratio.value
