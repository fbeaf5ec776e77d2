"""The theory of topic models: reference numbers, literal implementations, simulation, regression."""

import itertools
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from closeness import assert_close
from interp import TopicGrammar
from interp.errors import RequestError
from interp.worlds.topics import attended
from interp.worlds.topics.task import exact_pairs
from interp.worlds.topics.theory import TopicTheory

THESIS = TopicTheory(10, 10)
FIGURE = TopicTheory(100, 300)
SMALL = TopicTheory(4, 3)
ODD = TopicTheory(4, 3, 0.3, 0.25, 0.2)  # every probability another


def documents(theory: TopicTheory, tau: int) -> tuple[np.ndarray, np.ndarray]:
    """Shown and true word shares of every set of topics, [documents, Tv + 1], written out from L312-331."""
    p_m, p_c, p_r = theory.mask_prob, theory.keep_prob, theory.random_prob
    shown, true = [], []
    for topics in itertools.combinations(range(theory.num_topics), tau):
        word = np.zeros(theory.vocab_size)
        for t in topics:
            for w in range(theory.words_per_topic):
                word[1 + t * theory.words_per_topic + w] = 1 / (tau * theory.words_per_topic)
        seen = (1 - p_m) * word + p_m * p_c * word
        seen[1:] += p_m * p_r / theory.num_words
        seen[0] = p_m * (1 - p_c - p_r)
        assert seen.sum() == pytest.approx(1)
        shown.append(seen)
        true.append(word)
    return np.array(shown), np.array(true)


