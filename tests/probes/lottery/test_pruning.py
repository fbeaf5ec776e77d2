"""Each lemma's pruner on random instances against its bound, and that nothing but masks is returned."""

import numpy as np
import pytest
import torch

from closeness import assert_close, rounding
from interp import TransformerConfig
from interp.errors import AnalysisError
from interp.model.parts import UnitNorm
from interp.rng import generator
from probes.lottery.pruning import (
    IDENTITY,
    NONNEGATIVE,
    RELU,
    as_mlp,
    balanced,
    extended_norm,
    mlp_units,
    prune_linear,
    prune_mlp,
    prune_scores,
    prune_value,
    units_needed,
)

N = 14


def uniform(seed, *shape):
    return generator(seed, f"test/{shape}").uniform(-1, 1, shape).astype(np.float32)


def normal(seed, *shape):
    return generator(seed, f"test/normal/{shape}").standard_normal(shape)


def unit_norm(matrix):
    """Scaled to spectral norm 1, as the theorem asks."""
    return matrix / np.linalg.norm(matrix, 2)


def relu(x):
    return np.maximum(x, 0)


def masked(weights, mask):
    """Entry by entry the random weight or 0."""
    out = weights.astype(np.float64) * mask
    assert mask.dtype == bool
    assert mask.shape == weights.shape
    assert ((out == 0) | (out == weights)).all()
    return out


@pytest.mark.parametrize(("signs", "act"), [(IDENTITY, lambda x: x), (RELU, relu)], ids=["identity", "ReLU"])
@pytest.mark.parametrize("shape", [(5, 7), (8, 3), (1, 1)])
def test_lemma_2_a_linear_map(signs, act, shape):
    target = unit_norm(normal(1, *shape))
    h = units_needed(target, N, signs) + 40
    first, second = uniform(2, shape[0], h), uniform(3, h, shape[1])
    found = prune_linear(target, first, second, candidates=N, signs=signs)
    a, b = masked(first, found.first), masked(second, found.second)
    x = normal(4, 500, shape[0])
    error = np.linalg.norm(act(x @ a) @ b - x @ target, axis=1) / np.linalg.norm(x, axis=1)
    assert error.max() <= found.epsilon * (1 + 1e-9) + 32 * rounding(error)
    assert found.epsilon < 5e-3
    assert found.epsilon <= np.linalg.norm(found.gap)


def test_lemma_2_holds_for_every_draw():
    """Twenty random networks, one target: the lemma's 'with probability 1 - delta'."""
    target = unit_norm(normal(5, 6, 6))
    h = units_needed(target, N, RELU) + 40
    worst = [
        prune_linear(target, uniform(s, 6, h), uniform(s + 100, h, 6), candidates=N, signs=RELU).epsilon
        for s in range(20)
    ]
    assert max(worst) < 5e-3


def test_lemma_2_after_a_relu_needs_one_sign_only():
    target = unit_norm(normal(6, 6, 4))
    h = units_needed(target, N, NONNEGATIVE) + 40
    assert h < units_needed(target, N, RELU)
    first, second = uniform(7, 6, h), uniform(8, h, 4)
    found = prune_linear(target, first, second, candidates=N, signs=NONNEGATIVE)
    a, b = masked(first, found.first), masked(second, found.second)
    assert (a >= 0).all()
    x = np.abs(normal(9, 300, 6))
    error = np.linalg.norm(relu(x @ a) @ b - x @ target, axis=1) / np.linalg.norm(x, axis=1)
    assert error.max() <= found.epsilon * (1 + 1e-9)


def test_lemma_2_reads_and_writes_only_the_coordinates_it_is_told():
    target = unit_norm(normal(10, 3, 3))
    rows, columns = np.array([9, 2, 5]), np.array([1, 8, 4])
    h = units_needed(target, N, IDENTITY) + 20
    first, second = uniform(11, 12, h), uniform(12, h, 11)
    found = prune_linear(target, first, second, candidates=N, rows=rows, columns=columns)
    product = masked(first, found.first) @ masked(second, found.second)
    assert np.abs(product[np.ix_(rows, columns)] - target).max() <= found.epsilon * (1 + 1e-9) < 1e-3 * target.max()
    product[np.ix_(rows, columns)] = 0
    assert not product.any()


def test_a_hidden_unit_serves_one_input():
    target = normal(13, 4, 5)
    h = units_needed(target, N, RELU) + 40
    found = prune_linear(target, uniform(14, 4, h), uniform(15, h, 5), candidates=N, signs=RELU)
    assert found.first.sum(axis=0).max() == 1


def test_too_few_units_are_an_error_that_says_so():
    target = normal(16, 4, 4)
    with pytest.raises(AnalysisError, match="wider network"):
        prune_linear(target, uniform(17, 4, 20), uniform(18, 20, 4), candidates=N)


