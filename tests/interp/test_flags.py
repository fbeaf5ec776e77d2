"""Every flag of every command: another value changes what is done, or is refused by name.

The parser itself says which flags there are: a new one without an entry fails. What takes long is replaced by a
recorder; what it is called with, what is printed and which files appear are the outcome.
"""

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from case_studies.registry import find_studies
from case_studies.study import Study
from interp import SandboxTransformer, TransformerConfig
from interp.cli import main
from interp.cli.flags import TABLE, rules
from interp.cli.parser import make_parser
from interp.worlds.dyck import task as objective
from probes import analyze_two_stages
from sizes import hold_out_few
from walk import fingerprint

FOREIGN = {
    "n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_mlp": 4, "act_fn": "relu", "n_ctx": 8, "d_vocab": 4,
}  # fmt: skip
# A relation of one's own comes before the built-in one of these words.
MINE = """
from probes import Relation
RELATIONS = [Relation("mine", "the previous token", "mass", "tokens", lambda tokens, grammar, visible: visible.copy())]
"""
CLAIM, OTHER = "L0H0 attends to the previous token", "L0H0 attends to START"


class Result:
    """Of whatever is recorded: says what was asked."""

    def __init__(self, told, verdict="supported"):
        self.told, self.verdict = told, verdict
        self.model = SandboxTransformer(TransformerConfig(7, n_layers=1, d_model=4, d_head=4, d_mlp=4))

    def __repr__(self):
        return self.told

    def summary(self):
        return self.told

    def to_dict(self):
        return {"told": self.told}

    def figure(self):
        return go.Figure(layout={"title": self.told})


@dataclass
class Case:
    """A command line, and the same with the flag (or the positional argument) changed.

    - `refused`: how the second is refused; None: it is not.
    """

    plain: str
    changed: str
    refused: str | None = None


