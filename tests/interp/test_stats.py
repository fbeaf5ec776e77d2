"""Estimates and intervals, against literal implementations and closed forms."""

import json
import math

import numpy as np
import pytest
from scipy import stats as reference

from closeness import assert_close
from interp.errors import RequestError
from interp.stats import (
    GAP,
    POSITIVE,
    REALS,
    SCORE,
    SHARE,
    Estimate,
    clopper_pearson,
    holm,
    jackknife,
    jackknife_pairs,
    mean_over_inputs,
    mean_over_seeds,
    spearman,
    t_interval,
)


def distances(points: np.ndarray) -> np.ndarray:
    return ((points[:, None] - points[None]) ** 2).sum(axis=-1)


# ---- Estimate ------------------------------------------------------------------------------------


def test_estimate_reads_as_one_line():
    assert str(Estimate(0.972, 0.968, 0.976, 8, "seeds")) == "0.972 [0.968, 0.976] (n=8 seeds)"
    assert str(Estimate(1.0, None, None, 1, "seeds")) == "1.000 [no interval] (n=1 seed)"
    assert str(Estimate.undefined("k = 1", 8, "seeds")) == "undefined (n=8 seeds): k = 1"


def test_estimate_to_dict_has_the_contract_keys_and_is_json():
    estimate = Estimate(np.float32(0.5), 0, 1, np.int64(3), "inputs", {"a": np.float64(2), "b": None})
    out = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    assert out == {"value": 0.5, "low": 0, "high": 1, "n": 3, "over": "inputs", "null": {"a": 2, "b": None}}


def test_nan_never_leaves():
    estimate = Estimate(math.nan, -math.inf, 1.0, 4, "seeds", {"a": math.nan, "b": {"c": math.inf}})
    out = estimate.to_dict()
    assert (out["value"], out["low"], out["high"]) == (None, None, 1.0)
    assert out["null"] == {"a": None, "b": {"c": None}}
    assert out["reason"] == "value came out as nan"


def test_a_nested_estimate_in_a_null_becomes_a_dict():
    inner = Estimate(1.0, 0.5, 1.5, 3, "seeds")
    assert Estimate(2.0, 1.0, 3.0, 3, "seeds").with_null({"untrained": inner}).null["untrained"]["low"] == 0.5


def test_unknown_unit_and_missing_reason_are_refused():
    with pytest.raises(RequestError, match="over='days' is not one of seeds, inputs"):
        Estimate(1.0, None, None, 1, "days")
    with pytest.raises(RequestError, match="needs a reason"):
        Estimate(None, None, None, 1, "seeds")


# ---- jackknife -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 9])
@pytest.mark.parametrize("support", [REALS, POSITIVE])
def test_jackknife_equals_a_literal_delete_one_loop(size, support):
    """Half of what single pairs add is put to it; on the scale of sizes it is the interval of the logarithm."""
    d = distances(np.random.default_rng(size).normal(size=(size, 5)))

    def mean_of_pairs(members):
        return np.mean([d[i, j] for i in members for j in members if i < j])

    everyone = list(range(size))
    without = np.array([mean_of_pairs([m for m in everyone if m != i]) for i in everyone])
    variance = (size - 1) / size * ((without - without.mean()) ** 2).sum()
    variance += np.var([d[i, j] for i in everyone for j in everyone if i < j]) / (size * (size - 1))
    mean, half = mean_of_pairs(everyone), reference.t.ppf(0.975, size - 1) * math.sqrt(variance)

    estimate = jackknife_pairs(d, support=support)
    assert estimate.value == pytest.approx(mean)
    if support == REALS:
        assert (estimate.low, estimate.high) == pytest.approx((mean - half, mean + half))
    else:
        ends = math.exp(math.log(mean) - half / mean), math.exp(math.log(mean) + half / mean)
        assert (estimate.low, estimate.high) == pytest.approx(ends)
    assert (estimate.n, estimate.over, estimate.reason) == (size, "seeds", None)


