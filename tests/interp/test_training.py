"""Population training: a seed is the same alone and in company; packed and batched equals one at a time."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.checkpoints import load_checkpoint
from interp.config import TransformerConfig
from interp.errors import CheckpointError, ConfigError, InterpError, OutputError, RequestError, TrainingError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population
from interp.presets import Recipe, TrainingSettings, make_recipe
from interp.rng import generator as interp_generator
from interp.training import loop, pool, run
from interp.training.flat import FlatParams
from interp.training.layout import IGNORE
from interp.training.loop import initial_state, learning_rate
from interp.training.run import train_population
from interp.training.task import make_task
from interp.worlds.dyck import task as objective
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.dyck.task import NestedPairs, Objective, contrast_of, data_source
from sizes import hold_out_few

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def small_evaluations(monkeypatch):
    """The held-out sets of these tests are small: the measuring itself is tested elsewhere."""
    hold_out_few(monkeypatch, 20, 30)
    monkeypatch.setattr(
        objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=40, score_from=30)
    )


def train(preset, seeds=1, **options):
    arguments = {"workers": 1, **options}
    return train_population(preset, seeds, **arguments)


def small(name="dyck-minimal", *, steps=8, batch=3, snapshots=(), **options):
    """A quick recipe: 8 steps of 3 strings, measured every 2."""
    recipe = make_recipe(name, {"eval_every": 2, **options}, steps=steps, batch=batch)
    return replace(recipe, settings=replace(recipe.settings, snapshots=snapshots))


def same_params(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


def seed_params(population, seed):
    i = population.seeds.index(seed)
    return {name: p[i] for name, p in population.params.items()}


def seed_rows(population, seed):
    return [row for row in population.history if row["seed"] == seed]


# ---- a seed alone, and among others ---------------------------------------------------------------

VARIANTS = {
    "standard": ("dyck-standard", {}),
    "minimal": ("dyck-minimal", {}),
    "minimal-angle": ("dyck-minimal-angle", {}),
    "paper": ("dyck-paper", {}),
    "uniform": ("dyck-uniform", {}),
    "odd-heads": ("dyck-standard", {"heads": 5, "width": 35, "layers": 1}),
    "odd-heads-minimal": ("dyck-minimal", {"heads": 3, "width": 27, "k": 3, "depth": 3}),
    "prefix": ("dyck-standard", {"data": "prefix", "length": 13}),
    "learned-positions": ("dyck-standard", {"positions": "learned", "n_ctx": 27, "layers": 1}),
    "linear-positions": ("dyck-standard", {"positions": "linear", "layers": 1}),
    "sgd-mse-closers": (
        "dyck-standard",
        {"optimizer": "sgd", "loss": "mse", "targets": "closers", "lr": 0.01, "l2": 1e-3},
    ),
    "decayed": ("dyck-paper", {"weight_decay": 0.1, "schedule": "constant", "warmup": 3}),
    "contrastive": ("dyck-minimal", {"contrastive": 0.5, "heads": 2, "width": 34}),
    "counts": ("dyck-minimal", {"compute": "counts"}),
    "counts-heads": ("dyck-minimal-sum", {"compute": "counts", "heads": 3, "width": 27, "k": 3, "depth": 3}),
    "counts-contrastive": ("dyck-minimal-angle", {"compute": "counts", "contrastive": 0.5, "data": "prefix"}),
    "counts-tokens": ("dyck-uniform", {"compute": "counts", "layers": 1}),
    # the gradient of a shift before W_U, a product of one row, was rounded by the size of the stack
    "counts-3-types": ("dyck-minimal", {"compute": "counts", "k": 3, "depth": 4, "steps": 20}),
    "counts-4-types": ("dyck-minimal", {"compute": "counts", "k": 4, "depth": 4, "steps": 20}),
    "counts-8-types": ("dyck-minimal-sum", {"compute": "counts", "k": 8, "depth": 6, "batch": 16}),
    "encoder": ("dyck-copy-encoder", {"layers": 2}),
    # one row of many heads: MKL took a lone seed by another path
    "one-string": ("dyck-standard", {"heads": 5, "width": 40, "layers": 1, "batch": 1, "data": "prefix", "length": 28}),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.slow
def test_a_seed_is_the_same_bit_for_bit_alone_and_among_others(variant):
    recipe = small(variant[0], **variant[1])
    alone = train(recipe, [2])
    assert alone.history
    assert not all(
        torch.equal(p, q) for p, q in zip(alone.params.values(), alone.untrained().params.values(), strict=True)
    )
    for company in ([2, 7, 0], [7, 0, 2], [9, 8, 7, 0, 2]):
        among = train(recipe, company)
        assert same_params(seed_params(among, 2), seed_params(alone, 2)), company
        assert seed_rows(among, 2) == list(alone.history), company
        assert not same_params(seed_params(among, 0), seed_params(among, 2))


COUNTS = {"compute": "counts", "data": "prefix"}


@pytest.mark.parametrize(
    ("preset", "batch", "options", "size"),
    [
        ("dyck-standard", 16, {}, 10),
        ("dyck-standard", 100, {"data": "prefix"}, 4),
        ("dyck-standard", 2000, {"data": "prefix"}, 1),
        ("dyck-minimal", 100, COUNTS, 10),
        ("dyck-minimal", 32, {"k": 30, **COUNTS}, 10),
        ("dyck-minimal", 500, {"length": 500, **COUNTS}, 2),
        ("dyck-minimal", 500, {"length": 500, "heads": 2, "width": 20, **COUNTS}, 1),
        ("topic-value", 2000, {}, 10),
    ],
)
def test_chunks_hold_as_many_seeds_as_the_cache(preset, batch, options, size):
    assert run.chunk_size(make_recipe(preset, options, batch=batch)) == size


@pytest.mark.parametrize(
    ("preset", "batch", "options", "steps"),
    [
        ("dyck-standard", 32, {}, 32),
        ("dyck-standard", 1000, {"data": "prefix", "length": 500}, 3),
        ("dyck-minimal", 32, COUNTS, 32),
        ("dyck-minimal", 100, {"length": 500, **COUNTS}, 2),
        ("dyck-minimal", 1000, {"length": 2000, **COUNTS}, 1),
        ("dyck-minimal", 300, {"depth": 12, "compute": "counts"}, 23),
        ("dyck-minimal", 300, {"depth": 12, "compute": "counts", "contrastive": 0.5}, 4),  # its strings after nests
    ],
)
def test_batches_are_drawn_ahead_as_far_as_memory_allows(preset, batch, options, steps):
    assert objective.draw_ahead(make_recipe(preset, options, batch=batch)) == steps


@pytest.mark.parametrize(("preset", "options"), [("dyck-standard", {"layers": 1}), ("dyck-minimal", COUNTS)])
def test_how_far_batches_are_drawn_ahead_changes_nothing(monkeypatch, preset, options):
    recipe = small(preset, **{**options, "eval_every": 8})
    spans = []
    draw = Objective.draw

    def watched(self, seed, steps):
        spans.append((steps.start, len(steps)))
        return draw(self, seed, steps)

    monkeypatch.setattr(Objective, "draw", watched)
    together = train(recipe, 2)
    assert spans == [(0, 8)] * 2
    spans.clear()
    monkeypatch.setattr(objective, "draw_ahead", lambda recipe: 3)
    apart = train(recipe, 2)
    assert spans == [(0, 3)] * 2 + [(3, 3)] * 2 + [(6, 2)] * 2
    assert same_params(apart.params, together.params)
    assert apart.history == together.history


@pytest.mark.slow
def test_chunks_change_nothing(monkeypatch, tmp_path):
    recipe = small(snapshots=(0, 7))
    train(recipe, 5, out=tmp_path / "one")
    monkeypatch.setattr(run, "MAX_CHUNK", 2)
    train(recipe, 5, out=tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()


def test_history_is_a_row_a_seed_and_step_in_order():
    population = train(small(snapshots=(3,), data="prefix", length=9), [5, 2])
    assert [(row["step"], row["seed"]) for row in population.history] == [
        (step, seed) for step in (0, 2, 3, 4, 6, 8) for seed in (5, 2)
    ]
    last = population.final_metrics()
    assert [row["seed"] for row in last] == [5, 2]
    assert {"loss", "excess", "argmax", "mass_nontrivial", "long_loss"} <= set(last[0])
    assert "long_loss" not in population.history[0]


def test_every_parameter_of_every_seed_starts_on_a_boundary():
    """Vector units round the odd elements at an array's end apart: no seed may have other ends than its neighbour."""
    state = loop.initial_state(small("dyck-standard", width=35), (0, 1, 2))
    flat = FlatParams(state.params, "cpu")
    assert flat.data.shape[1] % 64 == 0
    for name, leaf in flat.leaves.items():
        assert leaf.storage_offset() % 64 == 0, name
        assert torch.equal(leaf.detach(), state.params[name])
    assert same_params(flat.copy(), state.params)
    assert same_params(flat.copy(flat.flatten(state.params)), state.params)
    flat.set_grad({name: torch.full_like(leaf, i) for i, (name, leaf) in enumerate(flat.leaves.items())})
    for i, view in enumerate(flat.views(flat.grad).values()):
        assert (view == i).all()
    flat.copy()["unembed.b_U"].fill_(9)
    assert not (flat.data == 9).any()


