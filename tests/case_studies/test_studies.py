"""All studies by one suite: those of this package, other people's by entry point, and broken ones."""

import html
import inspect
import json
import re
import subprocess
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path

import pytest

from case_studies.declaration import COMMON, Declaration, Option
from case_studies.populations import Family
from case_studies.registry import find_studies
from case_studies.study import Plan, Run, Study, Wanted, wanted, without_options
from interp import plugins, progress
from interp.cli import main
from interp.cli.parser import make_parser
from interp.errors import RequestError
from sizes import hold_out_few

ROOT = Path(__file__).parents[2]
BUILT_IN = find_studies().found
TRAINING = [name for name, declared in BUILT_IN.items() if declared.trains]
HOW_TO = ROOT / "docs" / "how-to-study.md"


class Stopped(Exception):
    """In the place of a study's work."""


def planned(name: str, out: Path, **how: object) -> Plan:
    """The plan of a run that stops before its work."""
    seen: list[Plan] = []

    def collect(run: Run) -> None:
        seen.append(run.plan)
        raise Stopped

    study = replace(BUILT_IN[name].load(), collect=collect, prepare=without_options)
    with pytest.raises(Stopped):
        study.run(out, **how)
    return seen[0]


def amounts(size: object) -> list[int]:
    """Of a size: its whole numbers, and how long its lists are."""
    parts = [getattr(size, name) for name in size.__dataclass_fields__] if is_dataclass(size) else [size]
    numbers = [part for part in parts if isinstance(part, int) and not isinstance(part, bool)]
    return numbers + [len(part) for part in parts if isinstance(part, tuple)]


# -- the studies of this package ------------------------------------------------------------------------


def test_every_folder_is_a_study_that_can_be_used():
    studies = find_studies()
    folders = {path.parent.name for path in (ROOT / "case_studies").glob("*/__init__.py")}
    assert {name.replace("-", "_") for name in studies.found} == folders
    assert not studies.broken


@pytest.mark.parametrize("name", BUILT_IN)
def test_name_folder_and_module_agree(name):
    declared = BUILT_IN[name]
    folder = name.replace("-", "_")
    assert declared.study == f"case_studies.{folder}.study:STUDY"
    assert declared.load().declared is declared
    assert f"interp report {name}" in (ROOT / "case_studies" / folder / "README.md").read_text()
    run = inspect.signature(sys.modules[f"case_studies.{folder}.study"].run)
    assert list(run.parameters)[:3] == ["out", "full", "workers"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_quick_form_is_the_smaller(name):
    study = BUILT_IN[name].load()
    quick, full = amounts(study.quick), amounts(study.full)
    assert len(quick) == len(full)
    assert all(a <= b for a, b in zip(quick, full, strict=True))
    assert quick != full


@pytest.mark.parametrize("name", BUILT_IN)
def test_who_trains_nothing_plans_nothing(name, tmp_path):
    sizes = [planned(name, tmp_path, full=full) for full in (False, True)]
    models = [sum(one.seeds for listed in plan.values() for one in listed) for plan in sizes]
    assert models[0] < models[1] if BUILT_IN[name].trains else models == [0, 0]


@pytest.mark.parametrize("name", TRAINING)
@pytest.mark.parametrize("full", [False, True])
def test_seeds_and_steps_are_of_every_population(name, full, tmp_path):
    plain, asked = (planned(name, tmp_path, full=full, **how) for how in ({}, {"seeds": 3, "steps": 20}))
    assert list(plain) == list(asked)
    for group, listed in asked.items():
        assert [one.family.name for one in listed] == [one.family.name for one in plain[group]]
        for one in listed:
            assert one.family.recipe.settings.steps == 20
            assert one.seeds == min(3, one.most or 3)
            assert one.bundled is None
            assert max(one.family.snapshots, default=0) <= 20


@pytest.mark.parametrize(
    "how", [{"seeds": 0}, {"steps": 0}, {"seeds": 2.0}, {"steps": "9"}, {"seeds": True}], ids=lambda how: str(how)
)
@pytest.mark.parametrize("name", BUILT_IN)
def test_wrong_numbers_are_refused_before_anything_is_written(name, how, tmp_path):
    study = BUILT_IN[name].load()
    with pytest.raises(RequestError, match="is not a whole number of at least 1"):
        study.run(tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["seeds", "steps"])
@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - set(TRAINING)))
def test_a_study_that_trains_nothing_refuses_what_is_for_training(name, option, tmp_path):
    with pytest.raises(RequestError, match=f"{option}=2 changes nothing here: {name} trains no population"):
        BUILT_IN[name].load().run(tmp_path / "out", **{option: 2})
    assert not (tmp_path / "out").exists()


