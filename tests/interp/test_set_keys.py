"""Every `--set` key, walked over presets and over what else may be set: it changes the training, or it is refused."""

import hashlib
import re
from dataclasses import fields, replace
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from interp import DyckGrammar, SandboxTransformer, TopicGrammar, TransformerConfig, train_population
from interp.config import CHOICES
from interp.errors import InterpError, RequestError
from interp.presets import PRESETS as EVERY_PRESET
from interp.presets import SET_KEYS as EVERY_KEY
from interp.presets import Recipe, check_read, make_recipe, options_of
from interp.registry import get_world, worlds
from interp.training.loop import initial_state, train_chunk
from interp.unread import COMMON
from interp.worlds.dyck import task as objective
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.topics import task as topics
from sizes import hold_out_few

# Younger worlds walk their keys beside their other tests, in tests/interp/worlds/.
PRESETS = {name: one for world in ("copying", "dyck", "topics") for name, one in get_world(world).presets.items()}
SET_KEYS = tuple(sorted({key for preset in PRESETS for key in options_of(preset)}))
# key -> another value than any preset's (or two, of which a preset has one), and what must be set for the key to be
# read at all
BRACKETS = {
    "block": (("authors", "gpt2"), {}),
    "embedding": (("onehot", "learned"), {}),
    "scale_scores": ((False, True), {}),
    "norm_added": (True, {"block": "authors"}),
    "final_norm": ((False, True), {}),
    "unembed_bias": ((False, True), {}),
    "corpus": (30, {}),
    "k": (3, {}),
    "depth": (3, {}),
    "open_prob": (0.2, {}),
    "end_prob": (0.2, {}),
    "positions": ("linear", {}),
    "layers": (3, {}),
    "heads": (2, {}),
    "width": (34, {}),
    "n_ctx": (600, {}),
    "init_std": (0.3, {}),
    "lr": (0.02, {}),
    "schedule": ("constant", {}),
    "warmup": (2, {}),
    "optimizer": ("sgd", {}),
    "weight_decay": (0.3, {}),
    "loss": ("mse", {}),
    "l2": (0.1, {}),
    "targets": (("closers", "all"), {}),
    "data": (("prefix", "complete"), {}),
    "min_length": (6, {}),
    "max_length": (10, {}),
    "length": (9, {"data": "prefix"}),
    "eval_every": (2, {}),
    "contrastive": (0.3, {}),
    "contrast": ("released", {"contrastive": 0.3}),
    "hold": (2, {}),
    "crossed": (2, {}),
    "compute": ("counts", {"layers": 1}),
    "start": ("zero", {}),
    "trained": ("attention", {}),
    "steps": (6, {}),
    "batch": (5, {}),
}
TOPICS = {
    "topics": (3, {}),
    "words": (4, {}),
    "law": ("idealised", {}),
    "alpha": (0.9, {}),
    "topics_per_document": (3, {"law": "idealised"}),
    "min_length": (20, {}),
    "max_length": (50, {}),
    "mask_prob": (0.3, {}),
    "keep_prob": (0.3, {}),
    "random_prob": (0.3, {}),
    "data": ("exact", {"law": "idealised"}),
    "start": ("zero", {}),
    "trained": ("attention", {}),
    "schedule": ("cosine", {}),
    "hold": (2, {"schedule": "cosine"}),
    "length": (9, {}),
    **{
        key: BRACKETS[key]
        for key in (
            *("lr", "warmup", "optimizer", "weight_decay", "loss", "l2", "init_std", "n_ctx", "eval_every"),
            *("contrastive", "targets", "compute", "positions", "heads", "layers", "width", "steps", "batch"),
            *("block", "embedding", "scale_scores", "norm_added", "final_norm", "unembed_bias", "corpus"),
            *("contrast", "crossed"),
        )
    },
}
SMALL = {"topics": 5, "words": 3}
# No training reads it, but it is written into the model: TransformerLens's tools take it for the longest input.
OF_THE_MODEL_ALONE = {"n_ctx"}


@pytest.fixture(autouse=True)
def small_evaluations(monkeypatch):
    hold_out_few(monkeypatch, 6)
    monkeypatch.setattr(
        objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=20, score_from=16)
    )
    monkeypatch.setattr(topics, "EVAL_DOCUMENTS", 8)
    monkeypatch.setattr(topics, "FINAL_DOCUMENTS", 8)


