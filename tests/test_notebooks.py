"""Notebooks are what the pages of the tutorials give, and run."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("docs_notebooks", ROOT / "docs" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)
PAGES = notebooks.sources()
EXECUTED = "misleading-claim"  # has code and commands; blocks of all pages are run by tests/test_docs.py


def test_notebooks_are_what_their_pages_give():
    stale = [path.name for path in notebooks.outdated()]
    assert not stale, f"{stale}: run python docs/notebooks.py"
    assert {path.stem for path in notebooks.NOTEBOOKS.glob("*.ipynb")} == {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_valid_and_leads_where_its_page_does(page):
    nbformat = pytest.importorskip("nbformat")
    path = notebooks.notebook_of(page)
    made = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    nbformat.validate(made)
    code = [one for one in made.cells if one.cell_type == "code"]
    assert code
    assert not any(one.outputs for one in code)
    text = "\n".join(one.source for one in made.cells if one.cell_type == "markdown")
    for link in notebooks.LINK.findall(text):
        if not link.startswith("http"):
            assert (path.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorials_are_listed_and_in_the_navigation(page):
    assert f"]({page.name})" in (page.parent / "index.md").read_text(encoding="utf-8")
    assert f"- tutorials/{page.name}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_cells_of_a_page():
    run = "# A\n\n```python\nx = 1\n```\n\n```text\n1\n```\n"
    page = run + "\nB\n\n```toml\ny = 2\n```\n\n```console\n$ interp a\nout\n$ interp b\n```\n"
    found = list(notebooks.parts(page))
    assert [kind for kind, source in found if source.strip()] == ["markdown", "code", "markdown", "code"]
    assert found[1][1] == "x = 1\n"
    assert "toml" in found[2][1]
    assert not re.search(r"```text", found[2][1])
    assert found[3][1] == "!interp a\n!interp b"
    assert notebooks.moved("[a](../x.md#y) [b](z.md) [c](https://d.e)") == (
        "[a](../docs/x.md#y) [b](../docs/tutorials/z.md) [c](https://d.e)"
    )


@pytest.mark.slow
def test_a_notebook_runs(tmp_path, monkeypatch):
    """Up to its last commands, which a page's run has no shell for; code behind them is run as the page's."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = nbformat.read(notebooks.NOTEBOOKS / f"{EXECUTED}.ipynb", as_version=4)
    last = max(i for i, one in enumerate(made.cells) if one.cell_type == "code" and one.source.startswith("!"))
    del made.cells[last + 1 :]
    nbclient.NotebookClient(made, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = json.dumps([one.get("outputs", []) for one in made.cells])
    assert "Verdict: misleading" in said
    assert "command not found" not in said
