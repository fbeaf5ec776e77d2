"""The world of examples/regular_language, installed as other people's packages are: everything takes it up."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
TEXT = "a..b.aa..b...."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The command line where the package is installed; a folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(ROOT / "examples" / "regular_language", folder / "source")  # pip builds beside it
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(folder / "site"), str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])

    def interp(*words):
        told = subprocess.run(
            [sys.executable, "-m", "interp", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert told.returncode == 0, told.stderr
        return told.stdout

    interp("train", "last-letter", "--seeds", "4", "--out", "m.safetensors", "--workers", "1", "--json", "m.json")
    interp.folder = folder
    return interp


def test_it_is_listed(run):
    said = run("list", "--json", "list.json")
    told = json.loads((run.folder / "list.json").read_text())
    assert told["worlds"]["last-letter"]["overlays"] == ["last_letter"]
    assert {"last-letter"} <= set(told["presets"])
    assert {"last-letter-heads"} <= set(told["studies"])
    assert "which letter came last" in said


def test_it_trains_beside_its_rungs(run):
    last = json.loads((run.folder / "m.json").read_text())["history"][-4:]
    assert {row["seed"] for row in last} == {0, 1, 2, 3}
    for row in last:
        assert row["rung/law"] == 0 <= row["loss"] < row["rung/letters only"] < row["rung/uniform"]
        assert row["accuracy"] > 0.99


def test_analyzers_and_pictures_take_it(run):
    assert "4 models" in run("analyze", "variation", "m.safetensors", "--text", TEXT)
    run("heatmap", "m.safetensors", "--text", TEXT, "--overlay", "last_letter", "--out", "p.html")
    assert "the last letter" in (run.folder / "p.html").read_text()
    run("heatmap", "m.safetensors", "--text", TEXT, "--out", "usual.html")
    assert "the last letter" in (run.folder / "usual.html").read_text()


def test_a_claim_in_its_words_is_audited(run):
    claim = "L0H0 uses the last letter to tell the last letter when the current token is a dot"
    said = run("audit", "m.safetensors", "--claim", claim, "--json", "a.json")
    assert "supported in 4" in said  # of 4 seeds, which are too few for a word on all
    told = json.loads((run.folder / "a.json").read_text())
    assert told["claim"] == claim
    refuted = run("audit", "m.safetensors", "--claim", "L0H0 attends to the previous token")
    assert "In 0 of 4 seeds" in refuted


def test_its_report_is_written(run):
    run("report", "last-letter-heads", "--seeds", "2", "--steps", "60", "--workers", "1", "--out", "report")
    assert "Heads that tell the last letter" in (run.folder / "report" / "index.html").read_text()
    assert json.loads((run.folder / "report" / "results.json").read_text())["metrics"][0]["rung/uniform"] > 1


def test_it_is_short():
    """With its study and its questions."""
    files = sorted((ROOT / "examples" / "regular_language" / "regular_language").glob("*.py"))
    assert len(files) == 4
    assert sum(bool(line.strip()) for file in files for line in file.read_text().splitlines()) <= 150
