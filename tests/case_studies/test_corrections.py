"""Corrections: p-values agree with their intervals, Holm steps down, and equivalence is met only within its bound."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import ttest_1samp

from case_studies.corrections import ALPHA, SMALLEST, compared, corrected, p_equivalent, p_text, p_value
from closeness import assert_close
from interp.errors import RequestError
from interp.stats import GAP, SHARE, Estimate, mean_over_seeds, spearman

# A p-value is 1 - a level: known to roundings of 1, of which the quantiles on the way make some thousands.
ROUNDED = {"scale": 1, "ulps": 4096}


def normal(value, error=1.0):
    """Intervals of a number with a known standard error."""

    def interval(level):
        half = ndtri((1 + level) / 2) * error
        return Estimate(value, value - half, value + half, 40, "seeds")

    return interval


def without_interval(level):
    return Estimate(0.3, None, None, 3, "seeds", reason="3 seeds are too few")


def step_down(p, alpha):
    """Holm (1979) as he wrote it: which hypotheses are rejected."""
    rejected, open_ = set(), list(range(len(p)))
    while open_:
        least = min(open_, key=lambda i: p[i])
        if p[least] > alpha / len(open_):
            break
        rejected.add(least)
        open_.remove(least)
    return rejected


@pytest.mark.parametrize("z", [-3.0, -0.5, 0.0, 1.0, 1.959, 1.961, 5.0])
def test_a_p_value_is_that_of_its_interval(z):
    p = p_value(normal(z))
    assert_close(p, 2 * ndtr(-abs(z)), **ROUNDED)
    at = normal(z)(0.95)
    assert (p <= ALPHA) == (at.low > 0 or at.high < 0)


def test_a_p_value_of_students_t_on_the_line():
    """Symmetric numbers have no skewness, so that Hall's correction does nothing."""
    x = np.concatenate([np.arange(1, 21), -np.arange(1, 21)]) / 20 + 0.2
    found = p_value(lambda level: mean_over_seeds(x, level=level))
    assert_close(found, ttest_1samp(x, 0).pvalue, **ROUNDED)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "maker",
    [
        lambda x, level: mean_over_seeds(x - 0.6, support=GAP, level=level),
        lambda x, level: spearman(x, np.arange(len(x)), level=level),
        lambda x, level: mean_over_seeds(x, support=SHARE, level=level),
    ],
)
def test_p_values_and_intervals_never_contradict(maker, seed):
    """Of every kind of interval, at every level: the null is left out exactly where p is at most 1 - level."""
    x = np.random.default_rng(seed).beta(5, 3, 20)
    for null in (0.0, 0.55):
        p = p_value(lambda level: maker(x, level), null)
        for level in (0.5, 0.9, 0.95, 0.999):
            e = maker(x, level)
            assert (p <= 1 - level) == (e.low > null or e.high < null)


def test_p_values_at_the_ends():
    assert p_value(normal(20)) == SMALLEST
    assert p_value(normal(0)) == 1
    assert p_value(without_interval) is None
    # Nine seeds with one and the same number have no interval, and so no p-value, whatever the number is.
    assert p_value(lambda level: mean_over_seeds(np.zeros(9), level=level)) is None
    assert p_value(lambda level: mean_over_seeds(np.ones(9), level=level)) is None


@pytest.mark.parametrize(("value", "met"), [(0.0, True), (0.29, True), (0.31, False), (-0.29, True), (-0.31, False)])
def test_equivalence_without_noise_is_decided_by_the_bound_alone(value, met):
    found = corrected([compared("a", normal(value, 1e-9), bound=0.3)], ["a"])["a"]
    assert (found.p_equivalent <= ALPHA) == met


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("inside", [True, False])
def test_equivalence_is_the_90_percent_interval_within_the_bound(side, inside):
    """Two one-sided tests at 5 %: just met where the 90 % interval just ends before the bound."""
    error = 0.1
    value = side * (0.3 - ndtri(0.95) * error + (-1e-6 if inside else 1e-6))
    c = compared("a", normal(value, error), bound=0.3)
    assert (c.p_equivalent <= ALPHA) == inside
    at = normal(value, error)(0.90)
    assert (at.low > -0.3 and at.high < 0.3) == inside
    assert_close(c.p_equivalent, ndtr((abs(value) - 0.3) / error), **ROUNDED)


def test_equivalence_on_the_bound_and_around_another_null():
    assert p_equivalent(normal(0.3), -0.3, 0.3) == 0.5
    moved = compared("a", normal(0.72, 0.01), null=0.7, bound=0.1)
    still = compared("a", normal(0.02, 0.01), bound=0.1)
    assert_close(moved.p_equivalent, still.p_equivalent, **ROUNDED)
    assert p_equivalent(without_interval, -1, 1) is None


