"""The unigram point: gradient and Hessian by enumeration of all strings, by the closed form, and by differences."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import load_checkpoint
from interp.errors import GrammarError, RequestError
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.constructed import bigram, canonical_weights, unigram
from interp.worlds.binary_chain.flow import IN_WEIGHTS, CanonicalFlow
from interp.worlds.binary_chain.landscape import (
    Landscape,
    expected_loss,
    free_directions,
    landscape,
    unigram_hessian,
    unigram_point,
)
from interp.worlds.binary_chain.recipes import CONSTRUCTED

SMALL = {"width": 3, "spread": 0.3}


def literal_loss(model, grammar):
    """The slides' formulas (L1853-1862, L1938), string by string, from the model's own matrices."""
    get = dict(model.named_parameters())
    arrays = {name: p.detach().double().numpy() for name, p in get.items()}
    w_e, places = arrays["embed.W_E"], arrays["pos_embed.W_pos"]
    w_u = arrays.get("unembed.W_U", w_e.T)
    e, a = w_e[1] - w_e[0], w_u[:, 1] - w_u[:, 0]
    b = arrays["unembed.b_U"][1] - arrays["unembed.b_U"][0]
    w_q, w_k, w_v, w_o = (arrays[f"blocks.0.attn.W_{name}"][0] for name in "QKVO")
    w_1, w_2 = arrays["blocks.0.mlp.W_in"], arrays["blocks.0.mlp.W_out"]
    total = 0.0
    for string in itertools.product((0, 1), repeat=grammar.length):
        chance = grammar.stationary[string[0]]
        for x, y in itertools.pairwise(string):
            chance *= grammar.kernel[x, y]
        x = [string[i] * e + w_e[0] + places[i] for i in range(grammar.length - 1)]  # p_n takes in W_E[0]
        nats = 0.0
        for n in range(len(x)):
            scores = np.array([(x[n] @ w_q) @ (x[i] @ w_k) / math.sqrt(w_q.shape[1]) for i in range(n + 1)])
            weight = np.exp(scores) / np.exp(scores).sum()
            y = x[n] + sum(weight[i] * (x[i] @ w_v) for i in range(n + 1)) @ w_o
            z = y + np.maximum(y @ w_1, 0) @ w_2
            f = 1 / (1 + math.exp(-(a @ z + b)))
            nats -= math.log(f if string[n + 1] else 1 - f)
        total += chance * nats / len(x)
    return total


@pytest.mark.parametrize("tied", [True, False])
def test_the_expected_loss_is_the_slides(tied):
    grammar = BinaryChain(0.5, 0.8, 5)
    model = unigram(grammar, tied=tied, **SMALL)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.rsplit(".", 1)[-1].startswith("W_"):
                p += 0.4 * torch.from_numpy(generator(0, name).standard_normal(p.shape))
    assert_close(expected_loss(model, grammar), literal_loss(model, grammar), scale=10)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.8), (0.9, 0.9), (0.2, 0.3)])
@pytest.mark.parametrize("tied", [True, False])
def test_the_theorem_by_enumeration(p, q, tied):
    grammar = BinaryChain(p, q, 5)
    model = unigram(grammar, tied=tied, **SMALL)
    found = landscape(model, grammar, free_directions(model))
    with torch.no_grad():
        predicted = model(torch.from_numpy(grammar.enumerate()[0])).softmax(-1)[..., 1]
    assert_close(predicted, torch.full_like(predicted, grammar.stationary[1]), scale=1)  # (ii)
    assert_close(found.loss, grammar.unigram_loss, scale=1)  # (iii)
    assert_close(found.gradient, 0.0, scale=1)  # (iv)
    assert found.loss > grammar.entropy_rate + 0.01
    assert found.kind == ("local minimum" if tied and p + q > 1 else "saddle")  # (i)
    closed = unigram_point(model, grammar)
    assert closed.kind == found.kind
    # What is left of the spectrum is that by (a, e, b), twice as large; the rest is 0.
    padded = np.sort(np.concatenate([2 * closed.eigenvalues, np.zeros(free_directions(model))]))
    assert_close(found.eigenvalues, padded, scale=10)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("block", "norm"), [("gpt2", "none"), ("gpt2", "LN"), ("bert", "LN")])
def test_the_closed_form_holds_for_weights_of_any_size_and_with_norms(tied, block, norm):
    grammar = BinaryChain(0.3, 0.9, 6)
    model = unigram(grammar, tied=tied, width=4, spread=0.7, positions=1.5, norm=norm, seed=2)
    if block == "bert":
        given, model = model, SandboxTransformer.init(replace(model.config, block="bert"), 2).double()
        model.load_state_dict(given.state_dict() | {n: p for n, p in model.state_dict().items() if "ln" in n}, False)
    found, closed = landscape(model, grammar), unigram_point(model, grammar)
    expected = np.sort(np.concatenate([2 * closed.eigenvalues, np.zeros(free_directions(model))]))
    assert_close(found.eigenvalues, expected, scale=100)


def test_the_hessian_is_a_difference_quotient():
    """By one coordinate of e, and by e and b, of a tied model: second differences of the literal loss."""
    grammar, h = BinaryChain(0.5, 0.8, 4), 1e-3
    model = unigram(grammar, width=2, spread=0.3)
    closed = unigram_hessian(model, grammar)
    base = model.embed.W_E.detach().clone(), model.unembed.b_U.detach().clone()

    def loss(e0, b):
        with torch.no_grad():
            model.embed.W_E.copy_(base[0])
            model.unembed.b_U.copy_(base[1])
            model.embed.W_E[1, 0] += e0 / 2
            model.embed.W_E[0, 0] -= e0 / 2
            model.unembed.b_U[1] += b
        return literal_loss(model, grammar)

    middle = loss(0, 0)
    by_ee = (loss(h, 0) - 2 * middle + loss(-h, 0)) / h**2
    by_eb = (loss(h, h) - loss(h, -h) - loss(-h, h) + loss(-h, -h)) / (4 * h**2)
    assert abs(by_ee - closed[0, 0]) < 1e-5  # absolute: h^2 times fourth derivatives, and roundings over h^2
    assert abs(by_eb - closed[0, -1]) < 1e-5  # absolute: as above


def test_no_point_near_a_local_minimum_is_lower():
    grammar = BinaryChain(0.5, 0.8, 5)
    model = unigram(grammar, **SMALL)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    for i in range(40):
        model.load_state_dict(
            {
                name: p + 1e-2 * torch.from_numpy(generator(i, name).standard_normal(p.shape))
                for name, p in start.items()
            },
            strict=False,
        )
        assert expected_loss(model, grammar) >= grammar.unigram_loss


def test_beside_a_saddle_there_is_a_lower_point():
    grammar = BinaryChain(0.5, 0.8, 5)
    model = unigram(grammar, tied=False, **SMALL)
    _, directions = np.linalg.eigh(unigram_hessian(model, grammar))
    a, e = np.split(0.1 * directions[:-1, 0], 2)
    with torch.no_grad():
        model.unembed.W_U[:, 1] += torch.from_numpy(a)
        model.embed.W_E[1] += torch.from_numpy(e)
    assert expected_loss(model, grammar) < grammar.unigram_loss


def test_long_position_vectors_make_a_minimum_below_one_too():
    """z_n z_n^T outweighs the correlation of neighbours: p + q > 1 is sufficient, not necessary."""
    grammar = BinaryChain(0.2, 0.3, 6)
    short, long = (unigram(grammar, width=3, spread=0.1, positions=std) for std in (0.1, 6.0))
    assert unigram_point(short, grammar).kind == landscape(short, grammar).kind == "saddle"
    found = landscape(long, grammar, free_directions(long))
    assert unigram_point(long, grammar).kind == found.kind == "local minimum"


def test_kinds():
    assert Landscape(1.0, 0.0, np.array([-1e-12, 1.0, 2.0]), free=1).kind == "local minimum"
    assert Landscape(1.0, 0.0, np.array([-1e-12, 1.0, 2.0])).kind == "flat"
    assert Landscape(1.0, 0.0, np.array([-1e-6, 1.0, 2.0]), free=1).signs == (1, 0, 2)
    assert Landscape(1.0, 0.0, np.array([-1e-6, 1.0, 2.0]), free=1).kind == "saddle"


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.8), (0.2, 0.3), (0.25, 0.75), (0.9, 0.95)])
@pytest.mark.parametrize("tied", [True, False])
def test_the_bigram_model_gives_the_kernel(p, q, tied):
    grammar = BinaryChain(p, q, 6)
    model = bigram(grammar, tied=tied)
    tokens = torch.from_numpy(grammar.enumerate()[0])
    with torch.no_grad():
        given = model(tokens).softmax(-1)
    assert_close(given, torch.from_numpy(grammar.kernel)[tokens], ulps=100, scale=1)
    assert_close(expected_loss(model, grammar), grammar.entropy_rate, scale=10)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("e", "w"), [(0.3, 0.5), (1.0, -1.2), (0.7, 0.0)])
def test_canonical_weights_have_the_logits_of_the_flow(tied, e, w):
    grammar = BinaryChain(0.5, 0.8, 5)
    model, flow = unigram(grammar, tied=tied), CanonicalFlow(0.5, 0.8)
    drawn = {name: p.detach() for name, p in model.named_parameters()}
    model.load_state_dict(canonical_weights(drawn, e, w, grammar), strict=False)
    tokens = torch.from_numpy(grammar.enumerate()[0])
    with torch.no_grad():
        logits = model(tokens)
    odds = np.stack(flow.logits(e, w, flow.best_bias(e, w)))
    assert_close(logits[..., 1] - logits[..., 0], odds[tokens.numpy()], scale=10)
    assert_close(expected_loss(model, grammar), flow.loss(e, w), scale=10)


def test_the_pace_of_canonical_weights():
    """Gradient flow of the weights themselves takes e down at 2 dL/de and w at dL/dw / 8."""
    grammar, (e, w) = BinaryChain(0.5, 0.8, 5), (0.8, -0.6)
    model, flow = unigram(grammar), CanonicalFlow(0.5, 0.8)
    drawn = {name: p.detach() for name, p in model.named_parameters()}
    model.load_state_dict(canonical_weights(drawn, e, w, grammar), strict=False)
    tokens, weight = (torch.from_numpy(part) for part in grammar.enumerate())
    nats = -model(tokens).log_softmax(-1)[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    (nats.mean(1) * weight).sum().backward()
    by_e, by_w, _ = flow.gradient(e, w)
    slope, alpha = model.embed.W_E.grad, model.embed.W_E.detach().diff(dim=0)[0] / e
    assert_close((slope[1] - slope[0]) @ alpha, 2 * by_e, scale=1)
    for name in ("W_in", "W_out"):  # w times a matrix of norm 2
        matrix = getattr(model.blocks[0].mlp, name)
        along = (matrix.grad * matrix.detach()).sum() / (4 * w)
        assert_close(along, by_w / 8, scale=1)
    assert IN_WEIGHTS == 2 * 8


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructed_models_load_by_name(name):
    model = load_checkpoint(name)
    grammar = model.grammar
    expected = grammar.entropy_rate if "bigram" in name else grammar.unigram_loss
    tokens = torch.from_numpy(grammar.draw(generator(0, "test"), 400))
    with torch.no_grad():
        odds = model(tokens)[:, :-1].diff(dim=-1)[..., 0]
    chances = grammar.kernel[:, 1] if "bigram" in name else np.full(2, grammar.stationary[1])
    assert_close(odds.sigmoid(), chances[tokens[:, :-1].numpy()], ulps=64, scale=1)
    assert expected > 0.6


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: unigram_hessian(bigram(BinaryChain(length=5)), BinaryChain(length=5)),
            RequestError,
            "W_E[1] - W_E[0]",
        ),
        (lambda: unigram_hessian(unigram(BinaryChain()), BinaryChain(0.2, 0.3)), RequestError, "b - log(p/q)"),
        (lambda: unigram_hessian(unigram(BinaryChain(length=5)), BinaryChain(length=9)), RequestError, "n_ctx=5"),
        (lambda: expected_loss(unigram(BinaryChain()), BinaryChain()), GrammarError, "length=32"),
    ],
)
def test_what_cannot_be_had_is_said(make, error, said):
    with pytest.raises(error) as caught:
        make()
    assert said in str(caught.value)