# What is measured on many strings is measured on few here.
CHEAP = {
    "dyck-copying": ("dyck_copying.measure.STRINGS", 60),
    "dyck-balance": ("dyck_balance.measure.LONG_PREFIXES", 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_a_study_runs_with_few_seeds_and_steps(name, tmp_path, monkeypatch, capsys):
    where, few = CHEAP[name]
    monkeypatch.setattr(f"case_studies.{where}", few)
    hold_out_few(monkeypatch)
    monkeypatch.setattr(progress, "EVERY", 0)
    monkeypatch.chdir(tmp_path)
    command = f"interp report {name} --quick --out out --seeds 2 --steps 20"
    assert main([*command.split()[1:], "--workers", "1"]) == 0
    assert json.loads(Path("out/results.json").read_text())["seeds"] == 2
    assert f"<pre>{command}</pre>" in Path("out/index.html").read_text()
    plan = planned(name, tmp_path / "out", seeds=2, steps=20)
    total = len({one.source(tmp_path, "cpu") for listed in plan.values() for one in listed})
    assert len(list(Path("out/populations").glob("*.safetensors"))) == total
    assert f"{name}: 100%, {total} of {total} populations" in capsys.readouterr().err


# -- the runner -----------------------------------------------------------------------------------------


def test_a_shorter_training_is_looked_at_at_the_same_shares_of_it():
    family = Family("f", "topic-joint", {"eval_every": 25}, 1500, snapshots=(0, 50, 750, 1500))
    short = family.in_steps(150)
    assert (short.steps, short.snapshots, short.options["eval_every"]) == (150, (0, 5, 75, 150), 2)
    least = family.in_steps(3)
    assert (least.snapshots, least.options["eval_every"]) == ((0, 1, 3), 1)
    assert Family("g", "dyck-minimal").in_steps(7) == Family("g", "dyck-minimal", steps=7)


def test_a_bundled_population_serves_unless_other_numbers_are_asked_for():
    one = Wanted(Family("f", "dyck-minimal"), 8, most=5, bundled="dyck-minimal")
    assert one.asked(None, None) is one
    for seeds, steps in ((4, None), (None, 9), (6, 9)):
        asked = one.asked(seeds, steps)
        assert asked.bundled is None
        assert asked.seeds == {4: 4, None: 8, 6: 5}[seeds]
        assert asked.family.steps == steps


def test_further_seeds_are_a_population_of_their_own(tmp_path):
    """The same seeds in another place would be another file; the first seeds are those that a number names."""
    family = Family("f", "dyck-minimal", {}, 2)
    (first,), (later,) = wanted([family], 3), wanted([family], 2, first=3)
    assert (first.chosen, later.chosen) == (3, (3, 4))
    assert later.asked(1, None).chosen == (3,)
    assert later.asked(4, None).chosen == (4, 5, 6, 7)  # the others then have 0 to 3
    assert first.asked(4, None).chosen == 4
    assert later.asked(None, 9).family.steps == 9
    assert first.source(tmp_path, "cpu") != later.source(tmp_path, "cpu")
    one = replace(Wanted(family, 3), first=0)
    assert one.source(tmp_path, "cpu") == first.source(tmp_path, "cpu") == str(family.file(tmp_path, 3))
    run = Run(1, tmp_path, {"all": [first, later]}, workers=1)
    whole, rest = (one.population for one in run.obtain("all"))
    assert (whole.seeds, rest.seeds) == ((0, 1, 2), (3, 4))


def tiny(collect, families=(), prepare=without_options):
    """A study of families under the name of one that is there."""
    declared = BUILT_IN["dyck-copying"]
    return Study(declared, 1, 2, collect, lambda f: {}, lambda f, c: None, lambda size: {"all": families}, prepare)


def test_progress_counts_files_and_a_file_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0)
    monkeypatch.setattr("case_studies.study.obtain", lambda *given: (None, "digest"))
    families = [Family(name, "dyck-minimal", {}, steps) for name, steps in (("a", 1), ("b", 2), ("a again", 1))]
    got = []

    def collect(run):
        got.extend(one.family.name for one in run.obtain("all"))
        raise Stopped

    with pytest.raises(Stopped):
        tiny(collect, wanted(families, 2)).run(tmp_path)
    assert got == ["a", "b", "a again"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[1].strip() for line in lines if "populations" in line][-2:] == [
        "1 of 2 populations", "2 of 2 populations",
    ]  # fmt: skip


@pytest.mark.parametrize(("seeds", "cells"), [(None, 2), (1, 1), (100, 2)])
def test_no_number_of_seeds_makes_a_bounded_group_larger(seeds, cells, tmp_path):
    plan = planned("dyck-balance", tmp_path, seeds=seeds)
    assert {one.seeds for one in plan["spread"]} == {cells}
    assert {one.seeds for one in plan["complete"]} == {seeds or 6}


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ({}, "--quick --out OUT"),
        ({"full": True, "workers": 3}, "--full --out OUT"),
        ({"seeds": 2, "steps": 20}, "--quick --out OUT --seeds 2 --steps 20"),
        ({"steps": 20, "sentence": "()"}, "--quick --out OUT --steps 20 --sentence '()'"),
    ],
)
def test_the_page_is_told_the_command_that_makes_it_again(how, more, tmp_path):
    told = []

    def report(found, command):
        told.append(command)
        raise Stopped

    declared = replace(BUILT_IN["dyck-copying"], options=(Option("sentence", "STRING", "what is read"),))
    study = replace(tiny(lambda run: None, prepare=lambda size, sentence=None: size), declared=declared, report=report)
    with pytest.raises(Stopped):
        study.run(tmp_path, **how)
    assert told == [f"interp report dyck-copying {more.replace('OUT', str(tmp_path))}"]


