"""Blind recovery: topics found from the matrix alone, and how well they agree with the labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from interp.errors import RequestError
from interp.rng import generator
from interp.stats import Estimate, Support
from probes.core import jackknife, mean_over_seeds
from probes.topics.rows import Rows
from probes.topics.words import Array, Ints

RAND: Support = (-0.5, 1.0)


def adjusted_rand(labels: ArrayLike, clusters: ArrayLike) -> float:
    """Adjusted Rand index of two partitions [n]: 1 for equal ones, 0 on average for unrelated ones of these sizes."""
    return float(_adjusted_rand(*_table(labels, clusters)))


def _table(labels: ArrayLike, clusters: ArrayLike) -> tuple[Any, Any, Any, int]:
    """Pairs that agree in both, in the one, in the other, and the number of things."""
    a, b = np.unique(labels, return_inverse=True)[1], np.unique(clusters, return_inverse=True)[1]
    if a.shape != b.shape or a.ndim != 1:
        raise RequestError(f"partitions of {np.size(labels)} and {np.size(clusters)} things cannot be compared")
    joint = np.bincount(a * (b.max(initial=0) + 1) + b)
    pairs = [float((x * (x - 1) / 2).sum()) for x in (joint, np.bincount(a), np.bincount(b))]
    return pairs[0], pairs[1], pairs[2], len(a)


def _adjusted_rand(both: Any, left: Any, right: Any, count: int) -> Any:
    pairs = count * (count - 1) / 2
    expected = left * right / pairs if pairs else 0.0
    room = (left + right) / 2 - expected
    # No room: both put all in one, or each apart. Then they are equal.
    return np.where(room > 1e-12, (both - expected) / np.where(room > 1e-12, room, 1.0), 1.0)


def _rand_without(labels: Ints, clusters: Ints) -> Array:
    """The index with each thing left out in turn, [n]."""
    both, left, right, count = _table(labels, clusters)
    a, b = np.unique(labels, return_inverse=True)[1], np.unique(clusters, return_inverse=True)[1]
    cell = a * (b.max() + 1) + b
    fewer = [np.bincount(x)[x] - 1 for x in (cell, a, b)]
    return np.asarray(_adjusted_rand(both - fewer[0], left - fewer[1], right - fewer[2], count - 1))


def rand_estimate(topic: Ints, clusters: Sequence[Ints]) -> Estimate:
    """Adjusted Rand index over seeds; for one matrix over words, by a jackknife."""
    if len(clusters) > 1:
        return mean_over_seeds([adjusted_rand(topic, found) for found in clusters], support=RAND)
    # Drawing words with replacement would pair a word with itself; leaving one out does not.
    value, without = adjusted_rand(topic, clusters[0]), _rand_without(topic, clusters[0])
    return jackknife(value, without, over="words", support=RAND)


def _affinity(off: Array) -> Array:
    """Symmetric [w, w] from one matrix without its diagonal: rows of equal weight, columns centred like rows."""
    n = len(off)
    keep = ~np.eye(n, dtype=bool)
    out = off.copy()
    for _ in range(10):  # an additive model of rows and columns with a hole on the diagonal; settles at once
        out = (out - out.sum(0) / (n - 1)) * keep
        out = (out - out.sum(1, keepdims=True) / (n - 1)) * keep
    norm = np.linalg.norm(out, axis=1)
    floor = 1e-9 * max(float(np.abs(off).max(initial=0.0)), 1e-300)
    out = np.where(norm[:, None] > floor, out / np.where(norm > floor, norm, 1.0)[:, None], 0.0)
    return np.asarray((out + out.T) / 2)


class Spectrum:
    """Leading eigenvectors of an affinity, each as long as its eigenvalue: k topics have k - 1 of them."""

    def __init__(self, off: Array, most: int):
        values, vectors = np.linalg.eigh(_affinity(off))
        top = np.argsort(-values, kind="stable")[: max(most - 1, 1)]
        lengths = np.where(values[top] > 1e-9, values[top], 0.0)
        vectors = vectors[:, top]
        signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(len(top))])  # eigenvectors have none of their own
        self.places = vectors * signs * lengths

    def clusters(self, count: int) -> Ints:
        """Ward's linkage cut into `count`; one where there is nothing to tell words apart."""
        from scipy.cluster.hierarchy import fcluster, linkage

        places = self.places[:, : max(count - 1, 1)]
        if not places.any() or count < 2:
            return np.zeros(len(places), dtype=np.int64)
        return np.asarray(fcluster(linkage(places, "ward"), count, "maxclust") - 1, dtype=np.int64)


def estimate_count(off: Array, seed: int) -> int:
    """How many clusters: as many as explain most within rows, if that is more than in 19 shuffled matrices; else 1.

    "Same cluster or not" splits a row in two however many clusters there are, so numbers of clusters compare.
    """
    n = len(off)
    most = min(n // 2, 60)
    counts = sorted({k for k in range(2, most + 1) if k <= 20 or k % 5 == 0})

    def best(matrix: Array) -> tuple[float, int]:
        spectrum, rows = Spectrum(matrix, most), Rows(matrix[None], np.zeros((1, n)), np.zeros(1, dtype=np.int64))
        found = []
        for k in counts:
            clusters = spectrum.clusters(k)
            sizes = np.bincount(clusters)
            if len(sizes) < 2:
                return 0.0, 1
            apart = np.where(sizes[clusters] == 1, -1 - np.arange(n), clusters)  # alone: no same-cluster pair
            found.append((_explained(rows, apart), -k))
        value, k = max(found)
        return value, -k

    if n < 4 or not counts:
        return 1
    value, count = best(off)
    keep = ~np.eye(n, dtype=bool)
    for draw in range(19):
        shuffled = np.zeros_like(off)
        shuffled[keep] = generator(seed, "topic-clusters", draw).permuted(off[keep].reshape(n, n - 1), axis=1).ravel()
        if best(shuffled)[0] >= value:
            return 1
    return count


def _explained(rows: Rows, clusters: Ints) -> float:
    """Share of the spread within rows, diagonal left out, that "same cluster" explains where same is more."""
    n = rows.size
    same = (clusters[:, None] == clusters) & ~np.eye(n, dtype=bool)
    m = same.sum(1)
    s = (rows.off[0] * same).sum(1)
    inside = (m > 0) & (m < n - 1)
    top = (s**2 * (1 / np.maximum(m, 1) + 1 / np.maximum(n - 1 - m, 1)) * np.sign(s))[inside].sum()
    total = rows.spread_off.sum()
    return float(top / total) if total > 0 else 0.0
