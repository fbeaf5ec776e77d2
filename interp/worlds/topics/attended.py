"""Stage 2 with [MASK] among what is attended to: the exact loss of the uniform-block W^V, and its best attention.

`TopicTheory.loss_block` follows the thesis: attention is normalised over words alone, while [MASK] keeps the share
p_m (1 - p_c - p_r) of the attended vector that it has under even attention. A softmax does not do that: whatever words
of the own topic gain, [MASK] loses too. Here all weights of a query are normalised together. Infinite documents of tau
topics, squared loss, W^V of Theorem 2.1.2. Imports no torch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from interp.errors import RequestError, quoted
from interp.worlds.topics.search import least_value
from interp.worlds.topics.theory import Array, TopicTheory


class AttendedOptimum(NamedTuple):
    """The best weights of a word of the own topic (mean) and of [MASK], both by that of another topic; the loss."""

    gamma: float
    mask_weight: float
    loss: float


def block_loss(theory: TopicTheory, gamma: ArrayLike, tau: int, mask_weight: ArrayLike = 1.0) -> Array:
    """Loss of the uniform-block W^V where [MASK] is attended to, counted as in `TopicTheory.loss_block`.

    `gamma`, which broadcasts with `mask_weight`: mean weight of a word of the shown word's topic; `mask_weight`: of
    [MASK]. Both are in units of the weight of a word of another topic. With both 1, attention is even and every share
    is what `loss_block` takes it for.
    """
    g, mu = (np.asarray(x, dtype=np.float64) for x in (gamma, mask_weight))
    for name, x in (("gamma", g), ("mask_weight", mu)):
        if not (np.isfinite(x).all() and (x >= 0).all()):
            raise RequestError(f"{name}={quoted(x.tolist())} holds something other than finite numbers of at least 0")
    topics, v = theory.num_topics, theory.words_per_topic
    present, absent = v * theory.p1(tau), v * theory.p2  # shares of a whole topic
    # A word of a topic in the document is shown; of one that is not.
    own, seen, square = _predictions(theory, (present * g, present, absent), (tau - 1, topics - tau), mu)
    loss = (theory.keep_prob + theory.random_prob / topics) * (square - 2 * own)
    loss = loss + theory.random_prob * (tau - 1) / topics * (square - 2 * seen)
    _, seen, square = _predictions(theory, (absent * g, present, absent), (tau, topics - tau - 1), mu)
    return np.asarray(loss + theory.random_prob * (1 - tau / topics) * (square - 2 * seen))


def _predictions(
    theory: TopicTheory, shares: tuple[Array, float, float], others: tuple[int, int], mask_weight: Array
) -> tuple[Array, Array, Array]:
    """Prediction for a word of the own topic, and of another that is present; 1 + the sum of all squares."""
    own, present, absent = shares
    total = own + others[0] * present + others[1] * absent + mask_weight * theory.mask_share
    mask = mask_weight * theory.mask_share / total
    always = theory.W_i0 * mask + theory.W_diff * (1 - mask)
    each = [always + theory.c3 / theory.words_per_topic * x / total for x in (own, present, absent)]
    squares = each[0] ** 2 + others[0] * each[1] ** 2 + others[1] * each[2] ** 2
    return each[0], each[1], 1 + theory.words_per_topic * squares


def best_block(theory: TopicTheory, tau: int, mask_weight: float | None = 1.0) -> AttendedOptimum:
    """The best gamma where [MASK] has this weight, 1: that of a word of another topic; None: its own best one."""
    if theory.keep_prob + theory.random_prob == 0:
        raise RequestError("keep_prob=0, random_prob=0: every chosen position shows [MASK], and attention is free")
    if mask_weight is not None:
        gamma, loss = least_value(lambda g: block_loss(theory, g, tau, mask_weight), 1)
        return AttendedOptimum(float(gamma[0]), float(mask_weight), float(loss[0]))
    weight, loss = least_value(
        lambda mu: least_value(lambda g: block_loss(theory, g, tau, mu[0][:, None]), mu.shape[1])[1][None], 1, points=41
    )
    best = best_block(theory, tau, float(weight[0]))
    return AttendedOptimum(best.gamma, float(weight[0]), float(loss[0]))
