"""Names: the nearest known one to a wrong one."""

import pytest

from interp.names import did_you_mean, nearest_name, nearest_names

KNOWN = ("attention", "balance", "stack")


@pytest.mark.parametrize(
    ("word", "near"),
    [("atention", "attention"), ("stack", "stack"), ("nothing like it", None), ("", None), (3, None), (None, None)],
)
def test_the_nearest_name_is_found_where_one_is_alike_enough(word, near):
    assert nearest_name(word, KNOWN) == near
    assert nearest_name(word, iter(KNOWN)) == near
    assert did_you_mean(word, KNOWN) == ("" if near is None else f" (did you mean {near!r}?)")


def test_a_higher_cutoff_asks_for_more():
    assert nearest_name("blance sheet", KNOWN, cutoff=0.5) == "balance"
    assert nearest_name("blance sheet", KNOWN, cutoff=0.9) is None


def test_of_a_very_long_word_the_beginning_is_compared():
    assert nearest_name("stack" * 10**6, ["stack" * 40]) == "stack" * 40


def test_nothing_is_near_where_nothing_is_known():
    assert nearest_name("stack", []) is None


def test_several_come_nearest_first():
    assert nearest_names("stacks", ["balance", "stork", "stack"], 2, cutoff=0.0) == ["stack", "stork"]
    assert nearest_names(None, KNOWN, 3) == []
