"""Every path that reads a file, against every kind of file that it cannot read: one line, and nothing is run."""

import json
import os
import pickle
import socket
import struct
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

from case_studies.topics_wikipedia.corpus import check_corpus, read_corpus
from interp.checkpoints import load_checkpoint, save_checkpoint
from interp.cli import main
from interp.errors import InterpError, RequestError
from interp.foreign import load_foreign
from interp.foreign.files import read_json
from interp.header import find_checkpoint, read_header
from interp.limits import MEMORY_VARIABLE
from interp.training.run import PLAN_FILE, _Plan
from interp.training.state import read_state

CONFIG = {"n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_vocab": 5, "n_ctx": 8, "attn_only": True}


def plan(path):
    """A plan has a name of its own: the file is put there."""
    folder = Path(os.path.dirname(path)) / "run"
    folder.mkdir(exist_ok=True)
    (folder / PLAN_FILE).symlink_to(os.path.abspath(path))
    return _Plan.read(folder)


def corpus(path):
    return read_corpus(check_corpus(path), 10)


READERS = {
    "checkpoint": load_checkpoint,
    "header": read_header,
    "state dict": lambda path: load_foreign(path, CONFIG),
    "config": lambda path: load_foreign({}, path),
    "vocabulary": lambda path: load_foreign({}, CONFIG, path),
    "inputs": lambda path: read_json(path, "inputs"),
    "training state": lambda path: read_state(Path(path), ""),
    "plan": plan,
}


