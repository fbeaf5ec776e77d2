"""The registry of worlds, and what the engine may know of them: nothing."""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from interp import DyckGrammar, TopicGrammar, plugins, registry
from interp.checkpoints import write_tensors
from interp.claims import Claims, Relation
from interp.claims.register import relations
from interp.errors import CheckpointError, ConfigError, RequestError, WorldError
from interp.grammars import CopyGrammar, Vocabulary, grammar_from_dict
from interp.header import header_digest, read_header
from interp.presets import make_recipe
from interp.recipe import Recipe
from interp.registry import get_world, list_worlds, world_of
from interp.settings import TrainingSettings
from interp.world import Overlay, Preset, World
from interp.worlds.dyck.claims import Closers
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.topics.settings import TopicSettings

ROOT = Path(__file__).parents[2]
BUILT_IN = sorted(path.parent.name for path in (ROOT / "interp" / "worlds").glob("*/world.py"))
WORDS = re.compile("dyck|topic|bracket|closer|opener|partner|max_depth|num_types", re.IGNORECASE)
# What shared code may say all the same, and why; each is looked for, so that none outlives its reason.
SAID_ALL_THE_SAME = {
    "interp/config.py": ("num_types|max_depth", "fields of the config, which files carry"),
    "interp/foreign/__init__.py": ("max_depth", "an argument of load_foreign"),
    "interp/foreign/ids.py": ("max_depth", "an argument of load_foreign, handed on"),
    "interp/foreign/gpt.py": ("max_depth", "a key of model configs that load_foreign reads"),
    "interp/foreign/given.py": ("max_depth", "a key of model configs that load_foreign reads"),
    "interp/_foreign_config.py": ("max_depth", "a key of model configs that load_foreign reads"),
    "interp/world.py": ("max_depth", "what load_foreign hands on to a world that adopts a vocabulary"),
    **{
        f"probes/audit/{name}.py": ("partner", "heads that stand in for one another")
        for name in ("effects", "named", "partners", "rows", "stages", "thresholds", "use", "use_rules")
    },
    "probes/audit/conditions.py": ("_bracketed", "words in square brackets of a claim"),
    # The bench makes models whose truth is known: it has to choose a language, and a text of its own.
    "probes/audit/bench/cases.py": ("DyckGrammar|brackets|closers|openers|max_depth|num_types", "the bench's language"),
    "probes/audit/bench/drafts.py": ("num_types", "kinds of tokens that a draft tells apart"),
    "probes/audit/bench/families.py": ("brackets|max_depth|num_types", "the bench's language"),
    "probes/audit/bench/worlds.py": (
        "DyckGrammar|dyck|brackets?|closers|opener|partner|num_types",
        "the bench's language",
    ),
}


def of_worlds(path, text):
    """Words of worlds in a text, but for those that the file may say."""
    allowed = SAID_ALL_THE_SAME.get(path, ("(?!)", ""))[0]
    return WORDS.search(re.sub(allowed, "", text, flags=re.IGNORECASE))


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
    found = [line.strip() for line in (ROOT / path).read_text().splitlines() if of_worlds(path, line)]
    assert not found


@pytest.mark.parametrize("path", SAID_ALL_THE_SAME)
def test_what_is_said_all_the_same_is_said(path):
    allowed, why = SAID_ALL_THE_SAME[path]
    assert why
    for word in allowed.split("|"):
        assert re.search(word, (ROOT / path).read_text(), re.IGNORECASE), word


@pytest.mark.parametrize("word", ["DYCK", "the topic", "brackets", "a closer", "openers", "its partner", "max_depth="])
def test_words_of_worlds_are_found(word):
    assert of_worlds("interp/presets.py", word)
    assert not of_worlds("interp/presets.py", "depth, type, open, close, part, start")


