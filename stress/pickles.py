"""Files that would run code if they were unpickled or trusted: on every path that reads a file, nothing runs.

Each payload makes a marker file. Payloads come as pickles of every protocol and of several makes (`__reduce__`, raw
GLOBAL and INST opcodes, nested among tensors), as torch files (new and old format, a whole module, an archive made by
hand), numpy files with objects, joblib-like streams, YAML tags, and as code in a model folder that its config asks
for. Readers are all functions and commands that take a file or folder; the console says "y" to whatever it is asked.
Every reader must refuse in one line of ours (or read what is no payload to it), and no marker may appear.
"""

import contextlib
import io
import json
import os
import pickle
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hosts as made
import numpy as np
import torch
from stressing import Arguments, Report, main

from case_studies.head_claims.audits import Models, kept
from case_studies.topics_wikipedia import corpus, encoder
from interp import load_checkpoint, load_foreign, save_checkpoint, train_population
from interp.cli import main as command
from interp.errors import InterpError
from interp.header import read_header
from interp.training.run import _Plan
from interp.training.state import read_state
from probes import Claim, audit_claims

CONFIG = {
    "n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_mlp": 4, "n_ctx": 8, "d_vocab": 7, "act_fn": "relu",
    "normalization_type": "LN",
}  # fmt: skip
BARS = ("Loading weights", "Writing model shards")  # of transformers


# -- payloads -------------------------------------------------------------------------------------------------------


class Shell:
    """Unpickled, it runs a command."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


class Code(Shell):
    """Unpickled, it runs Python."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


class Open(Shell):
    """Unpickled, it opens the marker to write: no command, no code, a function that looks harmless."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


class Layer(torch.nn.Module):
    """A module of the attacker's own."""

    def __init__(self, marker: Path):
        super().__init__()
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


