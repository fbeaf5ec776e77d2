"""The canonical flow: its formulas by difference quotients, its invariant and basins by integration."""

import itertools
import math

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import GrammarError, RequestError
from interp.rng import generator
from interp.worlds.binary_chain.flow import SADDLE, SADDLE_LEVEL, CanonicalFlow, boundary, gap, invariant
from interp.worlds.binary_chain.portrait import phase_portrait

KERNELS = [(0.1, 0.1), (0.2, 0.3), (0.5, 0.8), (0.9, 0.9), (0.6, 0.7)]
STARTS = [(0.1, 0.02), (1.0, -1.2), (0.3, -1.2), (1.0, -0.5), (0.2, -0.5)]
# Of the 25 cases, in the order of KERNELS and STARTS: g where the flow learns the kernel, u where it ends at unigrams.
ENDS = ["ggugg", "ggugg", "ugggu", "ugggu", "ugggu"]
EXAMPLES = list(itertools.product(KERNELS, STARTS))


def plain_descent(flow, e, w, steps, rate):
    """Gradient descent on (e, w, b) by the formulas of the released code, written out."""
    p, q = flow.p, flow.q
    pi_1 = p / (p + q)
    b = math.log(p / q)
    for _ in range(steps):
        f1, f0 = (0.5 + 2 * w * abs(w)) * e * e + b, b - 0.5 * e * e
        s1, s0 = 1 / (1 + math.exp(-f1)), 1 / (1 + math.exp(-f0))
        at_1, at_0 = pi_1 * (s1 - (1 - q)), (1 - pi_1) * (s0 - p)
        by_e = at_1 * 2 * e * (0.5 + 2 * w * abs(w)) - at_0 * e
        by_w = at_1 * 4 * abs(w) * e * e
        e, w, b = e - rate * by_e, w - rate * by_w, b - rate * (at_1 + at_0)
    return e, w, b


@pytest.mark.parametrize(("p", "q"), KERNELS)
def test_the_loss_is_the_expectation_over_pairs_of_states(p, q):
    flow, pi_1 = CanonicalFlow(p, q), p / (p + q)
    for e, w, b in generator(0, "test").uniform(-2, 2, (20, 3)):
        total = 0.0
        for x, y in itertools.product((0, 1), (0, 1)):
            odds = e * e * (1 + 2 * w * abs(w)) * x + b - e * e / 2
            right = 1 / (1 + math.exp(-odds if y else odds))
            total -= (pi_1 if x else 1 - pi_1) * flow.chain.kernel[x, y] * math.log(right)
        assert_close(flow.loss(e, w, b), total, scale=50)


@pytest.mark.parametrize(("p", "q"), KERNELS)
def test_gradients_are_difference_quotients(p, q):
    flow, h = CanonicalFlow(p, q), 1e-5
    points = generator(1, "test").uniform(-1.5, 1.5, (20, 3))
    for e, w, b in points:
        moved = [
            (flow.loss(*(x + h * (i == j) for j, x in enumerate((e, w, b))))
             - flow.loss(*(x - h * (i == j) for j, x in enumerate((e, w, b))))) / (2 * h)
            for i in range(3)
        ]  # fmt: skip
        assert np.abs(flow.gradient(e, w, b) - moved).max() < 1e-6  # absolute: h^2 times third derivatives
        by_e, by_w, by_b = flow.gradient(e, w)
        quotient = [
            (flow.loss(e + h, w) - flow.loss(e - h, w)) / (2 * h),
            (flow.loss(e, w + h) - flow.loss(e, w - h)) / (2 * h),
        ]
        assert np.abs(np.array([by_e, by_w]) - quotient).max() < 1e-6  # absolute: as above
        assert by_b == 0


@pytest.mark.parametrize(("p", "q"), [*KERNELS, (0.3, 0.7), (0.01, 0.98)])
def test_the_best_bias_has_no_slope_and_is_a_minimum(p, q):
    flow = CanonicalFlow(p, q)
    for e, w in generator(2, "test").uniform(-2, 2, (20, 2)):
        b = flow.best_bias(e, w)
        assert_close(flow.gradient(e, w, b)[2], 0.0, scale=50)
        assert flow.loss(e, w) <= min(flow.loss(e, w, b + 0.1), flow.loss(e, w, b - 0.1))


