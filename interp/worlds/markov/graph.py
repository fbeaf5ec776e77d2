"""Causal graphs: each token of a string is drawn given its parents in a graph that all strings share.

Slides of seed 003, L2594-2646 and L2728-2773; the law of the query follows Nichani, Damian and Lee 2024 (arXiv
2402.14735): the last `order` tokens are fresh and even, and the one label is what the kernel draws after them. Who
reads the string has to count, over the tokens of the graph, what followed the same values of the parents. Tokens
without parents are even here, so that this count with add-beta is Bayes (there they are stationary where there is one
parent).
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.constraints import Annotated, Interval, doc
from interp.errors import GrammarError
from interp.rng import MAX_SEED, check_draw, generator
from interp.worlds.markov.base import InContext, Length, States, lagged
from interp.worlds.markov.counts import TINY, Floats, Ints, choose, codes, kernels, next_labels

Graph = Literal["chain", "pairs", "random"]


@dataclass(frozen=True)
class CausalGraphGrammar(InContext):
    """`length` tokens, of which the last `order` are the query, and the token that answers it.

    `graph` says which `order` earlier tokens are the parents of a token of the graph, all before the query: the tokens
    just before it (`chain`), those of its group of `order` + 1, which has one child (`pairs`), or earlier ones drawn
    evenly with the seed `graph_seed` (`random`). The first `order` tokens have none. The parents of the answer are the
    query, its digits in the order of their positions, as for all.

    Source: Nichani et al. 2024.
    Raises `GrammarError` for numbers that make no grammar; methods for texts and ids that break it.
    """

    KIND: ClassVar[str] = "causal-graph"

    states: States = 3
    length: Length = 13
    beta: Annotated[float, Interval(ge=0.05, le=1e3), doc("parameter of the Dirichlet law of a kernel's rows")] = 0.5
    graph: Annotated[Graph, doc("which earlier tokens are parents")] = "random"
    graph_seed: Annotated[int, Interval(ge=0, le=MAX_SEED), doc("seed of graph='random'")] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length <= 2 * self.order:
            raise GrammarError(
                f"length={self.length}, order={self.order}: no token is left between the first {self.order}, which "
                f"have no parents, and the query of {self.order}"
            )

    @classmethod
    def small(cls) -> "CausalGraphGrammar":
        """Strings of seven and the answer, all of which can be listed, for checks."""
        return cls(states=3, length=7)

    # -- truth ------------------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """Tokens of the graph, which come first."""
        return self.length - self.order

    def _parents_of(self, n: int) -> Ints:
        """The parents of each of `n` positions [n, order], rising; -1 without (the first tokens, the query)."""
        every = np.full((max(n, self.length + 1), self.order), -1)
        every[: self.length + 1] = _parents(self.graph, self.graph_seed, self.length, self.order)
        return every[:n]

    def _asked_of(self, n: int) -> NDArray[np.bool_]:
        """The last token of the query alone [n]."""
        return np.arange(n) == self.length - 1

    # -- law --------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """`count` strings [count, length + 1], the answer last."""
        return self.draw_all(rng, count)[0]

    def draw_all(self, rng: np.random.Generator, count: int) -> tuple[Ints, Floats]:
        """Strings [count, length + 1] and the kernel [count, context, state] of each."""
        count = check_draw(rng, count, 3 * self.contexts_count * self.states + 3 * self.length)
        kernel = kernels(rng, count, self.contexts_count, self.states, self.beta)
        uniforms = rng.random((count, self.length + 1))
        tokens = (uniforms * self.states).astype(np.int64)
        parents, digits = self.parents_of(self.length + 1), self.states ** np.arange(self.order)[::-1]
        for at in np.flatnonzero((parents >= 0).all(1)):
            law = kernel[np.arange(count), tokens[:, parents[at]] @ digits]
            tokens[:, at] = choose(law, uniforms[:, at])
        return tokens, kernel

    def draw_laws(self, rng: np.random.Generator, count: int) -> Floats:
        """The laws [count, state] of the answers of the strings that `draw` draws from this state."""
        return self.draw_with_laws(rng, count)[1]

    def draw_with_laws(self, rng: np.random.Generator, count: int) -> tuple[Ints, Floats]:
        """The strings that `draw` draws from this state, and the laws [count, state] of their answers."""
        tokens, kernel = self.draw_all(rng, count)
        return tokens, kernel[np.arange(count), self.contexts(tokens)[:, -1]]

    def law_nll(self, tokens: ArrayLike) -> Floats:
        """Nats at the label of the exact law [string, pos]: the add-beta count over the graph."""
        return self.posterior(tokens)

    def rungs(self, tokens: Ints) -> dict[str, Floats]:
        """Nats at the label [string, pos]: uniform; add-beta counts of states, of states after the tokens just before
        them (which is the law where the graph is a chain), and, of several parents, after each alone."""
        tokens = self.ids(tokens)
        n = tokens.shape[1]
        parents, free = self.parents_of(n), np.arange(n)[:, None] < self.order
        query = (np.arange(n) >= self.nodes) & (np.arange(n) < self.length)
        found = {"uniform": np.full(tokens.shape, np.log(self.states))}
        found["unigram"] = self._counted(tokens, np.where(query, -1, np.zeros_like(tokens)), 1)
        before = np.where(query[:, None] | free, -1, lagged(n, np.arange(self.order, 0, -1)))
        found["tokens before"] = self._counted(tokens, codes(tokens, before, self.states), self.contexts_count)
        for one in range(self.order if self.order > 1 else 0):
            alone = codes(tokens, parents[:, one : one + 1], self.states)
            found[f"parent {one + 1} alone"] = self._counted(tokens, alone, self.states)
        return found

    def latent_rungs(self, rng: np.random.Generator, count: int) -> dict[str, Floats]:
        """{"kernel": nats at the label of a predictor that knows the kernel}, of the strings `draw` gives here."""
        tokens, kernel = self.draw_all(rng, count)
        chance = kernel[np.arange(count)[:, None], np.maximum(self.contexts(tokens), 0), tokens]
        return {"kernel": next_labels(-np.log(np.maximum(chance, TINY)))}

    def classes(self, tokens: Ints) -> dict[str, NDArray[np.bool_]]:
        """Where a token of the graph has parents with the values of the query."""
        return {"seen": np.asarray(self.matches(tokens).any(-1))}

    def enumerate(self) -> tuple[Ints, Floats]:
        """All strings [n, length + 1] of a small instance, and their probabilities [n]."""
        return self.listed(self.length + 1)


@cache
def _parents(graph: Graph, seed: int, length: int, order: int) -> Ints:
    """Parents [length + 1, order] of all positions, rising; -1 without."""
    out = np.full((length + 1, order), -1)
    source = generator(seed, "causal graph")
    for at in range(order, length - order):
        near = np.arange(at - order, at)
        if graph == "random":
            out[at] = np.sort(source.choice(at, order, replace=False))
        elif graph == "chain" or at % (order + 1) == order:
            out[at] = near
    out[length] = np.arange(length - order, length)
    out.flags.writeable = False
    return out