def test_a_group_that_is_not_planned_is_named(tmp_path):
    with pytest.raises(RequestError, match="no group 'others' of populations is planned; groups are all"):
        tiny(lambda run: list(run.obtain("others"))).run(tmp_path)


def test_a_wrong_option_is_refused_before_anything_is_written(tmp_path):
    def prepare(size, sentence=None):
        raise RequestError("not that sentence")

    with pytest.raises(RequestError, match="not that sentence"):
        tiny(None, prepare=prepare).run(tmp_path / "out", sentence="x")
    assert not (tmp_path / "out").exists()


# -- on the command line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [("dyck-atention", "dyck-attention"), ("topics_wikipedia", "topics-wikipedia"), ("astrology", None)],
)
def test_an_unknown_study_is_refused_with_the_nearest_name(name, near, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", name, "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"no study {name!r}" in error
    assert (f"did you mean {near!r}?" in error) if near else ("did you mean" not in error)
    assert all(known in error for known in BUILT_IN)
    assert not list(tmp_path.iterdir())


def test_lists_help_and_errors_import_no_torch():
    code = (
        "import sys\nfrom interp.cli import main\n"
        "main(['list'])\nmain(['report', 'nonsense', '--out', 'x'])\n"
        "main(['report', 'topics-wikipedia', '--steps', '3', '--out', 'x'])\n"
        "try: main(['report', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'transformer_lens', 'plotly', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_what_every_study_takes_cannot_be_an_option_of_one():
    """`COMMON` is the parser's own list before the studies' options are added."""
    (listed,) = (action for action in make_parser()._actions if action.dest == "==SUPPRESS==" and action.choices)
    parser = listed.choices["report"]
    assert {action.dest for action in parser._actions} | set(parser._defaults) == set(COMMON)
    for dest in COMMON:
        with pytest.raises(RequestError, match="every study has that one"):
            Option(dest, "X", "help")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "Widths"}, "'Widths' is not a name of a study"),
        ({"name": "two words"}, "'two words' is not a name of a study"),
        ({"name": None}, "name=None of a Declaration is not a line of text"),
        ({"about": "two\nlines"}, "about='two\\\\nlines' of a Declaration is not a line of text"),
        ({"about": " "}, "about=' ' of a Declaration is not a line of text"),
        ({"study": "widths.study"}, "study='widths.study' is not of the form package.module:NAME"),
        ({"study": "widths study:STUDY"}, "is not of the form package.module:NAME"),
        ({"options": [Option("x", "X", "x")]}, "is not a tuple of Options"),
        ({"options": ("x",)}, "is not a tuple of Options"),
        ({"options": (Option("a-b", "X", "x"), Option("a-b", "Y", "y"))}, "has two options 'a_b'"),
    ],
)
def test_a_declaration_that_cannot_be_shown_is_refused(given, message):
    fields = {"name": "widths", "about": "a line", "study": "widths.study:STUDY", **given}
    with pytest.raises(RequestError, match=message):
        Declaration(**fields)