def test_jackknife_ignores_the_diagonal_and_cuts_to_the_support():
    d = distances(np.random.default_rng(0).normal(size=(5, 1)))
    with_nan = d.copy()
    np.fill_diagonal(with_nan, np.nan)
    assert jackknife_pairs(with_nan) == jackknife_pairs(d)
    assert jackknife_pairs(d).low < 0
    assert jackknife_pairs(d, support=(0, 100)).low == 0
    assert jackknife_pairs(d, support=POSITIVE).low > 0


def test_one_member_has_no_value_and_few_have_no_interval():
    one = jackknife_pairs(np.zeros((1, 1)))
    assert one.value is None
    assert "no pairs" in one.reason
    two = jackknife_pairs([[0.0, 3.0], [3.0, 0.0]])
    assert (two.value, two.low, two.high, two.n) == (3.0, None, None, 2)
    assert two.reason == "2 seeds are too few for an interval that covers: 5 at least"
    points = np.random.default_rng(3).normal(size=(5, 9))
    assert jackknife_pairs(distances(points[:4])).low is None
    assert jackknife_pairs(distances(points)).low is not None


@pytest.mark.parametrize(("size", "printed"), [(8, False), (39, False), (40, True)])
def test_members_in_clusters_have_an_interval_from_forty_on(size, printed):
    rng = np.random.default_rng(0)
    points = np.hstack([3.0 * (np.arange(size) % 2)[:, None], 0.2 * rng.normal(size=(size, 20))])
    estimate = jackknife_pairs(distances(points), support=POSITIVE)
    assert (estimate.low is not None) == printed
    assert printed or estimate.reason == f"the seeds fall into clusters: {size} are too few"
    spread = jackknife_pairs(distances(rng.normal(size=(size, 20))), support=POSITIVE)
    assert spread.low is not None


def test_jackknife_says_what_is_wrong():
    with pytest.raises(RequestError, match=r"\[S, S\], not \[2, 3\]"):
        jackknife_pairs(np.zeros((2, 3)))
    with pytest.raises(RequestError, match="symmetric"):
        jackknife_pairs([[0, 1, 1], [2, 0, 1], [1, 1, 0]])
    with pytest.raises(RequestError, match="symmetric"):  # by more than rounding, however small it is
        jackknife_pairs([[0, 1e-3], [1.1e-3, 0]])
    assert jackknife_pairs([[0, 1 + 1e-8], [1, 0]]).value == pytest.approx(1)
    broken = np.ones((3, 3))
    broken[0, 2] = broken[2, 0] = np.nan
    assert jackknife_pairs(broken).reason == "pair (0, 2) has no finite value"


@pytest.mark.parametrize(
    ("support", "ends"),
    [(REALS, None), (POSITIVE, (0, None)), (SHARE, (0, 1)), (SCORE, (None, 1)), (GAP, (-1, 1))],
)
def test_an_interval_is_cut_to_what_its_number_can_be(support, ends):
    """A mean of .5 and an interval of .5 +- 6.35, of which each support leaves its part."""
    low, high = (0.5 - 12.7062047 * 0.5, 0.5 + 12.7062047 * 0.5)
    for i, end in enumerate(ends or ()):
        low, high = (low if i or end is None else end), (high if not i or end is None else end)
    found = t_interval(0.5, 0.5, 2, over="seeds", support=support)
    assert (found.value, found.low, found.high, found.n) == pytest.approx((0.5, low, high, 2))


# ---- levels --------------------------------------------------------------------------------------

