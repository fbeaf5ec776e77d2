"""Patterns that somebody measured: the numbers of the models that they came from, and bad ones refused."""

import numpy as np
import pytest
import torch

import interp
from closeness import assert_close
from interp import AttentionArrays, DyckGrammar, load_checkpoint
from interp.errors import InterpError, PatternError, RequestError
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap
from probes import analyze_balance, analyze_stack_likeness, analyze_variation, audit_claim, audit_claims, scan_heads

CLAIM = "L1H0 attends to the last unmatched open bracket"


def patterns_of(models, tokens):
    """[model, input, layer, head, query, key]."""
    return np.stack([np.stack(attention_patterns(one, torch.from_numpy(tokens)), 1) for one in models])


@pytest.fixture(scope="module")
def population():
    return load_checkpoint("dyck-standard")


@pytest.fixture(scope="module")
def tokens(population):
    grammar = population.grammar
    return grammar.to_tokens(grammar.sample(120, mode="prefix", length=12, seed=1))


@pytest.fixture(scope="module")
def arrays(population, tokens):
    return AttentionArrays(patterns_of(population, tokens), tokens, grammar=population.grammar, seeds=population.seeds)


def numbers(result):
    return {name: value for name, value in result.to_dict().items() if name != "of"}


@pytest.mark.parametrize("analyze", [analyze_variation, analyze_stack_likeness])
def test_analyzers_give_the_numbers_of_the_models(analyze, arrays, population, tokens):
    assert numbers(analyze(arrays)) == numbers(analyze(population, tokens, untrained=False))


def test_an_audit_gives_the_pattern_of_the_model_and_asks_for_no_use(arrays, population, tokens):
    evenly = "L0H0 attends to all visible tokens evenly"
    found = audit_claim(arrays[0], evenly)
    expected = audit_claim(population[0], evenly, tokens, untrained=False)
    assert (found.pattern, found.use, expected.pattern) == ("holds", "not asked", "holds")
    assert "shows its patterns, and nothing through which they could be edited" in found.reason
    same = [row for row in expected.evidence if row in found.evidence]
    assert found.evidence == tuple(same)
    asked = audit_claim(arrays[0], "L0H0 uses all visible tokens evenly to predict closing brackets")
    assert (asked.pattern, asked.use, asked.verdict) == ("holds", "not asked", "undecided")


def test_several_models_are_seeds(arrays, population, tokens):
    found = audit_claim(arrays, CLAIM)
    expected = audit_claim(population, CLAIM, tokens, untrained=False)
    assert [row["seed"] for row in found.seeds] == list(population.seeds)
    assert [row["pattern"] for row in found.seeds] == [row["pattern"] for row in expected.seeds]


def test_a_scan_scores_heads_on_relations_alike(arrays, population, tokens):
    names = ["previous", "first", "stack-top"]
    found, expected = scan_heads(arrays[1], names), scan_heads(population[1], names, tokens, untrained=False)
    assert [(f.relation, f.score, f.pattern) for f in found.fits] == [
        (f.relation, f.score, f.pattern) for f in expected.fits
    ]
    assert "Use is not asked" in found.summary().replace("\n", " ")


@pytest.mark.parametrize("population_shown", ["one", "mean"])
def test_a_heatmap_shows_the_first_input(population_shown, arrays, population, tokens):
    found = attention_heatmap(arrays, overlay="stack_top", population=population_shown)
    expected = attention_heatmap(population, tokens[:1], overlay="stack_top", population=population_shown)
    assert found.layout.title == expected.layout.title
    for one, other in zip(found.data, expected.data, strict=True):
        if getattr(one, "z", None) is not None:
            assert_close(np.nan_to_num(np.array(one.z, float)), np.nan_to_num(np.array(other.z, float)), ulps=2**32)
    other = attention_heatmap(arrays, tokens[3])
    assert other.layout.title.text != found.layout.title.text


def test_texts_of_several_lengths_and_some_of_the_inputs(population):
    grammar = population.grammar
    texts = ["([])", "()", "[[]](", "(([])"]
    ids = grammar.to_tokens(texts)
    weights = patterns_of(population, ids)
    arrays = AttentionArrays(weights, texts, grammar=grammar)
    assert numbers(analyze_stack_likeness(arrays, texts[:3])) == numbers(
        analyze_stack_likeness(population, texts[:3], untrained=False)
    )
    # A shorter text alone is the same input without its padding.
    assert [p.shape[-1] for p in attention_patterns(arrays[0], torch.from_numpy(grammar.to_tokens("()")))] == [3, 3]
    with pytest.raises(RequestError, match="is not among the 4 inputs"):
        analyze_stack_likeness(arrays, "(()())")


def test_what_padding_looks_at_is_not_read(population):
    grammar = population.grammar
    ids = grammar.to_tokens(["([])", "(([])"])
    weights = patterns_of(population, ids)
    broken = weights.copy()
    broken[:, 0, :, :, -1] = np.nan
    with pytest.raises(PatternError, match="must be a finite number"):
        AttentionArrays(broken, np.where(ids == grammar.pad, 0, ids), grammar=grammar)
    found = AttentionArrays(broken, ids, grammar=grammar)
    assert numbers(analyze_stack_likeness(found)) == numbers(analyze_stack_likeness(population, ids, untrained=False))


