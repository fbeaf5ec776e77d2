"""Stack-likeness against a literal loop over stacks, hand-worked numbers, and heads whose truth is known."""

import copy
import itertools
import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule

import probes.stack
from closeness import assert_close
from interp import load_checkpoint
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.numbers import number
from interp.population import Population
from interp.stats import GAP, Estimate, mean_over_inputs, mean_over_seeds
from probes.stack.figure import RIVALS as NAMES
from probes.stack.figure import merged, stack_figure

# Most models here are stubs or untrained: whether they close brackets is not the question.
analyze_stack_likeness = partial(probes.stack.analyze_stack_likeness, task_check=False)
GRAMMAR = DyckGrammar(2, 4)
START, PAD = 4, 6
# A score is (m - c) / (1 - c) with c <= 1/2, of float32 weights m: what cancels in it, and in means of it, is up to 2.
WEIGHTS = {"scale": 2, "dtype": torch.float32}
RIVALS = {"unmatched", "same_depth", "all_openers", "most_recent_opener", "previous_token", "start"}


class Stub(HookedRootModule):
    """A model whose layers attend as functions of the tokens say: tokens [batch, pos] -> [batch, head, pos, pos]."""

    def __init__(self, *layers, grammar=GRAMMAR):
        super().__init__()
        self.layers, self.grammar = layers, grammar
        self.blocks = torch.nn.ModuleList()
        for _ in layers:
            block = torch.nn.Module()
            block.attn = torch.nn.Module()
            block.attn.hook_pattern = HookPoint()
            self.blocks.append(block)
        heads = layers[0](np.array([[START, 0]])).shape[1]
        self.cfg = SimpleNamespace(n_layers=len(layers), n_heads=heads, device="cpu", d_vocab=7)
        self.setup()

    def forward(self, tokens, return_type=None):
        for layer, block in zip(self.layers, self.blocks, strict=True):
            block.attn.hook_pattern(torch.from_numpy(layer(tokens.numpy())))


def fixed(patterns):
    """A layer that attends as `patterns` [input, head, query, key] say, whatever it reads."""
    return lambda tokens: patterns[: len(tokens), :, : tokens.shape[1], : tokens.shape[1]]


def pointing(where):
    """One head that looks at key where(tokens of its input, query)."""

    def layer(tokens):
        out = np.zeros((len(tokens), 1, tokens.shape[1], tokens.shape[1]))
        for i, row in enumerate(tokens):
            for q in range(len(row)):
                out[i, 0, q, where(row, q)] = 1.0
        return out

    return layer


def uniform(tokens):
    n = tokens.shape[1]
    return np.tile(np.tri(n) / np.arange(1, n + 1)[:, None], (len(tokens), 1, 1, 1))


def noise(inputs, heads, n, seed=0, levels=None):
    """Softmax of random scores, causal; with `levels` the scores are few whole numbers, so that many tie."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(inputs, heads, n, n)) * 2
    if levels:
        scores = rng.integers(0, levels, scores.shape).astype(float)
    scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


def sampled(count=6, length=14, seed=3):
    return GRAMMAR.to_tokens(GRAMMAR.sample(count, mode="prefix", length=length, seed=seed))


# ---- a second implementation -----------------------------------------------------------------------


def stack_before_and_after(row):
    """For each position of one input: (query, stack of (place, depth) once it is read, openers so far)."""
    stack, openers = [], []
    for q, token in enumerate(row):
        if token == PAD:
            return
        if token < START and token % 2 == 0:
            stack = [*stack, q]
            openers = [*openers, (q, len(stack))]
        elif token < START:
            stack = stack[:-1]
        yield q, stack, openers


def literal(pattern, tokens):
    """(trivial, input) -> list of dicts a query, for one head's pattern [input, query, key]."""
    out = {}
    for i, row in enumerate(tokens):
        for q, stack, openers in stack_before_and_after(row):
            if not stack or row[q] >= START:
                continue
            target, depth, weights = stack[-1], len(stack), list(pattern[i, q, : q + 1])
            chance = 1 / (q + 1)
            best = [k for k in range(q + 1) if weights[k] > max(weights) * (1 - 1e-9)]
            same = [k for k, d in openers if d == depth]
            mass = {
                "unmatched": 1 / len(stack),
                "same_depth": 1 / len(same) if target in same else 0,
                "all_openers": 1 / len(openers),
                "most_recent_opener": float(openers[-1][0] == target),
                "previous_token": float(q - 1 == target),
                "start": float(target == 0),
            }
            found = {
                "score": (weights[target] - chance) / (1 - chance),
                "top1": (target in best) / len(best),
                "permuted": np.mean([(weights[k] - chance) / (1 - chance) for k, _ in openers]),
                "permuted_top1": np.mean([(k in best) / len(best) for k, _ in openers]),
                "distance": q - target,
                "chance": chance,
                **{name: (m - chance) / (1 - chance) for name, m in mass.items()},
                **{f"{name}_top1": m for name, m in mass.items()},
            }
            out.setdefault((q == target, i), []).append(found)
    return out


