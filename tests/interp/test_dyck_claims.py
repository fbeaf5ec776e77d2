"""What claims about heads in strings of brackets are made of: questions, inputs, and what a world says of them."""

import numpy as np
import pytest

from interp.errors import RequestError
from interp.grammars import CopyGrammar, DyckGrammar, TopicGrammar
from interp.worlds.dyck.claims import (
    CLAIMS,
    CLOSING,
    FEWEST,
    OPENING,
    Closers,
    Copies,
    brackets_of_type,
    depth_at_least,
)

GRAMMAR = DyckGrammar(3, 4)
QUESTIONS = {"closers": Closers(), "copies": Copies()}


def stack_after(row, at):
    """Positions of the openers that are unmatched once `at` is read."""
    stack = []
    for i, token in enumerate(row[: at + 1]):
        if token < GRAMMAR.start:
            stack = [*stack, i] if token % 2 == 0 else stack[:-1]
    return stack


def allowed(name, row, away):
    """Positions that a question may be read at; `away`: only those that are not themselves the deciding opener."""
    places = [q for q, token in enumerate(row) if token < GRAMMAR.start]
    if name == "closers":
        places = [q for q in places if stack_after(row, q) and (not away or stack_after(row, q)[-1] != q)]
    return places


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("count", [FEWEST, FEWEST - 1])
def test_items_are_minimal_pairs_that_decide_the_answer(name, count):
    """`FEWEST` inputs with a place away from the deciding opener are enough to ask there only; one less is not."""
    texts = ["([])(", "(()", "[{}", "[[]]{", "{[]("] * 12
    tokens = GRAMMAR.to_tokens([*texts[:count], "(", "([", ""])
    rows = tokens != GRAMMAR.pad
    items = QUESTIONS[name].items(tokens, GRAMMAR, rows, 0)
    away = name == "closers" and count == FEWEST
    places = [allowed(name, row, away) for row in tokens.tolist()]
    assert items.sequence.tolist() == [i for i, each in enumerate(places) if each]
    assert len(items) == count + (0 if away else 2)
    for i in range(len(items)):
        row, donor, read, flipped = items.tokens[i], items.donors[i], items.read[i], items.flipped[i]
        assert row.tolist() == tokens[items.sequence[i]].tolist()
        assert read in places[items.sequence[i]]
        assert flipped == (stack_after(row, read)[-1] if name == "closers" else read)
        # One bracket and its partner change type, and with them the right answer.
        changed = {flipped, *GRAMMAR.partner(row[None])[0, [flipped]].tolist()} - {-1}
        assert set(np.flatnonzero(row != donor).tolist()) == changed
        assert GRAMMAR.depth(donor[None]).tolist() == GRAMMAR.depth(row[None]).tolist()
        step = 1 if name == "closers" else 0
        assert (items.answer[i], items.foil[i]) == (row[flipped] + step, donor[flipped] + step)


@pytest.mark.parametrize("name", QUESTIONS)
def test_places_are_drawn_evenly_and_by_the_seed(name):
    tokens = np.repeat(GRAMMAR.to_tokens("([{}])[]"), 3000, axis=0)
    ask = QUESTIONS[name].items
    items = ask(tokens, GRAMMAR, tokens < GRAMMAR.start, 1)
    places = allowed(name, tokens[0].tolist(), away=True)
    counts = np.bincount(items.read, minlength=9)
    assert np.flatnonzero(counts).tolist() == places
    expected = 3000 / len(places)
    assert (abs(counts[places] - expected) < 5 * np.sqrt(expected)).all()
    for seed, same in ((1, True), (2, False)):
        again = ask(tokens, GRAMMAR, tokens < GRAMMAR.start, seed)
        assert ((again.read == items.read).all() and (again.donors == items.donors).all()) == same
    only = ask(tokens, GRAMMAR, (np.arange(9) == 4) & (tokens < GRAMMAR.start), 1)  # rows are those of the claim
    assert set(only.read.tolist()) == {4}
    assert len(ask(tokens, GRAMMAR, np.zeros(tokens.shape, dtype=bool), 1)) == 0


def test_the_deciding_opener_may_stand_first():
    """Inputs without START: ( [ ] is read at any of its brackets, and the first may decide."""
    tokens = np.tile([0, 2, 3], (40, 1))
    items = Closers().items(tokens, GRAMMAR, np.ones((40, 3), dtype=bool), 0)
    assert set(zip(items.read.tolist(), items.flipped.tolist(), strict=True)) == {(0, 0), (1, 1), (2, 0)}


def test_what_a_grammar_is_asked():
    assert CLAIMS.question(DyckGrammar(2, 4)) == "closers"
    assert CLAIMS.question(CopyGrammar(2, 4)) == "copies"
    assert CLAIMS.question(DyckGrammar(1, 4)) is None


def test_conditions_to_try_and_what_is_drawn():
    names = [condition.name for condition in CLAIMS.suggest(DyckGrammar(2, 3), 15)]
    assert names == ["closing", "opening", "depth-2", "depth-3"]
    drawn = CLAIMS.inputs(GRAMMAR, 5, 7, 3, "claims")
    expected = GRAMMAR.to_tokens(GRAMMAR.sample(5, seed=3, mode="prefix", length=7, stream="claims"))
    np.testing.assert_array_equal(drawn, expected)
    assert drawn.shape == (5, CLAIMS.longest(GRAMMAR, 7))
    tokens = np.array([[GRAMMAR.start, 0, 2, 3, 1, GRAMMAR.end, GRAMMAR.pad]])
    assert CLAIMS.roles(tokens, GRAMMAR).tolist() == [[2, 0, 0, 1, 1, 3, 3]]


def test_conditions_of_brackets():
    tokens = np.array([[GRAMMAR.start, 0, 2, 3, 1, GRAMMAR.end, GRAMMAR.pad]])
    keys = np.zeros((1, 7, 7), dtype=bool)
    expected = {CLOSING: [3, 4], OPENING: [1, 2], depth_at_least(0): [0, 1, 2, 3, 4, 5], depth_at_least(1): [1, 2, 3]}
    for condition, places in expected.items():
        assert np.flatnonzero(condition.rows(tokens, GRAMMAR, keys)[0]).tolist() == places, condition.name
        with pytest.raises(RequestError, match="no DyckGrammar"):
            condition.rows(tokens, TopicGrammar(), keys)
    assert depth_at_least(2) is depth_at_least(2)
    for wrong in (-1, True, 10**9):
        with pytest.raises(RequestError, match="depth"):
            depth_at_least(wrong)


@pytest.mark.parametrize("types", [1, 2, 3])
def test_types_that_a_grammar_has_not_are_refused(types):
    grammar = DyckGrammar(types, 4)
    for kind in range(5):
        if kind < types:
            CLAIMS.refuse(brackets_of_type(kind), grammar)
            continue
        right = "type 0 only" if types == 1 else f"types 0 to {types - 1}"
        with pytest.raises(RequestError, match=f"the grammar has brackets of {right}"):
            CLAIMS.refuse(brackets_of_type(kind), grammar)
    tokens = np.array([[0, 1, 2, 3, 4, 5]])
    keys = brackets_of_type(2).keys(tokens, GRAMMAR, np.ones((1, 6, 6), dtype=bool))
    assert np.flatnonzero(keys[0, 0]).tolist() == [4, 5]
