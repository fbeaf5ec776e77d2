"""In-context Markov chains of order 1 and k (slides of seed 003, L2397-2429 and L2480-2502).

A string has a kernel of its own, whose rows are drawn from a Dirichlet law; its first tokens are drawn from the
stationary law, or evenly, and each further token given the last `order`. Every token but the first is a label: what
follows is to be predicted, and counting in context is how. With even first tokens the add-beta count of the right order
is Bayes. A stationary first token tells a little of the kernel, for which there is no closed form: then no exact law is
stated, and the count is a rung like others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.constraints import Annotated, doc
from interp.errors import GrammarError, quoted
from interp.rng import check_draw
from interp.worlds.markov.base import InContext, Length, Order, lagged
from interp.worlds.markov.counts import (
    TINY,
    Floats,
    Ints,
    chain_of_contexts,
    choose,
    codes,
    kernels,
    next_labels,
    predictions,
    stationary,
)

MOST_STATIONARY = 128  # contexts of a chain whose stationary law is found for every string
First = Annotated[Literal["stationary", "uniform"], doc("law of the first tokens")]
GRAMS = ("unigram", "bigram", "trigram")


@dataclass(frozen=True)
class MarkovGrammar(InContext):
    """Chains of `length` tokens. `first`: the first `order` tokens are drawn from the stationary law, or evenly.

    Every string has a kernel of its own, whose rows are drawn from Dirichlet(`beta`); a token follows from the `order`
    tokens before it. Losses are in nats. Source: tutorial slides, after Edelman et al. 2024.
    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "markov"

    first: First = "stationary"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length <= self.order:
            raise GrammarError(f"length={self.length} leaves no token after the first order={self.order}")
        if self.first == "stationary" and self.contexts_count > MOST_STATIONARY:
            raise GrammarError(
                f"first='stationary' with states={self.states}, order={self.order} is the law of "
                f"{self.contexts_count} contexts, and {MOST_STATIONARY} are the most: take first='uniform'"
            )

    @classmethod
    def small(cls) -> "MarkovGrammar":
        """Strings of six that begin evenly, all of which can be listed, for checks."""
        return cls(length=6, first="uniform")

    # -- truth ------------------------------------------------------------------------------------

    def _parents_of(self, n: int) -> Ints:
        """The `order` positions before each of `n` [n, order], rising; -1 for the first `order` positions."""
        return lagged(n, np.arange(self.order, 0, -1))

    def _asked_of(self, n: int) -> NDArray[np.bool_]:
        """All positions: each is asked for the token that follows."""
        return np.ones(n, dtype=bool)

    # -- law --------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` strings [count, length]."""
        return self.draw_all(rng, count)[0]

    def draw_all(self, rng: np.random.Generator, count: int) -> tuple[Ints, Floats]:
        """Strings [count, length] and the kernel [count, context, state] of each."""
        size, k = self.contexts_count, self.order
        chain = 2 * size**2 if self.first == "stationary" else 0
        count = check_draw(rng, count, 3 * size * self.states + chain + 2 * self.length)
        kernel = kernels(rng, count, size, self.states, self.beta)
        uniforms = rng.random((count, self.length - k + 1))
        law = self._first_law(kernel)
        context = choose(law, uniforms[:, 0])
        tokens = np.zeros((count, self.length), dtype=np.int64)
        tokens[:, :k] = context[:, None] // self.states ** np.arange(k)[::-1] % self.states
        each = np.arange(count)
        for at in range(k, self.length):
            tokens[:, at] = choose(kernel[each, context], uniforms[:, at - k + 1])
            context = (context * self.states + tokens[:, at]) % size
        return tokens, kernel

    def _first_law(self, kernel: Floats) -> Floats:
        """Law of the first `order` tokens [string, context]."""
        if self.first == "uniform":
            return np.full(kernel.shape[:2], 1 / self.contexts_count)
        return stationary(chain_of_contexts(kernel, self.states))

    @property
    def law_nll(self) -> Callable[[ArrayLike], Floats]:
        """Nats at each label of the exact law. Only where `first` is "uniform": else there is no such attribute."""
        if self.first != "uniform":
            raise AttributeError("first='stationary' has no closed form of the law: the add-beta counts come close")
        return self.posterior

    def rungs(self, tokens: Ints) -> dict[str, Floats]:
        """Nats at each label [string, pos]: uniform, the add-beta count in context of each order up to the chain's, and
        of each single earlier token."""
        tokens = self.ids(tokens)
        found = {"uniform": np.full(tokens.shape, np.log(self.states))}
        for order in range(self.order + 1):
            found[gram(order)] = self._count(tokens, np.arange(order, 0, -1))
        return found | {f"lag-{lag} bigram": self._count(tokens, [lag]) for lag in range(2, self.order + 1)}

    def _count(self, tokens: Ints, lags: ArrayLike) -> Floats:
        lags = np.asarray(lags, dtype=np.int64)
        contexts = codes(tokens, lagged(tokens.shape[1], lags), self.states) if lags.size else np.zeros_like(tokens)
        return self._counted(tokens, contexts, self.states**lags.size)

    def predictions(self, tokens: Ints) -> dict[str, Floats]:
        """What each rung but that of the kernel predicts after each token [string, pos, state], by its name."""
        tokens = self.ids(tokens)
        lags = {"uniform": None} | {gram(order): np.arange(order, 0, -1) for order in range(self.order + 1)}
        lags |= {f"lag-{lag} bigram": np.array([lag]) for lag in range(2, self.order + 1)}
        longer = np.concatenate([tokens, tokens[:, :1]], axis=1)  # the last token's successor, of no matter which state
        found = {}
        for name, given in lags.items():
            size = 1 if given is None else self.states**given.size
            if given is None:
                contexts = np.full(longer.shape, -1)
            elif given.size:
                contexts = codes(longer, lagged(longer.shape[1], given), self.states)
            else:
                contexts = np.zeros_like(longer)
            found[name] = predictions(tokens, contexts, size, self.states, self.beta)
        return found

    def latent_rungs(self, rng: np.random.Generator, count: int) -> dict[str, Floats]:
        """{"kernel": nats at each label of a predictor that knows the kernel}, of the strings `draw` gives here."""
        tokens, kernel = self.draw_all(rng, count)
        each, contexts = np.arange(count)[:, None], self.contexts(tokens)
        chance = kernel[each, np.maximum(contexts, 0), tokens]
        law = self._first_law(kernel)
        head = tokens[:, : self.order] @ self.states ** np.arange(self.order)[::-1]
        shares = [np.ones(count)]
        for at in range(1, self.order + 1):  # of the first `at` tokens together
            of = law.reshape(count, self.states**at, self.states ** (self.order - at)).sum(-1)
            shares.append(of[np.arange(count), head // self.states ** (self.order - at)])
            chance[:, at - 1] = shares[-1] / np.maximum(shares[-2], TINY)
        return {"kernel": next_labels(-np.log(np.maximum(chance, TINY)))}

    def classes(self, tokens: Ints) -> dict[str, NDArray[np.bool_]]:
        """Where the context was there before; and the second half of a string, where counts are large."""
        tokens = self.ids(tokens)
        late = np.broadcast_to(np.arange(tokens.shape[1]) >= tokens.shape[1] // 2, tokens.shape)
        return {"seen": np.asarray(self.matches(tokens).any(-1)), "late": late}

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, length] of a small instance that begins evenly, and their probabilities [n]."""
        if self.first != "uniform":
            raise GrammarError(
                f"first={quoted(self.first)} has no closed form of the law: list strings of first='uniform'"
            )
        return self.listed(self.length)


@dataclass(frozen=True)
class OrderGrammar(MarkovGrammar):
    """The same of a higher order, with longer strings, as the slides have it for order k (L2769-2773, L2895-2897).

    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "markov-k"

    order: Order = 2
    length: Length = 128
    first: First = "uniform"

    @classmethod
    def small(cls) -> "OrderGrammar":
        """Strings of seven that begin evenly, all of which can be listed, for checks."""
        return cls(length=7)


def gram(order: int) -> str:
    """What a count of tokens after `order` earlier ones is called."""
    return GRAMS[order] if order < len(GRAMS) else f"{order + 1}-gram"