def member(theory: TopicTheory, rng: np.random.Generator, c1: float | None = None) -> np.ndarray:
    """A random member of the family of Theorem 2.1.4, entry by entry from L754-770."""
    size, v = theory.vocab_size, theory.words_per_topic
    c1 = theory.c1 if c1 is None else c1
    out = np.zeros((size, size))
    for i in range(size):
        u = rng.normal()
        out[i, 0] = -theory.c2 * u - (c1 if i > 0 else 0)
        for t in range(theory.num_topics):
            block = rng.normal(size=v)
            wanted = u * v + (1 / theory.a if i > 0 and (i - 1) // v == t else 0)
            out[i, 1 + t * v : 1 + (t + 1) * v] = block - block.mean() + wanted / v
    return out


# ---- constants and closed forms ------------------------------------------------------------------


def test_reference_numbers():
    t = THESIS
    assert (t.a, t.c1, t.c2, t.c3) == pytest.approx((0.865, 0.00144509, 7.33333, 1.15607), rel=1e-5)
    assert (t.W_i0, t.W_diff, t.W_same) == pytest.approx((0.0541908, -0.00758671, 0.108020), rel=1e-5)
    assert (SMALL.W_i0, SMALL.W_diff, SMALL.W_same) == pytest.approx((0.126689, -0.018918, 0.366439), rel=2e-5)
    assert (t.lambda1_printed, t.lambda1, t.lambda2) == pytest.approx((0.5773, 0.3713, 5866.67), rel=1e-4)
    assert (t.lambda3, t.lambda4, t.lambda5) == pytest.approx((0.0880, 447.11, 0.12845), rel=1e-4)
    assert (FIGURE.lambda3, FIGURE.lambda4, FIGURE.lambda5) == pytest.approx((2.64, 986.87, 0.0038665), rel=1e-4)


def test_bounds_are_the_thesis_expressions():
    for t in (THESIS, FIGURE, TopicTheory(10, 20, 0.3, 0.2, 0.1)):
        m, c, r, v = t.mask_prob, t.keep_prob, t.random_prob, t.words_per_topic
        a = 1 - (1 - c) * m
        assert t.lambda1_printed == pytest.approx((a + m * r) * (1 + (1 - c) * m) / (2 * a))
        c4 = 1 / a
        assert t.lambda1 == pytest.approx((1 + c4 * m * r) * (2 - c4) / (2 * c4))
        assert t.lambda2 == pytest.approx(100 * (1 / c4 + m * r) / (m * r))
        c7 = 1 / (c4 * (math.sqrt(v - 1) - 1 / c4 - 1))
        assert t.lambda4 == pytest.approx(c7 * (1 / (c4 * m * r) + 1) * v)
        assert t.lambda5 == pytest.approx(c4 / (v - 1))


def test_masking_shares_sum_to_one():
    for t, tau in ((THESIS, 2), (ODD, 3), (FIGURE, 40)):
        v = t.words_per_topic
        total = t.mask_share + v * tau * t.p1(tau) + v * (t.num_topics - tau) * t.p2
        assert total == pytest.approx(1)


@pytest.mark.parametrize("theory", [THESIS, SMALL, ODD])
def test_ridge_regression_on_all_documents_gives_the_closed_form(theory):
    shown, true = documents(theory, 2)
    count = len(shown)
    gram = shown.T @ shown / count + 1e-9 * np.eye(theory.vocab_size)
    ridge = np.linalg.solve(gram, shown.T @ true / count).T
    expected = theory.value_matrix()
    assert ridge[1:] == pytest.approx(expected[1:], rel=0.01)
    assert np.abs(ridge[0]).max() < 1e-9 * np.abs(expected).max()


def test_closed_forms_are_members_and_least_in_norm():
    rng = np.random.default_rng(0)
    for theory in (THESIS, SMALL, ODD):
        best = theory.value_matrix()
        assert theory.project(np.zeros_like(best)).projection == pytest.approx(best)
        for matrix in (best, theory.diagonal_value_matrix(), member(theory, rng)):
            fit = theory.project(matrix)
            assert_close(fit.distance, 0, scale=np.linalg.norm(matrix))
            assert np.linalg.norm(matrix) >= np.linalg.norm(best) * (1 - 1e-12)
            assert theory.block_sum_contrast(matrix) == pytest.approx(theory.c3)
        diagonal = theory.diagonal_value_matrix()
        assert (diagonal[1:, 1:] == theory.c3 * np.eye(theory.num_words)).all()


def test_projection_is_the_nearest_member():
    rng = np.random.default_rng(1)
    w = rng.normal(size=(13, 13))
    fit = ODD.project(w)
    assert fit.distance == pytest.approx(np.linalg.norm(w - fit.projection))
    assert fit.relative == pytest.approx(fit.distance / np.linalg.norm(w))
    again = ODD.project(fit.projection)
    assert_close(again.distance, 0, scale=np.linalg.norm(w))
    assert again.offsets == pytest.approx(fit.offsets)
    for _ in range(50):
        other = member(ODD, rng)
        # Nearest point of an affine set: the remainder is orthogonal to it.
        remainder, along = w - fit.projection, other - fit.projection
        assert_close(np.sum(remainder * along), 0, scale=np.linalg.norm(remainder) * np.linalg.norm(along))
    assert ODD.project(np.zeros((13, 13))).relative is None


def test_embedding_family_is_that_of_the_bias_free_gram_matrix():
    rng = np.random.default_rng(2)
    gram = ODD.c3 * np.eye(13)  # the thesis's realisable example (L986-988) has c3 at [MASK] too, with u_0 = 0
    gram[0, 0] = 0
    assert_close(ODD.project(gram, "embedding").distance, 0, scale=np.linalg.norm(gram))
    e = member(ODD, rng, c1=0.0)
    assert_close(ODD.project(e, "embedding").distance, 0, scale=np.linalg.norm(e))
    assert ODD.project(e, "value").distance > 1e-3
    # With the bias b_i = -p_m p_r / (a T v), i >= 1, E loses what a member of the value family does.
    shown, true = documents(ODD, 2)
    bias = np.full(13, -ODD.mask_prob * ODD.random_prob / (ODD.a * ODD.num_words))
    bias[0] = 0
    assert shown @ e.T + bias == pytest.approx(true)


# ---- stage 1 loss --------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [1, 2, 3, 4])
@pytest.mark.parametrize("theory", [SMALL, ODD])
def test_stage_one_loss_against_documents_one_by_one(theory, tau):
    rng = np.random.default_rng(tau)
    w = rng.normal(size=(3, 13, 13))
    shown, true = documents(theory, tau)
    literal = []
    for matrix in w:
        guess = shown @ matrix.T
        literal.append(np.mean((guess**2).sum(1) - 2 * (guess * true).sum(1) + 1))
    assert theory.stage_one_loss(w, tau) == pytest.approx(literal)


def test_members_lose_least_and_all_the_same_and_others_more():
    rng = np.random.default_rng(3)
    for theory, tau in ((SMALL, 2), (ODD, 1), (ODD, 3), (THESIS, 2)):
        least = theory.least_stage_one_loss(tau)
        assert least == 1 - 1 / (tau * theory.words_per_topic)
        for _ in range(5):
            w = member(theory, rng)
            assert_close(theory.stage_one_loss(w, tau), least, ulps=2000, scale=1)  # a sum over the entries of w
            step = rng.normal(size=w.shape)
            away = step - (theory.project(w + step).projection - w)  # across the family
            assert theory.stage_one_loss(w + 0.1 * away, tau) > least * (1 + 1e-6)
            along = theory.project(w + step).projection
            assert_close(theory.stage_one_loss(along, tau), least, ulps=2000, scale=1)


def test_gradient_vanishes_on_the_family_only():
    rng = np.random.default_rng(4)

    def gradient(w: np.ndarray) -> np.ndarray:  # exact for a quadratic, whatever the step
        steps = np.eye(w.size).reshape(-1, *w.shape)
        return (ODD.stage_one_loss(w + steps, 2) - ODD.stage_one_loss(w - steps, 2)) / 2

    assert_close(gradient(member(ODD, rng)), 0, scale=1)
    assert_close(gradient(ODD.diagonal_value_matrix()), 0, scale=1)
    assert np.abs(gradient(rng.normal(size=(13, 13)))).max() > 0.1


# ---- stage 2 losses ------------------------------------------------------------------------------


def attention_losses(theory: TopicTheory, matrix: np.ndarray, alpha: float, beta: float, topics, word, shown):
    """Squared loss of positions with true `word` and `shown` token [n] in documents of `topics` [n, tau], literally.

    What the thesis approximates is approximated: attention over words sums to 1 although [MASK] is attended to as
    well, and [MASK] keeps its unattended share of the vector that W^V reads.
    """
    topic = theory.topic_of
    p1, p2 = theory.p1(topics.shape[1]), theory.p2
    present = (topic[1:] == topics[:, :, None]).any(1)
    weight = np.where(topic[1:] == topic[shown][:, None], alpha, 1.0)
    weight[np.arange(len(shown)), shown - 1] = beta
    mass = np.where(present, p1, p2) * weight
    mass /= mass.sum(1, keepdims=True)
    seen = np.concatenate([np.full((len(shown), 1), theory.mask_share), mass], axis=1)
    return ((seen @ matrix.T - np.eye(theory.vocab_size)[word]) ** 2).sum(1)


def block_matrix(theory: TopicTheory) -> np.ndarray:
    """Uniform blocks with u = 0. (W^V* itself would see that words and [MASK] sum to more than 1.)"""
    out = np.where(theory.topic_of[:, None] == theory.topic_of, theory.c3 / theory.words_per_topic, 0.0)
    out[0], out[1:, 0] = 0.0, -theory.c1
    return out


RATIOS = [(1.0, 1.0), (3.0, 0.5), (0.2, 9.0), (7.0, 40.0)]


@pytest.mark.parametrize(("alpha", "beta"), RATIOS)
@pytest.mark.parametrize("tau", [1, 2, 4])
def test_losses_against_every_case_written_out(tau, alpha, beta):
    total = {"block": 0.0, "diagonal": 0.0}
    matrices = {"block": block_matrix(ODD), "diagonal": ODD.diagonal_value_matrix()}
    v, words = ODD.words_per_topic, np.arange(1, ODD.vocab_size)
    subsets = list(itertools.combinations(range(4), tau))
    for chosen in subsets:
        for word in (1 + t * v + w for t in chosen for w in range(v)):
            topics = np.tile(chosen, (len(words), 1))
            share = ODD.random_prob / ODD.num_words + ODD.keep_prob * (words == word)
            for name, matrix in matrices.items():
                each = attention_losses(ODD, matrix, alpha, beta, topics, np.full(len(words), word), words)
                total[name] += (share * each).sum() / (len(subsets) * tau * v)
    gamma = (v - 1) / v * alpha + beta / v
    assert ODD.loss_block(gamma, tau) == pytest.approx(total["block"], rel=1e-12)
    assert ODD.loss_diagonal(alpha, beta, tau) == pytest.approx(total["diagonal"], rel=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), RATIOS)
