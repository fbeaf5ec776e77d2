"""The suite of worlds: every built-in one passes it, and for every check there are worlds that it catches and names."""

from pathlib import Path

import pytest

from broken_worlds import BROKEN
from interp import check_world, get_world, list_worlds
from interp.checking import CHECKS, SLOW, world_checks
from interp.errors import RequestError, WorldError
from parity import world
from right_worlds import RIGHT
from sizes import hold_out_few
from wrong_truth import WRONG

BUILT_IN = {name: dict(world_checks(name)) for name in list_worlds()} | {"parity": dict(world_checks(world()))}
EACH = [
    pytest.param(check, id=f"{of}-{name}", marks=[pytest.mark.slow] if name in SLOW else [])
    for of, checks in BUILT_IN.items()
    for name, check in checks.items()
]


@pytest.fixture
def few_strings(monkeypatch):
    """A quarter of the held-out strings, which leaves twice as much to chance; what is wrong is looked for with all."""
    hold_out_few(monkeypatch, 100, 1000)
    monkeypatch.setattr("interp.checking.training.FINAL_STRINGS", 1000)


@pytest.mark.parametrize("check", EACH)
def test_every_world_passes_every_check(check, few_strings):
    check()


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_right_worlds_of_other_kinds_are_not_refused(make):
    assert "draws" in check_world(make(), only=[name for name in CHECKS if name not in SLOW])


@pytest.mark.slow
@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_right_worlds_of_other_kinds_train_as_their_law_says(make):
    assert check_world(make(), only="metrics") == ["metrics"]


def test_the_example_of_a_world_passes(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "regular_language")
    from regular_language.world import WORLD

    quick = [name for name in CHECKS if name not in SLOW]
    assert {"labels", "law", "reference", "rungs", "questions", "options"} <= set(check_world(WORLD, only=quick))


def test_a_world_with_every_part_is_asked_every_check():
    assert list(BUILT_IN["parity"]) == list(CHECKS)


def test_checks_of_parts_that_a_world_has_not_are_left_out():
    assert "presets" not in BUILT_IN["brackets"]
    assert "questions" not in BUILT_IN["topics"]
    assert check_world("copying", only=["vouch", "law"]) == ["vouch"]


def test_a_world_that_nobody_declares_is_known_only_while_it_is_checked():
    assert check_world(world(), only="presets") == ["presets"]
    with pytest.raises(WorldError):
        check_world(world(about=" "), only="parts")
    assert "parity" not in list_worlds()
    with pytest.raises(RequestError, match="no world 'parity'"):
        get_world("parity")


@pytest.mark.parametrize(
    ("given", "only", "said"),
    [
        ("parrity", None, "no world 'parrity'"),
        (3, None, "world=3 is neither a World nor the name of one"),
        ("dyck", "speling", "only='speling' is not a check, nor a list of them; checks are parts,"),
        ("dyck", 3, "only=3 is not a check"),
    ],
)
def test_wrong_requests_are_refused(given, only, said):
    with pytest.raises(RequestError, match=said):
        check_world(given, only=only)


CASES = [
    pytest.param(name, make, said, id=f"{name}-{i}", marks=[pytest.mark.slow] if name in SLOW else [])
    for name in CHECKS
    for i, (make, said) in enumerate([*BROKEN.get(name, ()), *WRONG.get(name, ())])
]


def test_every_check_has_worlds_that_fail_it():
    assert BROKEN.keys() | WRONG.keys() == set(CHECKS)


@pytest.mark.parametrize(("name", "make", "said"), CASES)
def test_a_broken_world_is_caught_and_named(name, make, said):
    with pytest.raises(WorldError, match=f"^world '[a-z-]+' fails the check '{name}': .*({said})") as caught:
        check_world(make(), only=name)
    assert "\n" not in str(caught.value)
