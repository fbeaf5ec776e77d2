"""Four ways to read Tables 2.1 and 2.2 off a model: which words share a topic, and what documents count as.

The thesis rescales attention to documents of 100 words on Wikipedia (L641) and does not say what it does in Tables 2.1
and 2.2. Its printed rows decide between the readings by themselves: the mean over all pairs of positions is that of
even attention, whatever a model attends to, so that the three printed means and the shares of their pairs leave a
mean for the pairs that none of the three counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.topics.counts import count_sums, whole_documents
from case_studies.topics.families import PAPER_DIAGONALS, TABLE, Triple
from case_studies.topics.lookup import (
    SPECIAL,
    Labels,
    Relations,
    released_labels,
    released_vocabulary,
)
from interp.grammars import TopicGrammar
from interp.population import Population

START = 2
Floats = NDArray[np.float64]
RIGHT, RELEASED = "right_lookup", "released_lookup"
RESCALED, WHOLE = "rescaled", "whole"
READINGS = tuple((lookup, length) for lookup in (RIGHT, RELEASED) for length in (RESCALED, WHOLE))


@dataclass(frozen=True)
class Readings:
    """Attention of models of several seeds, read in each of the four ways, `(lookup, length)` of `READINGS`."""

    relations: Mapping[tuple[str, str], Relations]

    @classmethod
    def of(cls, scores: Floats, counts: Floats, labels: Mapping[str, Labels]) -> "Readings":
        """From attention scores [run, query, key], counts [document, token], and the topics of tokens by lookup."""
        sums = {length: [count_sums(one, counts, length == RESCALED) for one in scores] for length in (RESCALED, WHOLE)}
        return cls({(k, length): Relations.of(sums[length], labels[k]) for k, length in READINGS})

    def to_dict(self) -> dict[str, Any]:
        """By name of the lookup and of the length: ratio and means of relations."""
        return {
            f"{k}_{length}": {
                "ratio": r.ratio.to_dict(),
                "relations": {name: e.to_dict() for name, e in r.means.items()},
            }
            for (k, length), r in self.relations.items()
        }


def preset_readings(population: Population) -> Readings:
    """Of one-hot models without biases, on whole held-out documents of their grammar."""
    grammar, attn = population.grammar, "blocks.0.attn."
    assert isinstance(grammar, TopicGrammar)
    q, k = (population.params[attn + name][:, 0].double().numpy() for name in ("W_Q", "W_K"))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    return Readings.of(scores, whole_documents(grammar), {RIGHT: grammar.topic_of, RELEASED: released_labels(grammar)})


def released_readings(scores: Floats, grammar: TopicGrammar) -> Readings:
    """Of models of the released code's vocabulary: documents begin with START, and have lost END, as there."""
    return Readings.of(scores, released_documents(grammar), _labels(grammar))


def released_documents(grammar: TopicGrammar) -> Floats:
    """Counts [document, token] in the released vocabulary: START and the words."""
    words = whole_documents(grammar)
    specials = np.zeros((len(words), SPECIAL))
    specials[:, START] = 1.0
    return np.concatenate([specials, words[:, 1:]], axis=1)


def _labels(grammar: TopicGrammar) -> dict[str, Labels]:
    return {RIGHT: released_vocabulary(grammar, False), RELEASED: released_vocabulary(grammar, True)}


@dataclass(frozen=True)
class Left:
    """What the printed rows leave for the pairs of positions that they do not count, under one reading.

    `share`: of all pairs; `mean`: by name of the row, their mean attention; `ratio`: the same by what the row prints
    for pairs of different words, its two means together. A mean below 0 is impossible. Pairs of words without a topic
    should be about like other pairs of different words (ratio 1); START's may differ.
    """

    share: float
    mean: Mapping[str, float]
    ratio: Mapping[str, float]


def left_over(grammar: TopicGrammar) -> dict[tuple[str, str], Left]:
    """Of each reading, in the documents of the released code (a sample of `DOCUMENTS` from the thesis's law)."""
    counts, labels = released_documents(grammar), _labels(grammar)
    even = np.zeros((counts.shape[1],) * 2)
    out = {}
    for lookup, length in READINGS:
        pairs = count_sums(even, counts, length == RESCALED)
        mean = float(pairs.sums.sum() / pairs.counts.sum())
        _, topic, other = shares = _shares(pairs.counts, labels[lookup])
        rest = 1.0 - sum(shares)
        left = {name: (mean - float(np.dot(shares, row))) / rest for name, row in printed_rows().items()}
        apart = {name: (topic * row[1] + other * row[2]) / (topic + other) for name, row in printed_rows().items()}
        out[lookup, length] = Left(rest, left, {name: left[name] / apart[name] for name in left})
    return out


def printed_rows() -> dict[str, Triple]:
    """The rows of Tables 2.1 and 2.2 by name."""
    rows = {f"Table 2.1, {family.name}": paper for family, paper in TABLE if paper is not None}
    return {**rows, **{f"Table 2.2, {name}": paper for name, paper in PAPER_DIAGONALS.items()}}


def _shares(counts: Floats, labels: Labels) -> tuple[float, float, float]:
    """Of all pairs of positions: the same word, the same topic with another word, different topics."""
    same, itself = labels[:, None] == labels, np.eye(len(labels), dtype=bool)
    known = (labels[:, None] >= 0) & (labels >= 0)
    kinds = (itself, known & same & ~itself, known & ~same & ~itself)
    word, topic, other = (float(counts[kind].sum() / counts.sum()) for kind in kinds)
    return word, topic, other
