"""Count vectors against full attention: logits, losses, gradients, trained weights, metrics."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.checkpoints import load_checkpoint
from interp.config import TransformerConfig
from interp.errors import ConfigError, RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.model.counts import CountModel, count_arrays, counted_logits, num_states, states_of
from interp.model.hooks import is_hooked
from interp.population import Population
from interp.presets import make_recipe
from interp.training.loop import initial_state, train_chunk
from interp.training.run import train_population
from interp.worlds.dyck import counted, evaluate
from interp.worlds.dyck import task as objective
from interp.worlds.dyck.evaluate import evaluate_positions, held_out
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.dyck.task import Objective

ONE_LAYER = {
    "minimal": ("dyck-minimal", {}),
    "minimal-sum-heads": ("dyck-minimal-sum", {"heads": 3, "width": 27, "k": 3, "depth": 3}),
    "minimal-angle": ("dyck-minimal-angle", {"k": 4, "depth": 2}),
    "learned-embedding": ("dyck-standard", {"layers": 1, "heads": 2, "width": 18}),
    "paper": ("dyck-paper", {"layers": 1, "width": 18}),
    "uniform": ("dyck-uniform", {"layers": 1, "width": 18}),
}
every_model = pytest.mark.parametrize(("preset", "options"), ONE_LAYER.values(), ids=ONE_LAYER.keys())


def recipe_of(preset, options, **more):
    return make_recipe(preset, {"init_std": 0.6, **options, **more}, steps=6, batch=5)


def watched(monkeypatch, module, name):
    """A list that grows with every call of a module's function: two paths may well round alike."""
    calls, function = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **kw: calls.append(name) or function(*args, **kw))
    return calls


@every_model
@pytest.mark.parametrize("norm", ["LN", "LNPre", "unit", "none"])
def test_logits_are_those_of_the_full_attention(preset, options, norm):
    recipe = recipe_of(preset, options)
    config = replace(recipe.config, norm=norm)
    model = SandboxTransformer.init(config, 1).double()
    if norm == "LN":  # gains and shifts that are not 1 and 0
        for name, p in model.named_parameters():
            if name.endswith((".w", ".b")):
                p.data += 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
    tokens = torch.from_numpy(held_out(recipe.grammar, 4, data="prefix", length=60).inputs[:, :60])
    query, logs = count_arrays(states_of(config, tokens).numpy(), np.arange(tokens.shape[1])[None], num_states(config))
    params = {n: p.detach() for n, p in model.named_parameters()}
    with torch.no_grad():
        full = model(tokens)
        short = counted_logits(
            CountModel(model), params, torch.from_numpy(query).double(), torch.from_numpy(logs).double()
        )
    assert_close(short, full, ulps=4, dtype=torch.float32)  # of the log counts alone
    assert (full[:, 1:] - full[:, :-1]).abs().max() > 1e-2, "a constant would prove nothing"


@pytest.mark.parametrize("options", [{"data": "complete"}, {"data": "prefix", "length": 9}])
def test_counts_are_of_the_visible_positions(options):
    """By definition: one query at a time, the states of all keys it sees."""
    recipe = recipe_of("dyck-minimal", {"compute": "counts", "k": 3, "depth": 3}, **options)
    objective = Objective(SandboxTransformer(recipe.config), recipe, "cpu")
    layout, count = objective.layout, num_states(recipe.config)
    tokens, _ = objective.source.draw(4, range(3))
    query, logs = objective.draw(4, range(3))[:2]
    assert query.dtype == logs.dtype == np.float32
    states = states_of(recipe.config, torch.from_numpy(tokens)).numpy()
    for step, row, q in np.ndindex(states.shape):
        seen = states[step, row][layout.visible[row, 0, q]]
        expected = np.bincount(seen, minlength=count)
        np.testing.assert_array_equal(np.exp(logs[step, row, q]).round(4), expected)
        np.testing.assert_array_equal(query[step, row, q], np.arange(count) == states[step, row, q])