TRAIN = "train dyck-minimal --steps 2 --batch 2 --seeds 1 --workers 1 --out a.safetensors"
TRAINED = "audit --bench trained"
ANALYZE, AUDIT = "analyze variation dyck-minimal", "audit dyck-minimal --claims claims.txt"
SCAN = "scan dyck-minimal"
HEATMAP = "heatmap dyck-minimal --text () --out a.html"
PRUNE = "prune dyck-minimal --out a.safetensors"
REPORT = "report --out a topics"
THEIRS = "weights.pt --model-config config.json"
STUDIES = find_studies().found
CASES = {
    ("train", "preset"): [Case(TRAIN, TRAIN.replace("minimal", "minimal-sum"))],
    ("train", "seeds"): [Case(TRAIN, f"{TRAIN} --seeds 2")],
    ("train", "first_seed"): [Case(TRAIN, f"{TRAIN} --first-seed 3")],
    ("train", "steps"): [Case(TRAIN, f"{TRAIN} --steps 3")],
    ("train", "batch"): [
        Case(TRAIN, f"{TRAIN} --batch 3"),
        Case(
            "train topic-value --set law=idealised --set data=exact --steps 2 --workers 1 --seeds 1",
            "train topic-value --set law=idealised --set data=exact --steps 2 --workers 1 --seeds 1 --batch 3",
            "batch=3 changes nothing here: data='exact'",
        ),
    ],
    ("train", "out"): [Case(TRAIN, f"{TRAIN} --out b.safetensors")],
    ("train", "resume"): [Case(f"{TRAIN} --out old.safetensors --seeds 2", f"{TRAIN} --out old.safetensors --resume")],
    ("train", "workers"): [
        Case(TRAIN, f"{TRAIN} --workers 0", "--workers: '0'"),
        Case(TRAIN, f"{TRAIN} --device cuda", "--workers 1 changes nothing here: with --device cuda"),
    ],
    ("train", "device"): [Case(TRAIN, f"{TRAIN.replace('--workers 1', '')} --device abacus", "device 'abacus'")],
    ("train", "json"): [Case(TRAIN, f"{TRAIN} --json b.json")],
    ("train", "options"): [
        Case(TRAIN, f"{TRAIN} --set k=3"),
        Case(TRAIN, f"{TRAIN} --set data=prefix --set max_length=100", "max_length=100 changes nothing here"),
        Case(TRAIN, f"{TRAIN} --set k=three", "k='three' is not a whole number"),
    ],
    ("train", "tensorboard"): [
        Case(TRAIN, f"{TRAIN} --tensorboard b", None if find_spec("tensorboard") else "needs the package tensorboard"),
    ],
    ("train", "wandb"): [Case(TRAIN, f"{TRAIN} --wandb b", "needs the package wandb")],
    ("train", "snapshot"): [Case(TRAIN, f"{TRAIN} --snapshot 1")],
    ("analyze", "analyzer"): [Case(ANALYZE, ANALYZE.replace("variation", "balance"))],
    ("analyze", "checkpoints"): [
        Case(ANALYZE, "analyze variation constructed/stack"),
        Case(ANALYZE, f"{ANALYZE} dyck-minimal", "checkpoint 'dyck-minimal' is given twice"),
        Case(ANALYZE, f"{ANALYZE} one.safetensors"),
    ],
    ("analyze", "model_config"): [
        Case(f"analyze variation {THEIRS}", f"analyze variation {THEIRS.replace('config', 'other')}".replace(
            "--model-other", "--model-config")),
    ],
    ("analyze", "vocab"): [
        Case(f"analyze variation {THEIRS}", f"analyze variation {THEIRS} --vocab vocab.json"),
        Case(ANALYZE, f"{ANALYZE} --vocab vocab.json", "--vocab 'vocab.json' changes nothing here"),
    ],
    ("analyze", "no_task_check"): [
        Case(ANALYZE, f"{ANALYZE} --no-task-check"),
        Case(
            "analyze topics topics.safetensors",
            "analyze topics topics.safetensors --no-task-check",
            "--no-task-check changes nothing here",
        ),
    ],
    ("analyze", "text"): [
        Case(ANALYZE, f"{ANALYZE} --text ()"),
        Case("analyze stack dyck-minimal", "analyze stack dyck-minimal --text ()"),
        Case("analyze balance dyck-minimal", "analyze balance dyck-minimal --text ()", "--text '()' changes nothing"),
    ],
    ("analyze", "matrix"): [
        Case("analyze topics topics.safetensors", "analyze topics topics.safetensors --matrix attention"),
        Case(ANALYZE, f"{ANALYZE} --matrix value", "--matrix 'value' changes nothing"),
    ],
    ("analyze", "seed"): [
        Case(f"analyze {name} {of}", f"analyze {name} {of} --seed 3")
        for name, of in (("variation", "dyck-minimal"), ("stack", "dyck-minimal"), ("balance", "dyck-minimal"),
                         ("topics", "topics.safetensors"))
    ],  # what an analyzer makes of a seed where it draws nothing: test_keywords.py of probes
    ("analyze", "model_seed"): [
        Case("analyze stack dyck-minimal", "analyze stack dyck-minimal --model-seed 3"),
        Case("analyze stack dyck-minimal", "analyze stack dyck-minimal --model-seed 99", "no seed 99 in"),
        Case("analyze stack constructed/stack", "analyze stack constructed/stack --model-seed 0", "it chooses a model"),
    ],
    ("analyze", "device"): [Case(ANALYZE, f"{ANALYZE} --device abacus", "device 'abacus'")],
    ("analyze", "json"): [Case(ANALYZE, f"{ANALYZE} --json b.json")],
    ("analyze", "figure"): [Case(ANALYZE, f"{ANALYZE} --figure b.html")],
    ("audit", "checkpoints"): [
        Case(AUDIT, AUDIT.replace("dyck-minimal", "constructed/stack")),
        Case(AUDIT, AUDIT.replace("dyck-minimal", "dyck-minimal constructed/stack")),
        Case("audit --bench", "audit dyck-minimal --bench", "'dyck-minimal' changes nothing here: --bench"),
    ],
    ("audit", "bench"): [Case(AUDIT, "audit --bench"), Case("audit --bench", TRAINED)],
    ("audit", "per_family"): [
        Case("audit --bench", "audit --bench --per-family 3"),
        Case(AUDIT, f"{AUDIT} --per-family 3", "--per-family 3 changes nothing here"),
        Case(TRAINED, f"{TRAINED} --per-family 3", "--per-family 3 changes nothing here"),
    ],
    ("audit", "half"): [
        Case(TRAINED, f"{TRAINED} --half judge"),
        Case("audit --bench", "audit --bench --half judge", "--half 'judge' changes nothing here"),
    ],
    ("audit", "models"): [
        Case(TRAINED, f"{TRAINED} --models here"),
        Case("audit --bench written", "audit --bench written --models here", "--models 'here' changes nothing here"),
    ],
    ("audit", "runs"): [
        Case(f"{TRAINED} --half judge", f"{TRAINED} --half judge --runs runs.json"),
        Case(TRAINED, f"{TRAINED} --runs runs.json", "--runs 'runs.json' changes nothing here"),
        Case("audit --bench written", "audit --bench written --runs r.json", "--runs 'r.json' changes nothing here"),
    ],
    ("audit", "claim"): [
        Case(AUDIT, f"{AUDIT} --claim L0H0 attends to START"),
        Case("audit --bench", "audit --bench --claim L0H0 attends to START", "--claim 'L0H0 attends to START' changes"),
    ],
    ("audit", "claims"): [
        Case(AUDIT, AUDIT.replace("claims.txt", "others.txt")),
        Case("audit --bench", "audit --bench --claims claims.txt", "--claims 'claims.txt' changes nothing here"),
    ],
    ("audit", "relations"): [
        Case(AUDIT, f"{AUDIT} --relations mine.py"),
        Case("audit --bench", "audit --bench --relations mine.py", "--relations 'mine.py' changes nothing here"),
    ],
    ("audit", "inputs"): [
        Case(AUDIT, f"{AUDIT} --inputs inputs.json"),
        Case("audit --bench", "audit --bench --inputs nofile.json", "--inputs 'nofile.json' changes nothing here"),
    ],
    ("audit", "num_inputs"): [
        Case(AUDIT, f"{AUDIT} --num-inputs 60"),
        Case(
            f"{AUDIT} --inputs inputs.json",
            f"{AUDIT} --inputs inputs.json --num-inputs 60",
            "--num-inputs 60 changes nothing",
        ),
        Case("audit --bench", "audit --bench --num-inputs 60", "--num-inputs 60 changes nothing"),
    ],
    ("audit", "model_config"): [
        Case(f"audit {THEIRS} --claims claims.txt", f"audit {THEIRS} --claims claims.txt --model-config other.json"),
        Case("audit --bench", "audit --bench --model-config x", "--model-config 'x' changes nothing here"),
    ],
    ("audit", "vocab"): [
        Case(f"audit {THEIRS} --claims claims.txt", f"audit {THEIRS} --claims claims.txt --vocab vocab.json"),
        Case(AUDIT, f"{AUDIT} --vocab vocab.json", "--vocab 'vocab.json' changes nothing here"),
        Case("audit --bench", "audit --bench --vocab vocab.json", "--vocab 'vocab.json' changes nothing here"),
    ],
    ("audit", "strict"): [
        Case(f"{AUDIT} --seed 9", f"{AUDIT} --seed 9 --strict"),  # the recorder says undecided of seed 9
        Case("audit --bench", "audit --bench --strict", "--strict changes nothing here"),
    ],
    ("audit", "no_task_check"): [
        Case(AUDIT, f"{AUDIT} --no-task-check"),
        Case("audit --bench", "audit --bench --no-task-check", "--no-task-check changes nothing here"),
    ],
    ("audit", "early"): [
        Case(AUDIT, f"{AUDIT} --early"),
        Case("audit --bench", "audit --bench --early", "--early changes nothing here"),
        Case(TRAINED, f"{TRAINED} --early", "--early changes nothing here"),
    ],
    ("audit", "seed"): [Case(AUDIT, f"{AUDIT} --seed 3"), Case("audit --bench", "audit --bench --seed 3")],
    ("audit", "model_seed"): [
        Case(AUDIT, f"{AUDIT} --model-seed 3"),
        Case("audit --bench", "audit --bench --model-seed 3", "--model-seed 3 changes nothing here"),
    ],
    ("audit", "device"): [
        Case(AUDIT, f"{AUDIT} --device abacus", "device 'abacus'"),
        Case("audit --bench", "audit --bench --device cuda", "--device 'cuda' changes nothing here"),
    ],
    ("audit", "json"): [Case(AUDIT, f"{AUDIT} --json b.json"), Case("audit --bench", "audit --bench --json b.json")],
    ("audit", "figure"): [
        Case(AUDIT, f"{AUDIT} --figure b.html"),
        Case("audit --bench", "audit --bench --figure b.html"),
        Case(f"{AUDIT} --claim {OTHER}", f"{AUDIT} --figure b.html --claim {OTHER}", "--figure draws"),
    ],
    ("scan", "checkpoints"): [
        Case(SCAN, "scan constructed/stack"),
        Case(SCAN, f"{SCAN} one.safetensors"),
        Case(SCAN, f"{SCAN} dyck-minimal", "checkpoint 'dyck-minimal' is given twice"),
    ],
    ("scan", "model_config"): [Case(f"scan {THEIRS}", f"scan {THEIRS} --model-config other.json")],
    ("scan", "vocab"): [
        Case(f"scan {THEIRS}", f"scan {THEIRS} --vocab vocab.json"),
        Case(SCAN, f"{SCAN} --vocab vocab.json", "--vocab 'vocab.json' changes nothing here"),
    ],
    ("scan", "no_task_check"): [Case(SCAN, f"{SCAN} --no-task-check")],
    ("scan", "relation"): [
        Case(SCAN, f"{SCAN} --relation previous"),
        Case(SCAN, f"{SCAN} --relation stark-top", "relation 'stark-top' is not understood"),
        Case(SCAN, f"{SCAN} --relation previous --relation previous", "'the previous token' is given twice"),
    ],
    ("scan", "inputs"): [Case(SCAN, f"{SCAN} --inputs inputs.json")],
    ("scan", "num_inputs"): [
        Case(SCAN, f"{SCAN} --num-inputs 60"),
        Case(f"{SCAN} --inputs inputs.json", f"{SCAN} --inputs inputs.json --num-inputs 60",
             "--num-inputs 60 changes nothing"),
    ],
    ("scan", "seed"): [Case(SCAN, f"{SCAN} --seed 3")],
    ("scan", "model_seed"): [Case(SCAN, f"{SCAN} --model-seed 3")],
    ("scan", "device"): [Case(SCAN, f"{SCAN} --device abacus", "device 'abacus'")],
    ("scan", "json"): [Case(SCAN, f"{SCAN} --json b.json")],
    ("scan", "figure"): [Case(SCAN, f"{SCAN} --figure b.html")],
    ("heatmap", "checkpoints"): [
        Case(HEATMAP, HEATMAP.replace("dyck-minimal", "constructed/stack")),
        Case("heatmap constructed/stack --text () --out a.html",
             "heatmap constructed/stack constructed/uniform --text () --out a.html"),
    ],
    ("heatmap", "model_config"): [
        Case(f"heatmap {THEIRS} --text a --vocab vocab.json --out a.html",
             f"heatmap {THEIRS} --text a --vocab vocab.json --out a.html --model-config other.json"),
    ],
    ("heatmap", "vocab"): [
        Case(f"heatmap {THEIRS} --text a --out a.html", f"heatmap {THEIRS} --text a --out a.html --vocab vocab.json"),
        Case(HEATMAP, f"{HEATMAP} --vocab vocab.json", "--vocab 'vocab.json' changes nothing here"),
    ],
    ("heatmap", "no_task_check"): [Case(HEATMAP, f"{HEATMAP} --no-task-check")],
    ("heatmap", "text"): [Case(HEATMAP, HEATMAP.replace("()", "[]"))],
    ("heatmap", "layer"): [Case(HEATMAP, f"{HEATMAP} --layer 0")],
    ("heatmap", "head"): [Case(HEATMAP, f"{HEATMAP} --head 0")],
    ("heatmap", "seed"): [
        Case(HEATMAP, f"{HEATMAP} --seed 3"),
        Case(HEATMAP, f"{HEATMAP} --model-seed 3"),
        Case(HEATMAP.replace("dyck-minimal", "constructed/stack"),
             HEATMAP.replace("dyck-minimal", "constructed/stack") + " --seed 0", "--seed 0 changes nothing here"),
    ],
    ("heatmap", "population"): [
        Case(HEATMAP, f"{HEATMAP} --population mean"),
        Case(HEATMAP, f"{HEATMAP} --population mean --seed 3", "--population 'mean' changes nothing here: --seed"),
        Case(HEATMAP.replace("dyck-minimal", "constructed/stack"),
             HEATMAP.replace("dyck-minimal", "constructed/stack") + " --population grid", "'constructed/stack' is one"),
        Case("heatmap one.safetensors --text () --out a.html",
             "heatmap one.safetensors --text () --out a.html --population sd", "'one.safetensors' is one model"),
    ],
    ("heatmap", "overlay"): [
        Case(HEATMAP, f"{HEATMAP} --overlay depth"),
        Case(HEATMAP, f"{HEATMAP} --overlay none"),
        Case(HEATMAP, f"{HEATMAP} --overlay none --overlay depth", "--overlay none and --overlay depth"),
    ],
    ("heatmap", "null"): [Case(HEATMAP, f"{HEATMAP} --null uniform")],
    ("heatmap", "out"): [Case(HEATMAP, f"{HEATMAP} --out b.html")],
    ("merge", "checkpoints"): [
        Case("merge one.safetensors --out a.safetensors", "merge one.safetensors two.safetensors --out a.safetensors"),
    ],
    ("merge", "out"): [
        Case("merge one.safetensors --out a.safetensors", "merge one.safetensors --out b.safetensors"),
    ],
    ("prune", "target"): [Case(PRUNE, PRUNE.replace("dyck-minimal", "constructed/stack"))],
    ("prune", "candidates"): [Case(PRUNE, f"{PRUNE} --candidates 8")],
    ("prune", "seed"): [Case(PRUNE, f"{PRUNE} --seed 3")],
    ("prune", "out"): [Case(PRUNE, f"{PRUNE} --out b.safetensors")],
    ("prune", "json"): [Case(PRUNE, f"{PRUNE} --json b.json")],
    ("prune", "figure"): [Case(PRUNE, f"{PRUNE} --figure b.html")],
    ("report", "study"): [Case(REPORT, REPORT.replace("topics", "dyck-copying"))],
    ("report", "quick"): [Case(f"{REPORT} --full", f"{REPORT} --quick")],
    ("report", "full"): [Case(REPORT, f"{REPORT} --full"), Case(REPORT, f"{REPORT} --full --quick", "--full")],
    ("report", "out"): [Case(REPORT, f"{REPORT} --out b")],
    **{
        ("report", dest): [
            Case(f"report {study} --out a", f"report {study} --out a --{dest} x",
                 None if study in {reader.name for reader in readers} else f"--{dest} 'x' changes nothing")
            for study in STUDIES
        ]
        for dest, readers in find_studies().reading().items()
    },
    **{
        ("report", name): [
            Case(f"report {study} --out a", f"report {study} --out a --{name} 3",
                 None if declared.trains else f"--{name} 3 changes nothing here: {study} trains no population")
            for study, declared in STUDIES.items()
        ]
        for name in ("seeds", "steps")
    },
    ("report", "workers"): [
        Case(REPORT, f"{REPORT} --workers 3"),
        Case(REPORT, f"{REPORT} --workers 3 --device cuda", "--workers 3 changes nothing here: with --device cuda"),
        Case(f"{REPORT}-wikipedia", f"{REPORT}-wikipedia --workers 3", "--workers 3 changes nothing"),
    ],
    ("report", "device"): [
        Case(REPORT, f"{REPORT} --device abacus", "device 'abacus'"),
        Case(f"{REPORT}-wikipedia", f"{REPORT}-wikipedia --device cuda", "--device 'cuda' changes"),
    ],
    ("curves", "file"): [Case("curves dyck-minimal", "curves dyck-standard")],
    ("curves", "measure"): [
        Case("curves dyck-minimal", "curves dyck-minimal --measure loss"),
        Case("curves dyck-minimal", "curves dyck-minimal --measure weather", "no measure 'weather'"),
    ],
    ("curves", "json"): [Case("curves dyck-minimal", "curves dyck-minimal --json b.json")],
    ("curves", "figure"): [Case("curves dyck-minimal", "curves dyck-minimal --figure b.html")],
    ("replay", "file"): [Case("replay r.json", "replay s.json")],
    ("replay", "checkpoint"): [
        Case("replay r.json", "replay r.json --checkpoint dyck-minimal", "--checkpoint 'dyck-minimal' changes nothing"),
    ],
    ("list", "json"): [Case("list", "list --json b.json")],
}  # fmt: skip


