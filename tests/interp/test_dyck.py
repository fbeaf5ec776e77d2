"""DyckGrammar against literal, slow definitions: enumeration, a stack machine, rejection."""

import functools
import itertools
import json
import math

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import GrammarError, InterpError
from interp.grammars import CopyGrammar, grammar_from_dict
from interp.rng import generator
from interp.worlds.dyck import law as laws
from interp.worlds.dyck.grammar import DyckGrammar

# ---- slow references, written from the definitions -------------------------------------------------


def run_stack(grammar, tokens):
    """Per token (depth, partner, top, unmatched openers), or None if the tokens break the grammar."""
    stack, rows, partner = [], [], [-1] * len(tokens)
    for i, token in enumerate(tokens):
        if token < 2 * grammar.num_types:
            if token % 2 == 0:
                stack.append(i)
                if len(stack) > grammar.max_depth:
                    return None
            else:
                if not stack or tokens[stack[-1]] != token - 1:
                    return None
                partner[i] = stack[-1]
                partner[stack.pop()] = i
        rows.append((len(stack), stack[-1] if stack else -1, list(stack)))
    return rows, partner


def step_law(grammar, stack, complete):
    """{token: probability} of the next token, unbounded law, "end" for END."""
    k, q, top = grammar.num_types, grammar.open_prob, grammar.max_depth
    opens = q if stack else 1 - (grammar.end_prob if complete else 0)
    opens = 0.0 if len(stack) == top else opens
    law = {2 * t: opens / k for t in range(k) if opens > 0}
    if stack:
        law[stack[-1] + 1] = 1 - opens
    elif complete:
        law["end"] = grammar.end_prob
    return law


def enumerate_prefixes(grammar, length):
    """{tuple of ids: probability} of all prefixes of `length`."""
    level = {(): (1.0, ())}
    for _ in range(length):
        level = {
            (*string, token): (p * x, (*stack, token) if token % 2 == 0 else stack[:-1])
            for string, (p, stack) in level.items()
            for token, x in step_law(grammar, stack, complete=False).items()
        }
    return {string: p for string, (p, _) in level.items()}


def enumerate_complete(grammar, low, high):
    """{tuple of ids: probability}: run the process with END, keep low..high brackets, renormalise."""
    found, level = {}, {(): (1.0, ())}
    for size in range(high + 1):
        following = {}
        for string, (p, stack) in level.items():
            for token, x in step_law(grammar, stack, complete=True).items():
                if token == "end":
                    if size >= low:
                        found[string] = p * x
                else:
                    deeper = (*stack, token) if token % 2 == 0 else stack[:-1]
                    following[(*string, token)] = (p * x, deeper)
        level = following
    total = sum(found.values())
    return {string: p / total for string, p in found.items()}


def padded(grammar, strings, width):
    return np.array([list(s) + [grammar.pad] * (width - len(s)) for s in strings], dtype=np.int64)


def continuations(law, prefix, end):
    """{next token: probability} after `prefix` under {string: probability}."""
    found = {}
    for string, p in law.items():
        if string[: len(prefix)] == prefix:
            token = string[len(prefix)] if len(string) > len(prefix) else end
            found[token] = found.get(token, 0.0) + p
    total = sum(found.values())
    return {token: p / total for token, p in found.items()}


def assert_chi_square(grammar, tokens, law):
    """Counts of the rows of `tokens` fit `law` within five standard deviations of chi-square."""
    names = {string: i for i, string in enumerate(law)}
    rows = [tuple(t for t in row if t < grammar.start) for row in tokens.tolist()]
    counts = np.bincount([names[row] for row in rows], minlength=len(law))
    expected = np.array(list(law.values())) * len(rows)
    assert expected.min() > 5
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(law) - 1
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom)


GRAMMARS = [
    DyckGrammar(2, 3, 0.5, 0.5),
    DyckGrammar(1, 2, 0.3, 0.2),
    DyckGrammar(3, 1, 0.7, 0.4),
    DyckGrammar(5, 2, 0.2, 0.9),
    DyckGrammar(1, 1),
]
BOUNDS = [(2, 6), (0, 4), (4, 6), (0, 0), (3, 7), (6, 6)]


# ---- the law -------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_prefix_law_is_the_sequential_process_and_sums_to_one(grammar, length):
    law = enumerate_prefixes(grammar, length)
    got = np.exp(grammar.log_prob(list(law), mode="prefix"))
    np.testing.assert_allclose(got, list(law.values()), rtol=1e-12)
    assert_close(got.sum(), 1)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
def test_complete_law_is_the_rejection_law(grammar, bounds):
    law = enumerate_complete(grammar, *bounds)
    tokens = padded(grammar, law, bounds[1])
    got = np.exp(grammar.log_prob(tokens, min_length=bounds[0], max_length=bounds[1]))
    np.testing.assert_allclose(got, list(law.values()), rtol=1e-11)
    assert_close(got.sum(), 1)


def test_everything_else_has_probability_zero():
    grammar = DyckGrammar(2, 2)
    every = np.array(list(itertools.product(range(4), repeat=4)))
    for how, law in (
        ({"mode": "prefix"}, enumerate_prefixes(grammar, 4)),
        ({"mode": "complete", "max_length": 4}, enumerate_complete(grammar, 2, 4)),
    ):
        logs = grammar.log_prob(every, **how)
        inside = [tuple(row) in law for row in every.tolist()]
        assert 0 < sum(inside) < len(every)
        np.testing.assert_array_equal(np.isfinite(logs), inside)


