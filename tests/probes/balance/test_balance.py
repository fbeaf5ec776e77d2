"""Balance violation against a slow literal reading of the paper, hand-worked cases and invariances."""

import itertools
import json
import re
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import probes.balance
from closeness import assert_close
from interp import load_checkpoint
from interp.errors import AnalysisError, RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import make_recipe
from probes.balance.analyzer import _check_depth, _counts, balance_tables
from probes.balance.insertions import _nests, insertions, rows_at_once
from probes.balance.table import StateVectors, _condition, balance_table, head_states

# Most models here are untrained or stubs: whether they close brackets is not the question.
analyze_balance = partial(probes.balance.analyze_balance, task_check=False)


def random_minimal(k, depth, seed=0, **options):
    """A minimal-first-layer model with random weights of size 1, biases included."""
    recipe = make_recipe("dyck-minimal", {"k": k, "depth": depth, "width": 6, **options})
    model = SandboxTransformer(recipe.config, recipe.grammar)
    rng = np.random.default_rng(seed)
    state = {n: torch.from_numpy(rng.normal(size=tuple(p.shape))).float() for n, p in model.named_parameters()}
    model.load_state_dict(state)
    return model


def literal(model):
    """|S| [d, d', i, j], P [d, j] and beta, read word for word from eqs. 12, 31-33 in float64."""
    k, depth = model.config.num_types, model.config.max_depth
    attn = model.blocks[0].attn
    w_q, w_k, w_v = (getattr(attn, f"W_{x}")[0].detach().double().numpy() for x in "QKV")
    b_q, b_k, b_v = (getattr(attn, f"b_{x}")[0].detach().double().numpy() for x in "QKV")

    def e(token, pair_depth):  # eq. 15; both partners carry the pair's depth
        x = np.zeros(2 * k * depth + 1)
        x[-1 if token == "START" else token * depth + pair_depth - 1] = 1.0
        return x

    def u(key, query):
        score = (e(*query) @ w_q + b_q) @ (e(*key) @ w_k + b_k) / np.sqrt(w_q.shape[1])
        value = np.exp(score) * (e(*key) @ w_v + b_v)
        return value - value.mean()

    s, p = np.zeros((depth, depth, k, k)), np.full((depth, k), np.nan)
    released = []
    for d, j in itertools.product(range(1, depth + 1), range(k)):
        query = (2 * j + 1, d)
        for d2, i in itertools.product(range(1, depth + 1), range(k)):
            s[d - 1, d2 - 1, i, j] = np.linalg.norm(u((2 * i, d2), query) + u((2 * i + 1, d2), query))
        if d == 1:
            continue
        norms = {}
        for stack in itertools.product(range(k), repeat=d - 1):
            q = u(("START", 0), query) + u((2 * j, d), query) + u((2 * j + 1, d), query)
            q = q + sum(u((2 * t, level), query) for level, t in enumerate(stack, start=1))
            norms[stack] = np.linalg.norm(q)
        t = min(norms, key=norms.get)
        p[d - 1, j] = min(n for stack, n in norms.items() if stack[-1] != t[-1])
        released.append(s[d - 1, :, :, j].max() / norms[t])
    ratios = [s[d, d2, i, j] / p[d, j] for d in range(1, depth) for d2 in range(depth) for i, j in np.ndindex(k, k)]
    return s, p, float(np.mean(ratios)), float(np.mean(released))


@pytest.mark.parametrize(("k", "depth"), [(2, 2), (2, 4), (3, 3)])
def test_tables_equal_the_literal_definition(k, depth):
    model = random_minimal(k, depth)
    s, p, beta, released = literal(model)
    (head,) = head_states(in_double(model), 0, model.grammar, num_inputs=5)
    table = balance_table(head.vectors)
    # The library divides every u of a query by exp(its largest score): S and P alike.
    np.testing.assert_allclose(table.ratio[1:], s[1:] / p[1:, None, None, :], rtol=1e-9)
    assert_close(table.s_norm / table.s_norm.max((1, 2), keepdims=True), s / s.max((1, 2), keepdims=True))
    assert table.beta == pytest.approx(beta, rel=1e-9)
    assert table.released == pytest.approx(released, rel=1e-9)
    assert_close(head.explained, 1)


