"""Grammars of the younger worlds, walked: what is not a text, no ids or no description is refused in one line; and at
the least length every option of a law changes what is drawn, or is refused by name."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest

from interp.checkpoints import load_checkpoint
from interp.errors import GrammarError, InterpError, RequestError
from interp.presets import make_recipe
from interp.registry import get_world
from interp.worlds.binary_chain.grammar import BinaryChain

WORLDS = [get_world(name) for name in ("binary_chain", "facts", "flipflop", "markov", "recall")]
GRAMMARS = [cls.small() for world in WORLDS for cls in world.grammars]
MORE = {"positions": np.array([0]), "kind": 0}
GIVEN = ("tokens", "texts", "row")
NEVER = {
    "an id beyond the vocabulary": np.array([[0, 99]]),
    "a negative id": np.array([[0, -1]]),
    "an id of 100 bits": [[10**30, 0]],
    "no whole numbers": np.array([[0.0, 1.0]]),
    "truth values": np.array([[True, False]]),
    "objects": np.array([[None, 1]]),
    "rows of several lengths": [[0, 1], [0]],
    "a set": {1, 2},
    "None": None,
    "one number": np.array(0),
    "no position": np.zeros((2, 0), int),
}
MAYBE = {"a row": np.array([0, 1]), "a batch of batches": np.zeros((1, 1, 2), int), "no row": np.zeros((0, 3), int)}


def methods():
    for grammar in GRAMMARS:
        for name in dir(type(grammar)):
            member = getattr(grammar, name, None)
            if name.startswith("_") or not callable(member):
                continue
            first, *rest = [*inspect.signature(member).parameters, ""]
            if first in GIVEN:
                more = {key: value for key, value in MORE.items() if key in rest}
                yield pytest.param(member, more, id=f"{type(grammar).__name__}.{name}")


@pytest.mark.parametrize(("method", "more"), list(methods()))
def test_tokens_that_are_none_are_refused(method, more):
    for what, given in {**NEVER, **MAYBE}.items():
        said = None
        try:
            method(given, **more)
        except GrammarError as error:
            said = str(error)
        assert what in MAYBE if said is None else "\n" not in said, what


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda g: g.KIND)
def test_descriptions_of_other_things_are_refused(grammar):
    cls, data = type(grammar), grammar.to_dict()
    assert cls.from_dict(data) == grammar
    less = {key: value for key, value in data.items() if key != "length"}
    for wrong in (None, [1], "x", {}, less, {**data, "more": 1}, {**data, "kind": "dyck"}, {**data, "length": "7"}):
        with pytest.raises(GrammarError, match=r"describes no|length='7'") as caught:
            cls.from_dict(wrong)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda g: g.KIND)
def test_strings_that_are_too_many_are_not_listed(grammar):
    with pytest.raises(GrammarError, match="too many"):
        replace(grammar, length=400).enumerate()


def test_uniform_numbers_are_numbers_from_0_to_1():
    for wrong in ("x", [], [[0.5, float("nan")]], [[2.0]], 0.5, None):
        with pytest.raises(GrammarError, match="uniform"):
            BinaryChain().from_uniforms(wrong)


def test_options_are_a_mapping_of_words():
    for wrong in ([1], "length", 3, {1: 2}, {("a",): 1}):
        with pytest.raises(RequestError):
            make_recipe("recall", wrong)
    with pytest.raises(RequestError):
        make_recipe(["recall"])


# Another value than any preset's, and for `length` the least that there is.
OTHER = {
    "symbols": 5, "states": 2, "order": 2, "beta": 3.0, "first": ("uniform", "stationary"),
    "graph": ("chain", "random"), "graph_seed": 5, "ignore": 0.3,
    "writes": 0.2, "mode": "generative", "p": 0.3, "q": 0.3, "subjects": 5,
    "relations": 3, "answers": 3, "noise": 3, "table_seed": 4,
}  # fmt: skip
PRESETS = ["recall", "markov", "markov-order-k", "causal-graph", "flipflop", "flipflop-1l1h", "binary-chain", "facts"]


def drawn(recipe):
    grammar = recipe.grammar
    tokens = grammar.draw(np.random.default_rng(0), 400)
    return (tokens.tolist(), np.asarray(grammar.labels(tokens)).tolist(), recipe.config)


@pytest.mark.parametrize("preset", PRESETS)
def test_at_the_least_length_an_option_of_the_law_changes_it_or_is_refused(preset):
    length = next(n for n in range(2, 9) if not refused(preset, {"length": n}))
    usual = drawn(make_recipe(preset, {"length": length}))
    for field in fields(make_recipe(preset).grammar):
        if field.name == "length":
            continue
        given = OTHER[field.name]
        for value in given if isinstance(given, tuple) else (given,):
            if value == getattr(make_recipe(preset).grammar, field.name):
                continue
            said = refused(preset, {"length": length, field.name: value})
            if said:
                assert field.name in said
            else:
                assert drawn(make_recipe(preset, {"length": length, field.name: value})) != usual, field.name


def refused(preset, options):
    try:
        make_recipe(preset, options)
    except InterpError as error:
        return str(error)
    return ""


def test_what_no_token_fits_is_quoted_with_its_word():
    facts, chain = get_world("facts").grammars[0](), BinaryChain()
    for grammar, text, said in (
        (facts, "s99 r0 n0 END", "position 2: no token fits '9' of 's99'"),
        (facts, "s1 zebra r0 END", "position 3: no token fits 'zebra'; "),
        (chain, "012", "position 2: no token fits '2'; "),
        (chain, "", "a text without tokens"),
    ):
        with pytest.raises(GrammarError, match=said):
            grammar.to_tokens(text)


MODELS = ["dyck-minimal", "recall", "markov", "flipflop", "flipflop-1l1h", "facts", "constructed/chain-bigram"]


@pytest.mark.parametrize("name", MODELS)
def test_a_text_that_no_token_fits_is_answered_with_one_that_is_read(name):
    """`w 0 i 1 r 0` is no text of every flip-flop model: the refusal shows what is."""
    loaded = load_checkpoint(name)
    model = loaded[0] if hasattr(loaded, "seeds") else loaded
    with pytest.raises(GrammarError, match="strings such as '") as caught:
        model.to_tokens("w 0 \u2026")
    shown = str(caught.value).split("strings such as '")[1].rstrip("'").removesuffix(" ...")
    assert model.to_tokens(shown).shape[1] >= 8
