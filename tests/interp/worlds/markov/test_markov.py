"""In-context chains: counts, laws and rungs by hand, by loops and by enumeration; stationary laws; latents."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import ConfigError, GrammarError, RequestError
from interp.presets import check_read, make_recipe
from interp.rng import generator
from interp.training.evaluation import plain_set
from interp.worlds.markov import MarkovGrammar, OrderGrammar
from interp.worlds.markov.counts import chain_of_contexts, drawn_often, kernels, stationary

A, B, C = 0, 1, 2


def test_counts_by_hand():
    """a b a b c a: a was followed by b twice; of six tokens three are a, two b, one c. What follows is b."""
    row = np.array([[A, B, A, B, C, A, B]])
    rungs = {name: float(nll[0, 5]) for name, nll in MarkovGrammar(length=7, beta=0.5).rungs(row).items()}
    assert_close(rungs["uniform"], math.log(3))
    assert_close(rungs["unigram"], -math.log((2 + 0.5) / (6 + 1.5)))
    assert_close(rungs["bigram"], -math.log((2 + 0.5) / (2 + 1.5)))


def test_counts_of_higher_order_by_hand():
    """a b c a b c a b: after "a b" came c twice; two before what follows an a stood before c, c and b's place."""
    row = np.array([[A, B, C, A, B, C, A, B, C]])
    rungs = {name: float(nll[0, 7]) for name, nll in OrderGrammar(length=9).rungs(row).items()}
    assert list(rungs) == ["uniform", "unigram", "bigram", "trigram", "lag-2 bigram"]
    assert_close(rungs["trigram"], -math.log((2 + 1) / (2 + 3)))
    assert_close(rungs["bigram"], -math.log((2 + 1) / (2 + 3)))
    assert_close(rungs["lag-2 bigram"], -math.log((2 + 1) / (2 + 3)))
    assert_close(rungs["unigram"], -math.log((2 + 1) / (8 + 3)))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_the_law_is_what_the_integrated_kernel_says(order, beta):
    """The product of the law's predictions is the Dirichlet-multinomial probability of the string, for every string."""
    grammar = MarkovGrammar(states=2, order=order, length=8, beta=beta, first="uniform")
    tokens, chances = grammar.enumerate()
    assert_close(chances.sum(), 1.0, ulps=500)
    nats = grammar.law_nll(tokens)[:, order - 1 : -1].sum(1) + order * math.log(2)
    assert_close(np.exp(-nats), chances, ulps=500)


def test_the_law_is_the_mean_over_kernels():
    """Of 200,000 kernels, without counting anything: P(b a | a) of one string of three, within five standard errors."""
    beta, strings = 0.7, np.array([[A, B, A]])
    kernel = kernels(np.random.default_rng(0), 200_000, 2, 2, beta)
    each = kernel[:, A, B] * kernel[:, B, A] / 2
    grammar = MarkovGrammar(states=2, length=3, beta=beta, first="uniform")
    exact = float(np.exp(drawn_often(strings, grammar.contexts(strings), 2, 2, beta))[0])
    assert abs(each.mean() - exact) < 5 * each.std() / math.sqrt(len(each))


def test_rungs_are_literal_counts():
    grammar = MarkovGrammar(states=4, order=3, length=30, beta=0.4, first="uniform")
    tokens = grammar.draw(np.random.default_rng(3), 5)
    found = grammar.rungs(tokens)
    for name, lags in (
        ("unigram", []),
        ("bigram", [1]),
        ("trigram", [2, 1]),
        ("4-gram", [3, 2, 1]),
        ("lag-3 bigram", [3]),
    ):
        right = [[_count(row, at + 1, lags, 4, 0.4) for at in range(29)] for row in tokens.tolist()]
        assert_close(found[name][:, :-1], right)