def average(found, trivial, key):
    """Mean over inputs of the mean over an input's queries."""
    return np.mean([np.mean([q[key] for q in queries]) for (t, _), queries in found.items() if t == trivial])


@pytest.fixture(scope="module")
def several():
    """Two layers of three heads on six inputs, one of them padded, one with no closer inside a bracket."""
    tokens = sampled()
    tokens[2, 9:] = PAD
    tokens[4] = [START, 0, 1, 0, 1, 2, 3, *[PAD] * 8]
    patterns = [noise(6, 3, 15, seed=1), noise(6, 3, 15, seed=2, levels=3)]
    return tokens, patterns, analyze_stack_likeness(Stub(*map(fixed, patterns)), tokens)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1, 2])
def test_every_head_equals_the_literal_loop(several, layer, head):
    tokens, patterns, result = several
    found = literal(patterns[layer][:, head], tokens)
    for trivial, score, top1 in ((False, result.score, result.top1), (True, result.score_trivial, result.top1_trivial)):
        for estimate, suffix in ((score[layer][head], ""), (top1[layer][head], "_top1")):
            assert_close(estimate.value, average(found, trivial, suffix[1:] or "score"), **WEIGHTS)
            assert_close(estimate.null["permuted"], average(found, trivial, f"permuted{suffix}"), **WEIGHTS)
            for name in RIVALS:
                assert_close(estimate.null[name], average(found, trivial, name + suffix), **WEIGHTS)
        assert score[layer][head].null["uniform"] == 0.0
        assert_close(top1[layer][head].null["uniform"], average(found, trivial, "chance"), **WEIGHTS)


def test_distances_and_counts_equal_the_literal_loop(several):
    tokens, patterns, result = several
    queries = [q for (trivial, _), qs in literal(patterns[1][:, 2], tokens).items() if not trivial for q in qs]
    assert result.queries == len(queries)
    assert set(result.by_distance[1][2]) == {q["distance"] for q in queries}
    for distance, value in result.by_distance[1][2].items():
        scores = [q["score"] for q in queries if q["distance"] == distance]
        assert_close(value, np.mean(scores), **WEIGHTS)
        assert result.queries_by_distance[distance] == len(scores)
    assert (result.num_inputs, result.positions, result.excluded) == (6, 15, 0)


def test_one_model_has_its_interval_over_inputs():
    tokens, patterns = sampled(9), [noise(9, 3, 15, seed=1)]
    tokens[4] = [START, 0, 1, 0, 1, 2, 3, *[PAD] * 8]
    found = literal(patterns[0][:, 1], tokens)
    each = [np.mean([q["score"] for q in queries]) for (trivial, _), queries in found.items() if not trivial]
    expected = mean_over_inputs(each, support=GAP)
    got = analyze_stack_likeness(Stub(*map(fixed, patterns)), tokens).score[0][1]
    assert expected.low is not None
    assert (got.over, got.n) == ("inputs", 8)  # the input without such a closer is no unit
    assert_close((got.value, got.low, got.high), (expected.value, expected.low, expected.high), **WEIGHTS)