# -- other people's packages ----------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package: files by name, and its entry points by name."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path / "site")

    def add(package: str, files: dict[str, str], points: dict[str, str]) -> None:
        told = tmp_path / "site" / f"{package}-1.0.dist-info"
        lines = ["[interp.studies]", *(f"{name} = {value}" for name, value in points.items())]
        files = {
            **{f"site/{name}": text for name, text in files.items()},
            f"site/{told.name}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
            f"site/{told.name}/entry_points.txt": "\n".join(lines) + "\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        plugins.refresh()

    yield add
    plugins.refresh()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def how_to(install):
    """The example of docs/how-to-study.md, installed."""
    blocks = re.findall(r"```(?:python|toml)\n# file: (\S+)\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    files = dict(blocks)
    assert len(files) == len(blocks) == 3
    (point,) = re.findall(r'entry-points\."interp\.studies"\]\n(\S+) = "(\S+)"', files.pop("pyproject.toml"))
    install("widths", files, dict([point]))


def test_other_peoples_study_is_listed_without_its_heavy_part(how_to, tmp_path, capsys):
    assert main(["list", "--json", str(tmp_path / "list.json")]) == 0
    listed = capsys.readouterr().out
    about = "attention variation of minimal Dyck models by width"
    assert f"  widths               {about}\n" in listed
    assert json.loads((tmp_path / "list.json").read_text())["studies"]["widths"] == about
    assert "widths.study" not in sys.modules
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    assert "--sentence STRING  of widths: what the models read" in capsys.readouterr().out
    assert main(["report", "topics", "--sentence", "()", "--out", str(tmp_path / "out")]) == 2
    assert "--sentence '()' changes nothing here: it is for widths, not topics" in capsys.readouterr().err


@pytest.mark.slow
def test_the_worked_example_runs_as_its_page_says(how_to, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^interp (report widths .*)$", HOW_TO.read_text(), re.MULTILINE)
    words = line.replace('"', "").split()
    here = ["--workers", "1"]  # in this process: others would import everything once more
    assert main([*words, *here]) == 0
    assert capsys.readouterr().out == "wrote reports/widths/index.html\n"
    results = json.loads(Path("reports/widths/results.json").read_text())
    told = {"study": "widths", "size": "quick", "seeds": 2, "steps": 3, "sentence": "[()]"}
    assert results.pop("of")["arguments"] == told
    assert set(results) == {"width 8", "width 16"}
    assert {row["n"] for row in results.values()} == {2}
    page = Path("reports/widths/index.html").read_text()
    told = "interp report widths --quick --out reports/widths --seeds 2 --steps 3 --sentence '[()]'"
    assert told in html.unescape(page)
    other = [word.replace("[()]", "[]()") for word in words]
    assert main([*other, *here]) == 0
    assert json.loads(Path("reports/widths/results.json").read_text()) != results


GOOD = """from case_studies.declaration import Declaration
DECLARED = Declaration({name!r}, 'a line', 'theirs.study:STUDY')
"""
BROKEN = {
    "an import that fails": ("mine", "import nothing_of_this_name\n", "ModuleNotFoundError: No module named"),
    "no declaration": ("mine", "DECLARED = 3\n", "it names 3, which is no Declaration"),
    "nothing of that name": ("mine", "", "has no attribute 'DECLARED'"),
    "another name": ("mine", GOOD.format(name="other"), "it declares the name 'other'"),
    "a name that is none": ("mine", GOOD.format(name="My Study"), "'My Study' is not a name of a study"),
    "an error of many lines": ("mine", "raise ValueError('one\\ntwo\\x1b[31m')\n", "ValueError: one two"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_study_is_named_in_one_line_and_stops_nothing(install, tmp_path, capsys, name, text, reason):
    install("theirs", {"theirs/__init__.py": text}, {name: "theirs:DECLARED"})
    assert main(["list", "--json", str(tmp_path / "list.json")]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"  {name} "))
    assert "cannot be used" in line
    assert reason in line
    assert "(of theirs)" in line
    assert list(json.loads((tmp_path / "list.json").read_text())["studies"]) == list(BUILT_IN)
    assert main(["report", name, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert reason in error
    assert not (tmp_path / "out").exists()
    assert main(["report", "topics", "--corpus", "x", "--out", str(tmp_path / "out")]) == 2
    assert "it is for topics-wikipedia, not topics" in capsys.readouterr().err


def test_a_name_that_is_taken_is_named_and_the_first_stays(install, capsys):
    declared = BUILT_IN["topics"]
    install("theirs", {"theirs/__init__.py": GOOD.format(name="topics")}, {"topics": "theirs:DECLARED"})
    assert find_studies().found["topics"] is declared
    assert main(["list"]) == 0
    assert "topics of theirs     cannot be used: another study has this name\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_this_name\n", "the study 'mine' cannot be loaded: ModuleNotFoundError"),
        ("", "the study 'mine' cannot be loaded: AttributeError"),
        ("STUDY = 3\n", "'theirs.study:STUDY' is not the Study that 'mine' declares"),
        ("from case_studies.topics.study import STUDY\n", "is not the Study that 'mine' declares"),
    ],
)
def test_a_heavy_part_that_is_broken_is_told_when_it_is_asked_for(install, tmp_path, monkeypatch, capsys, text, reason):
    monkeypatch.setattr(Study, "run", lambda *given, **how: pytest.fail("it ran"))
    files = {"theirs/__init__.py": GOOD.format(name="mine"), "theirs/study.py": text}
    install("theirs", files, {"mine": "theirs:DECLARED"})
    assert main(["list"]) == 0
    assert "  mine                 a line\n" in capsys.readouterr().out
    assert main(["report", "mine", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert reason in error
    assert not (tmp_path / "out").exists()
