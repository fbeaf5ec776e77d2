"""Recall: law, truth and pairs by hand, exact enumeration, and the circuit written by hand."""

import itertools

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import load_checkpoint
from interp.errors import ConfigError, GrammarError, RequestError
from interp.grammars import grammar_from_dict
from interp.patterns import attention_patterns
from interp.presets import make_recipe
from interp.worlds.recall import RecallGrammar
from interp.worlds.recall.claims import AFTER_LAST_COPY, LAST_COPY, REPEATS, Recall
from interp.worlds.recall.constructed import construct, induction
from probes import analyze_variation

START, A, B, C = 3, 0, 1, 2
SMALL = RecallGrammar(symbols=3, length=7)


def test_labels_by_hand():
    row = np.array([[START, A, B, A, C, A, A]])
    assert SMALL.labels(row).tolist() == [[-100, -100, -100, B, -100, C, A]]
    assert SMALL.last_copy(row).tolist() == [[-1, -1, -1, 1, -1, 3, 5]]
    assert SMALL.recalled(row).tolist() == [[-1, -1, -1, 2, -1, 4, 6]]
    assert SMALL.contested(row).tolist() == [[False] * 5 + [True] * 2]


def test_texts_are_read_as_they_are_written():
    assert SMALL.to_tokens(["abca"]).tolist() == [[START, A, B, C, A]]
    assert SMALL.format([START, A, B, C, A]) == "abca"
    assert grammar_from_dict(SMALL.to_dict()) == SMALL


def test_a_repeated_token_has_itself_for_key():
    row = np.array([[START, A, A, B]])
    assert REPEATS.rows(row, SMALL, np.zeros((1, 4, 4), bool)).tolist() == [[False, False, True, False]]
    visible = np.tri(4, dtype=bool)[None]
    assert np.argwhere(AFTER_LAST_COPY.keys(row, SMALL, visible)[0]).tolist() == [[2, 2]]
    assert np.argwhere(LAST_COPY.keys(row, SMALL, visible)[0]).tolist() == [[2, 1]]


def test_relations_hold_for_tokens_of_any_vocabulary():
    row = np.array([[700, 5, 700, 9]])
    visible = np.tri(4, dtype=bool)[None]
    assert np.argwhere(AFTER_LAST_COPY.keys(row, None, visible)[0]).tolist() == [[2, 1]]


def test_rungs_by_hand():
    """After a b a c a: of what followed an earlier a, b and c once each; of symbols three a, one b and one c."""
    row = np.array([[START, A, B, A, C, A]])
    rungs = {name: float(nll[0, 5]) for name, nll in SMALL.rungs(row).items()}
    assert_close(rungs["uniform"], np.log(3))
    assert_close(rungs["unigram"], -np.log((1 + 1) / (5 + 3)))
    assert_close(rungs["any copy"], -np.log((1 + 0.1) / (2 + 0.3)), dtype=torch.float32)


def test_what_is_listed_is_everything():
    tokens, chances = RecallGrammar(3, 4).enumerate()
    assert sorted(map(tuple, tokens[:, 1:].tolist())) == sorted(itertools.product(range(3), repeat=4))
    assert_close(chances.sum(), 1.0)


@pytest.mark.parametrize("row", [[A, B, A], [START, A, START], [START, 4]], ids=["no START", "two STARTs", "no token"])
def test_strings_that_violate_the_law_are_quoted(row):
    for method in (SMALL.labels, SMALL.law_nll, SMALL.rungs, SMALL.check_inputs):
        with pytest.raises(GrammarError, match=rf"\[{row[0]}, {row[1]}"):
            method(np.array([row]))


def test_start_stands_nowhere_but_first_in_texts_and_in_what_is_analysed():
    with pytest.raises(GrammarError, match=r"^'abSTARTab' is not a string of this law: START"):
        SMALL.to_tokens(["STARTabcab", "abSTARTab"])
    SMALL.check_inputs([[A, B, A]], start=False)  # of a model that was trained without START
    with pytest.raises(GrammarError, match=r"^\[0, 3, 1\] is not"):
        SMALL.check_inputs([[A, START, B]], start=False)
    models = load_checkpoint("recall")
    for given in ("abSTARTab", [[12, 0, 12, 1]], [[0, 0, 2, 1]]):
        with pytest.raises(GrammarError, match=r"START .12. stands first and nowhere else"):
            analyze_variation(models, given)


