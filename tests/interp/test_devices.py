"""Other devices than the CPU: the step loop never waits for them, and results come back."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from case_studies.populations import Family
from interp import cli, load_checkpoint
from interp.devices import usable_device
from interp.errors import RequestError
from interp.population import Population
from interp.presets import make_recipe
from interp.training.loop import _Run, initial_state
from interp.training.run import train_population
from interp.worlds.dyck.evaluate import evaluate, held_out
from sizes import hold_out_few

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")),
]
RECIPES = {
    "standard": ("dyck-standard", {"layers": 1, "width": 16}),
    "positions": ("dyck-standard", {"layers": 1, "width": 16, "positions": "learned"}),
    "minimal": ("dyck-minimal", {}),
    "counts": ("dyck-minimal", {"compute": "counts"}),
    "contrastive": ("dyck-minimal", {"contrastive": 0.5, "l2": 0.1}),
    "sgd": ("dyck-paper", {"optimizer": "sgd"}),
    "topics": ("topic-joint", {"topics": 3, "words": 4}),
}
every_recipe = pytest.mark.parametrize(("preset", "options"), RECIPES.values(), ids=RECIPES.keys())


class NoWaiting(TorchDispatchMode):
    """Raises at whatever would make a program wait for its device (AdamW counts its steps on the CPU)."""

    WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal.default", "is_nonzero")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        elsewhere = any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in args)
        back = kwargs and str(kwargs.get("device")) == "cpu"
        if elsewhere and (back or any(name in str(func) for name in self.WAITS)):
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


def drawn(run, steps, device):
    parts = [run.task.draw(seed, steps) for seed in run.seeds]
    return [torch.from_numpy(np.stack(part, axis=1)).to(device) for part in zip(*parts, strict=True)]


@pytest.mark.parametrize("device", ["cpu:1", "cpu:7", torch.device("cpu", 3)], ids=str)
def test_there_is_one_cpu(device):
    with pytest.raises(RequestError, match="there is one CPU"):
        usable_device(device)
    assert usable_device("cpu:0") == usable_device(torch.device("cpu", 0)) == usable_device("cpu") == "cpu"


@every_recipe
@pytest.mark.slow
def test_steps_never_wait_for_the_device(preset, options):
    """Tensors on "meta" have shapes alone: reading one, or mixing it with one of the CPU, is an error as well."""
    recipe = make_recipe(preset, options, steps=8, batch=3)
    run = _Run(recipe, initial_state(recipe, (0, 1)), "meta")
    batches = drawn(run, range(3), "meta")
    with NoWaiting():
        losses = run.take_steps(range(3), batches)
    assert losses.device.type == "meta"
    assert losses.shape == (3, 2)
    with NoWaiting():
        for wait in (lambda: losses.cpu(), lambda: losses[0, 0].item(), lambda: losses[losses > 0]):
            with pytest.raises((AssertionError, NotImplementedError, RuntimeError)):
                wait()


@pytest.mark.parametrize("device", DEVICES)
@every_recipe
@pytest.mark.slow
def test_training_and_measuring_on_a_device(monkeypatch, device, preset, options):
    hold_out_few(monkeypatch, 20)
    recipe = make_recipe(preset, {"eval_every": 2, **options}, steps=4, batch=3)
    population = train_population(recipe, 2, device=device, workers=1)
    assert population.device.type == "cpu", "a trained population can be saved"
    reference = train_population(recipe, 2, workers=1)
    start = reference.untrained().params
    moved = max((p - start[name]).abs().max() for name, p in reference.params.items())
    for name, p in population.params.items():  # Adam makes steps of rounding where a gradient is 0
        assert (p - reference.params[name]).abs().max() < moved / 10
    if preset.startswith("dyck"):
        moved = population.to(device)
        data = held_out(population.grammar, 10)
        here, there = (evaluate(p[0], p.params, data)["loss"] for p in (population, moved))
        np.testing.assert_allclose(there, here, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_a_population_moves_with_its_snapshots_and_its_null(device):
    population = load_checkpoint("dyck-minimal")
    assert population.to("cpu") is population
    moved = population.to(device)
    assert moved[0].device.type == torch.device(device).type
    assert moved.untrained().device.type == torch.device(device).type
    snapped = Population(
        population.config, population.grammar, population.params, population.seeds, snapshots={3: population.params}
    ).to("meta")
    assert {p.device.type for p in (*snapped.params.values(), *snapped.snapshots[3].values())} == {"meta"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("analyzer", ["balance", "stack", "variation"])
@pytest.mark.slow
def test_analyze_on_a_device(device, analyzer, tmp_path, capsys):
    paths = [tmp_path / "here.json", tmp_path / "there.json"]
    for path, name in zip(paths, ("cpu", device), strict=True):
        assert cli.main(["analyze", analyzer, "dyck-minimal", "--device", name, "--json", str(path)]) == 0
    assert paths[0].read_text() == paths[1].read_text() or device != "cpu"


@pytest.mark.parametrize("device", DEVICES)
def test_audit_on_a_device(device, capsys):
    command = ["audit", "constructed/stack", "--device", device, "--claim", "L1H0 attends to the previous token"]
    assert cli.main(command) in (0, 1)
    assert "previous token" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", ""])
def test_an_unusable_device_is_refused_in_one_line(name, capsys, tmp_path):
    with pytest.raises(RequestError, match="not usable here"):
        usable_device(name)
    for command in (
        ["analyze", "variation", "dyck-minimal"],
        ["audit", "dyck-minimal", "--claim", "L0H0 attends to START"],
        ["report", "dyck-copying", "--out", str(tmp_path / "report")],
        ["train", "dyck-minimal", "--out", str(tmp_path / "x.safetensors")],
    ):
        assert cli.main([*command, "--device", name]) == 2, command
        captured = capsys.readouterr()
        assert "not usable here" in captured.err
        assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_bench_of_claims_runs_on_the_cpu_only(capsys):
    assert cli.main(["audit", "--bench", "--device", "cuda"]) == 2
    assert "--bench runs on the CPU" in capsys.readouterr().err


def test_studies_train_where_they_are_told_and_files_do_not_mix(monkeypatch, tmp_path):
    family = Family("few", "dyck-minimal", steps=2, batch=3)
    asked = []
    monkeypatch.setattr(
        "case_studies.populations.train_population", lambda *a, **k: asked.append((k["device"], str(k["out"])))
    )
    monkeypatch.setattr("case_studies.populations.read_header", lambda path: {"digest": ""})
    from case_studies.populations import obtain

    obtain(family, 1, tmp_path)
    obtain(family, 1, tmp_path, device="cuda")
    obtain(family, 1, tmp_path)
    assert [device for device, _ in asked] == ["cpu", "cuda", "cpu"]
    assert asked[0][1] == asked[2][1] != asked[1][1]