def test_losses_against_a_simulated_masking_process(alpha, beta):
    theory, tau, draws = THESIS, 3, 40_000
    rng = np.random.default_rng(5)
    topics = rng.random((draws, theory.num_topics)).argsort(1)[:, :tau]
    topic = topics[np.arange(draws), rng.integers(0, tau, draws)]
    word = 1 + topic * theory.words_per_topic + rng.integers(0, theory.words_per_topic, draws)
    fate = rng.random(draws)
    random = rng.integers(1, theory.vocab_size, draws)
    kept = fate < theory.keep_prob
    shows_word = fate < theory.keep_prob + theory.random_prob
    shown = np.where(kept, word, random)[shows_word]
    v = theory.words_per_topic
    gamma = (v - 1) / v * alpha + beta / v
    for matrix, expected in (
        (block_matrix(theory), theory.loss_block(gamma, tau)),
        (theory.diagonal_value_matrix(), theory.loss_diagonal(alpha, beta, tau)),
    ):
        losses = np.zeros(draws)  # positions that show [MASK] are left out of L, not of |M|
        losses[shows_word] = attention_losses(theory, matrix, alpha, beta, topics[shows_word], word[shows_word], shown)
        assert losses.mean() == pytest.approx(expected, abs=4 * losses.std() / math.sqrt(draws))


