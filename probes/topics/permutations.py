"""Permutation tests of topics and of the diagonal, and the structure they name."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from interp.rng import generator
from probes.topics.rows import Rows
from probes.topics.words import MEMORY, Array, Ints, Words

Structure = Literal["blocks", "diagonal", "blocks and diagonal", "none"]

ALPHA = 0.01  # a structure is named at this p-value ...
FAINT = 0.1  # ... unless the other one's entries stand out this much more: blocks on a diagonal a tenth as high
MOST_PERMUTATIONS = 10**6  # more would tell a p-value no better
FEWEST_PERMUTATIONS = 99  # fewer could not reach ALPHA
BLOCK = 64  # permutations a random stream


def unit_of(spread: Array, entries: int) -> Array:
    """Root mean square of what is permuted, [S]: seeds are averaged in units of their own, so that all weigh alike."""
    size = np.sqrt(spread.mean(-1) / entries)
    return np.asarray(np.where(size > 0, size, 1.0))


def _draws(count: int) -> Iterator[tuple[int, int]]:
    """(index, size) of blocks of permutations: a block's numbers do not depend on how many follow."""
    for block in range(math.ceil(count / BLOCK)):
        yield block, min(BLOCK, count - block * BLOCK)


def topic_test(rows: Rows, words: Words, seed: int, count: int) -> tuple[Array, Array]:
    """Mean raw contrast off the diagonal [S], and under `count` relabellings [S, count]."""
    assert words.topic is not None
    n, order = rows.size, np.argsort(words.topic, kind="stable")
    topic = words.topic[order]
    first, second = np.nonzero((topic[:, None] == topic) & ~np.eye(n, dtype=bool))
    m = words.peers()[order]
    weight = ((1 / m + 1 / (n - 1 - m)) / n)[first]
    flat = rows.off.reshape(len(rows.off), -1)
    observed = flat[:, order[first] * n + order[second]] @ weight
    step = max(1, MEMORY // (len(flat) * len(first)))
    found = []
    for block, size in _draws(count):
        rng = generator(seed, "topic-labels", block)
        places = rng.permuted(np.tile(np.arange(n), (BLOCK, 1)), axis=1)[:size]
        for begin in range(0, size, step):
            part = places[begin : begin + step]
            found.append(flat[:, part[:, first] * n + part[:, second]] @ weight)
    return np.asarray(observed), np.concatenate(found, axis=1)


def diagonal_test(rows: Rows, group: Ints, seed: int, count: int) -> tuple[Array, Array]:
    """Mean own entry less the mean of its group's others [S], and with another of these in its place [S, count].

    `group` [w]: topics or clusters; a word alone in its own counts 0.
    """
    n = rows.size
    sizes = np.bincount(group)[group]
    members = np.argsort(group, kind="stable")
    begin = np.concatenate([[0], np.cumsum(np.bincount(group))[:-1]])[group]
    full = rows.off + rows.own[:, :, None] * np.eye(n)
    total = (full * (group[:, None] == group)).sum(-1)

    def excess(entry: Array, total: Array) -> Array:
        return np.asarray(((sizes * entry - total) / np.maximum(sizes - 1, 1)).mean(-1))

    found = []
    for block, size in _draws(count):
        share = generator(seed, "topic-diagonal", block).random((BLOCK, n))[:size]
        column = members[begin + np.minimum((share * sizes).astype(np.int64), sizes - 1)]
        found.append(excess(full[:, np.arange(n), column], total[:, None]))
    return excess(rows.own, total), np.concatenate(found, axis=1)


def p_value(observed: Array, permuted: Array) -> float:
    """(1 + how many are as large) / (1 + how many), of the mean over seeds: `observed` [S], `permuted` [S, count]."""
    value, drawn = observed.mean(0), permuted.mean(0)
    return float((1 + (drawn >= value - 1e-9).sum()) / (1 + len(drawn)))


def structure_of(p_topics: float, p_diagonal: float, contrast: float, excess: float) -> Structure:
    """What to call it, from both p-values and how much the entries of each kind stand out."""
    blocks = p_topics <= ALPHA and contrast > FAINT * max(excess if p_diagonal <= ALPHA else 0.0, 0.0)
    diagonal = p_diagonal <= ALPHA and excess > FAINT * max(contrast if p_topics <= ALPHA else 0.0, 0.0)
    if blocks and diagonal:
        return "blocks and diagonal"
    return "blocks" if blocks else "diagonal" if diagonal else "none"


def relabellings(sizes: Ints) -> float:
    """How many ways to split the words into topics of these sizes."""
    log = math.lgamma(int(sizes.sum()) + 1) - sum(math.lgamma(s + 1) for s in sizes.tolist())
    log -= sum(math.lgamma(k + 1) for k in np.bincount(sizes).tolist())
    return math.exp(min(log, 100.0))
