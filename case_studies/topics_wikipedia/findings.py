"""What the page of `topics-wikipedia` is made of, and the thesis's numbers beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from case_studies.topics_wikipedia.lda import WORDS, Mode, Setting, Topics
from case_studies.topics_wikipedia.length import Cut
from case_studies.topics_wikipedia.measure import Contrast, Cooccurrence, Heads, Row
from case_studies.topics_wikipedia.nine import NineWords
from case_studies.topics_wikipedia.stages import StageRuns
from case_studies.topics_wikipedia.tried import Sharing, Tried

FEWEST = WORDS[0]
SHOWN_TOPICS = 12
SHOWN_WORDS = 9

# Tables 2.3 and 2.4: cosine, dot product, attention. Bert, and the range over Bert, Albert, Bart, Electra, Roberta.
Triple = tuple[float, float, float]
BERT: dict[Mode, dict[int, Triple]] = {
    "one": {15: (1.21, 1.19, 1.32), 30: (1.13, 1.15, 1.28), 59: (1.11, 1.13, 1.22)},
    "several": {15: (1.14, 1.04, 1.23), 30: (0.97, 1.05, 1.17), 59: (0.99, 0.93, 1.13)},
}
FIVE: dict[Mode, dict[int, tuple[str, str, str]]] = {
    "one": {
        15: ("1.21-6.44", "1.19-6.81", "1.32-2.14"),
        30: ("1.13-7.70", "1.15-7.35", "1.28-2.09"),
        59: ("1.11-7.46", "1.13-8.08", "1.22-1.95"),
    },
    "several": {
        15: ("1.14-5.28", "1.04-5.01", "1.19-1.70"),
        30: ("0.97-5.56", "1.05-5.57", "1.15-1.58"),
        59: ("0.99-6.39", "0.85-5.61", "1.11-1.48"),
    },
}
RANDOM_BERT: dict[Mode, dict[int, Triple]] = {
    "one": {15: (1.00080, 1.00063, 0.99943), 30: (0.99974, 1.00036, 0.99996), 59: (1.00016, 1.00027, 1.00007)},
    "several": {15: (0.99814, 0.99957, 1.00009), 30: (0.99820, 1.00167, 1.00013), 59: (0.99964, 0.99928, 0.99978)},
}
# Table 2.5: attention of words of one topic, of co-occurring pairs; cosine of both.
COOCCURRENCE = {
    15: (0.00659, 0.00751, 0.468, 0.316),
    30: (0.00621, 0.00695, 0.461, 0.311),
    59: (0.00597, 0.00677, 0.425, 0.323),
}
TABLES: dict[Mode, str] = {"one": "2.3", "several": "2.4"}


@dataclass(frozen=True)
class Measured:
    """One encoder: its settings, heads by words per topic (one topic per word), hidden states by layer."""

    name: str
    pieces: int
    tokens: int
    pairs: Mapping[Setting, tuple[int, int]]  # of the same topic, of different ones
    rows: Mapping[Setting, Row]
    heads: Mapping[int, Heads]
    hidden: Sequence[Contrast]


@dataclass(frozen=True)
class Variant:
    """Another fit of the topics: one topic per word, the fewest words per topic."""

    name: str
    topics: int
    attention: Contrast
    cosine: Contrast


@dataclass(frozen=True)
class Findings:
    """All that the page is made of."""

    model: str
    corpus: str
    documents: int
    pieces: int
    tokens: int
    vocabulary: int
    longest: int
    topics: Topics
    passes: int
    seed: int
    names: Sequence[str]
    trained: Measured
    random: Sequence[Measured]
    cooccurrence: Sequence[Cooccurrence]
    often: Sequence[tuple[str, str]]
    variants: Sequence[Variant]
    shared: Sequence[Sharing]
    others: Sequence[Tried]
    cuts: Sequence[Cut]
    nine: NineWords
    random_nine: Sequence[NineWords]
    stages: Sequence[StageRuns]
    digests: Mapping[str, str]  # of the encoder's weights and of the corpus file
