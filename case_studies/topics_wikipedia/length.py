"""Does attention that is even seem larger within topics because sequences differ in length (thesis 2.1.5.4)?

The mean attention of a sequence is the inverse of its length, and long sequences hold more topics, so that pairs of
one topic come more often from short ones. That needs sequences that differ in length: how articles are cut decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case_studies.page import Table
from case_studies.topics_wikipedia.attention import REFERENCE_LENGTH, Pairs, Reading, word_pairs
from case_studies.topics_wikipedia.contrast import Contrast
from case_studies.topics_wikipedia.corpus import Document, Floats, Piece, Vocabulary, choose, cut, in_sentences
from case_studies.topics_wikipedia.encoder import Encoder
from case_studies.topics_wikipedia.lda import WORDS, Labels, Setting, setting_name
from case_studies.topics_wikipedia.measure import attention_contrast
from case_studies.words import Cell, Row
from interp.numbers import ABSENT, number

SHOWN = (0.05, 0.5, 0.95)  # quantiles of the lengths
Raw = tuple[Contrast, Contrast]  # attention as it is, and debiased


@dataclass(frozen=True)
class Cut:
    """One way to cut the articles. `tokens`: the lengths' quantiles, of which `even` is what an even network gives.

    `random`: what randomly initialised encoders that read these pieces give.
    """

    name: str
    pieces: Sequence[Piece]
    tokens: tuple[float, ...]
    even: Mapping[Setting, Contrast]
    random: Sequence[Mapping[Setting, Raw]] = ()

    @property
    def larger(self) -> bool:
        """Whether even attention is larger within topics in every setting, interval and all."""
        return all(c.ratio.low is not None and c.ratio.low > 1 for c in self.even.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "sequences": len(self.pieces),
            "tokens": dict(zip(("5 %", "50 %", "95 %"), self.tokens, strict=True)),
            "even": {setting_name(s): c.to_dict() for s, c in self.even.items()},
            "randomly_initialised": [
                {setting_name(s): {"raw": r.to_dict(), "attention": a.to_dict()} for s, (r, a) in one.items()}
                for one in self.random
            ],
        }


def ways_to_cut(
    documents: Sequence[Document],
    encoder: Encoder,
    vocabulary: Vocabulary,
    labels: Mapping[Setting, Labels],
    total: int,
) -> list[Cut]:
    """Paragraphs as the study reads them, uncut as far as the encoder reads, and sentences; at most `total` of each."""
    tokenizer, short, long = encoder.tokenizer, encoder.longest, encoder.most
    ways = {
        way_name(short): cut(documents, tokenizer, short),
        way_name(long): cut(documents, tokenizer, long),
        "sentences": cut(in_sentences(documents), tokenizer, short),
    }
    out = []
    for name, pieces in ways.items():
        chosen = choose(pieces, vocabulary, total)
        if chosen:
            out.append(one_cut(name, chosen, vocabulary, labels, len(documents)))
    return out


def way_name(longest: int) -> str:
    """Of paragraphs."""
    return f"paragraphs, at most {longest} tokens"


def one_cut(
    name: str, pieces: Sequence[Piece], vocabulary: Vocabulary, labels: Mapping[Setting, Labels], documents: int
) -> Cut:
    """Lengths, and the ratio of attention that is exactly even."""
    pairs = even_pairs(pieces, vocabulary)
    lengths: Floats = np.quantile([len(piece.ids) for piece in pieces], SHOWN)
    even = {s: attention_contrast(pairs, own, documents, debias=False) for s, own in labels.items()}
    return Cut(name, pieces, tuple(lengths.tolist()), even)


def even_pairs(pieces: Sequence[Piece], vocabulary: Vocabulary) -> Pairs:
    """The pairs of words of the pieces, their attention the inverse of the length before it is debiased."""
    columns: list[tuple[Any, ...]] = []  # as `Pairs` has them
    for at, piece in enumerate(pieces):
        words = vocabulary.find(piece)
        p, q = word_pairs(words)
        document, where, length = (np.full(len(p), x) for x in (piece.document, at, len(words)))
        columns.append((document, where, words[p], words[q], q - p, length, np.full(len(p), 1 / REFERENCE_LENGTH)))
    return Pairs(*[np.concatenate(column) for column in zip(*columns, strict=True)])


def of_random(reading: Reading, labels: Mapping[Setting, Labels], documents: int) -> dict[Setting, Raw]:
    """What a randomly initialised encoder gives: attention as it is, and debiased."""
    return {
        s: (
            attention_contrast(reading.pairs, own, documents, debias=False),
            attention_contrast(reading.pairs, own, documents),
        )
        for s, own in labels.items()
    }


def length_parts(cuts: Sequence[Cut]) -> list[str | Table]:
    """A row per way to cut, words per topic and network, one topic per word."""
    if not cuts:
        return []
    networks = max(len(way.random) for way in cuts)
    rows: list[Row] = []
    for way in cuts:
        for words in WORDS:
            drawn = [one[words, "one"] for one in way.random]
            raw: list[Cell | str] = [Cell(raw.ratio, 3) for raw, _ in drawn]
            debiased = [c.ratio.value for _, c in drawn if c.ratio.value is not None]
            rows.append(
                [
                    f"{way.name}, {words} words",
                    str(len(way.pieces)),
                    f"{number(way.tokens[1], 0)} ({number(way.tokens[0], 0)} to {number(way.tokens[2], 0)})",
                    Cell(way.even[words, "one"].ratio, 3),
                    *(raw or [ABSENT] * networks),
                    number(float(np.mean(debiased)), 4) if debiased else ABSENT,
                ]
            )
    larger = [way.name for way in cuts if way.larger]
    return [
        "The thesis expects attention that is not debiased to be larger within topics even in a random network, since "
        "long sequences hold more topics. In a network that attends evenly it is, by the whole interval, in every one "
        f"of {2 * len(WORDS)} settings with {len(larger)} of {len(cuts)} ways to cut the articles: "
        f"{'; '.join(larger) or 'none'}.",
        Table(
            [
                "articles cut into, words per topic",
                "sequences",
                "tokens: median (5 to 95 %)",
                "even attention",
                *(f"random network {k}" for k in range(networks)),
                "random, debiased, mean",
            ],
            rows,
            "Same by different topic, one topic per word, not debiased but in the last column; intervals over "
            f"articles. Even: attention of 1 by the length, which debiasing makes 1/{REFERENCE_LENGTH}. {ABSENT}: "
            "sequences that the random networks did not read.",
        ),
    ]
