"""Relations against a literal reading of their words, and what perfect and uniform heads score."""

import numpy as np
import pytest

from closeness import assert_close
from interp.errors import AnalysisError, RequestError
from interp.grammars import DyckGrammar
from probes.claims import RELATIONS, bracket_tokens, bracket_type, complement, relation_scores

GRAMMAR = DyckGrammar(3, 4)
MASS = [name for name, relation in RELATIONS.items() if relation.kind == "mass"]


def inputs(grammar, count, seed=0, mode="complete"):
    """START, brackets, PAD: strings of several lengths, some of them incomplete."""
    sizes = {"max_length": 14} if mode == "complete" else {"length": (1, 14)}
    rows = grammar.sample(count, seed=seed, mode=mode, **sizes)
    return grammar.to_tokens(rows.astype(np.int64))


def sees(tokens, grammar, causal=True):
    real = tokens != grammar.pad
    visible = real[:, :, None] & real[:, None, :]
    return visible & np.tri(tokens.shape[1], dtype=bool) if causal else visible


def stack_after(row, at):
    """Positions of the openers still unmatched once `at` is read, the last one last."""
    stack = []
    for i in range(at + 1):
        if row[i] < GRAMMAR.start:
            if row[i] % 2 == 0:
                stack.append(i)
            else:
                stack.pop()
    return stack


def partner_of(row, closer):
    stack = stack_after(row, closer - 1)
    return stack[-1]


def literally(name, row, q, k):
    """Does the relation hold between query q and key k of one row, by its words."""
    bracket = [token < GRAMMAR.start for token in row]
    opener = [b and token % 2 == 0 for b, token in zip(bracket, row, strict=True)]
    closer = [b and token % 2 == 1 for b, token in zip(bracket, row, strict=True)]
    match name:
        case "current":
            return q == k
        case "previous":
            return k == q - 1
        case "first":
            return k == 0
        case "start":
            return row[k] == GRAMMAR.start
        case "openers":
            return opener[k]
        case "closers":
            return closer[k]
        case "same-type":
            return bracket[q] and bracket[k] and row[q] // 2 == row[k] // 2
        case "type-0":
            return row[k] in (0, 1)
        case "type-1":
            return row[k] in (2, 3)
        case "stack-top":
            return stack_after(row, q)[-1:] == [k]
        case "unmatched":
            return k in stack_after(row, q)
        case "partner":
            return closer[q] and partner_of(row, q) == k
        case "copies":
            return k <= q and row[k] == row[q]
        case "earlier-copies":
            return k < q and row[k] == row[q]
        case "same-depth":
            return len(stack_after(row, q)) == len(stack_after(row, k))
        case "all":
            return True
    raise AssertionError(name)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mode", ["complete", "prefix"])
@pytest.mark.parametrize("name", RELATIONS)
def test_keys_are_what_the_words_say(name, mode, causal):
    tokens = inputs(GRAMMAR, 12, mode=mode)
    assert (tokens == GRAMMAR.pad).any()
    visible = sees(tokens, GRAMMAR, causal)
    keys = RELATIONS[name].keys(tokens, GRAMMAR, visible)
    assert keys.dtype == bool
    for b, row in enumerate(tokens.tolist()):
        for q in range(len(row)):
            for k in range(len(row)):
                assert keys[b, q, k] == (visible[b, q, k] and literally(name, row, q, k)), (b, q, k)


def test_keys_stay_within_what_is_visible_and_leave_it_alone():
    tokens = inputs(GRAMMAR, 8)
    visible = sees(tokens, GRAMMAR) & (np.random.default_rng(0).random((8, *[tokens.shape[1]] * 2)) < 0.5)
    before = visible.copy()
    for relation in [*RELATIONS.values(), bracket_type(2), complement(RELATIONS["closers"])]:
        keys = relation.keys(tokens, GRAMMAR, visible)
        assert not (keys & ~visible).any()
        assert keys is not visible
    assert (visible == before).all()


def test_a_case_worked_by_hand():
    # position    0     1 2 3 4 5
    # token     START   ( [ ] ) (
    tokens = GRAMMAR.to_tokens("([])(")
    visible = sees(tokens, GRAMMAR)
    expected = {
        "stack-top": [[], [1], [2], [1], [], [5]],
        "unmatched": [[], [1], [1, 2], [1], [], [5]],
        "partner": [[], [], [], [2], [1], []],
        "same-type": [[], [1], [2], [2, 3], [1, 4], [1, 4, 5]],
        "copies": [[0], [1], [2], [3], [4], [1, 5]],
        "earlier-copies": [[], [], [], [], [], [1]],
        "same-depth": [[0], [1], [2], [1, 3], [0, 4], [1, 3, 5]],
        "closers": [[], [], [], [3], [3, 4], [3, 4]],
        "type-1": [[], [], [2], [2, 3], [2, 3], [2, 3]],
        "previous": [[], [0], [1], [2], [3], [4]],
    }
    for name, rows in expected.items():
        found = RELATIONS[name].keys(tokens, GRAMMAR, visible)[0]
        assert [np.flatnonzero(row).tolist() for row in found] == rows, name
    never = complement(bracket_tokens([3], "the bracket ]")).keys(tokens, GRAMMAR, visible)[0]
    assert np.flatnonzero(never[5]).tolist() == [0, 1, 2, 4, 5]


