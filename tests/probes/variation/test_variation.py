"""Attention variation: the maths on arrays, and the analyzer on stub models."""

import functools
import itertools
import json
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import AnalysisError, PatternError, RequestError
from interp.grammars import DyckGrammar
from interp.numbers import number
from interp.plots.arrays import permute_keys
from interp.rng import generator
from probes.core import to_json
from probes.variation import (
    PAPER_SENTENCE,
    analyze_variation,
    uniform_simplex_variation,
    variation_from_patterns,
)


def random_patterns(*shape: int, sharp: float = 2.0, seed: int = 0, causal: bool = True) -> np.ndarray:
    """Softmax of normal scores, [*shape, N, N] where the last of `shape` is N."""
    n = shape[-1]
    scores = np.random.default_rng(seed).normal(size=(*shape, n)) * sharp
    if causal:
        scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


# ---- definition ----------------------------------------------------------------------------------


def test_one_head_equals_the_literal_mean_over_pairs_and_inputs():
    p = random_patterns(4, 3, 1, 6)
    pairs = list(itertools.combinations(range(4), 2))
    gaps = [[np.sum((p[i, x] - p[j, x]) ** 2) for i, j in pairs] for x in range(3)]
    cosines = [
        1 - 2 * np.sum(p[i, x] * p[j, x]) / (np.sum(p[i, x] ** 2) + np.sum(p[j, x] ** 2))
        for x in range(3)
        for i, j in pairs
    ]
    result = variation_from_patterns([p])
    assert result.variation[0].value == pytest.approx(np.mean(gaps))
    assert result.normalised[0].value == pytest.approx(np.mean(cosines))
    assert result.by_input[0] == pytest.approx(np.mean(gaps, axis=1))
    assert result.pairs[0] == pytest.approx(np.mean(gaps, axis=0))
    assert (result.num_models, result.num_inputs, result.positions, result.causal) == (4, 3, 6, True)


def test_several_heads_equal_the_best_of_all_assignments():
    p = random_patterns(3, 2, 3, 5)
    best = []
    for i, j in itertools.combinations(range(3), 2):
        costs = [
            np.mean([np.sum((p[i, x, h] - p[j, x, g]) ** 2) for x in range(2) for h, g in enumerate(order)])
            for order in itertools.permutations(range(3))
        ]
        best.append(min(costs))
    result = variation_from_patterns([p])
    assert result.variation[0].value == pytest.approx(np.mean(best))
    assert result.variation[0].value < result.unmatched[0].value


