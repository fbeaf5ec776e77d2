"""Law and truth of a fixed binary first-order Markov chain. Imports no torch."""

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval, doc
from numpy.typing import ArrayLike, NDArray

from interp.constraints import check_fields, from_fields
from interp.errors import GrammarError, quoted
from interp.numeric_arrays import real_array, token_ids
from interp.rng import check_draw
from interp.training.layout import IGNORE
from interp.vocabulary import cut, padded, texts_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_LISTED = 16  # tokens of strings that can all be listed


def binary_entropy(probability: float) -> float:
    """Entropy of a coin, nats."""
    return -sum(x * math.log(x) for x in (probability, 1 - probability) if x > 0)


@dataclass(frozen=True)
class BinaryChain:
    """Strings of `length` states 0 and 1; one kernel for all: P(1 after 0) = p, P(0 after 1) = q.

    The first state has the stationary law (q, p) / (p + q), and the label of each position is the next state
    (Makkuva's slides, L1800-1819). At p + q = 1 states are independent; above, the chain tends to switch.

    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "binary-chain"
    vocab: ClassVar[tuple[str, ...]] = ("0", "1")
    vocab_size: ClassVar[int] = 2

    p: Annotated[float, Interval(gt=0, lt=1), doc("probability of state 1 after 0")] = 0.5
    q: Annotated[float, Interval(gt=0, lt=1), doc("probability of state 0 after 1")] = 0.8
    length: Annotated[int, Interval(ge=2, le=4096), doc("states of a string")] = 32

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)

    # -- strings --------------------------------------------------------------------------------------------

    def to_tokens(self, texts: Any) -> Ints:
        """Ids [batch, pos] of one text or several of one length, such as "0110"."""
        ids = {name: i for i, name in enumerate(self.vocab)}
        return padded([cut(text, ids) for text in texts_of(texts, "0110")], None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BinaryChain":
        """Inverse of `to_dict`. Raises `GrammarError` unless exactly its keys are there."""
        made: BinaryChain = from_fields(cls, data, GrammarError)
        return made

    @classmethod
    def small(cls) -> "BinaryChain":
        """An instance all of whose strings can be listed, for checks."""
        return cls(0.3, 0.6, 6)

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` strings [count, length]."""
        count = check_draw(rng, count, 5 * self.length)
        return self.from_uniforms(rng.random((count, self.length)))

    def from_uniforms(self, uniforms: ArrayLike) -> Ints:
        """The strings that uniform numbers [..., length] make: state n is 1 where number n is below P(1 | state n - 1).

        Below both probabilities it is 1 and above both it is 0, whatever was there; between them the state is kept
        (p + q < 1) or switched. So a state is that of the last such reset, switched as often as was done since.
        """
        u = real_array(uniforms, "uniform numbers", GrammarError)
        if not u.ndim or not u.shape[-1] or not ((u >= 0) & (u <= 1)).all():
            raise GrammarError(f"uniforms={quoted(uniforms)} are no numbers [..., length] from 0 to 1")
        low, high = min(self.p, 1 - self.q), max(self.p, 1 - self.q)
        reset = (u < low) | (u >= high)
        value = u < low
        reset[..., 0], value[..., 0] = True, u[..., 0] < self.stationary[1]
        last = np.maximum.accumulate(np.where(reset, np.arange(u.shape[-1]), 0), axis=-1)
        states = np.take_along_axis(value, last, axis=-1)
        if self.p + self.q > 1:
            switches = np.cumsum(~reset, axis=-1)
            states = states ^ ((switches - np.take_along_axis(switches, last, axis=-1)) % 2 == 1)
        return states.astype(np.int64)

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [2 ** length, length] and their probabilities. Raises `GrammarError` for long ones."""
        if self.length > MOST_LISTED:
            raise GrammarError(
                f"length={quoted(self.length)}: strings of more than {MOST_LISTED} states are too many to be listed"
            )
        tokens = (np.arange(2**self.length)[:, None] >> np.arange(self.length)[::-1]) & 1
        steps = self.kernel[tokens[:, :-1], tokens[:, 1:]]
        return tokens, np.asarray(self.stationary)[tokens[:, 0]] * steps.prod(1)

    # -- labels, law, rungs ---------------------------------------------------------------------------------

    def labels(self, tokens: ArrayLike) -> Ints:
        """The next state at each position [..., pos], -100 at the last."""
        states = token_ids(tokens, 2)
        return np.concatenate([states[..., 1:], np.full((*states.shape[:-1], 1), IGNORE)], axis=-1)

    def law_nll(self, tokens: ArrayLike) -> Floats:
        """Surprise (nats) of the next state under the kernel [..., pos]; 0 at the last position."""
        states = token_ids(tokens, 2)
        return self._at_labels(-np.log(self.kernel)[states[..., :-1], states[..., 1:]])

    def rungs(self, tokens: ArrayLike) -> dict[str, Floats]:
        """Surprise (nats) of the next state under both states alike, and under the stationary law (the unigram)."""
        after = token_ids(tokens, 2)[..., 1:]
        return {
            "uniform": self._at_labels(np.full(after.shape, math.log(2))),
            "unigram": self._at_labels(-np.log(np.asarray(self.stationary))[after]),
        }

    def classes(self, tokens: ArrayLike) -> dict[str, NDArray[np.bool_]]:
        """Where the current state is 0, and where it is 1."""
        states = token_ids(tokens, 2)
        return {"after_0": states == 0, "after_1": states == 1}

    def _at_labels(self, nats: Floats) -> Floats:
        return np.concatenate([nats, np.zeros((*nats.shape[:-1], 1))], axis=-1)

    # -- closed forms ---------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Floats:
        """[state, next state] (L1811)."""
        return np.array([[1 - self.p, self.p], [self.q, 1 - self.q]])

    @property
    def stationary(self) -> tuple[float, float]:
        """Probabilities of the states 0 and 1 (L1811)."""
        return self.q / (self.p + self.q), self.p / (self.p + self.q)

    @property
    def eigenvalue(self) -> float:
        """The second of the kernel, 1 - p - q: correlation of neighbours, negative where the chain switches."""
        return 1 - (self.p + self.q)

    @property
    def unigram_loss(self) -> float:
        """H(pi), nats: what the best constant prediction loses (L2001)."""
        return binary_entropy(self.stationary[1])

    @property
    def entropy_rate(self) -> float:
        """pi_0 h(p) + pi_1 h(q), nats: what the kernel itself loses, and no predictor less."""
        return self.stationary[0] * binary_entropy(self.p) + self.stationary[1] * binary_entropy(self.q)

    @property
    def log_odds_gap(self) -> float:
        """log-odds of state 1 after 1 less those after 0: log((1 - p)(1 - q) / (p q)), which models have to learn."""
        share = self.eigenvalue / (self.p * self.q)
        if abs(share) < 0.5:  # exactly 0 where states are independent
            return math.log1p(share)
        return math.log1p(-self.p) + math.log1p(-self.q) - math.log(self.p) - math.log(self.q)

    # -- truth ----------------------------------------------------------------------------------------------

    def run_start(self, tokens: ArrayLike) -> Ints:
        """Where the current run of equal states began [..., pos]."""
        states = token_ids(tokens, 2)
        begins = np.ones(states.shape, dtype=bool)
        begins[..., 1:] = states[..., 1:] != states[..., :-1]
        return np.maximum.accumulate(np.where(begins, np.arange(states.shape[-1]), 0), axis=-1)
