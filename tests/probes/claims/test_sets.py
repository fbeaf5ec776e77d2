"""Keys and rows of what claims alone may name, worked by hand and against a literal reading of the words."""

import numpy as np
import pytest

from interp.claims.register import usable
from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.vocabulary import Vocabulary
from probes.claims import (
    BUILT_IN,
    NAMED,
    Claim,
    check_usable,
    complement,
    depth_at_most,
    depth_is,
    evenly,
    evenly_among,
    not_so,
    position_at_most,
    position_between,
    position_is,
    same_relation,
    target_gap_at_least,
    token,
    token_in,
    token_is_not,
    tokens_of,
)

GRAMMAR = DyckGrammar(2, 4)
SORTED = Vocabulary(("3", "10", "2", "a", "[PAD]"), pad=4)


def sees(tokens, pad, causal=True):
    real = tokens != pad
    return real[:, :, None] & real[:, None, :] & (np.tri(tokens.shape[1], dtype=bool) if causal else True)


def keys(relation, tokens, grammar=None, causal=True, pad=-1):
    tokens = np.array(tokens)[None]
    found = relation.keys(tokens, grammar, sees(tokens, pad, causal))[0]
    return [np.flatnonzero(row).tolist() for row in found]


def test_the_mirror_is_that_of_the_tokens_which_are_seen():
    mirror = NAMED["mirror"]
    assert keys(mirror, [7, 8, 9, 7], causal=False) == [[3], [2], [1], [0]]
    assert keys(mirror, [7, 8, 9], causal=False) == [[2], [1], [0]]
    assert keys(mirror, [7, 8, 9, 7]) == [[], [], [1], [0]]  # who reads from the left sees it from the middle on
    assert keys(mirror, [7, 8, 9, 0, 0], causal=False, pad=0) == [[2], [1], [0], [], []]
    assert keys(mirror, [0, 7, 8, 9], causal=False, pad=0) == [[], [3], [2], [1]]  # PAD on the left
    assert keys(mirror, [0, 0], pad=0) == [[], []]


def test_a_token_is_repeated_if_the_query_sees_another():
    assert keys(NAMED["repeated"], [7, 8, 7, 8]) == [[], [], [0, 2], [0, 1, 2, 3]]
    assert keys(NAMED["repeated"], [7, 8, 7, 9], causal=False) == [[0, 2]] * 4
    assert keys(NAMED["repeated"], [7, 0, 0], causal=False, pad=0) == [[], [], []]


def test_tokens_are_compared_by_the_numbers_that_they_write():
    tokens = [0, 1, 3, 2, 1, 2]  # 3 10 a 2 10 2
    assert keys(NAMED["smallest"], tokens, SORTED) == [[0], [0], [0], [3], [3], [3, 5]]
    assert keys(NAMED["largest"], tokens, SORTED) == [[0], [1], [1], [1], [1, 4], [1, 4]]
    assert keys(NAMED["next-larger"], tokens, SORTED) == [[], [], [], [0], [], [0]]
    assert keys(NAMED["next-larger"], tokens, SORTED, causal=False) == [[1, 4], [], [], [0], [], [0]]
    assert keys(NAMED["next-smaller"], tokens, SORTED) == [[], [0], [], [], [0], []]


@pytest.mark.parametrize("name", ["smallest", "largest", "next-larger", "next-smaller"])
def test_a_vocabulary_without_numbers_is_refused(name):
    for grammar in (GRAMMAR, None, Vocabulary(("a", "3", "3.0"))):
        assert not usable(NAMED[name], grammar)
        with pytest.raises(RequestError, match="needs a vocabulary with numbers"):
            check_usable(NAMED[name], grammar)
        with pytest.raises(RequestError, match="is said of a vocabulary with numbers"):
            keys(NAMED[name], [0, 1], grammar)
    check_usable(NAMED[name], SORTED)


def test_tokens_of_a_set():
    two = tokens_of(["2", "a"])
    assert keys(two, [0, 3, 2, 1], SORTED) == [[], [1], [1, 2], [1, 2]]
    assert keys(complement(two), [0, 3, 2, 1], SORTED) == [[0], [0], [0], [0, 3]]
    assert keys(evenly(two), [0, 3, 2, 1], SORTED) == keys(evenly_among(two), [0, 3, 2, 1], SORTED)
    assert (two.kind, evenly(two).kind, evenly_among(two).kind) == ("mass", "even", "among")
    with pytest.raises(RequestError, match="no token 'x' in the model's vocabulary"):
        keys(tokens_of(["2", "x"]), [0, 1], SORTED)
    for texts in ([], "ab", None, 3, [str(n) for n in range(100)], ["a b"], ["a,"], [""], [3]):
        with pytest.raises(RequestError):
            tokens_of(texts)


