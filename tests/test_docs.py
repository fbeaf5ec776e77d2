"""The docs site: pages show what is printed, numbers come from results, and it is built without a warning."""

import doctest
import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interp.cli.parser import make_parser
from told import Pool, fits, prose, told

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Pages with tests of their own, or that a script writes.
ELSEWHERE = (
    "manual.md",
    "reproduction.md",
    "trained-bench.md",
    "audit-rules.md",
    "sensitivity.md",
    "intervals.md",
    "how-to-study.md",
    "shipped.md",
)
README = ROOT / "README.md"
PAGES = [README, *(path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).as_posix() not in ELSEWHERE)]


def script(name: str) -> Any:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


blocks, links = script("blocks"), script("links")


def name_of(path: Path) -> str:
    return "README.md" if path == README else path.relative_to(DOCS).as_posix()


# -- blocks of code ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in PAGES if list(blocks.blocks(p.read_text()))], ids=name_of)
def test_blocks_print_what_the_page_shows(path):
    wrong = blocks.wrong(blocks.run(path))
    assert not wrong, "\n".join(f"{block.code.strip()}\nprints\n{real}" for block, real in wrong)


def test_blocks_that_are_not_run_are_of_known_kinds():
    kinds = {kind for p in PAGES for kind in re.findall(r"^```(\w*)", p.read_text(), re.M)}
    assert kinds <= {"", "python", "console", "text", "toml", "json", "sh"}, kinds


def test_commands_of_a_shell_are_known():
    """`sh` blocks are for what is not run: installation, targets of the Makefile, and trainings that take a while."""
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(), re.M | re.S):
            for line in filter(None, block.splitlines()):
                if line.startswith("make "):
                    assert line.split("#")[0].split()[1] in made, line
                elif line.startswith("interp "):
                    make_parser().parse_args(shlex.split(line)[1:])
                else:
                    assert line.startswith("pip install "), line
                    named = [name for listed in re.findall(r"\[([\w,]+)\]", line) for name in listed.split(",")]
                    assert set(named) <= set(extras), line


def test_the_runner_finds_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    right = "```python\nx = 1\nprint(x)\nprint(2)\n```\n\n```text\n1\n...\n```\n\n"
    page.write_text(right + "```python\nprint(x)\n```\n```text\n2\n```\n")
    ((block, real),) = blocks.wrong(blocks.run(page))
    assert (block.code, real) == ("print(x)\n", "1\n")
    page.write_text("```console\n$ interp audit dyck-standard --claim nonsense\n```\n")
    with pytest.raises(AssertionError, match="nonsense"):
        blocks.run(page)


