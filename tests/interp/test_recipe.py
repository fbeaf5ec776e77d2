"""Recipes of every kind of world: what does not fit is one line, wherever the world says its task and settings."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

import parity
from interp import SandboxTransformer, train_population
from interp.errors import ConfigError, InterpError, WorldError
from interp.presets import check_read, make_recipe
from interp.recipe import Recipe
from interp.registry import presets, trying
from interp.settings import TrainingSettings
from interp.training.task import TokenTask
from interp.world import Preset
from interp.worlds.dyck.settings import DyckSettings
from parity import Parity, ParitySettings, lent

LEARNED = partial(parity.config, positions="learned", n_ctx=64)


def world(task=None, kind=Parity, settings=None, **parts):
    usual = settings or ParitySettings(steps=2, batch=4, eval_every=2)
    parts = {"unread": (), **parts}
    learned = {"learned": Preset("learned positions", LEARNED, usual, kind)}
    return parity.world(kind, presets=learned, task=task if task is None else lent(task), **parts)


class Derived(TokenTask):
    """A task of its own, that draws what the grammar draws."""


class Doubled(TokenTask):
    """Reads every string twice over: the grammar's own strings are half as long."""

    def __init__(self, template, recipe, device):
        longer = replace(recipe.grammar, length=2 * recipe.grammar.length)
        super().__init__(template, replace(recipe, grammar=longer, config=replace(recipe.config, n_ctx=64)), device)


@dataclass(frozen=True)
class Drawless:
    """Nothing is drawn of it: only a task of the world's own knows what it reads."""

    KIND: ClassVar[str] = "parity"
    vocab: ClassVar[tuple[str, ...]] = ("0", "1", "_")
    vocab_size: ClassVar[int] = 3
    label_names: ClassVar[tuple[str, ...]] = ("even", "odd")
    length: int = 6


@dataclass(frozen=True)
class Odd(Parity):
    """Its `draw` is not what the engine calls so."""

    def draw(self):
        return np.zeros(3)


@dataclass(frozen=True)
class _Case:
    made: object  # the world
    positions: int  # how many its strings of 6 fill


CASES = {
    "no task": _Case(world(), 6),
    "a task derived from the engine's": _Case(world(Derived), 6),
    "a task that reads more than is drawn": _Case(world(Doubled, longest=lambda r: 2 * r.grammar.length), 12),
    "nothing is drawn": _Case(world(Derived, kind=Drawless, longest=lambda r: r.grammar.length), 6),
}
CASES_IN = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@CASES_IN
@pytest.mark.parametrize("less", [1, 3])
def test_too_few_positions_are_refused(case, less):
    with trying(case.made):
        with pytest.raises(ConfigError) as error:
            make_recipe("learned", {"length": 6, "n_ctx": case.positions - less})
        assert f"strings fill {case.positions} positions, more than n_ctx={case.positions - less}" in str(error.value)
        assert "\n" not in str(error.value)


@CASES_IN
def test_as_many_as_are_filled_are_enough(case):
    with trying(case.made):
        recipe = make_recipe("learned", {"length": 6, "n_ctx": case.positions})
        assert recipe.config.n_ctx == case.positions
        if hasattr(recipe.grammar, "draw"):
            train_population(recipe, 1, workers=1)
        make_recipe("learned", {"length": 40, "n_ctx": 6, "positions": "none"})  # nothing is looked up by position


def test_where_nothing_says_how_long_strings_are_none_is_refused():
    with trying(world(Derived, kind=Drawless)):
        assert make_recipe("learned", {"n_ctx": 1}).config.n_ctx == 1


@pytest.mark.parametrize(
    "made", [world(kind=Odd), world(Derived, kind=Odd), world(longest=lambda recipe: recipe.nosuch)]
)
def test_what_a_world_cannot_say_is_one_line(made):
    with (
        trying(made),
        pytest.raises(WorldError, match="world 'parity': how long its strings are cannot be determined") as e,
    ):
        make_recipe("learned")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("preset", presets())
def test_every_preset_refuses_too_few_positions(preset):
    with pytest.raises(ConfigError) as error:
        make_recipe(preset, {"positions": "learned", "n_ctx": 1})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("preset", ["dyck-standard", "dyck-paper", "dyck-uniform", "dyck-copy"])
@pytest.mark.parametrize("law", [{"max_length": 6}, {"data": "prefix", "length": 7}], ids=str)
def test_as_many_positions_as_strings_fill_are_enough(preset, law):
    recipe = make_recipe(preset, {"positions": "learned", "n_ctx": 7, **law})
    with pytest.raises(ConfigError, match="strings fill 7 positions, more than n_ctx=6"):
        replace(recipe, config=replace(recipe.config, n_ctx=6))


# -- models that were made for another grammar -----------------------------------------------------------


def refuse_short(config, grammar):
    if config.n_ctx < grammar.length:
        raise ConfigError(f"n_ctx={config.n_ctx} is of another grammar")