def test_uniform_attention_loses_the_stage_one_share():
    """At alpha = beta = 1 nothing is approximated: a share p_c + p_r of stage 1's least loss, normalisation apart."""
    t = THESIS
    for tau in (1, 3):
        assert t.loss_block(1, tau) == pytest.approx(t.loss_diagonal(1, 1, tau), rel=1e-12)
        words = 1 - t.mask_share  # attention is spread over words alone: each share grows by 1 / words
        guess = (t.p1(tau) / words - t.p2) / t.a, (t.p2 / words - t.p2) / t.a
        present, absent = tau * 10, (10 - tau) * 10
        literal = 1 - 2 * guess[0] + present * guess[0] ** 2 + absent * guess[1] ** 2
        assert t.loss_block(1, tau) == pytest.approx(0.2 * literal)


def test_losses_broadcast():
    grid = THESIS.loss_diagonal(np.array([0.5, 2, 3])[:, None], np.array([1.0, 10]), 2)
    assert grid.shape == (3, 2)
    assert grid[2, 1] == THESIS.loss_diagonal(3, 10, 2)
    assert THESIS.loss_block(np.array([1.0, 4]), 2)[1] == THESIS.loss_block(4.0, 2)
    assert isinstance(THESIS.loss_block(4, 2), float)


@pytest.mark.parametrize(
    ("tau", "gamma", "block", "diagonal"),
    [
        (20, 53.1, 0.199703, 0.11666),
        (40, 65.9, 0.199752, 0.12857),
        (60, 72.0, 0.199784, 0.13750),
        (80, 74.8, 0.199809, 0.14444),
    ],
)
def test_optima_of_the_figures(tau, gamma, block, diagonal):
    best = FIGURE.best_block(tau)
    assert best.gamma == pytest.approx(gamma, rel=0.01)
    assert best.loss == pytest.approx(block, rel=3e-6)
    both = FIGURE.best_diagonal(tau)
    assert both.loss == pytest.approx(diagonal, rel=5e-5)
    assert both.alpha == 0  # the loss rises with alpha, if by 1e-6 only
    assert FIGURE.loss_diagonal(1.0, np.logspace(3, 5, 2000), tau).min() > both.loss


def test_optima_of_the_thesis_vocabulary():
    for tau, gamma in ((2, 6.25), (3, 7.05), (4, 7.51)):
        assert THESIS.best_block(tau).gamma == pytest.approx(gamma, rel=0.005)
        alpha, beta, loss = THESIS.best_diagonal(tau)
        assert THESIS.loss_diagonal(alpha, beta, tau) == pytest.approx(loss, rel=1e-12)
        grid = THESIS.loss_diagonal(np.logspace(-2, 2, 300)[:, None], np.logspace(0, 4, 300), tau)
        assert loss <= grid.min()
        assert grid.min() == pytest.approx(loss, rel=1e-4)
    assert THESIS.best_block(3) == THESIS.best_block(3)


