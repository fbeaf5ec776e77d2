"""Every grammar of every world refuses, in one line that quotes it, a count or a generator that is none; and numpy's
whole numbers draw what Python's do."""

import inspect
from dataclasses import astuple, is_dataclass

import numpy as np
import pytest

from interp.errors import GrammarError, InterpError
from interp.registry import worlds
from interp.worlds.markov.grammar import MarkovGrammar

COUNTS = (-1, float("nan"), True, None, "3", 1.5, np.float64(2), [1], np.array([2]), 10**15, 10**30)
NO_GENERATORS = (0, None, "rng", np.random.RandomState(0), np.random.Generator)


def grammars():
    for world in worlds():
        finite = world.load("finite")
        for cls in world.grammars:
            yield world.name, cls.small() if hasattr(cls, "small") else cls()
        if finite is not None:
            yield world.name, finite()


def drawing():
    """Every method that takes a generator and a count."""
    for world, grammar in grammars():
        for name in dir(type(grammar)):
            method = None if name.startswith("_") else getattr(grammar, name, None)
            if callable(method) and [*inspect.signature(method).parameters][:2] == ["rng", "count"]:
                yield pytest.param(method, id=f"{world}-{type(grammar).__name__}.{name}")


def plain(drawn):
    """What was drawn, to compare."""
    if isinstance(drawn, dict):
        return {name: value.tolist() for name, value in drawn.items()}
    parts = astuple(drawn) if is_dataclass(drawn) else drawn if isinstance(drawn, tuple) else (drawn,)
    return [part.tolist() for part in parts]


def test_every_world_that_draws_is_walked():
    names = {param.id.split("-")[0] for param in drawing()}
    assert {"recall", "markov", "flipflop", "facts", "binary_chain", "topics", "dyck"} <= names


@pytest.mark.parametrize("method", list(drawing()))
def test_a_count_or_a_generator_that_is_none_is_quoted(method):
    for count in COUNTS:
        with pytest.raises(GrammarError) as caught:
            method(np.random.default_rng(0), count)
        assert f"count={count!r}" in str(caught.value)
        assert "\n" not in str(caught.value)
    for rng in NO_GENERATORS:
        with pytest.raises(GrammarError, match=r"^rng=.* is not a numpy generator") as caught:
            method(rng, 3)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", list(drawing()))
def test_a_whole_number_of_numpy_draws_the_same(method):
    three = plain(method(np.random.default_rng(0), 3))
    for count in (np.int64(3), np.uint8(3)):
        assert plain(method(np.random.default_rng(0), count)) == three
    method(np.random.default_rng(0), 0)


def test_what_each_string_needs_counts():
    """A kernel of 128 contexts and its chain: a count that would fit without them is refused."""
    grammar = MarkovGrammar(states=2, order=7)
    with pytest.raises(GrammarError, match=r"count=20000 strings would take about 5\.\d GB"):
        grammar.draw(np.random.default_rng(0), 20_000)
    MarkovGrammar(states=2, order=1).draw(np.random.default_rng(0), 20_000)


@pytest.mark.parametrize("grammar", [cls.small() for cls in next(w for w in worlds() if w.name == "markov").grammars])
def test_places_are_counted_by_whole_numbers(grammar):
    for method in (grammar.parents_of, grammar.asked_of):
        for n in (-1, 1.5, float("nan"), True, None, "3", 10**15):
            with pytest.raises(InterpError, match=r"^n=") as caught:
                method(n)
            assert "\n" not in str(caught.value)
        assert method(np.int64(5)).tolist() == method(5).tolist()
        assert len(method(0)) == 0
