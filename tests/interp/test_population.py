"""`Population` as a sequence: copies out, checked tensors in."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interp.checkpoints import load_checkpoint, save_checkpoint
from interp.config import TransformerConfig
from interp.curves import Curves
from interp.errors import CheckpointError, InterpError, RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.population import Population, check_params
from interp.presets import make_recipe

GRAMMAR = DyckGrammar(2, 3)
CONFIG = TransformerConfig(
    GRAMMAR.vocab_size, n_layers=1, d_model=8, d_head=8, d_mlp=8, pad_token=GRAMMAR.pad, num_types=2, max_depth=3
)
SEEDS = (5, 0, 9, 2)


@pytest.fixture
def population():
    """Four untrained models dressed up as trained ones."""
    bare = Population.init(CONFIG, SEEDS, GRAMMAR)
    history = tuple({"seed": s, "step": step, "loss": s + step / 10} for step in (0, 4) for s in SEEDS)
    snapshots = {0: bare.params, 4: {n: p + 1 for n, p in bare.params.items()}}
    provenance = {"name": "mine", "trained": True, "diverged": {"9": 3}}
    return replace(bare, provenance=provenance, history=history, snapshots=snapshots)


def assert_model(model, seed):
    expected = SandboxTransformer.init(CONFIG, seed).state_dict()
    assert model.state_dict().keys() == expected.keys()
    assert all(torch.equal(p, expected[n]) for n, p in model.state_dict().items())


def test_it_is_a_sequence(population):
    assert len(population) == 4
    assert [m.provenance["seed"] for m in population] == list(SEEDS)
    for i, model in enumerate(population):
        assert_model(model, SEEDS[i])
    for i in range(-4, 4):
        assert_model(population[i], SEEDS[i])
    assert_model(population[np.int64(1)], 0)
    assert [m.provenance["seed"] for m in reversed(population)] == list(SEEDS[::-1])


@pytest.mark.parametrize("index", [4, -5, 100])
def test_an_index_out_of_range_says_so(population, index):
    with pytest.raises(IndexError, match=f"index {index} of a population of 4"):
        population[index]


def test_a_model_taken_out_carries_its_origin(population):
    model = population[2]
    assert isinstance(model, SandboxTransformer)
    assert model.grammar == GRAMMAR
    assert model.config == CONFIG
    assert model.provenance == {"name": "mine", "trained": True, "diverged": {"9": 3}, "seed": 9}
    assert not model.training


def test_a_model_taken_out_is_a_copy(population):
    before = {n: p.clone() for n, p in population.params.items()}
    model = population[1]
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(7)
    model.provenance["seed"] = 99
    assert all(torch.equal(population.params[n], before[n]) for n in before)
    assert population[1].provenance["seed"] == 0
    assert "seed" not in population.provenance


@pytest.mark.parametrize(
    "index",
    [slice(1, 3), slice(None), slice(None, None, 2), slice(-2, None), slice(None, None, -1), slice(3, 0, -2)],
    ids=str,
)
def test_a_slice_is_a_population_with_its_rows_and_snapshots(population, index):
    part = population[index]
    chosen = SEEDS[index]
    assert isinstance(part, Population)
    assert part.seeds == chosen
    for i, model in enumerate(part):
        assert_model(model, chosen[i])
    assert {row["seed"] for row in part.history} == set(chosen)
    assert len(part.history) == 2 * len(chosen)
    assert set(part.snapshots) == {0, 4}
    for i, seed in enumerate(chosen):
        for n, p in population.snapshots[4].items():
            assert torch.equal(part.snapshots[4][n][i], p[SEEDS.index(seed)])
    part.params["embed.W_E"].fill_(3)
    assert not (population.params["embed.W_E"] == 3).any()


def test_an_empty_slice_is_refused(population):
    with pytest.raises(RequestError, match="slice 4:None of 4 models is empty"):
        population[4:]


def test_from_models_is_the_inverse_of_iteration(population):
    again = Population.from_models(list(population))
    assert again.seeds == SEEDS
    assert again.config == CONFIG
    assert again.grammar == GRAMMAR
    assert all(torch.equal(again.params[n], p) for n, p in population.params.items())
    again.params["embed.W_E"].fill_(3)
    assert not (population.params["embed.W_E"] == 3).any()


def test_from_models_refuses_what_does_not_belong_together(population):
    with pytest.raises(RequestError, match="needs at least one model, got none"):
        Population.from_models([])
    wider = SandboxTransformer.init(replace(CONFIG, d_mlp=9), 0, GRAMMAR)
    with pytest.raises(RequestError, match="model 1 has another config or grammar than model 0"):
        Population.from_models([population[0], wider])
    elsewhere = SandboxTransformer.init(CONFIG, 0, DyckGrammar(2, 3, 0.4))
    with pytest.raises(RequestError, match="model 2 has another config or grammar"):
        Population.from_models([population[0], population[1], elsewhere])


def test_untrained_is_where_these_seeds_began(population):
    moved = replace(population, params={n: p + 1 for n, p in population.params.items()})
    null = moved.untrained()
    assert null.seeds == SEEDS
    assert null.provenance["trained"] is False
    for i, model in enumerate(null):
        assert_model(model, SEEDS[i])
        assert model.provenance["trained"] is False
    assert all(torch.equal(null.params[n], p) for n, p in moved.untrained().params.items())


def test_at_step_gives_the_snapshot(population):
    then = population.at_step(4)
    assert then.provenance["step"] == 4
    assert all(torch.equal(then.params[n], p + 1) for n, p in population.params.items())
    with pytest.raises(RequestError, match="no snapshot of step 3; snapshots are 0, 4"):
        population.at_step(3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p.pop("unembed.W_U"), "tensor 'unembed.W_U' is missing"),
        (lambda p: p.update(extra=torch.zeros(4)), "tensor 'extra' does not belong to this config"),
        (
            lambda p: p.update({"embed.W_E": p["embed.W_E"][:3]}),
            "tensor 'embed.W_E' has shape [3, 7, 8]; the config needs [4, 7, 8]",
        ),
        (
            lambda p: p.update({"unembed.b_U": torch.zeros(4, 6)}),
            "tensor 'unembed.b_U' has shape [4, 6]; the config needs [4, 7]",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_name(population, change, said):
    params = dict(population.params)
    check_params(CONFIG, params, 4)
    change(params)
    with pytest.raises(CheckpointError) as error:
        replace(population, params=params)
    assert str(error.value) == said


def test_final_metrics_are_the_last_row_of_each_seed(population):
    assert population.final_metrics() == [{"seed": s, "step": 4, "loss": s + 0.4} for s in SEEDS]
    assert replace(population, history=()).final_metrics() == []


def test_summary_names_seeds_and_those_that_diverged(population):
    text = population.summary()
    assert text.startswith("mine: 4 models, 1 layer(s)")
    assert "   seed   step      loss" in text
    assert "      5      4    5.4000" in text
    assert "seed 9 diverged at step 3" in text
    assert "seed 9" not in population[:2].summary()  # not of this slice
    missing = replace(population, history=({"seed": 5, "step": 1, "loss": None},))
    assert "      5      1 undefined" in missing.summary()
    long = replace(population, provenance={"name": "x" * 200}).summary()
    assert max(map(len, long.splitlines())) <= 80
    assert repr(population) == "<Population of 4 mine>"


def test_a_table_of_seeds_ends_with_their_mean_and_its_interval(population):
    """Student's t over the logarithms of the four seeds' last losses; one seed has no mean but itself."""
    losses = np.array(SEEDS) + 0.4
    half = 3.1824463 * losses.std(ddof=1) / 2  # t quantile .975 on 3 degrees of freedom
    low, high = (losses.mean() * np.exp(sign * half / losses.mean()) for sign in (-1, 1))
    told = f"loss {losses.mean():.4f} [{low:.4f}, {high:.4f}]"
    assert f"mean of 4 seeds and its 95 % interval: {told}" in population.summary().replace("\n    ", " ")
    assert told.removeprefix("loss ") in population._repr_html_()
    assert "mean of" not in population[:1].summary()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (1.0, "1.0000"),
        (0.0, "0.0000"),
        (0.999984, "0.999984"),
        (1 - 4e-8, "0.999999960"),
        (1.00002, "1.000020"),
        (0.99995, "0.999950"),
        (0.9999, "0.9999"),
        (-1.0, "-1.0000"),
        (0.000016, "1.6e-05"),
        (-0.00003, "-3.0e-05"),
        (None, "undefined"),
        (float("nan"), "undefined"),
        (12, "12"),
    ],
)
def test_rounding_makes_no_error_none(population, value, text):
    history = tuple({"seed": seed, "step": 4, "loss": value} for seed in SEEDS)
    row = replace(population, history=history).summary().splitlines()[3]
    assert row.split()[-1] == text


def test_html_is_escaped(population):
    shown = replace(population, provenance={"name": "<script>alert(1)</script>"})._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_one_model_saved_alone_keeps_seed_and_provenance(population, tmp_path):
    model = population[2]
    save_checkpoint(model, tmp_path / "one.safetensors")
    loaded = load_checkpoint(tmp_path / "one.safetensors")
    assert isinstance(loaded, SandboxTransformer)
    assert_model(loaded, 9)
    assert loaded.provenance == model.provenance
    assert loaded.provenance["seed"] == 9
    assert loaded.grammar == GRAMMAR


def test_models_of_another_device_or_type_stay_usable(population):
    doubled = replace(population, params={n: p.double() for n, p in population.params.items()})
    tokens = torch.from_numpy(GRAMMAR.to_tokens(["()"]))
    assert torch.isfinite(doubled[0](tokens)).all()


def test_float64_weights_keep_their_last_bits(tmp_path):
    recipe = make_recipe("dyck-minimal", {"width": 8})
    exact = Population.init(recipe.config, (0, 1), recipe.grammar)
    doubled = {n: p.double() + 1e-12 for n, p in exact.params.items()}
    population = Population(recipe.config, recipe.grammar, doubled, (0, 1))
    loaded = load_checkpoint(save_checkpoint(population, tmp_path / "x.safetensors"))
    for name, p in loaded[1].named_parameters():
        assert torch.equal(p, doubled[name][1])


@pytest.mark.parametrize("models", [None, 5, "ab", [None], [1, 2]])
def test_what_is_no_list_of_models(models):
    with pytest.raises(RequestError, match="SandboxTransformer"):
        Population.from_models(models)


def test_copies_of_one_seed_are_told_apart_by_place(tmp_path):
    model = SandboxTransformer.init(TransformerConfig(7, d_model=8, d_head=8, d_mlp=8), 3)
    twice = Population.from_models([model, model])
    assert twice.seeds == (0, 1)
    save_checkpoint(twice, tmp_path / "twice.safetensors")
    assert len(load_checkpoint(tmp_path / "twice.safetensors")) == 2


@pytest.mark.parametrize(
    "index", [True, np.True_, 0.0, "0", None, (0, 1), [0], np.zeros(2), slice(0.0, 1.0), slice(0, 4, 0)]
)
def test_what_is_no_place_is_refused(population, index):
    with pytest.raises(RequestError, match="of a population of 4"):
        population[index]


def test_places_beyond_end_are_pythons_errors_and_ours(population):
    for error in (IndexError, InterpError):
        with pytest.raises(error, match="index 4 of a population of 4"):
            population[4]


@pytest.mark.parametrize("index", [np.uint8(1), np.int64(-3), torch.tensor(1)])
def test_any_whole_number_is_a_place(population, index):
    assert_model(population[index], population.seeds[1])


@pytest.mark.parametrize("device", ["junk", "cpu:7", None, 1.5, "cuda:x"])
def test_a_population_goes_to_devices_that_are_there(population, device):
    with pytest.raises(RequestError, match="device"):
        population.to(device)


@pytest.mark.parametrize("seeds", [5, None, "ab", b"ab", [0.5], [True], [None], np.zeros((2, 2))])
def test_what_is_no_list_of_seeds(population, seeds):
    with pytest.raises(RequestError, match="seeds="):
        Population.init(population.config, seeds)
    with pytest.raises(RequestError, match="seeds="):
        replace(population, seeds=seeds)


def test_what_the_strings_alone_decide_has_no_mean_over_seeds():
    """A rung is one number on strings that all seeds share: an interval would pass for one over seeds."""
    facts = load_checkpoint("facts")
    for text in (facts.summary(), Curves.read("facts").summary()):
        flat = " ".join(text.split())
        assert "relation 1.7832" in flat
        assert "1.7832 [" not in flat
        assert "relation alone 1.7832 [" not in flat
    assert "  relation alone\n" in facts.summary()  # each seed's row has it, as before


def test_one_model_is_no_models():
    one = load_checkpoint("facts")[:1]
    assert ": 1 model, " in one.summary()
    assert "1 models" not in one._repr_html_()
    assert Curves.read(one).summary().startswith("facts: 1 seed, ")