def test_optima_lie_within_the_bounds():
    for tau in (20, 40, 60, 80):
        gamma = FIGURE.best_block(tau).gamma
        best = FIGURE.best_diagonal(tau)
        assert FIGURE.lambda1 * (tau - 1) < gamma < FIGURE.lambda2 * 100
        assert FIGURE.lambda3 * tau < best.beta < FIGURE.lambda4 * 100
        assert best.alpha < FIGURE.lambda5 * best.beta


def test_landscapes_hold_the_optima():
    alphas, betas = np.logspace(-4, 7, 56), np.logspace(-4, 7, 45)
    for tau in (20, 80):
        block = FIGURE.landscape("block", tau, alphas, betas)
        diagonal = FIGURE.landscape("diagonal", tau, alphas, betas)
        assert block.shape == diagonal.shape == (56, 45)
        assert block.min() == pytest.approx(FIGURE.best_block(tau).loss, rel=5e-6)  # the grid is that fine
        assert diagonal.min() == pytest.approx(FIGURE.best_diagonal(tau).loss, rel=0.02)
        at = np.unravel_index(diagonal.argmin(), diagonal.shape)
        assert alphas[at[0]] < FIGURE.lambda5 * betas[at[1]]
    assert FIGURE.landscape("block", 20).shape == (111, 111)
    assert FIGURE.loss_block(1, 20) == pytest.approx(0.1999673, rel=5e-7)


# ---- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_topics": 1}, "num_topics=1 is not a whole number of at least 2"),
        ({"words_per_topic": 0}, "words_per_topic=0"),
        ({"num_topics": 2.5}, "num_topics=2.5"),
        ({"mask_prob": 0}, "0 < mask_prob < 1"),
        ({"mask_prob": 1.0}, "mask_prob=1.0 is not a probability below 1"),
        ({"mask_prob": math.nan}, "mask_prob=nan"),
        ({"keep_prob": -0.1}, "keep_prob=-0.1"),
        ({"random_prob": "much"}, "random_prob='much'"),
        ({"keep_prob": 0.5, "random_prob": 0.5}, r"keep_prob=0\.5 \+ random_prob=0\.5 is not below 1"),
    ],
)
def test_what_is_outside_the_theory_is_refused(change, message):
    with pytest.raises(RequestError, match=message):
        TopicTheory(**{"num_topics": 4, "words_per_topic": 3, **change})


def test_wrong_requests_are_named():
    with pytest.raises(RequestError, match="tau=5 topics per document: a whole number from 1 to 4"):
        SMALL.loss_block(1, 5)
    with pytest.raises(RequestError, match=r"shape \[12, 12\] is not \[13, 13\]: \[MASK\] and 4 x 3 words"):
        SMALL.project(np.zeros((12, 12)))
    bad = np.zeros((13, 13))
    bad[1, 2] = np.nan
    with pytest.raises(RequestError, match=r"entry \[1, 2\] of the matrix is not finite"):
        SMALL.stage_one_loss(bad, 2)
    with pytest.raises(RequestError, match="gamma=-1 holds something other"):
        SMALL.loss_block(-1, 2)
    with pytest.raises(RequestError, match="family='both'"):
        SMALL.project(np.zeros((13, 13)), "both")
    with pytest.raises(RequestError, match="kind='corner'"):
        SMALL.landscape("corner", 2)
    with pytest.raises(RequestError, match=r"words_per_topic=3 is too few .* more than 4\.48"):
        _ = SMALL.lambda4
    with pytest.raises(RequestError, match=r"every chosen position shows \[MASK\]"):
        TopicTheory(4, 3, 0.15, 0, 0).best_block(2)
    assert TopicTheory(4, 3, 0.15, 0.1, 0).lambda2 == math.inf


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e160, 1e-170])
def test_distances_of_large_and_small_matrices(scale):
    m = np.random.default_rng(0).normal(size=(13, 13))
    found = SMALL.project(scale * m, "embedding")
    # Beside a large matrix the target is nothing, and a small one is nothing beside the target.
    like = SMALL.project(1e30 * m, "embedding").relative if scale > 1 else None
    near = SMALL.project(np.zeros((13, 13)), "embedding").distance / scale / np.linalg.norm(m)
    assert found.relative == pytest.approx(like or near)