def test_permuted_targets_against_monte_carlo(several):
    tokens, patterns, result = several
    rng = np.random.default_rng(0)
    pattern, means = patterns[0][:, 1], []
    for i, row in enumerate(tokens):
        scores = []
        for q, stack, openers in stack_before_and_after(row):
            if stack and row[q] < START and q != stack[-1]:
                drawn = rng.choice([k for k, _ in openers], 4000)
                scores.append(np.mean((pattern[i, q, drawn] - 1 / (q + 1)) / (1 - 1 / (q + 1))))
        means += [np.mean(scores)] if scores else []
    null = result.score[0][1].null["permuted"]
    assert null == pytest.approx(np.mean(means), abs=0.005)  # absolute: error of 4,000 draws a query
    assert abs(null - result.score[0][1].value) > 0.02  # so that the two are told apart


# ---- by hand ---------------------------------------------------------------------------------------


def test_six_tokens_by_hand():
    """START ( [ ] ( ): closers at 3 and 5, both with the opener at 1 as target."""
    pattern = np.zeros((1, 1, 6, 6))
    rows = [[1], [0.5, 0.5], [0.2, 0.3, 0.5], [0.1, 0.4, 0.3, 0.2], [0, 0.25, 0.25, 0.25, 0.25]]
    rows.append([0.1, 0.2, 0.2, 0.1, 0.2, 0.2])
    for q, row in enumerate(rows):
        pattern[0, 0, q, : q + 1] = row
    result = analyze_stack_likeness(Stub(fixed(pattern)), "([](" + ")")
    score, top1 = result.score[0][0], result.top1[0][0]
    # query 3: (.4 - 1/4) / (3/4) = .2, alone on top; query 5: (.2 - 1/6) / (5/6) = .04, one of four on top
    assert score.value == pytest.approx(0.12)
    assert top1.value == pytest.approx((1 + 0.25) / 2)
    assert score.low is None  # one input
    assert result.by_distance == (({2: pytest.approx(0.2), 4: pytest.approx(0.04)},),)
    # openers 1, 2 weigh .35 at query 3; openers 1, 2, 4 weigh .2 at query 5
    assert score.null["permuted"] == pytest.approx(((0.35 - 0.25) / 0.75 + 0.04) / 2)
    assert top1.null["permuted"] == pytest.approx((0.5 + 0.25) / 2)
    # the target is the only unmatched opener and the only one at depth 1
    assert result.rivals["unmatched"] == result.rivals["same_depth"] == 1
    assert result.rivals["all_openers"] == pytest.approx((1 / 3 + 1 / 5) / 2)
    for name in ("most_recent_opener", "previous_token", "start"):
        assert result.rivals[name] == pytest.approx(-(1 / 3 + 1 / 5) / 2)
    # openers 1, 2, 4: 0, (.5 - 1/3) / (2/3) = .25, (.25 - .2) / .8 = .0625; top places 1/2, 1, 1/4
    assert result.score_trivial[0][0].value == pytest.approx(0.3125 / 3)
    assert result.top1_trivial[0][0].value == pytest.approx(1.75 / 3)
    assert (result.queries, result.queries_trivial) == (2, 3)


# ---- heads whose truth is known --------------------------------------------------------------------


def last_unmatched(row, query):
    for q, stack, _ in stack_before_and_after(row):
        if q == query:
            return stack[-1] if stack else 0
    return query  # PAD looks at itself