@pytest.mark.parametrize(
    ("shown", "real", "so"),
    [
        ("a\n", "a\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("...\nd\n", "a\nd\n", True),
        ("a\n...\n", "a\nb\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\nd\n", "a\nb\nd\n", False),
        ("a\n...\n", "b\n", False),
    ],
)
def test_three_dots_stand_for_any_lines(shown, real, so):
    assert blocks.alike(shown, real) is so


# -- numbers ----------------------------------------------------------------------------------------------

# What stands neither in an output of the page nor in results, and why: page -> phrase -> reason.
EXCUSED: dict[str, dict[str, str]] = {
    "README.md": {
        "no false support in 259 independent models [0.00, 0.01], no use missed in 231 [0.00, 0.02], claims left open "
        "in 33 of 259 [0.09, 0.17]": "the last row of the table below; test_pages.py compares them",
        "no false support in any [0.00, 0.20], but an error in 5 of 17 [0.10, 0.56]": "of the "
        "fresh families; test_pages.py compares them with the results",
        "supports false claims in 40 of 259 models [0.11, 0.20]": "of the naive rule; test_pages.py compares it",
    },
    "analyzers/topics.md": {"p ≤ 0.01": "the rule"},
    "studies/lottery-ticket.md": {
        "8 of 8 networks": "counted in tests/test_readmes.py",
        "14 of 14 cases": "counted in tests/test_readmes.py",
    },
    "studies/topics-wikipedia.md": {"0.9998 [0.9984, 1.0012]": "a mean, computed in tests/test_readmes.py"},
    "getting-started.md": {"Python 3.11": "a requirement"},
    "concepts/populations.md": {"more than 0.8": "the rule"},
    "worlds/dyck.md": {"more than 0.8": "the rule"},
    "glossary.md": {"95 % confidence": "the level of intervals"},
    "licence.md": {"Apache-2.0": "a licence", "before 1.0": "a version"},
}
STUDY = re.compile(r"case_studies/(\w+)/(?:README\.md|results\.json)")


def shown_numbers(text: str) -> Pool:
    """All numbers in the code blocks of a page, which are run."""
    code = " ".join(re.findall(r"^```.*?^```", text, re.M | re.S))
    found = re.findall(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d+(?:e-?\d+)?", code)
    return Pool(tuple(float(x.replace(",", "")) for x in found), (), frozenset())


def held(one: Any, shown: Pool, studies: Pool) -> bool:
    """An interval, count or number of a page: all its parts stand in what the page shows, or results hold it."""
    if studies.holds(one):
        return True
    parts = [part for part in one.parts if part]
    return all(any(fits(part, x, one.scale) or fits(part, x) for x in shown.numbers) for part in parts)


def papers_of(names: list[str]) -> Pool:
    rows = tomllib.loads((DOCS / "reproduction.toml").read_text(encoding="utf-8"))["row"]
    texts = " ".join(f"{r['what']} {r['paper']}" for r in rows if r["study"].replace("-", "_") in names)
    found = re.findall(r"(?<![\w.])-?\d*\.?\d+", texts)
    return Pool(tuple(float(x) for x in found), (), frozenset())


def untold(path: Path) -> list[Any]:
    """Numbers of a page that nothing holds."""
    text = path.read_text(encoding="utf-8")
    names = sorted({name for name in STUDY.findall(text) if (ROOT / "case_studies" / name / "results.json").exists()})
    files = [file for name in names for file in sorted((ROOT / "case_studies" / name).glob("results*.json"))]
    studies, papers = Pool.of([json.loads(f.read_text(encoding="utf-8")) for f in files]), papers_of(names)
    shown = shown_numbers(text)
    return [one for one in told(prose(text)) if not held(one, shown, studies) and not papers.holds(one)]


def places(path: Path, phrase: str) -> list[tuple[int, int]]:
    """Where a phrase stands, over the ends of lines too."""
    pattern = r"\s+".join(map(re.escape, phrase.split()))
    return [match.span() for match in re.finditer(pattern, prose(path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_numbers_stand_in_outputs_or_results(path):
    excused = [span for phrase in EXCUSED.get(name_of(path), ()) for span in places(path, phrase)]
    assert all(places(path, phrase) for phrase in EXCUSED.get(name_of(path), ()))
    missing = [one for one in untold(path) if not any(a <= one.start and one.end <= b for a, b in excused)]
    assert not missing, "\n".join(f"{one.kind} {' '.join(one.parts)}: ...{one.context}..." for one in missing)


def test_every_excuse_is_of_a_page():
    assert set(EXCUSED) <= set(map(name_of, PAGES))


# -- the style of the pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_decimals_have_a_leading_zero(path):
    assert not re.findall(r"(?<![\w.`/-])-?\.\d+\b", prose(path.read_text(encoding="utf-8")))


# -- what there must be a page for ------------------------------------------------------------------------


def test_every_analyzer_world_study_and_error_has_its_place():
    from case_studies.registry import find_studies
    from interp import errors
    from interp.registry import list_worlds
    from probes.analyzers import find_analyzers

    for name in find_analyzers()[0]:
        assert (DOCS / "analyzers" / f"{name}.md").exists(), name
    for name in list_worlds():
        assert (DOCS / "worlds" / f"{name.replace('_', '-')}.md").exists(), name
    for name in find_studies().found:
        assert (DOCS / "studies" / f"{name}.md").exists(), name
    explained = re.findall(r"^## `(\w+)`", (DOCS / "errors.md").read_text(encoding="utf-8"), re.M)
    classes = (kind for kind in vars(errors).values() if isinstance(kind, type))
    assert sorted(explained) == sorted(kind.__name__ for kind in classes if issubclass(kind, errors.InterpError))


def test_functions_of_the_public_names_are_in_the_reference():
    import interp
    import probes

    text = "\n".join(p.read_text(encoding="utf-8") for p in (DOCS / "api").glob("*.md"))
    listed = {"InterpError", *(name.rsplit(".", 1)[-1] for name in re.findall(r"^::: (\S+)", text, re.M))}
    assert {*interp.__all__, *probes.__all__} <= listed


def test_all_that_the_reference_lists_is_documented():
    text = "\n".join(p.read_text(encoding="utf-8") for p in (DOCS / "api").glob("*.md"))
    silent = set()
    for name in re.findall(r"^::: (\S+)", text, re.M):
        module, _, last = name.rpartition(".")
        thing = getattr(importlib.import_module(module), last)
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else ()
        written = {one for one, member in members if inspect.isfunction(member) and not one.startswith("_")}
        written -= set(getattr(thing, "__dataclass_fields__", ()))
        assert not [member for member in written if not inspect.getdoc(getattr(thing, member))], name
        if inspect.isfunction(thing) and "Raises" not in (inspect.getdoc(thing) or ""):
            silent.add(last)
    assert not silent


# -- examples in docstrings -------------------------------------------------------------------------------

# The functions and classes that most scripts begin with: their docstrings hold an example.
SHOWN = {
    "AttentionArrays",
    "DyckGrammar",
    "Population",
    "SandboxTransformer",
    "TopicGrammar",
    "TransformerConfig",
    "analyze_balance",
    "analyze_stack_likeness",
    "analyze_topic_blocks",
    "analyze_two_stages",
    "analyze_variation",
    "attention_heatmap",
    "attention_patterns",
    "clopper_pearson",
    "get_world",
    "holm",
    "jackknife_pairs",
    "learning_curves",
    "list_pretrained",
    "list_worlds",
    "load_checkpoint",
    "load_foreign",
    "load_result",
    "mean_over_seeds",
    "save_checkpoint",
    "spearman",
}


def reference() -> list[Any]:
    """The functions and classes that the reference lists."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in (DOCS / "api").glob("*.md"))
    split = (name.rpartition(".") for name in re.findall(r"^::: (\S+)", text, re.M))
    return [getattr(importlib.import_module(module), last) for module, _, last in split]


def examples(things: list[Any]) -> list[doctest.DocTest]:
    """The examples in the docstrings of functions, of classes and of what is written in them."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    named = [thing for thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    return [test for thing in named for test in finder.find(thing, thing.__name__, globs={})]


def test_what_scripts_begin_with_is_shown():
    assert {test.name.partition(".")[0] for test in examples(reference())} >= SHOWN


def test_examples_stand_behind_a_paragraph():
    """Behind an item of a list they would be a part of it, and no block of code on the page."""
    for test in examples(reference()):
        assert not re.search(r"^(?:- .*|  \S.*)\n\n    >>>", inspect.cleandoc(test.docstring), re.M), test.name


@pytest.mark.slow
def test_examples_in_docstrings_give_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner, told = doctest.DocTestRunner(verbose=False), io.StringIO()
    for test in examples(reference()):
        runner.run(test, out=told.write)
    assert runner.summarize(verbose=False).failed == 0, told.getvalue()


def test_an_example_that_is_wrong_is_found():
    def wrong():
        """>>> 1 + 1
        3
        """

    runner = doctest.DocTestRunner(verbose=False)
    (test,) = examples([wrong])
    assert runner.run(test, out=lambda _: None).failed == 1


# -- the site ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it."""
    for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(name, reason="the docs site needs the extra [docs]")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of the theme, about its successor
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return out


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_leads_everywhere(site):
    assert not list(links.broken(site))
    assert len(list(site.rglob("*.html"))) > 50


@pytest.mark.slow
def test_a_page_opens_from_the_disk_without_the_network(site, open_page):
    page = open_page(site / "analyzers" / "balance.html")
    assert "Balance violation" in page.title()
    assert page.evaluate("document.querySelectorAll('math').length") > 3
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 600, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_links_that_lead_nowhere_are_found(tmp_path):
    wrong = '<a href="b.html#x">1</a><a href="c.html">2</a><script src="https://cdn/x.js"></script>'
    (tmp_path / "a.html").write_text(wrong)
    (tmp_path / "b.html").write_text('<p id="y"></p><a href="a.html">fine</a><a href="https://arxiv.org">fine</a>')
    assert len(list(links.broken(tmp_path))) == 3
