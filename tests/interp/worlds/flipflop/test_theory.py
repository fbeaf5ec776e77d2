"""Readers set by hand are exact; scores with linear positions fall apart as Proposition 5 says; Proposition 4."""

import itertools

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import load_checkpoint
from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.model import SandboxTransformer
from interp.patterns import attention_patterns
from interp.rng import generator
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.constructed import memory, reader
from interp.worlds.flipflop.theory import ScoreTerms, dilution_bound


def answers(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens)).numpy()


def test_the_reader_answers_every_read_of_every_string():
    """Proposition 3, on all 1,250 strings of FFL(12), and on long ones of three laws up to its last position."""
    grammar = FlipFlopGrammar(12, ignore=(0.5,))
    model = reader(n_ctx=12)
    assert model.config.d_model == 7
    for strings, own in [(grammar.enumerate()[0], model)] + [
        (FlipFlopGrammar(96, ignore=(p,)).draw(generator(0, "test"), 60), reader(n_ctx=96)) for p in (0.8, 0.98, 0.1)
    ]:
        right = grammar.labels(strings)
        asked = right != -100
        logits = answers(own, strings)[asked]
        assert (logits.argmax(-1) == right[asked]).all()
        assert_close(logits.max(-1), 15.0, scale=15, ulps=64)  # rounded: exactly as sure everywhere


def test_the_reader_flags_written_bits_and_attends_to_the_last():
    grammar = FlipFlopGrammar(96)
    strings = grammar.draw(generator(0, "test"), 20)
    model = load_checkpoint("constructed/flipflop-reader")
    first, second = attention_patterns(model, torch.from_numpy(strings))
    at = np.arange(96)
    after_w = np.zeros(strings.shape, bool)
    after_w[:, 1:] = strings[:, :-1] == 0
    mass = first[:, 0][np.arange(20)[:, None], at, np.where(after_w, at - 1, at)]
    assert mass.min() > 1 - 1e-8
    asked = grammar.reads(strings)
    last = grammar.last_write(strings)
    mass = second[:, 0][np.arange(20)[:, None], at, np.maximum(last, 0)]
    assert mass[asked].min() > 1 - 1e-8


def test_the_memory_is_right_on_all_inputs():
    """Lemma 16: every string of 8 tokens over the alphabet, those that begin with no-ops included (q_0 = 0)."""
    strings = np.array(list(itertools.product(range(3), repeat=8)))
    state = np.maximum(TransductionGrammar().state(strings), 0)
    model = memory(n_ctx=8)
    assert model.config.d_model == 4
    logits = answers(model, strings)
    assert (logits.argmax(-1) == state).all()
    assert_close(logits.max(-1), 15.0, scale=15, ulps=64)


def test_a_construction_that_is_none_is_refused():
    from interp.worlds.flipflop.constructed import construct

    with pytest.raises(RequestError, match="no constructed model 'constructed/other'"):
        construct("constructed/other")


# -- Proposition 5 ------------------------------------------------------------------------------------------


def one_head(seed=0, **changes):
    base = {"n_layers": 1, "d_model": 8, "d_head": 4, "d_mlp": 4, "n_ctx": 16, "norm": "none", "init_std": 0.7}
    config = TransformerConfig(3, positions="linear", d_vocab_out=2, **{**base, **changes})
    return SandboxTransformer.init(config, seed)


@pytest.mark.parametrize(
    "changes", [{}, {"block": "authors", "norm": "LN"}, {"block": "bert"}, {"n_heads": 2}, {"scale_scores": False}]
)
def test_scores_are_what_the_terms_say(changes):
    """Eq. 3.9, against the scores that the model computes, biases included."""
    model = one_head(**changes)
    generous = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name in ("b_Q", "b_K"):
            getattr(model.blocks[0].attn, name).normal_(generator=generous)
    tokens = np.array([1, 0, 2, 0, 0, 1, 0, 0])
    _, cache = model.run_with_cache(torch.from_numpy(tokens)[None], names_filter="blocks.0.attn.hook_attn_scores")
    for head in range(model.config.n_heads):
        scores = cache["blocks.0.attn.hook_attn_scores"][0, head].numpy()
        seen = np.tri(8, dtype=bool)
        terms = ScoreTerms.of(model, head).scores(tokens)
        assert_close(terms[seen], scores[seen].astype(float), scale=10, dtype=torch.float32)