def test_log_prob_reads_start_end_and_pad():
    grammar = DyckGrammar()
    start, end, pad = grammar.start, grammar.end, grammar.pad
    rows = [[0, 1, pad, pad], [start, 0, 1, pad], [0, 1, end, pad], [start, 0, 1, end]]
    logs = grammar.log_prob(rows)
    np.testing.assert_array_equal(logs, logs[0])
    assert np.isfinite(logs[0])
    wrong = [[0, pad, 1, pad], [0, 1, end, end], [end, 0, 1, pad], [start, start, 0, 1], [0, 1, start, pad]]
    assert np.isneginf(grammar.log_prob(wrong)).all()
    assert np.isneginf(grammar.log_prob([0, 1, end], mode="prefix"))
    assert grammar.log_prob([start, 0], mode="prefix") == pytest.approx(math.log(1 / 2))


def test_the_papers_printed_law_is_wrong_and_the_thesis_form_is_right():
    """Wen et al. eq. (3) omits (1/k) per opener at depth 1; thesis eq. 2.39 has it."""
    grammar = DyckGrammar(2, 3, 0.3)
    law = enumerate_prefixes(grammar, 6)
    got = np.exp(grammar.log_prob(list(law), mode="prefix"))
    weights = []
    for string in law:
        depths = [depth for depth, _, _ in run_stack(grammar, string)[0]]
        opens = [d for d, t in zip(depths, string, strict=True) if t % 2 == 0]
        closes = [d for d, t in zip(depths, string, strict=True) if t % 2 == 1]
        paper = 0.15 ** sum(d > 1 for d in opens) * 0.7 ** sum(d < 2 for d in closes)
        weights.append((paper, paper * 0.5 ** sum(d == 1 for d in opens)))
    paper, thesis = np.array(weights).T
    np.testing.assert_allclose(thesis, got, rtol=1e-12)  # no normalisation needed
    ratio = paper / paper.sum() / got
    assert ratio.max() / ratio.min() == pytest.approx(4)  # one to three openers at depth 1


