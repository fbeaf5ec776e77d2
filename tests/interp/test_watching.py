"""Training that can be watched: metrics.jsonl as it goes, callbacks, writers, learning curves."""

import json
import sys
import types

import pytest

from interp import InterpError, load_checkpoint, train_population
from interp.cli import main
from interp.curves import Curves
from interp.errors import RequestError, TrainingError
from interp.plots import learning_curves
from interp.training import loop
from interp.training.metrics import METRICS_FILE, Metrics, Watch, read_rows
from interp.training.writers import TensorBoardWriter, WandbWriter
from interp.worlds.dyck import task as objective
from sizes import hold_out_few

QUICK = {"steps": 6, "batch": 2, "workers": 1, "options": {"eval_every": 2}}


@pytest.fixture(autouse=True)
def small_evaluations(monkeypatch):
    hold_out_few(monkeypatch, 6)
    monkeypatch.setattr(
        objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=20, score_from=16)
    )


def keys(rows):
    return [(row["seed"], row["step"]) for row in rows]


def stop_at(monkeypatch, step):
    """The machine goes down when a chunk comes to be evaluated at that step."""
    whole = loop._Run.record

    def record(run):
        if run.step == step:
            raise KeyboardInterrupt
        whole(run)

    monkeypatch.setattr(loop._Run, "record", record)


def stopped(folder, monkeypatch):
    """A run that was stopped at step 4: its checkpoint-to-be, and what it has measured."""
    out = folder / "p.safetensors"
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            train_population("dyck-minimal", 2, out=out, **QUICK)
    return out, folder / "p.safetensors.run" / METRICS_FILE


def test_a_run_writes_what_it_measures_as_it_goes(tmp_path, monkeypatch):
    out, path = stopped(tmp_path, monkeypatch)
    assert keys(map(json.loads, path.read_text().splitlines())) == [(0, 0), (1, 0), (0, 2), (1, 2)]
    seen = []
    population = train_population("dyck-minimal", 2, out=out, resume=True, callback=seen.extend, **QUICK)
    assert keys(seen) == [(0, 4), (1, 4), (0, 6), (1, 6)], "of a resumed run, what is new"
    assert [row for row in population.history if row["step"] >= 4] == seen
    assert not path.exists(), "the checkpoint holds it"


def test_no_step_stands_twice_whatever_was_lost(tmp_path, monkeypatch):
    out, path = stopped(tmp_path, monkeypatch)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:20])  # killed in the middle of a line
    kept = []

    def look(rows):
        kept.append(path.read_text().splitlines())

    train_population("dyck-minimal", 2, out=out, resume=True, callback=look, **QUICK)
    rows = [json.loads(line) for line in kept[-1]]
    assert sorted(keys(rows)) == sorted({*keys(rows)}) == [(s, t) for s in (0, 1) for t in (0, 2, 4, 6)]


@pytest.mark.slow
def test_workers_tell_the_callback_too(tmp_path):
    seen = []
    how = {**QUICK, "workers": 2}
    population = train_population("dyck-minimal", 2, out=tmp_path / "p.safetensors", callback=seen.extend, **how)
    assert sorted(seen, key=lambda row: (row["step"], row["seed"])) == list(population.history)


def test_a_callback_changes_no_bit(tmp_path):
    for name, callback in (("a", None), ("b", lambda rows: None)):
        train_population("dyck-minimal", 1, out=tmp_path / f"{name}.safetensors", callback=callback, **QUICK)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_a_callback_raises_stops_the_run_and_keeps_it(tmp_path):
    out = tmp_path / "p.safetensors"

    def fail(rows):
        raise ValueError("enough")

    with pytest.raises(
        TrainingError, match=r"^the callback failed with ValueError: enough; what was done so far is kept"
    ):
        train_population("dyck-minimal", 1, out=out, callback=fail, **QUICK)
    assert len(train_population("dyck-minimal", 1, out=out, resume=True, **QUICK)) == 1
    with pytest.raises(RequestError, match="callback=3 is not a function"):
        train_population("dyck-minimal", 1, callback=3, **QUICK)


def test_lines_are_appended_once_and_odd_ones_are_left_out(tmp_path):
    path = tmp_path / METRICS_FILE
    path.write_text('{"seed": 1, "step": 0, "loss": 2.0}\nnonsense\n[1]\n{"seed": "x", "step": 0}\n{"seed": 1, "st')
    seen = []
    watch = Watch(tmp_path, seen.extend)
    assert path.read_text().endswith("\n")
    for _ in range(2):
        Metrics(tmp_path, [1, 2]).add([{"seed": s, "step": t} for s in (1, 2) for t in (0, 5)])
        watch()
    assert keys(read_rows(path)) == [(1, 0), (1, 5), (2, 0), (2, 5)]
    assert keys(seen) == [(1, 5), (2, 0), (2, 5)]