# ---- packed and batched against one model, one string, one step at a time ---------------------------

LOSSES = {
    "ce": {},
    "mse": {"loss": "mse"},
    "closers": {"targets": "closers"},
    "mse-closers-l2": {"loss": "mse", "targets": "closers", "l2": 0.01},
    "l2": {"l2": 0.1},
    "prefix": {"data": "prefix", "length": 11},
    "prefix-closers": {"data": "prefix", "length": 11, "targets": "closers"},
    "linear-positions": {"positions": "linear"},
    "learned-positions": {"positions": "learned"},
}


def strings_of(recipe, seed, step):
    """[(inputs with START, targets)] of one batch, read literally from its packed rows."""
    source = data_source(recipe)
    layout = source.layout()
    inputs, targets = source.draw(seed, range(step, step + 1))
    found = []
    for start, capacity in zip(layout.start, layout.capacity, strict=True):
        row, column = divmod(int(start), layout.width)
        size = 0
        while size <= capacity and targets[0, row, column + size] != IGNORE:
            size += 1
        cells = slice(column, column + size)
        found.append((inputs[0, row, cells].tolist(), targets[0, row, cells].tolist()))
    assert len(found) == recipe.settings.batch
    return found


def literal_loss(model, recipe, seed, step):
    """Mean over predictions, one string at a time, by the model's own causal mask and positions."""
    s, k = recipe.settings, recipe.grammar.num_types
    terms = []
    for read, goals in strings_of(recipe, seed, step):
        logits = model(torch.tensor([read]))[0]
        for j, goal in enumerate(goals):
            if s.targets == "closers" and not (goal < 2 * k and goal % 2 == 1):
                continue
            if s.loss == "ce":
                terms.append(-torch.log_softmax(logits[j], -1)[goal])
            else:
                onehot = torch.zeros_like(logits[j])
                onehot[goal] = 1
                terms.append(((logits[j] - onehot) ** 2).sum())
    loss = torch.stack(terms).mean() if terms else torch.zeros(())
    for p in model.parameters():
        loss = loss + s.l2 / 2 * (p**2).sum()
    return loss


def double_state(recipe, seeds, spread=1.0):
    """Initial state in float64, weights larger than at the start so that attention is not flat."""
    state = loop.initial_state(recipe, seeds)
    state.params = {n: p.double() * (spread if p.ndim > 2 else 1) for n, p in state.params.items()}
    return state


def double_model(recipe, state, i):
    model = SandboxTransformer(recipe.config).double()
    model.load_state_dict({n: p[i] for n, p in state.params.items()})
    return model