@pytest.mark.parametrize(("length", "together"), [(9, 2**23), (3, 1)])  # longer and shorter than the covering strings
def test_states_are_the_literal_means_over_their_occurrences(length, together, monkeypatch):
    """Layer 1 of a model whose states are no single vectors: means, scores, values and the share explained."""
    monkeypatch.setattr("probes.balance.table.CELLS", together)
    recipe = make_recipe("dyck-standard", {"heads": 2, "width": 8, "k": 3, "depth": 3})
    model, grammar = in_double(SandboxTransformer.init(recipe.config, 0, recipe.grammar)), recipe.grammar
    sampled = grammar.sample(6, seed=4, mode="prefix", length=length, stream="balance").tolist()
    cover = [[2 * t] * 3 + [2 * t + 1] * 3 for t in range(3)]
    seen = {}  # (what, head) -> state -> its vectors; a state is START, or (type, whether it closes, depth of its pair)
    for string in [*sampled, *cover]:
        cache = model.run_with_cache(torch.tensor([[grammar.start, *string]]))[1]
        depth, states = 0, ["START"]
        for token in string:
            closes = token % 2
            depth += 1 - 2 * closes
            states.append((token // 2, closes, depth + closes))
        for what, head in itertools.product("qkv", range(2)):
            at = seen.setdefault((what, head), {})
            for state, vector in zip(states, cache[what, 1][0, :, head].numpy(), strict=True):
                at.setdefault(state, []).append(vector)
    heads = head_states(model, 1, grammar, num_inputs=6, length=length, seed=4)
    silent = SimpleNamespace(attn=SimpleNamespace(W_O=model.blocks[1].attn.W_O))  # says no scale: the root of the width
    guest = SimpleNamespace(
        hook_dict=model.hook_dict, cfg=model.cfg, blocks=[None, silent], run_with_cache=model.run_with_cache
    )
    unsaid = head_states(guest, 1, grammar, num_inputs=6, length=length, seed=4)
    for head, (found, again) in enumerate(zip(heads, unsaid, strict=True)):
        groups = [group for what in "qkv" for group in seen[what, head].values()]
        within = sum(((x - np.mean(group, 0)) ** 2).sum() for group in groups for x in group)
        every = [np.concatenate(list(seen[what, head].values())) for what in "qkv"]
        assert found.explained == pytest.approx(1 - within / sum(((x - x.mean(0)) ** 2).sum() for x in every))
        q, k, v = ({state: np.mean(group, 0) for state, group in seen[what, head].items()} for what in "qkv")
        root, out = np.sqrt(len(q["START"])), model.blocks[1].attn.W_O[head].detach().numpy()
        for j, d in np.ndindex(3, 3):
            query = q[j, 1, d + 1]
            assert found.vectors.start_score[j, d] == pytest.approx(query @ k["START"] / root)
            for i, d2 in np.ndindex(3, 3):
                assert found.vectors.open_score[j, d, i, d2] == pytest.approx(query @ k[i, 0, d2 + 1] / root)
                assert found.vectors.close_score[j, d, i, d2] == pytest.approx(query @ k[i, 1, d2 + 1] / root)
        for i, d2 in np.ndindex(3, 3):
            assert found.vectors.open_value[i, d2] == pytest.approx(v[i, 0, d2 + 1] @ out)
            assert found.vectors.close_value[i, d2] == pytest.approx(v[i, 1, d2 + 1] @ out)
        assert found.vectors.start_value == pytest.approx(v["START"] @ out)
        assert_close(again.vectors.open_score, found.vectors.open_score)


def in_double(model):
    """The same model in float64."""
    copy = SandboxTransformer(model.config, model.grammar)
    copy.load_state_dict(model.state_dict())
    return copy.double()


def hand_made(pair_error, k=2, depth=2):
    """Uniform attention; openers write orthonormal centred vectors b, their closers -(1 - error) b, START nothing."""
    basis = np.eye(2 * k * depth)
    basis = np.stack([basis[2 * n] - basis[2 * n + 1] for n in range(k * depth)]) / np.sqrt(2)  # orthonormal, mean 0
    opened = basis.reshape(k, depth, -1)
    zeros = np.zeros((k, depth, k, depth))
    return StateVectors(zeros, zeros, np.zeros((k, depth)), opened, -(1 - pair_error) * opened, np.zeros(2 * k * depth))


@pytest.mark.parametrize("error", [0.0, 0.1, 0.5])
def test_hand_worked_two_types_depth_two(error):
    """Every |S| is the error. Q(j, 2, t) = b(t, 1) + error b(j, 2), of norm sqrt(1 + error^2) for both t; so is P."""
    table = balance_table(hand_made(error))
    assert_close(table.s_norm, error, ulps=8, scale=1)
    assert_close(table.p[1], np.sqrt(1 + error**2), ulps=8)
    assert_close(table.beta, error / np.sqrt(1 + error**2), ulps=8, scale=1)


def test_p_is_the_second_smallest_over_top_types_not_over_stacks():
    """Type 0 at depth 1 writes little, so the two least stacks share its... top: P must skip to the other top type."""
    states = hand_made(0.2, k=2, depth=3)
    opened = states.open_value.copy()
    opened[0, 1] *= 0.1  # on top at d = 3: stacks (0, 0) and (1, 0) are the two smallest
    table = balance_table(StateVectors(*[getattr(states, n) for n in ("open_score", "close_score", "start_score")],
                                       opened, states.close_value, states.start_value))  # fmt: skip
    # Least stack ending in type 1 at d = 3: b(., 1) + b(1, 2) + own pair; own pair is 0.2 b(j, 3).
    assert_close(table.p[2], np.sqrt(1 + 1 + 0.04), ulps=8)


def test_a_stack_that_writes_nothing_leaves_beta_undefined():
    """Pairs cancel and type 0 writes nothing at depth 1: the stack (0) gives |Q| = 0, though P, of stack (1), is 1."""
    states = hand_made(0.0)
    opened = states.open_value.copy()
    opened[0, 0] = 0
    table = balance_table(replace(states, open_value=opened, close_value=-opened))
    assert (table.beta, table.released) == (None, None)
    assert "P is 0" in table.reason
    assert_close(table.p[1], 1)


@pytest.mark.parametrize(("k", "depth", "stacks"), [(2, 3, 4), (3, 2, 3), (2, 2, 2)])
def test_stacks_are_counted_before_they_are_built(k, depth, stacks, monkeypatch):
    """P is a minimum over k^(D-1) stacks: as many as the bound are built, one more is said to be too many."""
    states = hand_made(0.1, k, depth)
    monkeypatch.setattr("probes.balance.table.MAX_STACKS", stacks)
    assert balance_table(states).beta is not None
    monkeypatch.setattr("probes.balance.table.MAX_STACKS", stacks - 1)
    table = balance_table(states)
    assert (table.beta, table.released) == (None, None)
    assert f"{k}^{depth - 1} stacks" in table.reason
    assert table.s_norm.shape == table.ratio.shape == (depth, depth, k, k)
    assert table.p.shape == (depth, k)


@pytest.mark.parametrize("field", [f.name for f in fields(StateVectors)])
def test_states_that_are_not_finite_are_undefined_not_nan(field):
    states = hand_made(0.1)
    broken = getattr(states, field).copy()
    broken.flat[-1] = np.nan
    table = balance_table(replace(states, **{field: broken}))
    assert (table.beta, table.released) == (None, None)
    assert "not finite" in table.reason


def shifted(states, **changes):
    return replace(states, **changes)


def test_invariances():
    model = random_minimal(2, 3)
    states = head_states(in_double(model), 0, model.grammar, num_inputs=5)[0].vectors
    beta = balance_table(states).beta
    rng = np.random.default_rng(1)
    values = ("open_value", "close_value", "start_value")
    same = [
        shifted(states, **{n: getattr(states, n) + 7.0 for n in values}),  # P_perp removes a constant
        shifted(states, **{n: getattr(states, n) * 3.0 for n in values}),
        shifted(  # a constant a query leaves the pattern alone
            states,
            open_score=states.open_score + (c := rng.normal(size=(2, 3)) * 50)[:, :, None, None],
            close_score=states.close_score + c[:, :, None, None],
            start_score=states.start_score + c,
        ),
    ]
    for other in same:
        assert balance_table(other).beta == pytest.approx(beta, rel=1e-9)
    changed = shifted(states, close_value=states.close_value * 1.5)
    assert balance_table(changed).beta != pytest.approx(beta, rel=1e-3)


def test_condition_is_zero_where_openers_and_closers_score_alike_and_one_where_independent():
    k, depth = 3, 4
    rng = np.random.default_rng(0)
    opened, closed = rng.normal(size=(2, 4000, 1, k, depth))
    values = rng.normal(size=(2, k, depth, 8))

    def residual(a, b):
        return balance_table(StateVectors(a, b, np.zeros(a.shape[:2]), *values, np.zeros(8))).condition

    # `balance_table` needs [k, D] queries: reshape a long list of random queries into many "types".
    states = StateVectors(opened, closed, np.zeros((4000, 1)), *values, np.zeros(8))
    assert _condition(states) == pytest.approx(1.0, rel=0.05)
    small = rng.normal(size=(k, depth, k, depth))
    assert_close(residual(small, small + rng.normal(size=(k, depth))) ** 0.5, 0, scale=1)  # a mean square
    assert residual(np.zeros_like(small), np.zeros_like(small)) == 0.0


@pytest.mark.parametrize(("k", "depth"), [(1, 3), (3, 1)])
def test_without_a_second_stack_beta_is_undefined_and_says_so(k, depth):
    result = analyze_balance(random_minimal(k, depth), num_inputs=5, length=6, untrained=False)
    assert result.beta.value is None
    assert "two types and depth 2" in str(result.beta.reason)
    json.dumps(result.to_dict(), allow_nan=False)


def test_values_of_zero_are_undefined_not_nan():
    model = random_minimal(2, 2)
    with torch.no_grad():
        model.blocks[0].attn.W_V.zero_()
        model.blocks[0].attn.b_V.zero_()
    result = analyze_balance(model, num_inputs=5, length=6)
    assert result.beta.value is None
    assert "P is 0" in str(result.beta.reason)


def test_functional_form_of_callables_with_known_answers():
    grammar = DyckGrammar(2, 3)
    calls = []

    def blind(tokens):  # sees the current token only: inserting pairs before it changes nothing
        calls.append(tokens.shape)
        return torch.nn.functional.one_hot(tokens, grammar.vocab_size).double()

    rows, unrelated = insertions(blind, grammar, [1, 2, 5], num_inputs=6, length=8)
    assert all((row.tv == 0).all() and (row.mse == 0).all() for row in rows)
    assert unrelated > 0
    assert [shape[1] for shape in calls] == [9, 11, 13, 19]

    def counting(tokens):  # logit of token 0 grows by 1 a position: 2r inserted tokens add 2r
        logits = torch.zeros(*tokens.shape, grammar.vocab_size, dtype=torch.float64)
        logits[..., 0] = torch.arange(tokens.shape[1])
        return logits

    (row,), _ = insertions(counting, grammar, [2], num_inputs=3, length=8)
    assert_close(row.mse, 4**2 / grammar.vocab_size)
    expected = np.mean([_first(n + 4) - _first(n) for n in range(1, 9)])
    np.testing.assert_allclose(row.tv, expected, rtol=1e-6)
    result = analyze_balance(counting, grammar=grammar, num_inputs=3, length=8)
    assert result.beta.value is None
    assert result.functional.over == "inputs"


def test_the_violation_is_averaged_over_one_to_depth_pairs():
    """r pairs before a string add 2r to the logit of token 0. Of all counts that are shown, r <= D are averaged."""
    grammar = DyckGrammar(2, 3)

    def counting(tokens):
        logits = torch.zeros(*tokens.shape, grammar.vocab_size, dtype=torch.float64)
        logits[..., 0] = torch.arange(tokens.shape[1])
        return logits

    def moved(pairs):  # after each of four tokens, the first of which stands at 1
        return np.mean([_first(n + 2 * pairs) - _first(n) for n in range(1, 5)])

    def alike(tokens):
        return torch.zeros(*tokens.shape, grammar.vocab_size, dtype=torch.float64)

    one = analyze_balance(counting, grammar=grammar, num_inputs=4, length=4)
    assert {pairs: e.value for pairs, e in one.by_count.items()} == pytest.approx(
        {pairs: moved(pairs) for pairs in (1, 2, 3, 6, 12, 24)}
    )
    tv = (moved(1) + moved(2) + moved(3)) / 3
    square = (2**2 + 4**2 + 6**2) / 3 / grammar.vocab_size
    assert (one.functional.value, one.functional.low, one.functional.high) == pytest.approx((tv, tv, tv))
    assert (one.functional.null, one.functional.n, one.contrastive.value) == pytest.approx((0, 4, square))
    assert (one.table.shape, one.to_dict()["table"]) == ((0, 0, 0, 0), [])  # a callable shows no states
    two = analyze_balance([counting, alike], grammar=grammar, num_inputs=3, length=4)
    assert (two.functional.value, two.contrastive.value) == pytest.approx((tv / 2, square / 2))
    assert (two.functional.low, two.contrastive.low) == (None, None)  # two models are too few
    four = analyze_balance([counting, alike] * 2, grammar=grammar, num_inputs=3, length=4)
    half = 3.1824463 * np.std([0, 0, 1, 1], ddof=1) / 2 / 0.5  # a relative error, Student's t on three degrees
    assert four.contrastive.high == pytest.approx(square / 2 * np.exp(half))
    assert 0 < four.functional.low < tv / 2 < four.functional.high < 1
    assert (two.functional.over, two.functional.n, two.by_count[6].over) == ("seeds", 2, "seeds")


@pytest.mark.parametrize("together", [1, 10**9])
def test_insertions_equal_the_literal_definition(together, monkeypatch):
    """Token by token, for logits that mix what was read so far and where it stands; read one by one or all at once."""
    monkeypatch.setattr("probes.balance.insertions.CELLS", together)
    grammar, inputs, length = DyckGrammar(2, 3), 4, 6
    weight = torch.from_numpy(np.random.default_rng(0).normal(size=(2, grammar.vocab_size, grammar.vocab_size)))
    runs = []

    def logits(tokens, by=0):
        runs.append(len(tokens))
        places = torch.arange(tokens.shape[1]) + by
        return weight[0][tokens].cumsum(1) + weight[1][places % grammar.vocab_size]

    def softmax(x):
        return np.exp(x) / np.exp(x).sum()

    def gaps(one, other):  # (total variation, mean square) of two rows of logits [length, vocabulary]
        tv = [sum(abs(softmax(a) - softmax(b))) / 2 for a, b in zip(one, other, strict=True)]
        return np.mean(tv), np.mean([(a - b) ** 2 for a, b in zip(one, other, strict=True)])

    rows, unrelated = insertions(
        logits, grammar, [1, 4], num_inputs=inputs, length=length, seed=3, shifted=lambda tokens, by: logits(tokens, by)
    )
    assert max(runs) == (1 if together == 1 else inputs)
    strings = grammar.sample(inputs, seed=3, mode="prefix", length=length, stream="insertions").tolist()

    def after(string, nest=(), by=0):
        return logits(torch.tensor([[grammar.start, *nest, *string]]), by)[0, -length:].numpy()

    plain = [after(string) for string in strings]
    assert unrelated == pytest.approx(np.mean([gaps(plain[i], plain[i - 1])[0] for i in range(inputs)]))
    for row, pairs in zip(rows, (1, 4), strict=True):
        nests = _nests(grammar, inputs, pairs, 3).tolist()
        expected = [gaps(plain[i], after(strings[i], nests[i])) for i in range(inputs)]
        assert row.pairs == pairs
        assert row.tv == pytest.approx([tv for tv, _ in expected])
        assert row.mse == pytest.approx([mse for _, mse in expected])
        assert row.shift == pytest.approx([gaps(plain[i], after(strings[i], by=2 * pairs))[0] for i in range(inputs)])


def _first(logit):
    """Softmax share of one logit among seven tokens, the others 0."""
    return np.exp(logit) / (np.exp(logit) + 6)


def test_inserted_nests_are_balanced_and_within_depth():
    grammar = DyckGrammar(3, 3)
    for pairs in (1, 3, 4, 7):
        nests = _nests(grammar, 20, pairs, 0)
        assert nests.shape == (20, 2 * pairs)
        depth = grammar.depth(nests)  # raises unless every closer matches and the bound holds
        full, rest = divmod(pairs, 3)
        expected = [1, 2, 3, 2, 1, 0] * full + [*range(1, rest + 1), *range(rest - 1, -1, -1)][: 2 * rest]
        assert depth.tolist() == [expected] * 20
        assert set(nests.ravel().tolist()) == set(range(6))  # every type, and each row draws its own
        assert (_nests(grammar, 20, pairs, 1) != nests).any()


def test_population_interval_and_untrained_null():
    recipe = make_recipe("dyck-minimal", {"k": 2, "depth": 2, "width": 8})
    population = Population.init(recipe.config, range(4), recipe.grammar)
    result = analyze_balance(population, num_inputs=5, length=6)
    assert result.beta.n == 4
    assert result.beta.over == "seeds"
    assert result.beta.null == pytest.approx(result.beta.value)  # it *is* untrained
    assert result.exact
    assert result.norm_on_output
    json.dumps(result.to_dict(), allow_nan=False)
    assert all(len(line) <= 110 for line in result.summary().splitlines())
    assert len(result.figure().data) == 2


def test_empirical_form_says_how_far_from_exact_and_that_beta_is_not_the_headline():
    recipe = make_recipe("dyck-standard", {"heads": 2, "width": 8, "positions": "linear"})
    model = SandboxTransformer.init(recipe.config, 0, recipe.grammar)
    result = analyze_balance(model, num_inputs=5, length=10)
    assert result.beta.value is None  # two heads
    assert len(result.by_head) == 2
    assert not result.norm_on_output
    assert 0 < result.explained < 1
    assert set(result.shift_control) == set(result.by_count)


def test_a_result_gathers_what_its_models_gave():
    """Two models of two heads with positions: tables by head, means over models, and positions moved by 2r."""
    recipe = make_recipe("dyck-standard", {"heads": 2, "width": 8, "depth": 2, "positions": "linear"})
    models = [SandboxTransformer.init(recipe.config, seed, recipe.grammar) for seed in (0, 1)]
    result = analyze_balance(models, num_inputs=4, length=6, layer=0, seed=3)
    states = [head_states(in_double(m), 0, recipe.grammar, seed=3) for m in models]
    tables = [[balance_table(head.vectors) for head in heads] for heads in states]
    for head in range(2):
        assert result.by_head[head].value == pytest.approx(np.mean([t[head].beta for t in tables]))
    firsts = [t[0] for t in tables]
    assert result.released.value == pytest.approx(np.mean([t.released for t in firsts]))
    assert result.condition.value == pytest.approx(np.mean([t.condition for t in firsts]))
    assert result.per_model == pytest.approx([t.beta for t in firsts])
    assert_close(result.table, np.mean([t.ratio for t in firsts], axis=0))
    assert result.explained == pytest.approx(np.mean([h.explained for heads in states for h in heads]))
    assert (result.layer, result.num_models, result.exact, result.beta.n) == (0, 2, False, 2)
    assert result.by_head[0].over == result.released.over == result.condition.over == "seeds"
    strings = recipe.grammar.sample(4, seed=3, mode="prefix", length=6, stream="insertions").astype(np.int64)
    tokens = torch.from_numpy(np.insert(strings, 0, recipe.grammar.start, axis=1))
    for pairs, shift in result.shift_control.items():
        places = torch.tensor([[0, *range(1 + 2 * pairs, 7 + 2 * pairs)]])  # START stays
        with torch.no_grad():
            gaps = [m(tokens).softmax(-1) - m(tokens, positions=places).softmax(-1) for m in models]
        assert shift.value == pytest.approx(np.mean([float(g[:, 1:].abs().sum(-1).mean() / 2) for g in gaps]), rel=1e-4)
    alone = analyze_balance(models[1], num_inputs=4, length=6, seed=3, untrained=False)
    assert alone.layer == recipe.config.n_layers - 1  # the last one, where none is asked for
    other = analyze_balance(models[0], num_inputs=4, length=6, seed=3, untrained=False)
    for pairs, each in result.by_count.items():
        assert each.value == pytest.approx((other.by_count[pairs].value + alone.by_count[pairs].value) / 2)


@pytest.mark.parametrize(("room", "length"), [(None, 28), (100, 28), (29, 28), (28, 27), (10, 9)])
@pytest.mark.parametrize("kind", ["ours", "guest"])
def test_states_are_read_in_float64_from_strings_that_fit(kind, room, length, monkeypatch):
    """Of our own models a float64 copy is read; a guest cannot be rebuilt, and is read as it is."""
    asked = []

    def record(model, layer, grammar, *, seed, length):
        asked.append((model, layer, seed, length))
        return head_states(model, layer, grammar, seed=seed, length=length)

    class Guest(SandboxTransformer):
        pass

    recipe = make_recipe("dyck-standard", {"heads": 2, "width": 8, "depth": 2})
    model = (SandboxTransformer if kind == "ours" else Guest).init(recipe.config, 0, recipe.grammar)
    monkeypatch.setattr("probes.balance.analyzer.head_states", record)
    monkeypatch.setattr("probes.balance.analyzer.longest_input", lambda model: room)
    tables, explained = balance_tables(model, 1, recipe.grammar, 6)
    ((read, *how),) = asked
    assert how == [1, 6, length]
    assert (read is model) == (kind == "guest")
    assert read.W_Q.dtype == (torch.float32 if read is model else torch.float64)
    assert_close(read.W_Q, model.W_Q, dtype=torch.float32)
    assert model.W_Q.dtype == torch.float32
    heads = head_states(read, 1, recipe.grammar, seed=6, length=length)
    assert explained == pytest.approx(np.mean([head.explained for head in heads]))
    assert len(tables) == 2


def test_long_strings_are_read_few_at_a_time(monkeypatch):
    monkeypatch.setattr("probes.balance.insertions.CELLS", 2800)
    assert [rows_at_once(count, 20) for count in (100, 8, 7, 5)] == [7, 7, 7, 5]
    assert (rows_at_once(100, 53), rows_at_once(100, 52), rows_at_once(100, 37)) == (1, 1, 2)


@pytest.mark.parametrize("room", [None, 1000, 41, 40, 25, 24, 17, 16])
def test_as_many_pairs_are_inserted_as_the_model_has_room_for(room, monkeypatch):
    """D = 4: START, r pairs and 8 brackets are 9 + 2r tokens; r = 1..4 must fit, 8, 16 and 32 may."""
    monkeypatch.setattr("probes.balance.analyzer.longest_input", lambda model: room)
    if room == 16:
        with pytest.raises(AnalysisError, match=r"n_ctx=16 has no room .*\(17 tokens\): length=7 is the longest"):
            _counts(None, DyckGrammar(2, 4), 8)
        return
    fits = [c for c in (1, 2, 3, 4, 8, 16, 32) if room is None or 9 + 2 * c <= room]
    assert _counts(None, DyckGrammar(2, 4), 8) == fits


@pytest.mark.parametrize(("room", "cure"), [(10, "length=1 is the longest"), (9, "no length fits")])
def test_what_never_fits_is_said(room, cure, monkeypatch):
    monkeypatch.setattr("probes.balance.analyzer.longest_input", lambda model: room)
    with pytest.raises(AnalysisError, match=cure):
        _counts(None, DyckGrammar(2, 4), 8)


def test_refusals_name_the_analyzer_and_the_way_out():
    recipe = make_recipe("dyck-standard", {"width": 8})
    with pytest.raises(AnalysisError, match=r"balance.*grammar="):
        analyze_balance(SandboxTransformer.init(recipe.config, 0))
    with pytest.raises(AnalysisError, match=r"balance.*empty"):
        analyze_balance([])
    for wrong in ({"num_inputs": 1}, {"length": 0}):
        with pytest.raises(RequestError, match=next(iter(wrong))):
            analyze_balance(SandboxTransformer.init(recipe.config, 0, recipe.grammar), **wrong)
    with pytest.raises(RequestError, match=r"layer=5: this model has layers 0..1"):
        analyze_balance(SandboxTransformer.init(recipe.config, 0, recipe.grammar), layer=5)
    both = SandboxTransformer.init(replace(recipe.config, direction="bidirectional"), 0, recipe.grammar)
    with pytest.raises(AnalysisError, match="causal"):
        analyze_balance(both)


def test_the_model_is_left_as_it_was():
    model = random_minimal(2, 2)
    before = {n: p.clone() for n, p in model.state_dict().items()}
    model.train()
    model.blocks[0].attn.W_Q.grad = torch.ones_like(model.blocks[0].attn.W_Q)
    model.add_hook("blocks.0.attn.hook_z", lambda z, hook: z)
    analyze_balance(model, num_inputs=3, length=4)
    assert model.training
    assert (model.blocks[0].attn.W_Q.grad == 1).all()
    assert len(model.hook_dict["blocks.0.attn.hook_z"].fwd_hooks) == 1
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())


def test_the_model_of_another_depth_is_named():
    def made(depth, seeds):
        recipe = make_recipe("dyck-standard", {"width": 8, "depth": depth})
        return Population.init(recipe.config, range(seeds), recipe.grammar)

    four, three = made(4, 2), made(3, 2)
    grammar = DyckGrammar(2, 4)
    for models in (four, list(four), [four[0]]):
        _check_depth(models, grammar)
    for models, name in (
        ([four[0], three[0]], "model 1"),
        ([three[0], four[0]], "model 0"),
        ([three[0]], "the model"),
        (three, "model 0"),
        (made(3, 1), "the model"),
    ):
        with pytest.raises(RequestError, match=f"max_depth=4, and {name} was made for max_depth=3: pass grammar="):
            _check_depth(models, grammar)


@pytest.mark.parametrize("depth", [1, 3, 9])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.slow
def test_a_grammar_of_another_depth_than_the_models_is_refused(depth, several):
    population = load_checkpoint("dyck-standard")
    for model in (population[:2], list(population[:2])) if several else (population[0],):
        with pytest.raises(RequestError) as error:
            analyze_balance(model, grammar=DyckGrammar(2, depth), num_inputs=4, length=6)
        said = str(error.value)
        assert f"max_depth={depth}" in said
        assert "was made for max_depth=4: pass grammar=DyckGrammar(" in said
        assert "\n" not in said
    own = replace(population.grammar, open_prob=0.4)  # another law of the same depth is another sample
    assert analyze_balance(population[0], grammar=own, num_inputs=4, length=6, untrained=False).beta.value is not None


@pytest.mark.parametrize(("heads", "seeds"), [(1, 4), (2, 4), (4, 1), (20, 4)])
def test_beta_of_every_head_stands_in_the_summary(heads, seeds):
    recipe = make_recipe("dyck-standard", {"heads": heads, "width": 20, "depth": 2})
    population = Population.init(recipe.config, range(seeds), recipe.grammar)
    result = analyze_balance(population, num_inputs=4, length=6, task_check=False)
    lines = result.summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(result.by_head) == heads
    assert all(e.null == pytest.approx(e.value) for e in result.by_head)  # each head beside itself: it *is* untrained
    if heads == 1:
        assert result.beta == result.by_head[0]
        assert not any("by_head" in line for line in lines)
        return
    assert result.beta.null is None  # no head's is that of all
    rows = {int(found[1]): found[2] for line in lines if (found := re.match(r" +(\d+)  (.*)", line))}
    lowest = sorted(range(heads), key=lambda head: result.by_head[head].value)[:16]
    assert sorted(rows) == sorted(lowest)
    for head, row in rows.items():
        e = result.by_head[head]
        assert row.startswith(f"{e.value:.3f} {'[no interval]' if seeds == 1 else f'[{e.low:.3f}, {e.high:.3f}]'}")
        assert row.endswith(f" {e.null:.3f}")
    assert (f"(the 16 lowest of {heads} heads)" in result.summary()) == (heads > 16)