def flags():
    """(command, dest) of everything that can be given, from the parser itself."""
    groups = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    assert len(groups) == 1
    for parser in groups[0].choices.values():
        parser.complete()
    return {
        (command, action.dest)
        for command, parser in groups[0].choices.items()
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    }


def test_every_flag_of_every_command_has_an_entry():
    assert set(CASES) == flags()


def test_the_table_of_unread_flags_names_flags_that_are_there():
    assert set(TABLE) == {command for command, _ in flags()}
    for command in TABLE:
        for rule in rules(command):
            assert {(command, dest) for dest in rule.flags} <= flags()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with everything the command lines name."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_files(folder)
    return folder


@pytest.fixture
def workplace(tmp_path, monkeypatch, files):
    """Files to work on, and recorders in the place of work; returns what was recorded."""
    monkeypatch.chdir(tmp_path)
    hold_out_few(monkeypatch, 6)
    monkeypatch.setattr(
        objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=20, score_from=16)
    )
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.setitem(sys.modules, "wandb", None)  # it would ask for an account
    recorded = []

    def recorder(name, several=False):
        def record(*args, **kwargs):
            kwargs.pop("progress", None)
            told = f"{name} {fingerprint(args)} {fingerprint(kwargs)}"
            recorded.append(told)
            result = Result("asked", "undecided" if kwargs.get("seed") == 9 else "supported")
            return [result] * len(args[1]) if several else result

        return record

    for name in ("variation.analyze_variation", "stack.analyze_stack_likeness", "balance.analyze_balance"):
        monkeypatch.setattr(f"probes.{name}", recorder(name))
    monkeypatch.setattr("probes.topics.analyze_topic_blocks", recorder("topics"))
    monkeypatch.setattr("probes.audit.audit_claims", recorder("audit", several=True))
    monkeypatch.setattr("probes.audit.scan_heads", recorder("scan"))
    monkeypatch.setattr("probes.audit.bench.run_bench", recorder("bench"))
    monkeypatch.setattr("probes.audit.bench.trained.run_trained_bench", recorder("trained bench"))
    monkeypatch.setattr("probes.lottery.demonstrate_lottery_ticket", recorder("ticket"))
    monkeypatch.setattr("interp.plots.heatmap.attention_heatmap", lambda *a, **k: recorder("heatmap")(*a, **k).figure())
    monkeypatch.setattr("interp.plots.export.save_figure", lambda figure, path: path.write_text("a figure"))
    monkeypatch.setattr(Study, "run", lambda study, *args, **kwargs: recorder(study.name)(*args, **kwargs))
    return recorded