def test_a_perfect_head_scores_1_and_a_uniform_head_0():
    perfect = analyze_stack_likeness(Stub(pointing(last_unmatched)), sampled())
    for row in (perfect.score, perfect.top1, perfect.score_trivial, perfect.top1_trivial):
        assert row[0][0].value == 1
        assert row[0][0].low in (1, None)  # few strings have a closer of that kind
    assert set(perfect.by_distance[0][0].values()) == {1}
    even = analyze_stack_likeness(Stub(uniform), sampled())
    assert even.score[0][0].value == even.score_trivial[0][0].value == 0  # exactly
    assert_close(even.score[0][0].null["permuted"], 0, scale=1)
    assert even.top1[0][0].value == pytest.approx(even.top1[0][0].null["uniform"])  # every key ties
    assert even.best[0].value == 0


def test_rival_heads_score_what_their_null_says():
    def recent(row, q):
        return max((k for k in range(q + 1) if row[k] < START and row[k] % 2 == 0), default=0)

    heads = {"most_recent_opener": recent, "previous_token": lambda row, q: max(q - 1, 0), "start": lambda row, q: 0}
    tokens = sampled()
    for name, where in heads.items():
        result = analyze_stack_likeness(Stub(pointing(where)), tokens)
        for row in (result.score, result.top1, result.score_trivial, result.top1_trivial):
            assert_close(row[0][0].value, row[0][0].null[name], **WEIGHTS)
    found = literal(uniform(tokens)[:, 0], tokens)
    for key, queries in found.items():
        found[key] = [{"sink": -q["chance"] / (1 - q["chance"])} for q in queries]
    assert_close(result.score[0][0].value, average(found, False, "sink"), **WEIGHTS)
    assert result.score[0][0].value < -0.05


def test_near_ties_share_the_top_place():
    pattern = uniform(np.zeros((1, 6)))
    pattern[0, 0, :, 1] *= 1 + 1e-7  # what float32 cannot tell
    tied = analyze_stack_likeness(Stub(fixed(pattern)), "([]()")
    assert tied.top1[0][0].value == pytest.approx((1 / 4 + 1 / 6) / 2)
    pattern[0, 0, :, 1] *= 1 + 1e-3
    assert analyze_stack_likeness(Stub(fixed(pattern)), "([]()").top1[0][0].value == 1


def test_best_head_is_chosen_on_the_other_half(several):
    tokens, patterns, result = several
    each = []
    for head in range(3):
        found = literal(patterns[0][:, head], tokens)
        each.append([np.mean([q["score"] for q in found[False, i]]) for i in (0, 1, 2, 3, 5)])
    each = np.array(each)
    for_even, for_odd = each[:, 1::2].mean(1).argmax(), each[:, ::2].mean(1).argmax()
    expected = [each[for_odd if at % 2 else for_even, at] for at in range(5)]
    assert_close(result.best[0].value, np.mean(expected), **WEIGHTS)
    assert (result.best[0].n, result.best[0].over) == (5, "inputs")


def test_what_holds_on_one_half_only_is_not_scored_there():
    """Head 0 is perfect on every other input and head 1 on the rest; else they are uniform: nothing carries over."""
    tokens = sampled(8)
    perfect, even = pointing(last_unmatched)(tokens)[:, 0], uniform(tokens)[:, 0]
    first = (np.arange(8) % 2 == 0)[:, None, None]
    heads = np.stack([np.where(first, perfect, even), np.where(first, even, perfect)], axis=1)
    result = analyze_stack_likeness(Stub(fixed(heads)), tokens)
    assert [e.value for e in result.score[0]] == pytest.approx([0.5, 0.5])
    assert result.best[0].value == 0


def test_best_head_has_no_winners_curse():
    tokens, heads = sampled(60), 24
    result = analyze_stack_likeness(Stub(fixed(noise(60, heads, 15, seed=5))), tokens)
    highest = max(e.value for e in result.score[0])
    assert highest > 0.03
    assert abs(result.best[0].value) < highest / 2
    one = analyze_stack_likeness(Stub(fixed(noise(1, 3, 15))), "([]()")
    assert one.best[0].value is None
    assert "half" in one.best[0].reason