def test_what_is_made_of_a_relation_needs_what_it_needs():
    for make in (complement, evenly, evenly_among):
        for relation in (token("("), tokens_of(["(", "]"]), BUILT_IN["type-1"]):
            check_usable(make(relation), GRAMMAR)
        for relation in (token("x"), tokens_of(["(", "x"])):
            with pytest.raises(RequestError, match="needs that token in the vocabulary"):
                check_usable(make(relation), GRAMMAR)
        with pytest.raises(RequestError, match="brackets of type 0 only"):
            check_usable(make(BUILT_IN["type-1"]), DyckGrammar(1, 4))
        with pytest.raises(RequestError, match="needs a grammar of brackets"):
            check_usable(make(BUILT_IN["closers"]), None)


def test_a_set_of_keys_is_no_rival_of_itself():
    openers = BUILT_IN["openers"]
    for one in (openers, evenly(openers), evenly_among(openers)):
        for other in (openers, evenly(openers), evenly_among(openers)):
            assert same_relation(one, other)
        assert not same_relation(one, complement(openers))
        assert not same_relation(one, BUILT_IN["closers"])
    assert same_relation(BUILT_IN["writes-of-value"], BUILT_IN["writes-of-value-even"])


def test_conditions_are_what_they_say():
    tokens = GRAMMAR.to_tokens(["([])(", "()"])  # START ( [ ] ) (   and   START ( ) PAD PAD PAD
    visible = sees(tokens, GRAMMAR.pad)
    top = BUILT_IN["stack-top"].keys(tokens, GRAMMAR, visible)  # [], [1], [2], [1], [], [5]  and  [], [1], []

    def rows(condition, of=top):
        real = tokens != GRAMMAR.pad
        return [np.flatnonzero(row).tolist() for row in condition.rows(tokens, GRAMMAR, of) & real]

    assert rows(position_is(2)) == [[2], [2]]
    assert rows(position_at_most(1)) == [[0, 1], [0, 1]]
    assert rows(position_between(1, 2)) == [[1, 2], [1, 2]]
    assert rows(Claim.parse("L0H0 attends to START at the last position").when) == [[5], [2]]
    assert rows(target_gap_at_least(1)) == [[3], []]
    assert rows(target_gap_at_least(0)) == [[1, 2, 3, 5], [1]]
    assert rows(target_gap_at_least(2)) == [[3], []]
    assert rows(target_gap_at_least(3)) == [[], []]
    start = BUILT_IN["start"].keys(tokens, GRAMMAR, visible)
    assert rows(target_gap_at_least(2), start) == [[2, 3, 4, 5], [2]]
    assert rows(token_is_not("(")) == [[0, 2, 3, 4], [0, 2]]
    assert rows(token_in(["(", "]"])) == [[1, 3, 5], [1]]
    assert rows(not_so(Claim([(0, 0)], "start", "closing").when)) == [[0, 1, 2, 5], [0, 1]]
    assert rows(depth_is(1)) == [[1, 3, 5], [1]]
    assert rows(depth_at_most(0)) == [[0, 4], [0, 2]]
    with pytest.raises(RequestError, match="no token 'x'"):
        rows(token_in(["(", "x"]))


def test_the_gap_is_to_the_nearest_key_on_either_side():
    following = np.array([[[0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 0]]], dtype=bool)
    rows = target_gap_at_least(2).rows(np.zeros((1, 4), int), None, following)
    assert np.flatnonzero(rows[0]).tolist() == [0, 1, 3]


@pytest.mark.parametrize("make", [position_is, position_at_most, target_gap_at_least, depth_is, depth_at_most])
@pytest.mark.parametrize("number", [10**5000, "3", None, 1.5, -1], ids=range(5))
def test_numbers_are_whole_and_of_a_size(make, number):
    with pytest.raises(RequestError, match="is not a whole number from"):
        make(number)
