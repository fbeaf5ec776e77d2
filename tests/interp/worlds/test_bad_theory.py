"""Theory and constructed models of the younger worlds: what is no number, no place, no token or another world's grammar
is refused in one line that quotes it, and what is a number gives one."""

import warnings
from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import SandboxTransformer, TransformerConfig
from interp.errors import InterpError, RequestError
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.constructed import bigram, canonical_weights, unigram
from interp.worlds.binary_chain.constructed import construct as construct_chain
from interp.worlds.binary_chain.flow import CanonicalFlow, boundary, gap, invariant
from interp.worlds.binary_chain.landscape import (
    expected_loss,
    free_directions,
    landscape,
    unigram_hessian,
    unigram_point,
)
from interp.worlds.binary_chain.portrait import phase_portrait
from interp.worlds.facts.constructed import lookup
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.constructed import memory, reader
from interp.worlds.flipflop.theory import ScoreTerms, dilution_bound
from interp.worlds.recall.constructed import induction

NAN, INF = float("nan"), float("inf")
FLOW, CHAIN = CanonicalFlow(0.5, 0.8), BinaryChain(length=4)
TERMS = ScoreTerms(np.zeros((3, 3)), np.full(3, 0.5), np.zeros(3), 0.0, 16.0)
NO_NUMBERS = (NAN, INF, -INF, True, None, "a", [0.1, NAN], 1e200)


def one_number_of(method):
    """Calls of a method of (e, w), one of which is no number."""
    return [(lambda n=n: method(n, 1.0), "e=") for n in NO_NUMBERS] + [
        (lambda n=n: method(1.0, n), "w=") for n in NO_NUMBERS
    ]


def with_outputs(count):
    return SandboxTransformer(TransformerConfig(2, d_model=4, d_head=4, d_mlp=4, n_ctx=4, d_vocab_out=count))