def test_a_function_is_asked_for_whatever_inputs_there_are(population, tokens):
    few, calls = list(population)[:3], []

    def run(ids):
        calls.append(ids.shape)
        return patterns_of(few, ids)

    arrays = AttentionArrays(run, grammar=population.grammar)
    drawn, given = analyze_variation(arrays), analyze_variation(few, untrained=False)
    assert numbers(drawn) == numbers(given)
    assert len(calls) == 2  # to learn the shape, and once for all three models
    assert numbers(analyze_variation(AttentionArrays(run, tokens, grammar=population.grammar))) == numbers(
        analyze_variation(few, tokens, untrained=False)
    )


def test_without_a_grammar_tokens_are_ids_and_names_make_a_vocabulary(arrays, population, tokens):
    weights = patterns_of(list(population)[:1], tokens)[0]
    bare = AttentionArrays(torch.from_numpy(weights), tokens)
    words = ["L1H0 attends to the previous token", "L1H0 attends to the first token"]
    found, expected = audit_claims(bare, words), audit_claims(arrays[0], words)
    assert [(r.pattern, r.use) for r in found] == [(r.pattern, r.use) for r in expected]
    named = AttentionArrays(weights, tokens, grammar=list(population.grammar.vocab))
    assert named.grammar.start == population.grammar.start
    with pytest.raises(InterpError, match="grammar"):
        analyze_stack_likeness(bare)


def test_what_needs_logits_is_refused(arrays):
    with pytest.raises(InterpError, match="hold patterns alone"):
        analyze_balance(arrays)


SQUARE = np.tile(np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None], (2, 2, 1, 1, 1, 1))
IDS = [[4, 0, 1], [4, 2, 3]]


def changed(at, value):
    out = SQUARE.copy()
    out[at] = value
    return out


@pytest.mark.parametrize(
    ("patterns", "how", "said"),
    [
        (SQUARE[0, 0], {}, "patterns of shape [1, 1, 3, 3]"),
        (SQUARE[..., :2], {}, "[model, input, layer, head, query, key] is needed"),
        (SQUARE[:, :1], {}, "patterns of 1 inputs of 3 positions, and tokens of shape [2, 3]"),
        (changed((1, 0, 0, 0, 2, 0), 0.9), {}, "row [0, 0, 2] of patterns of model 1, layer 0"),
        (changed((0, 1, 0, 0, 0), [np.nan, 0, 0]), {}, "must be a finite number"),
        (changed((0, 1, 0, 0, 0), [2, -1, 0]), {}, "must not be negative"),
        (changed((0, 1, 0, 0, 0), [0, 0, 1]), {"causal": True}, "in input 1 query 0 attends to key 2"),
        (SQUARE.astype(np.float16), {}, "32 bits"),
        ("mine.npy", {}, "patterns of type str"),
        (SQUARE, {"tokens": None}, "tokens=None"),
        (SQUARE, {"tokens": [[4, 0, 9], [4, 2, 3]], "grammar": DyckGrammar(2, 4)}, "9 is not a token id"),
        (changed((0, 1), np.eye(3)), {"tokens": [[4, 0, 1]] * 2}, "inputs 0 and 1 are the same tokens"),
        (SQUARE, {"tokens": "()"}, "neither a grammar nor a tokenizer"),
        (SQUARE, {"grammar": 3}, "grammar=3 is neither"),
        (SQUARE, {"seeds": [1]}, "seeds=[1] for 2 model(s)"),
        (SQUARE, {"seeds": [1, 1]}, "seeds=[1, 1] name one twice"),
        (SQUARE, {"causal": "yes"}, "causal='yes'"),
        (lambda ids: 1 / 0, {}, "ZeroDivisionError"),
        (lambda ids: np.ones((1, 1, 1, 1, 2, 2)), {}, "the function gives patterns of shape [1, 1, 1, 1, 2, 2]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(patterns, how, said):
    with pytest.raises(InterpError) as caught:
        AttentionArrays(patterns, **{"tokens": IDS} | how)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_looks_ahead_only_later_is_refused():
    def run(ids):
        return np.tile(np.eye(ids.shape[1])[:: -1 if len(ids) > 1 else 1], (2, len(ids), 1, 1, 1, 1))

    with pytest.raises(PatternError, match="say causal=False"):
        analyze_variation(AttentionArrays(run, IDS))
    assert analyze_variation(AttentionArrays(run, IDS, causal=False)).variation[0].value == 0


def test_seeds_and_slices():
    arrays = AttentionArrays(SQUARE, IDS, seeds=[3, 7])
    assert (len(arrays), arrays.seeds, len(arrays[:1])) == (2, (3, 7), 1)
    assert "2 inputs of 3 tokens" in repr(arrays)
    assert interp.AttentionArrays is AttentionArrays
    assert numbers(analyze_variation(list(arrays))) == numbers(analyze_variation(arrays))
