"""Populations that ship: small, at their target, and made by the command that docs/shipped.md gives."""

import re
from pathlib import Path

import pytest

from interp import load_checkpoint
from interp.header import PRETRAINED, read_header
from interp.presets import make_recipe
from probes import analyze_glitches

PAGE = (Path(__file__).parents[1] / "docs" / "shipped.md").read_text(encoding="utf-8")
SHIPPED = sorted(path.stem for path in PRETRAINED.glob("*.safetensors"))
COMMAND = re.compile(r"^\| `([\w-]+)` \| `interp train ([\w-]+) --seeds (\d+)(?: --steps (\d+))?`", re.M)


def test_the_page_gives_a_command_for_each():
    assert sorted(found[0] for found in COMMAND.findall(PAGE)) == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_each_is_small_and_what_its_command_makes(name):
    assert (PRETRAINED / f"{name}.safetensors").stat().st_size < 2e6
    _, preset, seeds, steps = next(found for found in COMMAND.findall(PAGE) if found[0] == name)
    header, population = read_header(PRETRAINED / f"{name}.safetensors"), load_checkpoint(name)
    recipe = make_recipe(preset, steps=int(steps) if steps else None)
    assert header["seeds"] == list(range(int(seeds)))
    assert header["provenance"]["settings"] == recipe.to_dict()["settings"]
    assert (population.config, population.grammar) == (recipe.config, recipe.grammar)


@pytest.mark.parametrize("name", ["recall", "facts"])
def test_nearly_all_answers_are_right(name):
    assert min(row["accuracy"] for row in load_checkpoint(name).final_metrics()) >= 0.99


def test_markov_is_near_the_counts_of_pairs():
    rows = load_checkpoint("markov").final_metrics()
    assert max(row["loss"] - row["rung/bigram"] for row in rows) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flipflop-1l1h", "flipflop"])
def test_flip_flops_are_right_where_they_were_trained(name):
    found = analyze_glitches(load_checkpoint(name), laws=[0.8], reads=10_000, untrained=False)
    assert found.reads["0.8"] >= 10_000
    assert max(one.value * 10_000 for one in found.each["0.8"]) <= 1
