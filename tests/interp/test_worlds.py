"""The registry of worlds, and what the engine may know of them: nothing."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from interp import DyckGrammar, TopicGrammar, registry
from interp.errors import ConfigError, RequestError, WorldError
from interp.grammars import CopyGrammar, Vocabulary, grammar_from_dict
from interp.presets import make_recipe
from interp.recipe import Recipe
from interp.registry import get_world, list_worlds, world_of
from interp.settings import TrainingSettings
from interp.world import World
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.topics.settings import TopicSettings

ROOT = Path(__file__).parents[2]
WORDS = re.compile("dyck|topic|bracket|closer", re.IGNORECASE)
# The names of the first worlds' grammars are imported from here, as they were before worlds had folders.
ADDRESS_BOOKS = {"interp/__init__.py", "interp/grammars/__init__.py"}
ENGINE = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "interp").rglob("*.py")
    if "worlds" not in path.relative_to(ROOT).parts and str(path.relative_to(ROOT)) not in ADDRESS_BOOKS
)


def test_there_is_an_engine():
    assert len(ENGINE) > 70


@pytest.mark.parametrize("path", ENGINE)
def test_the_engine_names_no_world(path):
    found = [line.strip() for line in (ROOT / path).read_text().splitlines() if WORDS.search(line)]
    assert not found


@pytest.mark.parametrize(
    ("grammar", "name"),
    [(DyckGrammar(), "dyck"), (CopyGrammar(), "copying"), (TopicGrammar(), "topics"), (None, None), (3, None)],
)
def test_the_world_of_a_grammar(grammar, name):
    world = world_of(grammar)
    assert (None if world is None else world.name) == name
    assert world is None or get_world(name) is world


def test_the_world_of_a_grammar_that_a_user_derives():
    class Mine(DyckGrammar):
        pass

    assert world_of(Mine()) is get_world("dyck")
    assert world_of(Vocabulary(("a", "b"))) is None


def test_an_unknown_world_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match="did you mean 'dyck'"):
        get_world("dyk")


def test_names_are_known_without_importing_a_world():
    code = (
        "import sys; from interp.registry import list_worlds; print(list_worlds());"
        "print(any(m.startswith('interp.worlds.') for m in sys.modules), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(["brackets", "copying", "dyck", "topics"]), "False False"]


# -- other people's -------------------------------------------------------------------------------------


@pytest.fixture
def declare(monkeypatch):
    """Entry points of other packages, by name."""

    def make(**points):
        found = [EntryPoint(name.replace("_", "-"), value, registry.GROUP) for name, value in points.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: found if group == registry.GROUP else [])
        registry.refresh()

    yield make
    monkeypatch.undo()
    registry.refresh()


NOT_A_WORLD = 3


def test_a_broken_world_is_named_and_stops_no_other(declare):
    declare(lost="no_such_module:WORLD", odd=f"{__name__}:NOT_A_WORLD", dyck="elsewhere:WORLD")
    assert list_worlds() == ["brackets", "copying", "dyck", "topics", "lost", "odd"]
    assert {world.name for world in registry.worlds()} == {"brackets", "copying", "dyck", "topics"}
    assert set(registry.broken()) == {"lost", "odd"}
    assert "no_such_module" in registry.broken()["lost"]
    assert get_world("dyck").grammars == (DyckGrammar,)
    with pytest.raises(WorldError, match="no World of this name"):
        get_world("odd")


def test_a_grammar_without_a_kind_makes_no_world():
    with pytest.raises(WorldError, match="has no KIND"):
        World("mine", "mine", (int,))


# -- recipes --------------------------------------------------------------------------------------------


def test_common_settings_become_the_worlds_own():
    plain = make_recipe("dyck-minimal")
    recipe = Recipe("mine", plain.grammar, plain.config, TrainingSettings(steps=7))
    assert recipe.settings == DyckSettings(steps=7)


def test_settings_of_another_world_are_refused():
    plain = make_recipe("dyck-minimal")
    with pytest.raises(ConfigError, match="TopicSettings, and the world 'dyck' trains by DyckSettings"):
        Recipe("mine", plain.grammar, plain.config, TopicSettings())


def test_a_vocabulary_trains_nothing():
    plain = make_recipe("dyck-minimal")
    names = Vocabulary(tuple(f"t{i}" for i in range(plain.config.d_vocab)))
    with pytest.raises(ConfigError, match="is of no world"):
        Recipe("mine", names, plain.config, TrainingSettings())


@pytest.mark.parametrize("preset", registry.presets())
def test_a_recipe_comes_back_from_what_it_writes(preset):
    recipe = make_recipe(preset)
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert grammar_from_dict(recipe.grammar.to_dict()) == recipe.grammar


def test_topic_settings_carry_what_the_first_files_did():
    """Their bytes, and so the digests of what was trained, stay what they were."""
    written = TopicSettings().to_dict()
    assert {
        "contrastive": 0.0,
        "targets": "all",
        "min_length": 2,
        "max_length": 26,
        "length": 28,
    }.items() <= written.items()
    assert not {"start", "trained", "compute"} & set(written)
    assert TopicSettings.from_dict(written) == TopicSettings()
    with pytest.raises(ConfigError, match="unknown training setting 'length'"):
        TopicSettings.from_dict({**written, "length": 5})
