"""Topics of a corpus by latent Dirichlet allocation, and the ambiguity filter that makes word lists of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from case_studies.topics_wikipedia.corpus import Index, gensim_part
from interp.errors import AnalysisError, RequestError
from interp.rng import generator

# The thesis's thresholds on a vocabulary of n, 29,000 <= n < 29,500, keep this many words per topic (L729-734).
PAPER_THRESHOLDS = {15: 0.0005, 30: 0.001, 59: 0.002}
WORDS = tuple(PAPER_THRESHOLDS)
Mode = Literal["one", "several"]  # topics a word
MODES: tuple[Mode, ...] = ("one", "several")


@dataclass(frozen=True)
class Topics:
    """What LDA found: `likelihood` [topic, word] of the topics in use, and `share` of the corpus of each."""

    likelihood: NDArray[np.float64]
    share: NDArray[np.float64]
    asked: int  # topics that were fitted; some end up with no document

    def top(self, topic: int, count: int) -> Index:
        """The likeliest words of a topic."""
        return kept_words(self.likelihood[topic : topic + 1], count)[0]


def fit(counts: csr_matrix, asked: int, passes: int, seed: int, *, tfidf: bool = True, unused: bool = False) -> Topics:
    """Fit `asked` topics to `counts` [document, word]; the same numbers for the same input on the same machine.

    `tfidf` weighs the counts as the released code does. A topic that leads in no document keeps the random words
    it began with and is left out, unless `unused`.
    """
    documents, words = counts.shape
    if documents < asked:
        raise RequestError(f"{documents} documents cannot carry {asked} topics: give more documents, or fewer topics")
    models = gensim_part("models")
    bags: list[list[tuple[int, float]]] = []
    for i in range(documents):
        own = slice(counts.indptr[i], counts.indptr[i + 1])
        bags.append(list(zip(counts.indices[own].tolist(), counts.data[own].tolist(), strict=True)))
    corpus: Any = list(models.TfidfModel(bags)[bags]) if tfidf else bags
    state = np.random.RandomState(int(generator(seed, "topics-wikipedia/lda").integers(2**32)))
    model = models.LdaModel(
        corpus,
        num_topics=asked,
        id2word={i: str(i) for i in range(words)},
        passes=passes,
        random_state=state,
        eval_every=None,
    )
    gamma, _ = model.inference(corpus)
    shares = np.asarray(gamma, dtype=np.float64) / np.asarray(gamma, dtype=np.float64).sum(1, keepdims=True)
    holds = np.array([len(bag) > 0 for bag in corpus])
    used = np.arange(asked) if unused else np.unique(shares[holds].argmax(1))
    if len(used) < 2:
        raise AnalysisError(
            f"of {asked} topics only {len(used)} leads in any of the {documents} documents: no contrast"
        )
    likelihood = np.asarray(model.get_topics(), dtype=np.float64)
    return Topics(likelihood[used], shares.mean(0)[used], asked)


def threshold_of_words(words: int, n: int) -> float:
    """A threshold that keeps `words` words per topic: the middle of those that do."""
    return (words - 0.5) / n


def kept_words(likelihood: NDArray[np.float64], count: int) -> Index:
    """The `count` likeliest words of each topic [topic, count]; ties go to the lower word number."""
    return np.argsort(-likelihood, axis=1, kind="stable")[:, :count]


def memberships(likelihood: NDArray[np.float64], count: int, mode: Mode) -> NDArray[np.bool_]:
    """Which word belongs to which topic [word, topic].

    Each topic keeps its `count` likeliest words. With `one` topic a word, a word that several topics keep stays
    with the one of them where its likelihood is highest (the lowest number among equals).
    """
    topics, n = likelihood.shape
    kept = np.zeros((topics, n), dtype=bool)
    np.put_along_axis(kept, kept_words(likelihood, count), True, axis=1)
    if mode == "several":
        return kept.T.copy()
    best = np.where(kept, likelihood, -np.inf).argmax(0)
    single = np.zeros_like(kept)
    single[best, np.arange(n)] = True
    return (single & kept).T.copy()


@dataclass(frozen=True)
class Labels:
    """Topic membership as bits, to compare many pairs of words: `bits` [word, 64-topic block]."""

    member: NDArray[np.bool_]
    bits: NDArray[np.uint64]

    @classmethod
    def of(cls, member: NDArray[np.bool_]) -> "Labels":
        """From `member` [word, topic]."""
        words, topics = member.shape
        padded = np.zeros((words, -(-topics // 64) * 64), dtype=bool)
        padded[:, :topics] = member
        return cls(member, np.packbits(padded, axis=1).view(np.uint64))

    @property
    def words(self) -> Index:
        """Words with a topic."""
        return np.flatnonzero(self.member.any(1))

    def same(self, i: Index, j: Index) -> NDArray[np.bool_]:
        """Whether words share a topic, elementwise."""
        return np.asarray((self.bits[i] & self.bits[j]).any(axis=1))

    def kept(self, i: Index, j: Index) -> NDArray[np.bool_]:
        """Whether both words have a topic, elementwise."""
        has = np.asarray(self.bits.any(axis=1))
        return np.asarray(has[i] & has[j])

    def pairs(self) -> Index:
        """All pairs of different words that share a topic, [pair, 2] with i < j, each once."""
        found = []
        for topic in range(self.member.shape[1]):
            words = np.flatnonzero(self.member[:, topic])
            i, j = np.triu_indices(len(words), k=1)
            found.append(np.stack([words[i], words[j]], axis=1))
        return np.unique(np.concatenate(found), axis=0).astype(np.int64)


Setting = tuple[int, Mode]


def setting_name(setting: Setting) -> str:
    """As results call it."""
    words, mode = setting
    return f"{words} words, {mode} topic{'s' if mode == 'several' else ''} a word"


def all_labels(topics: Topics, words: Sequence[int] = WORDS) -> Mapping[Setting, Labels]:
    """The word lists of Tables 2.3 (one topic per word) and 2.4 (several), by words per topic."""
    return {(w, mode): Labels.of(memberships(topics.likelihood, w, mode)) for mode in MODES for w in words}
