"""CONTRIBUTING.md is executed: a world, a relation and condition, an analyzer, as a stranger would copy them."""

import re
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from interp import plugins, registry, train_population
from interp.plots import attention_heatmap

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def page():
    """A module that holds what all blocks of the page define, in their order."""
    module = types.ModuleType("contributed")
    sys.modules["contributed"] = module
    for block in BLOCKS:
        exec(compile(block, "CONTRIBUTING.md", "exec"), module.__dict__)
    yield module
    del sys.modules["contributed"]


@pytest.mark.slow
def test_the_page_has_its_blocks(page):
    assert len(BLOCKS) == 6
    assert page.SINK.name == "sink"
    assert page.analyze_sink.__doc__


@pytest.mark.slow
def test_the_smallest_world_trains_and_is_drawn(page, monkeypatch):
    point = EntryPoint("echo", "contributed:WORLD", registry.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    registry.refresh()
    try:
        trained = train_population("echo", 2, workers=1)
        row = trained.final_metrics()[0]
        assert row["accuracy"] > 0.99
        assert row["loss"] < 0.1 < row["rung/uniform"]
        figure = attention_heatmap(trained[0], "abcabc", overlay="before")
        assert "the letter before" in str(figure.to_dict())
    finally:
        monkeypatch.undo()
        registry.refresh()


def test_links_of_the_page_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link
    for path in re.findall(r"`((?:interp|probes|examples|case_studies|docs)/[\w/.]+)`", TEXT):
        assert (ROOT / path).exists(), path