# ---- inputs ----------------------------------------------------------------------------------------


def test_pad_changes_nothing():
    texts = ["(()[]", "([])[()(", "(()"]
    model = SandboxTransformer.init(config(n_heads=2), 1, GRAMMAR)
    alone = [analyze_stack_likeness(model, text) for text in texts]
    together = analyze_stack_likeness(model, texts)
    assert together.queries == sum(r.queries for r in alone)
    for layer in range(2):
        for head in range(2):
            mean = np.mean([r.score[layer][head].value for r in alone])
            assert_close(together.score[layer][head].value, mean, ulps=8, scale=1, dtype=torch.float32)
            mean = np.mean([r.score_trivial[layer][head].value for r in alone])
            assert_close(together.score_trivial[layer][head].value, mean, ulps=8, scale=1, dtype=torch.float32)
    assert together.positions == 9


def test_texts_tokens_and_the_default_are_the_same_strings():
    model = SandboxTransformer.init(config(), 1, GRAMMAR)
    texts = ["(()[]", "([])"]
    tokens = torch.from_numpy(GRAMMAR.to_tokens(texts))
    from_text = analyze_stack_likeness(model, texts).to_dict()
    assert analyze_stack_likeness(model, tokens).to_dict() == from_text
    assert analyze_stack_likeness(model, tokens.numpy().tolist()).to_dict() == from_text
    assert analyze_stack_likeness(model, tokens[0]).num_inputs == 1
    drawn = GRAMMAR.to_tokens(GRAMMAR.sample(7, mode="prefix", length=9, seed=5))
    default = analyze_stack_likeness(model, seed=5, num_inputs=7, length=9)
    assert default.to_dict() == analyze_stack_likeness(model, drawn).to_dict()
    assert default.positions == 10


def test_without_start_a_query_that_sees_one_key_is_left_out_and_counted():
    pattern = noise(2, 1, 5)
    inputs = [[0, 2, 3, 0, 1], [2, 2, 3, 3, 0]]
    with pytest.raises(InterpError, match="does not belong there"):  # whoever carries a grammar has START
        analyze_stack_likeness(Stub(fixed(pattern)), inputs)
    stranger = Stub(fixed(pattern), grammar=None)
    result = analyze_stack_likeness(stranger, inputs, grammar=GRAMMAR, task_check=False)
    assert result.excluded == 2
    assert "see one key only: 2 queries" in result.summary()
    assert result.rivals["start"] is None
    assert "START" not in result.summary()
    score = [(pattern[i, 0, q, 0] - 1 / (q + 1)) / (1 - 1 / (q + 1)) for i, q in ((0, 2), (0, 4), (1, 2))]
    assert_close(result.score[0][0].value, ((score[0] + score[1]) / 2 + score[2]) / 2, **WEIGHTS)


def test_inputs_are_streamed_in_chunks_and_the_numbers_stay(several, monkeypatch):
    tokens, patterns, whole = several
    sizes = []

    def layer(index):
        def read(part):
            if part.shape[1] < 15:  # the stub asks how many heads there are
                return patterns[index][:1, :, :2, :2]
            sizes.append(len(part))
            return patterns[index][[np.flatnonzero((tokens == row).all(1))[0] for row in part]]

        return read

    monkeypatch.setattr(probes.stack.analyzer, "MEMORY", 2 * 2 * 3 * 15 * 15)
    assert analyze_stack_likeness(Stub(layer(0), layer(1)), tokens).to_dict() == whole.to_dict()
    assert set(sizes) == {2}


# ---- models and populations ------------------------------------------------------------------------


def config(**changes):
    settings = {"d_model": 12, "d_head": 6, "d_mlp": 9, "pad_token": PAD, "init_std": 0.6, "n_ctx": 32}
    return TransformerConfig(7, **{**settings, **changes})


