"""Law, truth, questions and training of the binary chain."""

import math

import numpy as np
import pytest

from closeness import assert_close
from interp.checking import SLOW, world_checks
from interp.errors import ConfigError, GrammarError, RequestError
from interp.presets import make_recipe
from interp.rng import generator
from interp.training.evaluation import plain_set
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.claims import CLAIMS, Next
from probes import check_audit

KERNELS = [(0.2, 0.3), (0.5, 0.8), (0.9, 0.9), (0.3, 0.7), (0.05, 0.99)]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(run, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, run in world_checks("binary_chain")
    ],
)
def test_the_world_passes_all_checks(check):
    check()


@pytest.mark.slow
def test_its_claims_are_audited():
    assert len(check_audit("binary_chain")) == 6


@pytest.mark.parametrize(("p", "q"), KERNELS)
def test_strings_are_those_of_a_loop_over_states(p, q):
    grammar, uniforms = BinaryChain(p, q, 40), generator(3, "test").random((50, 40))
    for row, found in zip(uniforms, grammar.from_uniforms(uniforms), strict=True):
        state = int(row[0] < p / (p + q))
        states = [state]
        for u in row[1:]:
            state = int(u < (p if state == 0 else 1 - q))
            states.append(state)
        assert found.tolist() == states


@pytest.mark.parametrize(("p", "q"), KERNELS)
def test_closed_forms_are_expectations_over_all_strings(p, q):
    grammar = BinaryChain(p, q, 5)
    tokens, weight = grammar.enumerate()
    rungs = grammar.rungs(tokens)
    assert_close(weight @ grammar.law_nll(tokens)[:, :-1], np.full(4, grammar.entropy_rate), scale=1)
    assert_close(weight @ rungs["unigram"][:, :-1], np.full(4, grammar.unigram_loss), scale=1)
    assert_close(rungs["uniform"][:, :-1], math.log(2))
    assert_close(weight @ (tokens == 1), np.full(5, grammar.stationary[1]), scale=1)
    pi_0, pi_1 = grammar.stationary
    for lag in range(1, 5):  # what the Hessian's closed form rests on
        together = weight @ (tokens[:, 0] * tokens[:, lag]) - pi_1**2
        assert_close(together, pi_0 * pi_1 * grammar.eigenvalue**lag, scale=1)
    gap = math.log((1 - q) / q) - math.log(p / (1 - p))
    assert_close(grammar.log_odds_gap, gap, scale=10)


@pytest.mark.parametrize(("p", "q", "unigram", "rate"), [
    (0.2, 0.3, 0.6730, 0.5446), (0.5, 0.8, 0.6663, 0.6190), (0.9, 0.9, 0.6931, 0.3251), (0.7, 0.3, 0.6109, 0.6109)
])  # fmt: skip
def test_losses_worked_by_hand(p, q, unigram, rate):
    grammar = BinaryChain(p, q)
    assert round(grammar.unigram_loss, 4) == unigram
    assert round(grammar.entropy_rate, 4) == rate


def test_rungs_stand_on_the_sample_of_the_law():
    losses = plain_set(BinaryChain(0.9, 0.9), 2000).rung_losses()
    assert losses["law"] < losses["unigram"] <= losses["uniform"] + 1e-12  # absolute: a rounding


def test_runs_of_a_string():
    grammar = BinaryChain()
    (tokens,) = grammar.to_tokens("0 0 1 1 1 0")
    assert tokens.tolist() == [0, 0, 1, 1, 1, 0]
    assert grammar.run_start(tokens).tolist() == [0, 0, 2, 2, 2, 5]
    assert grammar.labels(tokens).tolist() == [0, 1, 1, 1, 0, -100]


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.3), (0.5, 0.8)])
def test_the_answer_is_what_the_current_state_makes_likelier(p, q):
    grammar = BinaryChain(p, q, 12)
    tokens = grammar.draw(generator(0, "test"), 40)
    items = Next().items(tokens, grammar, np.ones(tokens.shape, dtype=bool), 0)
    assert len(items) == 40
    for base, donor, read, answer, foil in zip(
        items.tokens, items.donors, items.read, items.answer, items.foil, strict=True
    ):
        assert np.flatnonzero(base != donor).tolist() == [read]
        assert read < 11  # no next state is trained for at the last position
        rise = grammar.kernel[base[read]] - grammar.kernel[donor[read]]
        assert (answer, foil) == (int(rise.argmax()), int(rise.argmin()))


def test_nothing_is_asked_where_states_are_independent():
    grammar = BinaryChain(0.25, 0.75, 12)
    tokens = grammar.draw(generator(0, "test"), 10)
    assert CLAIMS.question(grammar) is None
    assert len(Next().items(tokens, grammar, np.ones(tokens.shape, dtype=bool), 0)) == 0


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: BinaryChain(p=0.0), GrammarError, "p=0.0"),
        (lambda: BinaryChain(q=1.0), GrammarError, "q=1.0"),
        (lambda: BinaryChain(p=float("nan")), GrammarError, "p=nan"),
        (lambda: BinaryChain(length=1), GrammarError, "length=1"),
        (lambda: BinaryChain(length=20).enumerate(), GrammarError, "length=20"),
        (lambda: BinaryChain().to_tokens("012"), GrammarError, "no token fits '2'"),
        (lambda: BinaryChain().to_tokens(["01", "010"]), GrammarError, "text 0 has 2 tokens"),
        (lambda: make_recipe("binary-chain", {"start": "canonical", "layers": 2}), ConfigError, "layers=2"),
        (lambda: make_recipe("binary-chain", {"start": "canonical", "width": 5}), ConfigError, "d_mlp=5"),
        (
            lambda: make_recipe("binary-chain", {"start": "canonical", "block": "authors"}),
            ConfigError,
            "block='authors'",
        ),
        (lambda: make_recipe("binary-chain", {"start_e": 0.5}), RequestError, "start_e=0.5 changes nothing here"),
        (lambda: make_recipe("binary-chain", {"p": 1.5}), GrammarError, "p=1.5"),
        (lambda: make_recipe("binary-chain", {"n_ctx": 8}), ConfigError, "n_ctx=8"),
    ],
)
def test_bad_input_is_named_in_one_line(make, error, said):
    with pytest.raises(error) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