# -- writers --------------------------------------------------------------------------------------------


def test_without_the_packages_training_goes_on_and_the_writers_say_which_they_need(tmp_path, monkeypatch, capsys):
    for name in ("tensorboard", "torch.utils.tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    line = "train dyck-minimal --seeds 1 --steps 2 --batch 2 --workers 1 --out"
    assert main([*line.split(), "a.safetensors"]) == 0
    for flag, package in (("--tensorboard", "tensorboard"), ("--wandb", "wandb")):
        assert main([*line.split(), "b.safetensors", flag, "x"]) == 2
        assert f"needs the package {package}: pip install 'interp-sandbox[{package}]'" in capsys.readouterr().err


def test_tensorboard_gets_every_measure(tmp_path, monkeypatch):
    told = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, *what):
            told.append((self.folder, *what))

        def flush(self):
            told.append("flushed")

    fake = types.ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    TensorBoardWriter(tmp_path)([{"seed": 3, "step": 7, "loss": 0.5, "accuracy": None}])
    assert told == [(str(tmp_path), "loss/seed 3", 0.5, 7), "flushed"]
    with pytest.raises(RequestError, match="folder=3 names no folder"):
        TensorBoardWriter(3)


def test_wandb_gets_every_measure(monkeypatch):
    told = []
    run = types.SimpleNamespace(define_metric=lambda *a, **k: None, log=told.append)
    fake = types.ModuleType("wandb")
    fake.init = lambda **how: told.append(how) or run
    monkeypatch.setitem(sys.modules, "wandb", fake)
    WandbWriter("mine", mode="offline")([{"seed": 3, "step": 7, "loss": 0.5, "accuracy": None}])
    assert told == [{"project": "mine", "mode": "offline"}, {"loss/seed 3": 0.5, "step": 7}]
    with pytest.raises(RequestError, match="project='' is not a name"):
        WandbWriter("")


# -- curves ---------------------------------------------------------------------------------------------


def test_curves_of_a_checkpoint_show_what_its_world_shows():
    curves = Curves.read("dyck-standard")
    population = load_checkpoint("dyck-standard")
    assert next(iter(curves.columns)) == "loss"
    assert curves.seeds == list(population.seeds)
    last = curves.mean("loss")[1500]
    assert last.value == pytest.approx(sum(row["loss"] for row in population.final_metrics()) / 8)
    assert last.low < last.value < last.high
    assert f"{last.value:.4f}" in curves.summary()
    assert all(len(line) <= 80 for line in curves.summary().split("\n"))
    figure = learning_curves(population, ["loss", "mass"])
    assert [t.name for t in figure.data].count("mean of all seeds") == 2
    assert len(figure.data) == 2 * (8 + 1)
    assert curves.to_dict()["means"]["loss"]["1500"]["n"] == 8


def test_curves_of_a_run_under_way(tmp_path, capsys):
    folder = tmp_path / "x.run"
    folder.mkdir()
    rows = [{"seed": s, "step": t, "loss": 2.0 - t / 10 + s} for t in (0, 5) for s in (0, 1)]
    text = "\n".join(map(json.dumps, [*rows, {"seed": 0, "step": 10, "loss": 0.5}]))
    (folder / METRICS_FILE).write_text(text)
    for named in (folder, folder / METRICS_FILE):
        assert (
            main(["curves", str(named), "--json", str(tmp_path / "c.json"), "--figure", str(tmp_path / "c.html")]) == 0
        )
        assert "step 5" in capsys.readouterr().out
    data = json.loads((tmp_path / "c.json").read_text())
    assert next(iter(data)) == "of"
    assert data["means"]["loss"].keys() == {"0", "5"}, "steps that every seed has reached"
    assert (tmp_path / "c.html").stat().st_size > 1000


@pytest.mark.parametrize(
    ("source", "measures", "said"),
    [
        ("constructed/stack", None, "holds no measures over steps"),
        ("dyck-standard", ["weather"], "no measure 'weather'; measured were argmax"),
        ("dyck-standard", ["loss", "loss"], "measure 'loss' is given twice"),
        ("dyck-standard", "loss", "measures='loss' is not a list"),
        ("nowhere.jsonl", None, "no file 'nowhere.jsonl'"),
        (3, None, "what holds measures 3 names no file"),
    ],
)
def test_what_has_no_curves_is_refused(source, measures, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterpError, match=said):
        learning_curves(source, measures)


def test_an_empty_folder_is_no_run(tmp_path):
    with pytest.raises(InterpError, match=f"is not a folder of a run: it holds no {METRICS_FILE}"):
        Curves.read(tmp_path)
    (tmp_path / METRICS_FILE).write_text("")
    with pytest.raises(InterpError, match="holds no measures over steps"):
        Curves.read(tmp_path)
