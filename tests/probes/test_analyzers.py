"""The register of analyzers: what the command line, lists and the manual say of them."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from interp import plugins
from interp.errors import RequestError
from interp.registry import list_worlds
from interp.world import load
from probes.analyzers import GROUP, TASK, TEXT, Analyzer, Flag, find_analyzers, get_analyzer, table
from probes.declared import OURS

ROOT = Path(__file__).parents[2]
MINE = Analyzer("mine", "nothing", "probes.analyzers:_nothing", "no null", worlds=("dyck",), foreign=False)


def test_the_manual_lists_them_as_they_declare_themselves():
    assert table() in (ROOT / "docs" / "manual.md").read_text()


@pytest.mark.parametrize("one", OURS, ids=lambda one: one.name)
def test_what_is_declared_is_there(one):
    assert callable(load(one.run))
    assert set(one.worlds) <= set(list_worlds())


def test_declarations_load_no_torch_and_no_numpy():
    code = "import sys, probes.analyzers; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


@pytest.fixture
def declare(monkeypatch):
    def make(**points):
        found = [EntryPoint(name, value, GROUP) for name, value in points.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == GROUP else [])
        plugins.refresh()

    yield make
    monkeypatch.undo()
    plugins.refresh()


def test_others_come_by_entry_point_and_broken_ones_are_named(declare):
    declare(mine=f"{__name__}:MINE", lost="no_such_module:X", odd=f"{__name__}:ROOT", stack=f"{__name__}:MINE")
    found, broken = find_analyzers()
    assert get_analyzer("mine") is MINE
    taken = f"stack of {__name__}:MINE"
    assert set(broken) == {"lost", "odd", taken}
    assert broken[taken] == "another analyzer has this name"
    assert get_analyzer("stack") is found["stack"] is not MINE
    for name in ("lost", "odd"):
        with pytest.raises(RequestError, match=f"the analyzer '{name}' cannot be used: "):
            get_analyzer(name)


def test_one_whose_function_is_nowhere_is_named():
    lost = Analyzer("lost", "nothing", "no.such:function", "no null")
    with pytest.raises(RequestError, match="the analyzer 'lost' cannot be loaded: "):
        lost(None, 0, {})


def test_an_unknown_one_is_refused():
    with pytest.raises(
        RequestError, match="no analyzer 'frob'; analyzers are balance, drift, glitches, stack, topics, variation"
    ):
        get_analyzer("frob")


@pytest.mark.parametrize(
    ("kind", "foreign", "said"),
    [
        ("dyck", False, None),
        ("topics", False, "is for models of dyck, and 'x' is of topics"),
        ("no kind", False, "is for models of dyck, and 'x' is of no world"),
        (None, True, "is for models of dyck, and a foreign state dict is none of ours"),
        (None, False, "is for models of dyck, and 'x' is of no world"),
    ],
)
def test_a_checkpoint_of_another_world_is_refused(kind, foreign, said):
    if said is None:
        MINE.check("x", kind, foreign)
        return
    with pytest.raises(RequestError, match=said):
        MINE.check("x", kind, foreign)


def test_flags_become_keywords():
    class Loaded(Exception):
        pass

    given = {}

    def run(model, **how):
        given.update(how)
        raise Loaded

    sys.modules[__name__].run = run
    one = Analyzer("one", "x", f"{__name__}:run", "x", flags=(TASK, TEXT))
    with pytest.raises(Loaded):
        one(None, 7, {"no_task_check": True, "text": ["()"]})
    assert given == {"seed": 7, "task_check": False, "inputs": ["()"]}


def _reads(model, inputs, *, seed=0, task_check=True):
    return inputs


def _draws(model, inputs=None, *, seed=0, task_check=True):
    return inputs


def test_an_analyzer_that_needs_a_text_asks_for_it():
    """What its function cannot do without; a function that draws inputs itself is asked for none."""
    needs, draws = (Analyzer("mine", "x", f"{__name__}:{run}", "x", flags=(TEXT, TASK)) for run in ("_reads", "_draws"))
    for given in ({}, {"text": None}, {"text": []}):
        with pytest.raises(RequestError, match="`analyze mine` needs --text: input"):
            needs(None, 0, given)
        assert not draws(None, 0, given)
    assert needs(None, 0, {"text": ["()"]}) == ["()"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dest": ""}, "dest='' of a Flag is not a line of text"),
        ({"dest": None}, "dest=None of a Flag is not a line of text"),
        ({"dest": "no-dash"}, "'no-dash' is not a name of a flag"),
        ({"dest": "_x"}, "'_x' is not a name of a flag"),
        ({"keyword": "a b"}, "'a b' is not a name of a flag"),
        ({"help": None}, "help=None of a Flag"),
        ({"unread": "two\nlines"}, "of a Flag is not a line of text"),
        ({"metavar": ("A",)}, "of a Flag is not a line of text"),
        ({"choices": ["a"]}, "of the flag 'one' is not a tuple of texts"),
        ({"choices": (1,)}, "of the flag 'one' is not a tuple of texts"),
    ],
)
def test_a_flag_that_no_command_line_could_have_is_refused_where_it_is_declared(given, said):
    good = {"dest": "one", "keyword": "one", "help": "h", "unread": "u"}
    assert Flag(**good, metavar="X", choices=("a",)).dest == "one"
    with pytest.raises(RequestError, match=said):
        Flag(**{**good, **given})


@pytest.mark.parametrize("part", ["name", "about", "run", "null"])
def test_an_analyzer_says_what_it_is_in_lines_of_text(part):
    good = {"name": "one", "about": "a", "run": "m:f", "null": "n"}
    for wrong in (None, "", "a\nb", 3):
        with pytest.raises(RequestError, match=f"{part}=.* of a Analyzer is not a line of text"):
            Analyzer(**{**good, part: wrong})


def test_what_the_command_line_has_itself_is_no_flag_of_an_analyzer(declare, monkeypatch):
    made = Analyzer("mine", "x", "probes.analyzers:_nothing", "x", flags=(Flag("command", "x", "h", "u"),))
    monkeypatch.setitem(globals(), "MINE", made)
    declare(mine=f"{__name__}:MINE")
    assert "its flag 'command' is another's" in find_analyzers()[1]["mine"]
