"""The walkers of keywords find what they are for (see `walk`)."""

import fractions
from dataclasses import dataclass, replace

import numpy as np
import pytest

from interp.errors import AnalysisError, RequestError
from walk import Entry, Made, Pair, check


@dataclass(frozen=True)
class Found:
    """A result that repeats what was asked, as those of audits repeat their seed."""

    value: float
    seed: object
    inner: object = None


def silent(seed):
    return Found(1.0, seed)


def deaf(seed):
    return 2.0


def nested(seed):
    return {"parts": [{"seed": seed}], "copy": tuple(seed) if isinstance(seed, list) else seed}, Found(1.0, None)


def relayed(seed):
    """A library is asked something wrong, and names the keyword."""
    try:
        return fractions.Fraction("seed") if seed else 1.0
    except ValueError as error:
        raise AnalysisError(f"could not be measured ({error})") from error


@pytest.mark.parametrize("call", [silent, nested, deaf])
@pytest.mark.parametrize(
    ("value", "other"),
    [
        (0, 1),
        (None, "x"),
        ([0], [1, 2]),
        (Found(1.0, 0), Found(2.0, 1)),
        (Made(lambda: np.zeros(2)), Made(lambda: np.ones(2))),
    ],
    ids=["numbers", "none", "lists", "objects", "made"],
)
def test_what_only_repeats_a_value_changes_nothing(call, value, other, tmp_path):
    with pytest.raises(AssertionError, match="changes nothing"):
        check(Entry(call, {"seed": (value, other)}), "seed", tmp_path)


def test_a_librarys_word_for_a_keyword_is_no_refusal_of_it(tmp_path):
    with pytest.raises(AssertionError, match="does not say"):
        check(Entry(relayed, {"seed": (0, 1)}), "seed", tmp_path)


def test_a_match_is_looked_for_in_the_errors_own_words():
    with pytest.raises(AnalysisError, match="could not be measured"):
        relayed(1)
    with pytest.raises(AssertionError), pytest.raises(AnalysisError, match="seed"):
        relayed(1)


def drawn(seed):
    return Found(np.random.default_rng(seed).random(), seed)


def written(seed):
    return Found(1.0, seed, f"seed {seed}")


def refused(seed):
    if seed:
        raise RequestError(f"seed={seed} changes nothing here")
    return silent(seed)


def changed(seed):
    return replace(silent(seed), seed=-seed)


@pytest.mark.parametrize("call", [drawn, written, refused, changed])
def test_what_a_value_makes_is_seen(call, tmp_path):
    check(Entry(call, {"seed": Pair(0, 1)}), "seed", tmp_path)
