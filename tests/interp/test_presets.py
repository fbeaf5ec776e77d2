"""Presets are what their names say, every `--set` key does something, bad values get one line."""

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from interp.config import TransformerConfig
from interp.errors import ConfigError, GrammarError, InterpError, RequestError
from interp.grammars import DyckGrammar
from interp.presets import PRESETS, SET_KEYS, Recipe, TrainingSettings, make_recipe, options_of
from interp.training.run import _Plan

#  preset -> what DESIGN section 3 says of it
PROPERTIES = {
    "dyck-standard": {
        "n_layers": 2,
        "n_heads": 1,
        "d_model": 50,
        "d_head": 50,
        "block": "gpt2",
        "norm": "LN",
        "embedding": "learned",
        "attention": "learned",
        "scale_scores": True,
        "biases": True,
        "mlp_depth": 2,
        "positions": "none",
    },
    "dyck-paper": {"block": "paper", "norm": "unit", "scale_scores": False, "n_layers": 2, "mlp_depth": 2},
    "dyck-minimal": {
        "embedding": "minimal",
        "n_layers": 1,
        "block": "bare",
        "mlp_depth": 0,
        "norm": "LN",
        "scale_scores": True,
        "biases": True,
        "d_model": 2 * 2 * 4 + 1,
    },
    "dyck-minimal-sum": {"embedding": "minimal-sum", "block": "bare", "d_model": 2 * 2 + 4 + 1},
    "dyck-minimal-angle": {"embedding": "minimal-angle", "block": "bare", "d_model": 2 * 2 + 2 + 1},
    "dyck-uniform": {"attention": "uniform", "n_layers": 2, "block": "gpt2", "d_model": 50},
    "dyck-authors": {
        "block": "authors",
        "embedding": "onehot",
        "n_layers": 2,
        "d_model": 50,
        "d_mlp": 50,
        "norm": "LN",
        "init_std": 0.02,
        "scale_scores": True,
        "unembed_bias": False,
        "positions": "none",
        "n_ctx": 6000,
        "norm_added": False,
        "final_norm": None,
        "activation": "gelu",
    },
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_presets_are_what_they_say(name):
    recipe = make_recipe(name)
    assert recipe.name == name
    assert PRESETS[name].about
    assert recipe.grammar == DyckGrammar(2, 4)
    config = recipe.config
    assert config.direction == "causal"
    assert config.d_vocab == config.d_out == recipe.grammar.vocab_size
    assert config.pad_token == recipe.grammar.pad
    assert (config.num_types, config.max_depth) == (2, 4)
    for key, value in PROPERTIES[name].items():
        assert getattr(config, key) == value, key


def test_every_promised_dyck_preset_is_there():
    assert set(PROPERTIES) <= set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_recipes_survive_a_plan(name, tmp_path):
    one_head = name.startswith("topic-") or name == "facts-linear"
    recipe = make_recipe(name, {"lr": 1} if one_head else {"lr": 1, "heads": 2})
    _Plan.open(tmp_path, recipe, [0], 1, "cpu")
    assert _Plan.read(tmp_path).recipe == recipe


CHANGES = {  # key -> (value, part of the recipe, field)
    "k": (3, "grammar", "num_types"),
    "depth": (3, "grammar", "max_depth"),
    "open_prob": (0.3, "grammar", "open_prob"),
    "end_prob": (0.3, "grammar", "end_prob"),
    "positions": ("linear", "config", "positions"),
    "layers": (1, "config", "n_layers"),
    "heads": (2, "config", "n_heads"),
    "width": (30, "config", "d_model"),
    "n_ctx": (600, "config", "n_ctx"),
    "init_std": (0.5, "config", "init_std"),
    "lr": (0.1, "settings", "lr"),
    "schedule": ("constant", "settings", "schedule"),
    "warmup": (3, "settings", "warmup"),
    "optimizer": ("sgd", "settings", "optimizer"),
    "weight_decay": (0.1, "settings", "weight_decay"),
    "loss": ("mse", "settings", "loss"),
    "l2": (0.1, "settings", "l2"),
    "targets": ("closers", "settings", "targets"),
    "data": ("prefix", "settings", "data"),
    "min_length": (4, "settings", "min_length"),
    "max_length": (20, "settings", "max_length"),
    "length": (20, "settings", "length"),
    "eval_every": (7, "settings", "eval_every"),
    "contrastive": (0.1, "settings", "contrastive"),
    "hold": (3, "settings", "hold"),
    "crossed": (3, "settings", "crossed"),
    "corpus": (900, "settings", "corpus"),
    "block": ("authors", "config", "block"),
    "embedding": ("onehot", "config", "embedding"),
    "scale_scores": (False, "config", "scale_scores"),
    "norm_added": (True, "config", "norm_added"),
    "final_norm": (False, "config", "final_norm"),
    "unembed_bias": (False, "config", "unembed_bias"),
}
TOPIC_CHANGES = {
    "topics": (3, "grammar", "num_topics"),
    "words": (4, "grammar", "words_per_topic"),
    "law": ("idealised", "grammar", "law"),
    "alpha": (0.5, "grammar", "alpha"),
    "topics_per_document": (3, "grammar", "topics_per_document"),
    "min_length": (20, "grammar", "min_length"),
    "max_length": (200, "grammar", "max_length"),
    "mask_prob": (0.2, "grammar", "mask_prob"),
    "keep_prob": (0.2, "grammar", "keep_prob"),
    "random_prob": (0.2, "grammar", "random_prob"),
    "start": ("zero", "settings", "start"),
    "trained": ("attention", "settings", "trained"),
}


def test_every_key_is_tried():
    elsewhere = {"compute", "contrast"}  # tests/interp/test_counts.py, test_training.py
    known = {key for preset in ("dyck-standard", "topic-joint") for key in options_of(preset)}
    assert set(CHANGES) | set(TOPIC_CHANGES) >= known - elsewhere


@pytest.mark.parametrize("key", TOPIC_CHANGES)
def test_a_topic_key_changes_its_field(key):
    value, part, name = TOPIC_CHANGES[key]
    read = {"law": "idealised"} if key == "topics_per_document" else {}
    plain, changed = make_recipe("topic-joint", read), make_recipe("topic-joint", {**read, key: value})
    assert getattr(getattr(changed, part), name) == value
    others = {
        f.name
        for group in ("grammar", "settings")
        for f in fields(getattr(plain, group))
        if getattr(getattr(plain, group), f.name) != getattr(getattr(changed, group), f.name)
    }
    assert others == {name}


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("topic-value", {"k": 3}, "'k' is not one of 'topic-value'"),
        ("dyck-standard", {"topics": 3}, "'topics' is not one of 'dyck-standard'"),
        ("topic-value", {"data": "prefix"}, "documents"),
        ("dyck-standard", {"data": "documents"}, "complete"),
        ("dyck-standard", {"start": "zero"}, "'start' is not one of 'dyck-standard', which takes block, compute"),
        ("topic-value", {"trained": "attention"}, "learned"),
        ("topic-joint", {"trained": "embedding"}, "onehot"),
        ("topic-value", {"data": "exact"}, "idealised"),
        ("topic-full", {"start": "block"}, "onehot"),
        ("topic-joint", {"trained": "attention", "weight_decay": 0.1}, "weight_decay=0.1"),
        ("topic-value", {"heads": 101}, "heads=101"),
        ("topic-value", {"contrastive": 1.0}, "'contrastive' is not one of 'topic-value'"),
        ("topic-value", {"width": 50}, "identity"),
        ("topic-value", {"law": "idealised", "topics_per_document": 11}, "topics_per_document=11"),
        ("topic-value", {"mask_prob": 0}, "mask_prob=0"),
        ("topic-value", {"keep_prob": 0.7, "random_prob": 0.7}, "shares"),
        ("topic-joint", {"law": "idealised", "data": "exact", "topics": 100}, "draw documents"),
        ("topic-embedding", {"topics": 1}, "start='identity'"),
        ("topic-joint", {"start": "block", "mask_prob": 1.0}, "start='block'"),
    ],
)
def test_a_wrong_topic_recipe_is_refused_in_one_line(preset, options, message):
    with pytest.raises(InterpError, match=message) as error:
        make_recipe(preset, options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", [k for k in SET_KEYS if k in CHANGES])
def test_a_key_changes_its_field_and_what_follows_from_it_only(key):
    value, part, name = CHANGES[key]
    read = {"length": {"data": "prefix"}, "norm_added": {"block": "authors"}}.get(key, {})
    plain, changed = make_recipe("dyck-standard", read), make_recipe("dyck-standard", {**read, key: value})
    assert getattr(getattr(changed, part), name) == value
    differing = {
        (group, f.name)
        for group in ("grammar", "config", "settings")
        for f in fields(getattr(plain, group))
        if getattr(getattr(plain, group), f.name) != getattr(getattr(changed, group), f.name)
    }
    follows = {
        "k": {("config", "num_types"), ("config", "d_vocab"), ("config", "pad_token")},
        "depth": {("config", "max_depth")},
        "heads": {("config", "d_head")},
        "width": {("config", "d_head"), ("config", "d_mlp")},
    }
    assert differing == {(part, name)} | follows.get(key, set())


def test_steps_batch_and_snapshots_have_arguments_of_their_own():
    settings = make_recipe("dyck-minimal", steps=7, batch=3, snapshots=[0, 7]).settings
    assert (settings.steps, settings.batch, settings.snapshots) == (7, 3, (0, 7))
    for key in ("steps", "batch", "snapshots"):
        with pytest.raises(RequestError, match=f"no option '{key}'"):
            make_recipe("dyck-minimal", {key: 3})


def test_width_is_shared_by_heads():
    config = make_recipe("dyck-standard", {"heads": 5}).config
    assert (config.n_heads, config.d_head, config.d_model) == (5, 10, 50)
    config = make_recipe("dyck-standard", {"heads": 5, "width": 35}).config
    assert (config.n_heads, config.d_head, config.d_model, config.d_mlp) == (5, 7, 35, 35)
    config = make_recipe("dyck-minimal", {"heads": 2, "width": 6}).config
    assert (config.n_heads, config.d_head, config.d_model) == (2, 3, 17)


def test_the_oracle_follows_the_grammar():
    config = make_recipe("dyck-minimal", {"k": 3, "depth": 5}).config
    assert config.d_model == 2 * 3 * 5 + 1
    assert (config.num_types, config.max_depth, config.d_vocab) == (3, 5, 9)


WRONG = [
    ("dyck-standrd", {}, RequestError, "did you mean 'dyck-standard'?"),
    ("frob", {}, RequestError, "dyck-copy, dyck-copy-encoder, dyck-standard"),
    ("dyck-standard", {"postions": "none"}, RequestError, "did you mean 'positions'?"),
    ("dyck-standard", {"zzz": 1}, RequestError, "'dyck-standard' takes block"),
    ("dyck-standard", {"k": 0}, GrammarError, "k=0 is not a whole number"),
    ("dyck-standard", {"k": "two"}, GrammarError, "k='two'"),
    ("dyck-standard", {"k": 2.5}, GrammarError, "k=2.5"),
    ("dyck-standard", {"depth": -1}, GrammarError, "depth=-1"),
    ("dyck-standard", {"open_prob": 1}, GrammarError, "open_prob=1 is not a probability"),
    ("dyck-standard", {"end_prob": 0}, GrammarError, "end_prob=0 is not a probability"),
    ("dyck-standard", {"positions": "sinus"}, ConfigError, "none, linear, learned"),
    ("dyck-standard", {"layers": 0}, ConfigError, "layers=0"),
    ("dyck-standard", {"layers": 1.0}, ConfigError, "layers=1.0"),
    ("dyck-standard", {"heads": 3}, RequestError, "width=50 is not divisible by heads=3"),
    ("dyck-standard", {"heads": 0}, RequestError, "heads=0"),
    ("dyck-standard", {"width": "wide"}, RequestError, "width='wide'"),
    ("dyck-standard", {"width": -50}, RequestError, "width=-50"),
    ("dyck-standard", {"width": True}, RequestError, "width=True"),
    ("dyck-standard", {"lr": "fast"}, ConfigError, "lr='fast'"),
    ("dyck-standard", {"lr": -1}, ConfigError, "lr=-1"),
    ("dyck-standard", {"lr": float("nan")}, ConfigError, "lr=nan"),
    ("dyck-standard", {"lr": float("inf")}, ConfigError, "lr=inf"),
    ("dyck-standard", {"lr": 1e38}, ConfigError, "lr=1e+38 is not a number from 0 to 1e+30"),
    ("dyck-standard", {"l2": -0.1}, ConfigError, "l2=-0.1"),
    ("dyck-standard", {"weight_decay": None}, ConfigError, "weight_decay=None"),
    ("dyck-standard", {"init_std": float("nan")}, ConfigError, "init_std=nan"),
    ("dyck-standard", {"schedule": "linear"}, ConfigError, "cosine, constant"),
    ("dyck-standard", {"optimizer": "adam"}, ConfigError, "adamw, sgd"),
    ("dyck-standard", {"loss": "mae"}, ConfigError, "ce, mse"),
    ("dyck-standard", {"targets": "openers"}, ConfigError, "all, closers"),
    ("dyck-standard", {"data": "infix"}, ConfigError, "complete, prefix"),
    ("dyck-standard", {"warmup": -1}, ConfigError, "warmup=-1"),
    ("dyck-standard", {"eval_every": 0}, ConfigError, "eval_every=0"),
    ("dyck-standard", {"min_length": 8, "max_length": 6}, GrammarError, "min_length must not exceed max_length"),
    ("dyck-standard", {"min_length": 5, "max_length": 5}, GrammarError, "even number of brackets"),
    ("dyck-standard", {"max_length": "long"}, ConfigError, "max_length='long'"),
    ("dyck-standard", {"min_length": -2}, ConfigError, "min_length=-2"),
    ("dyck-standard", {"end_prob": 1.0, "depth": 1, "min_length": 4}, GrammarError, "admits no string"),
    ("dyck-standard", {"data": "prefix", "length": 0}, ConfigError, "length=0"),
    ("dyck-standard", {"positions": "learned", "n_ctx": 20}, ConfigError, "more than n_ctx=20"),
    ("dyck-standard", {"positions": "learned", "n_ctx": 27, "data": "prefix"}, ConfigError, "strings fill 28"),
    ("dyck-minimal", {"layers": 2}, ConfigError, "block='bare'"),
    ("dyck-minimal", {"positions": "linear"}, ConfigError, "positions='none'"),
]


@pytest.mark.parametrize(("preset", "options", "kind", "said"), WRONG, ids=str)
def test_bad_requests_get_one_line(preset, options, kind, said):
    with pytest.raises(InterpError) as error:
        make_recipe(preset, options)
    assert type(error.value) is kind
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_just_enough_learned_positions_are_accepted():
    make_recipe("dyck-standard", {"positions": "learned", "n_ctx": 27})
    make_recipe("dyck-standard", {"positions": "learned", "n_ctx": 28, "data": "prefix"})


@pytest.mark.parametrize("bad", [5, "10", {1}, [1.0], [-1], [1501], [True], None], ids=repr)
def test_bad_snapshots_are_refused(bad):
    with pytest.raises(ConfigError, match="snapshot") as error:
        TrainingSettings(steps=1500, snapshots=bad)
    assert "\n" not in str(error.value)


def test_settings_round_trip():
    settings = TrainingSettings(steps=9, snapshots=[0, 9], loss="mse", lr=1)
    assert settings.snapshots == (0, 9)
    assert TrainingSettings.from_dict(settings.to_dict()) == settings
    with pytest.raises(ConfigError, match="unknown training setting 'speed'; known are"):
        TrainingSettings.from_dict({**settings.to_dict(), "speed": 3})


def test_recipes_check_that_their_parts_fit():
    recipe = make_recipe("dyck-standard")
    with pytest.raises(ConfigError, match="do not fit the grammar's vocabulary of 9"):
        replace(recipe, grammar=DyckGrammar(3))
    with pytest.raises(ConfigError, match="pad_token=0"):
        replace(recipe, config=replace(recipe.config, pad_token=0))
    with pytest.raises(ConfigError, match="direction='bidirectional'"):
        replace(recipe, config=replace(recipe.config, direction="bidirectional"))
    with pytest.raises(ConfigError, match="d_out=3"):
        Recipe("x", recipe.grammar, replace(recipe.config, d_vocab_out=3), recipe.settings)
    config = TransformerConfig(recipe.grammar.vocab_size)  # no pad token: fine, targets are masked
    assert Recipe("x", recipe.grammar, config, recipe.settings).config.pad_token is None


def test_presets_import_no_torch():
    code = "import sys, interp.presets as p; p.make_recipe('dyck-minimal'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("p_i", r"no option 'p_i' \(ignore is p_i, probability of ignoring\); 'flipflop' takes"),
        ("p", r"option 'p' is not one of 'flipflop' \(ignore is p_i, .*; writes is p_w / \(p_w \+ p_r\), share of"),
        ("T", r"no option 'T' \(length is tokens of a string, T\)"),
        ("ignored", r"no option 'ignored' \(did you mean 'ignore'\?\); 'flipflop' takes"),
    ],
)
def test_a_symbol_of_the_papers_is_told_from_its_option(key, said):
    with pytest.raises(RequestError, match=said) as caught:
        make_recipe("flipflop", {key: 0.9})
    assert "open_prob" not in str(caught.value)  # an option of another world is no help here