@pytest.fixture(scope="module")
def population():
    """Eight seeds whose weights are twice what they were before "training"."""
    fresh = Population.init(config(n_heads=2), range(8), GRAMMAR)
    return replace(fresh, params={name: 2 * p for name, p in fresh.params.items()})


def test_population_has_its_interval_over_seeds_by_head_index(population):
    tokens = sampled()
    result = analyze_stack_likeness(population, tokens)
    alone = [analyze_stack_likeness(model, tokens) for model in population]
    fresh = analyze_stack_likeness(population.untrained(), tokens, untrained=False)
    for kind in ("score", "top1", "score_trivial", "top1_trivial"):
        for layer in range(2):
            for head in range(2):
                each = [getattr(r, kind)[layer][head].value for r in alone]
                support = (0, 1) if "top1" in kind else (-1, 1)
                expected, got = mean_over_seeds(each, support=support), getattr(result, kind)[layer][head]
                assert_close((got.value, got.low, got.high), (expected.value, expected.low, expected.high), **WEIGHTS)
                assert (got.n, got.over) == (8, "seeds")
                assert_close(got.null["untrained"], getattr(fresh, kind)[layer][head].value, **WEIGHTS)
                permuted = [getattr(r, kind)[layer][head].null["permuted"] for r in alone]
                assert_close(got.null["permuted"], np.mean(permuted), **WEIGHTS)
    assert_close(result.per_model[1][:, 0], [r.score[1][0].value for r in alone], **WEIGHTS)
    for layer in range(2):
        assert_close(result.best[layer].value, np.mean([r.best[layer].value for r in alone]), **WEIGHTS)
        assert_close(result.best[layer].null["untrained"], fresh.best[layer].value, **WEIGHTS)
    far = [r.by_distance[1][1][4] for r in alone]
    assert_close(result.by_distance[1][1][4], np.mean(far), **WEIGHTS)
    assert_close(result.untrained[1][0].low, fresh.score[1][0].low, **WEIGHTS)
    assert fresh.untrained is None
    assert fresh.score[0][0].null["untrained"] is None


def test_order_of_seeds_changes_nothing(population):
    tokens = sampled()
    one = analyze_stack_likeness(list(population), tokens)
    other = analyze_stack_likeness([population[i] for i in (2, 0, 3, 1, 7, 5, 6, 4)], tokens)
    for a, b in zip([*one.score[1], *one.best], [*other.score[1], *other.best], strict=True):
        assert_close((a.value, a.low, a.high), (b.value, b.low, b.high), **WEIGHTS)
    assert_close(one.per_model[1][2], other.per_model[1][0], **WEIGHTS)


def test_bridge_with_a_grammar_scores_what_our_model_scores():
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    model = SandboxTransformer.init(config(n_heads=2, positions="learned"), 2, GRAMMAR)
    c = model.config
    cfg = TransformerBridgeConfig(
        d_model=c.d_model, d_head=c.d_head, n_heads=c.n_heads, n_layers=c.n_layers, n_ctx=c.n_ctx,
        d_vocab=c.d_vocab, d_mlp=c.d_mlp, act_fn="gelu_new", normalization_type="LN",
    )  # fmt: skip
    bridge = TransformerBridge.boot_native(cfg)
    bridge.load_state_dict(convert_tl_checkpoint(model.state_dict(), cfg))
    ours = analyze_stack_likeness(model, ["(()[]", "([])(", "[([])()"])
    theirs = analyze_stack_likeness(bridge, ["(()[]", "([])(", "[([])()"], grammar=GRAMMAR)
    for a, b in zip(ours.score, theirs.score, strict=True):
        assert_close([e.value for e in a], [e.value for e in b], scale=1, dtype=torch.float32)
    assert max(abs(e.value) for row in ours.score for e in row) > 0.01
    with pytest.raises(AnalysisError, match="no Dyck grammar"):
        analyze_stack_likeness(bridge)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(fails):
    model = SandboxTransformer.init(config(), 1, GRAMMAR)
    before = copy.deepcopy(model.state_dict())
    model.train()
    weight = model.blocks[0].attn.W_Q
    weight.grad = torch.ones_like(weight)
    name = "blocks.1.attn.hook_pattern"
    model.add_hook(name, lambda p, hook: p * torch.nan if fails else p)
    if fails:
        with pytest.raises(AnalysisError, match="not finite"):
            analyze_stack_likeness(model, "(()")
    else:
        analyze_stack_likeness(model, "(()")
    assert model.training
    assert (weight.grad == 1).all()
    assert {n: len(p.fwd_hooks) for n, p in model.hook_dict.items() if p.fwd_hooks} == {name: 1}
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())
    assert torch.is_grad_enabled()