@pytest.mark.parametrize("seed", range(5))
def test_holm_against_a_literal_step_down(seed):
    """The secondary comparisons that are found are those that Holm's procedure rejects; the primary are apart."""
    rng = np.random.default_rng(seed)
    z = np.concatenate([rng.normal(0, 1, 6), rng.normal(3, 1, 6)])
    z[3] = z[8]  # a tie
    found = corrected([compared(f"{i}", normal(x)) for i, x in enumerate(z)], ["0", "11"])
    others = [found[f"{i}"] for i in range(1, 11)]
    expected = step_down([c.p for c in others], ALPHA)
    assert {i for i, c in enumerate(others) if c.finding in ("below", "above")} == expected
    assert all(found[name].adjusted == found[name].p for name in ("0", "11"))
    assert [found[name].primary for name in ("0", "1", "11")] == [True, False, True]


def test_one_more_comparison_can_undo_a_finding():
    """z = 2.1 has p = .036: found alone or as primary, not among two of which the other is not found either."""
    a, b = compared("a", normal(2.1)), compared("b", normal(0.1))
    assert corrected([a])["a"].finding == "above"
    assert corrected([a, b])["a"].finding == "inconclusive"
    assert corrected([a, b], ["a"])["a"].finding == "above"


def test_what_could_not_be_tested_stays_in_the_family():
    a, b = compared("a", normal(2.1)), compared("b", without_interval, bound=0.5)
    found = corrected([a, b])
    assert found["a"].finding == "inconclusive"
    assert (found["b"].finding, found["b"].adjusted, found["b"].adjusted_equivalent) == ("untested", None, None)
    assert found["b"].tests == "not tested"


@pytest.mark.parametrize(
    ("value", "error", "bound", "finding"),
    [
        (-3, 1, 0.3, "below"),
        (3, 1, 0.3, "above"),
        (0.1, 0.1, 0.3, "equivalent"),
        (0.1, 0.2, 0.3, "inconclusive"),
        (0.1, 0.1, None, "inconclusive"),
        (0.2, 0.05, 0.3, "above"),  # a difference is said also where it is small
    ],
)
def test_each_finding(value, error, bound, finding):
    found = corrected([compared("a", normal(value, error), bound=bound)], ["a"])["a"]
    assert found.finding == finding
    row = found.to_dict()
    assert (row["finding"], row["bound"], row["null"], row["value"]) == (finding, bound, 0, value)
    assert ("within" in found.tests) == (finding in ("equivalent", "inconclusive") and bound is not None)


def test_equivalence_is_corrected_among_those_with_a_bound():
    """Each alone is met; among three only the clear ones are, and one without a bound takes no part."""
    near = normal(0.3 - 1.8 * 0.1, 0.1)
    several = [compared(name, near, bound=0.3) for name in "ab"] + [compared("c", near)]
    found = corrected(several)
    assert corrected(several[:1])["a"].finding == "equivalent"
    assert [found[name].finding for name in "abc"] == ["inconclusive"] * 3
    assert_close(found["a"].adjusted_equivalent, 2 * found["a"].p_equivalent, **ROUNDED)
    assert found["c"].adjusted_equivalent is None


def test_the_tests_as_text():
    a, b = compared("a", normal(2.1)), compared("b", normal(0.1), bound=3.0)
    found = corrected([a, b])
    assert found["a"].tests == "Holm 0.071 (p = 0.036)"
    assert found["b"].tests == "Holm 0.92 (p = 0.92); within ±3: Holm 0.0019 (p = 0.0019)"
    assert corrected([a], ["a"])["a"].tests == "p = 0.036"
    assert (p_text(None), p_text(SMALLEST), p_text(0.25, "")) == ("–", "p < 1e-12", "0.25")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: compared("a", normal(0), bound=0.0), "bound=0.0 of 'a' is not a number above 0"),
        (lambda: compared("a", normal(0), bound=math.nan), "bound=nan of 'a' is not a number above 0"),
        (lambda: corrected([compared("a", normal(0))] * 2), "two comparisons are named 'a'"),
        (lambda: corrected([compared("a", normal(0))], ["b"]), "the primary comparison 'b' is not among those"),
    ],
)
def test_wrong_requests_are_refused(ask, message):
    with pytest.raises(RequestError, match=message):
        ask()


def test_nothing_to_correct():
    assert corrected([]) == {}