@pytest.mark.parametrize("grammar", GRAMMARS[:4], ids=str)
@pytest.mark.parametrize("bounds", [(2, 6), (0, 5), (4, 6)], ids=str)
def test_next_token_probs_of_complete_strings(grammar, bounds):
    low, high = bounds
    law = enumerate_complete(grammar, low, high)
    strings = list(law)[:: max(1, len(law) // 40)]
    rows = [[grammar.start, *s, grammar.end] + [grammar.pad] * (high - len(s)) for s in strings]
    probs = grammar.next_token_probs(rows, min_length=low, max_length=high)
    assert probs.shape == (len(rows), high + 2, grammar.vocab_size)
    for string, row in zip(strings, probs, strict=True):
        for n in range(len(string) + 1):
            expected = np.zeros(grammar.vocab_size)
            for token, p in continuations(law, string[:n], grammar.end).items():
                expected[token] = p
            assert_close(row[n], expected)
        assert (row[len(string) + 1 :] == 0).all()


def test_next_token_probs_of_prefixes():
    grammar = DyckGrammar(3, 2, 0.3)
    law = enumerate_prefixes(grammar, 4)
    strings = list(law)
    probs = grammar.next_token_probs([[grammar.start, *s, grammar.pad] for s in strings], mode="prefix")
    for string, row in zip(strings, probs, strict=True):
        for n in range(4):
            expected = np.zeros(grammar.vocab_size)
            for token, p in continuations(law, string[:n], grammar.end).items():
                expected[token] = p
            assert_close(row[n], expected)
        assert_close(row[4].sum(), 1)
        assert row[4, grammar.end] == 0
        assert (row[5] == 0).all()


def test_chain_rule_over_long_strings():
    """next_token_probs and log_prob are computed apart; they must agree where enumeration cannot go."""
    grammar = DyckGrammar(3, 5, 0.4, 0.3)
    tokens = grammar.to_tokens(grammar.sample(50, seed=0, min_length=10, max_length=60))
    closed = np.concatenate([tokens, np.full((50, 1), grammar.pad)], axis=1)
    closed[np.arange(50), (tokens < grammar.pad).sum(axis=1)] = grammar.end
    probs = grammar.next_token_probs(closed, min_length=10, max_length=60)[:, :-1]
    taken = np.take_along_axis(probs, closed[:, 1:, None], axis=-1)[..., 0]
    logs = np.log(np.where(closed[:, 1:] == grammar.pad, 1.0, taken)).sum(axis=1)
    np.testing.assert_allclose(logs, grammar.log_prob(closed, min_length=10, max_length=60), rtol=1e-10)


@pytest.mark.parametrize("grammar", GRAMMARS[:4], ids=str)
@pytest.mark.parametrize("bounds", [(2, 6), (0, 6), (4, 6)], ids=str)
def test_floors_by_enumeration(grammar, bounds):
    law = enumerate_complete(grammar, *bounds)
    predictions = sum(p * (len(s) + 1) for s, p in law.items())
    exact = -sum(p * math.log(p) for p in law.values()) / predictions
    # a plain sum over thousands of strings
    assert_close(grammar.entropy_floor(min_length=bounds[0], max_length=bounds[1]), exact, ulps=1000)
    for start_visible in (True, False):
        # what a predictor of (depth, stack top) sees, pooled over all positions of all strings
        seen = {}
        for string, p in law.items():
            rows = run_stack(grammar, string)[0]
            for n in range(len(string) + 1):
                depth, top, _ = rows[n - 1] if n else (-1 if start_visible else 0, -1, [])
                key = (depth, string[top] if top >= 0 else None)
                token = string[n] if n < len(string) else grammar.end
                group = seen.setdefault(key, {})
                group[token] = group.get(token, 0.0) + p
        pooled = 0.0
        for group in seen.values():
            total = sum(group.values())
            pooled -= sum(p * math.log(p / total) for p in group.values())
        got = grammar.depth_only_floor(min_length=bounds[0], max_length=bounds[1], start_visible=start_visible)
        assert_close(got, pooled / predictions, ulps=1000)
        assert got > exact * (1 - 1e-12)


def test_prefix_floor_by_enumeration():
    grammar = DyckGrammar(2, 3, 0.3)
    exact = -sum(p * math.log(p) for p in enumerate_prefixes(grammar, 7).values()) / 7
    assert_close(grammar.entropy_floor(mode="prefix", length=7), exact)
    assert_close(grammar.depth_only_floor(mode="prefix", length=7), exact)
    assert grammar.entropy_floor(mode="prefix") == grammar.entropy_floor(mode="prefix", length=28)
    assert grammar.sample(1, seed=0, mode="prefix").shape == (1, 28)


def test_numbers_of_the_standard_setting():
    """k=2, D=4, 2 to 26 brackets: .862 nats, 9.44 predictions; .897 is the floor without the bound."""
    grammar = DyckGrammar()
    lengths, probs = grammar.length_distribution()
    assert_close(probs.sum(), 1)
    assert ((lengths + 1) * probs).sum() == pytest.approx(9.443150, rel=1e-6)
    assert grammar.entropy_floor() == pytest.approx(0.861750, rel=1e-6)
    assert grammar.entropy_floor(max_length=2000) == pytest.approx(0.897014, rel=1e-6)
    assert grammar.depth_only_floor() == pytest.approx(0.871520, rel=1e-6)
    assert grammar.depth_only_floor(start_visible=False) == pytest.approx(0.939545, rel=1e-6)
    # the process with END at depth 0 also gives empty strings; those are not the default
    assert grammar.entropy_floor(min_length=0) == pytest.approx(0.905732, rel=1e-6)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_length_distribution(bounds):
    for grammar in GRAMMARS:
        law = enumerate_complete(grammar, *bounds)
        lengths, probs = grammar.length_distribution(*bounds)
        for n, p in zip(lengths, probs, strict=True):
            assert_close(p, sum(x for s, x in law.items() if len(s) == n), ulps=1000)  # over thousands of strings
        assert set(lengths) == {len(s) for s in law}


def literal_steps(grammar, low, high):
    """{(m, d): (open, close, end)} of the states from which low..high brackets in all can still be completed."""
    end, deepest = grammar.end_prob, grammar.max_depth

    def choices(m, d):  # the unbounded law; the first opener of a string that may not be empty is free of charge
        opens = 1 - end if d == 0 else grammar.open_prob if d < deepest else 0.0
        return (1.0, 0.0, 0.0) if m == 0 == d and low > 0 else (opens, 1 - opens if d else 0.0, end if d == 0 else 0.0)

    @functools.cache
    def mass(m, d):
        if m > high or d < 0 or d > deepest:
            return 0.0
        opens, closes, ends = choices(m, d)
        return opens * mass(m + 1, d + 1) + closes * mass(m + 1, d - 1) + ends * (m >= low)

    def law(m, d):
        opens, closes, ends = choices(m, d)
        parts = opens * mass(m + 1, d + 1), closes * mass(m + 1, d - 1), ends * (m >= low)
        return tuple(part / mass(m, d) for part in parts)

    states = itertools.product(range(high + 1), range(deepest + 1))
    return {(m, d): law(m, d) for m, d in states if mass(m, d) > 0}


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("grammar", [*GRAMMARS, DyckGrammar(2, 2, 0.3, 1.0)], ids=str)
def test_tables_of_complete_strings_are_the_literal_recursion(grammar, bounds):
    steps = laws.complete_steps(grammar.max_depth, grammar.open_prob, grammar.end_prob, *bounds)
    expected = literal_steps(grammar, *bounds)
    for m, d in np.ndindex(bounds[1] + 1, grammar.max_depth + 1):
        got = [part[m, d] for part in (steps.open, steps.close, steps.end)]
        assert_close(got, expected.get((m, d), (0, 0, 0)), scale=1)
        assert steps.reachable[m, d] == ((m, d) in expected)
    if grammar.end_prob == 1:
        return  # the process with END never opens: there is nothing to enumerate
    visits = np.zeros_like(steps.open)
    for string, p in enumerate_complete(grammar, *bounds).items():
        depths = [0, *(depth for depth, _, _ in run_stack(grammar, string)[0])]
        visits[np.arange(len(depths)), depths] += p
    assert_close(laws.occupancy(steps), visits, ulps=1000)  # over thousands of strings


@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
def test_tables_of_prefixes_are_the_sequential_process(grammar):
    steps = laws.prefix_steps(grammar.max_depth, grammar.open_prob, 5)
    for m, d in np.ndindex(5, grammar.max_depth + 1):
        opens = 1 if d == 0 else grammar.open_prob if d < grammar.max_depth else 0
        assert (steps.open[m, d], steps.close[m, d], steps.end[m, d]) == (opens, 1 - opens, 0)
        assert steps.reachable[m, d]
    visits = np.zeros_like(steps.open)
    for string, p in enumerate_prefixes(grammar, 5).items():
        depths = [0, *(depth for depth, _, _ in run_stack(grammar, string)[0])][:5]
        visits[np.arange(5), depths] += p
    assert_close(laws.occupancy(steps), visits, ulps=1000)


def literal_walk(uniforms, lengths, first_row, open_prob, k):
    """One string after the other, one bracket after the other."""
    out = np.full(uniforms.shape, 2 * k + 2)
    for row, length in enumerate(lengths):
        stack = []
        for j in range(length):
            step = 0 if first_row is None else first_row[row] + j
            p, u = open_prob[step, len(stack)], uniforms[row, j]
            if u < p:
                stack.append(min(int(u * (k / p)), k - 1))
                out[row, j] = 2 * stack[-1]
            else:
                out[row, j] = 2 * stack.pop() + 1
    return out


@pytest.mark.parametrize("chunk", [1, 50, 10**6])  # uniforms at a time: a row, a few rows, all of them
@pytest.mark.parametrize("grammar", [DyckGrammar(3, 3, 0.4, 0.3), DyckGrammar(1, 1), DyckGrammar(2, 5, 0.7)], ids=str)
def test_walks_are_the_literal_ones(grammar, chunk, monkeypatch):
    monkeypatch.setattr(laws, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    uniforms, sizes = rng.random((40, 12)), rng.integers(0, 7, 40) * 2
    steps = laws.complete_steps(grammar.max_depth, grammar.open_prob, grammar.end_prob, 12, 12)
    opens = steps.open.copy()
    opens[:, 0] = 1
    expected = literal_walk(uniforms, sizes, 12 - sizes, opens, grammar.num_types)
    np.testing.assert_array_equal(grammar.fill(uniforms, sizes), expected)
    opens = laws.prefix_steps(grammar.max_depth, grammar.open_prob, 1).open
    prefixes = literal_walk(uniforms, [12] * 40, None, opens, grammar.num_types)
    np.testing.assert_array_equal(grammar.fill_prefix(uniforms), prefixes)
    ragged = laws.walk(uniforms, sizes, None, opens, grammar.num_types)
    np.testing.assert_array_equal(ragged, literal_walk(uniforms, sizes, None, opens, grammar.num_types))


def test_long_strings_do_not_underflow():
    """Masses of length 4000 lie far below the smallest float64; the conditional law must not care."""
    grammar = DyckGrammar(2, 2, 0.5, 0.9)
    _, probs = grammar.length_distribution(4000, 4002)
    assert (probs > 0).all()
    tokens = grammar.sample(2, seed=0, min_length=4000, max_length=4000)
    assert (grammar.depth(tokens)[:, -1] == 0).all()
    assert np.isfinite(grammar.log_prob(tokens, min_length=4000, max_length=4000)).all()


# ---- sampling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grammar", "low", "high"),
    [
        (DyckGrammar(2, 3, 0.5, 0.5), 2, 6),
        (DyckGrammar(2, 2, 0.3, 0.3), 0, 4),
        (DyckGrammar(1, 3, 0.6, 0.4), 4, 8),
        (DyckGrammar(5, 1, 0.5, 0.5), 2, 4),
    ],
)
@pytest.mark.slow
def test_sampler_follows_the_law(grammar, low, high):
    tokens = grammar.sample(40_000, seed=7, min_length=low, max_length=high)
    assert tokens.shape == (40_000, high)
    assert tokens.dtype == np.int16
    assert_chi_square(grammar, tokens, enumerate_complete(grammar, low, high))


@pytest.mark.slow
def test_fill_follows_the_law_given_the_length():
    grammar = DyckGrammar(2, 2, 0.3, 0.6)
    lengths = np.tile([4, 2, 6], 10_000)
    tokens = grammar.fill(np.random.default_rng(3).random((30_000, 6)), lengths)
    assert ((tokens < grammar.start).sum(axis=1) == lengths).all()
    for n in (2, 4, 6):
        assert_chi_square(grammar, tokens[lengths == n], enumerate_complete(grammar, n, n))


def test_prefix_sampler_follows_the_law():
    grammar = DyckGrammar(2, 2, 0.4)
    tokens = grammar.sample(30_000, seed=2, mode="prefix", length=4)
    assert_chi_square(grammar, tokens, enumerate_prefixes(grammar, 4))
    mixed = grammar.sample(30_000, seed=2, mode="prefix", length=(2, 4))
    sizes = (mixed < grammar.start).sum(axis=1)
    assert mixed.shape == (30_000, 4)
    for n in (2, 3, 4):
        assert abs((sizes == n).sum() - 10_000) < 5 * math.sqrt(30_000 * 2 / 9)
        assert_chi_square(grammar, mixed[sizes == n], enumerate_prefixes(grammar, n))


def test_same_arguments_same_strings():
    grammar = DyckGrammar()
    first = grammar.sample(100, seed=5)
    np.testing.assert_array_equal(first, grammar.sample(100, seed=5))
    assert (first != grammar.sample(100, seed=6)).any()
    assert (first != grammar.sample(100, seed=5, stream="other")).any()
    # more rows than one chunk: the first rows stay what they were
    np.testing.assert_array_equal(first, grammar.sample(45_000, seed=5)[:100])


def test_fill_depends_on_its_own_row_only():
    grammar = DyckGrammar(3, 4)
    rng = np.random.default_rng(0)
    uniforms, lengths = rng.random((20_000, 26)), rng.integers(0, 14, 20_000) * 2
    kept = uniforms.copy(), lengths.copy()
    whole = grammar.fill(uniforms, lengths)
    np.testing.assert_array_equal(uniforms, kept[0])
    np.testing.assert_array_equal(lengths, kept[1])
    for i in (0, 1, 12_345, 19_999):
        np.testing.assert_array_equal(whole[i], grammar.fill(uniforms[i : i + 1], lengths[i : i + 1])[0])
    shuffle = rng.permutation(20_000)
    np.testing.assert_array_equal(whole[shuffle], grammar.fill(uniforms[shuffle], lengths[shuffle]))
    grammar.validate(whole)


def test_a_uniform_decides_open_and_type_together():
    """At 0 < depth < D of a prefix, u < q opens type floor(k u / q); else the closer."""
    grammar = DyckGrammar(2, 2, 0.5)
    tokens = grammar.fill_prefix([[0.0, 0.1], [0.6, 0.3], [0.6, 0.499], [0.0, 0.5], [0.999, 0.999]])
    np.testing.assert_array_equal(tokens, [[0, 0], [2, 2], [2, 2], [0, 1], [2, 3]])


def test_fill_edges():
    grammar = DyckGrammar(2, 4)
    assert grammar.fill(np.zeros((0, 4)), np.zeros(0, dtype=int)).shape == (0, 4)
    assert grammar.fill_prefix(np.zeros((3, 0))).shape == (3, 0)
    np.testing.assert_array_equal(grammar.fill(np.zeros((1, 2)), [0]), [[grammar.pad] * 2])
    highest = np.full((1, 8), np.nextafter(1, 0))
    for k in (1, 3, 7, 10_000):
        assert DyckGrammar(k, 3).fill(highest, [8]).max() == 2 * k - 1
    assert grammar.sample(0, seed=0).shape == (0, 26)
    assert grammar.sample(3, seed=0, mode="prefix", length=0).shape == (3, 0)


def test_end_prob_one_means_one_outermost_pair():
    grammar = DyckGrammar(1, 3, 0.5, 1.0)
    tokens = grammar.sample(200, seed=0, min_length=2, max_length=8)
    depth = grammar.depth(tokens)
    last = (tokens < grammar.start).sum(axis=1) - 1
    first_return = (depth == 0).argmax(axis=1)
    np.testing.assert_array_equal(first_return, last)
    assert len(set(last)) > 2
    assert np.exp(grammar.log_prob(tokens[:1], max_length=8)) > 0
    probs = grammar.next_token_probs(grammar.to_tokens(["", "()"]), max_length=8)
    assert probs[0, 0, 0] == 1
    assert probs[1, 2, grammar.end] == 1
    assert 0 < grammar.entropy_floor(max_length=8) < math.log(2)
    with pytest.raises(GrammarError, match="min_length=4, max_length=8 admits no string"):
        DyckGrammar(1, 1, 0.5, 1.0).sample(1, seed=0, min_length=4, max_length=8)


# ---- ground truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", [DyckGrammar(2, 4), DyckGrammar(1, 3), DyckGrammar(5, 2), DyckGrammar(3, 1)])
def test_structure_against_a_literal_stack(grammar):
    prefixes = grammar.sample(30, seed=0, mode="prefix", length=(0, 15)).astype(np.int64)
    complete = grammar.sample(30, seed=1, max_length=15).astype(np.int64)
    body = np.concatenate([prefixes, np.insert(complete, 7, grammar.end, axis=1)[:, :15]])
    tokens = np.insert(body, 0, grammar.start, axis=1)
    depth, partner, top = grammar.depth(tokens), grammar.partner(tokens), grammar.stack_top(tokens)
    unmatched = grammar.unmatched(tokens)
    assert unmatched.shape == (60, 16, 16)
    for i, row in enumerate(tokens.tolist()):
        rows, mates = run_stack(grammar, row)
        assert depth[i].tolist() == [d for d, _, _ in rows]
        assert top[i].tolist() == [t for _, t, _ in rows]
        assert partner[i].tolist() == mates
        for query, (_, _, stack) in enumerate(rows):
            assert np.flatnonzero(unmatched[i, query]).tolist() == stack
    # any leading shape
    deep = tokens.reshape(3, 4, 5, 16)
    np.testing.assert_array_equal(grammar.partner(deep).reshape(60, 16), partner)
    np.testing.assert_array_equal(grammar.unmatched(deep).reshape(60, 16, 16), unmatched)
    np.testing.assert_array_equal(grammar.stack_top(tokens[0]), top[0])


def test_structure_marks_the_first_token_that_breaks_the_grammar():
    grammar = DyckGrammar(2, 2)
    for string in itertools.product(range(4), repeat=5):
        bad = laws.structure(np.array([string]), 2, 2).bad[0]
        broken = [n for n in range(5) if run_stack(grammar, string[: n + 1]) is None]
        assert np.flatnonzero(bad)[:1].tolist() == broken[:1]


def test_validation_agrees_with_the_stack_on_every_short_string():
    grammar = DyckGrammar(2, 2)
    for length in (1, 2, 3, 4):
        for string in itertools.product(range(4), repeat=length):
            if run_stack(grammar, string) is None:
                with pytest.raises(GrammarError, match="row 0, position"):
                    grammar.validate([string])
            else:
                grammar.validate([string])


@pytest.mark.parametrize("start", [True, False])
def test_inputs_of_a_model_read_start_brackets_pad(start):
    """Every array of three tokens: START first (where it must) and nowhere else, a legal prefix, then PAD only."""
    grammar = DyckGrammar(2, 2)
    fits = 0
    for row in itertools.product(range(grammar.vocab_size), repeat=3):
        over = [i for i, token in enumerate(row) if token in (grammar.end, grammar.pad)]
        right = run_stack(grammar, row) is not None and grammar.start not in row[1:]
        right = right and (row[0] == grammar.start or not start)
        right = right and all(token == grammar.pad for i in over[:1] for token in row[i + 1 :])
        fits += right
        if right:
            grammar.check_inputs(np.array([[grammar.start, 0, 1], row]), start=start)
        else:
            with pytest.raises(GrammarError, match="row 1, position"):
                grammar.check_inputs(np.array([[grammar.start, 0, 1], row]), start=start)
    assert fits > 10


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[0, 1, 6], [0, 1, 1]], r"row 1, position 2: '\)' closes nothing; an opening bracket would be right there"),
        ([[0, 3]], r"row 0, position 1: '\]' does not close '\('; '\)' or an opening bracket would be right there"),
        ([[0, 2, 1]], r"row 0, position 2: '\)' does not close '\['; '\]' would be right there"),
        ([[0, 2, 0]], r"row 0, position 2: '\(' goes over max_depth 2; '\]' would be right there"),
        ([[0, 7]], "row 0, position 1: 7 is not a token id; ids are 0 to 6"),
        ([[-1, 0]], "row 0, position 0: -1 is not a token id"),
        ([[0.5, 1.0]], "type float64"),
        (3, r"shape \(\)"),
    ],
)
def test_broken_arrays_are_named_by_row_and_position(tokens, message):
    grammar = DyckGrammar(2, 2)
    for method in (grammar.validate, grammar.depth, grammar.partner, grammar.stack_top, grammar.unmatched):
        with pytest.raises(GrammarError, match=message):
            method(tokens)


