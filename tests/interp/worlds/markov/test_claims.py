"""What is said of heads that count: relations by hand, and pairs that change what a counting model predicts."""

import numpy as np
import pytest

from interp.errors import RequestError
from interp.rng import generator
from interp.worlds.markov import CausalGraphGrammar, MarkovGrammar, OrderGrammar
from interp.worlds.markov.claims import CLAIMS, MATCHES, PARENTS, Successor, parent
from probes import Claim

A, B, C = 0, 1, 2
LAWS = {
    "order 1": MarkovGrammar(length=30),
    "two states": MarkovGrammar(states=2, length=30),
    "order 2": OrderGrammar(length=40),
    "graph": CausalGraphGrammar(),
    "graph of two parents": CausalGraphGrammar(states=3, order=2),
}


def keys(relation, row, grammar):
    tokens = np.array([row])
    return np.argwhere(relation.keys(tokens, grammar, np.tri(len(row), dtype=bool)[None])[0]).tolist()


def test_matches_of_order_two_by_hand():
    """a b c a b: what followed "a b" is c at 2; nothing else is behind the same two tokens as now."""
    grammar = OrderGrammar(length=5)
    assert keys(MATCHES, [A, B, C, A, B], grammar) == [[4, 2]]
    assert keys(PARENTS, [A, B, C, A, B], grammar) == [[2, 0], [2, 1], [3, 1], [3, 2], [4, 2], [4, 3]]


def test_keys_of_a_graph_by_hand():
    grammar = CausalGraphGrammar(length=5, graph="pairs")  # 0 -> 1, 2 -> 3, then the query and the answer
    row = [A, B, C, A, C, A]  # an a was the parent of b; c that of a, and again, of the answer
    assert keys(PARENTS, row, grammar) == [[1, 0], [3, 2], [5, 4]]
    assert keys(MATCHES, row, grammar) == [[3, 1], [4, 3], [5, 1]]
    assert keys(parent(1), row, grammar) == [[1, 0], [3, 2], [5, 4]]


def test_parents_have_numbers_from_the_nearest_on():
    grammar = CausalGraphGrammar(length=9, order=2, graph="chain")
    row = [A] * 10
    assert [3, 2] in keys(parent(1), row, grammar)
    assert [3, 1] in keys(parent(2), row, grammar)
    assert Claim.parse("L0H1 attends to parent 2 of the current token").relation == parent(2)
    assert Claim.parse("L0H1 attends to the causal parents of the current token").relation == PARENTS


@pytest.mark.parametrize(
    ("relation", "grammar", "said"),
    [
        (PARENTS, MarkovGrammar(), "the previous token"),
        (MATCHES, MarkovGrammar(), "the token after an earlier copy"),
        (parent(2), CausalGraphGrammar(), "order=1"),
        (parent(2), OrderGrammar(), "the token 2 positions before"),
    ],
)
def test_what_has_another_name_is_told_it(relation, grammar, said):
    with pytest.raises(RequestError, match=said):
        CLAIMS.refuse(relation, grammar)


@pytest.mark.parametrize("kind", Successor.kinds)
@pytest.mark.parametrize("law", LAWS)
def test_pairs_change_what_counting_predicts(law, kind):
    """Before, the answer followed the context most often; then the foil did (content), or as often (address)."""
    grammar = LAWS[law]
    tokens = grammar.draw(generator(0, "test"), 200)
    items = Successor().items(tokens, grammar, np.ones(tokens.shape, bool), 0, kind=kind)
    assert len(items) > 25  # a string of a graph asks at one row only
    for row, donor, read, flipped, answer, foil in zip(
        items.tokens, items.donors, items.read, items.flipped, items.answer, items.foil, strict=True
    ):
        assert np.flatnonzero(row != donor).tolist() == [flipped]
        assert flipped <= read - grammar.order
        before, after = (_followed(text, read, grammar) for text in (row, donor))
        for state in set(range(grammar.states)) - {answer}:
            assert before.count(answer) > before.count(state)
        assert after.count(foil) > after.count(answer) - (kind == "address")
        for state in set(range(grammar.states)) - {foil} if kind == "content" else ():
            assert after.count(foil) > after.count(state)


def _followed(row, read, grammar):
    """Tokens up to `read` whose parents hold what the last tokens hold, by a loop."""
    now = [row[read - grammar.order + 1 + i] for i in range(grammar.order)]
    parents = grammar.parents_of(len(row))
    return [row[at] for at in range(read + 1) if parents[at, 0] >= 0 and [row[p] for p in parents[at]] == now]


def test_what_was_never_there_gives_no_item():
    tokens = np.array([[A, B, C], [A, A, A]])
    assert len(Successor().items(tokens, MarkovGrammar(length=3), np.ones((2, 3), bool), 0)) == 0
