"""Variation by origin: against a slow loop, on patterns of known parts, in simulation, and on crossed models."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from closeness import assert_close
from interp import Population, load_checkpoint
from interp.errors import AnalysisError, RequestError
from interp.presets import make_recipe
from probes import share_of_origins
from probes.checking import analyzer_checks
from probes.core import to_json
from probes.variation import analyze_variation, origins_from_patterns, variation_from_patterns
from probes.variation.origins import split_of

ORIGINS = ("weights", "data", "both")
ROWS, UNIT = 9, 0.3  # rows that move; by how much of what is asked for, so that no weight becomes negative


def patterns(levels, weights, data, both, *, heads=1, inputs=1, seed=0):
    """Causal patterns [levels**2, input, head, N, N] and its three parts in units of variation, known beforehand.

    Every other row is even but for w_i + d_j + b_ij, normal numbers of these sizes, that move from one key to its
    neighbour: of two models that differ in one part alone the squared distance is twice its variance at either key.
    """
    rng = np.random.default_rng(seed)
    n = 2 * ROWS
    weights, data, both = UNIT * weights, UNIT * data, UNIT * both
    shape = (levels, levels, heads, ROWS)
    moves = (
        weights * rng.normal(size=(levels, 1, heads, ROWS))
        + data * rng.normal(size=(1, levels, heads, ROWS))
        + both * rng.normal(size=shape)
    )
    out = np.broadcast_to(np.tri(n) / np.arange(1, n + 1)[:, None], (*shape[:3], n, n)).copy()
    for row in range(ROWS):
        out[..., 2 * row + 1, 2 * row] += moves[..., row]
        out[..., 2 * row + 1, 2 * row + 1] -= moves[..., row]
    assert out.min() >= 0
    truth = [4 * ROWS * size**2 for size in (weights, data, both)]
    whole = out.reshape(levels**2, 1, heads, n, n)
    return np.repeat(whole, inputs, axis=1), truth


def slow(p, levels):
    """(variation, weights, data, both) by three loops over pairs, of one head."""
    kinds = {"weights": [], "data": [], "neither": []}
    for s, t in itertools.combinations(range(levels**2), 2):
        gap = np.mean([np.sum((p[s, x, 0] - p[t, x, 0]) ** 2) for x in range(p.shape[1])])
        shared = "weights" if s // levels == t // levels else "data" if s % levels == t % levels else "neither"
        kinds[shared].append(gap)
    means = {name: np.mean(gaps) for name, gaps in kinds.items()}
    # Half the mean distance where weights are shared is s_data + s_both, and so on; twice a part is its variation.
    s_weights = (means["neither"] - means["weights"]) / 2
    s_data = (means["neither"] - means["data"]) / 2
    s_both = means["neither"] / 2 - s_weights - s_data
    return [means["neither"], 2 * s_weights, 2 * s_data, 2 * s_both]


def test_parts_are_those_of_a_slow_loop():
    rng = np.random.default_rng(0)
    scores = np.where(np.tri(6, dtype=bool), 2 * rng.normal(size=(16, 3, 1, 6, 6)), -np.inf)
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    found = origins_from_patterns([p], 4)
    variation, *parts = slow(p, 4)
    assert found.variation[0].value == pytest.approx(variation)
    assert list(found.parts[0].values()) == pytest.approx(parts)
    assert [found.shares(0)[name].value for name in ORIGINS] == pytest.approx(np.array(parts) / variation)
    assert (found.levels, found.num_inputs, found.variation[0].n) == (4, 3, 4)


def test_intervals_are_those_of_a_literal_jackknife():
    p, _ = patterns(5, 0.01, 0.005, 0.01)
    found, values, squares = origins_from_patterns([p], 5), slow(p, 5), np.zeros(4)
    for axis in (0, 1):
        grid = p.reshape(5, 5, *p.shape[1:])
        without = []
        for level in range(5):
            left = np.delete(grid, level, axis)
            gaps = np.square(left[:, :, None, None] - left).sum((-1, -2, -3, -4))
            parts = split_of(gaps)
            without.append([parts[0], *(parts[1:] / parts[0])])
        squares += 4 / 5 * np.square(without - np.mean(without, axis=0)).sum(0)
    quantile = 2.7764451  # Student's, 4 degrees of freedom
    for name, error in zip(ORIGINS, np.sqrt(squares)[1:], strict=True):
        share = found.shares(0)[name]
        assert share.high - share.value == pytest.approx(quantile * error)
        assert share.value - share.low == pytest.approx(quantile * error)
    relative = quantile * np.sqrt(squares[0]) / values[0]
    assert found.variation[0].high == pytest.approx(values[0] * np.exp(relative))
    assert found.variation[0].low == pytest.approx(values[0] / np.exp(relative))


@pytest.mark.parametrize(
    ("sizes", "expected"), [((0.01, 0, 0), (1, 0, 0)), ((0, 0.01, 0), (0, 1, 0)), ((0.004, 0.008, 0), None)]
)
def test_origins_that_add_up_leave_nothing_to_both(sizes, expected):
    p, _ = patterns(6, *sizes)
    found = origins_from_patterns([p], 6)
    values = [found.shares(0)[name].value for name in ORIGINS]
    scale = (p[0] ** 2).sum() / found.variation[0].value  # what cancels in a distance, in units of a share
    if expected is not None:
        assert_close(values, expected, scale=scale)
        assert_close(list(found.weights[0].ends), expected[0], scale=scale)
    else:  # in this sample; the data move four times as far
        assert values[1] > 3 * values[0] > 0


@pytest.mark.parametrize("sizes", [(0.01, 0.006, 0.008), (0.0, 0.0, 0.01), (0.01, 0.01, 0.01)])
def test_parts_have_no_bias_and_may_be_negative(sizes):
    draws = []
    for seed in range(150):
        p, truth = patterns(4, *sizes, seed=seed)
        flat = p.reshape(4, 4, -1)
        draws.append(split_of(np.square(flat[:, :, None, None] - flat).sum(-1)))
    error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - [sum(truth), *truth]) < 3.5 * error).all()
    if sizes[0] == 0:  # nothing is there, and half of the draws say less than nothing
        assert 0.2 < np.mean([part[1] < 0 for part in draws]) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(0.01, 0.006, 0.008), (0.0, 0.0, 0.01), (0.01, 0.01, 0.0)])
def test_intervals_of_eight_by_eight_cover(sizes):
    hits = []
    for seed in range(120):
        p, truth = patterns(8, *sizes, seed=seed)
        found = origins_from_patterns([p], 8)
        true = [sum(truth), *(np.array(truth) / sum(truth))]
        each = [found.variation[0], *found.shares(0).values()]
        if each[0].low is None:
            continue
        slack = 32 * np.finfo(float).eps * (p[0] ** 2).sum() / each[0].value  # rounding, where a share is a point
        hits.append([e.low - slack <= t <= e.high + slack for e, t in zip(each, true, strict=True)])
    assert len(hits) > 100
    covered = np.mean(hits, axis=0)
    assert (covered >= 0.9).all(), covered


def test_heads_are_matched_as_variation_matches_them():
    p, _ = patterns(3, 0.01, 0.002, 0.004, heads=2, inputs=2)
    for s in range(0, 9, 2):  # which of its heads a model calls the first says nothing
        p[s] = p[s][:, ::-1]
    found, one_by_one = origins_from_patterns([p], 3), origins_from_patterns([p[:, :, :1]], 3)
    pairs = variation_from_patterns([p]).pairs[0]
    kinds = {"weights": [], "data": [], "neither": []}
    for (s, t), gap in zip(itertools.combinations(range(9), 2), pairs, strict=True):
        kinds["weights" if s // 3 == t // 3 else "data" if s % 3 == t % 3 else "neither"].append(gap)
    assert found.variation[0].value == pytest.approx(np.mean(kinds["neither"]))
    assert found.parts[0]["weights"] == pytest.approx(np.mean(kinds["neither"]) - np.mean(kinds["weights"]))
    assert found.parts[0]["data"] == pytest.approx(np.mean(kinds["neither"]) - np.mean(kinds["data"]))
    assert found.weights[0].value != pytest.approx(one_by_one.weights[0].value)
    assert "2 heads matched" in found.summary()


def test_few_levels_and_clusters_have_no_interval():
    p, _ = patterns(4, 0.01, 0.01, 0.01)
    few = origins_from_patterns([p], 4)
    assert few.weights[0].low is None
    assert "4 first weights and data are too few for an interval: 5" in few.summary().replace("\n    ", " ")
    p, _ = patterns(8, 0.0001, 0.0001, 0.0001)
    p[4 * 8 :, :, :, 1, 0] -= 0.4  # half of the first weights go another way
    p[4 * 8 :, :, :, 1, 1] += 0.4
    assert origins_from_patterns([p], 8).data[0].reason == "the first weights fall into clusters: 8 are too few"
    turned = p.reshape(8, 8, *p.shape[1:]).swapaxes(0, 1).reshape(p.shape)
    assert origins_from_patterns([turned], 8).data[0].reason == "the data fall into clusters: 8 are too few"


def test_models_that_all_attend_alike_have_no_origin():
    p, _ = patterns(5, 0, 0, 0)
    found = origins_from_patterns([p], 5)
    assert found.variation[0].ends == (0, 0, 0)
    for share in found.shares(0).values():
        assert share.value is None
        assert "do not vary" in share.reason


# -- models ------------------------------------------------------------------------------------------------


def crossed(levels, keep=None, noise=0.5):
    """Models as if they were trained, crossed: weights of their first weights' seed, moved by their data's."""
    import torch

    recipe = make_recipe("dyck-standard", {"width": 8})
    fresh = Population.init(recipe.config, range(levels), recipe.grammar).params
    size = levels**2
    params = {}
    for i, (name, p) in enumerate(fresh.items()):
        other = torch.stack([torch.randn(p.shape[1:], generator=_torch(100 * i + d)) for d in range(levels)])
        params[name] = torch.stack([p[s // levels] + noise * other[s % levels] for s in range(size)])
    provenance = {"settings": {"crossed": levels}, "trained": True}
    whole = Population(recipe.config, recipe.grammar, params, range(size), provenance)
    return whole if keep is None else [whole[s] for s in keep]


def _torch(seed):
    import torch

    return torch.Generator().manual_seed(seed)


def test_a_population_and_its_models_in_any_order_give_the_same():
    population = crossed(3)
    whole = share_of_origins(population, task_check=False)
    mixed = share_of_origins(crossed(3, [4, 8, 0, 1, 7, 2, 3, 5, 6]), task_check=False)
    for name in ("variation", *ORIGINS):
        for one, other in zip(getattr(whole, name), getattr(mixed, name), strict=True):
            assert one.value == pytest.approx(other.value)
            assert to_json(one.null) == pytest.approx(to_json(other.null))
    measured = analyze_variation(population, task_check=False)
    # Of 36 pairs 9 share weights and 9 data.
    weights, data = whole.parts[1]["weights"], whole.parts[1]["data"]
    assert measured.variation[1].value == pytest.approx(whole.variation[1].value - (weights + data) / 4)
    assert json.loads(json.dumps(whole.to_dict(), allow_nan=False)) == whole.to_dict()


def test_untrained_models_are_their_first_weights():
    found = share_of_origins(crossed(5), task_check=False)
    for layer in range(2):
        nulls = [share.null for share in found.shares(layer).values()]
        assert [null["independent"] for null in nulls] == [0, 0, 1]
        assert_close([null["untrained"] for null in nulls], [1, 0, 0], scale=1)
        assert found.variation[layer].null["untrained"] > 0
    alone = share_of_origins(crossed(5), untrained=False, task_check=False)
    assert alone.weights[1].null == {"independent": 0, "untrained": None}
    assert max(map(len, found.summary().splitlines())) <= 80


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: load_checkpoint("dyck-standard"), AnalysisError, "were crossed, and these were not: train with"),
        (lambda: crossed(3, range(8)), AnalysisError, "seeds 0 to 8, and 1 of them are not there, the first 8"),
        (lambda: crossed(3)[3:], AnalysisError, "3 of them are not there, the first 0"),
        (lambda: crossed(2, [0, 1, 2, 3, 2]), RequestError, "crossed=2 are 4 models, not 5: seed 2 is one too many"),
        (lambda: crossed(2, [0]), AnalysisError, "3 of them are not there"),
        (lambda: crossed(3)[0], AnalysisError, "one model was given"),
        (lambda: replace(crossed(2), provenance={"settings": {"crossed": 1}}), AnalysisError, "crossed=1 is one model"),
    ],
)
def test_what_was_not_crossed_or_is_incomplete_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        share_of_origins(make(), task_check=False)


def test_patterns_of_another_number_of_models_are_refused():
    p, _ = patterns(3, 0.01, 0.01, 0.01)
    with pytest.raises(AnalysisError, match="2 first weights by 2 data are 4 models, not 9"):
        origins_from_patterns([p], 2)
    with pytest.raises(RequestError, match="levels=1 is not a whole number of at least 2"):
        origins_from_patterns([p], 1)


def untrained_guest():
    one = crossed(5, noise=0)
    return replace(one, provenance=one.provenance | {"trained": False})


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=name) for name, check in analyzer_checks(share_of_origins, untrained_guest())]
)
def test_it_passes_every_check_of_an_analyzer(check):
    check()