@pytest.mark.parametrize("causal", [True, False])
def test_every_number_of_layers_with_several_heads_is_the_literal_one(causal):
    """Layers of three, two and one heads, model by model, head by head, input by input."""
    layers = [random_patterns(3, 2, heads, 4, seed=heads, causal=causal) for heads in (3, 2, 1)]
    start = [random_patterns(3, 2, heads, 4, sharp=0.3, seed=heads + 9, causal=causal) for heads in (3, 2, 1)]
    pairs = list(itertools.combinations(range(3), 2))
    even = sum(1 / (row + 1 if causal else 4) for row in range(4))

    def gap(a, b):
        return np.sum((a - b) ** 2)

    def part(a, b):
        return 1 - 2 * np.sum(a * b) / (np.sum(a * a) + np.sum(b * b))

    def matched(p, i, j):  # the assignment of heads that brings the two models nearest
        orders = itertools.permutations(range(p.shape[2]))
        return min(orders, key=lambda order: sum(gap(p[i, :, h], p[j, :, g]) for h, g in enumerate(order)))

    def means(p, measure):  # of each pair of models: over inputs, and over matched heads
        heads = range(p.shape[2])
        return [
            np.mean([measure(p[i, x, h], p[j, x, matched(p, i, j)[h]]) for x in range(2) for h in heads])
            for i, j in pairs
        ]

    def unmatched(p, x):  # on one input, over all pairs of heads
        heads = list(np.ndindex(p.shape[2], p.shape[2]))
        return np.mean([gap(p[i, x, h], p[j, x, g]) for i, j in pairs for h, g in heads])

    found = variation_from_patterns(layers, untrained=start, seed=4)
    assert (found.num_heads, found.num_inputs, found.num_models, found.positions) == ((3, 2, 1), 2, 3, 4)
    assert (found.causal, found.inputs, found.unread) == (causal, (), ())
    for i, (p, q) in enumerate(zip(layers, start, strict=True)):
        assert found.pairs[i] == pytest.approx(means(p, gap))
        assert found.untrained_pairs[i] == pytest.approx(means(q, gap))
        assert found.variation[i].value == pytest.approx(np.mean(means(p, gap)))
        assert found.untrained[i].value == pytest.approx(np.mean(means(q, gap)))
        assert found.normalised[i].value == pytest.approx(np.mean(means(p, part)))
        assert found.by_input[i] == pytest.approx([unmatched(p, x) for x in range(2)])
        assert found.unmatched[i].value == pytest.approx(np.mean(found.by_input[i]))
        own = np.mean([2 * (np.sum(p[i, x, h] ** 2) - even) for i, x, h in np.ndindex(p.shape[:3])])
        drawn = own
        if p.shape[2] > 1:  # a draw, matched as the patterns are; the same permutations for both inputs
            streams = [generator(4, "variation-permuted-keys", i) for _ in range(2)]
            permuted = [permute_keys(p[:, x], causal, rng) for x, rng in enumerate(streams)]
            drawn = np.mean(means(np.stack(permuted, axis=1), gap))
        simplex = uniform_simplex_variation(4, causal)
        before = np.mean([unmatched(q, x) for x in range(2)])
        nulls = (simplex, found.untrained[i].value, drawn), (simplex, before, own)
        for estimate, expected in zip((found.variation[i], found.unmatched[i]), nulls, strict=True):
            names = ("uniform_simplex", "untrained", "sharpness_matched")
            assert estimate.null == pytest.approx(dict(zip(names, expected, strict=True)))
            assert (estimate.n, estimate.over, estimate.low) == (3, "seeds", None)  # too few for an interval


@pytest.mark.parametrize(("heads", "unread"), [(1, True), (2, False)])
def test_a_seed_is_read_by_several_heads_only(heads, unread):
    result = variation_from_patterns([random_patterns(2, 1, heads, 3), random_patterns(2, 1, 1, 3)], seed=5)
    assert bool(result.unread) is unread


def test_permuted_heads_are_no_variation_once_matched():
    one = random_patterns(1, 2, 4, 6)[0]
    p = np.stack([one[:, order] for order in ([0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0])])
    result = variation_from_patterns([p])
    assert_close(result.variation[0].value, 0, scale=(one**2).sum((-1, -2)))
    assert_close(result.normalised[0].value, 0, scale=1)
    assert result.unmatched[0].value > 0.5


def test_order_of_models_and_chunks_of_inputs_change_nothing():
    layers = [random_patterns(5, 4, 2, 6, seed=s) for s in (0, 1)]
    whole = variation_from_patterns(layers)
    chunks = ([p[:, at : at + 3] for p in layers] for at in (0, 3))
    shuffled = variation_from_patterns([p[[3, 1, 4, 0, 2]] for p in layers])
    for other in (variation_from_patterns(chunks), shuffled):
        for a, b in zip(whole.variation, other.variation, strict=True):
            assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high))


def test_identical_and_disjoint_patterns_are_the_ends_of_the_scale():
    same = np.repeat(random_patterns(1, 1, 1, 5), 3, axis=0)
    assert_close(variation_from_patterns([same]).variation[0].value, 0, scale=(same**2).sum((-1, -2)))
    first, own = np.zeros((5, 5)), np.eye(5)
    first[:, 0] = 1
    result = variation_from_patterns([np.stack([first, own])[:, None, None]])
    assert result.variation[0].value == pytest.approx(2 * 4)  # START's row is equal in both
    assert result.variation[0].low is None


