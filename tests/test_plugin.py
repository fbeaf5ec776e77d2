"""The world of examples/regular_language, installed as other people's packages are: everything takes it up.

Training runs in a process that starts with the package installed. The other commands run in this one, which finds it
when it looks again: each process of its own would import everything once more.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from interp import plugins
from interp.cli import main

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
    told = subprocess.run(
        [sys.executable, "-m", "interp", *"train last-letter --seeds 4 --workers 1".split(),
         "--out", "m.safetensors", "--json", "m.json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr

    def interp(*words):
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = main(list(words))
        assert status == 0, errors.getvalue()
        return out.getvalue()

    interp.folder = folder
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "site")
        patch.chdir(folder)
        plugins.refresh()
        yield interp
    plugins.refresh()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


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
