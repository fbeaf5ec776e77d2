"""Drift: the strings, masses by a loop, hand-built heads that stay and that drift, heads beside each other."""

import importlib
import math

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import Population, SandboxTransformer, TransformerConfig, load_checkpoint
from interp.errors import AnalysisError, RequestError
from interp.patterns import attention_patterns
from interp.presets import make_recipe
from interp.worlds.flipflop import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.constructed import memory, reader
from interp.worlds.flipflop.theory import ScoreTerms
from probes import analyze_drift
from probes.drift import analyzer, drift_strings


def test_strings_of_one_write_and_of_two():
    grammar = TransductionGrammar()
    (one,) = drift_strings(grammar, 7, [4])
    assert [grammar.format(row) for row in one.tokens] == ["0......", "1......"]
    assert (one.query, one.target, one.gap) == (4, 0, 4)
    (two,) = drift_strings(grammar, 7, [3], before=2)
    assert [grammar.format(row) for row in two.tokens] == ["1.0....", "0.1...."]
    assert (two.query, two.target, two.gap) == (5, 2, 3)


@pytest.mark.parametrize("before", [0, 4])
def test_strings_of_reads_are_legal_and_ask_where_they_say(before):
    grammar = FlipFlopGrammar()
    for asked in drift_strings(grammar, 24, [1, 5, 11], before=before):
        grammar.check_inputs(asked.tokens)
        assert (asked.tokens[:, asked.query] == 1).all()
        assert (grammar.reads(asked.tokens).sum(1) == 1).all()
        assert (grammar.last_write(asked.tokens)[:, asked.query] == asked.target).all()
        assert (grammar.written(asked.tokens).sum(1) == (2 if before else 1)).all()
        assert sorted(set(grammar.state(asked.tokens)[:, asked.query])) == [0, 1]
        assert asked.gap == asked.query - asked.target
        if before:
            assert (grammar.state(asked.tokens)[:, asked.target - 2] != grammar.state(asked.tokens)[:, -1]).all()


def test_masses_are_those_of_the_patterns():
    recipe = make_recipe("flipflop-1l1h")
    models = Population.init(recipe.config, range(4), recipe.grammar)
    result = analyze_drift(models, length=20, task_check=False)
    for gap in result.gaps:
        each, worth = [], []
        for model in models:
            strings = np.zeros((2, 20), dtype=np.int64)
            strings[:, 0] = 1, 2
            _, cache = model.run_with_cache(torch.from_numpy(strings))
            pattern, v = cache["pattern", 0][:, 0, gap].double(), cache["v", 0][:, :, 0].double()
            each.append(pattern[:, 0].mean().item())
            size = pattern * (v @ model.blocks[0].attn.W_O[0].double()).norm(dim=-1)
            worth.append((size[:, 0] / size.sum(1)).mean().item())
        assert_close(result.mass[0][0][gap].value, np.mean(each), scale=1, dtype=torch.float32)
        assert_close(result.weighted[0][0][gap].value, np.mean(worth), scale=1, dtype=torch.float32)
        assert result.mass[0][0][gap].null["even"] == 1 / (gap + 1)
        assert result.mass[0][0][gap].null["untrained"] == result.mass[0][0][gap].value


def test_a_head_set_by_hand_stays_however_far():
    for model, layer in ((memory(n_ctx=400), 0), (reader(n_ctx=400), 1)):
        result = analyze_drift(model, length=400)
        assert result.gaps[-1] > 390
        assert min(e.value for e in result.mass[layer][0].values()) > 1 - 1e-8
        assert max(e.value for e in result.wrong.values()) == 0
        assert result.failing[layer][0].each == (None,)
        assert result.failing[layer][0].share.value == 0
        assert "in none of 1 seed, as far as gap" in result.summary()
    first = analyze_drift(reader(n_ctx=400), length=40).failing[0][0]
    assert (first.never_held, first.least) == (1, 1)  # its first layer attends elsewhere: to the token itself


def test_a_head_that_drifts_fails_where_the_theory_says():
    """Recency that grows with the place: the memory of Lemma 16 with the advantage of writes cut to 30 positions."""
    model = memory(n_ctx=64)
    with torch.no_grad():
        model.blocks[0].attn.W_Q[0, :, 0] *= 30 / 128
    result = analyze_drift(model, length=64)
    mass = ScoreTerms.of(model).mass_on_first(2, 0, np.arange(64))
    for gap in result.gaps:
        # scores of 2560 in float32
        assert_close(result.mass[0][0][gap].value, mass[gap], scale=2560, dtype=torch.float32)
    lost = next(gap for gap in result.gaps if gap >= 30)
    assert result.failing[0][0].each == (lost,)
    assert [result.wrong[gap].value for gap in result.gaps] == [0.5 if gap >= 30 else 0 for gap in result.gaps]
    assert f"from gap {lost} (median)" in result.summary()


