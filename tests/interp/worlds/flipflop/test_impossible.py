"""Strings that a law of flip-flops never draws: nats are numbers or infinite, never NaN, and those of the law that is
left where the impossible instructions are left out."""

import itertools
import math
import warnings

import numpy as np
import pytest

from closeness import assert_close
from interp.worlds.flipflop import FlipFlopGrammar
from interp.worlds.flipflop.reference import REFERENCE

LENGTH = 10
LAWS = [
    {"writes": 0.0},
    {"writes": 1.0, "ignore": (0.3,)},
    {"ignore": (0.0,)},
    {"ignore": (1.0,)},
    {"ignore": (0.0, 1.0)},
    {"ignore": (0.0, 0.4, 0.9), "writes": 1.0},
    {"ignore": (0.2, 0.7), "writes": 0.3},
]


def every_string():
    """All that begin with w and read what was written, the last instruction any, bits 0 and 1 by turns."""
    for rest in itertools.product("wri", repeat=LENGTH // 2 - 1):
        row, state = [], 3
        for at, instruction in enumerate(("w", *rest)):
            bit = state if instruction == "r" else 3 + at % 2
            state = bit if instruction == "w" else state
            row += ["wri".index(instruction), bit]
        yield row


def literal(row, ignore, writes):
    """Nats at each token: Bayes' rule over the parts of the mixture, of the instructions that were possible."""
    parts = [[writes * (1 - p), (1 - writes) * (1 - p), p] for p in ignore]
    weight = [1.0] * len(parts)
    nats = []
    for at in range(len(row) - 1):
        following = row[at + 1]
        if at % 2 == 0:
            nats.append(0.0 if row[at] == 1 else math.log(2))
        elif at + 1 == LENGTH - 2:
            nats.append(0.0 if following == 1 else math.inf)
        else:
            joint = [one * part[following] for one, part in zip(weight, parts, strict=True)]
            possible = sum(joint) > 0
            nats.append(-math.log(sum(joint) / sum(weight)) if possible else math.inf)
            weight = joint if possible else weight
    return [*nats, 0.0]


@pytest.mark.parametrize("options", LAWS, ids=str)
def test_impossible_instructions_cost_infinitely_many_nats_and_say_nothing(options):
    grammar = FlipFlopGrammar(LENGTH, mode="generative", **options)
    rows = list(every_string())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, rungs = grammar.law_nll(rows), grammar.rungs(rows)
    right = np.array([literal(row, grammar.ignore, grammar.writes) for row in rows])
    assert np.isinf(right).any()
    assert (np.isinf(found) == np.isinf(right)).all()
    finite = np.isfinite(right)
    assert_close(found[finite], right[finite], ulps=64, scale=4)
    assert_close(np.array([REFERENCE.law(row, grammar) for row in rows])[finite], right[finite], ulps=64, scale=4)
    assert not any(np.isnan(nats).any() for nats in rungs.values())


@pytest.mark.parametrize("options", LAWS, ids=str)
def test_strings_are_infinite_where_the_law_does_not_list_them(options):
    """The nats of a whole string are minus the logarithm of its probability, infinite for one that is not listed."""
    grammar = FlipFlopGrammar(LENGTH, mode="generative", **options)
    listed, chances = grammar.enumerate()
    chance = dict(zip(map(tuple, listed.tolist()), chances, strict=True))
    rows = list(every_string())
    total = grammar.law_nll(rows).sum(1)
    right = np.array([chance.get(tuple(row), 0.0) for row in rows])
    assert (np.isinf(total) == (right == 0)).all()
    assert_close(total[right > 0], -np.log(right[right > 0]), ulps=64, scale=16)