def test_predictions_are_the_rungs_before_the_token_is_known():
    grammar = OrderGrammar(length=20, beta=0.6)
    tokens = grammar.draw(np.random.default_rng(4), 6)
    rungs, told = grammar.rungs(tokens), grammar.predictions(tokens)
    assert list(told) == list(rungs)
    for name, chances in told.items():
        assert_close(chances.sum(-1), np.ones((6, 20)))
        met = np.take_along_axis(chances[:, :-1], tokens[:, 1:, None], -1)[..., 0]
        assert_close(-np.log(met), rungs[name][:, :-1], scale=10.0)


def _count(row, at, lags, states, beta):
    """Nats of the token at `at` for who counts what stood behind the same tokens, a loop over all before it."""
    total, same = 0, 0
    if any(at - lag < 0 for lag in lags):
        return math.log(states)
    for earlier in range(at):
        if all(earlier - lag >= 0 and row[earlier - lag] == row[at - lag] for lag in lags):
            total += 1
            same += row[earlier] == row[at]
    return -math.log((same + beta) / (total + states * beta))


# -- stationary laws ----------------------------------------------------------------------------------------


def test_the_stationary_law_of_two_states():
    p, q = 0.3, 0.8
    assert_close(stationary(np.array([[1 - p, p], [q, 1 - q]])), [q / (p + q), p / (p + q)])


def test_stationary_laws_stay_where_they_are():
    chain = kernels(np.random.default_rng(0), 50, 5, 5, 0.3)
    law = stationary(chain)
    assert_close(np.einsum("bi,bij->bj", law, chain), law, scale=1.0)
    assert_close(law.sum(1), np.ones(50))


def test_states_that_are_hardly_ever_left_keep_their_share():
    """Left with 1e-18 and 2e-18: shares of 2/3 and 1/3, which a difference from 1 would lose."""
    p, q = 1e-18, 2e-18
    assert_close(stationary(np.array([[1 - p, p], [q, 1 - q]])), [2 / 3, 1 / 3])


def test_contexts_move_on_by_one_token():
    kernel = kernels(np.random.default_rng(1), 3, 4, 2, 1.0)
    chain = chain_of_contexts(kernel, 2)
    for context, state in itertools.product(range(4), range(2)):
        after = (context % 2) * 2 + state
        assert_close(chain[:, context, after], kernel[:, context, state])
    assert_close(chain.sum(-1), np.ones((3, 4)))


@pytest.mark.parametrize("order", [1, 2])
def test_stationary_strings_look_alike_everywhere(order):
    """Shares of each pair of neighbours at the beginning and at the end, within five standard errors (20,000 strings).

    Kernels of beta = .1 are so uneven that strings that began evenly would differ by much more."""
    grammar = MarkovGrammar(states=2, order=order, length=12, beta=0.1)
    tokens = grammar.draw(generator(0, "test"), 20_000)
    same = tokens[:, :-1] == tokens[:, 1:]
    gap = same[:, 0].mean() - same[:, -1].mean()
    assert abs(gap) < 5 * math.sqrt(2 * 0.25 / 20_000)
    even = replace(grammar, first="uniform").draw(generator(0, "test"), 20_000)
    moved = even[:, :-1] == even[:, 1:]
    assert abs(moved[:, 0].mean() - moved[:, -1].mean()) > 5 * math.sqrt(2 * 0.25 / 20_000)


def test_only_even_beginnings_have_an_exact_law():
    grammar = MarkovGrammar()
    assert not hasattr(grammar, "law_nll")
    assert hasattr(replace(grammar, first="uniform"), "law_nll")
    with pytest.raises(GrammarError, match="first='stationary'"):
        grammar.enumerate()


# -- latents ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["stationary", "uniform"])
@pytest.mark.parametrize("order", [1, 2])
def test_who_knows_the_kernel_is_read_off_it(first, order):
    """The very strings of `draw`, and of each token the kernel's own surprise."""
    grammar = MarkovGrammar(states=3, order=order, length=9, first=first)
    tokens = grammar.draw(generator(4, "test"), 20)
    again, kernel = grammar.draw_all(generator(4, "test"), 20)
    found = grammar.latent_rungs(generator(4, "test"), 20)["kernel"]
    assert (tokens == again).all()
    for row, law, nats in zip(tokens.tolist(), kernel, found, strict=True):
        for at in range(order, 9):
            context = sum(row[at - order + i] * 3 ** (order - 1 - i) for i in range(order))
            assert_close(nats[at - 1], -math.log(law[context, row[at]]), scale=10.0)