@pytest.mark.parametrize("bad", [{"symbols": 2}, {"symbols": 27}, {"length": 1}, {"length": 2.5}])
def test_parameters_outside_their_range_are_quoted(bad):
    (name, value), *_ = bad.items()
    with pytest.raises(GrammarError, match=f"{name}={value}"):
        RecallGrammar(**bad)


def test_models_that_see_the_answer_are_refused():
    recipe = make_recipe("recall")
    with pytest.raises(ConfigError, match="direction='bidirectional'"):
        type(recipe)(recipe.name, recipe.grammar, _both_ways(recipe.config), recipe.settings)


def _both_ways(config):
    return type(config)(**{**config.to_dict(), "direction": "bidirectional", "class_names": None})


# -- pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Recall.kinds)
def test_pairs_move_the_label_from_answer_to_foil(kind):
    grammar = RecallGrammar(6, 24)
    tokens = grammar.draw(np.random.default_rng(0), 400)
    items = Recall().items(tokens, grammar, np.ones(tokens.shape, bool), 0, kind=kind)
    each = np.arange(len(items))
    assert len(items) > 350
    assert (grammar.labels(items.tokens)[each, items.read] == items.answer).all()
    assert (grammar.labels(items.donors)[each, items.read] == items.foil).all()
    assert ((items.tokens != items.donors).sum(1) == 1).all()
    copy = grammar.last_copy(items.tokens)[each, items.read]
    assert (items.flipped == copy + (kind == "content")).all()
    moved = grammar.last_copy(items.donors)[each, items.read]
    assert (moved == copy).all() if kind == "content" else (moved < copy).all()


def test_what_has_no_pair_gives_no_item():
    tokens = np.array([[START, A, B, C], [START, A, A, A], [START, A, B, A]])  # no copy; key is the query; one copy
    rows = np.ones(tokens.shape, bool)
    assert Recall().items(tokens, SMALL, rows, 0).sequence.tolist() == [2]
    assert len(Recall().items(tokens, SMALL, rows, 0, kind="address")) == 0


# -- the circuit --------------------------------------------------------------------------------------------


def test_the_circuit_is_exact_on_every_short_string():
    grammar = RecallGrammar(3, 6)
    _is_exact(induction(grammar), grammar, grammar.enumerate()[0])


@pytest.mark.parametrize(("symbols", "length", "dtype"), [(12, 32, torch.float32), (26, 120, torch.float64)])
def test_the_circuit_is_exact_on_long_strings_and_long_gaps(symbols, length, dtype):
    grammar = RecallGrammar(symbols, length)
    drawn = grammar.draw(np.random.default_rng(1), 200)
    far = drawn[:20].copy()
    far[:, 1], far[:, 2:-1], far[:, -1] = 0, 1 + drawn[:20, 2:-1] % (symbols - 1), 0  # the copy is at the far end
    assert (grammar.last_copy(far)[:, -1] == 1).all()
    _is_exact(induction(grammar, dtype=dtype), grammar, np.concatenate([drawn, far]))


def _is_exact(model, grammar, tokens):
    labels = grammar.labels(tokens)
    ids = torch.from_numpy(tokens)
    with torch.no_grad():
        logits = model(ids)
    asked = labels >= 0
    right = logits.double().numpy()[asked, labels[asked]]
    others = logits.double().numpy()[asked].sum(1) - right
    assert_close(right, 30.0, dtype=torch.float32)
    assert_close(others, 0.0, scale=30.0, dtype=torch.float32)
    first, second = (layer[:, 0] for layer in attention_patterns(model, ids))
    before, at = np.eye(tokens.shape[1], k=-1)[1:], grammar.recalled(tokens)
    assert_close(first[:, 1:], np.broadcast_to(before, first[:, 1:].shape), dtype=torch.float32)
    weight = np.take_along_axis(second, np.maximum(at, 0)[..., None], -1)[..., 0]
    assert_close(weight[at >= 0], 1.0, dtype=torch.float32)


def test_the_circuit_is_found_by_its_name():
    model = load_checkpoint("constructed/induction")
    assert model.grammar == RecallGrammar()
    with pytest.raises(RequestError, match="constructed/other"):
        construct("constructed/other")


def test_longer_strings_than_positions_are_refused():
    model = load_checkpoint("constructed/induction")
    with pytest.raises(RequestError, match="34 tokens are more than the n_ctx=33"):
        model("a" * 33)
