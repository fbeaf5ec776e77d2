"""Causal graphs: parents, laws and counts by hand, by loops, and by enumeration."""

import math

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import GrammarError, RequestError
from interp.presets import make_recipe
from interp.rng import generator
from interp.training.evaluation import plain_set
from interp.worlds.markov import CausalGraphGrammar, MarkovGrammar
from interp.worlds.markov.reference import REFERENCE


def test_a_chain_by_hand():
    grammar = CausalGraphGrammar(length=6, graph="chain")
    assert grammar.parents_of(7)[:, 0].tolist() == [-1, 0, 1, 2, 3, -1, 5]


def test_pairs_by_hand():
    grammar = CausalGraphGrammar(length=9, order=2, graph="pairs")
    assert grammar.parents_of(10).tolist() == [[-1, -1]] * 2 + [[0, 1]] + [[-1, -1]] * 2 + [[3, 4]] + [[-1, -1]] * 3 + [
        [7, 8]
    ]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_random_parents_are_earlier_distinct_and_of_the_graph(order):
    grammar = CausalGraphGrammar(states=2, order=order, length=30, graph_seed=5)
    parents = grammar.parents_of(31)
    for at in range(order, 30 - order):
        assert len(set(parents[at])) == order
        assert parents[at].min() >= 0
        assert parents[at].max() < at
    assert (parents[:order] == -1).all()
    assert (parents[30 - order : 30] == -1).all()
    assert parents[30].tolist() == list(range(30 - order, 30))
    assert (CausalGraphGrammar(states=2, order=order, length=30, graph_seed=6).parents_of(31) != parents).any()


def test_every_parent_is_drawn_as_often():
    """Over 2,000 seeds, the parent of token 4: each of four earlier ones in a quarter, within five standard errors."""
    drawn = [int(CausalGraphGrammar(length=8, graph_seed=seed).parents_of(5)[4, 0]) for seed in range(2000)]
    shares = np.bincount(drawn, minlength=4) / 2000
    assert (np.abs(shares - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 2000)).all()


@pytest.mark.parametrize("graph", ["chain", "pairs", "random"])
@pytest.mark.parametrize("order", [1, 2])
def test_the_law_is_what_the_integrated_kernel_says(graph, order):
    """Probability of the answer given the string, from the probabilities of all strings, for every string."""
    grammar = CausalGraphGrammar(states=2, order=order, length=9, graph=graph, graph_seed=3)
    tokens, chances = grammar.enumerate()
    assert_close(chances.sum(), 1.0, ulps=500)
    pairs = chances.reshape(-1, 2)  # strings that differ in the answer alone
    right = (pairs / pairs.sum(1, keepdims=True)).reshape(-1)
    assert_close(np.exp(-grammar.law_nll(tokens)[:, grammar.length - 1]), right, ulps=500)


def test_only_the_query_has_a_label():
    grammar = CausalGraphGrammar(length=8)
    labels = grammar.labels(grammar.draw(generator(0, "test"), 5))
    assert (labels[:, 7] >= 0).all()
    assert (np.delete(labels, 7, axis=1) == -100).all()


def test_of_a_chain_the_tokens_before_are_the_law():
    grammar = CausalGraphGrammar(length=12, order=2, graph="chain")
    tokens = grammar.draw(generator(0, "test"), 50)
    assert_close(grammar.rungs(tokens)["tokens before"][:, 11], grammar.law_nll(tokens)[:, 11])


def test_of_another_graph_the_tokens_before_tell_less():
    losses = plain_set(CausalGraphGrammar(), 2000).rung_losses()
    assert losses["kernel"] < losses["law"] < losses["uniform"]
    assert losses["law"] < min(losses["tokens before"], losses["unigram"])


def test_single_parents_are_literal_counts():
    grammar = CausalGraphGrammar(states=3, order=2, length=14, graph_seed=2)
    tokens = grammar.draw(generator(1, "test"), 8)
    parents = grammar.parents_of(15)
    for one in (0, 1):
        found = grammar.rungs(tokens)[f"parent {one + 1} alone"][:, 13]
        for row, nats in zip(tokens.tolist(), found, strict=True):
            followed = [row[at] for at in range(2, 12) if row[parents[at, one]] == row[12 + one]]
            assert_close(nats, -math.log((followed.count(row[14]) + 0.5) / (len(followed) + 1.5)))


def test_kernels_stay_what_they_are_along_the_graph():
    """Of 300 strings the kernel's own surprise at the answer is that of the row that the query names."""
    grammar = CausalGraphGrammar(order=2, length=10)
    tokens, kernel = grammar.draw_all(generator(2, "test"), 300)
    assert (tokens == grammar.draw(generator(2, "test"), 300)).all()
    row = kernel[np.arange(300), tokens[:, 8] * 3 + tokens[:, 9]]
    found = grammar.latent_rungs(generator(2, "test"), 300)["kernel"][:, 9]
    assert_close(found, -np.log(row[np.arange(300), tokens[:, 10]]), scale=100.0)


def test_a_reference_of_several_parents():
    """`check_world` holds one parent against the literal statement; here two and three, of every graph."""
    for graph, order in (("chain", 2), ("pairs", 2), ("random", 2), ("random", 3)):
        grammar = CausalGraphGrammar(states=2, order=order, length=13, graph=graph, graph_seed=4)
        tokens = grammar.draw(generator(3, "test"), 10)
        law = grammar.law_nll(tokens)
        for i, row in enumerate(tokens.tolist()):
            for at, parents in enumerate(REFERENCE.keys["parents"](row, grammar)):
                assert parents == {int(p) for p in grammar.parents_of(14)[at] if p >= 0}
            assert_close(law[i, 12], REFERENCE.law(row, grammar)[12])
            for at, keys in enumerate(REFERENCE.keys["matches"](row, grammar)):
                assert keys == set(np.flatnonzero(grammar.matches(tokens[i : i + 1])[0, at]))


def test_too_short_strings_and_unread_seeds_are_refused():
    with pytest.raises(GrammarError, match="length=6, order=3"):
        CausalGraphGrammar(order=3, length=6)
    with pytest.raises(RequestError, match="graph_seed=7"):
        make_recipe("causal-graph", {"graph": "chain", "graph_seed": 7})


def test_a_chain_is_the_markov_chain_before_its_query():
    """The same contexts, but for the query, which follows nothing."""
    graph, chain = CausalGraphGrammar(length=9, graph="chain"), MarkovGrammar(states=3, length=10)
    tokens = graph.draw(generator(0, "test"), 4)
    one, other = graph.contexts(tokens), chain.contexts(tokens)
    assert (one[:, :8] == other[:, :8]).all()
    assert (one[:, 8] == -1).all()
    assert (one[:, 9] == other[:, 9]).all()
