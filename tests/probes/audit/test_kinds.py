"""Questions with several kinds of minimal pair: each is asked, and used by one is used."""

from dataclasses import dataclass, replace
from itertools import permutations

import pytest

from interp import load_checkpoint
from interp.claims import Items
from interp.errors import RequestError
from interp.worlds.dyck.claims import Closers
from probes import Claim, audit_claim
from probes.audit.kinds import ORDER, OfKind, by_kind, together
from probes.audit.rows import Finding, stem

CLAIM = "L1H0 uses the last unmatched open bracket to predict closing brackets"


@dataclass(frozen=True)
class TwoKinds:
    """Closing brackets, asked by the type of the deciding opener, and by pairs in which nothing of it differs."""

    kinds: tuple[str, ...] = ("type", "same")
    name: str = "closers"
    words: str = "predict closing brackets"

    def items(self, tokens, grammar, rows, seed, kind=None) -> Items:
        assert kind in self.kinds
        found = Closers().items(tokens, grammar, rows, seed)
        return found if kind == "type" else replace(found, donors=found.tokens)


def finding(word):
    return Finding(word, f"because of {word}.", (), f"rule of {word}")


TASKS = [OfKind(Closers(), kind) for kind in ("content", "address")]


@pytest.mark.parametrize(("one", "other"), list(permutations(ORDER, 2)))
def test_the_stronger_word_is_that_of_all(one, other):
    found = together(TASKS, [finding(one), finding(other)])
    assert found.word == min(one, other, key=ORDER.index)
    assert found.rule == f"rule of {found.word}"
    assert f"Of content pairs (what is fetched differs): {one}. because of {one}." in found.because
    assert f"Of address pairs (where it is to be found differs): {other}. because of {other}." in found.because


def test_unused_needs_every_kind():
    assert together(TASKS, [finding("unused")] * 2).word == "unused"


def test_a_question_without_kinds_is_asked_as_it_is():
    question = Closers()
    assert by_kind(question) == (question,)
    one = finding("used")
    assert together([question], [one]) is one


@pytest.mark.slow
def test_the_audit_asks_each_kind():
    """Each until one shows the use; it is named, and what the others would show is not told."""
    model = load_checkpoint("constructed/stack")
    alone = audit_claim(model, Claim.parse(CLAIM))
    both = audit_claim(model, Claim.parse(CLAIM), task=TwoKinds())
    names = {row["name"] for row in both.evidence}
    assert "effect/type" in names
    assert not any(name.endswith("/same") for name in names)
    assert "Of type pairs: used, so that same pairs need not be asked. " in both.reason
    assert alone.use == both.use == "used"
    assert both.verdict == "supported"
    assert both.level == pytest.approx(1 - 0.05 / 2)  # either kind is enough, so each is held to a stricter level
    assert {row["unit"] for row in both.evidence if row["name"].startswith("margin/")} == {"logits"}
    shown = next(row for row in both.evidence if row["name"] == "effect/type")["value"]
    assert shown == next(row for row in alone.evidence if row["name"] == "effect")["value"]
    only = audit_claim(model, Claim.parse(CLAIM), task=TwoKinds(kinds=("type",)))
    assert only.reason == alone.reason
    assert only.verdict == alone.verdict
    assert only.level == alone.level == 0.95


@pytest.mark.slow
def test_seeds_with_several_kinds_are_told_as_those_with_one():
    """Rows of a kind keep their unit, range and bound over seeds, and each seed shows an effect its word rests on."""
    models = [load_checkpoint("constructed/stack") for _ in range(2)]
    one, two = (audit_claim(models, Claim.parse(CLAIM), task=TwoKinds(kinds=k)) for k in (("type",), ("same", "type")))
    alone = {row["name"]: row for row in one.evidence}
    for row in two.evidence:
        name, _, kind = row["name"].partition("/")
        if kind == "type":
            told = ("value", "side", "threshold", "unit", "says")
            assert {part: row[part] for part in told} == {part: alone[name][part] for part in told}, name
    assert [seed["effect"] for seed in two.seeds] == [seed["effect"] for seed in one.seeds]
    assert all(seed["effect"] is not None for seed in two.seeds)


@pytest.mark.parametrize(
    ("name", "measured"),
    [("score", "score"), ("score L0H1", "score"), ("effect/content", "effect"), ("mean_fill/a b", "mean_fill")],
)
def test_a_row_is_known_by_what_it_measures(name, measured):
    assert stem(name) == measured


@pytest.mark.parametrize("kinds", ["inc", (), ("a", "a"), ("a", ""), ("a", 3), None, {"a"}], ids=str)
def test_kinds_that_name_none_are_refused_where_they_are_asked(kinds):
    with pytest.raises(RequestError, match=r"question 'closers' has kinds=.*: give a tuple of distinct texts"):
        by_kind(TwoKinds(kinds=kinds))
