"""Sentences to claims and back, refusals, and the relations and conditions that only claims have."""

import json
import math
import re

import numpy as np
import pytest

from interp.claims import register
from interp.cli import main
from interp.errors import RequestError
from interp.grammars import DyckGrammar, TopicGrammar
from probes import Claim
from probes.claims import (
    BUILT_IN,
    Condition,
    Relation,
    brackets_of_type,
    complement,
    depth_at_least,
    offset,
    position,
    position_at_least,
    token,
    token_is,
)

GRAMMAR = DyckGrammar(2, 4)
TOP, CLOSING = "stack-top", "closing"

ACCEPTED = [
    # sentence, heads, relation, when, uses, mainly
    ("L1H0 attends to the last unmatched open bracket", [(1, 0)], TOP, None, None, False),
    ("l1h0 attends to the last unmatched opener.", [(1, 0)], TOP, None, None, False),
    ("1.0 attends to the top of the stack", [(1, 0)], TOP, None, None, False),
    ("head 1.0 attends to the most recent unmatched opening bracket", [(1, 0)], TOP, None, None, False),
    ("layer 1, head 0 attends to the last unclosed opener", [(1, 0)], TOP, None, None, False),
    (
        "L1H0 attends to the last unmatched open bracket when the current token is a closing bracket",
        [(1, 0)], TOP, CLOSING, None, False,
    ),
    ("L1H0 uses the last unmatched open bracket to predict closing brackets", [(1, 0)], TOP, None, "closers", False),
    ("L1H0 attends to the stack top, and uses it to predict closers", [(1, 0)], TOP, None, "closers", False),
    ("L1H0 attends to the top of the stack and uses it to close brackets", [(1, 0)], TOP, None, "closers", False),
    ("L1H0 mainly attends to the previous token", [(1, 0)], "previous", None, None, True),
    ("L1H0 attends mainly to the preceding token", [(1, 0)], "previous", None, None, True),
    ("L0H1 and L1H0 attend to closers", [(0, 1), (1, 0)], "closers", None, None, False),
    ("L1H0, L0H1, and L0H0 attend to START", [(0, 0), (0, 1), (1, 0)], "start", None, None, False),
    ("L0H0 attends evenly to all visible tokens", [(0, 0)], "all", None, None, False),
    ("L0H0 attends to all following tokens evenly", [(0, 0)], "following", None, None, False),
    ("some head attends to the matching open bracket", [], "partner", None, None, False),
    ("L0H0 attends to position 4 when the depth is at least 2", [(0, 0)], "position-4", "depth-2", None, False),
    ("L0H0 attends to position 0", [(0, 0)], "first", None, None, False),
    ("L0H0 attends to offset -3", [(0, 0)], "offset-3", None, None, False),
    ("L0H0 attends to offset -1", [(0, 0)], "previous", None, None, False),
    ("L0H0 attends to the token 2 positions after", [(0, 0)], "offset+2", None, None, False),
    ("L0H0 attends to brackets of type 1", [(0, 0)], "type-1", None, None, False),
    ("L0H0 attends to [SEP] tokens", [(0, 0)], "token-[SEP]", None, None, False),
    ("L0H0 attends to the token [CLS]", [(0, 0)], "token-[CLS]", None, None, False),
    ("L0H0 attends to tokens of the same topic", [(0, 0)], "same-topic", None, None, False),
    ("L0H0 attends to open brackets at the same depth", [(0, 0)], "same-depth-openers", None, None, False),
    ("L0H0 attends to the token after an earlier copy of the current token", [(0, 0)], "induction", None, None, False),
    ("L0H0 uses the current token to repeat the current token", [(0, 0)], "current", None, "copies", False),
    (
        "L1H0 uses the top of the stack to predict closers when the position is at least 5",
        [(1, 0)], TOP, "position-5", "closers", False,
    ),
    (
        "L1H0 uses the top of the stack when the target is not the current token to predict closers",
        [(1, 0)], TOP, "elsewhere", "closers", False,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "heads", "relation", "when", "uses", "mainly"), ACCEPTED)