# ---- nulls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "expected"), [(15, 2.8865), (16, 2.9968), (19, 3.2955), (20, 3.3860)])
def test_uniform_simplex_baseline_of_the_papers_lengths(n, expected):
    assert uniform_simplex_variation(n) == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_uniform_simplex_baseline_against_monte_carlo(causal):
    rng, n, draws = np.random.default_rng(0), 7, 4000
    total = 0.0
    for row in range(n):
        a, b = rng.dirichlet(np.ones(row + 1 if causal else n), size=(2, draws))
        total += np.mean(np.sum((a - b) ** 2, axis=-1))
    assert uniform_simplex_variation(n, causal) == pytest.approx(total, rel=0.03)


@pytest.mark.parametrize("causal", [True, False])
def test_sharpness_matched_null_against_monte_carlo(causal):
    p = random_patterns(3, 2, 1, 6, causal=causal)
    rng, draws = np.random.default_rng(1), []
    for _ in range(1500):
        shuffled = p.copy()
        for row in range(6):
            keys = slice(0, row + 1 if causal else 6)
            shuffled[..., row, keys] = rng.permuted(p[..., row, keys], axis=-1)
        gaps = [np.sum((shuffled[i] - shuffled[j]) ** 2) / 2 for i, j in itertools.combinations(range(3), 2)]
        draws.append(np.mean(gaps))
    result = variation_from_patterns([p])
    assert result.causal is causal
    assert result.variation[0].null["sharpness_matched"] == pytest.approx(np.mean(draws), rel=0.02)


def test_independent_heads_sit_on_the_sharpness_matched_null_with_matching_too():
    p = random_patterns(12, 3, 4, 10, sharp=3)
    result = variation_from_patterns([p])
    value, null = result.variation[0].value, result.variation[0].null["sharpness_matched"]
    assert value == pytest.approx(null, rel=0.03)
    unmatched = result.unmatched[0]
    assert unmatched.value == pytest.approx(unmatched.null["sharpness_matched"], rel=0.03)
    assert null < unmatched.null["sharpness_matched"]


def test_null_draws_depend_on_the_seed_only():
    p = random_patterns(3, 2, 2, 6)
    nulls = [variation_from_patterns([p], seed=s).variation[0].null["sharpness_matched"] for s in (1, 1, 2)]
    assert nulls[0] == nulls[1] != nulls[2]


def test_untrained_population_is_measured_the_same_way():
    p, q = random_patterns(4, 1, 2, 6), random_patterns(4, 1, 2, 6, sharp=0.1)
    result = variation_from_patterns([p], untrained=[q])
    alone = variation_from_patterns([q]).variation[0]
    assert result.untrained[0].value == pytest.approx(alone.value)
    assert result.variation[0].null["untrained"] == pytest.approx(alone.value)
    assert variation_from_patterns([p]).variation[0].null["untrained"] is None


# ---- bad patterns --------------------------------------------------------------------------------


