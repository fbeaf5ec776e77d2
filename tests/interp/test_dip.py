"""The dip against a linear programme, its invariances, and what counts as clusters."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from interp.dip import LARGE, PRECISION, clustered, dip
from interp.errors import RequestError


def literal_dip(values):
    """The least distance to a distribution with one mode: for each place of the mode one linear programme."""
    at, counts = np.unique(values, return_counts=True)
    above = np.cumsum(counts) / len(values)
    below = np.concatenate([[0.0], above[:-1]])
    k = len(at)
    best = np.inf
    for mode in range(k):  # G left of the mode and at it from the left, G at the mode and right of it, D
        left, right = list(range(mode + 1)), list(range(mode, k))
        size = len(left) + len(right) + 1
        rows, bounds = [], []

        def must(weights, bound, rows=rows, bounds=bounds, size=size):
            row = np.zeros(size)
            for i, w in weights:
                row[i] += w
            rows.append(row)
            bounds.append(bound)

        place = {("l", i): n for n, i in enumerate(left)} | {("r", i): len(left) + n for n, i in enumerate(right)}
        d = size - 1
        for (side, i), v in place.items():
            if side == "r" or i < mode:
                must([(v, -1), (d, -1)], -above[i])  # G >= above - D
            if side == "l" or i > mode:
                must([(v, 1), (d, -1)], below[i])  # G <= below + D
        must([(place["l", mode], 1), (place["r", mode], -1)], 0)
        for side, members, sign in (("l", left, 1), ("r", right, -1)):
            for a, b in itertools.pairwise(members):
                must([(place[side, a], 1), (place[side, b], -1)], 0)
            for a, b, c in zip(members, members[1:], members[2:], strict=False):
                one, two = sign / (at[b] - at[a]), sign / (at[c] - at[b])
                must([(place[side, a], -one), (place[side, b], one + two), (place[side, c], -two)], 0)
        cost = np.zeros(size)
        cost[d] = 1
        found = linprog(cost, A_ub=np.array(rows), b_ub=np.array(bounds), bounds=[(0, None)] * size)
        best = min(best, found.fun) if found.success else best
    return max(best, 1 / (2 * len(values)))


@pytest.mark.parametrize("seed", range(12))
def test_the_dip_is_the_distance_to_the_nearest_distribution_with_one_mode(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 13))
    values = rng.normal(size=size) if seed % 2 else rng.integers(0, 6, size).astype(float)
    values[: size // 2] += 4 * (seed % 3)
    assert dip(values) == pytest.approx(literal_dip(values), abs=2 * PRECISION)


def test_the_dip_of_known_samples():
    assert dip([3.0]) == 0.5
    assert dip(np.arange(50)) == pytest.approx(1 / 100)
    assert dip([0, 0, 0, 1, 1, 1]) == pytest.approx(0.25, abs=2 * PRECISION)
    values = np.random.default_rng(0).normal(size=30) ** 3
    for moved in (7 * values - 3, -values, values[::-1]):
        assert dip(moved) == pytest.approx(dip(values), abs=2 * PRECISION)


def test_what_falls_into_clusters():
    rng = np.random.default_rng(1)
    near = 0.1 * rng.normal(size=40)
    assert clustered(np.concatenate([near, near + 3]))
    assert not clustered(near)
    assert not clustered(rng.integers(0, 9, 100))  # whole numbers come in steps, and steps are no clusters
    assert not clustered([0.0, 0.0, 9.0])  # too few to tell
    alarms = np.mean([clustered(rng.random(60)) for _ in range(300)])
    assert alarms < 0.03  # one in a hundred, four standard errors beyond
    at_bound = np.sqrt(100) * dip(np.concatenate([rng.random(50), 1.12 + rng.random(50)]))
    assert at_bound < LARGE < np.sqrt(100) * dip(np.concatenate([rng.random(50), 2 + rng.random(50)]))


@pytest.mark.parametrize("wrong", [[], [1.0, np.nan], [np.inf]])
def test_the_dip_is_of_finite_numbers(wrong):
    with pytest.raises(RequestError, match="finite numbers"):
        dip(wrong)
