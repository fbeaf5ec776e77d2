"""The word list of CONTRIBUTING.md: what it says not to write stands in no text."""

import importlib
import inspect
import json
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# Written by scripts: the words of the first stand in the audit's code, those of the second beside what papers print.
WRITTEN = ("docs/audit-rules.md", "docs/reproduction.md")
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
CODE = re.compile(
    r"```.*?```|``.*?``|`[^`\n]*`|^    [^\n]*$"
    r"|<!-- [\w ]+: begin.*?: end -->|(?P<by><!-- the table, by [^>]* -->).*?(?P=by)",
    re.S | re.M,
)


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
        ("several topics a word", True),
        ("several topics per word, one a day", False),
        ("the closers", True),
        ("a closer comes next", True),
        ("a closer look, the closer to it", False),
        ("all unmatched openers", True),
        ("rules are told in the manual", True),
        ("as the manual told", False),
        ("it holds, interval and all", True),
        ("nobody errs", True),
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


# -- what results tell of where they were made --------------------------------------------------------------

FILES = sorted(
    p for folder in ("docs", "case_studies", "benchmarks", "stress") for p in (ROOT / folder).rglob("*.json")
)


def absolute(node: Any) -> list[str]:
    """The texts of a JSON value that are paths of one machine."""
    if isinstance(node, dict):
        return [found for value in node.values() for found in absolute(value)]
    if isinstance(node, list):
        return [found for value in node for found in absolute(value)]
    is_path = isinstance(node, str) and (PurePosixPath(node).is_absolute() or PureWindowsPath(node).is_absolute())
    return [node] if is_path else []


def test_paths_of_one_machine_are_found():
    assert absolute({"a": ["x", {"b": "/home/me/x"}, "C:\\x"], "c": 1, "d": "a/b"}) == ["/home/me/x", "C:\\x"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_committed_result_names_a_path_of_one_machine(path):
    assert not absolute(json.loads(path.read_text(encoding="utf-8")))


# -- docstrings of the reference ----------------------------------------------------------------------------

AUDIT = ("interp.claims", "probes.audit", "probes.claims")  # whose words are those of verdicts


def documented() -> dict[str, str]:
    """The docstrings of the functions and classes that the reference lists, and of their methods, by name."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "api").glob("*.md"))
    out = {}
    for name in re.findall(r"^::: (\S+)", text, re.M):
        module, _, last = name.rpartition(".")
        if name.startswith(AUDIT):
            continue
        thing = getattr(importlib.import_module(module), last)
        members = vars(thing).items() if inspect.isclass(thing) else ()
        held = {one: getattr(thing, one) for one, _ in members if not one.startswith("_")}
        out[name] = inspect.getdoc(thing) or ""
        out |= {f"{name}.{one}": inspect.getdoc(what) or "" for one, what in held.items() if callable(what)}
    return out


def test_no_docstring_of_the_reference_writes_what_the_list_rules_out():
    found = []
    for name, doc in documented().items():
        text = CODE.sub("", doc)
        found += [
            f"{name}: {text[max(m.start() - 30, 0) : m.end() + 20]!r}"
            for pattern in words()
            for m in re.finditer(pattern, text)
        ]
    assert not found, "\n".join(found)