# What analyzers and studies share. Faces hand on old names; docstrings may give examples.
SHARED = sorted(
    str(path.relative_to(ROOT))
    for pattern in (
        "probes/claims/*.py",
        "probes/core/*.py",
        "probes/audit/*.py",
        "probes/audit/bench/*.py",
        "probes/analyzers.py",
        "probes/declaration.py",
        "probes/checking/*.py",
        "probes/variation/*.py",
        "case_studies/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("path", SHARED)
def test_what_analyzers_and_studies_share_names_no_world(path):
    tree = ast.parse((ROOT / path).read_text())
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    }
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    said = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    }
    named = {getattr(node, part, None) for node in ast.walk(tree) for part in ("id", "attr", "arg", "name")}
    assert path.startswith("probes/audit/bench/") or not [m for m in imported if m.startswith("interp.worlds.")]
    assert not [text for text in (*said, *filter(None, named)) if of_worlds(path, text)]


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
    assert done.stdout.splitlines() == [str(BUILT_IN), "False False"]


# -- other people's -------------------------------------------------------------------------------------


@pytest.fixture
def declare(monkeypatch):
    """Entry points of other packages, by name."""

    def make(**points):
        found = [EntryPoint(name.replace("_", "-"), value, registry.GROUP) for name, value in points.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == registry.GROUP else [])
        registry.refresh()

    yield make
    monkeypatch.undo()
    registry.refresh()


NOT_A_WORLD = 3


def test_a_broken_world_is_named_and_stops_no_other(declare):
    declare(lost="no_such_module:WORLD", odd=f"{__name__}:NOT_A_WORLD", dyck="elsewhere:WORLD")
    assert list_worlds() == [*BUILT_IN, "lost", "odd"]
    assert [world.name for world in registry.worlds()] == BUILT_IN
    assert set(registry.broken()) == {"lost", "odd", "dyck of elsewhere:WORLD"}
    assert "no_such_module" in registry.broken()["lost"]
    assert get_world("dyck").grammars == (DyckGrammar,)
    with pytest.raises(WorldError, match="no World of this name"):
        get_world("odd")


@dataclass(frozen=True)
class Own:
    """A grammar of its own, of which only the shape matters here."""

    KIND: ClassVar[str] = "own"
    vocab: ClassVar[tuple[str, ...]] = ("a", "b")
    vocab_size: ClassVar[int] = 2
    length: int = 4


@dataclass(frozen=True)
class Taken(Own):
    KIND: ClassVar[str] = "dyck"


@dataclass(frozen=True)
class Plain(Own):
    KIND: ClassVar[str] = "vocabulary"


def _keys(tokens, grammar, visible):
    return visible


def _claims(**parts):
    return Claims(**parts)


PRESET = Preset("own", lambda grammar: None, TrainingSettings(), Own)
ANY = Overlay("levels", lambda tokens, grammar: tokens, "any")
CLAIMS = {
    "relation": _claims(relations=(Relation("previous", "the one before", "mass", "tokens", _keys),)),
    "words": _claims(relations=(Relation("mine", "the last unmatched open bracket", "mass", "tokens", _keys),)),
    "no_relation": _claims(relations=(3,)),
    "same": _claims(same=((".*", "zzz"),)),
    "regex": _claims(same=(("(", "zzz"),)),
    "labels": _claims(questions=(replace(Closers(), name="labels", words="mine", also=()),)),
    "none": 3,
}
JOINING = {
    "it is fine": ({}, None),
    "it hands on what another has": (
        {part: getattr(get_world("dyck"), part) for part in ("overlays", "embeddings", "claims", "constructed")},
        None,
    ),
    "its kind is taken": ({"grammars": (Taken,)}, "grammars 'dyck' is one of the world 'dyck' already"),
    "its kind is a vocabulary": ({"grammars": (Plain,)}, "is a plain vocabulary"),
    "no grammars": ({"grammars": ()}, "are no classes"),
    "a preset is taken": ({"presets": {"dyck-standard": PRESET}}, "presets 'dyck-standard' is one of the world 'dyck'"),
    "presets are none": ({"presets": None}, "presets=None is not a mapping"),
    "a preset is none": ({"presets": {"own": 3}}, "is no Preset by its name"),
    "a preset of another": ({"presets": {"own": replace(PRESET, grammar=DyckGrammar)}}, "no grammar of it"),
    "an overlay is taken": ({"overlays": {"depth": ANY}}, "overlays 'depth' is one of the world"),
    "an overlay is none": ({"overlays": {"none": ANY}}, "cannot be called 'none'"),
    "overlays are a list": ({"overlays": ["x"]}, "is not a mapping"),
    "options clash with a model's": ({"options": {"layers": "length"}}, "option 'layers' is a key of models"),
    "options clash with settings": ({"options": {"lr": "length"}}, "option 'lr' is a key of models or settings"),
    "an option sets nothing": ({"options": {"size": "nosuch"}}, "which its grammar has not"),
    "options are none": ({"options": None}, "options and columns are mappings"),
    "a column is none": ({"columns": {"loss": 3}}, "columns['loss']=3 is neither a head nor a Column"),
    "settings are none": ({"settings": int}, "is not a class of TrainingSettings"),
    "a relation is taken": ({"claims": f"{__name__}:C_relation"}, "'previous' of its relations is said by"),
    "words are taken": ({"claims": f"{__name__}:C_words"}, "'the last unmatched open bracket' of its relations"),
    "a relation is none": ({"claims": f"{__name__}:C_no_relation"}, "its relations are no Relations"),
    "words of others change": ({"claims": f"{__name__}:C_same"}, "which others say"),
    "no regular expression": ({"claims": f"{__name__}:C_regex"}, "is not a regular expression"),
    "a question of every world": ({"claims": f"{__name__}:C_labels"}, "a question cannot be called 'labels'"),
    "claims are none": ({"claims": f"{__name__}:C_none"}, "are no Claims"),
    "claims are nowhere": ({"claims": "no.such:C"}, "cannot be loaded"),
}
globals().update({f"C_{name}": claims for name, claims in CLAIMS.items()})