def payloads(marker: Path) -> dict[str, bytes]:
    """Name -> a file's bytes."""
    touch = f"touch {marker}"
    found = {
        "GLOBAL": f"cos\nsystem\n(S'{touch}'\ntR.".encode(),
        "GLOBAL of posix": f"cposix\nsystem\n(S'{touch}'\ntR.".encode(),
        "INST": f"(S'{touch}'\nios\nsystem\n.".encode(),
        "getattr": f"cbuiltins\ngetattr\n(cos\nsystem\nS'__call__'\ntR(S'{touch}'\ntR.".encode(),
        "eval": f"cbuiltins\neval\n(S'open({str(marker)!r}, \"w\").close()'\ntR.".encode(),
        "a number before": b"I1\n0" + f"cos\nsystem\n(S'{touch}'\ntR.".encode(),
        "yaml": f"!!python/object/apply:os.system ['{touch}']\n".encode(),
        "python": f"import os\nos.system({touch!r})\n".encode(),
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found[f"pickle {protocol}"] = pickle.dumps(Shell(marker), protocol)
    weights = {"embed.W_E": torch.zeros(7, 4)}
    things = {
        "shell": Shell(marker), "code": Code(marker), "open": Open(marker), "module": Layer(marker),
        "among tensors": {**weights, "x": Shell(marker)}, "as a key": {"model": weights, "opt": [Code(marker)]},
    }  # fmt: skip
    for name, thing in things.items():
        for new in (True, False):
            held = io.BytesIO()
            torch.save(thing, held, _use_new_zipfile_serialization=new)
            found[f"torch {'zip' if new else 'old'}, {name}"] = held.getvalue()
    found["pickle after a safetensors header"] = (2).to_bytes(8, "little") + b"{}" + pickle.dumps(Shell(marker))
    found["pickle that begins as safetensors"] = b"N0000000{" + pickle.dumps(Shell(marker))
    found["archive by hand"] = archive({"archive/data.pkl": pickle.dumps(Shell(marker), 2), "archive/version": b"3\n"})
    found["archive with constants"] = archive(
        {"a/data.pkl": pickle.dumps(weights.keys().__class__.__name__), "a/constants.pkl": pickle.dumps(Code(marker)),
         "a/code/__torch__.py": f"import os\nos.system({touch!r})".encode(), "a/version": b"6\n"}
    )  # fmt: skip
    for name, save in {"npy": np.save, "npz": np.savez}.items():
        held = io.BytesIO()
        save(held, np.array([Shell(marker)], dtype=object))
        found[name] = held.getvalue()
    return found


def archive(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as out:
        for name, content in files.items():
            out.writestr(name, content)
    return held.getvalue()


# -- readers --------------------------------------------------------------------------------------------------------


def readers(folder: Path) -> dict[str, tuple[str, Callable[[Path], Any]]]:
    """Name -> (the ending of the file, what reads it). The file is written anew each time."""
    good, config, vocab = folder / "good.safetensors", folder / "config.json", folder / "vocab.json"
    save_checkpoint(made.ours()[0], good)
    config.write_text(json.dumps(CONFIG))
    vocab.write_text(json.dumps(list("abcdefg")))
    model = load_checkpoint("constructed/stack")

    def run(*words: object) -> None:
        """A command; its one line of complaint is an error of ours."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = command([str(word) for word in words])
        lines = [line for line in said.getvalue().splitlines() if line.strip() and not line.startswith(BARS)]
        if status == 0:
            return
        if status != 2 or len(lines) != 1 or not lines[0].startswith("interp: "):
            raise AssertionError(f"status {status}: {said.getvalue()[:300]}")
        raise InterpError(lines[0])

    def at(name: str) -> Callable[[Path], Path]:
        return lambda path: shutil.copy(path, path.parent / name) and path.parent / name

    def resumed(name: str) -> Callable[[Path], None]:
        """A run that was stopped, one of whose files was exchanged."""

        def read(path: Path) -> None:
            out = path.parent / "run" / "x.safetensors"
            state = Path(f"{out}.run")
            shutil.rmtree(out.parent, ignore_errors=True)
            state.mkdir(parents=True)
            shutil.copy(path, state / name)
            train_population("dyck-minimal", 1, steps=1, batch=1, out=out, resume=True, workers=1)

        return read

    foreign = {
        f"{name}, {ending}": (ending, read)
        for ending in (".pt", ".pth", ".bin", ".safetensors", "", ".json", ".pkl")
        for name, read in {
            "load_foreign": lambda path: load_foreign(path, CONFIG),
            "interp analyze --model-config": lambda path: run("analyze", "variation", path, "--model-config", config),
        }.items()
    }
    ours = {
        f"{name}, {ending}": (ending, read)
        for ending in (".safetensors", ".pt", "")
        for name, read in {
            "load_checkpoint": load_checkpoint,
            "read_header": read_header,
            "interp analyze": lambda path: run("analyze", "stack", path),
            "interp heatmap": lambda path: run("heatmap", path, "--text", "()", "--out", path.parent / "x.html"),
            "interp audit": lambda path: run("audit", path, "--claim", "L0H0 attends to the previous token"),
            "interp prune": lambda path: run("prune", path, "--out", path.parent / "t.safetensors"),
        }.items()
    }
    claim = "L1H0 attends to the previous token"

    def kept_audits(path: Path) -> None:
        """What a study kept of an earlier run, exchanged."""
        where = folder / "audits"
        asked = (
            "x",
            Models(model, "same"),
            [Claim.parse(claim)],
            where,
            strings,
        )
        if not where.exists():
            kept(*asked, grammar=None)
        found = next(where.iterdir())
        shutil.copy(path, found)
        kept(*asked, grammar=None)

    strings = made.GRAMMAR.to_tokens(made.GRAMMAR.sample(60, mode="prefix", length=10, seed=0))
    foreign_as, study = ("--model-config", config), ("report", "topics-wikipedia", "--out", folder / "r")
    audit = ("audit", "constructed/stack", "--claim", claim)
    weights = {"embed.W_E": torch.zeros(7, 4)}
    others: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "config": (".json", lambda path: load_foreign(weights, path)),
        "vocab": (".json", lambda path: load_foreign(weights, CONFIG, path)),
        "--model-config": (".json", lambda path: run("analyze", "variation", good, "--model-config", path)),
        "--vocab": (".json", lambda path: run("audit", good, *foreign_as, "--vocab", path, "--claim", claim)),
        "inputs": (".json", lambda path: audit_claims(model, [claim], path)),
        "--inputs": (".json", lambda path: run(*audit, "--inputs", path)),
        "--claims": (".txt", lambda path: run("audit", "constructed/stack", "--claims", path)),
        "a run's plan": (".json", resumed("plan.json")),
        "a run's state": (".safetensors", resumed("chunk-000.safetensors")),
        "a study's kept audits": (".json", kept_audits),
        "read_state": (".safetensors", lambda path: read_state(path, "plan")),
        "plan": (".json", lambda path: _Plan.read(at("plan.json")(path).parent)),
        "corpus of lines": (".txt", lambda path: corpus.read_corpus(corpus.check_corpus(path), 5)),
        "corpus, a dump": (".xml", lambda path: corpus.read_corpus(corpus.check_corpus(path), 5)),
        "corpus, a packed dump": (".bz2", lambda path: corpus.read_corpus(corpus.check_corpus(path), 5)),
        "--corpus": (".txt", lambda path: run(*study, "--corpus", path)),
        "--model, a file": (".bin", lambda path: run(*study, "--model", path)),
    }  # fmt: skip
    return foreign | ours | others


NO_PAYLOAD_TO = ("corpus of lines",)  # any text is a corpus


# -- folders of other libraries -------------------------------------------------------------------------------------


WEIGHTS = (
    "pytorch_model.bin", "training_args.bin", "optimizer.pt", "adapter_model.bin", "tf_model.h5", "flax_model.msgpack",
)  # fmt: skip
SETTINGS = (
    "tokenizer.json", "vocab.txt", "spiece.model", "tokenizer.model", "special_tokens_map.json", "config.json",
)  # fmt: skip


def folders(folder: Path, marker: Path, files: dict[str, bytes]) -> Iterator[tuple[str, Path]]:
    """Encoder folders with a payload each, where transformers or a tokenizer would look for something."""
    made.bert(folder / "clean")
    code = f"import os\nos.system('touch {marker}')\n\nclass Mine:\n    pass\n"

    def copy(name: str) -> Path:
        where = folder / "".join(ch if ch.isalnum() else "-" for ch in name)
        shutil.copytree(folder / "clean", where)
        return where

    payload = ["torch zip, shell", "torch old, among tensors", "pickle 2", "GLOBAL", "archive by hand"]
    for name in payload:
        for file in (
            "pytorch_model.bin",
            "training_args.bin",
            "optimizer.pt",
            "adapter_model.bin",
            "tf_model.h5",
            "flax_model.msgpack",
        ):
            for only in (True, False):
                where = copy(f"{file} {name} {only}")
                (where / file).write_bytes(files[name])
                if only:
                    (where / "model.safetensors").unlink()
                yield f"{file} of {name}{', the only weights' if only else ''}", where
        where = copy(f"weights {name}")
        (where / "model.safetensors").write_bytes(files[name])
        yield f"model.safetensors of {name}", where
        for file in (
            "tokenizer.json",
            "vocab.txt",
            "spiece.model",
            "tokenizer.model",
            "special_tokens_map.json",
            "config.json",
        ):
            where = copy(f"{file} {name}")
            (where / file).write_bytes(files[name])
            yield f"{file} of {name}", where
    mine = "modeling_mine.Mine"
    maps = {
        "AutoModel": mine, "AutoModelForMaskedLM": mine, "AutoConfig": mine, "AutoModelForCausalLM": mine,
        "AutoTokenizer": [mine, mine],
    }  # fmt: skip
    for name, chosen in {"all": list(maps), **{key: [key] for key in maps}}.items():
        for kind in ("bert", "mine"):
            where = copy(f"code {name} {kind}")
            (where / "modeling_mine.py").write_text(code)
            for file in ("config.json", "tokenizer_config.json"):
                settings = json.loads((where / file).read_text())
                settings["auto_map"] = {key: maps[key] for key in chosen}
                if kind == "mine" and file == "config.json":
                    settings["model_type"] = "mine"
                if kind == "mine" and file == "tokenizer_config.json":
                    settings["tokenizer_class"] = "Mine"
                settings["trust_remote_code"] = True
                (where / file).write_text(json.dumps(settings))
            yield f"code for {name}, model type {kind}", where
    where = copy("template")
    text = "{{ cycler.__init__.__globals__.os.system('touch " + str(marker) + "') }}"
    (where / "chat_template.jinja").write_text(text)
    (where / "sitecustomize.py").write_text(code)
    (where / "__init__.py").write_text(code)
    yield "a template, and modules that Python would find", where


# -- the test -------------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report = Report()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name, says_yes():
        folder, marker = Path(name), Path(name) / "MARKER"
        files = payloads(marker)
        alive(files, marker)
        known = readers(folder)
        for number, (what, data) in enumerate(files.items()):
            for reader, (ending, read) in known.items():
                if arguments.quick and (number + len(reader)) % 5:
                    continue
                path = folder / f"payload{ending}"
                path.write_bytes(data)
                one(report, f"{reader}: {what}", marker, read, path, may_read=reader in NO_PAYLOAD_TO)
        report.counts["readers"] = len(known) + 2
        for number, (what, where) in enumerate(folders(folder, marker, files)):
            if arguments.quick and number % 5:
                continue
            one(report, f"load_encoder: {what}", marker, encoder.load_encoder, where, may_read=True)
            report.counts["folders"] += 1
            shutil.rmtree(where)
    c = report.counts
    report.said = (
        f"{c['tries']:,} tries of {len(files)} payloads by {c['readers']} readers and in {c['folders']} model folders: "
        f"{c['ran']} ran, {c['refused']:,} refused in one line, {c['read']} read as what they are no payload to"
    )
    return report


def alive(files: dict[str, bytes], marker: Path) -> None:
    """A test that cannot fail would show nothing: the payloads do run where they are trusted."""
    for name in ("GLOBAL", "pickle 0", "pickle 5", "getattr", "INST", "eval", "a number before"):
        with contextlib.suppress(Exception):
            pickle.loads(files[name])
        assert marker.exists(), name
        marker.unlink()
    for name in ("torch zip, module", "torch old, shell"):
        with contextlib.suppress(Exception):
            torch.load(io.BytesIO(files[name]), weights_only=False)
        assert marker.exists(), name
        marker.unlink()


@contextlib.contextmanager
def says_yes() -> Iterator[None]:
    """A console at which every question is answered with y; nothing is fetched."""
    before, sys.stdin = sys.stdin, io.StringIO("y\n" * 10_000)
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        sys.stdin = before


def one(report: Report, what: str, marker: Path, read: Callable[[Path], Any], path: Path, *, may_read: bool) -> None:
    c = report.counts
    c["tries"] += 1
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            read(path)
        c["read"] += 1
        if not may_read:
            report.wrong(f"{what}: was read without complaint")
    except InterpError as error:
        c["refused"] += 1
        if "\n" in str(error):
            report.wrong(f"{what}: not one line: {error}")
    except BaseException as error:
        report.wrong(f"{what}: {type(error).__name__}: {error}")
    if "[y/N]" in said.getvalue():
        report.wrong(f"{what}: asks whether to run code")
    if marker.exists():
        c["ran"] += 1
        report.wrong(f"{what}: THE PAYLOAD RAN")
        marker.unlink()


if __name__ == "__main__":
    main("pickles", __doc__, run)