VALUES = np.array([0.1, 0.4, 0.5, 0.9, 0.7, 0.2, 0.35, 0.6])
PAIRS = distances(VALUES[:, None])
MAKERS = {
    "mean_over_seeds": lambda **level: mean_over_seeds(VALUES, **level),
    "t_interval": lambda **level: t_interval(0.5, 0.1, 5, over="seeds", **level),
    "jackknife": lambda **level: jackknife(0.5, VALUES, over="seeds", **level),
    "jackknife_pairs": lambda **level: jackknife_pairs(PAIRS, **level),
    "clopper_pearson": lambda **level: clopper_pearson(3, 10, **level),
    "spearman": lambda **level: spearman(VALUES, [2, 1, 3, 5, 4, 6, 8, 7], **level),
    "of shares": lambda **level: mean_over_seeds(VALUES, support=SHARE, **level),
    "of sizes": lambda **level: mean_over_seeds(VALUES, support=POSITIVE, **level),
    "of scores": lambda **level: mean_over_seeds(VALUES, support=SCORE, **level),
    "of many": lambda **level: mean_over_seeds(np.tile(VALUES, 5), support=SHARE, **level),
}
STUDENT = {"t_interval": 4, "jackknife": 7, "jackknife_pairs": 7}  # degrees of freedom


@pytest.mark.parametrize("name", MAKERS)
def test_every_interval_is_taken_at_its_level(name):
    usual, wide = MAKERS[name](), MAKERS[name](level=0.99)
    assert MAKERS[name](level=0.95) == usual
    assert wide.value == usual.value
    assert wide.low < usual.low < usual.high < wide.high
    if name in STUDENT:
        ratio = reference.t.ppf(0.995, STUDENT[name]) / reference.t.ppf(0.975, STUDENT[name])
        assert (wide.high - wide.value) / (usual.high - usual.value) == pytest.approx(ratio)
    for level in (0, 1, 95, math.nan):
        with pytest.raises(RequestError, match=f"level={level} is not a number between 0 and 1"):
            MAKERS[name](level=level)


# ---- the others ----------------------------------------------------------------------------------