def test_bad_patterns_are_refused_with_their_place():
    good = random_patterns(2, 1, 1, 4)
    with pytest.raises(PatternError, match=r"shape \[2, 1, 4, 4\]: \[seed, input, head, query, key\]"):
        variation_from_patterns([good[:, 0]])
    with pytest.raises(PatternError, match="not square"):
        variation_from_patterns([good[..., :3]])
    bad = good.copy()
    bad[1, 0, 0, 2] *= 1.1
    with pytest.raises(PatternError, match=r"row \[1, 0, 0, 2\] of patterns of layer 0 sums to 1\.1"):
        variation_from_patterns([bad])
    bad[1, 0, 0, 2, 1] = np.nan
    with pytest.raises(PatternError, match=r"patterns of layer 0\[1, 0, 0, 2, 1\] is nan"):
        variation_from_patterns([bad])
    with pytest.raises(PatternError, match="transposed"):
        variation_from_patterns([good.swapaxes(-1, -2)])
    with pytest.raises(PatternError, match="attend to a later key"):
        variation_from_patterns([random_patterns(2, 1, 1, 4, causal=False)], causal=True)
    with pytest.raises(PatternError, match="no patterns"):
        variation_from_patterns([])
    with pytest.raises(PatternError, match="a chunk holds 1 layers, an earlier one 2"):
        variation_from_patterns(iter([[good, good], [good]]))
    for other in (random_patterns(3, 1, 1, 4), random_patterns(2, 1, 2, 4), random_patterns(2, 1, 1, 3)):
        with pytest.raises(PatternError, match="an earlier chunk"):
            variation_from_patterns(iter([[good], [other]]))
    with pytest.raises(PatternError, match=r"layer 0\[0, 0, 0, 0, 1\] attend to a later key"):
        variation_from_patterns(iter([[good], [random_patterns(2, 1, 1, 4, causal=False)]]))
    with pytest.raises(PatternError, match="the untrained models have 2 layers, the trained 1"):
        variation_from_patterns([good], untrained=[good, good])
    with pytest.raises(AnalysisError, match="one model was given: pass a population"):
        variation_from_patterns([good[:1]])


# ---- models --------------------------------------------------------------------------------------


class StubModel:
    """Attends as seeded random scores say, whatever the tokens are."""

    def __init__(self, seed: int, grammar: DyckGrammar | None, sharp: float = 2.0):
        self.seed, self.grammar, self.sharp = seed, grammar, sharp
        self.hook_dict, self.cfg = {}, types.SimpleNamespace(device="cpu")
        self.provenance = {"settings": {}}  # as if trained here: it could not be asked

    def to_tokens(self, text):
        torch = pytest.importorskip("torch")
        return torch.from_numpy(self.grammar.to_tokens(text))


class StubPopulation(list):
    grammar = None

    def untrained(self):
        return StubPopulation(StubModel(m.seed + 100, m.grammar, 0.1) for m in self)


def stub_patterns(model, tokens):
    batch, n = tokens.shape
    shape = (batch, 2, n)
    return [random_patterns(*shape, sharp=model.sharp, seed=2 * model.seed + layer) for layer in range(2)]


@pytest.fixture
def population(monkeypatch):
    fake = types.ModuleType("interp.patterns")
    fake.attention_patterns = stub_patterns
    monkeypatch.setitem(sys.modules, "interp.patterns", fake)
    return StubPopulation(StubModel(seed, DyckGrammar(2, 4)) for seed in range(3))


def test_default_input_is_the_papers_sentence(population):
    result = analyze_variation(population)
    assert (result.inputs, result.positions, result.num_models) == ((PAPER_SENTENCE,), 17, 3)
    assert result.num_heads == (2, 2)
    null = result.to_dict()["variation"][1]["null"]
    assert null["uniform_simplex"] == pytest.approx(uniform_simplex_variation(17))
    assert null["untrained"] < 0.2 < null["sharpness_matched"]
    assert analyze_variation(population, untrained=False).untrained is None


@pytest.mark.parametrize(("k", "depth", "drawn"), [(2, 4, False), (2, 3, True), (1, 4, True), (3, 5, False)])
def test_the_papers_sentence_needs_two_types_and_depth_four(population, k, depth, drawn):
    result = analyze_variation(population, grammar=DyckGrammar(k, depth), task_check=False)
    assert (result.inputs == (PAPER_SENTENCE,)) is not drawn
    assert (result.num_inputs, result.positions) == ((40, 20) if drawn else (1, 17))


@pytest.mark.parametrize(
    ("depth", "inputs", "heads", "read"),
    [(4, None, 1, False), (3, None, 1, True), (3, "()", 1, False), (4, "()", 2, True), (4, None, 2, True)],
)
def test_a_seed_is_read_where_inputs_or_permutations_are_drawn(population, monkeypatch, depth, inputs, heads, read):
    def patterns(model, tokens):
        return [random_patterns(len(tokens), heads, tokens.shape[1], seed=model.seed)]

    monkeypatch.setattr(sys.modules["interp.patterns"], "attention_patterns", patterns)
    ask = functools.partial(analyze_variation, population, inputs, grammar=DyckGrammar(2, depth), task_check=False)
    assert ask().unread == ()
    assert (ask(seed=5).unread == ()) is read


