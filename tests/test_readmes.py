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
    """(block, what stands just before and after it where it is a table) of a Markdown text, code left out."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"<!-- bench: begin.*?bench: end -->", "", text, flags=re.DOTALL)
    parts = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    out = []
    for i, part in enumerate(parts):
        if part.lstrip().startswith("|"):
            near = " ".join(other for other in parts[max(i - 1, 0) : i + 2] if not other.lstrip().startswith("|"))
            head, *rows = part.strip().split("\n")
            if INTERVAL.search(part) and not SIZE.search(head + near):
                out += [(row, head) for row in rows]
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
    assert not [b for b, near in blocks(table.replace("Intervals", "40 seeds")) if INTERVAL.search(b)]