SCALES = {  # to a scale without the ends that a mean can be near, and back
    "shares": (SHARE, lambda m: math.log(m / (1 - m)), lambda z: 1 / (1 + math.exp(-z))),
    "sizes": (POSITIVE, math.log, math.exp),
    "scores": (SCORE, lambda m: math.log(1 - m), lambda z: 1 - math.exp(z)),
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("size", [4, 39])
def test_a_mean_near_an_end_has_students_interval_on_a_scale_without_it(name, size):
    support, to, back = SCALES[name]
    values = np.random.default_rng(size).beta(20, 1, size)
    mean, step = values.mean(), 1e-6
    slope = (to(mean + step) - to(mean - step)) / (2 * step)
    half = reference.t.ppf(0.975, size - 1) * reference.sem(values) * slope
    ends = sorted((back(to(mean) - half), back(to(mean) + half)))
    found = mean_over_seeds(values, support=support)
    assert (found.value, found.low, found.high) == pytest.approx((mean, *ends), rel=1e-6)


def literal_hall(values, level=0.95):
    """The ends where Hall's transformation of T = sqrt(n) (mean - m) / s is Student's quantile: by bisection over m."""
    n, mean, spread = len(values), np.mean(values), np.std(values, ddof=1)
    skew = np.mean((values - mean) ** 3) / np.std(values) ** 3

    def transformed(m):
        t = math.sqrt(n) * (mean - m) / spread
        return t + skew * t**2 / (3 * math.sqrt(n)) + skew**2 * t**3 / (27 * n) + skew / (6 * math.sqrt(n))

    ends = []
    for q in reference.t.ppf([(1 + level) / 2, (1 - level) / 2], n - 1):
        low, high = mean - 50 * spread, mean + 50 * spread  # it falls as m grows
        for _ in range(200):
            m = (low + high) / 2
            low, high = (m, high) if transformed(m) > q else (low, m)
        ends.append(m)
    return ends


@pytest.mark.parametrize(("support", "size"), [(REALS, 8), (REALS, 60), (SHARE, 40), (POSITIVE, 40), (SCORE, 40)])
def test_elsewhere_the_skewness_corrects_students_quantiles(support, size):
    values = np.random.default_rng(size).beta(9, 1, size)
    found = mean_over_seeds(values, support=support)
    assert (found.low, found.high) == pytest.approx(literal_hall(values), rel=1e-6)
    symmetric = np.concatenate([values, 2 * values.mean() - values])
    both = mean_over_seeds(symmetric)
    expected = reference.t.interval(0.95, 2 * size - 1, symmetric.mean(), reference.sem(symmetric))
    assert (both.low, both.high) == pytest.approx(expected)


@pytest.mark.parametrize(("support", "fewest"), [(REALS, 8), (GAP, 8), (SHARE, 4), (POSITIVE, 4), (SCORE, 4)])
def test_few_seeds_have_no_interval(support, fewest):
    values = np.random.default_rng(1).random(fewest)
    found = mean_over_seeds(values[1:], support=support)
    assert (found.low, found.high, found.value) == (None, None, pytest.approx(values[1:].mean()))
    assert found.reason == f"{fewest - 1} seeds are too few for an interval that covers: {fewest} at least"
    assert mean_over_seeds(values, support=support).low is not None


@pytest.mark.parametrize(
    ("support", "value"), [(SHARE, 1.0), (SHARE, 0.0), (POSITIVE, 0.0), (SCORE, 1.0), (REALS, 3.0)]
)
@pytest.mark.parametrize("size", [8, 50])
def test_seeds_that_are_all_the_same_claim_no_more_than_they_can(support, value, size):
    """At an end nothing tells how far off another seed would be: an interval of no width would be certainty."""
    found = mean_over_seeds([value] * size, support=support)
    units = mean_over_inputs([value] * size, support=support)
    assert (units.low, units.high) == (value, value)
    assert (found.value, found.low, found.high) == (value, None, None)
    if value not in support:
        assert found.reason == f"the same number in all {size} seeds"  # nothing that seeds decide
        return
    most = {8: "0.31", 50: "0.058"}[size]  # 1 - .05 ** (1 / size), as docs/intervals.md has it
    assert f"all {size} seeds are {value:g}: at most {most} of all seeds are not" in found.reason
    nearly = mean_over_seeds([value] * (size - 1) + [0.999 * value + 0.0005], support=support)
    assert nearly.high > nearly.low


def test_mean_over_seeds_of_one_none_or_a_diverged_seed():
    for mean in (mean_over_seeds, mean_over_inputs):
        assert mean([0.5]).value == 0.5
        assert (mean([0.5]).low, mean([0.5]).n) == (None, 1)
        assert mean([0.5]).reason == f"one {mean([0.5]).over.removesuffix('s')} alone gives no interval"
        assert (mean([]).value, mean([]).n) == (None, 0)
        assert mean([0.5, 1.5]).value == 1
        for undefined in ([math.nan], [1.0, math.inf]):
            assert (mean(undefined).value, mean(undefined).n) == (None, len(undefined))
    assert mean_over_seeds([1.0, math.nan, 2.0]).reason == "seed 1 has no finite value"
    assert mean_over_seeds([math.nan] * 3).reason == "seeds 0, 1, 2 have no finite value"
    assert mean_over_seeds([math.nan] * 5).reason == "seeds 0, 1, 2 and others have no finite value"
    with pytest.raises(RequestError, match=r"shape \[n\], not \[1, 2\]"):
        mean_over_seeds([[1.0, 2.0]])


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    assert mean_over_seeds(torch.tensor([1.0, 3.0], requires_grad=True)).value == 2.0


@pytest.mark.parametrize("level", [0.95, 0.995])
@pytest.mark.parametrize(("successes", "n"), [(0, 10), (10, 10), (3, 10), (97, 100)])
def test_clopper_pearson_is_the_exact_interval(successes, n, level):
    exact = reference.binomtest(successes, n).proportion_ci(level, method="exact")
    estimate = clopper_pearson(successes, n, level=level)
    assert (estimate.low, estimate.high) == pytest.approx((exact.low, exact.high))


def test_clopper_pearson_refuses_what_is_no_count():
    with pytest.raises(RequestError, match="successes=11 are more than n=10"):
        clopper_pearson(11, 10)
    with pytest.raises(RequestError, match=r"successes=2\.5 is not a whole number"):
        clopper_pearson(2.5, 10)
    for successes, n in ((True, 2), (1, True), (-1, 2), (1, -1), (1, 2.5)):
        with pytest.raises(RequestError, match="is not a whole number of at least 0"):
            clopper_pearson(successes, n)
    assert (clopper_pearson(0, 0).value, clopper_pearson(0, 0).n) == (None, 0)
    # By hand: one failure in one trial leaves 0 to 1 - .025, one success .025 to 1.
    for successes, ends in ((0, (0, 0.975)), (1, (0.025, 1))):
        found = clopper_pearson(successes, 1)
        assert (found.low, found.high) == pytest.approx(ends)
        assert (found.value, found.n) == (successes, 1)


def test_holm_against_the_literal_step_down():
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.9])
    adjusted, worst = np.empty(5), 0.0
    for rank, i in enumerate(np.argsort(p)):
        worst = max(worst, (5 - rank) * p[i])
        adjusted[i] = min(worst, 1)
    assert holm(p) == pytest.approx(adjusted)
    assert holm([]).size == 0
    assert holm([0, 1, 0.5]).tolist() == [0, 1, 1]
    for wrong in (math.nan, -1e-9, 1 + 1e-9):
        with pytest.raises(RequestError, match="p-value 1 is"):
            holm([0.1, wrong])