def test_the_order_of_reading_changes_nothing(population, monkeypatch):
    """Inputs one by one, some at a time, or all: the same numbers."""
    grammar = DyckGrammar(2, 3)
    ask = functools.partial(analyze_variation, population, grammar=grammar, num_inputs=5, seed=7, task_check=False)
    runs = []

    def by_text(model, tokens):  # patterns of each text, whatever is read beside it
        runs.append(len(tokens))
        seeds = [int(row @ np.arange(20)) + 1000 * model.seed for row in np.asarray(tokens)]
        return [np.stack([random_patterns(2, 20, seed=seed + layer) for seed in seeds]) for layer in range(2)]

    monkeypatch.setattr(sys.modules["interp.patterns"], "attention_patterns", by_text)
    whole = to_json(ask())
    assert max(runs) == 5
    one = 3 * 2 * 2 * 20**2  # numbers of three models, two layers, two heads, twenty positions
    for memory, most in ((1, 1), (2 * one, 2), (5 * one, 5)):
        monkeypatch.setattr("probes.variation.analyzer.MEMORY", memory)
        runs.clear()
        assert to_json(ask()) == whole
        assert max(runs) == most


def test_shallow_grammars_get_sampled_prefixes(population):
    result = analyze_variation(population, grammar=DyckGrammar(2, 3), num_inputs=5, seed=7, task_check=False)
    assert (result.num_inputs, result.positions) == (5, 20)
    assert all(len(text) == 19 for text in result.inputs)


def test_texts_and_tokens_give_the_same(population):
    from_text = analyze_variation(population, ["([])", "(())"])
    tokens = population[0].to_tokens(["([])", "(())"])
    assert to_json(analyze_variation(population, tokens)) == to_json(from_text)
    assert analyze_variation(population, tokens[0]).num_inputs == 1


def test_wrong_inputs_are_named(population):
    with pytest.raises(RequestError, match=r"'\(\)' has 3 tokens, '\(\(\)\)' has 5"):
        analyze_variation(population, ["()", "(())"])
    with pytest.raises(RequestError, match="PAD"):
        analyze_variation(population, population[0].to_tokens(["()", "(())"]))
    with pytest.raises(RequestError, match="neither texts nor token ids"):
        analyze_variation(population, [[1, 2], [1]])
    with pytest.raises(AnalysisError, match="one model was given"):
        analyze_variation(population[0])
    with pytest.raises(AnalysisError, match="analyze_variation compares models"):
        analyze_variation(population[:1])
    with pytest.raises(AnalysisError, match="no models were given"):
        analyze_variation([])
    with pytest.raises(RequestError, match="inputs of 1 position leave attention no choice"):
        analyze_variation(population, population[0].to_tokens([""]))
    assert analyze_variation(population, population[0].to_tokens(["("])).positions == 2
    no_grammar = [StubModel(seed, None) for seed in range(2)]
    with pytest.raises(AnalysisError, match="carry no grammar"):
        analyze_variation(no_grammar)


# ---- result --------------------------------------------------------------------------------------


def test_result_is_json_and_its_words_fit_80_columns(population):
    result = analyze_variation(population, ["([])", "(())"])
    out = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(out["variation"][0]) == {"value", "low", "high", "n", "over", "null", "reason"}  # three models are few
    assert set(out["variation"][0]["null"]) == {"uniform_simplex", "untrained", "sharpness_matched"}
    text = result.summary()
    assert max(map(len, text.splitlines())) <= 80
    assert "N = 5 positions" in text
    assert "heads not matched" in text
    wide = variation_from_patterns([random_patterns(3, 1, 1, 500, sharp=50)])
    assert max(map(len, wide.summary().splitlines())) <= 80


