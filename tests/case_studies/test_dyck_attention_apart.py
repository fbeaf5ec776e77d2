"""Models of two kinds, and models of three layers: the measures by hand, and what may be said on either outcome."""

from itertools import combinations, product

import numpy as np
import pytest

from case_studies.dyck_attention import apart
from case_studies.dyck_attention.apart import Apart, apart_parts, between, measure_kinds, measure_pair, other_splits
from case_studies.dyck_attention.deep import Deep, Layer, deep_parts, evenness, measure_deep, random_evenness
from case_studies.dyck_attention.families import (
    FIGURES,
    MAIN,
    ONE_APART,
    OTHERS,
    PREFIXES,
    RELEASED,
    RELEASED_PREFIXES,
    TWO_KINDS,
    VARIED,
)
from case_studies.populations import Family
from case_studies.study import Obtained
from closeness import assert_close
from interp import train_population
from interp.dip import clustered
from interp.patterns import attention_patterns
from interp.stats import Estimate, clopper_pearson
from probes.variation import PAPER_SENTENCE

KEYS = 9


def rows(rng, models, towards=None, weight=0.0):
    """Causal patterns [model, query, key] of random rows; `towards` "first" or "own" takes `weight` of each."""
    patterns = np.zeros((models, KEYS, KEYS))
    for m, q in product(range(models), range(KEYS)):
        patterns[m, q, : q + 1] = rng.dirichlet(np.ones(q + 1))
        if towards:
            patterns[m, q] *= 1 - weight
            patterns[m, q, 0 if towards == "first" else q] += weight
    return patterns


def kinds_of(first, second):
    return np.repeat([False, True], [first, second])


def test_the_share_is_that_of_a_loop_over_pairs():
    """Thirteen models; seeds 0 and 1 have one of each kind, which are not compared."""
    patterns, kind = rows(np.random.default_rng(0), 13), kinds_of(6, 7)
    seeds = np.array([*range(6), 0, 1, *range(6, 11)])
    found = between("a", ("x", "y"), patterns, kind, seeds)

    def distance(i, j):
        return sum((patterns[i, q, k] - patterns[j, q, k]) ** 2 for q in range(KEYS) for k in range(KEYS))

    across = np.mean([distance(i, j) for i in range(6) for j in range(6, 13) if seeds[i] != seeds[j]])
    one, two = (np.mean([distance(i, j) for i, j in combinations(own, 2)]) for own in (range(6), range(6, 13)))
    assert_close(found.across, across, scale=across)
    assert_close(found.within, (one, two), scale=across)
    assert_close(found.share.value, 1 - (one + two) / 2 / across, scale=1)
    assert found.counts == (6, 7)
    assert (found.share.low, found.share.n) == (None, 11)


@pytest.mark.parametrize("paired", [True, False])
def test_p_is_even_where_kinds_do_not_matter_and_small_where_they_do(paired, monkeypatch):
    """Also where models differ in one direction only, and where both models of a seed are alike."""
    monkeypatch.setattr(apart, "DEALT", 199)
    rng, found = np.random.default_rng(1), []
    seeds = np.tile(np.arange(10), 2) if paired else np.arange(20)
    for _ in range(60):
        own = rng.normal(size=20)
        if paired:
            own = 0.3 * own + np.tile(rng.normal(size=10), 2)
        patterns = np.zeros((20, KEYS, KEYS)) + own[:, None, None]
        found.append(between("a", ("x", "y"), patterns, kinds_of(10, 10), seeds).p)
    assert 0.3 < np.mean(found) < 0.7
    assert np.mean(np.array(found) <= 0.05) <= 0.15
    far = np.concatenate([rows(rng, 10, "first", 0.5), rows(rng, 10, "own", 0.5)])
    assert between("a", ("x", "y"), far, kinds_of(10, 10), seeds).p == 1 / 200


def test_few_of_a_kind_say_nothing():
    found = between("a", ("x", "y"), rows(np.random.default_rng(2), 10), kinds_of(1, 9), np.arange(10))
    assert (found.share.value, found.across, found.p) == (None, None, None)
    assert "fewer than two models are of one kind" in " ".join(str(p) for p in apart_parts([found], []))


def test_other_splits_are_of_columns_and_diagonals():
    """By hand on three positions: columns 0 to 2, diagonals one and two back and that of the query itself."""
    patterns = np.zeros((4, 3, 3))
    patterns[:, 1, 0], patterns[:, 1, 1] = [0.9, 0.8, 0.2, 0.1], [0.1, 0.2, 0.8, 0.9]
    patterns[:, 2, 2] = 1.0
    splits = other_splits(patterns, 2)
    assert len(splits) == 6 * 5 - 1  # all ordered pairs but the one in question
    assert all(kind.sum() == 2 for kind in splits)
    assert any(list(kind) == [True, True, False, False] for kind in splits)


@pytest.fixture(scope="module")
def small():
    """Six models, barely trained."""
    family = Family("small", "dyck-standard", {"eval_every": 5}, steps=5)
    population = train_population(family.recipe, range(6), workers=1)
    return Obtained(family, population, "digest")