LOSSES = {
    "ce": {},
    "mse-closers": {"loss": "mse", "targets": "closers", "l2": 0.01},
    "prefix": {"data": "prefix", "length": 13},
    "contrastive": {"contrastive": 0.5},
}


def loss_and_gradient(recipe, state, seeds, dtype):
    objective = Objective(SandboxTransformer(recipe.config).to(dtype), recipe, "cpu")
    drawn = [objective.draw(seed, range(2, 3)) for seed in seeds]
    batch = [torch.from_numpy(np.stack(part)[:, 0]) for part in zip(*drawn, strict=True)]
    leaves = {n: p.to(dtype).requires_grad_() for n, p in state.params.items()}
    losses = objective(leaves, *batch)
    return losses.detach(), dict(zip(leaves, torch.autograd.grad(losses.sum(), list(leaves.values())), strict=True))


@every_model
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.slow
def test_loss_and_gradient_are_those_of_the_full_attention(preset, options, loss):
    full, short = (recipe_of(preset, options, compute=c, **loss) for c in ("attention", "counts"))
    seeds = (3, 5)
    state = initial_state(full, seeds)
    for dtype in (torch.float32, torch.float64):
        expected, gradient = loss_and_gradient(full, state, seeds, dtype)
        got, own = loss_and_gradient(short, state, seeds, dtype)
        assert_close(got, expected, dtype=torch.float32)  # log counts are float32 in both
        scale = max(float(g.abs().max()) for g in gradient.values())
        for name in gradient:
            assert_close(own[name], gradient[name], ulps=64, scale=scale, dtype=torch.float32)  # sums over the batch


@pytest.mark.slow
def test_training_through_counts_gives_the_same_models(monkeypatch):
    """All weights to a third of one step after 60. b_K alone is free: adding a number to all scores of a query changes
    nothing, so its true gradient is 0 and Adam blows up rounding."""
    trained, asked = {}, watched(monkeypatch, objective, "counted_logits")
    for compute in ("attention", "counts"):
        recipe = make_recipe("dyck-minimal", {"compute": compute, "eval_every": 60}, steps=60, batch=16)
        trained[compute] = train_population(recipe, 2, workers=1)
        assert bool(asked) == (compute == "counts")
    full, short = trained["attention"], trained["counts"]
    for name, p in full.params.items():
        if not name.endswith("b_K"):  # the rest differs by less than one step of Adam
            assert (short.params[name] - p).abs().max() < make_recipe("dyck-minimal").settings.lr / 3
    for one, other in zip(full.final_metrics(), short.final_metrics(), strict=True):
        assert one == pytest.approx(other, abs=2e-3)  # absolute: one of 600 predictions may change sides


def test_the_default_is_the_attention_and_old_settings_keep_their_bytes():
    assert make_recipe("dyck-minimal").settings.compute == "attention"
    assert "compute" not in make_recipe("dyck-minimal").to_dict()["settings"]
    counts = make_recipe("dyck-minimal", {"compute": "counts"}).settings
    assert counts.to_dict()["compute"] == "counts"
    assert DyckSettings.from_dict(counts.to_dict()) == counts


@pytest.mark.parametrize(
    ("preset", "options", "said"),
    [
        ("dyck-standard", {}, "layers=2"),
        ("dyck-standard", {"layers": 1, "positions": "linear"}, "positions='linear'"),
        ("dyck-minimal", {"compute": "count"}, "'count'"),
        ("topic-value", {}, "'compute' is not one of"),
    ],
)
def test_counts_where_they_do_not_suffice_are_refused(preset, options, said):
    with pytest.raises((ConfigError, RequestError), match=said):
        make_recipe(preset, {"compute": "counts", **options})


# ---- evaluation ------------------------------------------------------------------------------------


SETS = {
    "complete": {"data": "complete"},
    "prefix": {"data": "prefix", "length": 19},
    "late": {"data": "prefix", "length": 90, "score_from": 70},
}


