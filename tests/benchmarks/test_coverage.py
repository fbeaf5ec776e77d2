"""Intervals cover what they say: the committed simulation, a quick one of every kind, and the page that tells."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import coverage  # noqa: E402  # benchmarks/coverage.py

COMMITTED = json.loads((ROOT / "benchmarks" / "coverage.json").read_text(encoding="utf-8"))["rows"]
TRIED = [
    pytest.param(kind, law, size, id=f"{kind.name}-{law.name}-{size}")
    for kind in coverage.KINDS
    for law in kind.laws
    for size in (8, 40)
    if size in kind.sizes and law.promised and size >= law.from_size
]


def test_every_interval_that_is_printed_covers_on_its_family():
    assert all(coverage.keeps(row) for row in COMMITTED)
    promised = [row for row in COMMITTED if row["promised"]]
    assert len(promised) > 80
    trained = {kind.name for kind in coverage.trained_kinds()}  # of which nothing is promised
    assert {row["kind"] for row in promised} == {kind.name for kind in coverage.KINDS} - trained


def test_the_simulation_was_of_what_is_tried_now():
    laws = {(kind.name, law.name, size) for kind in coverage.KINDS for law in kind.laws for size in kind.sizes}
    assert {(row["kind"], row["law"], row["n"]) for row in COMMITTED} == laws


@pytest.mark.parametrize(("kind", "law", "size"), TRIED)
def test_a_quick_simulation_says_the_same(kind, law, size):
    """Four standard errors of few draws: what covered 80 % would not pass."""
    row = coverage.cover(kind, law, size, 60 if "pairs" in kind.name else 400)
    assert coverage.keeps(row, errors=4.0)


def test_what_training_made_is_covered_but_for_arms_in_which_a_seed_lies_far_off():
    """With forty seeds, give or take the error of a thousand draws; below, no more is said than the page says."""
    own = [row for row in COMMITTED if row["kind"].startswith("trained seeds") and row["n"] == 40]
    off = {row["law"] for row in own if not 0.91 <= row["covers"] <= 0.985}
    assert len(own) == 36
    assert off <= {"contrastive, prefix, released code"}


def test_a_bad_interval_would_not_pass():
    kind = next(kind for kind in coverage.KINDS if kind.name == "mean of shares")
    short = replace(kind, make=lambda x: replace(kind.make(x), low=kind.make(x).value - 1e-3, high=1.0))
    row = coverage.cover(short, kind.laws[0], 8, 400)
    assert not coverage.keeps(row, errors=4.0)


def test_the_page_holds_the_committed_table():
    text = (ROOT / "docs" / "intervals.md").read_text(encoding="utf-8")
    assert coverage.table(COMMITTED) in text
    assert coverage.trained_sentence(COMMITTED) in text
