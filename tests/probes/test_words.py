"""What results print and draw: every interval says its n, undefined reads one way, no minus before a zero."""

import re

import numpy as np
import pytest

from interp import load_checkpoint
from interp.numbers import UNDEFINED
from interp.population import Population
from interp.presets import make_recipe
from intervals import INTERVAL, unnamed, unnamed_of_figure
from probes import (
    analyze_balance,
    analyze_drift,
    analyze_glitches,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    scan_heads,
)

CLAIM = "L1H0 attends to the last unmatched open bracket"


def blocks() -> np.ndarray:
    topic = np.repeat(np.arange(4), 5)
    return (topic[:, None] == topic) + 0.3 * np.random.default_rng(1).normal(size=(3, 20, 20))


def stages(runs: int) -> dict[str, np.ndarray]:
    steps = np.arange(0, 400, 10)
    late = np.maximum(0, steps - 200) / 40 + 0.01 * (1 + np.sin(steps))
    each = np.linspace(1, 1.1, runs)[:, None]
    return {"W_K": each * late, "W_Q": each * late, "W_V": each * (1 - np.exp(-steps / 60))}


def flips(preset: str, seeds: int) -> Population:
    recipe = make_recipe(preset)
    return Population.init(recipe.config, range(seeds), recipe.grammar)


RESULTS = {
    "drift": lambda: analyze_drift(flips("flipflop", 5), length=16, task_check=False),
    "drift of one": lambda: analyze_drift(flips("flipflop-1l1h", 1)[0], length=16, task_check=False),
    "glitches": lambda: analyze_glitches(flips("flipflop-1l1h", 5), reads=100, task_check=False),
    "glitches of one": lambda: analyze_glitches(flips("flipflop-1l1h", 1)[0], reads=100, task_check=False),
    "variation": lambda: analyze_variation(load_checkpoint("dyck-standard")),
    "variation of two": lambda: analyze_variation(load_checkpoint("dyck-standard")[:2], untrained=False),
    "stack": lambda: analyze_stack_likeness(load_checkpoint("dyck-standard"), num_inputs=12),
    "stack of one": lambda: analyze_stack_likeness(load_checkpoint("dyck-standard")[0], num_inputs=12),
    "stack on one input": lambda: analyze_stack_likeness(load_checkpoint("dyck-standard")[0], "([])"),
    "balance": lambda: analyze_balance(load_checkpoint("dyck-minimal")[:2], num_inputs=6),
    "balance of one": lambda: analyze_balance(load_checkpoint("dyck-standard")[0], num_inputs=12),
    "topics": lambda: analyze_topic_blocks(blocks(), labels=np.repeat(np.arange(4), 5)),
    "topics, one": lambda: analyze_topic_blocks(blocks()[0], labels=np.repeat(np.arange(4), 5)),
    "topics, no labels": lambda: analyze_topic_blocks(blocks()[0]),
    "topics, nothing": lambda: analyze_topic_blocks(np.ones((10, 10)), labels=np.repeat([0, 1], 5)),
    "two stages": lambda: analyze_two_stages(stages(4), steps=np.arange(0, 400, 10)),
    "two stages of one": lambda: analyze_two_stages(stages(1), steps=np.arange(0, 400, 10)),
    "no two stages": lambda: analyze_two_stages({n: np.linspace(1, 2, 30) for n in ("W_K", "W_Q", "W_V")}),
    "audit": lambda: audit_claim(load_checkpoint("constructed/constant"), CLAIM, num_inputs=160),
    "audit of a population": lambda: audit_claim(load_checkpoint("dyck-minimal")[:3], CLAIM.replace("L1", "L0")),
    "scan": lambda: scan_heads(load_checkpoint("constructed/stack"), ["stack-top", "all"], num_inputs=160),
    "scan of a population": lambda: scan_heads(load_checkpoint("dyck-minimal")[:3], num_inputs=120),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.slow
def test_what_a_result_prints_and_draws(name):
    result = RESULTS[name]()
    text = result.summary()
    assert not unnamed(text)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"(?<![\d.e])-0\.0*(?!\d)", text)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b|\bnone\b(?! \()", text.replace("Structure: none", ""))
    assert not re.search(r" {2,}-( {2,}|$)", text, re.MULTILINE)  # a lone dash is not a number
    fig = result.figure()
    assert not unnamed_of_figure(fig)
    assert "<pre>" in result._repr_html_()


def test_undefined_numbers_have_their_reason_below():
    text = RESULTS["topics, no labels"]().summary()
    assert f"{UNDEFINED}: no topic labels were given" in " ".join(text.split())
    assert text.count("no topic labels were given") == 1


def test_the_search_finds_an_interval_without_n():
    assert INTERVAL.search("0.5 [0.4, 0.6]")
    assert unnamed("score 0.5 [0.4, 0.6] over seeds")
    assert not unnamed("score 0.5 [0.4, 0.6] (n=8 seeds)")
    assert not unnamed("in 3 of 8 [0.1, 0.7]")
    assert not unnamed("a string [[[[]]]] and a list [1, 2")