@pytest.mark.parametrize("given", [np.eye(13) * 1j, "matrix", [[1, 2], [3]]])
def test_what_is_no_real_matrix_is_refused(given):
    with pytest.raises(RequestError):
        SMALL.project(given)
    with pytest.raises(RequestError):
        SMALL.loss_block(given if isinstance(given, (str, list)) else 1j, 2)


def test_from_grammar():
    grammar = SimpleNamespace(num_topics=4, words_per_topic=3, mask_prob=0.3, keep_prob=0.25, random_prob=0.2)
    assert TopicTheory.from_grammar(grammar) == ODD
    assert ODD.topic_of.tolist() == [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    with pytest.raises(RequestError, match="object has no num_topics"):
        TopicTheory.from_grammar(object())


def test_imports_no_torch():
    code = "import sys, interp.worlds.topics.theory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- [MASK] attended to ---------------------------------------------------------------------------


def loss_by_listing(theory: TopicTheory, tau: int, gamma: float, mask_weight: float) -> float:
    """The same loss, document by document and word by word, with a softmax over all that is shown."""
    shares = {name: getattr(theory, name) for name in ("mask_prob", "keep_prob", "random_prob")}
    size = theory.num_topics, theory.words_per_topic
    grammar = TopicGrammar(*size, law="idealised", topics_per_document=tau, **shares)
    pairs = exact_pairs(grammar, merge=False)
    topic, value = theory.topic_of, theory.value_matrix()
    total = 0.0
    for document, query, target in zip(pairs.document, pairs.query, pairs.target, strict=True):
        if query == grammar.mask:
            continue
        weight = np.where(topic == topic[query], gamma, 1.0)
        weight[grammar.mask] = mask_weight
        attended = weight * pairs.shown[document].astype(float)
        predicted = value @ (attended / attended.sum())
        total += target.sum() * (predicted @ predicted + 1) - 2 * predicted @ target
    return total


@pytest.mark.parametrize(("gamma", "mask_weight"), [(1.0, 1.0), (0.0, 1.0), (5.5, 1.0), (3.0, 0.0), (8.0, 2.5)])
def test_the_loss_with_mask_attended_is_that_of_every_document(gamma, mask_weight):
    theory = TopicTheory(4, 3, 0.2, 0.15, 0.1)
    for tau in (1, 2, 4):
        found = attended.block_loss(theory, gamma, tau, mask_weight)
        assert float(found) == pytest.approx(loss_by_listing(theory, tau, gamma, mask_weight), rel=1e-6)


def test_both_optima_of_the_block_matrix_and_what_each_assumes():
    """6.26 where [MASK] keeps its share whatever words gain; 5.76 where it is a key as a word of another topic is."""
    kept, whole, free = THESIS.best_block(2), attended.best_block(THESIS, 2), attended.best_block(THESIS, 2, None)
    assert (kept.gamma, whole.gamma) == pytest.approx((6.258, 5.763), rel=1e-4)
    assert whole.mask_weight == 1
    grid = np.logspace(-2, 3, 4001)
    assert whole.loss <= attended.block_loss(THESIS, grid, 2).min()
    both = attended.block_loss(THESIS, np.logspace(0, 1.5, 301)[:, None], 2, np.logspace(-1, 1, 301))
    assert free.loss <= both.min() < whole.loss
    # the thesis's loss is that of a share of [MASK] that does not change: where it does not, the two agree
    assert float(attended.block_loss(THESIS, 1.0, 2)) == pytest.approx(
        THESIS.stage_one_loss(THESIS.value_matrix(), 2) * (THESIS.keep_prob + THESIS.random_prob)
    )


def test_what_has_no_loss_with_mask_attended_is_refused():
    for name, given in (("gamma", {"gamma": -1.0}), ("mask_weight", {"gamma": 1.0, "mask_weight": math.nan})):
        with pytest.raises(RequestError, match=name):
            attended.block_loss(THESIS, tau=2, **given)
    with pytest.raises(RequestError, match="attention is free"):
        attended.best_block(TopicTheory(4, 3, 0.15, 0, 0), 2)