def test_a_sentence_is_the_claim_it_says(text, heads, relation, when, uses, mainly):
    claim = Claim.parse(text)
    assert list(claim.heads) == heads
    assert claim.relation.name == relation
    assert (claim.when and claim.when.name) == when
    assert (claim.uses, claim.mainly) == (uses, mainly)
    assert Claim.parse(claim.text) == claim
    json.dumps(claim.to_dict())


REFUSED = [
    ("L1H0 attends to the bracket of doom", "relation 'the bracket of doom' is not understood; the nearest are"),
    ("L1H0 attends to the last unmatched open brackte", "nearest are 'the last unmatched open bracket'"),
    ("L1H0 attends to START when the moon is full", "condition 'the moon is full' is not understood"),
    ("L1H0 uses START to make tea", "use 'make tea' is not understood; the nearest are"),
    ("the brave head attends to START", "'the brave head' names no head"),
    ("L1 attends to START", "'L1' names no head"),
    ("L1H0 loves START", "'loves' is not a verb of claims; the nearest are"),
    ("L1H0 atends to START", "'atends' is not a verb of claims; the nearest are 'attends to', "),
    ("L0H0 and L1H0 usses START", "'usses' is not a verb of claims; the nearest are 'uses', "),
    ("L0H0 attends to the stack top to decide the type", "the nearest are 'the last unmatched open bracket', "),
    ("layer 1, head 0 attend START", "'attend' is not a verb of claims; the nearest are 'attends to', "),
    ("", "write 'L1H0 attends to RELATION'"),
    (7, "claim 7 is not a text"),
    ("L0H0 mainly attends to all visible tokens evenly", "'mainly' cannot be added"),
    ("L0H0 attends to position 99999999", "not a whole number from 0 to"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_not_understood_is_refused_with_what_would_be(text, message):
    with pytest.raises(RequestError, match=re.escape(message)) as error:
        Claim.parse(text)
    assert "\n" not in str(error.value)


def test_typed_and_parsed_claims_are_equal():
    typed = Claim(heads=[(1, 0), (1, 0)], relation="stack-top", when="the current token is a closing bracket")
    assert typed == Claim.parse("L1H0 attends to the last unmatched open bracket when the current token is a closer")
    assert typed.heads == ((1, 0),)
    assert Claim([(1, 0)], BUILT_IN[TOP], uses="closers") == Claim([(1, 0)], TOP, uses="predict closing brackets")
    assert Claim([(0, 0)], offset(-5)) == Claim.parse("L0H0 attends to the token 5 positions before")


NO_HEADS = [
    None, 5, "L0H0", b"L0H0", [1], [(1,)], [(1, 0.5)], [(-1, 0)], [("a", 0)], [(True, 0)], [(np.True_, 0)],
    [(math.inf, 0)], [(math.nan, 0)], [(1j, 0)], [None], [(10**5000, 0)], [(1e300, 0)], [np.zeros(500)],
]  # fmt: skip


@pytest.mark.parametrize("heads", NO_HEADS, ids=range(len(NO_HEADS)))
def test_heads_are_pairs_of_whole_numbers(heads):
    with pytest.raises(RequestError, match=r"^heads?[ =]") as error:
        Claim(heads, "start")
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


LONG = "9" * 5000


@pytest.mark.parametrize(
    "phrase",
    [
        f"L{LONG}H0 attends to START",
        f"L0H{LONG} attends to START",
        f"{LONG}.0 attends to START",
        f"layer 0 head {LONG} attends to START",
        f"L0H0 attends to position {LONG}",
        f"L0H0 attends to offset -{LONG}",
        f"L0H0 attends to the token {LONG} positions before",
        f"L0H0 attends to the token {LONG} positions after",
        f"L0H0 attends to brackets of type {LONG}",
        f"L0H0 attends to START when the depth is at least {LONG}",
        f"L0H0 attends to START when the position is at least {LONG}",
        f"L0H0 attends to {'x' * 10_000}",
        f"L0H0 attends to START when {'x' * 10_000}",
        f"L0H0 uses START to {'x' * 10_000}",
        f"{'x' * 10_000} attends to START",
        "x" * 10_000,
    ],
    ids=range(16),
)
def test_long_phrases_and_numbers_are_refused_in_a_short_line(phrase, capsys):
    with pytest.raises(RequestError) as error:
        Claim.parse(phrase)
    assert len(str(error.value)) < 400
    assert re.search(r"\.\.\.(9|x)+'", str(error.value))
    assert main(["audit", "constructed/stack", "--claim", phrase]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("make", [offset, position, brackets_of_type, depth_at_least, position_at_least])
@pytest.mark.parametrize("number", [10**5000, "3", None, 1.5], ids=range(4))
def test_numbers_of_families_are_whole_and_of_a_size(make, number):
    with pytest.raises(RequestError, match="is not a whole number from"):
        make(number)


def test_wrong_types_are_named():
    with pytest.raises(RequestError, match="relation=3 is neither words nor"):
        Claim([(0, 0)], 3)
    with pytest.raises(RequestError, match="when=3 is neither words nor"):
        Claim([(0, 0)], "start", when=3)
    for no in ("no", 0, None):
        with pytest.raises(RequestError, match=f"mainly={no!r} is neither True nor False"):
            Claim([(0, 0)], "start", mainly=no)
    for own in (5, None, "x", ["x"], [CLOSING]):
        with pytest.raises(RequestError, match=r"relations=.* is not a list of Relations"):
            Claim.parse("L0H0 attends to START", relations=own)
        with pytest.raises(RequestError, match=r"conditions=.* is not a list of Conditions"):
            Claim.parse("L0H0 attends to START when it is", conditions=own)


def test_relations_and_conditions_of_ones_own_are_found_by_their_words():
    odd = Relation(
        "odd", "tokens at odd positions", "mass", "tokens", lambda t, g, v: v & (np.arange(t.shape[1]) % 2 == 1)
    )
    early = Condition(
        "early", "it is early", "tokens", lambda t, g, k: np.broadcast_to(np.arange(t.shape[1]) < 5, t.shape)
    )
    claim = Claim.parse(
        "L0H0 attends to the tokens at odd positions when it is early", relations=[odd], conditions=[early]
    )
    assert (claim.relation, claim.when) == (odd, early)
    assert claim == Claim([(0, 0)], odd, early)
    assert claim.text == "L0H0 attends to tokens at odd positions when it is early"
    with pytest.raises(RequestError, match="not understood"):
        Claim.parse(claim.text)


def test_a_claim_may_leave_open_what_for():
    claim = Claim.parse("L1H0 uses the previous token when the current token is [CLS]")
    assert (claim.uses, claim.when) == ("task", token_is("[CLS]"))
    assert claim.text == "L1H0 uses the previous token when the current token is [CLS]"
    assert claim == Claim.parse(claim.text) == Claim.parse(claim.text.replace(" when", " to do its task when"))
    assert Claim.parse("L1H0 uses the previous token to predict the label").uses == "labels"
    assert Claim.parse("L1H0 attends to START and uses it to classify").uses == "labels"


# -- the sets -----------------------------------------------------------------------------------------------


def sees(tokens, causal=True):
    real = tokens != GRAMMAR.pad
    return real[:, :, None] & real[:, None, :] & (np.tri(tokens.shape[1], dtype=bool) if causal else True)


def literally(name, row, depth, q, k):
    opener = [t < GRAMMAR.start and t % 2 == 0 for t in row]
    match name:
        case "next":
            return k == q + 1
        case "following":
            return k > q
        case "induction":
            return 0 < k <= q and row[k - 1] == row[q]
        case "last-opener":
            return k <= q and opener[k] and not any(opener[k + 1 : q + 1])
        case "same-depth-openers":
            return opener[k] and depth[k] == depth[q]
        case "offset-3":
            return k == q - 3
        case "offset+2":
            return k == q + 2
        case "position-4":
            return k == 4
        case "token-[":
            return row[k] == 2
    raise AssertionError(name)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "relation",
    [
        *(BUILT_IN[n] for n in ("next", "following", "induction", "last-opener", "same-depth-openers")),
        *(offset(-3), offset(2), position(4), token("[")),
    ],
    ids=lambda relation: relation.name,
)
def test_keys_are_what_the_words_say(relation, causal):
    tokens = GRAMMAR.to_tokens(GRAMMAR.sample(12, seed=3, max_length=14).astype(np.int64))
    visible = sees(tokens, causal)
    keys, depth = relation.keys(tokens, GRAMMAR, visible), GRAMMAR.depth(tokens)
    for b, row in enumerate(tokens.tolist()):
        for q in range(len(row)):
            for k in range(len(row)):
                expected = visible[b, q, k] and literally(relation.name, row, depth[b], q, k)
                assert keys[b, q, k] == expected, (b, q, k)


def test_the_same_topic_leaves_the_mask_out():
    grammar = TopicGrammar(num_topics=2, words_per_topic=2)
    tokens = np.array([[0, 1, 2, 3, 4]])
    keys = BUILT_IN["same-topic"].keys(tokens, grammar, np.ones((1, 5, 5), dtype=bool))[0]
    assert [np.flatnonzero(row).tolist() for row in keys] == [[], [1, 2], [1, 2], [3, 4], [3, 4]]


def test_relations_of_a_family_are_one_object_and_edges_have_their_names():
    assert offset(-4) is offset(-4)
    assert (offset(-1), offset(0), offset(1)) == tuple(BUILT_IN[n] for n in ("previous", "current", "next"))
    assert position(0) is BUILT_IN["first"]
    assert brackets_of_type(1) is BUILT_IN["type-1"]
    assert complement(token("(")).name == "not-token-("


def test_conditions_are_what_they_say():
    tokens = GRAMMAR.to_tokens(["([])(", "()"])  # START ( [ ] ) (   and   START ( ) PAD PAD PAD
    keys = BUILT_IN[TOP].keys(tokens, GRAMMAR, sees(tokens))

    def rows(condition):
        found = condition.rows(tokens, GRAMMAR, keys)
        return [np.flatnonzero(row).tolist() for row in found]

    parsed = {n: Claim([(0, 0)], TOP, n).when for n in ("closing", "opening", "elsewhere")}
    assert rows(parsed["closing"]) == [[3, 4], [2]]
    assert rows(parsed["opening"]) == [[1, 2, 5], [1]]
    assert rows(depth_at_least(2)) == [[2], []]
    assert rows(position_at_least(4)) == [[4, 5], [4, 5]]
    assert 3 in rows(parsed["elsewhere"])[0]
    assert 2 not in rows(parsed["elsewhere"])[0]


def _wordings():
    for relation in register.relations().values():
        for words in (relation.words, *relation.also):
            yield "relation", relation.name, words
    for condition in register.conditions().values():
        for words in (condition.words, *condition.also):
            yield "condition", condition.name, words
    for name, words in register.uses().items():
        for also in (words, *register.also_uses()[name]):
            yield "use", name, also


@pytest.mark.parametrize(("what", "name", "words"), list(_wordings()))
def test_every_wording_is_understood_in_a_sentence(what, name, words):
    """Also one that holds a word at which sentences are cut, as "to" in "the token to recall"."""
    if what == "relation":
        for text in (f"L1H0 attends to {words}", f"L1H0 uses {words}", f"L1H0 uses {words} to do its task"):
            claim = Claim.parse(text)
            assert (claim.relation.words, claim.uses) == (
                register.relations()[name].words, "task" if "uses" in text else None
            ), text  # fmt: skip
    elif what == "condition":
        for text in (f"L1H0 attends to the previous token when {words}", f"L1H0 uses the previous token when {words}"):
            assert Claim.parse(text).when.words == register.conditions()[name].words, text
    else:
        assert Claim.parse(f"L1H0 uses the previous token to {words}").uses == name