def test_names_and_words_are_unique_and_tokens_need_no_grammar():
    assert list(RELATIONS) == [relation.name for relation in RELATIONS.values()]
    assert len({relation.words for relation in RELATIONS.values()}) == len(RELATIONS)
    tokens = np.array([[5, 7, 5, 5]])
    visible = np.tri(4, dtype=bool)[None]
    for relation in RELATIONS.values():
        if relation.needs == "tokens":
            relation.keys(tokens, None, visible)
        else:
            with pytest.raises(RequestError, match="no DyckGrammar"):
                relation.keys(tokens, None, visible)


# -- scores -------------------------------------------------------------------------------------------------


def even_on(keys):
    """A pattern that spreads evenly over `keys`; over everything where there are none (those rows do not count)."""
    size = keys.sum(-1, keepdims=True)
    return np.where(size > 0, keys / np.maximum(size, 1), 0.0)


def slow_scores(pattern, keys, visible, kind):
    """Row by row, from the definition: [batch, query], and what was left out."""
    out, empty, certain = np.full(keys.shape[:2], np.nan), 0, 0
    for b in range(len(keys)):
        for q in range(keys.shape[1]):
            seen, chosen = np.flatnonzero(visible[b, q]), np.flatnonzero(keys[b, q])
            if len(seen) == 0:
                continue
            if len(chosen) == 0:
                empty += 1
                continue
            c = len(chosen) / len(seen)
            if c == 1 and (kind == "mass" or len(seen) == 1):
                certain += 1
                continue
            if kind == "mass":
                s = sum(pattern[b, q, k] for k in chosen)
            else:
                s = 1 - sum(abs(pattern[b, q, k] - (1 / len(chosen) if k in chosen else 0)) for k in seen) / 2
            out[b, q] = s if c == 1 else (s - c) / (1 - c)
    return out, empty, certain


@pytest.mark.parametrize("kind", ["mass", "even"])
@pytest.mark.parametrize("name", RELATIONS)
def test_scores_follow_the_definition(name, kind):
    tokens = inputs(GRAMMAR, 10, seed=1)
    visible = sees(tokens, GRAMMAR)
    keys = RELATIONS[name].keys(tokens, GRAMMAR, visible)
    rng = np.random.default_rng(2)
    pattern = rng.random((len(tokens), 2, *visible.shape[1:])) ** 4 * visible[:, None]
    pattern /= np.maximum(pattern.sum(-1, keepdims=True), 1e-300)
    found = relation_scores(pattern, keys, visible, kind)
    for head in range(2):
        rows, empty, certain = slow_scores(pattern[:, head], keys, visible, kind)
        assert_close(found.rows[:, head], rows, scale=1)
    assert (found.empty, found.certain) == (empty, certain)
    assert found.scored == np.isfinite(rows).sum()
    assert found.scored + found.empty + found.certain == (visible.sum(-1) > 0).sum()


@pytest.mark.parametrize("name", MASS)
@pytest.mark.parametrize("kind", ["mass", "even"])
def test_a_perfect_head_scores_one_and_a_uniform_one_zero(name, kind):
    tokens = inputs(GRAMMAR, 30, seed=3)
    visible = sees(tokens, GRAMMAR)
    keys = RELATIONS[name].keys(tokens, GRAMMAR, visible)
    keys &= (keys.sum(-1) < visible.sum(-1))[..., None]  # rows that all keys fulfil are tested below
    perfect = np.where(keys.any(-1, keepdims=True), even_on(keys), even_on(visible))
    found = relation_scores(np.stack([perfect, even_on(visible)], axis=1), keys, visible, kind)
    assert found.scored > 0
    scored = np.isfinite(found.rows[:, 0])
    assert_close(found.rows[:, 0][scored], 1)
    assert_close(found.rows[:, 1][scored], 0, scale=1)


def test_attending_evenly_to_everything_is_not_corrected_for_chance():
    visible = np.tri(4, dtype=bool)[None]
    keys = RELATIONS["all"].keys(np.array([[0, 1, 2, 3]]), None, visible)
    uniform = even_on(visible)
    one = np.eye(4)[None]
    found = relation_scores(np.stack([uniform, one], axis=1), keys, visible, "even")
    assert_close(found.rows[0, 0], [np.nan, 1, 1, 1])
    assert_close(found.rows[0, 1], [np.nan, 1 / 2, 1 / 3, 1 / 4])
    assert (found.scored, found.empty, found.certain) == (3, 0, 1)


