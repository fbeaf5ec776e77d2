"""The benchmarks run on tiny sizes and write what the table reads. No time is asserted."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
NAMES = ("step", "study", "evaluation", "balance", "analyzers")
OWN = {
    "step": {"matmul_rate", "profile", "reached"},
    "study": {"studies", "released_cpu_s_a_seed", "goal"},
    "evaluation": {"share"},
    "balance": {"largest_relative_difference"},
    "analyzers": {"per_cpu_second"},
}


@pytest.fixture(scope="module", autouse=True)
def modules():
    """`harness` and `tables`, which are scripts' neighbours and in no package."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_a_smoke_run_writes_its_keys(name, tmp_path):
    out = tmp_path / "out.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    committed = {p: p.read_bytes() for p in FOLDER.glob("*.json")}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--quick", "--json", str(out)],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert set(result) == {"benchmark", "quick", "machine", "rows", *OWN[name]}
    assert result["benchmark"] == name
    assert result["quick"]
    assert result["rows"]
    for row in result["rows"]:
        assert set(row) == {"what", "reference", "unit", "cpu", "wall", "pairs", "target"}
        for part in ("cpu", "wall"):
            assert set(row[part]) == {"ours", "reference", "ratio", "least", "largest"}
            assert row[part]["least"] <= row[part]["ratio"] <= row[part]["largest"]
    assert {p: p.read_bytes() for p in FOLDER.glob("*.json")} == committed, "a smoke run must not overwrite results"


def row(what, ratio, target=None):
    time = {"ours": ratio, "reference": 1.0, "ratio": ratio, "least": ratio, "largest": ratio}
    return {"what": what, "reference": "r", "unit": "u", "cpu": time, "wall": time, "pairs": 5, "target": target}


def test_what_fell_by_more_than_a_fifth_is_named():
    harness = load("harness")
    machine = {"machine": {"device": "cpu"}}
    old = {**machine, "rows": [row("a", 0.5), row("b", 0.5), row("gone", 1.0)]}
    new = {**machine, "rows": [row("a", 0.61), row("b", 0.59), row("new", 9.0)]}
    assert [line.split(":")[1].strip() for line in harness.fallen(old, new)] == ["a"]
    assert "nothing" in harness.fallen(old, old)[0]
    assert "not compared" in harness.fallen({**old, "machine": {"device": "H100"}}, new)[0]


def test_programs_run_in_turn_and_ratios_are_of_pairs():
    harness = load("harness")
    ran = []
    arguments = harness.Arguments(quick=False, device="cpu", pairs=3)
    (found,) = harness.compare(
        {"a": (lambda: ran.append("a"), 2.0)}, ("ref", lambda: ran.append("ref"), 1.0), "u", arguments, {"a": 0.5}
    )
    assert ran == ["a", "ref"] * 4, "one run of each that is not counted, then pairs"
    assert found.target == 0.5
    assert harness._time([1, 2, 9], [1, 1, 3]).ratio == 2
    assert harness._time([1, 2, 9], [1, 1, 3]).largest == 3


def test_the_readme_holds_what_the_results_say():
    tables = load("tables")
    text = tables.README.read_text(encoding="utf-8")
    results = tables.load()
    assert set(results) == set(NAMES)
    assert tables.rewrite(text, tables.block(results)) == text, "run python benchmarks/tables.py"
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == tables.whole(results), (
        "run python benchmarks/tables.py"
    )


def test_the_tables_markers_and_targets():
    tables = load("tables")
    assert "not met" in tables.row_of(row("a", 0.6, 0.5))
    assert ": met" in tables.row_of(row("a", 0.4, 0.5))
    text = f"x\n{tables.BEGIN}\nold\n{tables.END}\ny"
    assert tables.rewrite(text, "new") == f"x\n{tables.BEGIN}\nnew\n{tables.END}\ny"
    with pytest.raises(SystemExit, match="markers"):
        tables.rewrite("no markers", "new")