def test_kinds_of_a_population_are_read_off_its_last_layer(small):
    found = measure_kinds(small)
    tokens = small.population[0].to_tokens(PAPER_SENTENCE)
    leans = []
    for model in small.population:
        pattern = attention_patterns(model, tokens)[-1][0, 0]
        own, first = (sum(float(pattern[q, k]) for q, k in pairs) for pairs in pairs_of(len(pattern)))
        leans.append((own - first) / (len(pattern) - 1))
    current = sum(lean > 0 for lean in leans)
    assert found.counts == (6 - current, current)
    assert found.kinds == ("initial position", "current position")
    same = measure_pair("same", ("a", "b"), small.population, small.population)
    assert_close(same.across, same.within[0], scale=same.across)  # no model is across from itself
    assert (same.share.n, same.p) == (6, 1.0)
    assert found.clustered == (clustered(leans) if 2 <= current <= 4 else None)


def pairs_of(size):
    return [(q, q) for q in range(1, size)], [(q, 0) for q in range(1, size)]


def test_families_that_are_compared_are_trained():
    trained = [*MAIN, *OTHERS, *PREFIXES, *RELEASED, *RELEASED_PREFIXES, *VARIED, *(panel.family for panel in FIGURES)]
    for name, (first, second) in ONE_APART.items():
        assert first in trained
        assert second in trained
        if name.startswith("eq. "):  # the first layer is another, for which each preset has its own steps and rate
            assert all(family.preset.startswith("dyck-minimal") for family in (first, second))
            assert first.preset != second.preset
            assert first.options == second.options == {}
        else:
            assert (first.preset, first.steps) == (second.preset, second.steps)  # one option is another, and no more
            assert len(set(first.options.items()) ^ set(second.options.items())) <= 2
    assert all(family in trained for family in TWO_KINDS)


@pytest.mark.parametrize(("p", "said"), [(0.05, "due to the kind (n=40 seeds, p = 0.05)."), (0.051, "at random")])
def test_what_is_said_of_two_populations_follows_p(p, said):
    e = Estimate(0.4, None, None, 40, "seeds", {"mean": 0.0, "95 in 100 below": 0.1}, "why")
    text = apart_parts([Apart("them", ("a", "b"), (20, 20), 2.0, (1.0, 1.0), e, p)], [])[-1]
    assert said in text


@pytest.mark.parametrize(("modes", "said"), [(True, "has more than one mode"), (False, "two kinds are not shown")])
def test_what_is_said_of_kinds_follows_their_modes(modes, said):
    e = Estimate(0.4, None, None, 40, "seeds", {"mean": 0.0, "95 in 100 below": 0.1}, "why")
    text = apart_parts([], [Apart("them", ("a", "b"), (20, 20), 2.0, (1.0, 1.0), e, 0.01, modes)])[-1]
    assert said in text
    assert "20 to the a and 20 to the b" in text


# -- three layers -------------------------------------------------------------------------------------------


def test_evenness_by_hand():
    visible = np.tri(3, dtype=bool)[None]
    pattern = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [1, 0, 0]]]], dtype=float)
    assert evenness(pattern, visible) == pytest.approx((1 + 1 / 3) / 2)  # the row of one key has no choice
    rng = np.random.default_rng(0)
    drawn = np.stack([rows(rng, 1)[0] for _ in range(3000)])
    visible = np.broadcast_to(np.tri(KEYS, dtype=bool), drawn.shape)
    found = evenness(drawn[:, None], visible)
    assert found == pytest.approx(random_evenness(visible), abs=0.004)  # absolute: three standard errors of the mean


def test_layers_of_models_barely_trained_are_even_and_unclear(small):
    found = measure_deep(small)
    assert [layer.even.n for layer in found.layers] == [6, 6]
    for layer in found.layers:
        assert layer.even.value > 0.9 > layer.even.null["random_rows"]
        assert layer.clear.value == layer.clear.null == 0
        assert layer.relations == {}


def deep(even, *clear):
    layers = [Layer(Estimate(0.5, even, 1.0, 8, "seeds", {"random_rows": 0.6, "untrained": 0.9}), NONE, {})]
    higher = [Layer(layers[0].even, clopper_pearson(n, 8).with_null(0.125), {"its own": n}) for n in clear]
    return Deep("them", "", layers + higher)


NONE = clopper_pearson(0, 8).with_null(0.0)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (deep(0.91, 0, 0), ("in 1 of 1", "Of the 2 higher layers, 2 show", "0 in more", "in 0 the interval")),
        (deep(0.89, 8, 4), ("in 0 of 1", "Of the 2 higher layers, 0 show", "1 in more", "in 1 the interval")),
    ],
)
def test_what_is_said_of_three_layers(found, said):
    table, text = deep_parts([found])
    assert [row[table.head.index("untrained")] for row in table.rows] == ["0.00", "0.12", "0.12"]
    for words in said:
        assert words in text
    assert deep_parts([]) == []