@pytest.mark.parametrize(("p", "q"), KERNELS)
def test_the_two_kinds_of_minima(p, q):
    flow = CanonicalFlow(p, q)
    w = -1.5 if flow.target < 0 else 0.4
    e = math.sqrt(flow.target / (1 + 2 * w * abs(w)))
    after_0, after_1 = flow.logits(e, w, flow.best_bias(e, w))
    assert_close(1 / (1 + np.exp(-after_0)), p, scale=10)
    assert_close(1 / (1 + np.exp(-after_1)), 1 - q, scale=10)
    assert_close(flow.loss(e, w), flow.chain.entropy_rate, scale=10)
    assert_close(flow.loss(0.0, 0.7), flow.chain.unigram_loss, scale=10)
    assert_close(flow.best_bias(0.0, 0.7), math.log(p / q), scale=10)


@pytest.mark.parametrize(("p", "q"), KERNELS)
@pytest.mark.parametrize("w", [-1.5, -0.8, -0.6, -0.1, 0.5])
def test_which_unigram_points_are_minima_of_the_plane(p, q, w):
    flow = CanonicalFlow(p, q)
    minimum = (w < SADDLE) == (flow.target > 0)
    assert (flow.loss(1e-2, w) > flow.chain.unigram_loss) == minimum


@pytest.mark.parametrize(("kernel", "start"), EXAMPLES, ids=str)
def test_all_25_cases_end_where_the_invariant_says(kernel, start):
    flow, (e, w) = CanonicalFlow(*kernel), start
    expected = {"g": "global", "u": "unigram"}[ENDS[KERNELS.index(kernel)][STARTS.index(start)]]
    assert flow.basin(e, w) == expected
    path, end = flow.flow(e, w), flow.end(e, w)
    assert np.abs(invariant(path.e, path.w) - invariant(e, w)).max() < 1e-6  # absolute: the solver
    assert math.hypot(path.e[-1] - end.e, path.w[-1] - end.w) < 1e-6  # absolute: the solver
    least = flow.chain.entropy_rate if expected == "global" else flow.chain.unigram_loss
    assert abs(path.loss[-1] - least) < 1e-8  # absolute: the solver
    assert (np.diff(path.loss) < 1e-9).all()  # absolute: gradient flow never rises, but for the solver's error
    assert_close(invariant(end.e, end.w), invariant(e, w), scale=100)
    if expected == "global":
        assert_close(gap(end.e, end.w), flow.target, scale=100)


@pytest.mark.parametrize(("kernel", "start"), EXAMPLES, ids=str)
def test_plain_gradient_descent_ends_there_too(kernel, start):
    flow, (e, w) = CanonicalFlow(*kernel), start
    at = plain_descent(flow, e, w, 6000, 0.05)
    least = flow.chain.entropy_rate if flow.basin(e, w) == "global" else flow.chain.unigram_loss
    assert abs(flow.loss(*at) - least) < 1e-5  # absolute: after so many steps


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.3), (0.5, 0.8)])
def test_starts_just_beside_the_boundary_part(p, q):
    flow = CanonicalFlow(p, q)
    w = -1.3 if flow.target > 0 else -0.4
    edge = math.sqrt(boundary(w))
    assert flow.basin(edge, w) == "boundary"
    for near, expected in ((edge + 1e-3, "global"), (edge - 1e-3, "unigram")):
        assert flow.basin(near, w) == flow.basin(-near, w) == expected
        path = flow.flow(near, w)
        assert (abs(path.loss[-1] - flow.chain.entropy_rate) < 1e-8) == (expected == "global")  # absolute: the solver


@pytest.mark.parametrize("kernel", [(0.2, 0.3), (0.5, 0.8)])
@pytest.mark.parametrize("start", [(0.8, -0.6), (0.4, -0.6), (0.8, 0.6), (0.8, -1.2), (2.7, -1.2)], ids=str)
def test_another_pace_moves_the_boundary(kernel, start):
    flow, (e, w) = CanonicalFlow(*kernel, pace=16), start
    path, end = flow.flow(e, w), flow.end(e, w)
    assert np.abs(invariant(path.e, path.w, 16) - invariant(e, w, 16)).max() < 1e-5  # absolute: the solver
    assert math.hypot(path.e[-1] - end.e, path.w[-1] - end.w) < 1e-6  # absolute: the solver
    least = flow.chain.entropy_rate if flow.basin(e, w) == "global" else flow.chain.unigram_loss
    assert abs(path.loss[-1] - least) < 1e-8  # absolute: the solver
    if kernel == (0.5, 0.8) and start == (0.4, -0.6):
        assert (flow.basin(e, w), CanonicalFlow(*kernel).basin(e, w)) == ("unigram", "global")