def test_the_mass_on_a_lone_write_has_a_closed_form():
    for seed in range(4):
        model = one_head(seed)
        tokens = np.array([2, *[0] * 40])
        (pattern,) = attention_patterns(model, torch.from_numpy(tokens)[None])
        mass = ScoreTerms.of(model).mass_on_first(2, 0, np.arange(41))
        assert_close(mass, pattern[0, 0, :, 0], scale=10, dtype=torch.float32)
    flat = ScoreTerms(np.zeros((3, 3)), np.zeros(3), np.zeros(3), 0.0, 16.0)
    assert_close(flat.mass_on_first(1, 0, [0, 1, 9]), [1, 1 / 2, 1 / 10], scale=1)


def hand(product, recency=0.5):
    """Writes lead no-ops by 40, later keys lead by `recency` a position, and positions multiply."""
    tokens = np.zeros((3, 3))
    tokens[:, 1:] = 40.0
    return ScoreTerms(tokens, np.full(3, recency), np.zeros(3), product, 1.0)


@pytest.mark.parametrize(("product", "case"), [(0.01, "a lone write is lost"), (-0.01, "an old write stays")])
def test_a_product_of_either_sign_ends_in_a_wrong_key(product, case):
    """Proposition 5: case 1 forces W_Qp . W_Kp <= 0, case 2 >= 0."""
    wrong = hand(product).first_wrong((1, 2), 0, 10_000)
    assert wrong is not None
    terms = hand(product)
    lone, two = np.array([1] + [0] * wrong), np.array([1] + [0] * (wrong - 2) + [2, 0])
    at_lone, at_two = (terms.scores(string)[wrong] for string in (lone, two))
    assert (at_lone.argmax() != 0) == (product > 0)
    assert (at_two.argmax() != wrong - 1) == (product < 0 or at_two.argmax() == wrong)
    assert hand(product).first_wrong((1, 2), 0, wrong - 1) is None
    assert case


def test_first_wrong_is_that_of_a_literal_search():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(3, 3))
        tokens[:, 1:] += 3
        terms = ScoreTerms(tokens, rng.normal(size=3), rng.normal(size=3), rng.normal() / 4, 8.0)
        found = None
        for t in range(1, 60):
            strings = [[w] + [0] * t for w in (1, 2)]
            wanted = [0, 0]
            if t >= 2:
                strings += [[w] + [0] * (t - 2) + [3 - w, 0] for w in (1, 2)]
                wanted += [t - 1, t - 1]
            if any(terms.scores(s)[t].argmax() != right for s, right in zip(strings, wanted, strict=True)):
                found = t
                break
        assert terms.first_wrong((1, 2), 0, 59) == found


def test_only_a_product_of_zero_lasts():
    """Lemma 16's memory has it, and no length at which it errs; by equal steps, since W_Qp = 0."""
    terms = ScoreTerms.of(memory(n_ctx=512))
    assert terms.product == 0
    assert terms.first_wrong((1, 2), 0, 500) is None
    # Recency that grows with the place outgrows any lead of writes: to the first position at which it does
    assert hand(0.0, recency=0.5).first_wrong((1, 2), 0, 10_000) == 80


def test_terms_are_refused_where_scores_are_not_linear():
    for block in ("gpt2", "bert"):
        with pytest.raises(RequestError, match=f"block='{block}' with norm='LN' has a norm before the attention"):
            ScoreTerms.of(one_head(block=block, norm="LN"))
    with pytest.raises(RequestError, match="positions='learned'"):
        ScoreTerms.of(SandboxTransformer.init(TransformerConfig(3, positions="learned", norm="none")))


def test_no_weight_is_above_the_bound_of_proposition_4():
    rng = np.random.default_rng(0)
    for length in (2, 5, 50):
        product = rng.normal(size=(4, 4))
        sigma = np.linalg.norm(product, 2)
        u, _, v = np.linalg.svd(product)
        vectors = rng.normal(size=(length, 4))
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        scores = vectors @ product.T @ vectors[-1]
        weights = np.exp(scores) / np.exp(scores).sum()
        assert weights.max() <= dilution_bound(sigma, length)
        # And it is met: a query along one singular direction, the key against all others along the other.
        tight = np.array([sigma] + [-sigma] * (length - 1))
        assert_close(np.exp(sigma) / np.exp(tight).sum(), dilution_bound(sigma, length), scale=1)
        assert u.shape == v.shape
    assert dilution_bound(3.0, 1) == 1
    with pytest.raises(RequestError, match="sigma=-1 is not a singular value"):
        dilution_bound(-1, 4)
    assert_close(dilution_bound(0.0, 8), 1 / 8)
