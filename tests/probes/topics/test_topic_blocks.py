"""Topic blocks: the numbers on matrices worked by hand, their nulls, and the analyzer on models."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats as reference

from closeness import assert_close, rounding
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError, RequestError
from interp.model import SandboxTransformer
from interp.population import Population
from interp.stats import mean_over_seeds
from interp.worlds.topics.theory import TopicTheory
from probes.topics import adjusted_rand, analyze_topic_blocks
from probes.topics.attention import pair_sums

THEORY = TopicTheory(10, 10)
TOPICS = np.repeat(np.arange(10), 10)
SMALL = TopicTheory(4, 3)


def ideal(topics: np.ndarray, high: float = 1.0, low: float = 0.0) -> np.ndarray:
    return np.where(topics[:, None] == topics, high, low)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def literal(m: np.ndarray, topics: np.ndarray, diagonal: bool) -> tuple[float, float]:
    """(raw contrast, R^2 within rows) with every sum written out."""
    raw, explained, total = [], 0.0, 0.0
    for i, row in enumerate(m):
        columns = [j for j in range(len(m)) if diagonal or j != i]
        same = [row[j] for j in columns if topics[j] == topics[i]]
        other = [row[j] for j in columns if topics[j] != topics[i]]
        mean = np.mean(same + other)
        raw.append(np.mean(same) - np.mean(other))
        explained += len(same) * (np.mean(same) - mean) ** 2 + len(other) * (np.mean(other) - mean) ** 2
        total += np.sum((np.array(same + other) - mean) ** 2)
    return float(np.mean(raw)), float(np.sign(np.mean(raw)) * explained / total)


# ---- definitions ---------------------------------------------------------------------------------


def test_two_topics_of_two_words_by_hand():
    m = np.array([[5, 3, 1, 1], [3, 5, 1, 1], [0, 0, 2, 1], [0, 0, 1, 2]], dtype=float)
    r = analyze_topic_blocks(m, labels=[0, 0, 1, 1])
    # Rows 0, 1: same-topic mean 4, different 1; rows 2, 3: 1.5 and 0. Off the diagonal 3 - 1 and 1 - 0.
    assert r.raw_contrast.value == pytest.approx((3 + 3 + 1.5 + 1.5) / 4)
    assert r.raw_contrast_off_diagonal.value == pytest.approx((2 + 2 + 1 + 1) / 4)
    # Within rows (5, 3, 1, 1): between 9, total 11. (2, 1, 0, 0): 2.25 of 2.75.
    assert r.contrast.value == pytest.approx((9 + 9 + 2.25 + 2.25) / (11 + 11 + 2.75 + 2.75))
    assert r.contrast_off_diagonal.value == pytest.approx(1)
    # Own entry less the mean of the other three: 5 - 5/3 and 2 - 1/3, squared and times 3/4.
    assert r.diagonality.value == pytest.approx(0.75 * 2 * ((10 / 3) ** 2 + (5 / 3) ** 2) / 27.5)
    assert r.uniformity.value is None
    assert "two words" in r.uniformity.reason
    assert (r.same_pairs, r.different_pairs, r.excluded, r.num_topics) == (4, 8, 0, 2)
    # Three ways to pair four words, of which this is the best: a third of the relabellings.
    assert r.p_value == pytest.approx(1 / 3, abs=0.05)  # absolute: four standard errors of 2,000 permutations
    assert r.structure == "none"
    assert r.notes == ("too few words for a p-value below 0.33",)
    assert r.ari.value == 1


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 5, 4, 6)])
def test_numbers_equal_their_literal_sums(sizes):
    topics = np.repeat(np.arange(len(sizes)), sizes)
    m = normal(len(topics), len(topics)) + ideal(topics)
    r = analyze_topic_blocks(m, labels=topics)
    for diagonal, raw, share in (
        (True, r.raw_contrast, r.contrast),
        (False, r.raw_contrast_off_diagonal, r.contrast_off_diagonal),
    ):
        assert (raw.value, share.value) == pytest.approx(literal(m, topics, diagonal))
    own = np.diag(m)
    others = (m.sum(1) - own) / (len(m) - 1)
    total = ((m - m.mean(1, keepdims=True)) ** 2).sum()
    assert r.diagonality.value == pytest.approx((len(m) - 1) / len(m) * ((own - others) ** 2).sum() / total)
    c = m.copy()
    np.fill_diagonal(c, np.nan)
    top = bottom = 0.0
    for i, row in enumerate(c):
        same = topics == topics[i]
        inside = row[same & ~np.isnan(row)]
        if len(inside) > 1:
            gap = inside.mean() - row[~same].mean()
            top, bottom = top + gap**2, bottom + gap**2 + inside.var(ddof=1)
    assert r.uniformity.value == pytest.approx(top / bottom)


def test_ideal_blocks():
    r = analyze_topic_blocks(ideal(TOPICS), labels=TOPICS)
    for estimate in (r.contrast, r.contrast_off_diagonal, r.ari, r.uniformity):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1))
        assert (estimate.n, estimate.over) == (100, "words")
    assert r.diagonality.value == pytest.approx(r.diagonality.null["blocks"]) == pytest.approx(1 / 11)
    assert (r.p_value, r.p_diagonal, r.structure) == (1 / 2001, 1, "blocks")
    assert (r.same_pairs, r.different_pairs) == (900, 9000)


def test_a_diagonal_carries_no_topics():
    for m in (np.eye(100), np.eye(100) + 5, np.eye(100) + normal(100, 1), 3 * np.eye(100) + 0.2 * normal(100, 100)):
        r = analyze_topic_blocks(m, labels=TOPICS)
        assert r.structure == "diagonal"
        assert abs(r.ari.value) < 0.05  # absolute: chance agreement of 100 words
        assert r.p_value > 0.01
    r = analyze_topic_blocks(np.eye(100), labels=TOPICS)
    assert r.contrast.value == pytest.approx(r.contrast.null["diagonal"]) == pytest.approx(1 / 11)
    assert r.diagonality.value == 1
    assert r.contrast_off_diagonal.value is None
    assert r.contrast_off_diagonal.reason == "off the diagonal every row is constant"
    assert r.ari.value == 0
    assert r.p_value == 1


def test_blocks_with_a_diagonal_are_both_unless_one_is_faint():
    noise = 0.02 * normal(100, 100)
    words = []
    for extra in (0.0, 0.5, 30.0):
        words.append(analyze_topic_blocks(ideal(TOPICS) + extra * np.eye(100) + noise, labels=TOPICS).structure)
    assert words == ["blocks", "blocks and diagonal", "diagonal"]


def test_opposite_blocks_are_negative_and_none():
    r = analyze_topic_blocks(ideal(TOPICS, -1.0), labels=TOPICS)
    assert r.contrast.value == pytest.approx(-1)
    assert (r.p_value, r.structure) == (1, "none")


def test_random_is_none():
    r = analyze_topic_blocks(normal(100, 100), labels=TOPICS)
    assert abs(r.contrast.value) == pytest.approx(0.01, rel=0.3)
    assert r.contrast.null["random"] == pytest.approx(1 / 99)
    assert abs(r.diagonality.value) == pytest.approx(0.01, rel=0.4)
    assert abs(r.ari.value) < 0.05  # absolute: chance agreement of 100 words
    assert r.structure == "none"


def test_faint_blocks_are_seen_where_the_eye_and_the_clusters_fail():
    """Fig. 2.5, panel 3: block mean .0055 beside -.00016, with single entries that spread by .019."""
    m = 0.0057 * ideal(TOPICS) + 0.019 * normal(100, 100)
    r = analyze_topic_blocks(m, labels=TOPICS)
    assert r.structure == "blocks"
    assert 0.01 < r.contrast.value < 0.03
    assert r.ari.value < 0.2


# ---- what must change nothing --------------------------------------------------------------------


def numbers(result) -> list[float]:
    names = ("contrast", "contrast_off_diagonal", "diagonality", "uniformity", "ari", "raw_contrast")
    return [getattr(result, name).value for name in names]


def test_offsets_of_rows_and_the_scale_change_nothing():
    m = ideal(TOPICS) + 0.5 * normal(100, 100)
    r = analyze_topic_blocks(m, labels=TOPICS)
    moved = analyze_topic_blocks(m + 100 * normal(100, 1, seed=1), labels=TOPICS)
    assert numbers(moved) == pytest.approx(numbers(r), rel=1e-9)
    assert (moved.p_value, moved.p_diagonal, moved.structure) == (r.p_value, r.p_diagonal, r.structure)
    scaled = analyze_topic_blocks(7 * m, labels=TOPICS)
    assert numbers(scaled)[:5] == pytest.approx(numbers(r)[:5])
    exact = analyze_topic_blocks(ideal(TOPICS) + 100 * normal(100, 1), labels=TOPICS)
    assert exact.contrast.value == pytest.approx(1)
    assert exact.ari.value == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("scale", [1e160, 1e-170, 1e299, 1e-300])
@pytest.mark.slow
def test_no_scale_is_too_large_or_too_small(scale, seeds):
    m = SMALL.value_matrix() + 0.02 * normal(seeds, 13, 13)
    r = analyze_topic_blocks(m, labels=SMALL.topic_of, theory=SMALL)
    scaled = analyze_topic_blocks(scale * m, labels=SMALL.topic_of, theory=SMALL)
    assert numbers(scaled)[:5] == pytest.approx(numbers(r)[:5])
    assert (scaled.structure, scaled.p_value, scaled.p_diagonal) == (r.structure, r.p_value, r.p_diagonal)
    assert r.structure == "blocks"
    one, other = r.raw_contrast, scaled.raw_contrast
    for name in ("value", "low", "high"):
        if getattr(one, name) is not None:  # three seeds are too few for an interval
            assert getattr(other, name) == pytest.approx(scale * getattr(one, name), rel=1e-9, abs=0)
    assert other.null["permuted"] == pytest.approx(scale * one.null["permuted"], rel=1e-9, abs=0)
    each = [scale * x for x in r.per_seed["raw_contrast"]]
    assert scaled.per_seed["raw_contrast"] == pytest.approx(each, rel=1e-9, abs=0)
    assert all(np.isfinite(e.value) and np.isfinite(e.null["permuted"]) for e in scaled.theory.values())
    assert max(map(len, scaled.summary().splitlines())) <= 80
    assert scaled.figure().to_json()
    json.dumps(scaled.to_dict(), allow_nan=False)
    blind = analyze_topic_blocks(scale * ideal(TOPICS))
    assert blind.num_clusters == 10


def test_names_of_topics_and_the_order_of_words_change_nothing():
    m = ideal(TOPICS) + 0.5 * normal(100, 100)
    r = analyze_topic_blocks(m, labels=TOPICS)
    renamed = analyze_topic_blocks(m, labels=97 - 9 * TOPICS)
    assert numbers(renamed) == pytest.approx(numbers(r))
    order = np.random.default_rng(2).permutation(100)
    shuffled = analyze_topic_blocks(m[np.ix_(order, order)], labels=TOPICS[order])
    assert numbers(shuffled) == pytest.approx(numbers(r))
    assert shuffled.p_value == r.p_value == 1 / 2001
    assert shuffled.p_diagonal == pytest.approx(r.p_diagonal, abs=0.05)  # absolute: error of 2,000 permutations


def test_the_same_seed_gives_the_same_result_and_more_permutations_begin_alike():
    m = normal(40, 40)
    topics = np.repeat(np.arange(8), 5)
    first, second, other = (analyze_topic_blocks(m, labels=topics, seed=s).to_dict() for s in (3, 3, 4))
    assert first == second != other
    few, many = (analyze_topic_blocks(m, labels=topics, permutations=n).p_value for n in (128, 192))
    hits = few * 129 - 1, many * 193 - 1
    assert 0 <= hits[1] - hits[0] <= 64


def test_tensors_stacks_and_lists_are_taken():
    m = np.stack([ideal(TOPICS) + normal(100, 100, seed=s) for s in range(3)])
    a = analyze_topic_blocks(m, labels=TOPICS).to_dict()
    assert analyze_topic_blocks(torch.from_numpy(m), labels=torch.from_numpy(TOPICS)).to_dict() == a
    assert analyze_topic_blocks(list(m), labels=TOPICS.tolist()).to_dict() == a


# ---- labels --------------------------------------------------------------------------------------


def test_an_offset_vocabulary_counts_the_right_pairs():
    """Four specials come first, as in the papers' code, whose lookup fed the token id for the word's."""
    labels = np.concatenate([[-1] * 4, TOPICS])
    m = np.zeros((104, 104))
    m[4:, 4:] = ideal(TOPICS)
    m[:4] = m[:, :4] = 50.0
    r = analyze_topic_blocks(m, labels=labels)
    assert (r.same_pairs, r.different_pairs, r.excluded, r.num_words) == (900, 9000, 4, 100)
    assert r.contrast.value == pytest.approx(1)
    assert r.clusters[0, :4].tolist() == [-1] * 4
    off_by_four = np.concatenate([[-1] * 4, (np.arange(4, 104) // 10)])
    wrong = analyze_topic_blocks(m, labels=off_by_four)
    assert wrong.contrast_off_diagonal.value < 0.5
    assert (wrong.same_pairs, wrong.num_topics) == (9 * 90 + 6 * 5 + 4 * 3, 11)


def test_labels_come_from_the_grammar():
    grammar = SimpleNamespace(num_topics=4, words_per_topic=3)
    topics = np.array([-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    m = normal(13, 13) + ideal(topics)
    given = analyze_topic_blocks(m, labels=topics)
    assert numbers(analyze_topic_blocks(m, grammar=grammar)) == numbers(given)
    named = SimpleNamespace(topic_of=topics)
    assert numbers(analyze_topic_blocks(m, grammar=named)) == numbers(given)
    assert (given.excluded, given.labels[:3]) == (1, (-1, 0, 0))


def test_without_labels_only_what_the_matrix_tells():
    m = ideal(TOPICS) + 0.5 * normal(100, 100)
    r = analyze_topic_blocks(m)
    for estimate in (r.contrast, r.contrast_off_diagonal, r.raw_contrast, r.uniformity, r.ari):
        assert estimate.value is None
        assert "no topic labels were given" in estimate.reason
    assert (r.p_value, r.structure, r.same_pairs, r.num_topics) == (None, None, None, None)
    assert (r.num_clusters, r.clusters_from) == (10, "estimated")
    assert adjusted_rand(TOPICS, r.clusters[0]) == 1
    assert r.p_diagonal > 0.01  # beside its cluster, not beside the whole row
    assert "number estimated from the matrix" in r.summary()
    for nothing in (normal(60, 60), np.eye(60), np.zeros((60, 60))):
        assert analyze_topic_blocks(nothing).num_clusters == 1


# ---- nulls ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_p_values_of_random_matrices_are_uniform():
    topics = np.repeat(np.arange(5), 4)
    found = [
        analyze_topic_blocks(m, labels=topics, seed=s, permutations=199) for s, m in enumerate(normal(200, 20, 20))
    ]
    for values in ([r.p_value for r in found], [r.p_diagonal for r in found]):
        low, high = reference.binom.ppf([0.001, 0.999], 200, 0.05)
        assert low <= sum(p <= 0.05 for p in values) <= high
        assert reference.kstest(values, "uniform").pvalue > 0.001
    assert np.mean([r.ari.value for r in found]) == pytest.approx(0, abs=0.03)  # absolute: error of 200 draws


@pytest.mark.slow
def test_p_value_of_few_words_against_all_relabellings():
    topics = np.array([0, 0, 0, 1, 1, 2, 2])
    m = normal(7, 7, seed=5)
    observed = literal(m, topics, False)[0]
    values = [literal(m, topics[list(order)], False)[0] for order in itertools.permutations(range(7))]
    exact = np.mean([v >= observed - 32 * rounding(m) for v in values])
    p = analyze_topic_blocks(m, labels=topics, permutations=20_000).p_value
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


@pytest.mark.slow
def test_permuted_nulls_are_the_means_over_permutations():
    topics = np.repeat([0, 1, 2], (3, 4, 5))
    m = normal(12, 12) + 2 * np.eye(12) + ideal(topics)
    rng = np.random.default_rng(0)
    r = analyze_topic_blocks(m, labels=topics)
    found = []
    for _ in range(1200):
        order = rng.permutation(12)
        # The absolute value: nulls are of the share, which has no sign of its own.
        found.append([abs(literal(m, topics[order], inside)[1]) for inside in (True, False)])
    assert r.contrast.null["permuted"] == pytest.approx(np.mean(found, axis=0)[0], rel=0.06)
    assert r.contrast_off_diagonal.null["permuted"] == pytest.approx(np.mean(found, axis=0)[1], rel=0.06)
    total = ((m - m.mean(1, keepdims=True)) ** 2).sum()
    moved = 0.0
    for i, row in enumerate(m):
        peers = row[topics == topics[i]]
        moved += 11 / 12 * np.mean([(x - (row.sum() - x) / 11) ** 2 for x in peers])
    assert r.diagonality.null["permuted"] == pytest.approx(moved / total)


@pytest.mark.parametrize("sizes", [(2, 2, 4), (2, 6), (3, 5)])
def test_permuted_nulls_are_exact_for_topics_of_unequal_size(sizes):
    topics = np.repeat(np.arange(len(sizes)), sizes)
    m = normal(8, 8) + 2 * np.eye(8)
    m[topics == topics[-1]] *= 3  # rows of the large topic weigh more
    contrast, raw, top, bottom = [], [], 0.0, 0.0
    for named in sorted(set(itertools.permutations(topics.tolist()))):
        found = literal(m, np.array(named), True)
        raw.append(found[0])
        contrast.append(abs(found[1]))
        for i, row in enumerate(m):
            same = np.array([named[j] == named[i] and j != i for j in range(8)])
            other = np.array([named[j] != named[i] for j in range(8)])
            if same.sum() > 1:
                square = (row[same].mean() - row[other].mean()) ** 2
                top, bottom = top + square, bottom + square + row[same].var(ddof=1)
    r = analyze_topic_blocks(m, labels=topics)
    assert r.contrast.null["permuted"] == pytest.approx(np.mean(contrast))
    assert r.raw_contrast.null["permuted"] == pytest.approx(np.mean(raw))
    assert r.uniformity.null["permuted"] == pytest.approx(top / bottom)


def test_uniformity_of_random_entries_is_its_null():
    topics = np.repeat(np.arange(10), 10)
    r = analyze_topic_blocks(normal(60, 100, 100, seed=1), labels=topics, permutations=99)
    sizes = [abs(x) for x in r.per_seed["uniformity"]]
    assert np.mean(sizes) == pytest.approx(r.uniformity.null["permuted"], rel=0.05)


@pytest.mark.slow
def test_coverage_of_the_interval_over_words():
    """Noisy blocks: the bootstrap over words covers the mean over many matrices in most of them."""
    topics = np.repeat(np.arange(6), 6)
    m = ideal(topics) + normal(150, 36, 36)
    truth = analyze_topic_blocks(m, labels=topics, permutations=99).contrast.value
    inside = 0
    for one in m[:100]:
        e = analyze_topic_blocks(one, labels=topics, permutations=99).contrast
        inside += e.low <= truth <= e.high
    assert inside >= 85


# ---- blind recovery ------------------------------------------------------------------------------


def test_adjusted_rand_against_literal_pair_counts():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 4, 15), rng.integers(0, 3, 15)
        pairs = list(itertools.combinations(range(15), 2))
        both = sum(a[i] == a[j] and b[i] == b[j] for i, j in pairs)
        left, right = (sum(x[i] == x[j] for i, j in pairs) for x in (a, b))
        expected = left * right / len(pairs)
        assert adjusted_rand(a, b) == pytest.approx((both - expected) / ((left + right) / 2 - expected))
    assert adjusted_rand([0, 0, 1, 1], [5, 5, 2, 2]) == 1
    assert adjusted_rand([0, 0, 1, 1], [0, 0, 0, 0]) == 0
    assert adjusted_rand([0, 0, 0], [1, 1, 1]) == adjusted_rand([0, 1, 2], [2, 1, 0]) == 1
    drawn = [adjusted_rand(rng.permutation(TOPICS), TOPICS) for _ in range(200)]
    assert np.mean(drawn) == pytest.approx(0, abs=4 * np.std(drawn) / np.sqrt(200))
    with pytest.raises(RequestError, match="partitions of 3 and 4 things"):
        adjusted_rand([0, 1, 2], [0, 1, 2, 3])


def test_jackknife_of_the_rand_index_leaves_words_out_one_by_one():
    m = ideal(TOPICS) + 1.2 * normal(100, 100)
    r = analyze_topic_blocks(m, labels=TOPICS)
    without = [adjusted_rand(np.delete(TOPICS, i), np.delete(r.clusters[0], i)) for i in range(100)]
    half = reference.t.ppf(0.975, 99) * np.sqrt(99 / 100 * np.sum((without - np.mean(without)) ** 2))
    assert 0.2 < r.ari.value < 1
    assert (r.ari.low, r.ari.high) == pytest.approx((r.ari.value - half, min(r.ari.value + half, 1)))


def test_columns_that_stand_out_do_not_hide_the_topics():
    m = ideal(TOPICS) + 0.3 * normal(100, 100) + 5 * normal(1, 100, seed=1)
    assert analyze_topic_blocks(m, labels=TOPICS).ari.value == 1
    unequal = np.repeat(np.arange(4), (3, 8, 15, 30))
    noisy = ideal(unequal) + 0.15 * normal(56, 56)
    assert analyze_topic_blocks(noisy, labels=unequal).ari.value > 0.95


# ---- theory --------------------------------------------------------------------------------------


def test_distances_to_the_theory():
    labels = THEORY.topic_of
    r = analyze_topic_blocks(THEORY.value_matrix(), labels=labels, theory=THEORY)
    assert_close([r.theory[name].value for name in ("closed_form", "family")], 0, scale=1)
    assert r.theory["block_sum"].value == pytest.approx(THEORY.c3)
    assert r.theory["block_sum"].null["theory"] == THEORY.c3
    assert r.theory["family"].null["permuted"] > 0.5
    assert r.raw_contrast.value == pytest.approx(r.raw_contrast.null["theory"]) == pytest.approx(THEORY.c3 / 10)
    assert r.structure == "blocks"
    d = analyze_topic_blocks(THEORY.diagonal_value_matrix(), labels=labels, theory=THEORY)
    assert_close([d.theory[name].value for name in ("diagonal_form", "family")], 0, scale=1)
    assert d.theory["closed_form"].value > 1
    assert d.structure == "diagonal"
    assert d.raw_contrast.value == pytest.approx(THEORY.c3 / 10)  # as in every optimum


def test_theory_follows_the_order_of_words():
    order = np.random.default_rng(0).permutation(13)
    m = SMALL.value_matrix()[np.ix_(order, order)]
    r = analyze_topic_blocks(m, labels=SMALL.topic_of[order], theory=SMALL)
    assert_close(r.theory["closed_form"].value, 0, scale=1)


def test_gram_matrices_have_their_own_family():
    gram = np.diag([0.0, *[SMALL.c3] * 12])
    r = analyze_topic_blocks(gram, labels=SMALL.topic_of, theory=SMALL, matrix="embedding")
    assert_close(r.theory["family"].value, 0, scale=1)
    assert "closed_form" not in r.theory


def test_where_no_theory_applies_it_says_why():
    m = normal(12, 12)
    topics = np.repeat(np.arange(4), 3)
    assert analyze_topic_blocks(m, labels=topics).theory_reason == "no topic grammar and no theory= were given"
    r = analyze_topic_blocks(m, labels=topics, theory=SMALL)
    assert r.theory == {}
    assert "here 0 rows are left out and 4 topics have [3] words" in r.theory_reason
    r = analyze_topic_blocks(m, labels=topics, theory=SMALL, matrix="attention")
    assert "no closed form of average attention" in r.theory_reason
    grammar = SimpleNamespace(num_topics=4, words_per_topic=3, mask_prob=1.0, keep_prob=0.1, random_prob=0.1)
    r = analyze_topic_blocks(normal(13, 13), grammar=grammar)
    assert r.theory_reason.startswith("the grammar is outside the theory: mask_prob=1.0")


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize(
    ("attention", "loss", "reason"),
    [
        ("uniform", "mse", None),
        ("uniform", None, None),
        ("uniform", "ce", "this model was trained with ce"),
        ("learned", "mse", "this model's attention is learned"),
        ("learned", "ce", "this model was trained with ce"),
    ],
)
def test_models_trained_otherwise_have_no_distance_to_the_theory(attention, loss, reason, population):
    grammar = SimpleNamespace(
        topic_of=SMALL.topic_of,
        vocab_size=13,
        num_topics=4,
        words_per_topic=3,
        mask_prob=0.15,
        keep_prob=0.1,
        random_prob=0.1,
    )
    told = {} if loss is None else {"settings": {"loss": loss}}
    model = topic_model(SMALL.value_matrix(), attention=attention)
    model.provenance.update(told)
    given = model
    if population:
        given = Population.from_models([model, model])
        given.provenance.update(told)
    r = analyze_topic_blocks(given, grammar=grammar)
    assert bool(r.theory) == (reason is None)
    assert ("theory" in r.raw_contrast.null) == (reason is None)
    scope = "the theorems are for squared loss with even attention"
    assert r.theory_reason == (None if reason is None else f"{scope}; {reason}")
    told = analyze_topic_blocks(given, labels=SMALL.topic_of, theory=SMALL)
    assert_close(told.theory["closed_form"].value, 0, scale=1, dtype=torch.float32)
    assert analyze_topic_blocks(SMALL.value_matrix(), grammar=grammar).theory


# ---- several seeds -------------------------------------------------------------------------------


def test_populations_have_intervals_over_seeds():
    m = np.stack([ideal(TOPICS) + 0.7 * normal(100, 100, seed=s) for s in range(8)])
    r = analyze_topic_blocks(m, labels=TOPICS)
    each = [analyze_topic_blocks(one, labels=TOPICS).contrast.value for one in m]
    expected = mean_over_seeds(each)
    assert expected.low is not None
    assert r.contrast.ends == pytest.approx(expected.ends)
    assert (r.contrast.n, r.contrast.over, r.num_models) == (8, "seeds", 8)
    assert r.per_seed["contrast"] == pytest.approx(each)
    assert r.per_seed["structure"] == ["blocks"] * 8
    mixed = analyze_topic_blocks(np.stack([m[0], np.eye(100) + 0.02 * normal(100, 100)]), labels=TOPICS)
    assert mixed.per_seed["structure"] == ["blocks", "diagonal"]


def test_seeds_weigh_alike_whatever_their_scale():
    m = np.stack([1e6 * normal(100, 100, seed=1), ideal(TOPICS) + 0.1 * normal(100, 100)])
    assert analyze_topic_blocks(m, labels=TOPICS).structure == "blocks"


# ---- models --------------------------------------------------------------------------------------


def topic_config(**changes) -> TransformerConfig:
    base = {"d_vocab": 13, "n_layers": 1, "d_model": 13, "d_head": 13, "mlp_depth": 0, "block": "bare", "norm": "none"}
    return TransformerConfig(**{**base, "direction": "bidirectional", "embedding": "onehot", **changes})


def topic_model(matrix: np.ndarray, **changes) -> SandboxTransformer:
    """A one-hot model whose map from tokens to logits is `matrix` [predicted, attended], split over heads."""
    model = SandboxTransformer.init(topic_config(**changes), 0)
    with torch.no_grad():
        heads = model.config.n_heads
        value = torch.from_numpy(matrix.T.copy()).float() / heads
        for h in range(heads):
            model.blocks[0].attn.W_V[h] = value
        model.unembed.W_U[:] = torch.eye(13).repeat(heads, 1)
    return model


def test_the_value_map_of_a_model_is_what_it_computes():
    model = SandboxTransformer.init(topic_config(attention="uniform", n_heads=2, d_head=5, init_std=1.0), 0)
    with torch.no_grad():
        model.blocks[0].attn.b_V[:] = torch.randn(2, 5)
        tokens = torch.tensor([[1, 5, 5, 7, 0]])
        shares = torch.bincount(tokens[0], minlength=13) / 5
        logits = model(tokens)[0, 0]
    r = analyze_topic_blocks(model, labels=SMALL.topic_of)
    bias = model.blocks[0].attn.b_V.detach().flatten() @ model.unembed.W_U.detach()
    assert_close(torch.from_numpy(r.values).float() @ shares + bias, logits)
    assert r.matrix == "value"
    halves = [analyze_topic_blocks(model, labels=SMALL.topic_of, head=h).values for h in (0, 1)]
    assert sum(halves) == pytest.approx(r.values)


def test_a_model_at_the_optimum_is_recognised():
    grammar = SimpleNamespace(
        topic_of=SMALL.topic_of,
        vocab_size=13,
        num_topics=4,
        words_per_topic=3,
        mask_prob=0.15,
        keep_prob=0.1,
        random_prob=0.1,
    )
    model = topic_model(SMALL.value_matrix(), attention="uniform")
    before = {name: p.clone() for name, p in model.state_dict().items()}
    r = analyze_topic_blocks(model, grammar=grammar)
    assert r.contrast.value == pytest.approx(1)
    assert_close([r.theory[name].value for name in ("closed_form", "family")], 0, scale=1, dtype=torch.float32)
    with torch.no_grad():  # a bias of W_V moves the function within the family only if the matrix takes it back
        model.blocks[0].attn.b_V[0, 1:] = 0.3
        model.blocks[0].attn.W_V[0, :, 1:] -= 0.3
    moved = analyze_topic_blocks(model, grammar=grammar)
    assert_close(moved.theory["family"].value, 0, scale=1, dtype=torch.float32)
    assert moved.theory["closed_form"].value > 0.5
    assert all((model.state_dict()[name] == p).all() for name, p in before.items() if "_V" not in name)
    assert not model.training


def test_the_embedding_is_taken_where_it_is_learned():
    config = topic_config(embedding="learned", d_model=6, d_head=6)
    model = SandboxTransformer.init(config, 0)
    r = analyze_topic_blocks(model, labels=SMALL.topic_of)
    e = model.W_E.detach().double().numpy()
    assert r.matrix == "embedding"
    assert r.values == pytest.approx(e @ e.T)
    assert analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="value").matrix == "value"


def test_populations_are_compared_with_their_untrained_selves():
    models = [topic_model(SMALL.value_matrix() + 0.02 * normal(13, 13, seed=s)) for s in range(3)]
    population = Population.from_models(models)
    r = analyze_topic_blocks(population, labels=SMALL.topic_of)
    assert (r.num_models, r.contrast.over) == (3, "seeds")
    assert abs(r.contrast.null["untrained"]) < 0.5 < r.contrast.value  # absolute: shares of a variance
    assert r.untrained["contrast"].n == 3
    assert "untrained" in r.ari.null
    assert analyze_topic_blocks(population, labels=SMALL.topic_of, untrained=False).untrained is None
    same = analyze_topic_blocks(list(models), labels=SMALL.topic_of)
    assert same.contrast.value == pytest.approx(r.contrast.value)


def test_pair_sums_against_a_loop():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 5, (3, 6))
    tokens[1, 4:] = -1  # a shorter document
    patterns = rng.random((3, 2, 6, 6))
    sums, counts = np.zeros((5, 5)), np.zeros((5, 5))
    own = np.zeros(5)
    for b in range(3):
        real = [q for q in range(6) if tokens[b, q] >= 0]
        for q in real:
            for k in real:
                weight = patterns[b, :, q, k].mean() * len(real) / 100
                sums[tokens[b, q], tokens[b, k]] += weight
                counts[tokens[b, q], tokens[b, k]] += 1
                own[tokens[b, q]] += weight * (q == k)
    found = pair_sums(patterns, tokens, 5)
    assert found.sums == pytest.approx(sums)
    assert (found.counts == counts).all()
    assert found.own_sums == pytest.approx(own)
    assert found.own_counts.sum() == 16
    assert found.means()[counts > 0] == pytest.approx((sums / np.maximum(counts, 1))[counts > 0])


def test_attention_by_pairs_of_words():
    """Scores that depend on the topics alone give blocks; each word meets each other one."""
    same = ideal(SMALL.topic_of)
    model = topic_model(np.eye(13), scale_scores=False)
    with torch.no_grad():
        model.blocks[0].attn.W_Q[0] = torch.from_numpy(same).float()
        model.blocks[0].attn.W_K[0] = torch.eye(13)
    words = np.random.default_rng(0).permuted(np.tile(np.arange(1, 13), (40, 2)), axis=1)
    r = analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention", inputs=words)
    # 24 positions, 6 of the query's topic: e / (6 e + 18), in units of 100 positions.
    high, low = (w / (6 * np.e + 18) * 24 / 100 for w in (np.e, 1))
    assert_close(r.contrast.value, 1, dtype=torch.float32)
    assert r.relations["same topic, different word"].value == pytest.approx(high, rel=1e-5)
    assert r.relations["different topic"].value == pytest.approx(low, rel=1e-5)
    assert r.relations["same word"].value == pytest.approx(r.relations["same word, other position"].value, rel=1e-5)
    assert r.raw_contrast.value == pytest.approx(high - low, rel=1e-5)
    assert "no closed form" in r.theory_reason
    assert "attention, different topic" in r.summary()
    few = analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention", inputs=words[:1])
    assert not any("never met" in note for note in few.notes)
    fewer = analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention", inputs=words[:2, :6])
    assert "never met" in fewer.notes[0]


# ---- results -------------------------------------------------------------------------------------


def test_to_dict_has_the_headline_keys_and_is_json():
    m = np.stack([ideal(TOPICS) + normal(100, 100, seed=s) for s in range(2)])
    for result in (
        analyze_topic_blocks(m, labels=TOPICS),
        analyze_topic_blocks(m[0]),
        analyze_topic_blocks(np.eye(100), labels=TOPICS),
        analyze_topic_blocks(THEORY.value_matrix(), labels=THEORY.topic_of, theory=THEORY),
    ):
        out = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        for name in ("contrast", "diagonality", "ari"):
            assert {"value", "low", "high", "n", "over", "null"} <= set(out[name])
        assert {"p_value", "structure", "same_pairs", "different_pairs"} <= set(out)
        assert "values" not in out


@pytest.mark.slow
def test_summary_and_figure():
    m = np.stack([THEORY.value_matrix() + 0.1 * normal(101, 101, seed=s) for s in range(2)])
    population = analyze_topic_blocks(m, labels=THEORY.topic_of, theory=THEORY)
    for result in (
        population,
        analyze_topic_blocks(m[0], labels=THEORY.topic_of, matrix="value"),
        analyze_topic_blocks(m[0]),
        analyze_topic_blocks(np.zeros((100, 100)), labels=TOPICS),
    ):
        lines = result.summary().splitlines()
        assert max(map(len, lines)) <= 80
        assert result.figure().to_json()
    text = population.summary()
    assert "2 matrices, 100 words of 10 topics" in text
    assert "Structure: blocks" in text
    fig = population.figure()
    assert np.asarray(fig.data[0].z).shape == (100, 100)
    assert len(fig.layout.shapes) == 18  # nine lines each way
    assert "mean of 2 seeds: blocks" in fig.layout.title.text


def test_figure_sorts_words_by_topic():
    order = np.random.default_rng(0).permutation(100)
    m = ideal(TOPICS)[np.ix_(order, order)]
    fig = analyze_topic_blocks(m, labels=TOPICS[order]).figure()
    assert np.asarray(fig.data[0].z) == pytest.approx(ideal(TOPICS))


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (np.zeros((3, 4)), {}, r"shape \[1, 3, 4\] is not square"),
        (np.zeros(4), {}, r"shape \[4\] is not square"),
        (np.zeros((2, 2)), {}, "2 rows has no structure"),
        (np.full((4, 4), np.nan), {}, r"entry \[0, 0, 0\] is nan"),
        (np.eye(4), {"labels": [0, 0, 1]}, "labels cover 3 tokens, the matrix has 4 rows: .* -1 for special tokens"),
        (np.eye(4), {"labels": [0, 0, 0, 0]}, r"labels name one topic \(0\)"),
        (np.eye(4), {"labels": [-1, -1, -1, -1]}, "labels name no topic"),
        (np.eye(4), {"labels": [0, 0, 7, -1]}, "topic 7 has one word and hence no same-topic pair"),
        (np.eye(4), {"labels": [0.5, 0, 1, 1]}, "are to be one whole number a row"),
        (np.eye(4), {"labels": ["a", "a", "b", "b"]}, "are to be one whole number a row"),
        (np.eye(4), {"grammar": SimpleNamespace(topic_of=np.zeros(9, int))}, r"the grammar's topics .* cover 9 tokens"),
        (np.eye(4), {"grammar": SimpleNamespace()}, "SimpleNamespace has no topics: pass labels="),
        (np.eye(4), {"matrix": "keys"}, "matrix='keys' is not one of value, embedding, attention"),
        (np.eye(4), {"permutations": 10}, "permutations=10 is not a whole number of at least 99"),
        (np.eye(4), {"seed": -1}, "seed -1"),
        (object(), {}, "a model, a population or a matrix .* what was given is of type object"),
        ([], {}, "an empty population"),
        ([np.eye(4), np.eye(5)], {}, r"shape \[4, 4\] and \[5, 5\] do not stack"),
    ],
)
def test_bad_input_is_one_clear_line(model, options, message):
    with pytest.raises(InterpError, match=message) as caught:
        analyze_topic_blocks(model, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (np.eye(4) * 1j, {}, "complex numbers"),
        (torch.eye(4, dtype=torch.complex64), {}, "complex numbers"),
        ([np.eye(4), np.eye(4) * 1j], {}, "complex numbers"),
        ((np.eye(4) + 0j).tolist(), {}, "complex numbers"),
        (np.eye(4), {"theory": "thm"}, "theory='thm' is str, and a TopicTheory is needed"),
        (np.eye(4), {"labels": [[0, 0], [1]]}, "one whole number a row, of type list"),
        (
            np.eye(4),
            {"labels": np.array([0, 0, 2**63 + 5, 2**63 + 5], dtype=np.uint64)},
            "9223372036854775813: whole numbers are needed, up to",
        ),
        (np.eye(4), {"labels": np.array([0, 0, 1, 1]) + 0j}, "are to be one whole number a row"),
        (1e305 * np.eye(4), {}, r"entry \[0, 0, 0\] is 1e\+305: finite numbers up to 1e\+300"),
    ],
)
def test_input_that_would_be_misread_is_refused(model, options, message):
    with pytest.raises(RequestError, match=message):
        analyze_topic_blocks(model, **options)


@pytest.mark.parametrize("token", [13, 2**32 + 1, 2**63 + 1, 2**64 + 1, 1e30, np.inf, np.nan, 1j])
def test_tokens_do_not_wrap_around(token):
    with pytest.raises(RequestError):
        analyze_topic_blocks(topic_model(np.eye(13)), labels=SMALL.topic_of, matrix="attention", inputs=[[1, token]])


@pytest.mark.parametrize("name", ["W_Q", "W_V"])
def test_weights_that_are_not_finite_have_no_attention(name):
    model = topic_model(np.eye(13))
    with torch.no_grad():
        getattr(model.blocks[0].attn, name)[:] = np.nan
    kind = "attention" if name == "W_Q" else "value"
    with pytest.raises(InterpError, match="finite"):
        analyze_topic_blocks(
            model, labels=SMALL.topic_of, matrix=kind, inputs=[list(range(13))] if name == "W_Q" else None
        )


@pytest.mark.parametrize("changes", [{"attention": "uniform"}, {"init_std": 0.5}, {"d_vocab": 14, "d_model": 14}])
def test_models_of_one_list_are_alike(changes):
    models = [SandboxTransformer.init(topic_config(**c), 0) for c in ({}, {}, changes)]
    with pytest.raises(RequestError, match="model 2 has another config or grammar than model 0"):
        analyze_topic_blocks(models, labels=SMALL.topic_of)


def test_a_list_holds_models_alone():
    with pytest.raises(RequestError, match="model 1 is ndarray, not a model like model 0"):
        analyze_topic_blocks([topic_model(np.eye(13)), np.eye(13)], labels=SMALL.topic_of)


def test_an_identity_embedding_is_named():
    model = topic_model(np.eye(13))
    r = analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="embedding")
    assert "W_E is a fixed identity" in r.notes
    assert "note: W_E is a fixed identity" in r.summary()
    assert "W_E is a fixed identity" not in analyze_topic_blocks(model, labels=SMALL.topic_of).notes


def test_models_without_what_is_asked_for():
    model = topic_model(np.eye(13))
    with pytest.raises(RequestError, match=r"layer=3: this model has layers 0\.\.0"):
        analyze_topic_blocks(model, labels=SMALL.topic_of, layer=3)
    with pytest.raises(RequestError, match=r"head=1: this model has heads 0\.\.0"):
        analyze_topic_blocks(model, labels=SMALL.topic_of, head=1)
    with pytest.raises(AnalysisError, match="average attention needs inputs="):
        analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention")
    with pytest.raises(RequestError, match="token id -1, and the model knows ids 0 to 12"):
        analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention", inputs=[[-1, 2]])
    with pytest.raises(RequestError, match="token id 99, and the model knows ids 0 to 12"):
        analyze_topic_blocks(model, labels=SMALL.topic_of, matrix="attention", inputs=[[99, 2]])
    with pytest.raises(AnalysisError, match="SimpleNamespace has no W_E"):
        analyze_topic_blocks(SimpleNamespace(W_V=np.eye(4)), labels=[0, 0, 1, 1], matrix="embedding")
