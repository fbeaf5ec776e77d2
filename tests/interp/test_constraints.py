"""Constraints declared at a field: every bound from both sides."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge, Interval, Le, Len, MinLen, doc

from interp.constraints import allowed, check_fields, declared, help_of, read_option
from interp.errors import ConfigError, GrammarError
from interp.numbers import Written


@dataclass(frozen=True)
class Some:
    count: Annotated[int, Interval(ge=1, le=9), doc("how many")] = 1
    least: Annotated[int, Ge(2)] = 2
    most: Annotated[int, Le(5)] = 5
    odd: Annotated[int, Interval(gt=0)] = 1
    share: Annotated[float, Interval(gt=0, lt=1), doc("a share")] = 0.5
    half: Annotated[float, Interval(gt=0, le=1)] = 1.0
    size: Annotated[float, Interval(ge=0, le=1e6)] | None = None
    word: Literal["a", "b"] = "a"
    flag: bool = False
    free: str = ""

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)


INSIDE = {
    "count": (1, 9),
    "least": (2, 10**9),
    "most": (5, -(10**9)),
    "odd": (1, 10**9),
    "share": (5e-324, 1 - 2**-53),
    "half": (5e-324, 1, 1.0),
    "size": (0, 1e6, None),
    "word": ("a", "b"),
    "flag": (True, False),
    "free": ("", 3),
}
WRONG = (None, "three", [1], np.zeros(2), float("nan"), float("inf"), -float("inf"), 10**400, b"a")
OUTSIDE = {
    "count": (0, 10, True, 1.0),
    "least": (1, True, 2.0),
    "most": (6, 5.0, False),
    "odd": (0, True),
    "share": (0, 1, 0.0, 1.0, True),
    "half": (0, 1.0000000000000002, True),
    "size": (-5e-324, 1000000.0000000001, True, "x"),
    "word": ("c", "", 1),
    "flag": (0, 1, "yes"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INSIDE.items() for value in values])
def test_what_lies_within_is_taken(name, value):
    assert getattr(Some(**{name: value}), name) is value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name, values in OUTSIDE.items()
        for value in (*values, *(w for w in WRONG if name != "size" or w is not None))
    ],
    ids=str,
)
def test_what_does_not_is_refused_in_one_line(name, value):
    with pytest.raises(ConfigError) as error:
        Some(**{name: value})
    assert str(error.value).startswith(f"{name}=")
    assert allowed(Some, name).split(" and ")[0] in str(error.value)


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3), np.float32(3)])
def test_numbers_of_numpy_become_plain(number):
    name = "size" if isinstance(number, np.floating) else "count"
    found = getattr(Some(**{name: number}), name)
    assert found == 3
    assert type(found) in (int, float)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("count", "a whole number from 1 to 9"),
        ("least", "a whole number of at least 2"),
        ("most", "a whole number of at most 5"),
        ("odd", "a whole number above 0"),
        ("share", "a number above 0 and below 1"),
        ("half", "a number above 0 and of at most 1"),
        ("size", "a number from 0 to 1e+06"),
        ("word", "one of a, b"),
        ("flag", "True or False"),
    ],
)
def test_what_is_taken_is_said(name, words):
    assert allowed(Some, name) == words


def test_help_is_what_fields_say():
    assert help_of(Some) == {
        "count": "how many: a whole number from 1 to 9",
        "share": "a share: a number above 0 and below 1",
    }


def test_the_error_is_the_callers():
    @dataclass(frozen=True)
    class Other:
        count: Annotated[int, Ge(1)] = 0

    with pytest.raises(GrammarError, match="count=0 is not a whole number of at least 1"):
        check_fields(Other(), GrammarError)


# -- fields that hold several ---------------------------------------------------------------------------

Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True)
class Lists:
    shares: Annotated[tuple[Share, ...], doc("a mixture")] = (0.5,)
    counts: tuple[Annotated[int, Interval(ge=1, le=9)], ...] = ()
    some: Annotated[tuple[Share, ...], MinLen(1)] = (0.5,)
    few: Annotated[tuple[int, ...], Len(1, 2)] = (1,)
    short: Annotated[tuple[float, ...], Len(0, 2)] = ()
    pair: tuple[Share, Share] = (0.0, 1.0)
    names: tuple[str, ...] = ("a",)
    words: Annotated[tuple[Literal["a", "b"], ...], doc("words")] = ("a",)
    flags: tuple[bool, ...] = ()
    maybe: tuple[str, ...] | None = None
    mixed: tuple[int, str] = (1, "a")  # neither is declared to be anything that is checked here
    nested: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)


TAKEN = {
    "shares": [(), (0, 1), (0.0, 0.5, 1.0)],
    "counts": [(), (1, 9)],
    "some": [(1,), (0.1, 0.2)],
    "few": [(-7,), (1, 2)],
    "short": [(), (1e300, -1e300)],
    "pair": [(0, 1)],
    "names": [(), ("a", "b,c", "")],
    "words": [(), ("a", "b", "b")],
    "flags": [(), (True, False)],
    "maybe": [None, (), ("a",)],
    "mixed": [(1, "a"), 3],
    "nested": [((1,),)],
}
NOT_TAKEN = {
    "shares": [(-5e-324,), (0.5, 1.0000000000000002), (True,), ("x",), (float("nan"),), (None,), ((0.5,),)],
    "counts": [(0,), (9, 10), (1.0,), (True,)],
    "some": [(), (2,)],
    "few": [(), (1, 2, 3), (1.5,)],
    "short": [(1, 2, 3), (float("inf"),)],
    "pair": [(), (0,), (0, 1, 1), (0, 2)],
    "names": [(1,), ("a", None), (b"a",)],
    "words": [("c",), ("a", ""), (1,)],
    "flags": [(0,), ("True",)],
    "maybe": [(1,)],
}
NO_LIST = (0.5, 3, "a", {0.5}, {"a": 1}, object(), np.float64(0.5), np.array(0.5), np.zeros((2, 2)), iter(()))
FORMS = {"list": list, "tuple": tuple, "array": lambda value: np.array(value, dtype=None if value else float)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in TAKEN.items() for value in values])
def test_several_that_fit_are_taken(name, value):
    assert getattr(Lists(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in NOT_TAKEN.items() for value in (*values, *NO_LIST)],
    ids=lambda one: re.sub(r" at 0x[0-9a-f]+", "", str(one)),  # the same in every process
)
def test_several_that_do_not_fit_are_refused_in_one_line(name, value):
    with pytest.raises(ConfigError) as error:
        Lists(**{name: value})
    assert str(error.value).startswith(f"{name}=")
    assert f"is not {allowed(Lists, name)}" in str(error.value)
    assert "\n" not in str(error.value)


def test_several_may_be_missing_only_where_they_are_optional():
    assert Lists().maybe is None
    with pytest.raises(ConfigError, match="names=None is not a list of strings"):
        Lists(names=None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "value"), [("shares", (0.25, 1.0)), ("counts", (3, 4)), ("flags", (True, False))])
def test_lists_and_arrays_become_tuples_of_plain_values(form, name, value):
    found = Lists(**{name: FORMS[form](value)})
    assert repr(getattr(found, name)) == repr(value)
    assert hash(found) == hash(Lists(**{name: value}))


def test_the_wrong_entry_is_named():
    with pytest.raises(ConfigError) as error:
        Lists(shares=[0.5, 1.5, 2.0])
    assert str(error.value) == "shares=[0.5, 1.5, 2.0] is not a list of numbers from 0 to 1: 1.5 is none"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shares", "a list of numbers from 0 to 1"),
        ("counts", "a list of whole numbers from 1 to 9"),
        ("some", "a list of numbers from 0 to 1, at least 1 of them"),
        ("few", "a list of whole numbers, 1 to 2 of them"),
        ("short", "a list of numbers, at most 2 of them"),
        ("pair", "a list of numbers from 0 to 1, 2 of them"),
        ("names", "a list of strings"),
        ("words", "a list of words, each one of a, b"),
        ("flags", "a list of values True or False"),
    ],
)
def test_what_several_take_is_said(name, words):
    assert allowed(Lists, name) == words


def test_the_help_of_several_says_how_they_are_written():
    assert help_of(Lists) == {
        "shares": "a mixture: a list of numbers from 0 to 1, separated by commas",
        "words": "words: a list of words, each one of a, b, separated by commas",
    }


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("shares", ".9,.98,0.1", (0.9, 0.98, 0.1)),
        ("shares", " 0 , 1e-1", (0, 0.1)),
        ("shares", ".9,", (0.9,)),
        ("shares", 0.9, (0.9,)),
        ("shares", [0.9, 0.98], (0.9, 0.98)),
        ("shares", np.array([0.5]), (0.5,)),
        ("shares", "0.9,x", (0.9, "x")),
        ("shares", "0.9,,1", (0.9, "", 1)),
        ("shares", "nan", ("nan",)),
        ("shares", {0.9}, {0.9}),
        ("counts", "1,2.5", (1, 2.5)),
        ("names", "a,7, b", ("a", "7", "b")),
        ("words", "a", ("a",)),
        ("flags", "True,False,yes", (True, False, "yes")),
        ("maybe", None, None),
    ],
)
def test_several_are_read_as_they_are_written(name, given, read):
    assert repr(read_option(Lists, name, given)) == repr(read)


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("flag", "True", True),
        ("flag", "False", False),
        ("flag", "yes", "yes"),
        ("flag", 1, 1),
        ("word", "a,b", "a,b"),
        ("count", "3", "3"),
        ("count", 3, 3),
        ("free", "a,b", "a,b"),
        ("free", "True", "True"),
        ("nosuch", "a,b", "a,b"),
    ],
)
def test_what_holds_one_value_is_read_as_it_is(name, given, read):
    assert repr(read_option(Some, name, given)) == repr(read)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Annotated[tuple[float, ...], Interval(ge=0, le=1)], "nothing checks: give each entry its own"),
        (Annotated[tuple[float, float], Ge(0)], "nothing checks: give each entry its own"),
        (Annotated[tuple[float, ...], Le(1)] | None, "nothing checks: give each entry its own"),
        (Annotated[list[float], Interval(ge=0)], "bounds that nothing checks$"),
        (Annotated[str, Interval(ge=0)], "bounds that nothing checks$"),
        (Annotated[bool, Ge(0)], "bounds that nothing checks$"),
        (Annotated[Literal["a"], Le(3)], "bounds that nothing checks$"),
        (Annotated[float | None, Interval(ge=0)], None),
        (Annotated[tuple[Annotated[float, Interval(ge=0)], ...], Len(1)], None),
        (tuple[float, ...] | None, None),
    ],
    ids=str,
)
def test_a_bound_that_nothing_checks_is_refused(hint, said):
    """Before any value is: it would be written at a field, and hold nothing back."""
    made = dataclass(frozen=True)(type("Made", (), {"__annotations__": {"x": hint}}))
    if said is None:
        assert "x" in declared(made)
        return
    with pytest.raises(
        ConfigError, match=f"^Made.x has {said if said.startswith('bounds') else 'bounds that ' + said}"
    ):
        declared(made)


@dataclass(frozen=True)
class Wordy:
    """Fields in which a text that looks like a number is a text, or is none."""

    names: tuple[str, ...] = ()
    tags: tuple[Literal["1", "2"], ...] = ()
    shares: tuple[Annotated[float, Interval(ge=0)], ...] = ()
    one: Literal["1", "b"] = "b"
    text: str = ""
    count: Annotated[int, Interval(ge=0)] = 0
    free: float = 0.0
    flag: bool = False


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("names", "7", ("7",)),
        ("names", "1e3,x", ("1e3", "x")),
        ("tags", "1", ("1",)),
        ("shares", "7", (7,)),
        ("one", "1", "1"),
        ("text", "007", "007"),
        ("count", "7", 7),
        ("count", "seven", "seven"),
        ("free", "1e3", 1000.0),
        ("free", "x", "x"),
        ("flag", "True", True),
        ("flag", "1", "1"),
        ("nosuch", "7", 7),
    ],
)
def test_what_is_written_is_read_as_its_field_takes_it(name, written, read):
    """A number where the field holds numbers, and a text where it holds texts, whatever it looks like."""
    assert repr(read_option(Wordy, name, Written(written))) == repr(read)