def test_spearman_equals_scipy_and_covers():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 25))
    y[3] = y[7]  # a tie
    estimate = spearman(x, x + y)
    assert_close(estimate.value, float(spearmanr(x, x + y).statistic), scale=1)
    assert estimate.low < estimate.value < estimate.high
    hits = 0
    for _ in range(400):  # two normals with correlation .6 have rank correlation 6/pi asin(.3)
        a, b = rng.normal(size=(2, 40))
        found = spearman(a, 0.6 * a + 0.8 * b)
        hits += found.low <= 6 / np.pi * np.arcsin(0.3) <= found.high
    assert 0.91 <= hits / 400 <= 0.985


def test_spearmans_interval_is_bonett_and_wrights():
    """By hand: the ranks of the second are 5, 4, 8, 6, 7, 1, 3, 2, and n - 3 = 5."""
    found = spearman([1, 2, 3, 4, 5, 6, 7, 8], [20, 10, 50, 30, 40, 0, 9, 8])
    r = 1 - 6 * sum(d * d for d in (4, 2, 5, 2, 2, 5, 4, 6)) / (8 * 63)
    half = 1.959963985 * math.sqrt((1 + r * r / 2) / 5)
    ends = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    assert (found.value, found.low, found.high) == pytest.approx((r, *ends))
    assert (found.n, found.over, found.null, found.reason) == (8, "seeds", 0, None)
    few = spearman([1, 2, 3, 4, 5, 6, 7], [2, 1, 3, 4, 5, 7, 6])
    assert (few.value, few.low, few.high) == (pytest.approx(1 - 6 * 4 / (7 * 48)), None, None)
    assert few.reason == "7 seeds are too few for an interval that covers: 8 at least"


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [1, 3, 2]), ([1, 1, 1, 1], [1, 2, 3, 4])])
def test_spearman_undefined(x, y):
    for found in (spearman(x, y), spearman(y, x)):
        assert (found.value, found.n, found.null) == (None, len(x), 0)
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]).value == pytest.approx(0.8)
    with pytest.raises(RequestError, match="3 and 4 values do not pair up"):
        spearman([1, 2, 3], [1, 2, 3, 4])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [8, 30])
def test_spearman_of_a_perfect_order_ends_where_one_exchange_of_neighbours_does(sign, size):
    x = np.arange(size)
    found, near = spearman(x, sign * x**3), spearman(x, sign * np.array([1, 0, *x[2:]]))
    assert (found.value, found.n, found.null, found.reason) == (sign, size, 0, None)
    inner, outer = (found.low, found.high) if sign > 0 else (found.high, found.low)
    assert inner == pytest.approx(near.low if sign > 0 else near.high)
    assert outer == sign