REFUSED = {
    "loss": one_number_of(FLOW.loss),
    "gradient": one_number_of(FLOW.gradient),
    "best_bias": one_number_of(FLOW.best_bias),
    "logits": one_number_of(lambda e, w: FLOW.logits(e, w, 0.0)),
    "gap": one_number_of(gap),
    "invariant": one_number_of(invariant),
    "basin": one_number_of(FLOW.basin),
    "end": one_number_of(FLOW.end),
    "flow": one_number_of(FLOW.flow),
    "canonical weights": one_number_of(lambda e, w: canonical_weights(dict(bigram().named_parameters()), e, w, CHAIN)),
    "b": [(lambda n=n: FLOW.loss(0.1, 0.1, n), "b=") for n in (NAN, True, "a", [INF])],
    "no b": [(lambda: FLOW.logits(0.1, 0.1, None), "b=None")],
    "log-odds": [(lambda n=n: FLOW.best_log_odds(n), "g=") for n in (NAN, None, "a")],
    "boundary": [(lambda n=n: boundary(n), "w=") for n in (NAN, "a", 0.0, 0.5, [-1.0, 1.0])],
    "pace": [
        (lambda of=of, n=n: of(n), "pace=")
        for of in (
            lambda n: boundary(-1.0, n),
            lambda n: invariant(1.0, -1.0, n),
            lambda n: CanonicalFlow(0.5, 0.8, n),
        )
        for n in (NAN, 0, -1, True, "a", 1e9)
    ],
    "shapes": [
        (lambda of=of: of([1, 2], [1, 2, 3]), "shapes e [2], w [3]")
        for of in (FLOW.loss, FLOW.gradient, FLOW.best_bias, gap, invariant)
    ],
    "time": [(lambda n=n: FLOW.flow(0.1, 0.1, time=n), "time=") for n in (0, -1, NAN, INF, True, "a", 1e-300, 1e100)],
    "points": [(lambda n=n: FLOW.flow(0.1, 0.1, points=n), "points=") for n in (0, 1, 2, -3, 2.5, True, None, 10**12)],
    "std": [(lambda n=n: FLOW.global_share(n), "std=") for n in (0, -1, NAN, True, "a", 10**400)],
    "portrait": [
        (lambda: phase_portrait(3), "flow=3"),
        (lambda: phase_portrait(FLOW, [1]), "paths=1"),
        (lambda: phase_portrait(FLOW, reach="a"), "reach='a'"),
        (lambda: phase_portrait(FLOW, reach=NAN), "reach=nan"),
    ],
    "spread": [(lambda n=n: unigram(CHAIN, spread=n), "spread=") for n in (NAN, -1, True, "a", None)],
    "positions": [(lambda n=n: unigram(CHAIN, positions=n), "positions=") for n in (NAN, -1, True, "a")],
    "tied": [(lambda of=of: of(tied=3), "tied=3") for of in (unigram, bigram)],
    "dtype": [
        (lambda of=of, n=n: of(dtype=n), "dtype=")
        for of in (unigram, bigram, induction)
        for n in (torch.int64, "float", None)
    ],
    "grammar": [
        (lambda of=of, g=g: of(g), "grammar=")
        for of, own in (
            (unigram, BinaryChain),
            (bigram, BinaryChain),
            (reader, FlipFlopGrammar),
            (memory, TransductionGrammar),
            (induction, None),
            (lookup, None),
        )
        for g in (3, 0, "recall", BinaryChain(), FlipFlopGrammar(), TransductionGrammar())
        if own is None or not isinstance(g, own)
    ],
    "name": [(lambda: construct_chain("constructed/chain"), "'constructed/chain'")],
    "landscape": [
        (lambda of=of, model=model, grammar=grammar, said=said: of(model, grammar), said)
        for of in (landscape, expected_loss, unigram_hessian, unigram_point)
        for model, grammar, said in (
            (3, CHAIN, "model=3"),
            (unigram(CHAIN, width=2), FlipFlopGrammar(), "grammar=FlipFlop"),
            (reader(), CHAIN, "has 2 tokens, and the model 5"),
            (with_outputs(3), CHAIN, "3 outputs"),
        )
    ],
    "free": [(lambda n=n: landscape(unigram(CHAIN, width=2), CHAIN, n), "free=") for n in (-3, NAN, 1.5, True)],
    "directions": [(lambda: free_directions(3), "model=3")],
    "sigma": [(lambda n=n: dilution_bound(n, 3), "sigma=") for n in (NAN, INF, -1, True, "a", None)],
    "length": [(lambda n=n: dilution_bound(1.0, n), "length=") for n in (0, -1, NAN, True, 2.5)],
    "terms": [(lambda n=n: ScoreTerms.of(n), "model") for n in (3, None, "reader")],
    "scores": [(lambda n=n: TERMS.scores(n), "") for n in ([0, 9], [0, -1], [0.0, 1.0], [], 3, [[0]], [True])],
    "gaps": [(lambda n=n: TERMS.mass_on_first(1, 0, n), "gaps") for n in ([-3, 2], [1.5], [NAN], "a", None, 10**9)],
    "write": [(lambda n=n: TERMS.mass_on_first(n, 0, [3]), "write=") for n in (-1, 7, 1.5, True, None)],
    "idle": [(lambda n=n: TERMS.mass_on_first(1, n, [3]), "idle=") for n in (-1, 7, 1.5, True, None)],
    "writes": [(lambda n=n: TERMS.first_wrong(n, 0, 9), "writes=") for n in ((1,), (1, -1), (1, 7), 3, (1, 2, 0))],
    "idle ones": [(lambda n=n: TERMS.first_wrong((1, 2), n, 9), "idle=") for n in (-1, 7, True)],
    "longest": [(lambda n=n: TERMS.first_wrong((1, 2), 0, n), "longest=") for n in (0, NAN, 10**9)],
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_none_is_quoted_in_one_line(what):
    for at, (call, said) in enumerate(REFUSED[what]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InterpError) as caught:
                call()
        assert said in str(caught.value), (at, str(caught.value))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


def literal_log_odds(p, q, g):
    """The root y > 0 of q exp(g) y^2 + (q - p) y - p = 0, by the form that cancels nothing, in 60 digits."""
    getcontext().prec = 60
    p, q, power = Decimal(p), Decimal(q), Decimal(g).exp()
    root = ((p - q) ** 2 + 4 * p * q * power).sqrt()
    y = 2 * p / (root + (q - p)) if q >= p else (root + (p - q)) / (2 * q * power)
    return float(y.ln())


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.8), (0.8, 0.5), (0.3, 0.3), (0.2, 0.3), (1e-6, 0.9), (0.9, 1e-6)])
def test_numbers_at_the_rim_give_numbers(p, q):
    flow = CanonicalFlow(p, q)
    for g in (-3e5, -2000.5, -1000.0, -999.0, -1e-3, 0.0, 5.0, 700.0, 3e5):
        found = flow.best_log_odds(g)
        assert_close(found, literal_log_odds(p, q, g), ulps=64, scale=max(abs(g), 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for e, w in ((20, -20), (20, 20), (-20, 1e-9), (1e6, -1e6), (1e6, 1e6), (0, -1e6)):
            assert np.isfinite(flow.loss(e, w))
            assert np.isfinite(flow.gradient(e, w)).all()
            assert np.isfinite(flow.loss(e, w, 1e6))


def test_the_ends_of_times_and_points_are_taken():
    assert FLOW.flow(0.1, 0.1, time=1e-6, points=3).time.tolist() == [0.0, 5e-7, 1e-6]
    assert len(FLOW.flow(np.float32(0.1), np.int64(1), time=np.int64(5), points=np.int64(3)).time) == 3
    assert np.isfinite(FLOW.flow(0.1, 0.1, time=1e9).loss).all()


def test_arguments_broadcast_as_they_are_documented():
    e, w, b = np.array([0.1, 0.2])[:, None], np.array([1.0, -1.0, 0.5]), 0.3
    assert FLOW.gradient(e, w).shape == FLOW.gradient(e, w, b).shape == (3, 2, 3)
    assert FLOW.gradient(0.1, 0.2, [0.0, 0.1]).shape == (3, 2)
    assert_close(FLOW.loss(e, w)[1, 2], FLOW.loss(0.2, 0.5))
    assert dilution_bound(np.float64(1.0), np.int64(3)) == dilution_bound(1, 3)
    assert TERMS.first_wrong([np.int64(1), 2], 0, 9) == TERMS.first_wrong((1, 2), 0, 9)


def test_no_grammar_is_the_default_one():
    assert reader().grammar == FlipFlopGrammar()
    assert unigram().grammar == BinaryChain()
    with pytest.raises(RequestError, match="grammar=0 is not a FlipFlopGrammar"):
        reader(0)
