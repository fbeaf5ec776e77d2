"""Pages of worlds show how to train and to look; verdicts and every reason for `undecided` are explained."""

import re
import shlex
from pathlib import Path

import pytest

from interp.cli.parser import make_parser
from interp.presets import make_recipe
from interp.registry import get_world, list_worlds

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {name: DOCS / "worlds" / f"{name.replace('_', '-')}.md" for name in list_worlds()}
TRAINED = [name for name in PAGES if get_world(name).presets and PAGES[name].exists()]


def commands(name):
    """The commands of the page's `sh` blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGES[name].read_text(), re.M | re.S)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.startswith("interp ")]


@pytest.mark.parametrize("name", TRAINED)
def test_a_page_shows_how_its_world_is_trained_and_what_its_strings_look_like(name):
    parsed = [make_parser().parse_args(line) for line in commands(name)]
    recipes = [make_recipe(one.preset, dict(one.options)) for one in parsed if one.command == "train"]
    assert any(recipe.grammar.KIND == grammar.KIND for recipe in recipes for grammar in get_world(name).grammars)
    for one in parsed:
        if one.command == "heatmap":
            assert recipes[0].grammar.to_tokens(one.text).size  # by the model that the block trains
            assert set(one.overlay or ()) <= set(get_world(name).overlays)


def test_the_glossary_has_every_verdict():
    text = (DOCS / "glossary.md").read_text()
    for word in ("Supported", "Misleading", "Refuted", "Undecided"):
        assert f"**{word}.** The verdict" in text


def test_every_reason_for_undecided_has_something_to_do():
    rules = re.findall(r"^\| `(\w+)` \+?.*? \| undecided \|", (DOCS / "audit-rules.md").read_text(), re.M)
    page = (DOCS / "analyzers" / "audit.md").read_text()
    section = page.split("## What `undecided` asks you to do")[1].split("\n## ")[0]
    told = {
        rule
        for line in section.splitlines()
        if line.startswith("|")
        for rule in re.findall(r"`(\w+)`", line.split("|")[2])
    }
    assert len(rules) > 15
    assert told == {rule for rule in rules if not rule.startswith("verdict")}
