"""The helper that all comparisons of computed numbers go through: sharp at its bound, and silent about nothing."""

import math

import numpy as np
import pytest
import torch

from closeness import assert_close

EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7}


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("scale", [1e-20, 1.0, 512.0])
def test_the_bound_is_roundings_of_the_scale(dtype, scale):
    """4 roundings of a vector's largest element, for all its elements, the small ones too."""
    expected = torch.tensor([scale, scale / 4, 0, -scale / 2], dtype=torch.float64).to(dtype)
    largest = float(expected[0])
    for at in range(4):
        for sign in (-1, 1):
            moved = expected.double().clone()
            moved[at] += sign * 4 * EPS[dtype] * largest  # itself rounded, by half of one at most
            assert_close(moved, expected, ulps=4.6)
            with pytest.raises(AssertionError, match=rf"at \({at},\).* 1\.[0-3]\d* times the bound"):
                assert_close(moved, expected, ulps=3.4)


def test_the_coarser_type_decides_and_one_may_be_said():
    half = torch.tensor([1.0], dtype=torch.float32)
    assert_close(np.array([1 + 2e-7]), half, ulps=2)
    assert_close(half, [1 + 2e-7], ulps=2)
    assert_close(1 + 2e-7, 1, ulps=2, dtype=torch.float32)
    for numbers in ((1 + 2e-7, 1), (np.array([1 + 2e-7]), [1]), (torch.tensor([1 + 2e-7], dtype=torch.float64), [1.0])):
        with pytest.raises(AssertionError, match="ulps"):
            assert_close(*numbers, ulps=2)


def test_the_scale_may_be_given_as_the_numbers_that_entered():
    """1000 - 999.9999 in float32 is known to roundings of 1000."""
    entered = torch.tensor([1000.0, -999.9999])
    for scale in (1000, entered, entered.numpy(), entered.tolist()):
        assert_close(entered.sum(), 1e-4, ulps=1, scale=scale)
    with pytest.raises(AssertionError, match=r"scale 0\.0001"):
        assert_close(entered.sum(), 1e-4, ulps=1)
    with pytest.raises(ValueError, match="a scale of 0"):
        assert_close(entered.sum(), 0)
    with pytest.raises(AssertionError, match="ulps"):
        assert_close(entered.sum(), 0, scale=1)


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        ([1, math.nan], [1, 1], "not finite alike at (1,)"),
        ([1, 1], [1, math.nan], "not finite alike at (1,)"),
        ([math.inf, 1], [-math.inf, 1], "not finite alike at (0,)"),
        ([1, 1], [[1, 1]], "shapes differ"),
        ([1], [1, 1], "shapes differ"),
    ],
)
def test_what_is_no_number_or_of_another_shape_is_not_close(actual, expected, said):
    with pytest.raises(AssertionError) as found:
        assert_close(actual, expected, ulps=1e30)
    assert said in str(found.value)


def test_alike_where_there_is_no_number():
    assert_close([math.nan, math.inf, -math.inf, 1], [math.nan, math.inf, -math.inf, 1], ulps=1)
    assert_close(torch.ones(2, 3), 1, ulps=1)
    assert_close(np.empty(0), np.empty(0), scale=1)