def test_the_saddle_lies_on_the_boundary():
    assert_close(invariant(0.0, SADDLE), SADDLE_LEVEL, scale=1)
    assert_close(boundary(SADDLE), 0.0, scale=1)


def test_independent_states_have_one_kind_of_minimum():
    flow = CanonicalFlow(0.25, 0.75)
    assert flow.basin(0.5, 0.5) == flow.basin(1.0, -1.0) == "both"
    assert flow.end(1.0, -0.9).w == SADDLE
    assert flow.end(1.0, 0.9).e == 0


@pytest.mark.parametrize("flow", [CanonicalFlow(0.2, 0.3), CanonicalFlow(0.5, 0.8)], ids=str)
@pytest.mark.parametrize("w", [0.0, SADDLE, 0.6])
def test_places_of_their_own(flow, w):
    end, path = flow.end(-0.5, w), flow.flow(-0.5, w)
    assert math.hypot(path.e[-1] - end.e, path.w[-1] - end.w) < 1e-6  # absolute: the solver's
    assert flow.end(0.0, w) == (0.0, w)


def test_the_flow_of_three_numbers_keeps_the_invariant_only_with_the_best_bias():
    flow = CanonicalFlow(0.2, 0.3)
    three = flow.flow(1.0, -1.2, b=2.0)
    assert np.abs(np.diff(invariant(three.e, three.w))).max() > 1e-3
    assert abs(three.loss[-1] - flow.chain.entropy_rate) < 1e-8  # absolute: the solver's
    assert_close(three.b[-1], flow.best_bias(three.e[-1], three.w[-1]), ulps=1e9, scale=1)


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.3), (0.5, 0.8)])
@pytest.mark.parametrize("std", [0.5, 1.0])
def test_shares_of_gaussian_starts(p, q, std):
    flow = CanonicalFlow(p, q)
    starts = generator(0, "test").standard_normal((4000, 2)) * std
    share = np.mean([flow.basin(e, w) == "global" for e, w in starts])
    assert abs(flow.global_share(std) - share) < 4 * math.sqrt(share * (1 - share) / 4000)


def test_small_gaussian_starts_learn_only_below_one():
    assert_close(CanonicalFlow(0.2, 0.3).global_share(0.02), 1.0)
    assert CanonicalFlow(0.5, 0.8).global_share(0.02) < 1e-12  # absolute: a probability
    assert CanonicalFlow(0.25, 0.75).global_share(0.02) == 1


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.3), (0.5, 0.8), (0.25, 0.75)])
def test_portraits_show_what_there_is(p, q):
    flow = CanonicalFlow(p, q)
    figure = phase_portrait(flow, [flow.flow(1.0, -1.2)])
    named = {trace.name: trace for trace in figure.data if trace.name}
    assert "trajectories" in named
    minima = named["global minima"]
    found = [(e, w) for w, e in zip(minima.x, minima.y, strict=True) if w is not None]
    assert_close([gap(e, w) for e, w in found], flow.target, scale=100)
    title = figure.layout.title.text
    assert {0.5: "global minimum", 1.3: "local minima", 1.0: "independent"}[round(p + q, 1)] in title
    if flow.target:
        edge = named["boundary of the basins"]
        drawn = [(e, w) for w, e in zip(edge.x, edge.y, strict=True) if w is not None]
        assert_close([invariant(e, w) for e, w in drawn], SADDLE_LEVEL, scale=100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CanonicalFlow(0.5, 1.0), "q=1.0"),
        (lambda: CanonicalFlow(0.5, 0.8, pace=0), "pace=0"),
        (lambda: CanonicalFlow(0.5, 0.8).basin(float("nan"), 0), "e=nan"),
        (lambda: CanonicalFlow(0.5, 0.8).flow(0.1, 50), "w=50"),
        (lambda: CanonicalFlow(0.5, 0.8).flow(0.1, 0.1, b="much"), "b='much'"),
        (lambda: CanonicalFlow(0.5, 0.8).global_share(0), "std=0"),
        (lambda: phase_portrait(CanonicalFlow(0.5, 0.8), reach=0), "reach=0"),
    ],
)
def test_bad_input_is_named(make, said):
    with pytest.raises((GrammarError, RequestError)) as caught:
        make()
    assert said in str(caught.value)
