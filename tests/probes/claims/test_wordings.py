"""Claims as people in the field write them; every listed wording; and from words to claims and back."""

import re
from pathlib import Path

import pytest

from interp.claims.register import conditions_made, relations_made
from interp.errors import InterpError, RequestError
from probes.claims import (
    BUILT_IN,
    BUILT_IN_CONDITIONS,
    NAMED,
    TASKS,
    Claim,
    complement,
    depth_at_least,
    depth_at_most,
    depth_is,
    evenly,
    evenly_among,
    meanings,
    not_so,
    offset,
    position,
    position_at_least,
    position_at_most,
    position_between,
    position_is,
    target_gap_at_least,
    token,
    token_in,
    token_is,
    token_is_not,
    tokens_of,
    wordings,
)

STACK = "attends to the last unmatched open bracket"
UNDERSTOOD = [
    # what people write, what it says
    ("head 1.0 matches brackets", "L1H0 attends to the matching open bracket"),
    ("L0H1 is a previous-token head", "L0H1 attends to the previous token"),
    ("L0H1 is a previous token head.", "L0H1 attends to the previous token"),
    ("L0H1 and L0H2 are previous-token heads", "L0H1 and L0H2 attend to the previous token"),
    ("Head 0.1 acts as a previous token head", "L0H1 attends to the previous token"),
    ("L0H1 is primarily a previous-token head", "L0H1 mainly attends to the previous token"),
    ("L0H1 is a duplicate-token head", "L0H1 attends to earlier copies of the current token"),
    ("a0.h1 is a duplicate token head", "L0H1 attends to earlier copies of the current token"),
    ("L1H3 is an induction head", "L1H3 attends to the token after an earlier copy of the current token"),
    ("L1.H3 behaves like an induction head", "L1H3 attends to the token after an earlier copy of the current token"),
    (
        "L1H3 attends to the token following the previous occurrence of the current token",
        "L1H3 attends to the token after an earlier copy of the current token",
    ),
    ("L0H0 is a sink", "L0H0 attends to the first token"),
    ("L0H0 is an attention sink", "L0H0 attends to the first token"),
    ("L0H0 is a first-token head", "L0H0 attends to the first token"),
    ("L0H0 is a current-token head", "L0H0 attends to the current token"),
    ("L0H0 attends mostly to itself", "L0H0 mainly attends to the current token"),
    ("L0H0 attends to the beginning of the sequence", "L0H0 attends to the first token"),
    ("L0H0 attends to the [BOS] token", "L0H0 attends to the token [BOS]"),
    ("L0H0 attends to the BOS token", "L0H0 attends to the token BOS"),
    ("L0H0 attends to <|endoftext|>", "L0H0 attends to the token <|endoftext|>"),
    ("L0H0 attends uniformly", "L0H0 attends to all visible tokens evenly"),
    ("L0H0 attends uniformly over all tokens", "L0H0 attends to all visible tokens evenly"),
    ("L0H0 spreads its attention evenly over all previous tokens", "L0H0 attends to all visible tokens evenly"),
    ("L0H0 averages over closing brackets", "L0H0 attends to closing brackets evenly"),
    ("L0H0 has uniform attention when the depth is at most 2",
     "L0H0 attends to all visible tokens evenly when the depth is at most 2"),
    ("L1H0 attends to the most recent opening bracket", "L1H0 attends to the most recent open bracket"),
    ("L1H0 looks at the top of the stack", f"L1H0 {STACK}"),
    ("attention head 0 in layer 1 attends to the stack top", f"L1H0 {STACK}"),
    ("layer-1 head 0 attended to the innermost unmatched opening bracket", f"L1H0 {STACK}"),
    ("head 0 of layer 1 focuses on the last unclosed bracket opener", None),
    ("Layer 1's head 0 pays attention to the last unclosed opener", f"L1H0 {STACK}"),
    ("the head L1H0 pays most of its attention to the last unclosed opener", f"L1H0 mainly {STACK}"),
    ("L1H0 attends primarily to the last unmatched opener", f"L1H0 mainly {STACK}"),
    ("L1H0 puts most of its weight on the last unmatched opener", f"L1H0 mainly {STACK}"),
    ("heads 0 and 1 in layer 1 attend to START", "L1H0 and L1H1 attend to START"),
    ("there is a head that attends to the previous token", "some head attends to the previous token"),
    ("L1H0 attends from closing brackets to their matching open bracket",
     "L1H0 attends to the matching open bracket when the current token is a closing bracket"),
    ("L1H0 attends to its matching bracket at closing brackets",
     "L1H0 attends to the matching open bracket when the current token is a closing bracket"),
    ("L1H0 relies on the last unmatched opener in order to predict closing brackets",
     "L1H0 uses the last unmatched open bracket to predict closing brackets"),
    ("L1H0 attends to the last unmatched opener and uses it to predict the closing bracket",
     "L1H0 uses the last unmatched open bracket to predict closing brackets"),
    ("L0H0 attends to the mirrored position", "L0H0 attends to the mirror position"),
    ("L0H0 attends to the token two positions back", "L0H0 attends to the token 2 positions before"),
    ("L0H0 attends to one of {b, a}", "L0H0 attends to one of {a, b}"),
    ("L0H0 attends to any of the tokens {(, [}", "L0H0 attends to one of {(, [}"),
    ("L0H0 attends to tokens that occur more than once", "L0H0 attends to repeated tokens"),
    ("L0H0 attends to the maximum", "L0H0 attends to the largest token"),
    ("L0H0 attends to the smallest token larger than the current token", "L0H0 attends to the next larger token"),
    ("L0H0 attends to tokens other than the current token", "L0H0 attends to anything but the current token"),
    ("L0H0 attends to everything except START", "L0H0 attends to anything but START"),
    ("L0H0 attends evenly among the unmatched openers",
     "L0H0 attends to all unmatched open brackets, evenly among them"),
    ("L0H0 attends evenly to all unmatched open brackets", "L0H0 attends to all unmatched open brackets evenly"),
    ("L0H0 attends to the last write when the gap is at least 12",
     "L0H0 attends to the last write when the gap is at least 12"),
    ("L0H0 attends to the first token at the last position",
     "L0H0 attends to the first token when the position is the last"),
    ("L0H0 attends to START if the query is not a closing bracket",
     "L0H0 attends to START when the current token is not a closing bracket"),
    ("L0H0 attends to START when the current token is one of {[CLS], [SEP]}",
     "L0H0 attends to START when the current token is one of {[CLS], [SEP]}"),
    ("L0H0 attends to START when the position is between 2 and 5",
     "L0H0 attends to START when the position is from 2 to 5"),
    ("L0H0 attends to START when at position 3", "L0H0 attends to START when the position is 3"),
    ("L0H0 attends to the token .", "L0H0 attends to the token ."),
    ("L1H0 tracks the stack", f"L1H0 {STACK}"),
]  # fmt: skip
REFUSED = [
    # what people write, what is named, one of the wordings that are printed
    ("L1H0 never attends to START", "says what is not", "anything but"),
    ("L1H0 doesn't attend to START", "says what is not", "anything but"),
    ("L1H0 is not an induction head", "says what is not", "anything but"),
    ("L0H0 tracks depth", "'tracks depth' names no set of keys", "all unmatched open brackets evenly"),
    ("L0H0 counts the depth when the position is 3", "'counts the depth' names no set", "at the same depth"),
    ("L9H9 is a name-mover head", "'is a name-mover head' names no set of keys", "uses RELATION"),
    ("L9H9 is a positional head", "'is a positional head' names no set of keys", "attends to position 3"),
    ("L0H1 is an inductive head", "'is an inductive head' is not a name of heads", "'is an induction head'"),
    ("L0H1 exclusively attends to START", "'exclusively' is more than inputs can show", "'mainly'"),
    ("L0H1 attends only to START", "'only' is more than inputs can show", "'mainly'"),
    ("L0H1 attends strangely to START", "'strangely' is not an adverb of claims", "'mainly'"),
    ("some head of layer 2 attends to START", "'of layer 2' after 'some head'", "'L2H0'"),
    ("a head in layer 0 attends to START", "'in layer 0' after 'some head'", "'L0H0'"),
    ("L1H0 implements induction", "says what a head is for, and not where it looks", "'attends to RELATION'"),
    ("L1H0 retrieves the last write", "says what a head is for, and not where it looks", "'uses RELATION"),
    ("L1H0 ignores START", "says where a head does not look", "'attends to anything but RELATION'"),
    ("the second head attends to START", "'the second head' names no head", "'some head'"),
    ("head 3 is an induction head", None, None),
    ("head 3 attends to START", "'head 3' names no head", "'head 1.0'"),
    ("L1H0 atends to START", "'atends' is not a verb of claims", "'attends to'"),
    ("L1H0 attends to the last unmached opening bracket", "relation 'the last unmached", STACK[11:]),
    ("L1H0 attends to punctuation", "relation 'punctuation' is not understood", None),
    ("L1H0 attends to anything but the moon", "relation 'anything but the moon' is not", "'anything but RELATION'"),
    ("L1H0 attends to START when the position is at least p", "has a letter in the place of a number", None),
    ("L1H0 attends to START when the positon is at least 3", "condition 'the positon", "'the position is at least p'"),
    ("L1H0 attends to START when the position is from 5 to 2", "write the smaller one first", None),
    ("L1H0 uses START to close the brackets properly", "use 'close the brackets", "'predict closing brackets'"),
    ("L0H0 mainly attends evenly among closers", "'mainly' cannot be added", None),
    ("L0H0 is mainly a uniform head", "'mainly' cannot be added", None),
    ("L0H0 attends to one of {a, }", "cannot stand in a set", None),
]


