"""The tutorials as notebooks: `python docs/notebooks.py` writes examples/NAME.ipynb from docs/tutorials/NAME.md.

The page is the source. Its text becomes Markdown cells, its `python` blocks code cells, and a `console` block a cell of
`!interp ...` lines. What blocks print is left out, since a notebook shows it when it is run. `--check` writes nothing
and fails where a notebook is not what its page gives.
"""

import argparse
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES, NOTEBOOKS = ROOT / "docs" / "tutorials", ROOT / "examples"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\n?", re.M | re.S)
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
META = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def sources() -> list[Path]:
    """The pages that have a notebook: all tutorials but the list of them."""
    return sorted(path for path in PAGES.glob("*.md") if path.name != "index.md")


def notebook_of(page: Path) -> Path:
    """Where the notebook of a page stands."""
    return NOTEBOOKS / f"{page.stem}.ipynb"


def moved(text: str) -> str:
    """Markdown whose relative links lead from examples/ to where they led from docs/tutorials/."""

    def link(match: re.Match[str]) -> str:
        path, mark, fragment = match[1].partition("#")
        if re.match(r"[a-z]+:", path):
            return match[1]
        path = path and posixpath.relpath(posixpath.join("docs/tutorials", path), "examples")
        return path + mark + fragment

    return LINK.sub(link, text)


def parts(text: str) -> Iterator[tuple[str, str]]:
    """(kind of cell, its source) in the order of a page."""
    prose, at, behind_code = "", 0, False
    for fence in FENCE.finditer(text):
        between = text[at : fence.start()]
        printed = fence[1] == "text" and behind_code and not between.strip()
        runs = fence[1] in ("python", "console")
        prose += between + ("" if runs or printed else fence[0])
        at, behind_code = fence.end(), fence[1] == "python"
        if runs:
            yield "markdown", prose
            prose = ""
            commands = re.findall(r"^\$ (.*)\n", fence[2], re.M)
            yield "code", fence[2] if fence[1] == "python" else "\n".join(f"!{command}" for command in commands)
    yield "markdown", prose + text[at:]


def cell(kind: str, source: str, number: int) -> dict[str, Any]:
    """A cell as nbformat 4.5 has it; ids are numbers, so that equal pages give equal bytes."""
    lines = source.strip("\n").splitlines(keepends=True)
    made: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def made_of(page: Path) -> str:
    """The notebook of a page, as the text of its file."""
    text = page.read_text(encoding="utf-8")
    itself = f"[a notebook](../../examples/{page.stem}.ipynb)"
    if itself not in text:
        raise SystemExit(f"{page}: does not link to its notebook as {itself}")
    text = text.replace(itself, f"[a page of the documentation]({page.name})")
    cells = [(kind, moved(source) if kind == "markdown" else source) for kind, source in parts(text)]
    kept = [one for one in cells if one[1].strip()]
    whole = {
        "cells": [cell(kind, source, number) for number, (kind, source) in enumerate(kept)],
        "metadata": META,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def outdated() -> list[Path]:
    """Notebooks that are not what their pages give."""
    pairs = [(notebook_of(page), made_of(page)) for page in sources()]
    return [path for path, text in pairs if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    """Write all notebooks, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a notebook is not what its page gives"
    )
    found = outdated()
    if parser.parse_args().check:
        print(
            "\n".join(f"{path.relative_to(ROOT)} is not what its page gives" for path in found), end="\n" * bool(found)
        )
        return int(bool(found))
    for path in found:
        page = PAGES / f"{path.stem}.md"
        path.write_text(made_of(page), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