@pytest.mark.parametrize("case", JOINING)
def test_a_world_that_cannot_stand_beside_the_others_is_named_and_left_out(declare, case, monkeypatch):
    changes, said = JOINING[case]
    made = World(**{"name": "own", "about": "own", "grammars": (Own,), **changes})
    monkeypatch.setitem(globals(), "OWN", made)
    declare(own=f"{__name__}:OWN")
    names = {world.name for world in registry.worlds()}
    assert {"brackets", "copying", "dyck", "topics"} <= names
    assert make_recipe("dyck-standard").grammar == DyckGrammar()
    if said is None:
        assert "own" in names
        assert not registry.broken()
        return
    assert "own" not in names
    assert said in registry.broken()["own"]
    with pytest.raises(WorldError, match=r"^world 'own'"):
        get_world("own")


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "raise GeneratorExit", "1 / 0", "import nothing_of_the_kind"])
def test_whatever_a_module_does_when_imported_no_other_world_is_lost(declare, tmp_path, monkeypatch, code):
    (tmp_path / "wild_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    declare(wild="wild_module:WORLD")
    assert len(registry.worlds()) == len(BUILT_IN)
    assert "world 'wild' (wild_module:WORLD) cannot be loaded" in registry.broken()["wild"]


def test_a_checkpoint_of_a_world_that_is_not_here_says_so(declare, tmp_path):
    from interp import SandboxTransformer, TransformerConfig, load_checkpoint, save_checkpoint

    model = SandboxTransformer.init(TransformerConfig(7, 1, d_model=8, d_head=8, d_mlp=8), 0, DyckGrammar())
    path = save_checkpoint(model, tmp_path / "m.safetensors")
    content = path.read_bytes()
    assert content.count(b'\\"kind\\":\\"dyck\\"') >= 1
    meta = read_header(path)
    weights = {f"params/{n}": p.detach()[None].clone() for n, p in model.named_parameters()}
    meta["grammar"]["kind"] = ["dyck"]  # as a forger would
    meta["digest"] = header_digest(meta)
    write_tensors(path, weights, meta)
    with pytest.raises(CheckpointError, match="is damaged or edited"):
        load_checkpoint(path)
    meta["grammar"]["kind"] = "elsewhere"
    meta["digest"] = header_digest(meta)
    write_tensors(path, weights, meta)
    with pytest.raises(CheckpointError, match=r"is of a grammar .elsewhere., and no world here has it: install"):
        load_checkpoint(path)


def test_what_can_be_said_follows_the_worlds_that_are_there():
    """Whatever was read before: worlds come, and go."""
    made = World("own", "own", (Own,), claims=f"{__name__}:SAYS")
    assert "own-first" not in relations()
    with registry.trying(made):
        assert relations()["own-first"] is SAYS.relations[0]
    assert "own-first" not in relations()


SAYS = Claims(relations=(Relation("own-first", "the first of my own", "mass", "own", _keys),))


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