@pytest.mark.parametrize("name", ["dyck-standard", "dyck-paper", "dyck-uniform"])
@pytest.mark.parametrize("options", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.slow
def test_packed_loss_and_gradient_equal_a_literal_loop(name, options):
    recipe = small(name, batch=5, heads=2, width=18, **options)
    seeds = (3, 8)
    state = double_state(recipe, seeds, 8.0)
    batched = Objective(SandboxTransformer(recipe.config).double(), recipe, "cpu")
    drawn = [batched.draw(seed, range(6, 7)) for seed in seeds]
    leaves = {n: p.clone().requires_grad_() for n, p in state.params.items()}
    losses = batched(leaves, *(torch.from_numpy(np.stack([d[j][0] for d in drawn])) for j in (0, 1)))
    grads = dict(zip(leaves, torch.autograd.grad(losses.sum(), list(leaves.values())), strict=True))
    for i, seed in enumerate(seeds):
        model = double_model(recipe, state, i)
        loss = literal_loss(model, recipe, seed, 6)
        loss.backward()
        assert_close(losses[i], loss)
        largest = [p.grad.abs().max() for p in model.parameters() if p.grad is not None]
        for n, p in model.named_parameters():
            expected = torch.zeros_like(p) if p.grad is None else p.grad
            assert_close(grads[n][i], expected, ulps=128, scale=largest)


OPTIMISERS = {
    "adamw": {},
    "adamw-decay": {"weight_decay": 0.3, "schedule": "constant"},
    "adamw-warmup-closers": {"warmup": 3, "targets": "closers"},
    "sgd": {"optimizer": "sgd", "lr": 0.5, "l2": 0.1},
    "sgd-decay": {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.3, "warmup": 2, "schedule": "constant"},
}


@pytest.mark.parametrize("options", OPTIMISERS.values(), ids=OPTIMISERS.keys())
@pytest.mark.slow
def test_training_equals_torch_optim_on_one_model_at_a_time(options):
    recipe = small("dyck-standard", steps=5, batch=3, width=16, **options)
    s, seeds = recipe.settings, (1, 6)
    state = double_state(recipe, seeds)
    trained, _ = loop.train_chunk(recipe, state)
    assert trained.step == 5
    for i, seed in enumerate(seeds):
        model = double_model(recipe, state, i)
        kind = torch.optim.SGD if s.optimizer == "sgd" else torch.optim.AdamW
        optimizer = kind(model.parameters(), lr=s.lr, weight_decay=s.weight_decay)
        for step in range(5):
            optimizer.param_groups[0]["lr"] = closed_form_rate(s, step)
            optimizer.zero_grad()
            literal_loss(model, recipe, seed, step).backward()
            optimizer.step()
        for n, p in model.named_parameters():
            # Adam divides by a gradient's own size: where that is 0, its rounding by eps = 1e-8
            assert_close(trained.params[n][i], p, ulps=1e6, scale=s.lr)


def test_the_oracle_model_trains_as_a_single_one():
    """In float32, since the oracle's table is: plain gradient steps do not blow up rounding."""
    recipe = small("dyck-minimal", steps=4, batch=3, optimizer="sgd", lr=0.5)
    trained = train(recipe, [2, 3])
    model = SandboxTransformer.init(recipe.config, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(4):
        optimizer.param_groups[0]["lr"] = closed_form_rate(recipe.settings, step)
        optimizer.zero_grad()
        literal_loss(model, recipe, 3, step).backward()
        optimizer.step()
    largest = [p.detach().abs().max() for p in model.parameters()]
    for n, p in model.named_parameters():
        assert_close(seed_params(trained, 3)[n], p, scale=largest)


# ---- schedules -------------------------------------------------------------------------------------


def closed_form_rate(s, step):
    if step < s.warmup:
        return s.lr * (step + 1) / s.warmup
    if s.schedule == "constant":
        return s.lr
    return s.lr * math.cos(math.pi / 2 * (step - s.warmup) / max(1, s.steps - s.warmup)) ** 2


def test_a_held_learning_rate_moves_an_epoch_at_a_time():
    """As the released code of Wen et al. 2023 has it: the scheduler steps once an epoch."""
    s = TrainingSettings(steps=40, lr=0.3, hold=10)
    epochs = [0.15 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    assert [learning_rate(s, step) for step in range(40)] == pytest.approx([rate for rate in epochs for _ in range(10)])
    after = TrainingSettings(steps=45, lr=0.3, hold=10, warmup=5)
    assert [learning_rate(after, step + 5) for step in range(40)] == pytest.approx(
        [learning_rate(s, step) for step in range(40)]
    )


def test_crossed_seeds_share_first_weights_or_data():
    """Seed s of n * n starts as seed s // n and reads what seed s % n reads: literally."""
    recipe = small("dyck-standard", crossed=2)
    crossed, own = train(recipe, 4), small("dyck-standard")
    start = crossed.untrained()
    first = Population.init(recipe.config, range(2), recipe.grammar)
    for seed in range(4):
        assert same_params(seed_params(start, seed), seed_params(first, seed // 2))
    assert same_params(seed_params(crossed, 0), seed_params(train(own, 1), 0))
    assert same_params(seed_params(crossed, 3), seed_params(train(own, 2), 1))
    assert not same_params(seed_params(crossed, 1), seed_params(crossed, 3))
    task = make_task(SandboxTransformer(recipe.config), recipe, "cpu")
    state = initial_state(own, (0,))
    read = task.draw(1, range(recipe.settings.steps))
    mixed = loop._Run(own, state, "cpu")
    mixed.task.draw = lambda seed, steps: tuple(part[steps.start : steps.stop] for part in read)
    mixed.train(recipe.settings.steps)
    assert same_params(seed_params(crossed, 1), {n: p[0] for n, p in mixed.export().params.items()})


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
@pytest.mark.parametrize("warmup", [0, 1, 7, 20, 50])
def test_learning_rate_has_its_closed_form(schedule, warmup):
    s = TrainingSettings(steps=20, lr=0.3, schedule=schedule, warmup=warmup)
    rates = [loop.learning_rate(s, step) for step in range(20)]
    assert_close(rates, [closed_form_rate(s, step) for step in range(20)], ulps=4)
    assert max(rates) <= math.nextafter(0.3, 1)
    if warmup == 0:
        assert rates[0] == 0.3
        assert rates[10] == pytest.approx(0.15 if schedule == "cosine" else 0.3)


@pytest.mark.slow
def test_settings_reach_the_weights():
    base = train(small(), 1)
    for option in ({"lr": 1e-3}, {"warmup": 5}, {"schedule": "constant"}, {"l2": 1.0}, {"weight_decay": 1.0}):
        assert not same_params(train(small(**option), 1).params, base.params), option


# ---- stopping and resuming -------------------------------------------------------------------------


class Stop(BaseException):
    """An interruption that nothing but `finally` sees."""


def interrupt(monkeypatch, where, count):
    """Raise `Stop` at the `count`-th call of a function of `run`: before it does its work, or after."""
    name, _, when = where.partition(" ")
    original, calls = getattr(run, name), []

    def stopping(*args, **kwargs):
        calls.append(name)
        if when == "before" and len(calls) == count:
            raise Stop
        result = original(*args, **kwargs)
        if when == "after" and len(calls) == count:
            raise Stop
        return result

    monkeypatch.setattr(run, name, stopping)


@pytest.mark.parametrize(
    ("optimizer", "where", "count"),
    [
        ("adamw", "write_state before", 2),
        ("adamw", "write_state after", 1),
        ("adamw", "write_state after", 3),
        ("sgd", "write_state after", 3),
        ("adamw", "write_state before", 5),
        ("adamw", "write_state after", 6),  # the last of the first chunk
        ("sgd", "write_state before", 9),  # within the second chunk
        ("adamw", "write_text after", 1),  # a plan and no state yet
        ("adamw", "save_checkpoint before", 1),
        ("adamw", "save_checkpoint after", 1),
    ],
)
@pytest.mark.slow
def test_an_interrupted_run_continues_to_the_same_bytes(monkeypatch, tmp_path, optimizer, where, count):
    recipe = small(snapshots=(0, 4), optimizer=optimizer)
    monkeypatch.setattr(run, "MAX_CHUNK", 2)
    train(recipe, 3, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt(patch, where, count)
        with pytest.raises(Stop):
            train(recipe, 3, out=tmp_path / "stopped")
    assert (tmp_path / "stopped").exists() == (where == "save_checkpoint after")
    resumed = train(recipe, 3, out=tmp_path / "stopped", resume=True)
    assert (tmp_path / "stopped").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["stopped", "whole"], "the run's folder stays behind"
    assert resumed.seeds == (0, 1, 2)


def test_resuming_does_not_train_again(monkeypatch, tmp_path):
    taken = []
    original = loop._Run.train
    monkeypatch.setattr(loop._Run, "train", lambda self, until: (taken.append(self.step), original(self, until)))
    with monkeypatch.context() as patch:
        interrupt(patch, "write_state after", 3)
        with pytest.raises(Stop):
            train(small(), 1, out=tmp_path / "x")
    taken.clear()
    train(small(), 1, out=tmp_path / "x", resume=True)
    assert taken == [4, 6]


@pytest.fixture
def unfinished(monkeypatch, tmp_path):
    """A run of two chunks stopped at step 4 of the second; its output path."""
    monkeypatch.setattr(run, "MAX_CHUNK", 1)
    with monkeypatch.context() as patch:
        interrupt(patch, "write_state after", 9)
        with pytest.raises(Stop):
            train(small(), [0, 1], out=tmp_path / "x.safetensors")
    assert sorted(os.listdir(tmp_path / "x.safetensors.run")) == [
        "chunk-000.safetensors",
        "chunk-001.safetensors",
        "metrics.jsonl",
        "plan.json",
    ]
    return tmp_path / "x.safetensors"


def test_without_resume_an_unfinished_run_is_refused_and_kept(unfinished):
    before = {p.name: p.read_bytes() for p in Path(f"{unfinished}.run").iterdir()}
    with pytest.raises(RequestError, match=r"an unfinished run lies in .*x\.safetensors\.run") as error:
        train(small(), [0, 1], out=unfinished)
    assert "--resume" in str(error.value)
    assert {p.name: p.read_bytes() for p in Path(f"{unfinished}.run").iterdir()} == before


@pytest.mark.parametrize(
    ("recipe", "seeds", "said"),
    [
        (small(lr=0.5), [0, 1], "(with lr=0.01, not 0.5)"),
        (small(depth=3), [0, 1], "(with max_depth=4, not 3; d_model=17, not 13; max_depth=4, not 3)"),
        (small(heads=2), [0, 1], "(with n_heads=1, not 2; d_head=50, not 25)"),
        (small(), [0, 1, 2], "(with 2 seeds, not 3)"),
        (small(), [1, 0], "(with seeds 0-1, not 1-0)"),
        (replace(small(), name="mine"), [0, 1], "(with preset 'dyck-minimal', not 'mine')"),
        (small(compute="counts"), [0, 1], "(with compute='attention', not 'counts')"),
        (small("dyck-copy"), [0, 1], "(with DyckGrammar, not CopyGrammar; n_layers=1, not 4; d_model=17, not 50; "),
    ],
    ids=["lr", "depth", "heads", "more-seeds", "other-order", "name", "left-out-at-its-default", "grammar"],
)
@pytest.mark.slow
def test_resuming_with_other_settings_is_refused_and_says_what_differs(unfinished, recipe, seeds, said):
    with pytest.raises(RequestError, match="holds another run") as error:
        train(recipe, seeds, out=unfinished, resume=True)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    train(small(), [0, 1], out=unfinished, resume=True)  # nothing was lost


def damage(path, kind):
    data = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("hello")
    elif kind == "tensor byte":
        path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    elif kind == "step":
        assert data.count(b'\\"step\\":4,\\"timing') == 1
        path.write_bytes(data.replace(b'\\"step\\":4,\\"timing', b'\\"step\\":6,\\"timing'))
    elif kind == "kind of a tensor":
        place = data.rindex(b'"F32"')  # the same bytes, read as whole numbers
        path.write_bytes(data[:place] + b'"I32"' + data[place + 5 :])
    elif kind == "no digest":
        assert data.count(b'\\"digest\\"') == 1
        path.write_bytes(data.replace(b'\\"digest\\"', b'\\"digezt\\"'))


@pytest.mark.parametrize("kind", ["truncated", "empty", "text", "tensor byte", "step", "kind of a tensor", "no digest"])
@pytest.mark.slow
def test_a_damaged_state_is_named_and_can_be_trained_again(unfinished, tmp_path, kind):
    path = Path(f"{unfinished}.run") / "chunk-001.safetensors"
    damage(path, kind)
    with pytest.raises(CheckpointError, match=r"chunk-001\.safetensors' is damaged; remove it") as error:
        train(small(), [0, 1], out=unfinished, resume=True)
    assert "\n" not in str(error.value)
    path.unlink()
    train(small(), [0, 1], out=unfinished, resume=True)
    train(small(), [0, 1], out=tmp_path / "whole")
    assert unfinished.read_bytes() == (tmp_path / "whole").read_bytes()


def test_another_runs_state_is_not_taken(unfinished, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        interrupt(patch, "write_state after", 3)
        with pytest.raises(Stop):
            train(small(lr=0.1), [0, 1], out=tmp_path / "other")
    stolen = tmp_path / "other.run" / "chunk-000.safetensors"
    stolen.replace(Path(f"{unfinished}.run") / "chunk-000.safetensors")
    with pytest.raises(CheckpointError, match=r"chunk-000\.safetensors' belongs to another run"):
        train(small(), [0, 1], out=unfinished, resume=True)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '{"recipe": 3}'])
def test_a_damaged_plan_is_named(unfinished, text):
    (Path(f"{unfinished}.run") / "plan.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"plan\.json' is damaged"):
        train(small(), [0, 1], out=unfinished, resume=True)


def test_resuming_a_finished_run_returns_it(monkeypatch, tmp_path):
    out = tmp_path / "x.safetensors"
    first = train(small(), 2, out=out)
    before = out.read_bytes()
    monkeypatch.setattr(run, "run_chunk", None)
    again = train(small(), 2, out=out, resume=True)
    assert same_params(first.params, again.params)
    assert again.history == first.history
    assert out.read_bytes() == before
    for recipe, seeds in ((small(lr=0.1), 2), (small(), 3), (small(k=3), 2)):
        with pytest.raises(RequestError, match="holds another finished run"):
            train(recipe, seeds, out=out, resume=True)
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_resume_with_nothing_there_starts(tmp_path):
    train(small(), 1, out=tmp_path / "x", resume=True)
    assert os.listdir(tmp_path) == ["x"]


def test_two_runs_into_one_file_do_not_mix(monkeypatch, tmp_path):
    out, original, refusals = tmp_path / "x", run.write_state, []

    def second_run(*args):
        monkeypatch.setattr(run, "write_state", original)
        for resume in (False, True):
            with pytest.raises(RequestError) as error:
                train(small(lr=0.1), 1, out=out, resume=resume)
            refusals.append(str(error.value))
        original(*args)

    monkeypatch.setattr(run, "write_state", second_run)
    train(small(), 2, out=out)
    # never "remove the folder", which would be a live run's
    assert [said.startswith("another process is training into") for said in refusals] == [True, True]
    monkeypatch.setattr(run, "write_state", original)
    train(small(), 2, out=tmp_path / "whole")
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


SCRIPT = """
    import signal
    import sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    from dataclasses import replace
    from interp.worlds.dyck import task as objective
    from interp.training.run import train_population
    from interp.presets import make_recipe
    if {small}:
        objective.EVAL_STRINGS, objective.FINAL_STRINGS = 20, 30
        objective.long_prefixes = lambda g: objective.held_out(g, 2, data="prefix", length=40, score_from=30)
    recipe = make_recipe("dyck-minimal", {{"eval_every": 30}}, steps={steps}, batch=4)
    train_population(recipe, [4, 1, 3], out=sys.argv[1], workers={workers})
"""


def start(out, **values):
    code = textwrap.dedent(SCRIPT.format(**values))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, str(out)], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )


def wait_for(condition, process):
    until = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.005)


def progressed(out):
    """Has some chunk got past its first state?"""
    return any(read_step(p) >= 30 for p in Path(f"{out}.run").glob("chunk-*"))


def running(pid):
    """Is the process there, and not just waiting for its exit status to be read?"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def read_step(path):
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (OSError, ValueError):
        return -1
    return json.loads(header["__metadata__"]["interp"])["step"]


def processes_of(folder):
    """Ids of the processes that name a folder on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    recipe = make_recipe("dyck-minimal", {"eval_every": 30}, steps=600, batch=4)
    process = start(tmp_path / "killed", small=True, steps=600, workers=1)
    wait_for(lambda: progressed(tmp_path / "killed"), process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed").exists()
    train(recipe, [4, 1, 3], out=tmp_path / "killed", resume=True)
    train(recipe, [4, 1, 3], out=tmp_path / "whole")
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["killed", "whole"]


@pytest.mark.slow
def test_ctrl_c_stops_the_workers_and_workers_resume_to_the_same_bytes(monkeypatch, tmp_path):
    """Also: worker processes give the bytes that this process gives."""
    monkeypatch.undo()  # workers measure on the full sets
    process = start(tmp_path / "stopped", small=False, steps=150, workers=2)
    wait_for(lambda: progressed(tmp_path / "stopped"), process)
    workers = [pid for pid in processes_of(tmp_path / "stopped.run") if pid != process.pid]
    assert workers
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) != 0
    assert "KeyboardInterrupt" in process.stderr.read().splitlines()[-1]
    assert not any(running(pid) for pid in workers), "a worker goes on by itself"
    recipe = make_recipe("dyck-minimal", {"eval_every": 30}, steps=150, batch=4)
    resumed = train(recipe, [4, 1, 3], out=tmp_path / "stopped", resume=True, workers=2)
    assert resumed.seeds == (4, 1, 3)
    assert resumed.timing["training_cpu_s_per_seed"] > 0
    train(recipe, [4, 1, 3], out=tmp_path / "whole")
    assert (tmp_path / "stopped").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_worker_that_cannot_start_is_an_error(monkeypatch):
    def refuse(*_):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(pool, "start_worker", refuse)
    with pytest.raises(TrainingError, match="Cannot allocate memory"):
        train(small(), 2, workers=2)


def test_a_worker_that_dies_is_an_error_with_its_seeds_and_last_line(monkeypatch):
    def fail(*_):
        code = "import sys; print('first', file=sys.stderr); sys.exit('no luck')"
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    monkeypatch.setattr(pool, "start_worker", fail)
    with pytest.raises(TrainingError, match=r"worker for seeds \d ended with 1: no luck") as error:
        train(small(), [4, 5], workers=2)
    assert error.value.exit_code == 1


# ---- divergence ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"optimizer": "sgd", "lr": 1e9}, {"lr": 1e30}, {"optimizer": "sgd", "lr": 1e3, "loss": "mse"}],
    ids=str,
)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.slow
def test_divergence_of_every_seed_is_an_error_with_the_step(tmp_path, options, keep):
    recipe = small("dyck-standard", steps=20, **{"eval_every": 10, **options})
    with pytest.raises(TrainingError, match=r"every seed diverged, the first at step \d+: lr=") as error:
        train(recipe, 2, out=tmp_path / "x" if keep else None)
    assert ("kept in" in str(error.value)) == keep
    assert os.listdir(tmp_path) == ["x.run"] * keep
    if keep:
        plan = run._Plan.read(tmp_path / "x.run")
        state, _ = plan.load(0)
        assert set(state.diverged) == {0, 1}
        assert all(p.isfinite().all() for p in state.params.values())


def spoil(monkeypatch, seed, change):
    """Change the initial weights of one seed."""
    original = run.initial_state

    def spoiled(recipe, seeds):
        state = original(recipe, seeds)
        if seed in seeds:
            change(state.params["unembed.W_U"][seeds.index(seed)])
        return state

    monkeypatch.setattr(run, "initial_state", spoiled)


def fill_huge(tensor):
    tensor.fill_(3e38)
    tensor[::2] *= -1


@pytest.mark.parametrize("name", ["dyck-standard", "dyck-minimal"])
@pytest.mark.slow
def test_a_seed_that_diverges_is_named_and_touches_no_other(monkeypatch, tmp_path, name):
    """Finite weights whose loss is not: weights that are no numbers are refused in every file."""
    recipe = small(name, snapshots=(0, 4), weight_decay=0.1)
    clean = train(recipe, 3)
    spoil(monkeypatch, 1, fill_huge)
    spoiled = train(recipe, 3, out=tmp_path / "x")
    assert clean.provenance["diverged"] == {}
    assert spoiled.provenance["diverged"] == {"1": 0}
    for seed in (0, 2):
        assert same_params(seed_params(spoiled, seed), seed_params(clean, seed))
        assert seed_rows(spoiled, seed) == seed_rows(clean, seed)
        assert all(
            torch.equal(spoiled.snapshots[s][n][seed], clean.snapshots[s][n][seed])
            for s in (0, 4)
            for n in clean.params
        )
    assert all(p.isfinite().all() for p in spoiled.params.values())
    assert all(row["loss"] is row["norm/unembed.W_U"] is None for row in seed_rows(spoiled, 1))  # never NaN
    assert load_checkpoint(tmp_path / "x").history == spoiled.history
    assert "seed 1 diverged at step 0" in spoiled.summary()


def break_at(monkeypatch, seed_index, call):
    """Make the loss of one seed infinite at one step."""
    original, calls = Objective.__call__, []

    def broken(self, *tensors):
        calls.append(0)
        value = original(self, *tensors)
        factor = torch.ones(len(value))
        factor[seed_index] = math.inf
        return value * factor if len(calls) == call + 1 else value

    monkeypatch.setattr(Objective, "__call__", broken)


def test_divergence_on_the_way_keeps_the_last_good_weights(monkeypatch):
    recipe = small()
    clean = train(recipe, 3)
    before, _ = loop.train_chunk(recipe, loop.initial_state(recipe, (0, 1, 2)), until=4)
    break_at(monkeypatch, 1, 5)
    broken = train(recipe, 3)
    assert broken.provenance["diverged"] == {"1": 5}
    assert same_params(seed_params(broken, 1), {n: p[1] for n, p in before.params.items()})
    for seed in (0, 2):
        assert same_params(seed_params(broken, seed), seed_params(clean, seed))
        assert seed_rows(broken, seed) == seed_rows(clean, seed)
    assert {row["step"] for row in seed_rows(broken, 1)} == {0, 2, 4, 6, 8}


@pytest.mark.slow
def test_a_chunk_all_of_whose_seeds_diverge_keeps_the_others_whole(monkeypatch, tmp_path):
    """Snapshots and rows do not depend on how seeds are split into chunks, diverged ones included."""
    recipe = small(snapshots=(0, 4, 8))
    spoil(monkeypatch, 1, fill_huge)
    train(recipe, 3, out=tmp_path / "together")
    for size in (1, 2):
        monkeypatch.setattr(run, "MAX_CHUNK", size)
        population = train(recipe, [0, 1, 2], out=tmp_path / f"chunks-{size}")
        assert set(population.snapshots) == {0, 4, 8}
        assert (tmp_path / f"chunks-{size}").read_bytes() == (tmp_path / "together").read_bytes()
    train(recipe, [1, 0, 2], out=tmp_path / "diverged-first")
    assert set(load_checkpoint(tmp_path / "diverged-first").snapshots) == {0, 4, 8}


def test_a_run_with_a_diverged_seed_resumes_to_the_same_bytes(monkeypatch, tmp_path):
    recipe = small(weight_decay=0.1)
    spoil(monkeypatch, 1, fill_huge)
    train(recipe, 3, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt(patch, "write_state after", 3)
        with pytest.raises(Stop):
            train(recipe, 3, out=tmp_path / "x")
    train(recipe, 3, out=tmp_path / "x", resume=True)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "whole").read_bytes()


# ---- snapshots -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_snapshots_equal_runs_stopped_there_and_survive_saving(tmp_path):
    recipe = small(snapshots=(0, 3, 4, 8))
    population = train(recipe, [4, 2], out=tmp_path / "x")
    loaded = load_checkpoint(tmp_path / "x")
    for step in (0, 3, 4, 8):
        state, _ = loop.train_chunk(recipe, loop.initial_state(recipe, (4, 2)), until=step)
        for whole in (population, loaded):
            then = whole.at_step(step)
            assert then.seeds == (4, 2)
            assert then.provenance["step"] == step
            assert same_params(then.params, state.params), step
    assert same_params(population.at_step(8).params, population.params)
    assert same_params(population.at_step(0).params, population.untrained().params)
    with pytest.raises(RequestError, match="no snapshot of step 5; snapshots are 0, 3, 4, 8"):
        loaded.at_step(5)
    with pytest.raises(RequestError, match="snapshots are none"):
        train(small(), 1).at_step(0)


def test_norms_in_the_history_are_the_norms_of_the_snapshots():
    population = train(small(snapshots=(0, 4, 8)), [4, 2])
    rows = {(row["step"], row["seed"]): row for row in population.history}
    for step, params in population.snapshots.items():
        for i, seed in enumerate(population.seeds):
            for name, p in params.items():
                literal = math.sqrt(sum(x * x for x in p[i].flatten().tolist()))
                assert rows[step, seed][f"norm/{name}"] == pytest.approx(literal, rel=1e-5)
    assert not any(key.startswith("norm/") for key in train(small(), 1).history[0])


# ---- bad input -------------------------------------------------------------------------------------

BAD = {
    "no seeds": ({"seeds": 0}, "seeds=0 is not a count"),
    "negative": ({"seeds": -3}, "seeds=-3 is not a count"),
    "far too many": ({"seeds": 10**9}, "seeds=1000000000 is not a count"),
    "empty": ({"seeds": []}, "at least one seed"),
    "twice": ({"seeds": [1, 2, 1]}, "none twice"),
    "negative seed": ({"seeds": [-1]}, "seed -1 is not a whole number"),
    "huge seed": ({"seeds": [2**32]}, "seed 4294967296 is not"),
    "text": ({"seeds": "12"}, "seeds='12' is neither a count nor a list"),
    "a fraction": ({"seeds": 2.0}, "seeds=2.0 is neither a count nor a list"),
    "true": ({"seeds": True}, "seeds=True is neither"),
    "no steps": ({"steps": 0}, "steps=0 is not a whole number from 1"),
    "no batch": ({"batch": 0}, "batch=0 is not a whole number from 1"),
    "half a batch": ({"batch": 1.5}, "batch=1.5 is not a whole number"),
    "no workers": ({"workers": 0}, "workers=0 is not a whole number"),
    "no such device": ({"device": "abacus"}, "device 'abacus' is not usable here"),
    "a device without data": ({"device": "meta"}, "device 'meta' is not usable here"),
    "device none": ({"device": None}, "device None is not usable here"),
    "unknown preset": ({"preset": "dyck-standrad"}, "did you mean 'dyck-standard'"),
    "no preset": ({"preset": 5}, "cannot train 5"),
    "options of a recipe": ({"preset": small(), "options": {"lr": 1}}, "options"),
    "grammar of a preset": ({"grammar": DyckGrammar()}, "brings its grammar"),
    "config alone": ({"preset": TransformerConfig(7)}, "needs grammar="),
    "resume nowhere": ({"resume": True}, "resume=True needs out=FILE"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_refused_in_one_line(arguments, said):
    arguments = {"preset": "dyck-standard", "seeds": 1, "steps": 2, "batch": 2, "workers": 1, **arguments}
    with pytest.raises((RequestError, ConfigError)) as error:
        train_population(**arguments)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", [".", "missing/x.safetensors", "file/x.safetensors", "a" * 254, "taken"])
def test_outputs_that_cannot_be_written_are_refused_before_any_work(monkeypatch, tmp_path, name, resume):
    (tmp_path / "file").write_text("x")
    (tmp_path / "taken.run").write_text("x")
    monkeypatch.setattr(run, "run_chunk", None)
    with pytest.raises((OutputError, RequestError)) as error:
        train(small(), 1, out=tmp_path / name, resume=resume)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "taken.run"]


def test_a_failing_save_leaves_the_run_to_be_resumed(monkeypatch, tmp_path):
    def full_disk(*_):
        raise OutputError("cannot write: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run, "save_checkpoint", full_disk)
        with pytest.raises(InterpError, match="no space left"):
            train(small(), 1, out=tmp_path / "x")
    assert os.listdir(tmp_path) == ["x.run"]
    train(small(), 1, out=tmp_path / "x", resume=True)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_length": 2},
        {"min_length": 0, "max_length": 0},
        {"min_length": 0},
        {"data": "prefix", "length": 1},
        {"k": 1},
        {"depth": 1},
        {"k": 1, "depth": 1, "end_prob": 1.0},
        {"positions": "learned", "n_ctx": 27},
        {"positions": "learned", "n_ctx": 3, "max_length": 2},
        {"positions": "learned", "n_ctx": 2, "data": "prefix", "length": 2},
        {"eval_every": 2},
        {"lr": 1e-30},
    ],
    ids=str,
)
@pytest.mark.slow
def test_corner_cases_train(options):
    population = train("dyck-standard", 2, options=options, steps=2, batch=1)
    last = population.final_metrics()
    assert [row["step"] for row in last] == [2, 2]
    assert all(math.isfinite(row["loss"]) for row in last)


def test_a_config_and_grammar_of_ones_own():
    grammar = DyckGrammar(1, 2)
    config = TransformerConfig(grammar.vocab_size, n_layers=1, d_model=8, d_head=8, d_mlp=8)
    settings = DyckSettings(steps=3, batch=2, max_length=6)
    population = train_population(
        config, [3], grammar=grammar, settings=settings, workers=1, device=torch.device("cpu")
    )
    assert population.config == config
    assert population.grammar == grammar
    assert population.provenance["settings"] == settings.to_dict()
    assert population.provenance["name"] == "custom"


def test_recipes_that_would_train_nonsense_are_refused():
    recipe = small("dyck-standard")
    with pytest.raises(ConfigError, match="pad_token=0 is not the grammar's PAD, 6"):
        replace(recipe, config=replace(recipe.config, pad_token=0))
    with pytest.raises(ConfigError, match="bidirectional"):
        replace(recipe, config=replace(recipe.config, direction="bidirectional"))
    with pytest.raises(ConfigError, match="do not fit the grammar's vocabulary of 9"):
        replace(recipe, grammar=DyckGrammar(3, 4))
    with pytest.raises(ConfigError, match="more than n_ctx=26"):
        replace(recipe, config=replace(recipe.config, positions="learned", n_ctx=26))


def test_training_leaves_the_callers_torch_alone():
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        train(small(steps=2), 1)
        assert torch.get_num_threads() == 2
        assert torch.is_grad_enabled()
        assert torch.equal(torch.get_rng_state(), random)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
def test_training_learns():
    recipe = make_recipe("dyck-minimal", {"eval_every": 150}, steps=150, batch=8)
    population = train(recipe, 2)
    for seed in (0, 1):
        rows = seed_rows(population, seed)
        assert rows[-1]["excess"] < 0.3 * rows[0]["excess"]
        assert rows[-1]["argmax_closers"] > 0.95


def test_recipe_from_a_plan_is_the_recipe(tmp_path):
    recipe: Recipe = small("dyck-paper", snapshots=(1, 2), positions="linear")
    plan = run._Plan.open(tmp_path, recipe, [3, 1], 1, "cpu")
    assert run._Plan.read(tmp_path) == plan
    assert plan.recipe == recipe
    assert plan.chunks == ((3, 1),)


# -- the contrastive regulariser (paper eq. 18) -------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"data": "prefix", "length": 7, "positions": "linear"}])
@pytest.mark.parametrize("name", ["dyck-standard", "dyck-minimal"])
def test_contrastive_term_equals_a_literal_loop(name, options):
    """Each string alone, then again after its own nested pairs; squared differences of logits, START's excluded."""
    if name == "dyck-minimal" and "positions" in options:
        options = {k: v for k, v in options.items() if k != "positions"}
    plain = small(name, batch=5, width=18, **options)
    recipe = small(name, batch=5, width=18, contrastive=0.7, **options)
    state = double_state(recipe, (3, 8), 8.0)
    grammar = recipe.grammar
    losses = []
    for r in (plain, recipe):
        objective = Objective(SandboxTransformer(r.config).double(), r, "cpu")
        drawn = [objective.draw(seed, range(6, 7)) for seed in (3, 8)]
        parts = [torch.from_numpy(np.stack(part, axis=1))[0] for part in zip(*drawn, strict=True)]
        losses.append(objective(state.params, *parts))
    for i, seed in enumerate((3, 8)):
        model = double_model(recipe, state, i)
        g = interp_generator(seed, "contrastive", 6)
        r = g.integers(1, grammar.max_depth + 1, 5)
        types = g.integers(0, grammar.num_types, (5, grammar.max_depth))
        squares, count = 0.0, 0
        for b, (tokens, _) in enumerate(strings_of(recipe, seed, 6)):
            string = [t for t in tokens[1:] if t != grammar.pad]
            opened = [2 * int(t) for t in types[b, : r[b]]]
            nest = opened + [t + 1 for t in reversed(opened)]
            one = model(torch.tensor([[grammar.start, *string]]))[0, 1:]
            two = model(torch.tensor([[grammar.start, *nest, *string]]))[0, 1 + len(nest) :]
            squares += float((one - two).detach().square().mean(-1).sum())
            count += len(string)
        expected = 0.7 * squares / count
        assert float(losses[1][i] - losses[0][i]) == pytest.approx(expected, rel=1e-8)


def test_nested_pairs_are_balanced_and_lengths_uniform():
    recipe = small("dyck-standard", batch=40, contrastive=1.0)
    source = data_source(recipe)
    nested = NestedPairs(recipe.grammar, source.layout())
    layout = nested.layout
    inputs, _ = source.draw(0, range(50))
    out, index = nested.draw(0, range(50), inputs)
    recipe.grammar.depth(np.where(layout.segment >= 0, out, recipe.grammar.pad).reshape(-1, out.shape[-1]))  # valid
    gap = (out != recipe.grammar.pad).sum() - (inputs != recipe.grammar.pad).sum()
    mean = recipe.grammar.max_depth + 1  # 2 r tokens a string, r uniform on 1..D
    assert gap / (50 * 40) == pytest.approx(mean, abs=0.2)  # absolute: four standard errors of 2,000 draws
    compared = index >= 0
    flat = out.reshape(50, -1)
    for step in range(50):
        np.testing.assert_array_equal(flat[step][index[step][compared[step]]], inputs[step][compared[step]])
    assert (compared == (inputs != recipe.grammar.pad) & (inputs != recipe.grammar.start)).all()


@pytest.mark.parametrize("data", [{}, {"data": "prefix", "length": 9}])
@pytest.mark.parametrize(("k", "depth"), [(2, 4), (3, 2), (1, 1)])
def test_the_released_pairs_stand_before_start(k, depth, data):
    """D pairs of each type, one more where it was drawn, then START and the string; all that is said of it counts."""
    recipe = small("dyck-minimal", k=k, depth=depth, batch=7, contrastive=1.0, contrast="released", **data)
    source = data_source(recipe)
    pairs = contrast_of(recipe, source.layout())
    base, layout = source.layout(), pairs.layout
    inputs, _ = source.draw(0, range(60))
    out, index = pairs.draw(0, range(60), inputs)
    plain = [token for t in range(k) for token in [2 * t] * depth + [2 * t + 1] * depth]
    known = {}
    for t in range(k):
        for d in range(depth):
            at = 2 * depth * t + d
            known[(*plain[:at], 2 * t, 2 * t + 1, *plain[at:])] = (t, d)
    seen = set()
    for step in range(60):
        flat, cells = out[step].ravel(), inputs[step].ravel()
        for begin, size, there in zip(layout.start, base.capacity + 1, base.start, strict=True):
            before = tuple(flat[begin : begin + 2 * k * depth + 2])
            seen.add(known[before])
            np.testing.assert_array_equal(
                flat[begin + len(before) : begin + len(before) + size], cells[there : there + size]
            )
            where = index[step].ravel()[there : there + size]
            read = cells[there : there + size] != recipe.grammar.pad
            assert (where[read] == begin + len(before) + np.nonzero(read)[0]).all()
            assert (where[~read] == -1).all()
        assert len({tuple(flat[b : b + 2 * k * depth + 2]) for b in layout.start}) == 1  # one string a step
    assert len(seen) == k * depth
    assert layout.rows >= len(layout.start)  # depths are counted from where a row begins


def test_the_released_regulariser_is_literally_the_difference_of_logits():
    """Depths of the pairs, of the string after START, and positions, are those of a model that reads the one string."""
    recipe = small("dyck-minimal", batch=5, contrastive=0.7, contrast="released", max_length=8)
    plain = small("dyck-minimal", batch=5, max_length=8)
    model = SandboxTransformer.init(recipe.config, 3, recipe.grammar).double()
    params = {n: p.detach()[None] for n, p in model.named_parameters()}
    task, alone = (make_task(SandboxTransformer(r.config).double(), r, "cpu") for r in (recipe, plain))
    arrays = [torch.from_numpy(part[None, 0]) for part in task.draw(3, range(1))]
    base = data_source(recipe).layout()
    inputs, _ = data_source(recipe).draw(3, range(1))
    before = contrast_of(recipe, base).draw(3, range(1), inputs)[0][0].ravel()[: 2 * 2 * 4 + 2].tolist()
    total = count = 0
    for begin, size in zip(base.start, base.capacity + 1, strict=True):
        string = [t for t in inputs[0].ravel()[begin : begin + size].tolist() if t != recipe.grammar.pad]
        one, two = model(torch.tensor([string]))[0], model(torch.tensor([[*before, *string]]))[0, len(before) :]
        total += float((one - two).detach().square().mean(-1).sum())
        count += len(string)
    more = task(params, *arrays) - alone(params, *arrays[:2])
    assert float(more) == pytest.approx(0.7 * total / count, rel=1e-8)


@pytest.mark.parametrize("contrast", ["nested", "released"])
def test_contrastive_training_is_bit_identical_alone_and_among_others(contrast):
    recipe = small("dyck-minimal", contrastive=0.3, contrast=contrast)
    among, alone = train(recipe, 3), train(recipe, [2])
    assert same_params(seed_params(among, 2), seed_params(alone, 2))