def test_the_claim_holds_by_the_bounds_of_an_audit():
    thresholds = importlib.import_module("probes.audit.thresholds")
    assert (analyzer.SCORE, analyzer.TOP1) == (thresholds.SCORE, thresholds.TOP1)


def test_heads_are_as_far_apart_as_their_rows():
    recipe = make_recipe("flipflop")
    models = Population.init(recipe.config, [0, 1], recipe.grammar)
    result = analyze_drift(models, task_check=False)
    tokens = recipe.grammar.draw(analyzer.generator(0, "drift/heads"), analyzer.PAIRED)
    for layer in (0, 1):
        each = []
        for model in models:
            pattern = attention_patterns(model, torch.from_numpy(tokens))[layer]
            each.append(np.mean([math.dist(*pattern[i, :, q]) for i in range(len(tokens)) for q in range(0, 32)]))
        assert_close(result.heads_apart[layer].value, np.mean(each), scale=2, dtype=torch.float32)
    model = models[0]
    with torch.no_grad():
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            for block in model.blocks:
                weight = getattr(block.attn, name)
                weight[1] = weight[0]
    assert analyze_drift(model, task_check=False).heads_apart[0].value == 0
    one = analyze_drift(memory())
    assert one.heads_apart[0].reason == "one head has no other to be compared with"


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"length": 4, "before": 4}, RequestError, "strings of 4 tokens with before=4 have no gap"),
        ({"before": 3}, RequestError, "before=3 is odd"),
        ({"length": 1}, RequestError, "length=1 is not a whole number of at least 2"),
    ],
)
def test_what_cannot_be_asked_is_refused(how, error, said):
    with pytest.raises(error, match=said):
        analyze_drift(reader(), **how)


def test_models_of_another_world_and_strings_beyond_learned_positions_are_refused():
    with pytest.raises(AnalysisError, match=r"drift: .* is not a grammar of flip-flops"):
        analyze_drift(load_checkpoint("constructed/stack"))
    recipe = make_recipe("flipflop")
    models = Population.init(recipe.config, [0], recipe.grammar)
    assert analyze_drift(models, task_check=False).length == 32
    with pytest.raises(AnalysisError, match="inputs of 33 tokens are more than the model's n_ctx=32"):
        analyze_drift(models, length=33)


def test_a_seed_that_nothing_reads_is_said_so():
    recipe = make_recipe("flipflop-1l1h")
    models = Population.init(recipe.config, [0], recipe.grammar)
    assert "seed=7 changes nothing here" in analyze_drift(models, length=8, seed=7, task_check=False).summary()


def test_heads_of_a_population_are_ranked_in_each_seed():
    """The same two heads, in either order: what is told of the first of each seed is told of one head."""
    whole = load_checkpoint("flipflop")[:1]
    one, other = (whole[0] for _ in range(2))
    with torch.no_grad():
        for block in other.blocks:
            for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
                weight = getattr(block.attn, name)
                weight.copy_(weight.flip(0))
    alone, both = analyze_drift(one, untrained=False), analyze_drift([one, other], untrained=False)
    assert alone.ranked == ()
    assert "ranked" not in alone.to_dict()
    for layer in (0, 1):
        assert both.ranked[0][layer] == tuple(1 - head for head in both.ranked[1][layer])
        for rank, head in enumerate(both.ranked[0][layer]):
            for gap in both.gaps:
                mine, its = both.mass[layer][rank][gap], alone.mass[layer][head][gap]
                assert_close(mine.value, its.value, scale=1, dtype=torch.float32)
            assert len(set(both.failing[layer][rank].each)) == 1
        near = [np.mean([e.value for e in both.mass[layer][rank].values()]) for rank in (0, 1)]
        assert near[0] >= near[1]
    assert " 0 1st " in both.summary()
    assert " 0.1 " not in both.summary()
    assert " 0.1 " in alone.summary()
    titles = [note.text for note in both.figure().layout.annotations]
    assert "layer 1, 2nd head of each seed" in titles


def test_strings_of_an_odd_length_are_refused_and_none_is_made():
    """A string is pairs: what has 31 tokens is none, and a model that takes 31 is given 30."""
    with pytest.raises(RequestError, match="length=31 is odd") as caught:
        analyze_drift(reader(), length=31)
    assert "\n" not in str(caught.value)
    config = TransformerConfig(5, d_model=4, d_head=4, d_mlp=4, n_ctx=31, positions="learned")
    short = analyze_drift(SandboxTransformer(config), grammar=FlipFlopGrammar(), task_check=False)
    assert short.length == 30
    assert max(short.gaps) == 27  # w v at 0 and 1, r at 28
    assert analyze_drift(memory(), length=31).length == 31  # of transduction a token is a string