class Payload:
    """What a pickle would run: it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def safetensors_bytes(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


CONTENTS = {
    "nothing": lambda marker: b"",
    "one byte": lambda marker: b"\0",
    "zeros": lambda marker: bytes(1000),
    "text": lambda marker: b"no such thing\n" * 50,
    "no text": lambda marker: bytes(range(256)) * 4,
    "pickle": lambda marker: pickle.dumps({"blocks": [1.0] * 20}),
    "pickle that runs": lambda marker: pickle.dumps(Payload(marker)),
    "old pickle that runs": lambda marker: pickle.dumps(Payload(marker), protocol=2),
    "half a zip": lambda marker: b"PK\x03\x04" + bytes(40),
    "brace at the ninth byte": lambda marker: b"12345678{}",
    "header longer than the file": lambda marker: struct.pack("<Q", 10**6) + b"{}",
    "header beyond all files": lambda marker: b"\xff" * 8 + b"{}",
    "header of a list": lambda marker: safetensors_bytes([1, 2]),
    "header without offsets": lambda marker: safetensors_bytes({"a": {"dtype": "F32", "shape": [1]}}, bytes(4)),
    "unknown dtype": lambda marker: safetensors_bytes(
        {"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)
    ),
    "metadata of another kind": lambda marker: safetensors_bytes({"__metadata__": {"interp": "[]"}}),
    "metadata that is no JSON": lambda marker: safetensors_bytes({"__metadata__": {"interp": "{"}}),
    "deep JSON": lambda marker: b"[" * 100_000,
    "deep metadata": lambda marker: safetensors_bytes({"__metadata__": {"interp": "[" * 100_000}}),
    "JSON of NaN": lambda marker: b'{"a": NaN}',
    "JSON name twice": lambda marker: b'{"a": 1, "a": 2}',
    "number of many digits": lambda marker: b"[" + b"9" * 5000 + b"]",
}


def check_refused(read, path):
    with pytest.raises(InterpError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 12_000


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("ending", [".safetensors", ".pt", ".json"])
def test_no_content_escapes_as_another_error_or_runs(tmp_path, reader, ending):
    for number, (kind, content) in enumerate(CONTENTS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, marker = folder / f"x{ending}", folder / "it-ran"
        path.write_bytes(content(marker))
        try:
            check_refused(READERS[reader], path)
        except Exception as error:
            raise AssertionError(kind) from error
        assert not marker.exists(), kind


def irregular(kind, folder):
    path = folder / "x.safetensors"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(path))
    elif kind == "link to nothing":
        path.symlink_to(folder / "none")
    elif kind == "loop of links":
        path.symlink_to(path)
    elif kind == "endless device":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as file:
            file.write(struct.pack("<Q", 99_000_000) + b"{")
            file.truncate(10**10)  # sparse: nothing is on the disk
    elif kind == "null character":
        return str(folder / "a\0b")
    elif kind == "long name":
        return folder / ("x" * 5000)
    elif kind == "bytes that are no text":
        return folder / os.fsdecode(b"\xff\xfe.json")
    elif kind == "control characters":
        return folder / "a\x1b[31m\nb"
    return path


IRREGULAR = (
    "pipe", "folder", "socket", "link to nothing", "loop of links", "endless device", "huge", "null character",
    "long name", "bytes that are no text", "control characters", "missing",
)  # fmt: skip


# A plan's file is named by its run, and a corpus is read line by line (see below).
LEFT_OUT = {
    ("plan", kind) for kind in ("null character", "long name", "control characters", "bytes that are no text")
} | {("corpus", "huge")}
PAIRS = [(reader, kind) for reader in (*READERS, "corpus") for kind in IRREGULAR if (reader, kind) not in LEFT_OUT]


@pytest.mark.parametrize(("reader", "kind"), PAIRS)
def test_whatever_is_no_regular_file_is_refused_without_waiting(tmp_path, reader, kind):
    check_refused({**READERS, "corpus": corpus}[reader], irregular(kind, tmp_path))


COMMANDS = {
    "checkpoint": "analyze variation {}",
    "heatmap": "heatmap {} --text () --out {out}",
    "target": "prune {} --out {out}",
    "state dict": "analyze stack {} --model-config {config}",
    "config": "analyze stack {weights} --model-config {}",
    "vocabulary": "analyze stack {weights} --model-config {config} --vocab {}",
    "claims": "audit dyck-standard --claims {}",
    "inputs": "audit dyck-standard --inputs {} --claim L0H0~attends~to~START",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["pipe", "folder", "endless device", "huge", "long name", "control characters"])
def test_the_command_line_says_so_in_one_line(tmp_path, capsys, command, kind):
    files = {"config": tmp_path / "config.json", "weights": tmp_path / "weights.pt", "out": tmp_path / "out.html"}
    files["config"].write_text(json.dumps(CONFIG))
    files["weights"].write_bytes(b"x" * 100)
    if command == "target":
        files["out"] = tmp_path / "out.safetensors"
    path = str(irregular(kind, tmp_path))
    words = [word.replace("~", " ").format(path, **files) for word in COMMANDS[command].split()]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("interp: ")
    assert err.count("\n") == 1
    assert "\x1b" not in out + err


def test_a_file_that_may_not_be_read_is_one_line(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"{}" * 100)
    path.chmod(0)
    root = os.geteuid() == 0
    for reader, read in READERS.items():
        if reader == "plan":
            continue
        try:
            if root:  # who may read everything
                os.seteuid(65534)
            check_refused(read, path)
        finally:
            if root:
                os.seteuid(0)


def test_an_archive_that_unpacks_to_far_more_is_refused_by_what_it_becomes(tmp_path, monkeypatch):
    plain, packed = tmp_path / "plain.pt", tmp_path / "packed.pt"
    torch.save({"embed.W_E": torch.zeros(5, 10**5)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry.filename))
    assert packed.stat().st_size < 20_000
    monkeypatch.setenv(MEMORY_VARIABLE, "0.003")
    with pytest.raises(InterpError, match="is the bound"):
        load_foreign(packed, CONFIG)


def test_a_header_beyond_the_bound_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    safetensors.torch.save_file({"a": torch.zeros(1)}, path, metadata={"interp": "x" * 50_000})
    monkeypatch.setenv(MEMORY_VARIABLE, "0.001")
    monkeypatch.setattr("json.loads", None)
    for read in (read_header, load_checkpoint, READERS["state dict"]):
        with pytest.raises(InterpError, match=r"the header of .* would take about 0\.0015 GB of memory"):
            read(path)


def test_a_document_without_an_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "corpus.txt"
    path.write_text("short line\n" + "word " * 10_000)
    monkeypatch.setenv(MEMORY_VARIABLE, "0.001")
    with pytest.raises(RequestError, match="line 2 has more than 10000 characters"):
        read_corpus(path, 10)
    monkeypatch.delenv(MEMORY_VARIABLE)
    assert len(read_corpus(path, 10)) == 2


@pytest.mark.parametrize("link", [False, True])
def test_files_under_unusual_names_are_read(tmp_path, link):
    bundled = load_checkpoint("dyck-minimal")
    source = find_checkpoint("dyck-minimal")
    for name in ("ä ö.safetensors", "line\nend", "x" * 240, "-rf", "[]", "$HOME"):
        path = tmp_path / name
        if link:
            path.symlink_to(source)
        else:
            path.write_bytes(source.read_bytes())
        assert load_checkpoint(path).seeds == bundled.seeds


def test_a_name_that_is_no_utf8_is_refused_for_what_it_is(tmp_path):
    name = tmp_path / os.fsdecode(b"\xff.safetensors")
    with pytest.raises(InterpError, match="name is not UTF-8"):
        save_checkpoint(load_checkpoint("dyck-minimal"), name)
    assert not os.listdir(tmp_path)
    name.write_bytes(find_checkpoint("dyck-minimal").read_bytes())
    with pytest.raises(InterpError, match="name is not UTF-8"):
        load_checkpoint(name)