# ---- result ----------------------------------------------------------------------------------------


def test_result_is_json(population, several):
    for result, over in ((analyze_stack_likeness(population, sampled()), "seeds"), (several[2], "inputs")):
        out = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        for kind in ("score", "top1"):
            assert [len(row) for row in out[kind]] == [len(row) for row in result.score]
            estimate = out[kind][1][0]
            assert set(estimate) - {"reason"} == {"value", "low", "high", "n", "over", "null"}
            assert estimate["over"] == over
            assert set(estimate["null"]) == {"uniform", "permuted", "untrained"} | RIVALS
        assert set(out["rivals"]) == RIVALS
        assert out["by_distance"][0][0]["2"] == result.by_distance[0][0][2]
    json.dumps(analyze_stack_likeness(population[0], "(()").to_dict(), allow_nan=False)  # one input, one query


def test_summary_fits_80_columns_and_names_the_rivals(population, several):
    many = analyze_stack_likeness(Stub(*[fixed(noise(6, 6, 15, seed=s)) for s in range(3)]), sampled())
    for result in (analyze_stack_likeness(population, sampled()), several[2], many):
        lines = result.summary().splitlines()
        assert max(map(len, lines)) <= 80
        assert len(lines) < 45
        for words in ("all unmatched open", "all opening brackets at", "most recent opening", "permuted"):
            assert words in result.summary()
    assert "(the 16 highest of 18 heads)" in many.summary()
    highest = max((e.value, f"{i}.{h}") for i, row in enumerate(many.score) for h, e in enumerate(row))[1]
    assert f" {highest} " in many.summary()
    result = analyze_stack_likeness(population, sampled())
    first = result.score[1][1]
    assert f"{first.value:.3f} [{first.low:.3f}, {first.high:.3f}]" in result.summary()


@pytest.mark.slow
def test_figure_shows_every_seed_and_every_line(population):
    result = analyze_stack_likeness(population, sampled())
    fig = result.figure()
    boxes = [trace for trace in fig.data if trace.type == "box"]
    assert [list(box.y) for box in boxes] == [list(result.per_model[at][:, h]) for at in (0, 1) for h in (0, 1)]
    lines = {trace.name for trace in fig.data if trace.type == "scatter" and trace.mode == "lines"}
    assert lines == {"targets permuted among opening brackets", "untrained models"}
    drawn = {round(shape.y0, 6) for shape in fig.layout.shapes}
    assert drawn == {0.0} | {round(v, 6) for v in result.rivals.values()}
    labels = [note.y for note in fig.layout.annotations]
    low, high = fig.layout.yaxis.range
    assert np.diff(sorted(labels)).min() > 0.046 * (high - low)  # no label on another
    mean = next(trace for trace in fig.data if trace.type == "scatter" and trace.mode == "markers")
    assert list(mean.y) == [e.value for row in result.score for e in row]
    one = analyze_stack_likeness(population[0], sampled()).figure()
    assert not [trace for trace in one.data if trace.type == "box"]


# ---- refusals --------------------------------------------------------------------------------------


