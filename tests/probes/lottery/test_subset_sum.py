"""Best subsets against brute force; errors against what theory expects; no entry left behind."""

from itertools import chain, combinations

import numpy as np
import pytest

from closeness import assert_close, rounding
from interp.rng import generator
from probes.lottery.subset_sum import LARGE, UNLUCKY, best_subsets, expected_error, fit_entries


def products(seed, *shape):
    source = generator(seed, "test/products")
    return source.uniform(-1, 1, shape) * source.uniform(-1, 1, shape)


def brute_force(target, values):
    every = chain.from_iterable(combinations(values, size) for size in range(len(values) + 1))
    return min(abs(sum(subset) - target) for subset in every)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_no_subset_is_nearer_than_the_one_found(n):
    values, targets = products(n, 20, n), generator(n, "test/targets").uniform(-3, 3, 20)
    chosen, error = best_subsets(targets, values)
    for i in range(20):
        assert_close(error[i], brute_force(targets[i], values[i]), scale=targets)
    assert_close(np.abs((values * chosen).sum(1) - targets), error, ulps=8, scale=targets)


def test_many_targets_at_once_are_each_alone():
    values, targets = products(0, 3000, 10), generator(0, "test/targets").uniform(-1, 1, 3000)
    chosen, _ = best_subsets(targets, values)
    for i in (0, 1500, 2999):
        np.testing.assert_array_equal(best_subsets(targets[i : i + 1], values[i : i + 1])[0][0], chosen[i])


def test_an_exact_subset_is_found():
    values = products(1, 50, 16)
    wanted = generator(1, "test/mask").random((50, 16)) < 0.5
    _, error = best_subsets((values * wanted).sum(1), values)
    assert_close(error, 0, ulps=8, scale=1)


@pytest.mark.parametrize("n", [10, 14, 18])
def test_the_median_error_is_what_theory_expects(n):
    _, error = best_subsets(np.full(600, 0.25), products(n, 600, n))
    assert 0.6 < np.median(error) / expected_error(n, 0.25) < 1.7


def test_theory_halves_the_error_with_each_candidate():
    ratio = expected_error(20) / expected_error(21)
    assert ratio == pytest.approx(2 * (20 / 21) ** 0.5)


def test_two_groups_and_a_coarse_sum_reach_what_one_group_does_not():
    groups, targets = products(3, 1500, 2, 16), generator(3, "test/targets").uniform(-0.5, 0.5, 1500)
    _, alone = best_subsets(targets, groups[:, 0])
    assert alone.max() > 0.01  # one group fails outright now and then
    fit = fit_entries(targets, groups)
    assert fit.error.max() < 2e-3
    items = groups.reshape(1500, -1)
    assert_close(np.abs((items * fit.chosen).sum(1) - targets), fit.error, scale=1)


def test_small_targets_that_both_groups_miss_are_rescued():
    """No group reaches .45 within .04 alone; .26 of one and .2 of the other do within .01."""
    groups, targets = np.array([[[0.2, 0.21], [0.25, 0.26]]]), np.array([0.45])
    alone = [best_subsets(targets, groups[:, i])[1][0] for i in (0, 1)]
    assert alone == pytest.approx([0.04, 0.06])
    fit = fit_entries(targets, groups)
    assert fit.error[0] == pytest.approx(0.01)
    assert fit.chosen[0].sum() == 2


def test_the_rescue_is_what_brings_the_largest_errors_down():
    groups, targets = products(3, 1500, 2, 12), generator(3, "test/targets").uniform(-0.5, 0.5, 1500)
    alone = np.minimum(*(best_subsets(targets, groups[:, i])[1] for i in (0, 1)))
    found = fit_entries(targets, groups).error
    missed = alone > UNLUCKY
    assert missed.sum() > 10
    assert (found <= alone + 8 * rounding(found)).all()
    assert (found[missed] < alone[missed]).mean() > 0.5
    assert found.max() < alone.max() / 2
    assert_close(found[~missed], alone[~missed], scale=1)


def test_large_targets_need_extra_items():
    source = generator(4, "test/targets")
    targets = source.choice([-1, 1], 200) * source.uniform(1.5, 3.0, 200)
    groups, extra = products(4, 200, 2, 14), products(5, 200, 30)
    assert (np.abs(targets) > LARGE).all()
    fit = fit_entries(targets, groups, extra)
    assert fit.error.max() < 5e-3
    items = np.concatenate([groups.reshape(200, -1), extra], axis=1)
    assert_close(np.abs((items * fit.chosen).sum(1) - targets), fit.error, scale=targets)
    assert fit.chosen[:, 28:].any()


def test_zero_is_the_empty_subset():
    fit = fit_entries(np.array([0.0, 0.3]), products(6, 2, 2, 12))
    assert not fit.chosen[0].any()
    assert fit.error[0] == 0.0


def test_padded_extra_items_are_never_taken():
    extra = np.zeros((40, 6))
    extra[:, :2] = products(7, 40, 2)
    fit = fit_entries(np.full(40, 1.2), products(8, 40, 2, 12), extra)
    assert not fit.chosen[:, 26:].any()