@pytest.mark.parametrize(("heads", "inputs", "texts"), [(1, 1, ["x" * 30]), (2, 1, ["x" * 31]), (3, 2, ["a", "b"])])
def test_the_summary_says_what_was_compared(heads, inputs, texts):
    result = variation_from_patterns([random_patterns(6, inputs, heads, 4)], inputs=texts, causal=inputs > 1)
    lines = result.summary().splitlines()
    matched = {1: "", 2: ", 2 heads matched in pairs", 3: ", 3 heads matched in pairs"}[heads]
    assert lines[0] == f"Attention variation |A1 - A2|^2 between 6 models{matched}"
    count = {1: "1 input", 2: "2 inputs"}[inputs]
    assert lines[1] == f"{count} of N = 4 positions{' ' + texts[0] if texts[0] == 'x' * 30 else ''}"
    assert lines[3].split()[0] == "0"
    shown = [number(value) for value in result.variation[0].null.values() if value is not None]
    assert [cell for cell in lines[3].split() if cell in shown] == [shown[0], shown[-1]]
    part = result.normalised[0]
    assert lines[3].endswith(f"  {part.value:.2f} [{part.low:.2f}, {part.high:.2f}]")
    assert "None" not in result.summary()
    told = replace(result, task_check="how well they do their task", unread=("seed=5 changes nothing",))
    assert told.summary().splitlines() == [*lines, "how well they do their task", "seed=5 changes nothing"]
    apart = f"heads not matched: {number(result.unmatched[0].value)}"
    assert (apart in lines) == (heads > 1)
    spread = f"sd over inputs: {number(float(np.std(result.by_input[0], ddof=1)))}" if inputs > 1 else "sd over"
    assert any(line.startswith(spread) for line in lines) == (inputs > 1)
    first = "The first query sees one key only: its row adds 0, its key column counts."
    assert (first in lines) == result.causal


def test_many_pairs_are_written_as_quantiles(monkeypatch):
    result = variation_from_patterns([random_patterns(3, 1, 1, 4)], untrained=[random_patterns(3, 1, 1, 4, seed=1)])
    monkeypatch.setattr("probes.variation.result.MOST_PAIRS", 3)
    assert result.to_dict()["pairs"] == [list(result.pairs[0])]
    monkeypatch.setattr("probes.variation.result.MOST_PAIRS", 2)
    for name in ("pairs", "untrained_pairs"):
        (pairs,) = getattr(result, name)
        brief = result.to_dict()[name]
        assert brief["of"].startswith("3 pairs of models per layer, more than 2")
        (quantiles,) = brief["quantiles"]
        assert len(quantiles) == 101
        assert (quantiles[0], quantiles[50], quantiles[100]) == pytest.approx(tuple(np.sort(pairs)))


def test_figure_shows_every_pair_and_every_baseline(population):
    result = analyze_variation(population)
    fig = result.figure()
    boxes = [trace for trace in fig.data if trace.type == "box"]
    assert [list(box.y) for box in boxes] == [list(pairs) for pairs in result.pairs]
    lines = {trace.name for trace in fig.data if trace.type == "scatter" and trace.mode == "lines"}
    assert lines == {"rows uniform on the simplex", "as sharp, other keys", "untrained models"}


def test_notebook_form_escapes_the_summary(population, monkeypatch):
    result = analyze_variation(population)
    monkeypatch.setattr(type(result), "summary", lambda self: "<script>")
    assert "<pre>&lt;script&gt;</pre>" in result._repr_html_()


def test_to_json_of_odd_values():
    odd = {"a": (1, np.float32(0.5)), "b": float("nan"), "c": np.array([[1.0, np.inf]]), 3: {2, 1}}
    assert to_json(odd) == {"a": [1, 0.5], "b": None, "c": [[1.0, None]], "3": [1, 2]}
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json(object())
