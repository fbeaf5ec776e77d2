"""The benchmarks run on tiny sizes and write what the table reads. No time is asserted."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
NAMES = ("step", "study", "worlds", "evaluation", "balance", "analyzers", "audits", "batches")
OWN = {
    "step": {"matmul_rate", "profile", "reached"},
    "study": {"studies", "released_cpu_s_a_seed", "goal"},
    "worlds": {"trained"},
    "evaluation": {"share", "shared"},
    "balance": {"largest_relative_difference"},
    "analyzers": {"per_cpu_second"},
    "audits": {"early", "scans"},
    "batches": {"runs", "goal"},
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


def run(name, *arguments):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), *arguments], capture_output=True, text=True, env=env
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_smoke_run_writes_its_keys(name, tmp_path):
    out = tmp_path / "out.json"
    committed = {p: p.read_bytes() for p in FOLDER.glob("*.json")}
    done = run(name, "--quick", "--json", str(out))
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert set(result) == {"benchmark", "quick", "machine", "rows", *OWN[name]}
    assert result["benchmark"] == name
    assert result["quick"]
    assert bool(result["rows"]) == (name != "batches")
    for row in result["rows"]:
        assert set(row) - {"seconds"} == {"what", "reference", "unit", "cpu", "wall", "pairs", "target"}
        for part in ("cpu", "wall"):
            assert set(row[part]) == {"ours", "reference", "ratio", "least", "largest"}
            assert row[part]["least"] <= row[part]["ratio"] <= row[part]["largest"]
    assert {p: p.read_bytes() for p in FOLDER.glob("*.json")} == committed, "a smoke run must not overwrite results"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("step", "--device", "meta"), "device 'meta' is not usable here"),
        (("balance", "--device", "cpu"), "unrecognized arguments: --device"),
        (("balance", "--pairs", "0"), "--pairs 0 is not a count of at least 1"),
        (("study", "--pairs", "3"), "unrecognized arguments: --pairs"),
        (("step", "--json", "nowhere/at/all.json"), "cannot write 'nowhere/at/all.json': No such file"),
        (("step", "--json", "."), "cannot write '.': it is a folder"),
        (("step", "--json", "/dev/full"), "cannot write '/dev/full'"),
    ],
)
@pytest.mark.slow
def test_arguments_are_checked_before_anything_is_measured(arguments, said, monkeypatch, capsys):
    name, *flags = arguments
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *flags])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_a_device_has_a_file_of_its_own_and_is_judged_by_the_clock(monkeypatch, capsys, tmp_path):
    """What the GPU did must not overwrite what the CPU did, nor count as its time."""
    harness = load("harness")
    monkeypatch.setattr(harness, "HERE", tmp_path)
    monkeypatch.setattr(harness, "usable_device", lambda device: device)
    monkeypatch.setattr(harness, "machine", lambda device: {"device": "H100" if device == "cuda:0" else device})
    cpu, wall = (harness.Time(r, 1.0, r, r, r) for r in (0.1, 0.7))
    rows = [harness.Row("a", "r", "u", cpu, wall, 5, 0.6)]
    for device in ("cpu", "cuda:0"):
        monkeypatch.setattr(sys, "argv", ["step.py", "--device", device])
        harness.main("step", "Doc.", lambda arguments: {"rows": rows})
    assert {p.name for p in tmp_path.iterdir()} == {"step.json", "step-cuda.json"}
    assert harness.time_of(rows[0], "cpu") == cpu
    assert harness.time_of(rows[0], "cuda:0") == wall
    printed = capsys.readouterr().out
    assert "a: 0.1 cpu s u, r 1; ratio 0.1 [0.1, 0.1], wall 0.7  target 0.6" in printed
    assert "a: 0.7 wall s u, r 1; ratio 0.7 [0.7, 0.7], cpu 0.1  target 0.6" in printed


def row(what, ratio, target=None, wall=None, largest=None):
    time = {"ours": ratio, "reference": 1.0, "ratio": ratio, "least": ratio, "largest": largest or ratio}
    wall = {**time, "ratio": 2 * ratio if wall is None else wall}
    return {"what": what, "reference": "r", "unit": "u", "cpu": time, "wall": wall, "pairs": 5, "target": target}


def test_what_fell_by_more_than_a_fifth_is_named():
    harness = load("harness")
    machine = {"machine": {"device": "cpu"}}
    old = {**machine, "rows": [row("a", 0.5), row("b", 0.5), row("gone", 1.0)]}
    new = {**machine, "rows": [row("a", 0.61), row("b", 0.59), row("new", 9.0)]}
    assert [line.split(":")[1].strip() for line in harness.fallen(old, new)] == ["a"]
    assert "nothing" in harness.fallen(old, old)[0]
    assert "not compared" in harness.fallen({**old, "machine": {"device": "H100"}}, new)[0]
    machine = {"machine": {"device": "H100"}}  # by the clock: the CPU's time is not the device's
    old = {**machine, "rows": [row("a", 0.5, wall=0.5), row("b", 0.5, wall=0.5)]}
    new = {**machine, "rows": [row("a", 0.9, wall=0.5), row("b", 0.5, wall=0.9)]}
    assert [line.split(":")[1].strip() for line in harness.fallen(old, new)] == ["b"]
    text = {**machine, "rows": [{"what": "a", "wall": {"ratio": "fast"}}]}
    for damaged in (None, [], {}, {"rows": []}, {**machine, "rows": [{"what": "a"}]}, text):
        assert harness.fallen(damaged, new) == ["there are no committed numbers that can be read: not compared"]


def repository(folder):
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)


def commit(folder):
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for call in (["add", "-A"], ["commit", "-qm", "numbers"]):
        subprocess.run([*git, *call], check=True)


def test_what_is_committed_is_what_git_has(tmp_path):
    """A run writes its file; the next must still be compared with what was committed."""
    harness = load("harness")
    path = tmp_path / "benchmarks" / "step.json"
    path.parent.mkdir()
    assert harness.committed(path) is None
    path.write_text('{"rows": 1}')
    assert harness.committed(path) == {"rows": 1}, "no git here: the file is all there is"
    repository(tmp_path)
    assert harness.committed(path) == {"rows": 1}, "nothing is committed"
    commit(tmp_path)
    path.write_text('{"rows": 2}')
    subprocess.run(["git", "-C", str(tmp_path), "add", "-A"], check=True)
    path.write_text('{"rows": 3}')
    assert harness.committed(path) == {"rows": 1}
    path.write_text('{"rows":')
    commit(tmp_path)
    assert harness.committed(path) is None
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    assert harness.committed(tmp_path / "binary.json") is None


def test_the_results_own_file_is_checked_before_anything_is_measured(monkeypatch, capsys, tmp_path):
    harness = load("harness")
    monkeypatch.setattr(harness, "HERE", tmp_path)
    (tmp_path / "step.json").mkdir()
    monkeypatch.setattr(sys, "argv", ["step.py"])
    with pytest.raises(SystemExit):
        harness.main("step", "Doc.", lambda arguments: pytest.fail("measured"))
    assert "it is a folder" in capsys.readouterr().err


def test_runs_are_compared_with_git_and_never_lost(monkeypatch, capsys, tmp_path):
    harness = load("harness")
    monkeypatch.setattr(harness, "HERE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["step.py"])

    def measured(ratio):
        time = harness.Time(ratio, 1.0, ratio, ratio, ratio)
        harness.main("step", "Doc.", lambda arguments: {"rows": [harness.Row("a", "r", "u", time, time, 5)]})
        return capsys.readouterr().out

    assert "no committed numbers that can be read" in measured(0.5)
    repository(tmp_path)
    commit(tmp_path)
    assert "nothing is slower" in measured(0.5)
    for _ in range(2):  # the second as well: it is not compared with the first
        assert "SLOWER: a: ratio to r 0.5 -> 0.7" in measured(0.7)
    (tmp_path / "step.json").write_text("[")
    commit(tmp_path)
    assert "no committed numbers that can be read" in measured(0.6)
    assert json.loads((tmp_path / "step.json").read_text())["rows"][0]["cpu"]["ratio"] == 0.6


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


@pytest.mark.slow
def test_a_study_that_fails_says_why():
    study = load("study")
    with pytest.raises(SystemExit, match=r"the study 'dyck-nothing' ended with 1: .*no preset 'dyck-nothing'"):
        study.in_its_own_process("dyck-nothing", {}, 1, 1, "cpu")


# ---- where a step's time goes ----------------------------------------------------------------------


def event(name, parent=None, number=-1, time=0.0):
    return types.SimpleNamespace(name=name, cpu_parent=parent, sequence_nr=number, self_cpu_time_total=time)


def test_a_gradient_belongs_to_the_part_of_its_operation():
    parts = load("parts")
    loss = event("part: loss")
    norm, attention = event("part: norms", loss), event("part: attention", loss)
    backward = [event("autograd::engine::evaluate_function: X", None, number) for number in (3, 8, 11)]
    events = [
        loss,
        norm,
        event("aten::mul", norm, 3, 1.0),
        attention,
        event("aten::bmm", attention, 7, 2.0),
        event("aten::sub", loss, 10, 4.0),
        *backward,
        event("aten::mul", backward[0], -1, 8.0),
        event("aten::bmm", backward[1], -1, 16.0),  # number 8: a view came before the product's own node
        event("aten::neg", backward[2], -1, 32.0),
        event("aten::addcdiv_", event("Optimizer.step#AdamW.step"), -1, 1.0),
    ]
    found = parts.by_part(events)
    spent = {part: round(64 * share, 6) for part, share in found["all"].items() if share}
    assert spent == {"norms": 9, "attention": 18, "loss": 36, "optimizer and the rest": 1}
    assert {part: round(64 * share, 6) for part, share in found["products"].items() if share} == {"attention": 18}


@pytest.mark.slow
def test_a_steps_parts_add_up_and_every_part_takes_time():
    from interp.presets import make_recipe

    parts = load("parts")
    found = parts.shares(make_recipe("dyck-standard", {"eval_every": 1000}, batch=4), steps=2)
    assert sum(found["all"].values()) == pytest.approx(1)
    assert all(0.001 < share < 0.9 for share in found["all"].values()), found["all"]
    products = {part for part, share in found["products"].items() if share}
    assert products == {"attention", "MLPs", "embedding, unembedding, residual sums"}


@pytest.mark.parametrize(("preset", "options"), [("dyck-minimal", {"compute": "counts"}), ("topic-full", {})])
def test_steps_that_go_around_the_parts_are_refused(preset, options):
    from interp.errors import RequestError
    from interp.presets import make_recipe

    with pytest.raises(RequestError, match=f"'{preset}' does not run the model's parts"):
        load("parts").shares(make_recipe(preset, options))


# ---- tables ----------------------------------------------------------------------------------------


def test_the_readme_holds_what_the_results_say():
    tables = load("tables")
    text = tables.README.read_text(encoding="utf-8")
    results, elsewhere = tables.load()
    assert set(results) == set(NAMES)
    assert tables.rewrite(text, tables.block(results, elsewhere)) == text, "run python benchmarks/tables.py"
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == tables.whole(results, elsewhere), (
        "run python benchmarks/tables.py"
    )


def test_another_devices_numbers_stand_beside_and_by_wall_time():
    tables = load("tables")
    results, _ = tables.load()
    step = {**results["step"], "machine": {**results["step"]["machine"], "device": "H100"}, "profile": {}}
    step["rows"] = [row("equal rows, batch 16, S=40", 0.5, 0.6)]  # met by CPU time, not by the clock
    elsewhere = {"step-cuda": step}
    assert "; a training step of 40 models at batch 16 (wall time, H100). " in tables.block(results, elsewhere)
    assert "equal rows, batch 16, S=40" not in tables.block(results, {})
    page = tables.whole(results, elsewhere)
    assert "### step on H100\n\nRatios of wall time" in page
    assert "No GPU was at hand" not in page
    assert "No GPU was at hand" in tables.whole(results, {})
    assert page.index("## step") < page.index("### step on H100") < page.index("## study")
    study = {**results["study"], "machine": step["machine"]}
    told = tables.whole(results, {"study-cuda": study}).split("### study on H100")[1].split("##")[0]
    assert "s per seed by the clock; peak memory" in told
    assert "CPU s per seed" not in told, "what the CPU did is not what the device did"


def test_tables_are_made_whole_or_not_at_all(monkeypatch, tmp_path, capsys):
    tables = load("tables")
    for path in [*FOLDER.glob("*.json"), FOLDER / "README.md"]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    readme = tmp_path / "top.md"
    readme.write_text(f"x\n{tables.BEGIN}\nold\n{tables.END}\ny")
    monkeypatch.setattr(tables, "HERE", tmp_path)
    monkeypatch.setattr(tables, "README", readme)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tables.py", *arguments])
        tables.main()
        return capsys.readouterr().out

    with pytest.raises(SystemExit, match=r"top.md is not what the JSON files say"):
        run("--check")
    assert "old" in readme.read_text()
    assert run() == f"wrote {readme}\n"
    assert run("--check") == ""
    (tmp_path / "README.md").write_text("old")
    (tmp_path / "study.json").unlink()
    with pytest.raises(SystemExit, match=r"study.json is missing: run python benchmarks/study.py first"):
        run()
    assert (tmp_path / "README.md").read_text() == "old"
    for text, said in (("{bad", "is damaged"), ("[]", "is damaged"), ('{"quick": true}', "is of a smoke run")):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(SystemExit, match=f"benchmarks/study.json {said}"):
            run("--check")


def test_batches_are_doubled_until_every_seed_is_there(monkeypatch):
    harness, batches = load("harness"), load("batches")
    drawn = []

    def trained(recipe, seeds, **_):
        drawn.append((recipe.settings.batch, recipe.settings.steps))
        accuracy = 0.98 if recipe.settings.steps * recipe.settings.batch >= 20_000 else 0.96
        rows = [dict.fromkeys(batches.RULES, 0.99) for _ in range(seeds)]
        rows[-1]["mass"] = accuracy
        return types.SimpleNamespace(final_metrics=lambda: rows, timing={"training_cpu_s_per_seed": 1.0})

    monkeypatch.setattr(batches, "train_population", trained)
    found = batches.runs_of(16, harness.Arguments(quick=False, device="cpu", pairs=5))
    assert drawn == [(16, 375), (16, 750), (16, 1500)]
    assert [run["seeds_at_goal"] for run in found] == [9, 9, 10]
    assert [run["worst_accuracy"] for run in found] == [0.96, 0.96, 0.98]
    told = load("tables").batches_table({"goal": 0.97, "runs": found})
    assert "| 16 | 24000 | 1500 | 1 | 10 of 10 | 0.980 |" in told


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ({5}, "the median of 5 pairs [least, largest]"),
        ({1}, "where a run is long, it is one, beside the other before and after it"),
        ({1, 3, 5}, "the median of 3 or 5 pairs [least, largest]; where a run is long, it is one"),
    ],
)
def test_tables_say_how_many_pairs_were_run(pairs, said):
    assert load("tables").many(pairs).startswith(said)


def test_the_tables_markers_and_targets():
    tables = load("tables")
    assert "not met" in tables.row_of(row("a", 0.6, 0.5), "cpu")
    assert ": met" in tables.row_of(row("a", 0.4, 0.5), "cpu")
    assert "not met" in tables.row_of(row("a", 0.4, 0.5), "wall")
    assert "≤ 0.5: met by the median" in tables.row_of(row("a", 0.4, 0.5, largest=0.6), "cpu")
    assert "≤ 0.5: met |" in tables.row_of(row("a", 0.4, 0.5, largest=0.5), "cpu")
    text = f"x\n{tables.BEGIN}\nold\n{tables.END}\ny"
    assert tables.rewrite(text, "new") == f"x\n{tables.BEGIN}\nnew\n{tables.END}\ny"
    with pytest.raises(SystemExit, match="markers"):
        tables.rewrite("no markers", "new")


@pytest.mark.parametrize(
    ("first", "said"), [(400, "goal from step 400 of 800 on"), (None, "goal at none of 800 steps")]
)
def test_a_study_says_whether_and_when_every_seed_is_at_the_goal(first, said):
    times = dict.fromkeys(("cpu_s_a_seed", "training_cpu_s_a_seed", "evaluation_cpu_s_a_seed", "evaluation_share"), 0.1)
    rest = {"peak_memory_gb": 0.7, "worst_accuracy": {"mass": 0.96}, "probes_cpu_s_a_seed": {"balance": 0.1}}
    line = load("tables").study_line(
        "study x", {**times, **rest, "all_seeds_at_goal_from_step": first, "steps": 800}, "cpu"
    )
    assert line.endswith(said)


@pytest.mark.parametrize(
    ("seconds", "least", "said"),
    [(5.0, 0.99, "met"), (5.1, 0.99, "not met"), (5.0, 0.98, "not met")],
)
def test_a_world_is_at_its_target_only_in_time_and_in_every_seed(seconds, least, said):
    aim = load("worlds").Aim("recall", 5.0, "accuracy", least=0.99)
    found = {"cpu_s_a_seed": seconds, "cpu_s_a_seed_asked": aim.seconds, "metric": aim.metric, "steps": 300}
    ends = {"least": least, "largest": 1.0, "all_seeds_there": aim.reached([least, 1.0])}
    line = load("tables").world_line("world recall, S=2", {**found, **ends})
    assert f"(asked: at most 5, {said})" in line
    assert ("not every seed" in line) == (least < 0.99)


def test_a_target_may_be_an_upper_bound():
    aim = load("worlds").Aim("markov", 10.0, "over_bigram", most=0.02)
    assert aim.reached([0.01, 0.02])
    assert not aim.reached([0.01, 0.021])
    assert load("worlds").value_of("over_bigram", {"loss": 0.91, "rung/bigram": 0.9}) == pytest.approx(0.01)