def of_topics(preset):
    return PRESETS[preset].grammar is TopicGrammar


def recipe_of(preset, options):
    """Four steps of the preset's batch, unless `options` say otherwise; small topic grammars."""
    options = {**(SMALL if of_topics(preset) else {}), **options}
    if preset == "dyck-authors" and options.get("schedule") != "constant":
        options.setdefault("hold", 1)  # the preset's is an epoch
    return make_recipe(preset, options, steps=options.pop("steps", 4), batch=options.pop("batch", None))


def outcome(recipe):
    """A digest of all that training gives: weights and the table of measurements."""
    state, _ = train_chunk(recipe, initial_state(recipe, (3,)))  # of weights 1 and data 1 where two of each are crossed
    sha = hashlib.sha256(repr(state.history).encode())
    for name in sorted(state.params):
        sha.update(f"{name}{tuple(state.params[name].shape)}".encode())
        sha.update(state.params[name].numpy().tobytes())
    return sha.hexdigest()


def other_value(preset, key, value):
    """The value, or of two the one that is not the preset's own."""
    if not isinstance(value, tuple):
        return value
    plain = recipe_of(preset, {})
    own = {getattr(part, key, None) for part in (plain.config, plain.settings)}
    return next(one for one in value if one not in own)


def attempt(preset, options):
    """(the recipe, or None where the options are refused; what the refusal says)."""
    try:
        return recipe_of(preset, options), ""
    except InterpError as error:
        return None, str(error)


# Presets of the worlds that train in several ways, of which keys depend; those of others are held by `check_world`.
SEVERAL_WAYS = [name for name, preset in PRESETS.items() if issubclass(preset.grammar, (DyckGrammar, TopicGrammar))]


def test_every_key_is_in_the_tables():
    known = {key for preset in SEVERAL_WAYS for key in options_of(preset)}
    assert {*BRACKETS, *TOPICS} == {*known, "steps", "batch"}


QUICK = ("dyck-minimal", "topic-joint")


@pytest.mark.parametrize("key", [*SET_KEYS, "batch", "steps"])
@pytest.mark.parametrize("preset", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in SEVERAL_WAYS])
@pytest.mark.slow
def test_a_key_changes_the_training_or_is_refused_by_name(preset, key):
    value, context = (TOPICS if of_topics(preset) else BRACKETS).get(key, (1, {}))
    value = other_value(preset, key, value)
    if key == "contrast" and of_topics(preset):
        context = {}
    if (preset, key) == ("dyck-copy-encoder", "contrast"):
        context = {**context, "depth": 1}  # deeper nested pairs are several in number, whose PAD an encoder would see
    context = {k: v for k, v in context.items() if k != "layers" or "minimal" not in preset}
    changed, refusal = attempt(preset, {**context, key: value})
    if changed is None:
        assert f"{key}=" in refusal or f"{key!r}" in refusal  # it says which option it is about
        return
    plain = recipe_of(preset, context)
    assert changed != plain or (key, value) in (("layers", 1), ("heads", 1))
    if key in OF_THE_MODEL_ALONE:
        assert SandboxTransformer(changed.config).cfg.n_ctx == value
    elif changed != plain:
        assert outcome(changed) != outcome(plain)


