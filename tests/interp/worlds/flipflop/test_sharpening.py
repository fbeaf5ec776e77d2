"""Penalties that sharpen attention: their values, their weights by step, and that they do what they say."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import train_population
from interp.errors import ConfigError, RequestError
from interp.functional import stack_params
from interp.model import SandboxTransformer
from interp.patterns import attention_patterns
from interp.presets import make_recipe
from interp.registry import get_world
from interp.rng import generator
from interp.settings import TrainingSettings
from interp.training import task
from interp.training.loop import initial_state, train_chunk
from interp.training.task import TokenTask
from interp.training.task import make_task as make_any
from interp.worlds.flipflop.settings import FlipFlopSettings
from interp.worlds.flipflop.task import PENALTIES, SharpTask


def test_values_of_the_penalties():
    rows = torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]], dtype=torch.float64)
    wanted = {"entropy": [0, np.log(4), np.log(2)], "l2norm": [-1, -0.5, -np.sqrt(0.5)], "maximum": [-1, -0.25, -0.5]}
    for name, values in wanted.items():
        assert_close(PENALTIES[name](rows), values, scale=1e4)  # the terms that keep gradients finite are 1e-12


def test_gradients_are_finite_where_weights_are_zero():
    for penalty in PENALTIES.values():
        rows = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
        penalty(rows).sum().backward()
        assert rows.grad.isfinite().all()


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("layers", ["all", "first"])
def test_the_loss_is_that_without_and_the_mean_over_queries_heads_and_layers(name, layers):
    """Against a plain loop over each string by itself; empty positions of the layout do not count."""
    options = {"length": 10, "sharpen": name, "sharpen_weight": 0.7, "sharpen_layers": layers}
    recipe = make_recipe("flipflop", options, steps=10, batch=3)
    models = [SandboxTransformer.init(recipe.config, seed, recipe.grammar) for seed in (0, 1)]
    params = stack_params([{n: p.detach() for n, p in model.named_parameters()} for model in models])
    template = SandboxTransformer(recipe.config)
    sharp, plain = SharpTask(template, recipe, "cpu"), TokenTask(template, recipe, "cpu")
    assert (sharp.layout.segment < 0).any()
    batch = [torch.from_numpy(np.stack([part[0], part[0]])) for part in sharp.draw(5, range(1))]
    losses = sharp(params, *batch), plain(params, *batch[:2])
    strings = recipe.grammar.draw(generator(5, "train", 0), 3)
    for model, with_it, without in zip(models, *losses, strict=True):
        every = attention_patterns(model, torch.from_numpy(strings))
        each = [
            float(PENALTIES[name](torch.from_numpy(row)))
            for pattern in (every if layers == "all" else every[:1])
            for row in pattern.reshape(-1, 10)
        ]
        assert_close(with_it - without, torch.tensor(0.7 * np.mean(each), dtype=torch.float32), scale=4)
    assert not any(part.hook_dict["blocks.0.attn.hook_pattern"]._forward_hooks for part in (template,))


def test_the_weight_goes_as_its_schedule_says():
    base = FlipFlopSettings(steps=100, sharpen="entropy", sharpen_weight=2.0, sharpen_from=20, sharpen_period=40)

    def of(schedule, *steps):
        return [replace(base, sharpen_schedule=schedule).sharpening(step) for step in steps]

    assert of("constant", 0, 19, 20, 99) == [0, 0, 2, 2]
    assert_close(of("linear", 19, 20, 59, 99), [0, 2 / 80, 1, 2], scale=2)
    assert_close(of("oscillating", 19, 20, 30, 40, 60), [0, 0, 1, 2, 0], scale=2)
    assert replace(base, sharpen="none").sharpening(50) == 0


def test_a_step_is_weighted_by_its_own_number():
    recipe = make_recipe("flipflop", {"sharpen": "maximum", "sharpen_schedule": "linear", "sharpen_from": 2}, steps=6)
    task = make_any(SandboxTransformer(recipe.config), recipe, "cpu")
    assert_close(task.draw(0, range(1, 5))[2], np.float32([0, 0.01 / 4, 0.02 / 4, 0.03 / 4]))
    plain = make_any(SandboxTransformer(recipe.config), make_recipe("flipflop"), "cpu")
    assert type(plain) is TokenTask


@pytest.mark.slow
def test_sharpened_attention_is_sharper():
    def spread(**options):
        found = train_population("flipflop-1l1h", [3], options=options, steps=60, workers=1)
        tokens = found.grammar.draw(generator(0, "test"), 20)
        (pattern,) = attention_patterns(found[0], torch.from_numpy(tokens))
        return float(PENALTIES["entropy"](torch.from_numpy(pattern)).mean())

    assert spread(sharpen="entropy", sharpen_weight=0.3) < 0.5 * spread()


@pytest.mark.slow
def test_a_seed_is_the_same_alone_and_in_company():
    options = {"sharpen": "entropy", "sharpen_weight": 0.1, "sharpen_schedule": "oscillating"}
    both, one = (train_population("flipflop", s, options=options, steps=3, workers=1) for s in ([0, 1], [1]))
    assert all(torch.equal(values[1], one.params[name][0]) for name, values in both.params.items())


SHARP = {"sharpen": "entropy", "sharpen_weight": 0.5}
KEYS = {  # key -> another value, and what must be set for it to be read
    "length": (8, {}),
    "ignore": ((0.3, 0.9), {}),
    "writes": (0.2, {}),
    "mode": ("generative", {}),
    "sharpen": ("maximum", {}),
    "sharpen_weight": (0.7, SHARP),
    "sharpen_schedule": ("linear", SHARP),
    "sharpen_from": (1, SHARP),
    "sharpen_period": (5, {**SHARP, "sharpen_schedule": "oscillating"}),
    "sharpen_layers": ("first", SHARP),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_key_changes_the_training(key, monkeypatch):
    monkeypatch.setattr(task, "FINAL_STRINGS", 8)
    monkeypatch.setattr(task, "EVAL_STRINGS", 8)
    value, given = KEYS[key]

    def weights(options):
        recipe = make_recipe("flipflop", options, steps=3, batch=2)
        return train_chunk(recipe, initial_state(recipe, (0,)))[0].params

    plain, changed = weights(given), weights({**given, key: value})
    assert any(plain[n].shape != p.shape or not torch.equal(plain[n], p) for n, p in changed.items())


def test_every_key_is_walked():
    own = {f.name for f in fields(FlipFlopSettings)} - {f.name for f in fields(TrainingSettings)}
    assert set(KEYS) == own | set(get_world("flipflop").options)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"sharpen_weight": 0.5}, RequestError, "attention is not sharpened"),
        ({"sharpen": "entropy", "sharpen_weight": 0}, RequestError, "sharpen_weight=0 adds nothing"),
        ({"sharpen": "entropy", "sharpen_period": 9}, RequestError, "for sharpen_schedule='oscillating'"),
        ({"sharpen": "entropy", "sharpen_layers": "first", "layers": 1}, RequestError, "the model has one layer"),
        ({"sharpen": "entropy", "sharpen_from": 600}, ConfigError, "sharpen_from=600 is beyond the last of 600 steps"),
        ({"sharpen": "sinusoid"}, ConfigError, "sharpen='sinusoid' is not one of none, entropy, l2norm, maximum"),
        ({"sharpen": "entropy", "sharpen_weight": -1}, ConfigError, "sharpen_weight=-1"),
    ],
)
def test_settings_that_do_nothing_are_refused(options, error, said):
    with pytest.raises(error, match=said):
        make_recipe("flipflop", options)
