"""Settings and fields of grammars that hold several values, from the command line to the file and back."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from interp import load_checkpoint, train_population
from interp.checking.said import _changed, check_grammars, check_options, check_presets, check_settings
from interp.checking.subject import Subject
from interp.cli import main
from interp.config import TransformerConfig
from interp.constraints import Annotated, Interval, Len, check_fields, doc
from interp.errors import ConfigError, GrammarError, InterpError
from interp.header import read_header
from interp.presets import make_recipe, options_of
from interp.recipe import Recipe
from interp.registry import trying
from interp.settings import TrainingSettings
from interp.training import task as task_module
from interp.vocabulary import cut
from interp.world import Preset, World

Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True)
class Bits:
    """Bits, each 1 with a probability that a string draws from `shares`; the label is the bit itself."""

    KIND: ClassVar[str] = "bits"
    vocab: ClassVar[tuple[str, ...]] = ("0", "1")
    vocab_size: ClassVar[int] = 2
    shares: Annotated[tuple[Share, ...], Len(1), doc("probabilities of a 1")] = (0.9, 0.98, 0.1)
    length: Annotated[int, Interval(ge=1, le=50), doc("bits")] = 4

    def __post_init__(self) -> None:
        check_fields(self, GrammarError)

    def to_tokens(self, texts: Any) -> Any:
        ids = {name: i for i, name in enumerate(self.vocab)}
        return np.array([cut(text, ids) for text in ([texts] if isinstance(texts, str) else texts)])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Bits":
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    def draw(self, rng: np.random.Generator, count: int) -> Any:
        share = np.asarray(self.shares)[rng.integers(0, len(self.shares), count)]
        return (rng.random((count, self.length)) < share[:, None]).astype(np.int64)

    def labels(self, tokens: Any) -> Any:
        return np.asarray(tokens)


@dataclass(frozen=True)
class Unchecked(Bits):
    """Checks nothing of what it is given."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Settings(TrainingSettings):
    weights: Annotated[tuple[Share, ...], doc("a weight each")] = (1.0,)
    seen: Annotated[tuple[Literal["first", "last"], ...], doc("what is looked at")] = ()
    marks: Annotated[tuple[Annotated[int, Interval(ge=0, le=99)], ...], doc("marks")] = ()
    ends: Annotated[tuple[Share, Share], doc("first and last")] = (0.0, 1.0)
    called: Annotated[tuple[str, ...], doc("names")] = ()
    plain: Annotated[bool, doc("as it is")] = False


def config(grammar: Bits) -> TransformerConfig:
    return TransformerConfig(2, 1, d_model=8, d_head=8, d_mlp=8, n_ctx=8)


def world(kind: type = Bits) -> World:
    usual = Settings(steps=4, batch=4, eval_every=4)
    return World(
        "bits",
        "bits",
        (kind,),
        settings=Settings,
        presets={"bits": Preset("one layer", config, usual, kind)},
        options={"p": "shares", "length": "length"},
    )


@pytest.fixture
def bits(monkeypatch):
    monkeypatch.setattr(task_module, "EVAL_STRINGS", 8)
    monkeypatch.setattr(task_module, "FINAL_STRINGS", 8)
    with trying(world()):
        yield


GIVEN = {  # what --set takes, the same in Python, what becomes of it, and the part that it is of
    "p": (".9,.5", [0.9, 0.5], (0.9, 0.5), "grammar", "shares"),
    "weights": ("0,1", np.array([0, 1]), (0, 1), "settings", "weights"),
    "seen": ("last,first", ["last", "first"], ("last", "first"), "settings", "seen"),
    "marks": ("7", (7,), (7,), "settings", "marks"),
    "ends": (".25,.75", [0.25, 0.75], (0.25, 0.75), "settings", "ends"),
    "called": ("a,b c", ["a", "b c"], ("a", "b c"), "settings", "called"),
    "plain": ("True", True, True, "settings", "plain"),
}


@pytest.mark.parametrize("key", GIVEN)
def test_python_and_the_command_line_give_the_same(key, bits, tmp_path):
    written, in_python, meant, part, field = GIVEN[key]
    path = tmp_path / "bits.safetensors"
    assert main([*f"train bits --seeds 1 --workers 1 --out {path} --set".split(), f"{key}={written}"]) == 0
    recipe = make_recipe("bits", {key: in_python})
    assert repr(getattr(getattr(recipe, part), field)) == repr(meant)
    trained, again = load_checkpoint(path), train_population(recipe, 1, workers=1)
    assert trained.grammar == again.grammar == recipe.grammar
    assert trained.provenance == again.provenance
    told = read_header(path)
    described = told["grammar"] if part == "grammar" else told["provenance"]["settings"]
    assert described[field] == (list(meant) if isinstance(meant, tuple) else meant)
    assert Settings.from_dict(trained.provenance["settings"]) == recipe.settings