@pytest.mark.parametrize(("text", "meant"), UNDERSTOOD, ids=[text for text, _ in UNDERSTOOD])
def test_what_people_write_is_understood(text, meant):
    if meant is None:
        with pytest.raises(RequestError, match="the nearest are 'the last unmatched open bracket'"):
            Claim.parse(text)
        return
    claim = Claim.parse(text)
    assert claim.text == meant
    assert Claim.parse(claim.text) == claim


@pytest.mark.parametrize(("text", "named", "printed"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_is_not_understood_names_its_part_and_what_comes_near(text, named, printed):
    with pytest.raises(RequestError) as error:
        Claim.parse(text)
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 400
    assert (named or "") in said
    assert (printed or "") in said


# -- there and back -----------------------------------------------------------------------------------------

RELATIONS = [
    *NAMED.values(), offset(-3), offset(2), position(4), token("[SEP]"), token("("), token("."),
    tokens_of(["a", "b"]), tokens_of(["{", "}"]),
]  # fmt: skip
CONDITIONS = [
    *BUILT_IN_CONDITIONS.values(), position_at_least(3), position_at_most(3), position_is(3), position_between(2, 5),
    target_gap_at_least(4), token_is("[CLS]"), token_is_not("[CLS]"), token_in(["a", "b"]), depth_at_least(2),
    depth_at_most(2), depth_is(2), not_so(BUILT_IN_CONDITIONS["closing"]),
]  # fmt: skip


def forms(relation):
    """A relation, and what is made of it."""
    made = [complement(relation), evenly(relation), evenly_among(relation)] if relation.kind == "mass" else []
    return [relation, *made, *([evenly_among(made[0])] if made else [])]


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_every_claim_is_read_back_from_its_own_words(relation):
    for form in forms(relation):
        for when in (None, *CONDITIONS) if form is relation else (None, CONDITIONS[0], token_is("to")):
            claim = Claim([(0, 1), (2, 0)], form, when)
            assert Claim.parse(claim.text) == claim
    for form in forms(relation)[:2]:
        for uses in TASKS:
            claim = Claim([(1, 0)], form, "opening", uses)
            assert Claim.parse(claim.text) == claim


def test_words_and_names_tell_things_apart():
    for things in (RELATIONS, CONDITIONS):
        every = [form for thing in things for form in (forms(thing) if things is RELATIONS else [thing])]
        distinct = {id(one): one for one in every}.values()
        assert len({one.words for one in distinct}) == len(distinct)
        assert len({one.name for one in distinct}) == len(distinct)
    assert set(BUILT_IN) < set(NAMED)


def test_what_is_made_of_a_relation_is_the_same_every_time():
    assert complement(BUILT_IN["closers"]) is complement(BUILT_IN["closers"])
    assert evenly(BUILT_IN["writes-of-value"]) is BUILT_IN["writes-of-value-even"]
    assert tokens_of(["b", "a"]) is tokens_of(["a", "b", "a"])
    assert tokens_of(["a"]) is token("a")
    assert token_in(["a"]) is token_is("a")
    for make in (complement, evenly, evenly_among):
        with pytest.raises(RequestError, match="says how evenly already"):
            make(BUILT_IN["all"])
        with pytest.raises(RequestError, match="relation=3 is no Relation"):
            make(3)
    for condition in (3, BUILT_IN_CONDITIONS["elsewhere"], depth_is(2)):
        with pytest.raises(RequestError, match="does not say what a token is"):
            not_so(condition)


# -- what is listed -----------------------------------------------------------------------------------------


def filled(phrase):
    """A listed wording with a number for its letter, and a relation for RELATION."""
    phrase = phrase.replace("RELATION", "the previous token")
    return re.sub(r"(?<![{'\[,] )\b[pntgd]\b(?![,}\]])", "3", phrase)


def test_every_listed_wording_is_understood():
    listed = wordings()
    for relation in listed["relations"]:
        assert Claim.parse(f"L0H0 attends to {filled(relation)}").relation.words
    for head in listed["heads"]:
        assert Claim.parse(f"{head} attends to START").relation.name == "start"
    for verb in listed["verbs"]:
        first, _, rest = verb.partition(" ... ")
        purpose = f" {rest} predict the label" if rest else ""
        assert Claim.parse(f"L0H0 {first} closing brackets{purpose}").relation.words.startswith("closing brackets")
    for condition in listed["conditions"]:
        assert Claim.parse(f"L0H0 attends to START {filled(condition)}").when is not None
    for use in listed["uses"]:
        assert Claim.parse(f"L0H0 uses START {use}").uses in TASKS
    for name in listed["names"]:
        claim = Claim.parse(f"L0H0 {name}")
        assert claim.text == f"L0H0 attends to {meanings()[name]}"
        assert claim == Claim.parse(claim.text)


def test_every_other_word_for_a_thing_is_understood():
    for relation in NAMED.values():
        for words in relation.also:
            found = Claim.parse(f"L0H0 attends to {words}").relation
            assert found is relation, words
    for condition in BUILT_IN_CONDITIONS.values():
        for words in condition.also:
            assert Claim.parse(f"L0H0 attends to START when {words}").when is condition, words


def test_patterns_of_wordings_have_one_group():
    for made in (*relations_made(), *conditions_made()):
        assert re.compile(made.pattern).groups == 1


ODD = ["L0H0", "attends to", "uses", "when", "to", "evenly", "at", "{", "}", "anything but", "is a", "head", "START",
       "and uses it to", "position", "3", ".", "not"]  # fmt: skip


def refusal(text):
    """What a sentence is refused with, "" where it is understood."""
    try:
        Claim.parse(text)
    except InterpError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("one", ODD)
def test_odd_sentences_are_understood_or_refused_in_a_line(one):
    for other in ODD:
        for text in (f"L0H0 {one} {other}", f"L0H0 attends to {one} {other}", f"L0H0 uses START {one} {other}"):
            assert "\n" not in refusal(text)


def quoted_in_the_manual():
    """(part, wording) of the manual's table."""
    text = (Path(__file__).parents[3] / "docs" / "manual.md").read_text(encoding="utf-8")
    table = text[text.index("| part | wordings |") :].split("\n\n")[0].splitlines()[2:]
    return [(row.split("|")[1].strip(), said) for row in table for said in re.findall(r'"([^"]*)"', row)]


# Sentences with the wording in its place; one of them at least must be understood.
PLACES = {
    "heads": ["{} attends to START"],
    "verbs": ["L0H0 {} START", "L0H0 {} attends to START", "L0H0 attends {} to START",
              "L0H0 attends to START and uses it to predict the label"],
    "what a head is called": ["L0H0 {}"],
    'positions, after "when"': [
        "L0H0 attends to START when {}",
        "L0H0 attends to START when the position {}",
    ],
    "queries": ["L0H0 attends to START when {}", "L0H0 attends to START when the current token {}", "L0H0 {}"],
    "targets": ["L0H0 attends to START when {}"],
    "brackets": ["L0H0 attends to START when {}", "L0H0 attends to START when the depth {}"],
    "uses": ["L0H0 uses START {}"],
}  # fmt: skip


def test_the_manual_lists_what_is_understood():
    listed = quoted_in_the_manual()
    assert len(listed) > 70
    for part, said in listed:
        said = said.replace("X", "closing brackets").replace("(not) ", "not ").replace(" (after)", "")
        said = re.sub(r" \([^)]*\)", "", said)
        places = PLACES.get(part, ["L0H0 attends to {}"])
        if said == "when":
            continue
        assert any(not refusal(place.replace("{}", said)) for place in places), (part, said)