def write_files(folder):
    from interp._foreign_config import to_config

    torch.save(SandboxTransformer.init(to_config(FOREIGN, None), 0).state_dict(), folder / "weights.pt")
    texts = {
        "config.json": FOREIGN, "other.json": FOREIGN | {"act_fn": "gelu"}, "vocab.json": ["a", "b", "c", "<pad>"],
        "inputs.json": [{"text": "()"}],
    }  # fmt: skip
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "claims.txt").write_text(CLAIM)
    (folder / "mine.py").write_text(MINE)
    (folder / "others.txt").write_text("L0H0 attends to START")
    steps = np.arange(200)
    norms = {"W_V": np.minimum(steps, 100), "W_K": np.maximum(steps - 100, 0), "W_Q": np.maximum(steps - 100, 0)}
    result = analyze_two_stages({name: (1.0 + values).tolist() for name, values in norms.items()})
    result.save(folder / "r.json")
    (folder / "s.json").write_text((folder / "r.json").read_text().replace('"num_runs": 1', '"num_runs": 2'))
    quick = "--steps 1 --batch 2 --workers 1"
    assert main(f"train dyck-minimal --seeds 1 {quick} --out one.safetensors".split()) == 0
    assert main(f"train dyck-minimal --seeds 1 --first-seed 1 {quick} --out two.safetensors".split()) == 0
    assert (
        main(f"train topic-value --seeds 2 {quick} --set topics=2 --set words=2 --out topics.safetensors".split()) == 0
    )
    assert main("train dyck-minimal --steps 2 --batch 2 --seeds 1 --workers 1 --out old.safetensors".split()) == 0