def test_keys_permuted_within_rows_score_zero_in_expectation():
    rng = np.random.default_rng(4)
    visible = np.ones((1, 1, 6), dtype=bool)
    keys = np.array([[[1, 0, 0, 1, 0, 0]]], dtype=bool)
    row = np.array([0.5, 0.1, 0.1, 0.2, 0.05, 0.05])
    scores = [relation_scores(rng.permutation(row)[None, None, None], keys, visible).rows[0, 0, 0] for _ in range(4000)]
    assert abs(np.mean(scores)) < 4 * np.std(scores) / np.sqrt(len(scores))


def test_scores_are_linear_in_the_weight_on_the_set():
    visible, keys = np.ones((1, 1, 4), dtype=bool), np.array([[[1, 0, 0, 0]]], dtype=bool)
    rows = np.array([[1, 0, 0, 0], [0.625, 0.125, 0.125, 0.125], [0.25] * 4, [0, 1, 0, 0]])
    found = relation_scores(rows[None, :, None], keys, visible).rows[0, :, 0]
    assert_close(found, [1, 0.5, 0, -1 / 3])


AMONG = [
    # weights on five keys, keys of the set, weight that is scored, score
    ([0.2, 0.2, 0.2, 0.2, 0.2], [0, 1], 1.0),  # a uniform head is even within any set: `mass` has the null
    ([0.4, 0.4, 0.1, 0.1, 0.0], [0, 1], 1.0),
    ([0.6, 0.2, 0.2, 0.0, 0.0], [0, 1], 0.75),  # .75 and .25 of what lies on the set
    ([0.5, 0.0, 0.5, 0.0, 0.0], [0, 1], 0.5),  # all on one of two keys
    ([0.9, 0.0, 0.0, 0.1, 0.0], [0, 1, 2], 1 / 3),  # and on one of three
    ([0.125, 0.125, 0.75, 0.0, 0.0], [0, 1], 1.0),  # a quarter lies on the set
    ([0.12, 0.12, 0.76, 0.0, 0.0], [0, 1], np.nan),  # less does
    ([0.0, 0.0, 1.0, 0.0, 0.0], [0, 1], np.nan),
    ([0.7, 0.1, 0.1, 0.1, 0.0], [0], np.nan),  # of one key nothing can be uneven
    ([0.4, 0.3, 0.2, 0.1, 0.0], [0, 1, 2, 3, 4], 0.7),
    ([0.4, 0.3, 0.2, 0.1, 0.0], [], np.nan),
]


@pytest.mark.parametrize(("row", "named", "score"), AMONG)
def test_evenness_within_a_set_is_of_the_weight_that_lies_on_it(row, named, score):
    visible = np.ones((1, 1, 5), dtype=bool)
    found = relation_scores(np.array(row)[None, None, None], np.isin(np.arange(5), named)[None, None], visible, "among")
    assert_close(found.rows[0, 0, 0], score, scale=1)
    assert (found.scored, found.empty, found.certain) == (
        int(len(named) > 1),
        int(len(named) == 0),
        int(len(named) == 1),
    )


@pytest.mark.parametrize("row", [[0.5, 0.2, 0.0], [0.5, 0.7, -0.2], [np.nan, 0.5, 0.5]])
def test_what_is_no_pattern_is_refused(row):
    visible = np.ones((1, 1, 3), dtype=bool)
    with pytest.raises(AnalysisError, match="input 0, head 0, query 0"):
        relation_scores(np.array(row)[None, None, None], visible, visible)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bracket_type(-1), "bracket type -1 is not a whole number"),
        (lambda: bracket_type(0.5), r"bracket type 0\.5 is not"),
        (lambda: bracket_type("1"), "bracket type '1' is not"),
        (lambda: bracket_type(True), "bracket type True is not"),
        (lambda: bracket_tokens([0, 1.5], "two"), r"token 1\.5 is not"),
        (lambda: bracket_tokens("01", "two"), "token '0' is not"),
        (lambda: bracket_tokens([-2], "one"), "token -2 is not"),
        (lambda: bracket_tokens(None, "none"), "token None is not"),
        (lambda: scores_of_one(kind="odd"), "kind='odd' is not one of mass, even, among"),
        (lambda: scores_of_one(kind=None), "kind=None is not one of"),
        (lambda: scores_of_one(1 + 0j), "patterns of type complex128"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises(RequestError, match=message):
        call()


def scores_of_one(weight=1.0, kind="mass"):
    seen = np.ones((1, 1, 1), dtype=bool)
    return relation_scores(np.full((1, 1, 1, 1), weight), seen, seen, kind)


def test_weight_on_keys_that_are_not_seen_is_refused():
    visible = np.tri(2, dtype=bool)[None]
    later = np.array([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(AnalysisError, match="query 0: the weights on visible keys sum to 0"):
        relation_scores(later[None, None], visible, visible)
    with pytest.raises(RequestError, match="keys must lie within visible"):
        relation_scores(later[None, None], np.ones((1, 2, 2), dtype=bool), visible)
    with pytest.raises(RequestError, match="do not fit"):
        relation_scores(later[None], visible, visible)
