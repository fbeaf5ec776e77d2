"""Constraints declared at a field: every bound from both sides."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge, Interval, Le, doc

from interp.constraints import allowed, check_fields, help_of
from interp.errors import ConfigError, GrammarError


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