def switches(preset):
    """Values of settings that choose a path: every word of every choice, and numbers at which something stops."""
    hints = get_type_hints(type(PRESETS[preset].settings))
    words = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    words |= {"positions": CHOICES["positions"], "law": ("lda", "idealised")}
    numbers = [{"depth": 1}, {"warmup": 3}, {"warmup": 50}, {"contrastive": 0.3}, {"k": 1}, {"max_length": 2}]
    if of_topics(preset):
        numbers = [
            {"mask_prob": 1.0},
            {"keep_prob": 0, "random_prob": 0},
            {"law": "idealised", "topics_per_document": 5},
        ]
    found = [{}, *({name: word} for name, known in words.items() for word in known), *numbers]
    if of_topics(preset):
        starts = [{"start": start, "trained": t} for start in words["start"] for t in words["trained"]]
        exact = {"law": "idealised", "data": "exact"}
        return [*found, *starts, *({**exact, **one} for one in (*numbers, *starts))]
    return [*found, *({"data": "prefix", **one} for one in numbers), {"compute": "counts", "layers": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["dyck-minimal", "topic-joint", "topic-full"])
def test_no_choice_leaves_a_key_unread(preset):
    """Where a choice and a key are both accepted, another value of the key gives another training."""
    table = TOPICS if of_topics(preset) else BRACKETS
    ignored, tried = [], 0
    for switch in switches(preset):
        plain, _ = attempt(preset, switch)
        if plain is None:
            continue
        expected = outcome(plain)
        for key, (value, _) in table.items():
            if key in OF_THE_MODEL_ALONE or key in switch:
                continue
            changed, _ = attempt(preset, {**switch, key: other_value(preset, key, value)})
            if changed is None:
                continue
            tried += 1
            if changed != plain and outcome(changed) == expected:
                ignored.append((switch, key))
    assert not ignored
    assert tried > 100


def test_every_entry_of_the_table_names_fields_that_are_there():
    for world in worlds():
        parts = {"settings": [world.settings], "config": [TransformerConfig], "grammar": world.grammars}
        for rule in (*world.unread, *COMMON):
            for name in rule.fields:
                part, _, field = name.partition(".")
                assert field in {f.name for kind in parts[part] for f in fields(kind)}, name


# -- recipes made in Python ---------------------------------------------------------------------------


def dyck_config(**changes):
    return TransformerConfig(7, n_layers=1, d_model=8, d_head=8, d_mlp=8, **changes)


@pytest.mark.parametrize(
    ("config", "grammar", "settings", "said"),
    [
        (dyck_config(), DyckGrammar(), {"data": "prefix", "max_length": 100}, "max_length=100 changes nothing here"),
        (dyck_config(), DyckGrammar(), {"length": 9}, "length=9 changes nothing here: data='complete'"),
        (dyck_config(), DyckGrammar(end_prob=0.2), {"data": "prefix"}, "end_prob=0.2 changes nothing"),
        (dyck_config(), DyckGrammar(2, 1, open_prob=0.2), {}, "open_prob=0.2 changes nothing"),
        (dyck_config(mlp_depth=0), DyckGrammar(), {}, "d_mlp=8 changes nothing here: there is no MLP"),
        (dyck_config(norm="none", norm_eps=0.1), DyckGrammar(), {}, "norm_eps=0.1 changes nothing"),
        (dyck_config(attention="uniform", attn_scale=2.0), DyckGrammar(), {}, "attn_scale=2.0 changes nothing"),
        (dyck_config(attention="uniform", scale_scores=False), DyckGrammar(), {}, "scale_scores=False changes nothing"),
        (dyck_config(), DyckGrammar(), {"warmup": 9, "schedule": "constant"}, "schedule='constant' changes nothing"),
        (dyck_config(), DyckGrammar(), {"max_length": 27}, "max_length=27 changes nothing here: complete strings have"),
        (dyck_config(), DyckGrammar(), {"min_length": 1}, "min_length=1 changes nothing here: complete strings have"),
        (dyck_config(), DyckGrammar(), {"eval_every": 4}, "eval_every=4 changes nothing here: the last step"),
        (dyck_config(), DyckGrammar(), {"lr": 0.0}, "lr=0.0 changes nothing here: at a learning rate of 0"),
        (dyck_config(), DyckGrammar(), {"lr": -0.0}, "lr=-0.0 changes nothing here: at a learning rate of 0"),
        (dyck_config(), DyckGrammar(), {"lr": 1e-50}, "lr=1e-50 changes nothing here: at a learning rate of 0"),
    ],
)  # fmt: skip
def test_a_recipe_made_in_python_is_asked_the_same(config, grammar, settings, said):
    asked = {"grammar": grammar, "settings": DyckSettings(**{"steps": 3, "batch": 2, **settings})}
    for preset in (config, Recipe("mine", grammar, config, asked["settings"])):
        with pytest.raises(RequestError) as error:
            train_population(preset, 1, workers=1, **(asked if preset is config else {}))
        assert said in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("preset", ["dyck-standard", "dyck-copy"])
@pytest.mark.parametrize("targets", ["all", "closers"])
@pytest.mark.parametrize("law", ["complete", "prefix"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_strings_that_hold_nothing_to_predict_are_refused(preset, targets, law, length):
    """As many predictions as training itself counts in its batches decide."""
    options = {"data": law, "length" if law == "prefix" else "max_length": length, "targets": targets}
    if law == "complete":
        options["min_length"] = 0
    if (law, length) in (("complete", 1), ("complete", 3), ("prefix", 0)):
        return  # refused for other reasons
    plain = make_recipe(preset)
    settings = replace(plain.settings, **options, batch=40)
    inputs, wanted = objective.data_source(replace(plain, settings=settings)).draw(0, range(4))
    if preset == "dyck-copy":
        wanted = objective.copy_targets(plain.grammar, inputs)
    counted = wanted != objective.IGNORE
    if targets == "closers":
        counted &= (wanted < 2 * plain.grammar.num_types) & (wanted % 2 == 1)
    refused = attempt(preset, options)[1]
    assert counted.any() == (refused == "")
    assert counted.any() or "hold nothing that the loss would be taken on; give longer strings" in refused


@pytest.mark.parametrize("preset", EVERY_PRESET)
def test_a_short_run_of_a_preset_keeps_its_own_eval_every(preset):
    recipe = make_recipe(preset, steps=1)
    assert recipe.settings.eval_every == EVERY_PRESET[preset].settings.eval_every > recipe.settings.steps
    check_read(recipe)


@pytest.mark.slow
@pytest.mark.parametrize("preset", EVERY_PRESET)
def test_what_a_preset_itself_says_is_never_refused(preset):
    """Not even where a run is so short that a schedule has no step left: nobody gave one."""
    recipe = make_recipe(preset, steps=1, batch=2)
    assert train_population(recipe, 1, workers=1).provenance["settings"]["steps"] == 1
    train_population(replace(recipe, settings=replace(recipe.settings, batch=3)), 1, workers=1)


def test_the_scale_of_scores_reaches_a_topic_model():
    """Through counts as through the hooked model."""
    plain = make_recipe("topic-joint", SMALL, steps=3)
    other = replace(plain, config=replace(plain.config, attn_scale=0.5))
    assert outcome(other) != outcome(plain)


# -- the user's own words -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", EVERY_KEY)
def test_a_wrong_value_is_quoted_under_the_key_that_the_user_gave(key):
    preset = next(one for one in ("dyck-standard", "topic-joint", *EVERY_PRESET) if key in options_of(one))
    with pytest.raises(InterpError) as error:
        make_recipe(preset, {key: "three"})
    assert f"{key}='three'" in str(error.value) or f"{key}=('three',)" in str(error.value)  # one of several
    assert not re.search(r"\b(num_types|max_depth|n_layers|n_heads)=", str(error.value))


@pytest.mark.parametrize("number", [np.int64, np.int8, np.uint16])
def test_numpy_integers_are_whole_numbers(number):
    options = {"k": 3, "depth": 2, "layers": 1, "heads": 2, "width": 8, "max_length": 6, "eval_every": 2, "warmup": 1}
    plain = make_recipe("dyck-standard", options, steps=3, batch=2, snapshots=[0, 2])
    typed = {key: number(value) for key, value in options.items()}
    recipe = make_recipe("dyck-standard", typed, steps=number(3), batch=number(2), snapshots=number([0, 2]))
    assert recipe == plain
    assert repr(recipe) == repr(plain)  # plain numbers: they go into JSON
    assert make_recipe("topic-joint", {"topics": number(3)}) == make_recipe("topic-joint", {"topics": 3})


def test_numpy_integers_train():
    options = {"lr": np.float64(0.01), "l2": np.float32(0.5)}
    run = train_population(
        "dyck-minimal", np.arange(2), options=options, steps=np.int64(2), batch=3, workers=np.int64(1)
    )
    plain = train_population("dyck-minimal", 2, options={"lr": 0.01, "l2": 0.5}, steps=2, batch=3, workers=1)
    assert run.provenance == plain.provenance
    assert run.history == plain.history
