"""The command line: what it prints, its exit status, and that a wrong request costs one line."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interp import load_checkpoint, save_checkpoint
from interp.cli import main
from interp.cli.commands import worst_measures
from interp.header import list_pretrained
from interp.numbers import written_number, written_whole
from interp.registry import list_worlds, presets
from interp.text import entry


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


def test_heatmap_shows_the_models_of_several_files_together(checkpoint, tmp_path, capsys):
    names = [str(tmp_path / f"{at}.safetensors") for at in (0, 1)]
    for model, name in zip(load_checkpoint(checkpoint), names, strict=True):
        save_checkpoint(model, name)
    out = tmp_path / "map.html"

    def drawn(*given):
        # Six steps of training are no model that does its task.
        assert main(["heatmap", *given, "--text", "([])", "--no-task-check", "--out", str(out)]) == 0
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|seed \d", "", out.read_text())

    grid = drawn(*names)
    assert grid == drawn(str(checkpoint))
    one, other = drawn(names[0]), drawn(names[1])
    assert len({grid, one, other, drawn(*names, "--population", "mean")}) == 4
    assert drawn(*names, "--seed", "1") == other
    assert main(["heatmap", *names, "--no-task-check", "--seed", "2", "--text", "([])", "--out", str(out)]) == 2
    assert "no seed 2 in" in capsys.readouterr().err
    assert main(["heatmap", names[0], "--population", "mean", "--text", "([])", "--out", str(out)]) == 2
    assert "is one model" in capsys.readouterr().err


@pytest.mark.parametrize(
    "extra",
    [[], ["--seed", "1"], ["--population", "mean"], "--overlay depth --overlay partner --null untrained".split()],
)
def test_heatmap_writes_a_page_without_network(checkpoint, tmp_path, extra):
    out = tmp_path / "map.html"
    assert main(["heatmap", str(checkpoint), "--text", "([])", "--out", str(out), *extra]) == 0
    text = out.read_text()
    assert "Plotly.newPlot" in text
    tags = re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", text, flags=re.DOTALL)  # scripts hold strings of their own
    assert len(tags) < len(text)
    assert 'src="http' not in tags


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
    "a beginning of a flag": (["train", "dyck-minimal", "--seed", "7"], "--seed 7 (did you mean --seeds?)"),
    "unknown preset": (["train", "dyck-standrd"], "did you mean 'dyck-standard'"),
    "unknown option": (["train", "dyck-standard", "--set", "witdh=3"], "did you mean 'width'"),
    "not key=value": (["train", "dyck-standard", "--set", "width"], "key=value"),
    "option twice": (["train", "dyck-standard", "--set", "k=2", "--set", "k=3"], "twice"),
    "zero types": (["train", "dyck-standard", "--set", "k=0"], "k=0"),
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
    "train into .pt": (["train", "dyck-minimal", "--out", "a.pt"], "'a.pt' is not a name for a checkpoint"),
    "train into no ending": (["train", "dyck-minimal", "--out", "a"], "ends in .safetensors"),
    "prune into .html": (["prune", "dyck-standard", "--out", "a.html"], "'a.html' is not a name for a checkpoint"),
    "too many seeds": (["train", "dyck-minimal", "--seeds", "9" * 25], "is more than 100000"),
    "huge": (["train", "dyck-minimal", "--set", "max_length=" + "9" * 23], "max_length"),
    "huge batch": (["train", "dyck-minimal", "--batch", "999999999999"], "batch=999999999999"),
    "bad bound unused by prefixes": (["train", "dyck-minimal", "--set", "data=prefix", "--set", "min_length=x"], "'x'"),
    "two lines": (["train", "dyck-minimal", "x\ny"], "x y"),
    "too large": (["train", "dyck-standard", "--set", "layers=1000000"], "layers=1000000"),
    "a CPU that is not there": (["analyze", "stack", "dyck-standard", "--device", "cpu:7"], "device 'cpu:7'"),
    "layer before the first": (
        ["heatmap", "dyck-standard", "--text", "()", "--layer", "-3", "--seed", "0", "--out", "a.html"],
        "layer=-3",
    ),
    "claim twice": (["audit", "dyck-standard", *["--claim", "L1H0 attends to START"] * 2], "is given twice"),
    "scan of nothing": (["scan"], "CHECKPOINT"),
    "scan of an unknown relation": (["scan", "dyck-minimal", "--relation", "stark-top"], "'stark-top' is not"),
    "scan without a grammar's truth": (["scan", "markov", "--relation", "stack-top"], "needs a grammar of brackets"),
    "scan of two shapes": (["scan", "constructed/stack", "markov"], "models measured together are of one"),
    "scan twice": (["scan", "dyck-minimal", "dyck-minimal"], "'dyck-minimal' is given twice"),
    "scan with a claim": (["scan", "dyck-minimal", "--claim", "L0H0 attends to START"], "--claim"),
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


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("usage: interp")
    assert not told.err


def test_module_form_and_help():
    done = subprocess.run([sys.executable, "-m", "interp", "--help"], capture_output=True, text=True, check=True)
    for command in ("train", "analyze", "audit", "scan", "heatmap", "report", "list"):
        assert command in done.stdout


def test_worst_measures_takes_the_last_row_of_each_seed():
    rows = [
        {"seed": 0, "step": 0, "argmax": 0.1, "mass": 0.2},
        {"seed": 0, "step": 9, "argmax": 0.9, "mass": None},
        {"seed": 1, "step": 9, "argmax": 0.8, "mass": 0.7},
    ]
    assert worst_measures({"history": rows, "grammar": {"kind": "dyck"}}) == {"argmax": 0.8}


# -- nothing lost, nothing overwritten unasked --------------------------------------------------------


@pytest.mark.parametrize("command", ["analyze variation {0} --json {0}", "heatmap {0} --text () --out {0}"])
def test_an_output_never_replaces_the_checkpoint_that_is_read(checkpoint, tmp_path, capsys, command):
    copy = tmp_path / "copy.html"
    copy.write_bytes(checkpoint.read_bytes())
    assert main(command.format(copy).split()) == 2
    assert "would destroy it" in capsys.readouterr().err
    assert copy.read_bytes() == checkpoint.read_bytes()


def test_the_default_output_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("dyck-minimal.safetensors").write_text("40 seeds")
    assert main(["train", "dyck-minimal", "--steps", "1"]) == 2
    assert "--out" in capsys.readouterr().err
    assert Path("dyck-minimal.safetensors").read_text() == "40 seeds"


def test_devices_pipes_and_links_are_not_replaced(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["list", "--json", str(tmp_path / "pipe")]) == 2
    assert "no regular file" in capsys.readouterr().err
    assert main(["analyze", "variation", str(tmp_path / "pipe")]) == 2  # and reading one does not hang
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert main(["list", "--json", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "target").read_text())["presets"]


def test_a_folder_with_other_things_in_it_is_never_taken_for_a_run(tmp_path, capsys):
    folder = tmp_path / "x.safetensors.run"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    request = "train dyck-minimal --steps 2 --batch 2 --seeds 1 --workers 1 --resume --out".split()
    assert main([*request, str(tmp_path / "x.safetensors")]) == 2
    assert "thesis.txt" in capsys.readouterr().err
    assert (folder / "thesis.txt").read_text() == "precious"


def test_resuming_what_is_finished_says_so(tmp_path, capsys):
    out = tmp_path / "x.safetensors"
    request = ["train", *"dyck-minimal --steps 2 --batch 2 --seeds 1 --workers 1 --out".split(), str(out)]
    assert main(request) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    assert main([*request, "--resume"]) == 0
    said = capsys.readouterr().out
    assert f"{out} was finished already" in said
    assert "wrote" not in said


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_a_request_to_terminate_ends_as_an_interruption(monkeypatch, tmp_path, capsys):
    """Else workers would outlive their parent, and nobody would hear of --resume."""

    def terminated(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("interp.training.run.train_population", terminated)
    assert main(["train", "dyck-minimal", "--out", str(tmp_path / "a.safetensors")]) == 1
    assert "interp: interrupted; the same command with --resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_files_in_the_current_folder_are_not_run_by_workers(tmp_path, monkeypatch):
    (tmp_path / "tqdm.py").write_text("raise SystemExit('a file of the user was run')")
    monkeypatch.chdir(tmp_path)
    assert main("train dyck-minimal --steps 2 --batch 2 --seeds 2 --workers 2 --out a.safetensors".split()) == 0


def test_an_unforeseen_failure_is_one_line_and_status_1(monkeypatch, capsys):
    def fail(_):
        raise MemoryError("two\nlines")

    monkeypatch.setattr("interp.cli.commands.list_all", fail)
    assert main(["list"]) == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "MemoryError: two lines" in printed
    monkeypatch.setenv("INTERP_DEBUG", "1")
    with pytest.raises(MemoryError):
        main(["list"])


@pytest.fixture(scope="module")
def topic_checkpoint(tmp_path_factory):
    """Two barely trained topic models."""
    path = tmp_path_factory.mktemp("cli") / "topics.safetensors"
    assert main([*"train topic-joint --seeds 2 --steps 3 --workers 1 --out".split(), str(path)]) == 0
    return path


@pytest.mark.parametrize("extra", [[], ["--matrix", "attention"], ["--matrix", "value"]])
@pytest.mark.slow
def test_analyze_topics_prints_and_writes(topic_checkpoint, tmp_path, capsys, extra):
    out, figure = tmp_path / "result.json", tmp_path / "figure.html"
    command = ["analyze", "topics", str(topic_checkpoint), "--json", str(out), "--figure", str(figure), *extra]
    assert main(command) == 0
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
    data = json.loads(out.read_text())
    for name in ("contrast", "diagonality", "ari"):
        assert set(data[name]) >= {"value", "low", "high", "n", "over", "null"}
    assert 0 < data["p_value"] <= 1
    assert figure.stat().st_size > 1000


def test_other_commands_on_topic_models(topic_checkpoint, tmp_path, capsys):
    assert main(["analyze", "variation", str(topic_checkpoint)]) == 0
    out = tmp_path / "map.html"
    assert main(["heatmap", str(topic_checkpoint), "--text", "t0w0 t1w1 [MASK]", "--out", str(out)]) == 0
    capsys.readouterr()


def test_the_list_fits_a_terminal_and_names_everything_once(capsys):
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    for name in (*presets(), *list_pretrained(), *list_worlds()):
        assert re.search(rf"^  {re.escape(name)}( |$)", said, re.M), name


def test_a_long_name_stands_on_a_line_of_its_own():
    assert entry("a", "one two", 8) == ["  a     one two"]
    assert entry("abcdef", "one", 8) == ["  abcdef", "        one"]
    assert entry("abcde", "one", 8) == ["  abcde one"]
    assert entry("", "x" * 60 + " " + "y" * 20) == [" " * 23 + "x" * 57, " " * 23 + "xxx " + "y" * 20]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stacktop", "did you mean 'stack_top'? those of dyck"),
        ("nope", "is none that a world has: those of dyck are stack_top, partner, depth, or none"),
        ("zzz", "those of dyck are stack_top, partner, depth, or none"),
    ],
)
def test_an_overlay_that_no_world_has_is_refused_with_the_nearest(name, said, capsys, tmp_path):
    out = ["--text", "()", "--out", str(tmp_path / "a.html")]
    assert main(["heatmap", "dyck-minimal", "--overlay", name, *out]) == 2
    assert said in capsys.readouterr().err
    assert main(["heatmap", "dyck-minimal", "--overlay", "subject", *out]) == 2
    assert "DyckGrammar has the overlays stack_top, partner, depth" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        (["analyze", "balance"], "is for models of dyck"),
        (["analyze", "stack"], "is for models of dyck"),
        (["analyze", "balance", "--matrix", "value"], "--matrix"),
        (["analyze", "topics", "--text", "t0w0"], "--text"),
        (["heatmap", "--text", "t0w0 (", "--out", "x.html"], "'('"),
        (["heatmap", "--text", "t0w0", "--overlay", "stack_top", "--out", "x.html"], "stack_top"),
    ],
)
def test_what_topic_models_do_not_have(topic_checkpoint, arguments, quoted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = 2 if arguments[0] == "analyze" else 1
    status = main([*arguments[:where], str(topic_checkpoint), *arguments[where:]])
    printed = capsys.readouterr()
    assert status == 2, printed
    assert printed.err.count("\n") == 1
    assert quoted in printed.err


def test_topics_of_a_bracket_model(checkpoint, capsys):
    assert main(["analyze", "topics", str(checkpoint)]) == 2
    assert "is of dyck" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["constructed/stack", "constructed/balanced"])
@pytest.mark.slow
def test_constructed_models_from_the_command_line(name, tmp_path, capsys):
    assert main(["analyze", "stack", name]) == 0
    assert "Stack-likeness" in capsys.readouterr().out
    assert main(["heatmap", name, "--text", "([])", "--out", str(tmp_path / "map.html")]) == 0
    assert main(["analyze", "topics", name]) == 2
    assert "is of dyck" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "where", "said"),
    [
        ("train dyck-minimal --out a.safetensors", "interp.training.run.train_population", "with --resume continues"),
        ("report topics --out b", "case_studies.study.Study.run", "the same command again keeps what was trained"),
        ("prune dyck-standard --out c.safetensors", "probes.lottery.demonstrate_lottery_ticket", ""),
        ("analyze stack dyck-standard", "probes.stack.analyze_stack_likeness", ""),
    ],
)
def test_an_interruption_names_a_way_on_where_there_is_one(arguments, where, said, monkeypatch, tmp_path, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupt)
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("interp: interrupted")
    assert said in error
    assert ("--resume" in error) == ("train" in arguments)
    assert said or error == "interp: interrupted\n"
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize(
    "written", ["１", "２０", "2_0", "0x2", " 2", "2 ", "+ 2", "²", "1e", "--2", "inf", "nan", "1e999"]
)
@pytest.mark.slow
def test_numbers_are_read_by_one_rule_everywhere(written, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train = ["train", "dyck-minimal"]
    heatmap = ["heatmap", "dyck-standard", "--text", "()", "--out", "a.html"]
    flags = [
        *([*train, f"--{name}={written}"] for name in ("seeds", "first-seed", "steps", "batch", "workers", "snapshot")),
        *([*train, "--set", f"{name}={written}"] for name in ("k", "lr", "max_length", "open_prob")),
        *([*heatmap, f"--{name}={written}"] for name in ("layer", "head", "seed")),
        ["analyze", "stack", "dyck-standard", f"--seed={written}"],
        ["prune", "dyck-standard", f"--candidates={written}", "--out", "a.safetensors"],
        ["audit", "--bench", f"--per-family={written}"],
    ]
    for arguments in flags:
        assert main(arguments) == 2, arguments
        assert repr(written) in capsys.readouterr().err, arguments
    assert main(["audit", "dyck-standard", "--claim", f"L{written}H0 attends to START"]) == 2
    monkeypatch.setenv("INTERP_MEMORY_GB", written)
    assert main(["analyze", "stack", "dyck-standard"]) == 2
    assert "INTERP_MEMORY_GB" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("9" * 23, 10**23 - 1)])
def test_whole_numbers_are_read(text, value):
    assert written_whole(text) == value


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e-3", 1e-3), ("-2E+1", -20.0)])
def test_numbers_are_read(text, value):
    assert written_number(text) == value
    assert written_whole(text) is None


def test_layers_and_heads_are_counted_from_the_end_as_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    heatmap = ["heatmap", "dyck-standard", "--text", "()", "--seed", "0"]
    for name, layer, head in (("a", "-1", "-1"), ("b", "1", "0")):
        assert main([*heatmap, "--layer", layer, "--head", head, "--out", f"{name}.html"]) == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_every_command_takes_one_model_of_a_population_by_its_seed(tmp_path, capsys):
    """`--seed` is what most commands draw with, and of a heatmap which model; `--model-seed` is one way for all."""
    own = {
        "scan": ("facts", "--num-inputs", "40", "--relation", "subject"),
        "audit": ("facts", "--num-inputs", "40", "--claim", "L0H0 attends to the subject"),
        "analyze": ("drift", "flipflop-1l1h"),
    }
    for command, more in own.items():
        file = tmp_path / f"{command}.json"
        assert main([command, *more, "--model-seed", "3", "--json", str(file)]) == 0
        told = json.loads(file.read_text())
        assert told["of"]["checkpoint"]["models"] == 1
        assert told["of"]["checkpoint"]["files"][0]["seeds"] == [3]
    assert "1 model, " in capsys.readouterr().out
    pages = [tmp_path / "one.html", tmp_path / "other.html"]
    for page, flag in zip(pages, ("--seed", "--model-seed"), strict=True):
        assert main(["heatmap", "flipflop-1l1h", flag, "3", "--text", "1 . 0", "--out", str(page)]) == 0
    one, other = (re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "", page.read_text()) for page in pages)
    assert one == other
    assert main(["scan", "facts", "--model-seed", "99"]) == 2
    assert "no seed 99 in 'facts'; seeds are [0, 1, 2, 3, 4, 5, 6, 7]" in capsys.readouterr().err
    assert main(["analyze", "drift", "constructed/flipflop-reader", "--model-seed", "0"]) == 2
    assert "--model-seed 0 changes nothing here: it chooses a model of a population" in capsys.readouterr().err
