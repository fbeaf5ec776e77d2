"""Contexts as numbers, counting predictors, and stationary laws: what the laws of this world are made of.

A *context* is what a token is drawn given: the tokens of its parents. Its *code* is the number that they write in base
`states`, the earliest parent's digit first; -1 stands for a token that was drawn given nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TINY = 1e-300  # of a probability that is 0 but for rounding


def codes(tokens: Ints, parents: Ints, states: int) -> Ints:
    """Code of each token's context [string, pos]; `parents` [pos, order] are positions, all -1 for none."""
    order = parents.shape[1]
    digits = tokens[:, np.maximum(parents, 0)]
    return np.where((parents >= 0).all(1), digits @ states ** np.arange(order)[::-1], -1)


def surprise(tokens: Ints, contexts: Ints, size: int, states: int, beta: float) -> Floats:
    """Nats [string, pos] of each token for who counts: (n + beta) / (total + states beta) among the earlier tokens of
    the same context [string, pos], of which there are `size`. Without a context every state is as likely.

    With rows ~ Dirichlet(beta), drawn independently, that is the posterior mean given these transitions.
    """
    rows, n = tokens.shape
    counts = np.zeros((rows, size, states), dtype=np.float32)
    each, out = np.arange(rows), np.full(tokens.shape, np.log(states))
    for at in range(n):
        known = contexts[:, at] >= 0
        if not known.any():
            continue
        context, token = np.maximum(contexts[:, at], 0), tokens[:, at]
        seen = counts[each, context].astype(float)
        share = (seen[each, token] + beta) / (seen.sum(1) + states * beta)
        out[:, at] = np.where(known, -np.log(share), out[:, at])
        counts[each, context, token] += known
    return out


def predictions(tokens: Ints, contexts: Ints, size: int, states: int, beta: float) -> Floats:
    """What who counts predicts after each token [string, pos, state]. `contexts` [string, pos + 1]: of each token, and
    of the one that follows the last. `surprise` is minus the logarithm of these at the tokens that came."""
    rows, n = tokens.shape
    counts, each = np.zeros((rows, size, states)), np.arange(rows)
    out = np.full((rows, n, states), 1 / states)
    for at in range(n):
        known, context = contexts[:, at] >= 0, np.maximum(contexts[:, at], 0)
        counts[each, context, tokens[:, at]] += known
        following = contexts[:, at + 1]
        seen = counts[each, np.maximum(following, 0)]
        share = (seen + beta) / (seen.sum(-1, keepdims=True) + states * beta)
        out[:, at] = np.where((following >= 0)[:, None], share, out[:, at])
    return out


def kernels(rng: np.random.Generator, count: int, size: int, states: int, beta: float) -> Floats:
    """A kernel [context, state] for each of `count` strings: rows ~ Dirichlet(beta), all independent."""
    weights = np.maximum(rng.standard_gamma(beta, (count, size, states)), TINY)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def choose(kernel: Floats, uniforms: Floats) -> Ints:
    """A state [string] of each law [string, state], by a uniform number [string] each."""
    edges = kernel.cumsum(-1)[:, :-1]
    return np.asarray((uniforms[:, None] >= edges).sum(-1))


def stationary(chain: Floats) -> Floats:
    """The stationary law [..., state] of transition matrices [..., state, state].

    By the algorithm of Grassmann, Taksar and Heyman, which subtracts nothing: every entry is right to its last digits,
    however rarely a chain leaves a state.
    """
    chain = np.array(chain, dtype=float)
    n = chain.shape[-1]
    for last in range(n - 1, 0, -1):
        leave = np.maximum(chain[..., last, :last].sum(-1), TINY)
        chain[..., :last, last] /= leave[..., None]
        chain[..., :last, :last] += chain[..., :last, last, None] * chain[..., last, None, :last]
    law = np.zeros(chain.shape[:-1])
    law[..., 0] = 1.0
    for state in range(1, n):
        law[..., state] = (law[..., :state] * chain[..., :state, state]).sum(-1)
    return np.asarray(law / law.sum(-1, keepdims=True))


def chain_of_contexts(kernel: Floats, states: int) -> Floats:
    """The transition matrix [string, context, context] of the contexts of a chain: each moves on by one token."""
    count, size, _ = kernel.shape
    chain = np.zeros((count, size, size))
    here = np.repeat(np.arange(size), states)
    state = np.tile(np.arange(states), size)
    chain[:, here, (here * states + state) % size] = kernel[:, here, state]
    return chain


def drawn_often(tokens: Ints, contexts: Ints, size: int, states: int, beta: float) -> Floats:
    """Log probability [string] of all tokens that have a context, the kernel integrated out: a product over contexts
    of Dirichlet-multinomial laws. The others count log(1 / states) each."""
    from scipy.special import gammaln  # not before it is needed: lists and help load no scipy

    total = np.full(len(tokens), -np.log(states)) * (contexts < 0).sum(1)
    for context in range(size):
        counts = np.stack([((contexts == context) & (tokens == state)).sum(1) for state in range(states)], axis=1)
        total += gammaln(states * beta) - gammaln(counts.sum(1) + states * beta)
        total += (gammaln(counts + beta) - gammaln(beta)).sum(1)
    return np.asarray(total)


def next_labels(nats: Any) -> Floats:
    """Nats of each token, moved to the position before, which predicts it."""
    return np.concatenate([nats[:, 1:], np.zeros((len(nats), 1))], axis=1)
