"""Which words count as of one topic: the grammar's topics, and what the released code looks up instead.

The released code (YuchenLi01/transformer_topic_model_LDA, `src/inspect_result.py`) asks its table of topics, whose keys
are the numbers of words, for the id of a token. Its vocabulary begins with PAD, MASK, START and END, so the id of a
word is its number plus four: each word gets the topic of the word four places after it, and the last four get none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from interp.grammars import TopicGrammar
from interp.stats import POSITIVE, Estimate, mean_over_seeds
from probes.topics import PairSums

SPECIAL = 4  # tokens before the words of the released code's vocabulary
SAME_WORD, OTHER_PLACE = "same word", "same word, other position"
SAME_TOPIC, OTHER_TOPIC = "same topic, different word", "different topic"
RELATIONS = (SAME_WORD, OTHER_PLACE, SAME_TOPIC, OTHER_TOPIC)

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Relations:
    """Mean attention over pairs of positions by relation of their words, of models of several seeds.

    `deviations`: the standard deviation over seeds, None of a single one; `ratio`: same topic (different word) over
    different topic, its null 1 of even attention.
    """

    means: Mapping[str, Estimate]
    deviations: Mapping[str, float | None]
    ratio: Estimate

    @classmethod
    def of(cls, pairs: Sequence[PairSums], labels: Labels) -> "Relations":
        """From sums of attention, one per seed, and the topic of each token [vocab]."""
        each = [by_relation(p, labels) for p in pairs]
        values = {name: np.array([one[name] for one in each]) for name in RELATIONS}
        bottom = np.where(values[OTHER_TOPIC] > 0, values[OTHER_TOPIC], np.nan)
        return cls(
            {name: mean_over_seeds(v, support=POSITIVE) for name, v in values.items()},
            {name: float(v.std(ddof=1)) if len(v) > 1 else None for name, v in values.items()},
            mean_over_seeds(values[SAME_TOPIC] / bottom, support=POSITIVE).with_null(1.0),
        )


def released_labels(grammar: TopicGrammar) -> Labels:
    """The topic that the released code finds for each token [vocab]; -1 for [MASK] and where it finds none."""
    found = np.arange(grammar.num_words) + SPECIAL
    topic = np.where(found < grammar.num_words, found // grammar.words_per_topic, -1)
    return np.concatenate([[-1], topic]).astype(np.int64)


def released_vocabulary(grammar: TopicGrammar, released: bool) -> Labels:
    """The topic of each token of the released code's own vocabulary, `SPECIAL` tokens and the words; -1 where none.

    By the words' topics, or `released`, by what its code looks up: there START, whose id is 2, has the first topic.
    """
    if released:
        ids = np.arange(grammar.num_words + SPECIAL)
        return np.where(ids < grammar.num_words, ids // grammar.words_per_topic, -1).astype(np.int64)
    return np.concatenate([np.full(SPECIAL, -1), grammar.topic_of[1:]]).astype(np.int64)


def by_relation(pairs: PairSums, labels: Labels) -> dict[str, float]:
    """Mean attention of each of `RELATIONS` under these labels; NaN where there is no such pair of positions.

    As in the released code, a pair of the same word is one whatever its topic, and a pair of different words counts
    only if both have one.
    """
    known = (labels[:, None] >= 0) & (labels >= 0)
    same, itself = labels[:, None] == labels, np.eye(len(labels), dtype=bool)
    word = pairs.sums[itself].sum(), pairs.counts[itself].sum()
    sums = {
        SAME_WORD: word,
        OTHER_PLACE: (word[0] - pairs.own_sums.sum(), word[1] - pairs.own_counts.sum()),
        SAME_TOPIC: _of(pairs, known & same & ~itself),
        OTHER_TOPIC: _of(pairs, known & ~same & ~itself),
    }
    return {name: float(total / count) if count else float("nan") for name, (total, count) in sums.items()}


def share_on_one_word(pairs: PairSums, labels: Labels) -> float:
    """Of the attention within a topic, what its most attended word gets: mean over topics; even attention: 1 / v.

    Table 2.1's means do not tell attention to a topic from attention to one word of it.
    """
    means, found = pairs.means(), []
    for topic in np.unique(labels[labels >= 0]):
        own = labels == topic
        received = means[np.ix_(own, own)].sum(0)
        found.append(received.max() / received.sum() if received.sum() > 0 else np.nan)
    return float(np.mean(found))


def _of(pairs: PairSums, which: NDArray[np.bool_]) -> tuple[float, float]:
    return float(pairs.sums[which].sum()), float(pairs.counts[which].sum())