def test_the_second_token_of_a_stationary_chain_of_order_two():
    grammar = MarkovGrammar(states=2, order=2, length=5)
    tokens, kernel = grammar.draw_all(generator(5, "test"), 50)
    law = stationary(chain_of_contexts(kernel, 2)).reshape(50, 2, 2)
    pair = law[np.arange(50), tokens[:, 0], tokens[:, 1]]
    share = pair / law[np.arange(50), tokens[:, 0]].sum(1)
    found = grammar.latent_rungs(generator(5, "test"), 50)["kernel"]
    assert_close(found[:, 0], -np.log(share), scale=10.0)


def test_rungs_of_latents_are_means_over_equal_strings():
    """Two states and three tokens: many draws of each of eight strings, each with the mean of its kernels' nats."""
    grammar = MarkovGrammar(states=2, length=3, first="uniform")
    data = plain_set(grammar, 500)
    tokens = grammar.draw(generator(0, "held-out"), 500)
    each = grammar.latent_rungs(generator(0, "held-out"), 500)["kernel"]
    assert data.latent == {"kernel"}
    assert len(data.inputs) == 8
    for row, nats in zip(data.inputs[:, :3], data.rungs["kernel"], strict=True):
        same = (tokens == row).all(1)
        assert_close(nats[:2], each[same][:, :2].mean(0), scale=10.0)
    assert_close(data.rung_losses()["kernel"], each[:, :2].mean(), scale=10.0)


def test_losses_of_rungs_stand_in_their_order():
    """S = 3, T = 64: about 1.099, 1.005, .900 and .812 nats."""
    losses = plain_set(MarkovGrammar(), 2000).rung_losses()
    for name, right in (("uniform", 1.0986), ("unigram", 1.0045), ("bigram", 0.9001), ("kernel", 0.8124)):
        assert abs(losses[name] - right) < 0.02  # absolute: nats; two samples of kernels differ by about .005


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"states": 1}, "states=1"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"order": 9}, "order=9"),
        ({"order": 3, "length": 3}, "length=3"),
        ({"states": 20, "order": 3}, "8000 contexts"),
        ({"states": 12, "order": 2}, "first='stationary'"),
        ({"first": "even"}, "first='even'"),
    ],
)
def test_parameters_outside_their_range_are_quoted(bad, said):
    with pytest.raises(GrammarError, match=said):
        MarkovGrammar(**bad)


def test_tokens_of_no_state_are_quoted():
    with pytest.raises(GrammarError, match="7"):
        MarkovGrammar().labels(np.array([[0, 7]]))


def test_options_are_those_of_the_grammar():
    with pytest.raises(RequestError, match="option 'graph' is not one of 'markov'"):
        make_recipe("markov", {"graph": "chain"})
    assert make_recipe("causal-graph", {"graph": "chain"}).grammar.graph == "chain"
    assert make_recipe("markov-order-k", {"order": 3}).config.n_heads == 3
    assert make_recipe("markov", {"layers": 1}).config.n_layers == 1
    wide = make_recipe("markov", {"width": 96})
    assert (wide.config.d_model, wide.config.d_head) == (96, 96)
    check_read(wide)  # an MLP that is not there is not made wider


def test_models_that_see_the_answer_are_refused():
    recipe = make_recipe("markov")
    both = type(recipe.config)(**{**recipe.config.to_dict(), "direction": "bidirectional"})
    with pytest.raises(ConfigError, match="direction='bidirectional'"):
        type(recipe)(recipe.name, recipe.grammar, both, recipe.settings)
