"""What W^V should become under even attention: closed forms, families of optima, exact losses (stage 1).

Li, Li, Risteski 2023, *How do Transformers learn topic structure*; thesis section 2.1 and its proofs (L433-1010).
Words are infinite documents' (Assumption 2.1.1), the loss is squared and summed over the vocabulary. Matrices are
[predicted word i, attended word l] with [MASK] first, word w of topic t at 1 + t v + w. Imports no torch.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import whole_number
from interp.errors import RequestError, quoted
from interp.limits import check_memory
from interp.numeric_arrays import real_array

Array = NDArray[np.float64]
Family = Literal["value", "embedding"]


@dataclass(frozen=True)
class FamilyFit:
    """A matrix beside the member of a family of optima that is nearest to it.

    `projection` [n, n]; `offsets` [n]: its u_0..u_Tv; `distance`: Frobenius; `relative`: the same divided by the norm
    of the matrix, None for the zero matrix.
    """

    projection: Array
    offsets: Array
    distance: float
    relative: float | None


@dataclass(frozen=True)
class ValueTheory:
    """T topics of v words; a position is chosen with p_m, then keeps its word with p_c, gets a random one with p_r.

    Names follow the thesis: `a`, `c1`, `c2`, `c3` of Theorem 2.1.2 (L491-495; c3 is c4 in the proofs on attention),
    `p1`, `p2` of eqs. 2.18-2.19. The thesis asks for probabilities in (0, 1); p_c = 0 and p_r = 0 are
    let in, since no step of the proofs for uniform attention divides by them.
    """

    num_topics: int
    words_per_topic: int
    mask_prob: float = 0.15
    keep_prob: float = 0.1
    random_prob: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("num_topics", 2), ("words_per_topic", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        for name in ("mask_prob", "keep_prob", "random_prob"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < 1:
                raise RequestError(f"{name}={quoted(value)} is not a probability below 1")
            object.__setattr__(self, name, float(value))
        if self.mask_prob == 0:
            raise RequestError("mask_prob=0 leaves nothing to predict: the theory needs 0 < mask_prob < 1")
        if self.keep_prob + self.random_prob >= 1:
            raise RequestError(
                f"keep_prob={self.keep_prob} + random_prob={self.random_prob} is not below 1: the theory needs [MASK] "
                "to be shown at times"
            )

    @classmethod
    def from_grammar(cls, grammar: Any) -> Self:
        """The theory of a `TopicGrammar`. Its law of topics does not matter: the block equations do not hold it."""
        names = ("num_topics", "words_per_topic", "mask_prob", "keep_prob", "random_prob")
        if missing := [name for name in names if not hasattr(grammar, name)]:
            raise RequestError(f"{type(grammar).__name__} has no {missing[0]}: a TopicGrammar is needed")
        return cls(*(getattr(grammar, name) for name in names))

    # -- constants --------------------------------------------------------------------------------

    @property
    def num_words(self) -> int:
        """Tv."""
        return self.num_topics * self.words_per_topic

    @property
    def vocab_size(self) -> int:
        """Words and [MASK]."""
        return self.num_words + 1

    @cached_property
    def topic_of(self) -> NDArray[np.int64]:
        """Topic of each token [Tv + 1], -1 for [MASK]."""
        topics = np.repeat(np.arange(self.num_topics), self.words_per_topic)
        out = np.concatenate([[-1], topics]).astype(np.int64)
        out.setflags(write=False)  # one array for all who ask
        return out

    @property
    def mask_share(self) -> float:
        """p_m (1 - p_c - p_r): how much of a document shows [MASK] (eq. 2.17)."""
        return self.mask_prob * (1 - self.keep_prob - self.random_prob)

    @property
    def a(self) -> float:
        """1 - (1 - p_c) p_m: how much of a document shows its own word, and not by chance."""
        return 1 - (1 - self.keep_prob) * self.mask_prob

    @property
    def c1(self) -> float:
        """p_r / ((1 - p_c - p_r) a T v)."""
        return self.random_prob / ((1 - self.keep_prob - self.random_prob) * self.a * self.num_words)

    @property
    def c2(self) -> float:
        """1 / ((1 - p_c - p_r) p_m) - 1."""
        return 1 / self.mask_share - 1

    @property
    def c3(self) -> float:
        """1 / a: what same-topic entries of a row sum to, less what those of any other topic sum to."""
        return 1 / self.a

    @property
    def p2(self) -> float:
        """p_m p_r / (v T): share of a word whose topic is absent (eq. 2.19)."""
        return self.mask_prob * self.random_prob / self.num_words

    def p1(self, tau: int) -> float:
        """a / (v tau) + p2: share of a word whose topic is one of the `tau` present (eq. 2.18)."""
        return self.a / (self.words_per_topic * self._tau(tau)) + self.p2

    def _tau(self, tau: int) -> int:
        if isinstance(tau, bool) or not isinstance(tau, (int, np.integer)) or not 1 <= tau <= self.num_topics:
            raise RequestError(
                f"tau={quoted(tau)} topics per document: a whole number from 1 to {self.num_topics} is needed"
            )
        return int(tau)

    # -- stage 1: W^V under uniform attention -----------------------------------------------------

    @property
    def W_diff(self) -> float:
        """Entry of Theorem 2.1.2 for a word of another topic."""
        return -(self.c1 * self.c2 + self.c3) / (self.c2**2 + self.num_words)

    @property
    def W_same(self) -> float:
        """Entry of Theorem 2.1.2 for a word of the same topic, itself included."""
        return self.W_diff + self.c3 / self.words_per_topic

    @property
    def W_i0(self) -> float:
        """Entry of Theorem 2.1.2 for [MASK]."""
        return (self.c2 * self.c3 - self.c1 * self.num_words) / (self.c2**2 + self.num_words)

    def _check_pairs(self) -> None:
        """Refuse a matrix with a number per pair of words that would not fit; closed forms need none."""
        check_memory(f"a matrix of {self.num_words} words", 40 * self.num_words**2, "take fewer topics or words")

    def value_matrix(self) -> Array:
        """W^V* [Tv + 1, Tv + 1] of Theorem 2.1.2 (L479-495): the optimum of least norm."""
        self._check_pairs()
        same = self.topic_of[:, None] == self.topic_of
        out = np.where(same, self.W_same, self.W_diff)
        out[0], out[1:, 0] = 0.0, self.W_i0
        return np.asarray(out)

    def diagonal_value_matrix(self) -> Array:
        """D^V [Tv + 1, Tv + 1] of Definition 2.1.2 (L1287-1291).

        The only optimum whose words are 0 off the diagonal, up to row 0, which the definition leaves free: here 0.
        """
        self._check_pairs()
        out = np.diag(np.full(self.vocab_size, self.c3))
        out[0, 0], out[1:, 0] = 0.0, -self.c1
        return out

    def project(self, matrix: ArrayLike, family: Family = "value") -> FamilyFit:
        """The member of a family of optima nearest to `matrix` [Tv + 1, Tv + 1] in the Frobenius norm.

        `value`: all minimisers W^V (Lemma 2.1.1, Theorem 2.1.4; L754-770). `embedding`: the Gram matrices W_E^T W_E of
        Theorem 2.1.1 (L433-453), that is the same with c1 = 0. There the bias takes c1's part: b_i = -p_m p_r / (a T v)
        for the words, and 0 for [MASK]: the statement's "for all i" would spoil row 0, and the proof (L903-988) uses
        i >= 1 only. A Gram matrix is also symmetric and positive: the distance to those members may be larger.

        Both families free an offset u_i a row and all that leaves the sum over a topic's columns as it is.
        """
        if family not in ("value", "embedding"):
            raise RequestError(f"family={quoted(family)} is neither 'value' nor 'embedding'")
        w = self._matrix(matrix)
        shift = np.full(self.vocab_size, self.c1 if family == "value" else 0.0)
        shift[0] = 0.0
        v, blocks = self.words_per_topic, self._block_means(w)
        excess = blocks - self._targets() / v
        # Per row: minimise v sum_t (excess_t - u)^2 + (w_0 + shift + c2 u)^2 over u.
        u = (v * excess.sum(1) - self.c2 * (w[:, 0] + shift)) / (self.num_words + self.c2**2)
        out = w.copy()
        out[:, 0] = -shift - self.c2 * u
        out[:, 1:] -= np.repeat(excess - u[:, None], v, axis=1)
        distance, norm = frobenius(w - out), frobenius(w)
        return FamilyFit(out, u, distance, distance / norm if norm > 0 else None)

    def block_sum_contrast(self, matrix: ArrayLike) -> Array:
        """Per word [Tv]: sum over its topic's columns less the mean sum over another topic's; c3 in every optimum."""
        sums = self._block_means(self._matrix(matrix))[1:] * self.words_per_topic
        own = sums[np.arange(self.num_words), self.topic_of[1:]]
        return np.asarray(own - (sums.sum(1) - own) / (self.num_topics - 1))

    def stage_one_loss(self, matrix: ArrayLike, tau: int) -> Any:
        """Exact expected squared loss of f = W X~ A with uniform attention, over all sets of `tau` topics.

        `matrix` [..., Tv + 1, Tv + 1]; a float, or an array of the leading shape. Its least value is 1 - 1 / (tau v).
        The first and second moments of "topic t is in the document" are all that a quadratic needs.
        """
        tau, w = self._tau(tau), self._matrices(matrix)
        count, v = self.num_topics, self.words_per_topic
        always = self.mask_share * w[..., 0] + self.p2 * w[..., 1:].sum(-1)
        # What one present topic adds to prediction minus P_w(i), [..., row, topic].
        each = self.a / tau * self._block_means(w) - self._own() / (tau * v)
        once, twice = tau / count, tau * (tau - 1) / (count * (count - 1))
        total = each.sum(-1)
        square = always**2 + 2 * once * always * total + (once - twice) * (each**2).sum(-1) + twice * total**2
        loss = square.sum(-1) + self.least_stage_one_loss(tau)
        return float(loss) if loss.ndim == 0 else loss

    def least_stage_one_loss(self, tau: int) -> float:
        """What every optimum of stage 1 loses: the spread of the word at a position, 1 - 1 / (tau v)."""
        return 1 - 1 / (self._tau(tau) * self.words_per_topic)

    def _targets(self) -> Array:
        """What a row's columns of each topic sum to, less u_i v: [Tv + 1, T]."""
        return self.c3 * self._own()

    def _own(self) -> Array:
        """1 where a token is of a topic, [Tv + 1, T]."""
        return np.asarray((self.topic_of[:, None] == np.arange(self.num_topics)).astype(np.float64))

    def _block_means(self, w: Array) -> Array:
        """Mean over each topic's columns, [..., row, topic]."""
        return np.asarray(w[..., 1:].reshape(*w.shape[:-1], self.num_topics, self.words_per_topic).mean(-1))

    def _matrices(self, matrix: ArrayLike) -> Array:
        w, size = real_array(matrix, "the matrix", RequestError), self.vocab_size
        if w.ndim < 2 or w.shape[-2:] != (size, size):
            raise RequestError(
                f"a matrix of shape {list(w.shape)} is not [{size}, {size}]: [MASK] and {self.num_topics} x "
                f"{self.words_per_topic} words"
            )
        if not np.isfinite(w).all():
            raise RequestError(f"entry {np.argwhere(~np.isfinite(w))[0].tolist()} of the matrix is not finite")
        return w

    def _matrix(self, matrix: ArrayLike) -> Array:
        w = self._matrices(matrix)
        if w.ndim != 2:
            raise RequestError(f"one matrix is needed, not a stack of shape {list(w.shape)}")
        return w


def frobenius(matrix: Array) -> float:
    """Frobenius norm, of large and small numbers too, whose squares would be infinite or 0."""
    exponent = int(np.frexp(np.abs(matrix).max(initial=0.0))[1])
    return math.ldexp(float(np.linalg.norm(np.ldexp(matrix, -exponent))), exponent)
