"""The READMEs: every interval says how many of what it is over, in its table, sentence or list item."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = [ROOT / "README.md", *sorted((ROOT / "case_studies").glob("*/README.md"))]
INTERVAL = re.compile(r"\[(?=[^\]]*\.)-?\d*\.?\d+(?:e-?\d+)?,\s+-?\d*\.?\d+(?:e-?\d+)?\]")
UNITS = "seeds|models|inputs|strings|articles|runs|heads|networks|pairs|claims|words|encoders|targets|cells"
SIZE = re.compile(rf"\bn ?= ?\d+|\b\d[\d,]*(?: of \d+)? (?:{UNITS})\b|\b\d+ of \d+ \[|\(\d+ a family\)")


def blocks(text: str) -> list[tuple[str, str]]:
    """(block, what else says its n) of a Markdown text, code left out: a row of a table has the head and captions.

    Captions are the sentences just before and after that speak of n or of intervals: a count of seeds in a text that
    happens to stand beside the table says nothing of it.
    """
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- bench: begin.*?bench: end -->", "", text, flags=re.DOTALL)
    parts = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    out = []
    for i, part in enumerate(parts):
        if part.lstrip().startswith("|"):
            beside = [other for other in parts[max(i - 1, 0) : i + 2] if not other.lstrip().startswith("|")]
            sentences = [s for other in beside for s in re.split(r"(?<=[.:])\s+", other)]
            near = " ".join(s for s in sentences if re.search(r"\bn ?= ?\d|[Ii]nterval|\[least, largest\]", s))
            head, *rows = part.strip().split("\n")
            out += [(row, f"{head} {near}") for row in rows]
        else:
            out += [(item, "") for item in re.split(r"\n(?=- )", part)]
    return out


@pytest.mark.parametrize("path", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_interval_says_its_n(path):
    found = [f"{block[:160]!r}" for block, near in blocks(path.read_text(encoding="utf-8"))
             if INTERVAL.search(block) and not SIZE.search(block + near)]  # fmt: skip
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_zero_has_no_minus(path):
    assert not re.findall(r"(?<![\d.e])-0?\.0+(?!\d)", path.read_text(encoding="utf-8"))


def test_the_search_finds_a_table_without_n():
    table = "Intervals.\n\n| a | b |\n|---|---|\n| x | 0.5 [0.4, 0.6] |\n"
    assert [b for b, near in blocks(table) if INTERVAL.search(b) and not SIZE.search(b + near)]
    for text, told in (("n=40 seeds", True), ("Intervals over 40 seeds", True), ("We trained 40 seeds", False)):
        found = [near for b, near in blocks(table.replace("Intervals", text)) if INTERVAL.search(b)]
        assert [bool(SIZE.search(near)) for near in found] == [told]
