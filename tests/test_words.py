"""The word list of CONTRIBUTING.md: what it says not to write stands in no text."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Tables of these come from scripts, or quote what papers print.
WRITTEN = ("docs/reproduction.md", "docs/trained-bench.md", "docs/audit-rules.md", "docs/intervals.md")
PAGES = sorted(
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "case_studies").rglob("README.md"),
    )
    if path.relative_to(ROOT).as_posix() not in WRITTEN
)
CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`|^    [^\n]*$|<!-- [\w ]+: begin.*?: end -->", re.S | re.M)


def words() -> list[str]:
    """The left column of the list, as regular expressions."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Words")[1]
    rows = re.findall(r"^\| (`+)(.+?)\1 \| ", section, re.M)
    return [pattern.strip().replace("\\|", "|") for _, pattern in rows]


def test_the_list_is_read():
    assert len(words()) >= 8
    for pattern in words():
        re.compile(pattern)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a share of .85 of them", True),
        ("a share of 0.85, version 1.2.3, and file.5", False),
        ("85% of", True),
        ("85 % of", False),
        ("3 CPU s a seed", True),
        ("3 CPU s per seed; it takes a seed", False),
        ("the closers", True),
        ("stack-likeness (closers)", False),
        ("clearly", True),
        ("`clearly`", False),
    ],
)
def test_the_list_finds_what_it_should(text, found):
    assert any(re.search(pattern, CODE.sub("", text)) for pattern in words()) is found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_writes_what_the_list_rules_out(path):
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    found = [
        f"{text[max(m.start() - 30, 0) : m.end() + 20]!r}" for pattern in words() for m in re.finditer(pattern, text)
    ]
    assert not found, "\n".join(found)
