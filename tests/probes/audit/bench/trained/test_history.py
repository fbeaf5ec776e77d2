"""Runs of the judging half: each is counted in one file, whatever folder its models lie in."""

import json

import pytest

from interp.errors import InterpError, RequestError
from probes.audit.bench.digest import auditor
from probes.audit.bench.trained import history, run, run_trained_bench
from probes.audit.bench.trained.errors import Told
from probes.audit.bench.trained.history import read_runs, runs_table


def _answered(job):
    """What auditing a model gives, without a model: one claim of two is left open."""
    name, seed, _, _ = job
    words = ("holds", "used", "supported"), ("undecided", "used", "undecided")
    told = tuple(
        Told(name, seed, f"{name}/{seed}", f"claim {at}", "true", True, "used", True, *word, {})
        for at, word in enumerate(words)
    )
    return run._Found(name, told, (), 2, 0.5)


@pytest.fixture
def without_models(monkeypatch):
    monkeypatch.setattr(run, "_one", _answered)


def judge(folder, **how):
    return run_trained_bench(folder, "judge", families=["frozen"], seeds=[20, 21], **how)


@pytest.mark.usefixtures("without_models")
def test_a_new_folder_does_not_start_the_count_anew(tmp_path):
    runs = tmp_path / "runs.json"
    found = [judge(tmp_path / folder, runs=runs).judge_runs for folder in ("a", "b", "b")]
    assert found == [1, 2, 3]
    entry = {
        "auditor": auditor(), "families": ["frozen"], "seeds": [20, 21], "seed": 0, "models": 2, "claims": 4,
        "outcomes": {"right": 2, "undecided": 2},
    }  # fmt: skip
    assert read_runs(runs) == [entry] * 3


@pytest.mark.usefixtures("without_models")
def test_the_develop_half_is_not_counted(tmp_path, monkeypatch):
    runs = tmp_path / "runs.json"
    monkeypatch.setattr(run, "HISTORY", runs)
    assert run_trained_bench(tmp_path, "develop", families=["frozen"], seeds=[0]).judge_runs == 0
    assert not runs.exists()
    judge(tmp_path, runs=runs)
    assert run_trained_bench(tmp_path, "develop", families=["frozen"], seeds=[0]).judge_runs == 1
    assert run_trained_bench(tmp_path, "both", families=["frozen"], seeds=[0, 20], runs=runs).judge_runs == 2


def test_a_run_that_is_broken_off_counts(tmp_path, monkeypatch):
    def stop(job):
        raise KeyboardInterrupt

    runs = tmp_path / "runs.json"
    monkeypatch.setattr(run, "_one", stop)
    with pytest.raises(KeyboardInterrupt):
        judge(tmp_path, runs=runs)
    (entry,) = read_runs(runs)
    assert (entry["auditor"], entry["outcomes"]) == (auditor(), None)
    assert "| 1 | version" in runs_table([entry])
    assert "not finished" in runs_table([entry])


@pytest.mark.usefixtures("without_models")
@pytest.mark.parametrize("text", ["no JSON", "{}", "[1]", "[{}]"])
def test_a_file_that_counts_nothing_is_refused_before_the_work(text, tmp_path):
    runs = tmp_path / "runs.json"
    runs.write_text(text)
    with pytest.raises(RequestError, match=r"runs\.json"):
        judge(tmp_path, runs=runs)
    assert runs.read_text() == text


@pytest.mark.usefixtures("without_models")
def test_where_runs_cannot_be_counted_the_judging_half_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "HISTORY", tmp_path / "none.json")
    with pytest.raises(RequestError, match="give runs=FILE"):
        judge(tmp_path)
    with pytest.raises(InterpError, match="no such"):
        judge(tmp_path, runs=tmp_path / "no such" / "runs.json")


def test_the_table_of_runs():
    asked = {"version": "1", "digest": "abc"}
    one = {
        "auditor": asked,
        "families": ["a", "b"],
        "seeds": [20, 39],
        "models": 3,
        "claims": 9,
        "outcomes": {"right": 9},
    }
    two = {
        **one,
        "auditor": {"version": "1", "digest": None},
        "outcomes": {"undecided": 2, "missed use": 1, "right": 6},
    }
    assert runs_table(json.loads(json.dumps([one, two]))).splitlines()[2:] == [
        "| 1 | version 1, digest abc | 20 to 39 | 2 | 3 | 9 | 0 |",
        "| 2 | version 1, digest not recorded | 20 to 39 | 2 | 3 | 9 | 1 missed use, 2 undecided |",
    ]