def words_of(line):
    """A command line as the shell would cut it: a claim is one word."""
    before, _, claim = line.partition(" --claim ")
    claim, *rest = claim.split(" --")
    return [*before.split(), *(["--claim", claim] if claim else []), *(w for r in rest for w in f"--{r}".split())]


def outcome(line, folder, recorded, capsys):
    """(status, what is printed but for times, files but for times, what the recorders were asked)."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    recorded.clear()
    capsys.readouterr()
    status = main(words_of(line))
    printed = capsys.readouterr()
    said = [text for text in printed.out.splitlines() if not text.startswith("CPU seconds")]
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and before.get(path) != path.read_bytes():
            files[path.name] = path.read_bytes()
            if path.suffix == ".json":
                data = json.loads(path.read_text())
                data.pop("timing", None)
                files[path.name] = json.dumps(data)
    for path in folder.rglob("*"):
        if path.is_file() and path not in before:
            path.unlink()
    for path, content in before.items():
        path.write_bytes(content)
    assert printed.err.count("\n") <= 1
    return status, said, files, list(recorded), printed.err


ALL = [(flag, case) for flag, listed in CASES.items() for case in listed]


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "case"), ALL, ids=[f"{c}-{d}-{case.changed}" for (c, d), case in ALL])
def test_a_flag_changes_what_is_done_or_is_refused_by_name(flag, case, workplace, tmp_path, capsys):
    first, again = (outcome(case.plain, tmp_path, workplace, capsys) for _ in range(2))
    assert first[0] == 0, first[-1]
    assert first == again
    changed = outcome(case.changed, tmp_path, workplace, capsys)
    if case.refused is None:
        assert changed[0] in (0, 1), changed[-1]
        assert changed != first
    else:
        assert changed[0] == 2
        assert case.refused in changed[-1]
        assert not changed[2]
        assert not changed[3]
