"""An encoder reads the pieces: attention between words of the vocabulary, and its sums over pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.topics_wikipedia.corpus import Floats, Index, Piece, Vocabulary
from case_studies.topics_wikipedia.encoder import Encoder, read
from case_studies.topics_wikipedia.lda import Labels, Setting

REFERENCE_LENGTH = 100  # attention is given as in a sentence of 100 tokens


@dataclass(frozen=True)
class Pairs:
    """Every pair of different words in the pieces that were read, unordered: attention is the mean of both ways.

    `attention` is averaged over all layers and heads and debiased by length; `length` is the piece's.
    """

    document: Index
    piece: Index
    i: Index
    j: Index
    distance: Index
    length: Index
    attention: Floats

    def take(self, which: NDArray[Any]) -> "Pairs":
        """Some of the pairs."""
        return Pairs(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Sums:
    """Of one setting, by document: pairs of the same and of different topics, and sums over them [document, column]."""

    same_n: Floats
    different_n: Floats
    same: Floats
    different: Floats


@dataclass(frozen=True)
class Reading:
    """What one encoder did on the chosen pieces.

    The columns of `sums` are all heads, layer by layer, then the hidden states' cosine, layer by layer from the
    embedding layer on.
    """

    name: str
    shape: tuple[int, int]
    pieces: int
    tokens: int
    pairs: Pairs
    sums: Mapping[Setting, Sums]


def debiased(patterns: NDArray[Any], length: int) -> NDArray[Any]:
    """Attention as in a sentence of 100 tokens: times length, divided by 100. The mean of a pattern becomes 1/100."""
    return patterns * (length / REFERENCE_LENGTH)


def word_pairs(words: Index) -> tuple[Index, Index]:
    """Positions p < q that hold two different words; -1 is no word."""
    where = np.flatnonzero(words >= 0)
    p, q = np.triu_indices(len(where), k=1)
    p, q = where[p], where[q]
    other = words[p] != words[q]
    return p[other], q[other]


def read_encoder(
    encoder: Encoder, pieces: Sequence[Piece], vocabulary: Vocabulary, labels: Mapping[Setting, Labels], documents: int
) -> Reading:
    """Run the encoder over the pieces and keep what the pairs of words need."""
    from interp.progress import progress_bar

    layers, heads = encoder.shape
    columns = layers * heads + layers + 1
    sums = {
        setting: Sums(np.zeros(documents), np.zeros(documents), *(np.zeros((documents, columns)) for _ in range(2)))
        for setting in labels
    }
    found: list[Pairs] = []
    for number, patterns, states in progress_bar(
        read(encoder, pieces), desc=f"reading, {encoder.name}", total=len(pieces), unit="piece", leave=False
    ):
        piece = pieces[number]
        words = vocabulary.find(piece)
        p, q = word_pairs(words)
        if len(p) == 0:
            continue
        weights = debiased(patterns.reshape(layers * heads, len(words), -1).astype(np.float64), len(words))
        attention = (weights[:, p, q] + weights[:, q, p]) / 2
        unit = states.astype(np.float64)
        unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
        values = np.concatenate([attention, (unit[:, p] * unit[:, q]).sum(-1)])
        i, j = words[p], words[q]
        for setting, own in labels.items():
            same, kept = own.same(i, j), own.kept(i, j)
            into, row = sums[setting], piece.document
            into.same_n[row] += same.sum()
            into.different_n[row] += (kept & ~same).sum()
            into.same[row] += values[:, same].sum(1)
            into.different[row] += values[:, kept & ~same].sum(1)
        document, where, length = (np.full(len(p), x) for x in (piece.document, number, len(words)))
        found.append(Pairs(document, where, i, j, q - p, length, attention.mean(0)))
    pairs = Pairs(*(np.concatenate([getattr(f, name) for f in found]) for name in Pairs.__dataclass_fields__))
    return Reading(encoder.name, encoder.shape, len(pieces), sum(len(x.ids) for x in pieces), pairs, sums)
