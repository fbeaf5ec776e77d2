"""What the attention of a one-layer Transformer should learn from topic models (stage 2), above the theory of W^V.

Li, Li, Risteski 2023, *How do Transformers learn topic structure*; thesis section 2.1 and its proofs (L1129-1430):
exact losses of frozen W^V over attention ratios, their optima, and the bounds of the theorems. Conventions are those of
`interp.worlds.topics.value_theory`. Imports no torch.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from interp.errors import RequestError, quoted
from interp.numbers import number
from interp.numeric_arrays import real_array
from interp.worlds.topics.search import SEARCH, least_value
from interp.worlds.topics.value_theory import Array, ValueTheory

GRID = tuple(np.logspace(-4, 7, 111).tolist())  # Figs 2.7 and 2.8: both axes from 1e-4 to 1e7 (L678, L690)


class BlockOptimum(NamedTuple):
    """The best gamma under the uniform-block W^V, and its loss."""

    gamma: float
    loss: float


class DiagonalOptimum(NamedTuple):
    """The best (alpha, beta) under the diagonal W^V, and its loss."""

    alpha: float
    beta: float
    loss: float


@dataclass(frozen=True)
class TopicTheory(ValueTheory):
    """The theory of W^V, and of attention where W^V is frozen at an optimum of it.

    `lambda1`..`lambda5` are those of Theorems 2.1.3 and 2.1.5.
    """

    # -- stage 2: attention under a frozen W^V ----------------------------------------------------

    def q(self, x: Any) -> Any:
        """What W^V makes of the attended share x of a word (or mean over its topic): (x - p2) / a (L1157)."""
        return (x - self.p2) / self.a

    def loss_block(self, gamma: ArrayLike, tau: int) -> Any:
        """Loss of the uniform-block W^V as a function of gamma = (v - 1)/v alpha + beta/v (L1159-1213).

        Same word : same topic : other topic = beta : alpha : 1 are the attention weights of a shown word
        (Assumption 2.1.2). Counted are the chosen positions that do not show [MASK], a share p_c + p_r of all chosen:
        the others do not depend on gamma. As in the thesis, attention is normalised over words alone (Proposition
        2.1.2) while [MASK] keeps its share p_m (1 - p_c - p_r) of the attended vector in q: an approximation
        unless gamma = 1. `interp.worlds.topics.attended` has the exact loss. A float, or an array of gamma's shape.
        """
        g, tau = self._ratio("gamma", gamma), self._tau(tau)
        topics, v, p1, p2, q = self.num_topics, self.words_per_topic, self.p1(tau), self.p2, self.q
        z1 = v * (p1 * (g + tau - 1) + p2 * (topics - tau))
        z2 = v * (p1 * tau + p2 * (g + topics - tau - 1))
        self._normalised(z1)
        present, absent = v * (tau - 1), v * (topics - tau)
        # The shown word is of the true word's topic.
        loss = (self.keep_prob + self.random_prob / topics) * (
            (1 - q(p1 * g / z1)) ** 2
            + q(p1 * g / z1) ** 2 * (v - 1)
            + q(p1 / z1) ** 2 * present
            + q(p2 / z1) ** 2 * absent
        )
        # It is of another topic that is present.
        loss = loss + self.random_prob * (tau - 1) / topics * (
            (1 - q(p1 / z1)) ** 2 + q(p1 * g / z1) ** 2 * v + q(p1 / z1) ** 2 * (present - 1) + q(p2 / z1) ** 2 * absent
        )
        # It is of a topic that is absent.
        loss = loss + self.random_prob * (1 - tau / topics) * (
            (1 - q(p1 / z2)) ** 2
            + q(p1 / z2) ** 2 * (v * tau - 1)
            + q(p2 * g / z2) ** 2 * v
            + q(p2 / z2) ** 2 * (absent - v)
        )
        return float(loss) if np.ndim(loss) == 0 else loss

    def loss_diagonal(self, alpha: ArrayLike, beta: ArrayLike, tau: int) -> Any:
        """Loss of the diagonal W^V as a function of alpha and beta, which broadcast (L1317-1387); see `loss_block`."""
        al, b, tau = self._ratio("alpha", alpha), self._ratio("beta", beta), self._tau(tau)
        topics, v, p1, p2, q = self.num_topics, self.words_per_topic, self.p1(tau), self.p2, self.q
        z1 = p1 * (b + al * (v - 1) + v * (tau - 1)) + p2 * v * (topics - tau)
        z2 = p2 * (b + al * (v - 1) + v * (topics - tau - 1)) + p1 * v * tau
        self._normalised(z1)
        present, absent = v * (tau - 1), v * (topics - tau)
        rest = q(p2 / z1) ** 2 * absent
        # The shown word is the true one.
        loss = (self.keep_prob + self.random_prob / self.num_words) * (
            (1 - q(p1 * b / z1)) ** 2 + q(p1 * al / z1) ** 2 * (v - 1) + q(p1 / z1) ** 2 * present + rest
        )
        # It is another of the same topic.
        loss = loss + self.random_prob / topics * (1 - 1 / v) * (
            (1 - q(p1 * al / z1)) ** 2
            + q(p1 * b / z1) ** 2
            + q(p1 * al / z1) ** 2 * (v - 2)
            + q(p1 / z1) ** 2 * present
            + rest
        )
        # It is of another topic that is present.
        loss = loss + self.random_prob * (tau - 1) / topics * (
            (1 - q(p1 / z1)) ** 2
            + q(p1 * b / z1) ** 2
            + q(p1 * al / z1) ** 2 * (v - 1)
            + q(p1 / z1) ** 2 * (present - 1)
            + rest
        )
        # It is of a topic that is absent.
        loss = loss + self.random_prob * (1 - tau / topics) * (
            (1 - q(p1 / z2)) ** 2
            + q(p1 / z2) ** 2 * (v * tau - 1)
            + q(p2 * b / z2) ** 2
            + q(p2 * al / z2) ** 2 * (v - 1)
            + q(p2 / z2) ** 2 * (absent - v)
        )
        return float(loss) if np.ndim(loss) == 0 else loss

    def best_block(self, tau: int) -> BlockOptimum:
        """gamma*: ever finer grids on a log axis close in on the best cell; 0 where that is better."""
        self._attended()
        gamma, loss = least_value(lambda x: self.loss_block(x, tau), 1)
        self._bounded("gamma", gamma[0])
        return BlockOptimum(float(gamma[0]), float(loss[0]))

    def best_diagonal(self, tau: int) -> DiagonalOptimum:
        """(alpha*, beta*): as `best_block` over alpha, with the best beta of each alpha.

        With many words per topic (T = 100, v = 300, say) less same-topic attention is always better: alpha* = 0. The
        loss hardly feels alpha there: at alpha = 1 it is 7e-7 higher.
        """
        self._attended()

        def beta_of(alpha: Array) -> tuple[Array, Array]:
            return least_value(lambda beta: self.loss_diagonal(alpha[:, None], beta, tau), len(alpha))

        alphas, loss = least_value(lambda x: beta_of(x[0])[1][None], 1, points=41)
        beta, _ = beta_of(alphas)
        self._bounded("alpha", alphas[0])
        self._bounded("beta", beta[0])
        return DiagonalOptimum(float(alphas[0]), float(beta[0]), float(loss[0]))

    def landscape(
        self,
        kind: Literal["block", "diagonal"],
        tau: int,
        alphas: ArrayLike = GRID,
        betas: ArrayLike = GRID,
    ) -> Array:
        """Loss [alpha, beta] on a grid: Fig. 2.7 (diagonal W^V) and Fig. 2.8 (uniform blocks).

        The thesis gives T = 100, v = 300 and no masking probabilities (L674); p_m = .15, p_c = p_r = .1 are its others.
        """
        al, b = self._ratio("alphas", alphas), self._ratio("betas", betas)
        if al.ndim != 1 or b.ndim != 1:
            raise RequestError(f"alphas {list(al.shape)} and betas {list(b.shape)} are not two axes")
        if kind == "diagonal":
            return np.asarray(self.loss_diagonal(al[:, None], b, tau))
        if kind == "block":
            v = self.words_per_topic
            return np.asarray(self.loss_block((v - 1) / v * al[:, None] + b / v, tau))
        raise RequestError(f"kind={quoted(kind)} is neither 'block' nor 'diagonal'")

    # -- bounds of Theorems 2.1.3 and 2.1.5 -------------------------------------------------------

    @property
    def lambda1(self) -> float:
        """gamma* > lambda1 (tau - 1), as the proof gives it: (a + p_m p_r)(1 - 2 (1 - p_c) p_m) / (2a) (L1221-1225)."""
        return (self.a + self.mask_prob * self.random_prob) * (2 * self.a - 1) / (2 * self.a)

    @property
    def lambda1_printed(self) -> float:
        """The statement's value (L532-534), which its proof does not give: (a + p_m p_r)(1 + (1 - p_c) p_m) / (2a)."""
        return (self.a + self.mask_prob * self.random_prob) * (2 - self.a) / (2 * self.a)

    @property
    def lambda2(self) -> float:
        """gamma* < lambda2 T: 100 (a / (p_m p_r) + 1). Without random words nothing bounds gamma*: infinite."""
        random = self.mask_prob * self.random_prob
        return 100 * (self.a / random + 1) if random > 0 else math.inf

    @property
    def lambda3(self) -> float:
        """beta* > lambda3 tau: (a + p_m p_r) v / 100."""
        return (self.a + self.mask_prob * self.random_prob) * self.words_per_topic / 100

    @property
    def lambda4(self) -> float:
        """beta* < lambda4 T: a / (sqrt(v - 1) - 1 - a) (a + p_m p_r) v / (p_m p_r). Needs v > (1 + a)^2 + 1."""
        v, random = self.words_per_topic, self.mask_prob * self.random_prob
        room = math.sqrt(v - 1) - 1 - self.a
        if room <= 0:
            raise RequestError(
                f"words_per_topic={v} is too few for an upper bound on beta: more than "
                f"{number((1 + self.a) ** 2 + 1, 2)} are "
                "needed"
            )
        return self.a / room * (self.a + random) / random * v if random > 0 else math.inf

    @property
    def lambda5(self) -> float:
        """alpha* < lambda5 beta*: 1 / ((v - 1) a)."""
        if self.words_per_topic == 1:
            raise RequestError("words_per_topic=1: no other word shares a topic, and alpha means nothing")
        return 1 / ((self.words_per_topic - 1) * self.a)

    def _ratio(self, name: str, value: ArrayLike) -> Array:
        x = real_array(value, name, RequestError)
        if x.size == 0 or not np.isfinite(x).all() or (x < 0).any():
            shown = quoted(value) if x.ndim == 0 else "an array that"
            raise RequestError(f"{name}={shown} holds something other than finite numbers of at least 0")
        return x

    def _normalised(self, z1: Array) -> None:
        if (z1 <= 0).any():
            raise RequestError("attention ratios of 0 leave a word with nothing to attend to: raise alpha, beta or tau")

    def _attended(self) -> None:
        if self.keep_prob + self.random_prob == 0:
            raise RequestError("keep_prob=0, random_prob=0: every chosen position shows [MASK], and attention is free")

    def _bounded(self, name: str, best: float) -> None:
        if best > 10 ** (SEARCH[1] - 0.5):
            raise RequestError(
                f"{name} has no finite optimum with keep_prob={self.keep_prob}, random_prob={self.random_prob}: more "
                "attention always lowers the loss"
            )