def test_refusals_name_the_analyzer_and_the_way_out(population):
    model = population[0]

    def refused(match, *args, **kwargs):
        with pytest.raises(InterpError, match=match):
            analyze_stack_likeness(*args, **kwargs)

    refused(r"no Dyck grammar: pass grammar=", SandboxTransformer.init(config(), 0))
    refused("empty population", [])
    refused("function shows no attention: pass a SandboxTransformer", lambda tokens: tokens)
    both = SandboxTransformer.init(config(direction="bidirectional"), 0, GRAMMAR)
    refused("later keys.*causal attention", both)
    refused("later keys", Stub(lambda tokens: uniform(tokens)[..., ::-1].copy()), "(()")
    refused(r"no input has a closing bracket at depth 1 or more.*'\(\(\)'", model, ["()", "(("])
    refused("max_depth=1 allows none", model, grammar=DyckGrammar(2, 1))
    refused("num_inputs=0 is not a whole number of at least 1", model, num_inputs=0)
    refused("num_inputs=3 changes nothing here: inputs are given", model, "(()", num_inputs=3)
    refused(r"text '\(\]' position 1: '\]' does not close '\('", model, ["(())", "(]"])
    refused(r"row 1, position 3: '\]' closes nothing", model, torch.tensor([[4, 0, 0, 1], [4, 0, 1, 3]]))
    refused("'START' does not belong there", model, [[4, 0, 4, 1]])
    refused(r"row 0, position 3: '\(' does not belong there", model, [[4, 0, PAD, 0]])
    refused("neither texts nor token ids of one length", model, [[4, 0, 0, 1], [4, 0]])
    refused("whole numbers", model, np.zeros((1, 3)))
    refused("token id 8, and the model knows ids 0 to 6", model, [[4, 0, 0, 8]])
    refused("has 11 tokens, and the model 7", model, "(()", grammar=DyckGrammar(4, 4))
    other = SandboxTransformer.init(config(n_layers=1), 0, GRAMMAR)
    refused("model 1 has n_layers=1 and model 0 2", [model, other], "(()")


def test_the_best_head_of_one_input_is_undefined_over_as_many_as_there_are():
    population = load_checkpoint("dyck-standard")[:3]
    for models, n, over in ((population, 3, "seeds"), (population[0], 1, "inputs")):
        best = analyze_stack_likeness(models, "([])", untrained=False).best[0]
        assert (best.value, best.n, best.over) == (None, n, over)


@pytest.mark.parametrize("apart", ["all equal", "two and two", "all different"])
def test_labels_of_rivals_fit_beside_the_panel_and_none_lies_on_another(apart):
    """Rivals of one value share a label, which may hold all their names; its value is always there."""
    at = {"all equal": [-0.0499] * 6, "two and two": [0.5, 0.5, 0.3, 0.3, -1e-9, 0.02], "all different": range(6)}[
        apart
    ]
    rivals = dict(zip(NAMES, map(float, at), strict=True))
    estimate = Estimate(0.4, 0.3, 0.5, 8, "seeds", null={"permuted": 0.1, "untrained": None})
    fig = stack_figure(
        [[estimate]], rivals=rivals, per_model=[np.full((8, 1), 0.4)], num_models=8, num_inputs=3, queries=9
    )
    labels = [note for note in fig.layout.annotations if note.xref == "paper"]
    lines = [line for label in labels for line in label.text.split("<br>")]
    assert max(map(len, lines)) * 7 <= fig.layout.margin.r
    told = [" ".join(label.text.split("<br>")) for label in labels]
    assert told == [f"{words} {number(value, 2)}" for words, value in [*merged(rivals), ("every visible key", 0.0)]]
    assert not any(re.search(r" -0(\.0*)?$", text) for text in told)
    low, high = fig.layout.yaxis.range
    taken = sorted((label.y, 0.047 * (high - low) * len(label.text.split("<br>")) / 2) for label in labels)
    assert all(b - a >= (half + more) * (1 - 1e-9) for (a, half), (b, more) in itertools.pairwise(taken))