# ---- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_types", [1, 2, 4, 5, 12])
def test_text_round_trip(num_types):
    grammar = DyckGrammar(num_types, 4)
    assert len(set(grammar.vocab)) == grammar.vocab_size == len(grammar.vocab)
    for row in grammar.sample(50, seed=0).tolist():
        ids = [token for token in row if token < grammar.start]
        assert grammar.parse(grammar.format(row)) == ids
        assert grammar.parse(" ".join(grammar.vocab[token] for token in ids), require_complete=True) == ids


def test_text_forms():
    grammar = DyckGrammar(6, 5)
    ids = [0, 2, 4, 6, 8, 9, 7, 5, 3, 1, 10, 11]
    assert grammar.format(ids) == "([{<(4)4>}])(5)5"
    assert grammar.parse(" ([{<  (4)4\n>}]) (5)5") == ids
    assert grammar.parse("") == []
    small = DyckGrammar()
    tokens = [small.start, 0, 1, small.end, small.pad]
    assert small.format(tokens) == "()"
    assert small.format(tokens, specials=True) == "START () END PAD"
    assert small.vocab == ("(", ")", "[", "]", "START", "END", "PAD")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "(a)",
            r"text '\(a\)' position 1: 'a' is not a bracket of this grammar; its brackets are \( \) \[ \]$",
        ),
        ("({", r"text '\(\{' position 1: '\{' is not a bracket"),
        ("(4)4", r"position 0: '\(4' is not a bracket"),
        ("( ]", r"text '\( \]' position 2: '\]' does not close '\('; '\)' or an opening bracket would be right there"),
        ("())", r"position 2: '\)' closes nothing; an opening bracket would be right there"),
        ("((((([", r"position 4: '\(' goes over max_depth 4; '\)' would be right there"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(GrammarError, match=message):
        DyckGrammar().parse(text)


def test_unclosed_text():
    grammar = DyckGrammar()
    assert grammar.parse("([") == [0, 2]
    with pytest.raises(GrammarError, match=r"text '\(\[' position 2: ends with 2 open .*'\]\)' would be right"):
        grammar.parse("([", require_complete=True)


def test_to_tokens():
    grammar = DyckGrammar()
    s, p = grammar.start, grammar.pad
    np.testing.assert_array_equal(grammar.to_tokens("()"), [[s, 0, 1]])
    mixed = grammar.to_tokens(["[(", [0, 1, 2, 3], "", np.array([2])])
    np.testing.assert_array_equal(mixed, [[s, 2, 0, p, p], [s, 0, 1, 2, 3], [s, p, p, p, p], [s, 2, p, p, p]])
    assert mixed.dtype == np.int64
    assert grammar.to_tokens([]).shape == grammar.to_tokens(np.zeros((0, 5), dtype=int)).shape == (0, 1)
    drawn = grammar.sample(20, seed=0)
    longest = int((drawn < grammar.start).sum(axis=1).max())
    np.testing.assert_array_equal(grammar.to_tokens(drawn)[:, 1:], drawn[:, :longest])
    for wrong, message in [
        (5, "5 is neither a text nor a list"),
        ([0, 1], "0 is neither a text nor a list of ids"),
        ([[0, 3]], "row 0, position 1: '\\]' does not close"),
        ([[0, p, 1]], "row 0, position 2: '\\)' comes after PAD"),
        (["()", [s, 0]], "row 1, position 0: 'START' is not a bracket"),
    ]:
        with pytest.raises(GrammarError, match=message):
            grammar.to_tokens(wrong)


# ---- minimal pairs -------------------------------------------------------------------------------


def test_counterfactual_changes_one_pair_and_nothing_else():
    grammar = DyckGrammar(3, 4)
    tokens = grammar.sample(200, seed=0, mode="prefix", length=12)
    before = tokens.copy()
    position = np.random.default_rng(0).integers(0, 12, 200)
    changed = grammar.counterfactual(tokens, position)
    np.testing.assert_array_equal(tokens, before)
    assert changed.dtype == tokens.dtype
    grammar.validate(changed)
    np.testing.assert_array_equal(grammar.depth(changed), grammar.depth(tokens))
    rows, mates = np.arange(200), grammar.partner(tokens)[np.arange(200), position]
    np.testing.assert_array_equal(changed[rows, position] // 2, (tokens[rows, position] // 2 + 1) % 3)
    np.testing.assert_array_equal((changed != tokens).sum(axis=1), 1 + (mates >= 0))
    assert 0 < (mates >= 0).sum() < 200
    partner = grammar.partner(tokens)
    again = grammar.counterfactual(changed, position, new_type=tokens[rows, position] // 2)
    np.testing.assert_array_equal(again, tokens)
    # the same pair is reached from its other end
    paired = mates >= 0
    other = grammar.counterfactual(tokens[paired], mates[paired])
    np.testing.assert_array_equal(other, changed[paired])
    assert (partner == grammar.partner(changed)).all()


def test_counterfactual_choices():
    grammar = DyckGrammar(3, 4)
    tokens = np.tile(grammar.to_tokens("([])("), (300, 1))
    np.testing.assert_array_equal(grammar.counterfactual(tokens[0], 1), [6, 2, 2, 3, 3, 0])
    drawn = grammar.counterfactual(tokens, 1, seed=1)
    np.testing.assert_array_equal(drawn, grammar.counterfactual(tokens, 1, seed=1))
    assert set(drawn[:, 1].tolist()) == {2, 4}
    for position, new_type, message in [
        (0, None, "row 0, position 0: START is not a bracket"),
        (9, None, "position 9 is out of range: 0 to 5"),
        (1, 0, "row 0: new_type 0 is the type already there"),
        (1, 3, "new_type 3 is out of range: 0 to 2"),
        ([1, 2], None, r"position \[1, 2\]: give a whole number, or one for each of the 300 rows"),
    ]:
        with pytest.raises(GrammarError, match=message):
            grammar.counterfactual(tokens, position, new_type=new_type)
    with pytest.raises(GrammarError, match="num_types=1"):
        DyckGrammar(1).counterfactual([[0, 1]], 0)


def test_drawn_types_are_others_and_each_as_likely():
    grammar = DyckGrammar(4, 2)
    tokens = np.tile(np.arange(8).reshape(4, 2), (300, 1))  # (), [], {} and <>, again and again
    position = np.arange(1200) // 4 % 2
    old = tokens[np.arange(1200), position] // 2
    changed = grammar.counterfactual(tokens, position, seed=5)
    shift = generator(5, "counterfactual").integers(1, 4, size=1200)
    np.testing.assert_array_equal(changed, np.stack([2 * ((old + shift) % 4), 2 * ((old + shift) % 4) + 1], axis=1))
    counts = np.zeros((4, 4))
    np.add.at(counts, (old, changed[:, 0] // 2), 1)
    assert (np.diag(counts) == 0).all()
    assert (abs(counts[~np.eye(4, dtype=bool)] - 100) < 50).all()


def test_counterfactual_names_the_row_that_is_wrong():
    grammar = DyckGrammar(3, 4)
    tokens = grammar.to_tokens(["{}", "[]", "("])
    with pytest.raises(GrammarError, match="row 1, position 0: START is not a bracket"):
        grammar.counterfactual(tokens, [1, 0, 0])
    with pytest.raises(GrammarError, match="row 2, position 2: PAD is not a bracket"):
        grammar.counterfactual(tokens, 2)
    with pytest.raises(GrammarError, match="row 1: new_type 1 is the type already there"):
        grammar.counterfactual(tokens, [2, 2, 1], new_type=[1, 1, 0])
    with pytest.raises(GrammarError, match="changes nothing beside new_type"):
        grammar.counterfactual(tokens, 1, new_type=2, seed=0)
    with pytest.raises(GrammarError, match=r"counterfactual takes \[batch, pos\]"):
        grammar.counterfactual(tokens[None], 1)


# ---- construction, requests, saving --------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"num_types": 0},
        {"num_types": 10_001},
        {"num_types": True},
        {"num_types": 2.0},
        {"max_depth": 0},
        {"max_depth": "4"},
        {"open_prob": 0.0},
        {"open_prob": 1.0},
        {"open_prob": True},
        {"open_prob": float("nan")},
        {"end_prob": 0.0},
        {"end_prob": 1.5},
    ],
    ids=str,
)
def test_bad_fields_are_quoted(fields):
    ((name, value),) = fields.items()
    with pytest.raises(GrammarError) as caught:
        DyckGrammar(**fields)
    assert f"{name}={value!r}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((8, 4), "min_length=8, max_length=4 admits no string: min_length must not exceed"),
        ((3, 3), "min_length=3, max_length=3 admits no string: complete strings have an even number"),
        ((1, 1), "min_length=1, max_length=1 admits no string"),
        ((-2, 4), "min_length=-2 is not a whole number"),
        ((2, 0), "admits no string"),
        ((2, 4.0), r"max_length=4\.0 is not a whole number"),
    ],
)
def test_bad_bounds(bounds, message):
    grammar = DyckGrammar()
    low, high = bounds
    calls = [
        lambda: grammar.sample(1, seed=0, min_length=low, max_length=high),
        lambda: grammar.length_distribution(low, high),
        lambda: grammar.log_prob([[0, 1]], min_length=low, max_length=high),
        lambda: grammar.next_token_probs([[4, 0]], min_length=low, max_length=high),
        lambda: grammar.entropy_floor(min_length=low, max_length=high),
        lambda: grammar.depth_only_floor(min_length=low, max_length=high),
    ]
    for call in calls:
        with pytest.raises(GrammarError, match=message):
            call()


def test_bad_requests():
    grammar = DyckGrammar()
    s, end = grammar.start, grammar.end
    for call, message in [
        (lambda: grammar.sample(1, seed=0, mode="both"), "mode='both' is unknown"),
        (lambda: grammar.sample(-1, seed=0), "count=-1"),
        (lambda: grammar.sample(1, seed=0, mode="prefix", length=(5, 3)), r"length=\(5, 3\) is empty"),
        (lambda: grammar.sample(1, seed=-1), "seed -1"),
        (lambda: grammar.fill([[0.5, 1.0]], [2]), r"each must lie in \[0, 1\)"),
        (lambda: grammar.fill([[0.5, np.nan]], [2]), r"each must lie in \[0, 1\)"),
        (
            lambda: grammar.fill([[0.5, 0.5]], [4]),
            "row 0: no complete string .* has 4 brackets within width 2",
        ),
        (lambda: grammar.fill([[0.5] * 4] * 2, [2, 3]), "row 1: no complete string .* has 3 brackets"),
        (lambda: grammar.fill([[0.5] * 4], [-2]), "has -2 brackets"),
        (lambda: grammar.fill([[0.5] * 4], [2, 2]), r"lengths of shape \(2,\)"),
        (lambda: grammar.next_token_probs([[0, 1]]), "row 0: a model input reads START"),
        (
            lambda: grammar.next_token_probs([[s, 0, 0]], max_length=2),
            r"row 0, position 2: '\(' cannot be completed",
        ),
        (
            lambda: grammar.next_token_probs([[s, 0, 1, 0]], max_length=2),
            r"position 3: '\(' cannot be completed",
        ),
        (lambda: grammar.next_token_probs([[s, 0, end]]), "row 0, position 2: 'END' has probability 0"),
        (
            lambda: grammar.next_token_probs([[s, 0, 1, end]], mode="prefix"),
            "position 3: 'END' has probability 0",
        ),
        (lambda: grammar.entropy_floor(mode="prefix", length=0), "length=0"),
        (lambda: grammar.format([[0, 1]]), r"shape \(1, 2\)"),
        (lambda: grammar.log_prob([[0, 99]]), "99 is not a token id"),
    ]:
        with pytest.raises(InterpError, match=message):
            call()


def test_saved_form():
    grammar = DyckGrammar(np.int64(3), 5, np.float64(0.25), 1)
    data = json.loads(json.dumps(grammar.to_dict()))
    assert data == {"kind": "dyck", "num_types": 3, "max_depth": 5, "open_prob": 0.25, "end_prob": 1.0}
    assert DyckGrammar.from_dict(data) == grammar
    assert hash(DyckGrammar.from_dict(data)) == hash(grammar)
    for wrong in ({**data, "extra": 1}, {**data, "kind": "topic"}, {"kind": "dyck"}, [1]):
        with pytest.raises(GrammarError, match="is no DyckGrammar"):
            DyckGrammar.from_dict(wrong)
    with pytest.raises(GrammarError, match="num_types='2'"):
        DyckGrammar.from_dict({**data, "num_types": "2"})


def test_copying_is_a_kind_of_its_own():
    grammar = CopyGrammar(3, 2)
    assert grammar != DyckGrammar(3, 2)
    assert grammar_from_dict(grammar.to_dict()) == grammar
    assert type(grammar_from_dict(DyckGrammar().to_dict())) is DyckGrammar
    with pytest.raises(GrammarError, match="'topics'"):
        grammar_from_dict({"kind": "topics"})
