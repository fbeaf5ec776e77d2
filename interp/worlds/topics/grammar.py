"""Topic models: documents whose words come from a few of T disjoint topics, masked for prediction.

Li, Li, Risteski 2023, *How do Transformers learn topic structure*; thesis section 2.1 (L304-331, L554). Token 0 is
[MASK]; word w of topic t is token 1 + t v + w. There is no START and no padding: a model without positions sees a
document as a bag of words.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.constraints import Annotated, Interval, check_fields, doc
from interp.errors import GrammarError, quoted
from interp.rng import check_draw, generator

Law = Literal["lda", "idealised"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MASK_TEXT = "[MASK]"
MOST_WORDS, MOST_SUBSETS = 20_000, 5_000
LONGEST = 10_000  # words of a document


@dataclass(frozen=True)
class Documents:
    """Documents of several lengths. Arrays [document, position]; -1 beyond a document's end.

    `words`: true tokens. `shown`: what a model sees. `chosen`: positions to predict (the set M).
    """

    words: Ints
    shown: Ints
    chosen: NDArray[np.bool_]

    @property
    def lengths(self) -> Ints:
        """Positions of each document."""
        return np.asarray((self.words >= 0).sum(1))


@dataclass(frozen=True)
class TopicGrammar:
    """T topics of v words each, all disjoint.

    - `law`: `lda` (each document draws topic proportions from a symmetric Dirichlet(`alpha`)) or `idealised` (each
      document has `topics_per_document` distinct topics in equal proportions). Words of a topic are equally likely.
    - Document lengths are uniform on `min_length`..`max_length`.
    - Each position is chosen with `mask_prob`; a chosen position shows its own word with `keep_prob`, a word drawn
      uniformly from all Tv with `random_prob` (it may be its own, never [MASK]), else [MASK].

    Source: Li et al. 2023, section 2; thesis section 2.1.

        >>> from interp import TopicGrammar
        >>> grammar = TopicGrammar(num_topics=2, words_per_topic=2)
        >>> grammar.vocab, grammar.topic_of.tolist()
        (('[MASK]', 't0w0', 't0w1', 't1w0', 't1w1'), [-1, 0, 0, 1, 1])

    Raises `GrammarError` for numbers that make no grammar; methods for words that it does not have.
    """

    KIND: ClassVar[str] = "topics"
    has_start: ClassVar[bool] = False

    num_topics: Annotated[int, Interval(ge=1), doc("topics")] = 10
    words_per_topic: Annotated[int, Interval(ge=1), doc("words of each topic")] = 10
    law: Annotated[Law, doc("how a document gets its topics")] = "lda"
    alpha: Annotated[float, Interval(ge=1e-3, le=1e6), doc("parameter of the Dirichlet law of topic proportions")] = 0.1
    topics_per_document: Annotated[int, Interval(ge=1), doc("topics of a document of law='idealised'")] = 2
    min_length: Annotated[int, Interval(ge=1, le=LONGEST), doc("smallest number of words of a document")] = 100
    max_length: Annotated[int, Interval(ge=1, le=LONGEST), doc("largest number of words of a document")] = 150
    mask_prob: Annotated[float, Interval(ge=0, le=1), doc("probability that a position is to be predicted")] = 0.15
    keep_prob: Annotated[float, Interval(ge=0, le=1), doc("probability that such a position shows its word")] = 0.1
    random_prob: Annotated[float, Interval(ge=0, le=1), doc("probability that it shows a random word")] = 0.1

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)
        if self.num_topics * self.words_per_topic > MOST_WORDS:
            raise GrammarError(
                f"num_topics={self.num_topics} times words_per_topic={self.words_per_topic} is more than {MOST_WORDS}"
            )
        if self.law == "idealised" and self.topics_per_document > self.num_topics:
            raise GrammarError(
                f"topics_per_document={self.topics_per_document} is more than num_topics={self.num_topics}"
            )
        if self.min_length > self.max_length:
            raise GrammarError(f"min_length={self.min_length}, max_length={self.max_length}: lengths rise")
        if self.mask_prob == 0:
            raise GrammarError(f"mask_prob={quoted(self.mask_prob)} is not within (0, 1]: nothing would be predicted")
        if self.keep_prob + self.random_prob > 1:
            raise GrammarError(
                f"keep_prob={quoted(self.keep_prob)}, random_prob={quoted(self.random_prob)} are not shares that sum "
                "to 1 at most"
            )

    # -- vocabulary -------------------------------------------------------------------------------

    mask: ClassVar[int] = 0

    @property
    def num_words(self) -> int:
        """Tv."""
        return self.num_topics * self.words_per_topic

    @property
    def vocab_size(self) -> int:
        """Words and [MASK]."""
        return self.num_words + 1

    @property
    def topic_of(self) -> Ints:
        """Topic of each token [vocab]; -1 for [MASK]."""
        return np.concatenate([[-1], np.repeat(np.arange(self.num_topics), self.words_per_topic)]).astype(np.int64)

    @property
    def vocab(self) -> tuple[str, ...]:
        """Token texts: [MASK], then t0w0, t0w1, ..."""
        words = (f"t{t}w{w}" for t in range(self.num_topics) for w in range(self.words_per_topic))
        return (MASK_TEXT, *words)

    def tokenize(self, text: str) -> Ints:
        """Ids of words separated by white space."""
        if not isinstance(text, str):
            raise GrammarError(f"{quoted(text)} is not a text of words, such as 't0w0 t3w1 [MASK]'")
        known = {word: i for i, word in enumerate(self.vocab)}
        out = []
        for place, word in enumerate(text.split()):
            if word not in known:
                raise GrammarError(
                    f"word {place} is {quoted(word)}: known are {MASK_TEXT} and t0w0 to "
                    f"t{self.num_topics - 1}w{self.words_per_topic - 1}"
                )
            out.append(known[word])
        if not out:
            raise GrammarError("an empty document has nothing to attend to")
        return np.array(out, dtype=np.int64)

    def to_tokens(self, texts: str | Sequence[str]) -> Ints:
        """One document or several of one length, [batch, pos]. There is no padding token."""
        given = [texts] if isinstance(texts, str) else texts
        if not isinstance(given, (list, tuple)) or not all(isinstance(text, str) for text in given):
            raise GrammarError(f"{quoted(texts)} is neither a text nor a list of texts, such as 't0w0 t3w1 [MASK]'")
        rows = [self.tokenize(text) for text in given]
        if not rows:
            raise GrammarError("no documents were given")
        lengths = [len(row) for row in rows]
        if len(set(lengths)) > 1:
            other = next(n for n in lengths if n != lengths[0])
            raise GrammarError(f"documents of {lengths[0]} and {other} words: one call takes documents of one length")
        return np.stack(rows)

    def format(self, tokens: ArrayLike) -> str:
        """Text of one row of ids."""
        ids, vocab = np.asarray(tokens), self.vocab
        if ids.dtype.kind not in "iu" or (ids.size and int(ids.max()) >= self.vocab_size):
            raise GrammarError(f"{quoted(tokens)} are not token ids from 0 to {self.vocab_size - 1}")
        return " ".join(vocab[i] for i in ids.ravel().tolist() if i >= 0)

    # -- drawing ----------------------------------------------------------------------------------

    def sample(self, count: int, *, seed: int, stream: str = "documents") -> Documents:
        """`count` documents with their masks: a pure function of its arguments."""
        return self.draw(generator(seed, stream), count)

    def draw(self, rng: np.random.Generator, count: int) -> Documents:
        """`count` documents from a generator."""
        count = check_draw(rng, count, 12.5 * self.max_length + 3 * self.num_topics)
        width = self.max_length
        lengths = rng.integers(self.min_length, self.max_length + 1, count)
        topic = self._topics(rng, count, width)
        words = 1 + topic * self.words_per_topic + rng.integers(0, self.words_per_topic, (count, width))
        fate = rng.random((count, width))  # below mask_prob: chosen; its position in there decides what is shown
        random = rng.integers(1, self.num_words + 1, (count, width))
        inside = np.arange(width) < lengths[:, None]
        chosen = (fate < self.mask_prob) & inside
        share = fate / self.mask_prob
        keep, other = share < self.keep_prob, share < self.keep_prob + self.random_prob
        shown = np.where(~chosen | keep, words, np.where(other, random, self.mask))
        return Documents(np.where(inside, words, -1), np.where(inside, shown, -1), chosen)

    def _topics(self, rng: np.random.Generator, count: int, width: int) -> Ints:
        """Topic of each position [count, width]."""
        if self.law == "idealised":
            order = rng.random((count, self.num_topics)).argsort(1)[:, : self.topics_per_document]
            return np.asarray(np.take_along_axis(order, rng.integers(0, self.topics_per_document, (count, width)), 1))
        # Gamma variates rather than Dirichlet's own: a small alpha can round every one of them to 0.
        weights = rng.standard_gamma(self.alpha, (count, self.num_topics))
        empty = weights.sum(1) == 0
        weights[empty, rng.integers(0, self.num_topics, count)[empty]] = 1.0
        edges = np.cumsum(weights, axis=1)
        edges /= edges[:, -1:]
        place = rng.random((count, width))
        # One sorted search for all documents: document i's edges lie in (i, i + 1].
        flat = (edges[:, :-1] + np.arange(count)[:, None]).ravel()
        found = np.searchsorted(flat, (place + np.arange(count)[:, None]).ravel(), side="right").reshape(place.shape)
        return np.asarray(found - np.arange(count)[:, None] * (self.num_topics - 1))

    # -- exact law --------------------------------------------------------------------------------

    def topic_subsets(self) -> Ints:
        """Every document type of the idealised law, [subset, topics_per_document], all equally likely."""
        if self.law != "idealised":
            raise GrammarError("the exact law needs law='idealised': Dirichlet proportions have no finite list")
        number = math.comb(self.num_topics, self.topics_per_document)
        if number > MOST_SUBSETS:
            raise GrammarError(f"{number} sets of topics are more than the {MOST_SUBSETS} an exact law goes through")
        return np.array(list(itertools.combinations(range(self.num_topics), self.topics_per_document)))

    def word_law(self) -> Floats:
        """P(word) in each infinite document, [subset, vocab] (Assumption 2.1.1)."""
        subsets = self.topic_subsets()
        law = np.zeros((len(subsets), self.vocab_size))
        for row, topics in zip(law, subsets, strict=True):
            row[np.isin(self.topic_of, topics)] = 1 / (self.topics_per_document * self.words_per_topic)
        return law

    def shown_law(self, words: Floats) -> Floats:
        """Frequencies of what is shown of documents with word frequencies `words` [..., vocab] (eqs. 2.17-2.19)."""
        words = self._frequencies(words)
        shown = (1 - self.mask_prob * (1 - self.keep_prob)) * words
        shown = shown + self.mask_prob * self.random_prob * np.r_[0.0, np.full(self.num_words, 1 / self.num_words)]
        shown[..., self.mask] = self.mask_prob * (1 - self.keep_prob - self.random_prob)
        return np.asarray(shown)

    def _frequencies(self, words: Any) -> Floats:
        try:
            given = np.asarray(words, dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            given = np.zeros(0)
        if given.ndim == 0 or given.shape[-1] != self.vocab_size:
            raise GrammarError(f"words={quoted(words)} are no frequencies of {self.vocab_size} words [..., vocab]")
        return given

    @classmethod
    def small(cls) -> "TopicGrammar":
        """Three topics of four words in short documents, for checks."""
        return cls(num_topics=3, words_per_topic=4, min_length=12, max_length=16)

    # -- as data ----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TopicGrammar":
        """The grammar `to_dict` described. Raises `GrammarError` unless exactly its keys are there."""
        expected = {"kind", *(field.name for field in fields(cls))}
        keys = set(data) if isinstance(data, Mapping) else set()
        if keys != expected or data["kind"] != cls.KIND:
            raise GrammarError(
                f"{quoted(data)} is no {cls.__name__}: kind {quoted(cls.KIND)} and the keys {sorted(expected)}"
            )
        return cls(**{name: value for name, value in data.items() if name != "kind"})
