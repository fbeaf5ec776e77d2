"""Recovery of a causal graph: by hand, by enumeration, and on models built to have it or not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from case_studies.induction import graphs
from case_studies.induction.graphs import (
    GRAPHS,
    beside,
    chance_of,
    chi_square_of_graph,
    excess_of,
    first_gradient,
    graph_parts,
    measure_graph,
    parents,
    turn,
)
from case_studies.induction.measure import chi_square
from case_studies.study import Obtained
from closeness import assert_close
from interp import SandboxTransformer, train_population
from interp.presets import make_recipe
from interp.rng import generator
from interp.worlds.markov import CausalGraphGrammar
from interp.worlds.markov.counts import kernels


def pattern_of(grammar, weight, strings=3):
    """Every row with parents has `weight` on each (head by head), the rest even over earlier keys and itself."""
    n = grammar.length + 1
    out = np.tril(np.ones((n, n)))
    out /= out.sum(-1, keepdims=True)
    out = np.tile(out, (grammar.order, 1, 1))
    rows, of = parents(grammar)
    for head in range(grammar.order):
        for i, row in enumerate(rows):
            out[head, row, : row + 1] = (1 - weight) / row
            out[head, row, of[i, head]] = weight
    return np.tile(out, (strings, 1, 1, 1))


@pytest.mark.parametrize("order", [1, 2])
def test_a_pattern_that_is_the_graph_is_found(order):
    grammar = CausalGraphGrammar(order=order, length=13)
    found = beside(pattern_of(grammar, 1.0), grammar)
    assert (found.argmax, found.mass, found.furthest) == (1.0, 1.0, 0.0)
    swapped = beside(pattern_of(grammar, 1.0)[:, ::-1], grammar)
    assert swapped == found  # which head is whose is not asked


def test_mass_and_distance_by_hand():
    grammar = CausalGraphGrammar(length=13)
    pattern = pattern_of(grammar, 0.75)
    found = beside(pattern, grammar)
    assert found.argmax == 1.0
    assert_close(found.mass, 0.75)
    assert_close(found.furthest, 0.25)
    pattern[1, 0, 5] = np.roll(pattern[1, 0, 5], 1)  # one string of three has another row
    assert beside(pattern, grammar).furthest > 0.7


def test_chance_is_one_in_as_many_keys_as_are_earlier():
    grammar = CausalGraphGrammar(length=5)
    assert_close(chance_of(grammar), np.mean([1, 1 / 2, 1 / 3]))


def test_information_of_a_graph_by_enumeration():
    """Of each kernel the joint law of two tokens, summed over all strings of the graph."""
    grammar = CausalGraphGrammar(states=2, length=7, graph_seed=3)
    n, count = grammar.nodes, 3
    kernel = kernels(generator(0, "induction/information"), count, 2, 2, grammar.beta)
    of = grammar.parents_of(n)[:, 0]
    wanted = np.zeros((n, n))
    for one in kernel:
        joint = np.zeros((n, n, 2, 2))
        for code in range(2**n):
            string = [(code >> at) & 1 for at in range(n)]
            chance = np.prod([0.5 if of[i] < 0 else one[string[of[i]], string[i]] for i in range(n)])
            for i in range(n):
                for j in range(n):
                    joint[i, j, string[i], string[j]] += chance
        for i in range(n):
            for j in range(i):
                now, earlier = joint[i, j].sum(1), joint[i, j].sum(0)
                wanted[i, j] += ((joint[i, j] ** 2 / np.outer(now, earlier)).sum() - 1) / count
    assert_close(chi_square_of_graph(grammar, count), wanted, scale=1.0, ulps=500)


def test_information_falls_along_a_chain_as_that_of_a_stationary_one_does():
    grammar = CausalGraphGrammar(length=13, graph="chain", beta=1.0)
    found = chi_square_of_graph(grammar)
    row = found[10, :10][::-1]
    assert (np.diff(row) < 0).all()
    assert row.argmax() == 0  # the parent
    kernel = kernels(generator(0, "induction/information"), 300, 3, 3, 1.0)
    settled = chi_square(kernel, range(1, 5)).mean(0)
    assert (np.abs(row[:4] - settled) < 0.2 * settled).all()  # ten tokens from an even start are nearly stationary


def test_the_gradient_is_that_of_finite_differences():
    recipe = make_recipe("causal-graph", {"length": 6}, steps=2)
    model = SandboxTransformer(recipe.config, recipe.grammar)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    found = first_gradient(model, recipe.grammar)
    tokens = torch.from_numpy(recipe.grammar.draw(generator(0, "induction/gradient"), 4000))
    laws = torch.from_numpy(recipe.grammar.draw_laws(generator(0, "induction/gradient"), 4000))
    weights = model.get_parameter("blocks.0.attn.W_Q")

    def loss():
        with torch.no_grad():
            return float(-(laws * torch.log_softmax(model(tokens)[:, 5].double(), -1)).sum(-1).mean())

    for query, key in ((3, 1), (4, 0)):
        ends = []
        for step in (0.05, -0.05):
            with torch.no_grad():
                weights[0, 3 + query, 3 + key] += step
            ends.append(loss())
            with torch.no_grad():
                weights[0, 3 + query, 3 + key] -= step
        slope = (ends[0] - ends[1]) / 0.1
        assert abs(found[query, key] - slope) < 1e-4  # absolute: third derivatives of a loss of 1 over a step of .05


@pytest.mark.parametrize("sign", [-1, 1])
def test_agreement_is_of_rows(sign, monkeypatch):
    """What a whole row has more of is taken off; a gradient that is minus the information agrees fully."""
    grammar = CausalGraphGrammar(length=9)
    information = chi_square_of_graph(grammar, 20)
    of_rows = 7.0 * np.arange(8)[:, None]
    monkeypatch.setattr(graphs, "first_gradient", lambda model, g: sign * information + of_rows)
    found = turn(None, grammar, information)
    assert_close(found.information, -sign)
    assert (found.parent == 1) == (sign == -1)  # information is largest between a token and its parent
    monkeypatch.setattr(graphs, "first_gradient", lambda model, g: 0 * information)
    assert turn(None, grammar, information) is None


def test_excess_of_a_model_that_says_nothing():
    grammar = CausalGraphGrammar()
    recipe = make_recipe("causal-graph", steps=2)
    model = SandboxTransformer(recipe.config, grammar)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    tokens = grammar.draw(generator(0, "test"), 50)
    counted = grammar.posterior(tokens)[:, grammar.length - 1]
    assert_close(excess_of(model, grammar, tokens, counted), np.log(3) - counted.mean(), scale=2.0, dtype=torch.float32)


def test_a_barely_trained_population_end_to_end():
    family = replace(GRAPHS[0], steps=100, snapshots=(0, 100))
    population = train_population(make_recipe("causal-graph", steps=100, snapshots=(0, 100)), 2, workers=1)
    found = measure_graph(Obtained(family, population, ""))
    assert [list(m.moments) for m in found.models] == [[0, 100]] * 2
    first, turned = found.models[0].moments[0]
    assert found.models[0].moments[100][0] == found.models[0].found
    assert first == found.models[0].untrained  # all weights 0: attention is even
    assert turned is None  # and there is no gradient yet
    told = found.to_dict()
    assert set(told) >= {"argmax", "mass", "furthest", "excess", "beyond 5", "by_step"}
    assert told["by_step"]["100"]["parent"]["n"] == 2
    assert "parent" not in told["by_step"]["0"]
    table, moments, said = graph_parts([found])
    assert len(table.rows) == 1
    assert len(moments.rows) == 2
    assert said.startswith("In 0 of 1 families")
    assert graph_parts([]) == []