def test_lemma_6_an_mlp_from_a_four_layer_one():
    v1, v2 = unit_norm(normal(20, 5, 6)), unit_norm(normal(21, 6, 5))
    w = mlp_units(v1, v2, N) + 40
    layers = [uniform(22, 5, w), uniform(23, w, w), uniform(24, w, w), uniform(25, w, 5)]
    reading, writing = prune_mlp(v1, v2, layers, candidates=N)
    masks = [reading.first, reading.second, writing.first, writing.second]
    a, b, c, d = (masked(x, m) for x, m in zip(layers, masks, strict=True))
    x = normal(26, 500, 5)
    found = relu(relu(relu(x @ a) @ b) @ c) @ d
    error = np.linalg.norm(found - relu(x @ v1) @ v2, axis=1) / np.linalg.norm(x, axis=1)
    even = balanced(v1, v2)  # what was approximated: the same function
    e1, e2 = reading.epsilon, writing.epsilon
    lambda1, lambda2 = (np.linalg.norm(v, 2) for v in even)
    assert max(lambda1, lambda2) <= 2 * 2**0.5
    assert error.max() <= e1 * lambda2 + lambda1 * e2 + e1 * e2  # Lemma 5; lambda_1, lambda_2 are swapped in print
    assert error.max() <= 4 * 2**0.5 * max(e1, e2) + max(e1, e2) ** 2  # Lemma 6
    assert error.max() < 1e-2


def test_balancing_changes_no_value():
    v1, v2 = normal(27, 4, 6), normal(28, 6, 3)
    v1[:, 2], v2[4] = 0, 0
    a, b = balanced(v1, v2)
    x = normal(29, 50, 4)
    assert_close(relu(x @ a) @ b, relu(x @ v1) @ v2)
    assert_close(np.abs(a).max(0), np.abs(b).max(1))


def test_lemma_20_a_linear_map_as_an_mlp():
    target = normal(30, 4, 8)
    v1, v2 = as_mlp(target)
    x = normal(31, 50, 4)
    assert_close(relu(x @ v1) @ v2, x @ target)


def test_lemma_7_attention_scores():
    target = unit_norm(normal(40, 5, 5))  # [key, query]
    h, rows = units_needed(target.T, N, IDENTITY) + 10, np.array([0, 3, 4, 7, 8])
    w_k, w_q = uniform(41, 10, h), uniform(42, 10, h)
    mask_k, mask_q, found = prune_scores(target, w_k, w_q, candidates=N, rows=rows)
    k, q = masked(w_k, mask_k), masked(w_q, mask_q)
    x = normal(43, 200, 5)
    wide = np.zeros((200, 10))
    wide[:, rows] = x
    error = np.abs((wide @ k) @ (wide @ q).T - x @ target @ x.T)
    norm = np.linalg.norm(x, axis=1).max()
    assert error.max() <= found.epsilon * norm**2
    assert found.epsilon < 5e-3


def test_lemma_8_softmax():
    x = normal(44, 300, 9)
    for e in (1e-3, 0.1, 1.0):
        y = x + generator(45, "test/shift").uniform(-e, e, x.shape)
        a, b = (np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (x, y))
        assert np.abs(a - b).sum(1).max() <= np.exp(2 * e) - 1


@pytest.mark.parametrize("seed", range(5))
def test_lemma_9_a_permuted_diagonal(seed):
    m, width = 6, 96
    w_v = uniform(50 + seed, width, width)
    found = prune_value(w_v, m)
    kept = masked(w_v, found.mask)
    assert (found.mask.sum(0) <= 1).all()
    assert (found.mask.sum(1) <= 1).all()
    assert ((found.kept >= 0.5) & (found.kept < 1)).all()
    assert not set(found.inputs) & set(found.outputs)
    assert (np.diff(found.inputs) > 0).all()
    assert (np.diff(found.outputs) > 0).all()
    block = kept[np.ix_(found.inputs, found.outputs)]
    np.testing.assert_array_equal(block, np.diag(found.kept))
    assert np.count_nonzero(kept) == m


def test_lemma_9_says_how_wide_it_must_be():
    with pytest.raises(AnalysisError, match="96 or more"):
        prune_value(uniform(60, 12, 12) / 4, 6)


def test_the_extended_norm_and_its_switch():
    x = torch.from_numpy(normal(70, 40, 7))
    np.testing.assert_array_equal(extended_norm(x, 0.1, 0.0), x)
    config = TransformerConfig(7, block="paper", norm="unit", norm_eps=0.1, d_model=8, d_head=8)
    assert_close(extended_norm(x, 0.1), UnitNorm(config.norm_eps)(x))
    assert extended_norm(torch.zeros(3, 7), 0.1).abs().max() == 0
    half = extended_norm(x, 0.1, 0.5)
    assert_close(half, 0.5 * extended_norm(x, 0.1) + 0.5 * x)


def test_lemma_10_the_norm_is_lipschitz():
    x, y = torch.from_numpy(normal(71, 2, 4000, 6) * generator(72, "test/size").exponential(0.2, (2, 4000, 1)))
    for c in (0.02, 0.2, 1.0):
        moved = torch.linalg.vector_norm(extended_norm(x, c) - extended_norm(y, c), dim=-1)
        assert (moved <= 2 * torch.linalg.vector_norm(x - y, dim=-1) / c + 32 * rounding(x)).all()


def test_lemma_12_a_wider_norm_of_centred_vectors():
    x = torch.from_numpy(normal(73, 30, 5))
    wide = torch.nn.functional.pad(x - x.mean(-1, keepdim=True), (0, 11))
    found = extended_norm(wide, 0.3)
    assert_close(found[:, :5], extended_norm(x, 0.3))
    assert_close(found[:, 5:], 0, ulps=8, scale=1)