def test_a_world_says_which_models_its_grammars_fit():
    with trying(world(fits=refuse_short)):
        assert SandboxTransformer(LEARNED(Parity(6)), Parity(6)).grammar == Parity(6)
        assert SandboxTransformer(LEARNED(Parity(6), n_ctx=6), Parity(6)).grammar == Parity(6)
        assert SandboxTransformer(LEARNED(Parity(6), n_ctx=5)).grammar is None
        with pytest.raises(ConfigError, match="n_ctx=5 is of another grammar"):
            SandboxTransformer(LEARNED(Parity(6), n_ctx=5), Parity(6))
    assert SandboxTransformer(LEARNED(Parity(6), n_ctx=5), Parity(6)).grammar == Parity(6)  # of no world


def test_only_copies_of_one_length_are_trained_in_both_directions():
    """A later key tells a language model what it should predict, and PAD has a key behind a short string."""
    copying, predicting = make_recipe("dyck-copy-encoder"), make_recipe("dyck-standard", {"data": "prefix"})
    assert copying.config.direction == "bidirectional"
    with pytest.raises(ConfigError, match="direction='bidirectional' sees the token it should predict: use 'causal'"):
        replace(predicting, config=replace(predicting.config, direction="bidirectional"))
    with pytest.raises(ConfigError, match="data='complete' gives strings of several lengths"):
        make_recipe("dyck-copy-encoder", {"data": "complete"})
    with pytest.raises(ConfigError, match="contrast='nested' puts more pairs before one string than before another"):
        make_recipe("dyck-copy-encoder", {"contrastive": 0.5})
    for options in ({"contrast": "released"}, {"depth": 1}):  # as many before each
        assert make_recipe("dyck-copy-encoder", {"contrastive": 0.5, **options}).settings.contrastive == 0.5


@pytest.mark.parametrize(
    ("preset", "options", "told"),
    [
        ("dyck-standard", {"layers": 1, "block": "bert"}, "no norm on the embeddings .* block='bert'"),
        ("dyck-copy-encoder", {"layers": 1, "positions": "none"}, "one causal layer.* direction='bidirectional'"),
    ],
)
def test_what_keeps_counts_from_sufficing_is_named(preset, options, told):
    with pytest.raises(ConfigError, match=told):
        make_recipe(preset, {"compute": "counts", **options})


@pytest.mark.parametrize("preset", ["dyck-standard", "dyck-minimal", "dyck-copy"])
def test_a_model_is_of_one_depth(preset):
    recipe = make_recipe(preset)
    other = replace(recipe.grammar, max_depth=3)
    with pytest.raises(ConfigError, match="max_depth=4 is not the grammar's max_depth=3"):
        SandboxTransformer(recipe.config, other)
    assert SandboxTransformer(recipe.config, recipe.grammar).grammar == recipe.grammar
    if recipe.config.oracle is None:
        assert SandboxTransformer(replace(recipe.config, max_depth=None), other).grammar == other


# -- settings -------------------------------------------------------------------------------------------


PLAIN = TrainingSettings(steps=2, batch=4, eval_every=2, lr=0.5)


def test_a_preset_may_have_common_settings_in_a_world_with_its_own():
    with trying(world(settings=PLAIN)):
        recipe = make_recipe("learned", {"noise": 0.25, "warmup": 1})
        assert recipe.settings == ParitySettings(steps=2, batch=4, eval_every=2, lr=0.5, noise=0.25, warmup=1)
        assert make_recipe("learned").settings == ParitySettings(steps=2, batch=4, eval_every=2, lr=0.5)
        with pytest.raises(ConfigError, match="noise=2 is not a number from 0 to 1"):
            make_recipe("learned", {"noise": 2})


def test_so_may_a_recipe_that_was_made_in_python():
    with trying(world(settings=PLAIN)):
        recipe = make_recipe("learned", {"noise": 0.25})
        check_read(recipe)
        check_read(Recipe("learned", recipe.grammar, recipe.config, PLAIN))


@pytest.mark.parametrize("options", [{}, {"noise": 0.25}, {"lr": 0.25}], ids=str)
def test_a_preset_with_settings_of_another_world_is_refused_in_one_line(options):
    with trying(world(settings=DyckSettings())), pytest.raises(ConfigError, match="are DyckSettings, and") as error:
        make_recipe("learned", options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("settings", [DyckSettings(), 3, None], ids=repr)
def test_settings_that_are_not_the_worlds_are_refused_in_one_line(settings):
    with trying(world()):
        recipe = make_recipe("learned")
        with pytest.raises(InterpError, match="trains by ParitySettings"):
            replace(recipe, settings=settings)


@pytest.mark.parametrize(("weight", "pairs"), [(0.1, 2 * 4), (0.0, 0)])
def test_pairs_that_are_put_before_a_string_fill_positions_too(weight, pairs):
    """The contrastive regulariser reads each string again, after up to D nested pairs."""
    most = {"max_length": 6, "positions": "learned", "contrastive": weight}
    recipe = make_recipe("dyck-standard", {**most, "n_ctx": 7 + pairs, "width": 8}, steps=2)
    train_population(recipe, 1, workers=1)
    with pytest.raises(ConfigError, match=f"strings fill {7 + pairs} positions, more than n_ctx={6 + pairs}"):
        make_recipe("dyck-standard", {**most, "n_ctx": 6 + pairs})