@pytest.mark.parametrize("key", GIVEN)
def test_a_recipe_comes_back_from_json(key, bits):
    recipe = make_recipe("bits", {key: GIVEN[key][1]}, snapshots=[0, 4])
    back = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert back == recipe
    assert repr(back) == repr(recipe)
    assert hash(back) == hash(recipe)
    written = recipe.settings.to_dict()
    assert json.loads(json.dumps(written)) == written  # lists, as they come back from a file


REFUSED = [
    ("p", [0.9, 1.5], "shares"),
    ("p", [], "shares"),
    ("p", "x", "shares"),
    ("p", {0.5}, "shares"),
    ("p", None, "shares"),
    ("p", [[0.5]], "shares"),
    ("weights", "0,2", "weights"),
    ("weights", "0,,1", "weights"),
    ("seen", "first,middle", "seen"),
    ("marks", "1,2.5", "marks"),
    ("marks", 100, "marks"),
    ("ends", "0", "ends"),
    ("ends", "0,1,1", "ends"),
    ("called", 7, "called"),
    ("plain", "yes", "plain"),
]


@pytest.mark.parametrize(("key", "value", "field"), REFUSED, ids=str)
def test_what_does_not_fit_is_refused_in_one_line(key, value, field, bits, capsys):
    with pytest.raises(InterpError) as error:
        make_recipe("bits", {key: value})
    kind = Bits if key == "p" else Settings
    said = str(error.value)
    assert f"{key}=" in said
    assert "\n" not in said
    assert options_of("bits")[key].split(": ", 1)[1].removesuffix(", separated by commas") in said
    assert hasattr(kind(), field)
    if isinstance(value, str):
        assert main(["train", "bits", "--set", f"{key}={value}"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("value", [[0.9, 0.5], (0.9, 0.5), np.array([0.9, 0.5]), ".9,.5"], ids=repr)
def test_a_grammar_that_checks_nothing_gets_a_tuple_all_the_same(value, monkeypatch):
    with trying(world(Unchecked)):
        grammar = make_recipe("bits", {"p": value}).grammar
    assert repr(grammar.shares) == repr((0.9, 0.5))
    assert hash(grammar)


def test_the_help_says_how_several_are_written(bits, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "p: probabilities of a 1: a list of numbers from 0 to 1, at least 1 of them, separated by commas" in told
    assert "marks: marks: a list of whole numbers from 0 to 99, separated by commas" in told
    assert "snapshots:" not in told  # --snapshot


def test_the_checks_of_worlds_know_several():
    with trying(world()):
        subject = Subject(world())
        for check in (check_grammars, check_options, check_settings, check_presets):
            check(subject)


def as_tuples(self) -> None:
    for field in fields(self):
        if isinstance(getattr(self, field.name), list):
            object.__setattr__(self, field.name, tuple(getattr(self, field.name)))


def entries_unseen(self) -> None:
    """Everything is checked, but of a list only that it is one."""
    as_tuples(self)
    kept = {field.name: getattr(self, field.name) for field in fields(self)}
    for name, value in kept.items():
        if isinstance(value, tuple) and name != "snapshots":
            object.__setattr__(self, name, getattr(Settings, name))
    check_fields(self, ConfigError)
    for name, value in kept.items():
        object.__setattr__(self, name, value)


@pytest.mark.parametrize("checked", [as_tuples, entries_unseen])
def test_the_checks_of_worlds_try_several(checked):
    lax = type("Lax", (Settings,), {"__post_init__": checked})
    made = replace(world(), settings=lax, presets={"bits": Preset("one layer", config, lax(), Bits)})
    with trying(made), pytest.raises(InterpError, match=r"takes .*: call check_fields"):
        check_settings(Subject(made))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (tuple[float, ...], (0.5,)),
        (tuple[float, ...], ()),
        (tuple[int, ...], ()),
        (tuple[str, ...], ("a",)),
        (tuple[str, ...], ()),
        (tuple[Literal["a", "b"], ...], ("a", "a")),
        (tuple[Literal["c", "b"], ...], ()),
        (tuple[bool, bool], (True, False)),
    ],
    ids=str,
)
def test_the_checks_of_worlds_find_other_lists(hint, value):
    """At least one, and never the same again."""

    @dataclass(frozen=True)
    class Holder:
        held: hint = value

        def __post_init__(self) -> None:
            check_fields(self, ConfigError)

    changed = _changed(Holder(), "held")
    assert changed is not None
    assert changed != Holder()
