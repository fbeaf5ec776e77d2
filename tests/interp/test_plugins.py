"""Worlds, analyzers and studies of other packages: one order, one rule of names, one memory."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from case_studies.declaration import Declaration
from case_studies.registry import GROUP as STUDIES
from case_studies.registry import find_studies
from interp import plugins, registry
from interp.errors import InterpError
from interp.world import World
from parity import Parity
from probes.analyzers import GROUP as ANALYZERS
from probes.analyzers import find_analyzers, get_analyzer
from probes.declaration import Analyzer


def _world(name):
    kind = type(f"Kind{name}", (Parity,), {"KIND": f"kind-{name}"})  # two worlds have two kinds of grammar
    return World(name, "a world", (kind,))


def __getattr__(name):
    """What entry points name: `world_x`, `analyzer_x`, `study_x`."""
    kind, _, called = name.partition("_")
    made = {
        "world": lambda: _world(called),
        "analyzer": lambda: Analyzer(called, "x", "no.such:function", "x"),
        "study": lambda: Declaration(called, "x", f"{__name__}:STUDY"),
    }
    if kind not in made or not called:
        raise AttributeError(name)
    return made[kind]()


@dataclass(frozen=True)
class Register:
    group: str
    names: object  # () -> names, in order
    broken: object  # () -> reasons by name
    get: object
    ours: str  # one of ours


REGISTERS = {
    "world": Register(registry.GROUP, registry.list_worlds, registry.broken, registry.get_world, "dyck"),
    "analyzer": Register(
        ANALYZERS, lambda: list(find_analyzers()[0]), lambda: find_analyzers()[1], get_analyzer, "stack"
    ),
    "study": Register(
        STUDIES,
        lambda: list(find_studies().found),
        lambda: find_studies().broken,
        lambda name: find_studies()[name],
        "topics",
    ),
}
EACH = pytest.mark.parametrize("what", REGISTERS)


@pytest.fixture
def declare(monkeypatch):
    """Entry points of one group, (name, attribute of this module) each."""

    def make(group, *points):
        found = [EntryPoint(name, value if ":" in value else f"{__name__}:{value}", group) for name, value in points]
        monkeypatch.setattr(plugins, "entry_points", lambda group: [one for one in found if one.group == group])
        registry.refresh()

    yield make
    monkeypatch.undo()
    registry.refresh()


@EACH
def test_ours_come_first_and_the_others_by_name(what, declare):
    register = REGISTERS[what]
    ours = list(register.names())
    assert ours == sorted(ours)
    declare(register.group, ("zz", f"{what}_zz"), ("aa", f"{what}_aa"))
    assert list(register.names()) == [*ours, "aa", "zz"]
    assert not register.broken()
    assert register.get("aa").name == "aa"


@EACH
def test_who_has_a_name_first_keeps_it_and_the_other_is_named(what, declare):
    register = REGISTERS[what]
    mine = register.get(register.ours)
    value = f"{__name__}:{what}_aa"
    declare(register.group, ("aa", "zzz:other"), ("aa", value), (register.ours, value))
    assert register.broken() == {
        "aa of zzz:other": f"another {what} has this name",
        f"{register.ours} of {value}": f"another {what} has this name",
    }
    assert register.get(register.ours) is mine
    assert register.get("aa").name == "aa"


@EACH
@pytest.mark.parametrize("value", ["no_such_module:X", "REGISTERS", "{what}_other"])
def test_what_is_broken_is_named_and_stops_no_other(what, declare, value):
    register = REGISTERS[what]
    declare(register.group, ("aa", value.format(what=what)), ("bb", f"{what}_bb"))
    assert list(register.broken()) == ["aa"]
    assert "\n" not in register.broken()["aa"]
    assert register.get("bb").name == "bb"
    assert register.get(register.ours).name == register.ours
    with pytest.raises(InterpError, match="'aa'"):
        register.get("aa")


@EACH
def test_they_are_looked_for_once_and_again_when_asked(what, declare, monkeypatch):
    register = REGISTERS[what]
    declare(register.group, ("aa", f"{what}_aa"))
    found = register.get("aa")
    assert register.get("aa") is found
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    assert register.get("aa") is found
    registry.refresh()
    assert "aa" not in register.names()