@every_model
@pytest.mark.parametrize("options_of_set", SETS.values(), ids=SETS.keys())
def test_metrics_are_those_of_the_full_attention(monkeypatch, preset, options, options_of_set):
    monkeypatch.setattr(counted, "_CELLS", 48)  # several passes
    recipe = recipe_of(preset, options)
    params = initial_state(recipe, (0, 4)).params
    template = SandboxTransformer(recipe.config)
    data = held_out(recipe.grammar, 60, **options_of_set)
    expected = evaluate_positions(template, params, data, by_distance=True)
    asked = watched(monkeypatch, evaluate, "evaluate_counted")
    got = evaluate.evaluate(template, params, data, by_distance=True)
    assert len(asked) == 1
    assert got.keys() == expected.keys()
    for name in expected:
        assert_close(got[name], expected[name], ulps=8, scale=expected["loss"], dtype=torch.float32)


def test_trained_models_keep_their_accuracies():
    population = load_checkpoint("dyck-minimal")
    template = SandboxTransformer(population.config)
    for data in (held_out(population.grammar, 200), held_out(population.grammar, 3, data="prefix", length=300)):
        expected = evaluate_positions(template, population.params, data)
        got = evaluate.evaluate(template, population.params, data)
        for name in expected:
            assert_close(got[name], expected[name], ulps=16, scale=expected["loss"], dtype=torch.float32)


@pytest.mark.parametrize("count", [1, 40])
def test_a_seed_is_measured_the_same_alone_and_among_others(count):
    for preset, options in ONE_LAYER.values():
        recipe = recipe_of(preset, options)
        params = initial_state(recipe, (0, 1, 2, 3, 4)).params
        template, data = SandboxTransformer(recipe.config), held_out(recipe.grammar, count)
        together = evaluate.evaluate(template, params, data)
        for i in range(5):
            alone = evaluate.evaluate(template, {n: p[i : i + 1] for n, p in params.items()}, data)
            for name in together:
                np.testing.assert_array_equal(together[name][i], alone[name][0], err_msg=f"{preset} {name}")


def test_a_hooked_model_is_evaluated_position_by_position():
    """The attention's hooks do not run on counts, and an edit must not go unseen."""
    recipe = recipe_of("dyck-minimal", {})
    params = initial_state(recipe, (0,)).params
    template, data = SandboxTransformer(recipe.config), held_out(DyckGrammar(2, 4), 20)
    plain = evaluate.evaluate(template, params, data)
    with template.hooks(fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: z.roll(1, -1))]):
        assert is_hooked(template)
        edited = evaluate.evaluate(template, params, data)
    assert not is_hooked(template)
    assert abs(edited["loss"][0] - plain["loss"][0]) > 1e-3


def test_a_loss_that_counts_give_is_not_a_number_where_weights_are_not():
    recipe = recipe_of("dyck-minimal", {})
    params = initial_state(recipe, (0, 1)).params
    params["unembed.b_U"][1] = float("nan")
    got = evaluate.evaluate(SandboxTransformer(recipe.config), params, held_out(recipe.grammar, 5))["loss"]
    assert np.isfinite(got[0])
    assert np.isnan(got[1])


def test_a_chunk_through_counts_stops_and_goes_on_to_the_same_bits():
    recipe = recipe_of("dyck-minimal", {"compute": "counts"})
    whole, _ = train_chunk(recipe, initial_state(recipe, (1, 2)))
    half, _ = train_chunk(recipe, initial_state(recipe, (1, 2)), until=3)
    rest, _ = train_chunk(recipe, half)
    assert all(torch.equal(whole.params[n], rest.params[n]) for n in whole.params)


def test_a_norm_without_eps_is_evaluated_position_by_position():
    config = TransformerConfig(
        d_vocab=7, pad_token=6, num_types=2, max_depth=4, n_layers=1, norm_eps=0.0, init_std=0.5, positions="none"
    )
    population = Population.init(config, [0, 1], DyckGrammar(2, 4))
    data, template = held_out(DyckGrammar(2, 4), 50), SandboxTransformer(config)
    got = evaluate.evaluate(template, population.params, data)
    assert np.isfinite(got["loss"]).all()
    assert_close(got["loss"], evaluate_positions(template, population.params, data)["loss"], dtype=torch.float32)
