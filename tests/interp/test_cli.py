"""The command line: what it prints, its exit status, and that a wrong request costs one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interp.cli import main, worst_accuracy


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny population of two seeds, trained through the command line itself."""
    path = tmp_path_factory.mktemp("cli") / "tiny.safetensors"
    table = path.with_suffix(".json")
    status = main(
        [
            *"train dyck-minimal --seeds 2 --steps 6 --batch 4 --workers 1 --set eval_every=3".split(),
            *("--out", str(path), "--json", str(table)),
        ]
    )
    assert status == 0
    return path


def test_train_writes_a_checkpoint_and_its_table(checkpoint):
    data = json.loads(checkpoint.with_suffix(".json").read_text())
    assert data["recipe"]["settings"]["steps"] == 6
    assert {(row["seed"], row["step"]) for row in data["history"]} == {(s, t) for s in (0, 1) for t in (0, 3, 6)}
    assert not Path(f"{checkpoint}.run").exists()


def test_analyze_variation_prints_and_writes(checkpoint, tmp_path, capsys):
    out = tmp_path / "result.json"
    assert main(["analyze", "variation", str(checkpoint), "--json", str(out)]) == 0
    assert "Attention variation" in capsys.readouterr().out
    variation = json.loads(out.read_text())["variation"]
    assert len(variation) == 1
    assert set(variation[0]) >= {"value", "low", "high", "n", "over", "null"}


@pytest.mark.parametrize("extra", [[], ["--seed", "1"], ["--population", "mean"], ["--overlay", "none"]])
def test_heatmap_writes_a_page_without_network(checkpoint, tmp_path, extra):
    out = tmp_path / "map.html"
    assert main(["heatmap", str(checkpoint), "--text", "([])", "--out", str(out), *extra]) == 0
    text = out.read_text()
    assert "Plotly.newPlot" in text
    assert 'src="http' not in text


def test_list_names_presets_studies_and_bundled(tmp_path, capsys):
    out = tmp_path / "list.json"
    assert main(["list", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    data = json.loads(out.read_text())
    assert {"dyck-standard", "dyck-minimal"} <= set(data["presets"])
    assert {"dyck-standard", "dyck-minimal"} <= set(data["checkpoints"])
    for name in [*data["presets"], *data["studies"], *data["checkpoints"]]:
        assert name in printed


BAD_REQUESTS = {
    "unknown command": (["trian"], "trian"),
    "no command": ([], "COMMAND"),
    "unknown preset": (["train", "dyck-standrd"], "did you mean 'dyck-standard'"),
    "unknown option": (["train", "dyck-standard", "--set", "witdh=3"], "did you mean 'width'"),
    "not key=value": (["train", "dyck-standard", "--set", "width"], "key=value"),
    "option twice": (["train", "dyck-standard", "--set", "k=2", "--set", "k=3"], "twice"),
    "zero types": (["train", "dyck-standard", "--set", "k=0"], "num_types"),
    "text for a number": (["train", "dyck-standard", "--set", "depth=deep"], "deep"),
    "no such string": (["train", "dyck-standard", "--set", "max_length=1"], "max_length=1"),
    "bad choice": (["train", "dyck-standard", "--set", "positions=rotary"], "rotary"),
    "zero seeds": (["train", "dyck-standard", "--seeds", "0"], "'0'"),
    "bad device": (["train", "dyck-standard", "--device", "abacus"], "abacus"),
    "no folder": (["train", "dyck-standard", "--out", "/no/such/folder/x.safetensors"], "/no/such/folder"),
    "missing checkpoint": (["analyze", "variation", "nothing.safetensors"], "nothing.safetensors"),
    "unknown analyzer": (["analyze", "vibes", "dyck-standard"], "vibes"),
    "unknown study": (["report", "astrology", "--out", "x"], "astrology"),
    "unknown ending": (["heatmap", "dyck-standard", "--text", "()", "--out", "a.bmp"], ".html"),
    "no out": (["heatmap", "dyck-standard", "--text", "()"], "--out"),
    "missing seed": (["heatmap", "dyck-standard", "--text", "()", "--seed", "99", "--out", "a.html"], "99"),
    "missing layer": (["heatmap", "dyck-standard", "--text", "()", "--layer", "7", "--out", "a.html"], "7"),
    "unbalanced": (["heatmap", "dyck-standard", "--text", "(]", "--out", "a.html"], "position 1"),
    "too deep": (["heatmap", "dyck-standard", "--text", "((((((", "--out", "a.html"], "position 4"),
    "one file twice": (["train", "dyck-minimal", "--out", "a.x", "--json", "./a.x"], "two outputs"),
    "too large": (["train", "dyck-standard", "--set", "layers=1000000"], "n_layers=1000000"),
    "two sizes": (["report", "dyck-attention", "--quick", "--full", "--out", "x"], "--full"),
}


@pytest.mark.parametrize(("arguments", "quoted"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_wrong_request_gets_one_line_and_status_2(arguments, quoted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("interp: ")
    assert printed.err.count("\n") == 1
    assert quoted in printed.err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_file_that_is_no_checkpoint(tmp_path, capsys):
    path = tmp_path / "notes.safetensors"
    path.write_text("dear diary")
    assert main(["analyze", "variation", str(path)]) == 2
    assert "notes.safetensors" in capsys.readouterr().err


def test_light_commands_import_no_torch():
    code = (
        "import sys\nfrom interp.cli import main\n"
        "main(['list'])\nmain(['train', 'nonsense'])\nmain(['analyze', 'variation', 'nonsense'])\n"
        "heavy = {'torch', 'transformer_lens', 'plotly', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_module_form_and_help():
    done = subprocess.run([sys.executable, "-m", "interp", "--help"], capture_output=True, text=True, check=True)
    for command in ("train", "analyze", "heatmap", "report", "list"):
        assert command in done.stdout


def test_worst_accuracy_takes_the_last_row_of_each_seed():
    rows = [
        {"seed": 0, "step": 0, "argmax": 0.1, "mass": 0.2},
        {"seed": 0, "step": 9, "argmax": 0.9, "mass": None},
        {"seed": 1, "step": 9, "argmax": 0.8, "mass": 0.7},
    ]
    assert worst_accuracy({"history": rows}) == {"argmax": 0.8}
