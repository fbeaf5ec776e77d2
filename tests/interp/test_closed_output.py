"""A reader of the output that has gone (`| head`) costs nothing that was to be written to a file."""

import argparse
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interp.cli import main
from interp.cli.parser import make_parser

ROOT = Path(__file__).parents[2]
SMALL = ("dyck-paper", "--seeds", "1", "--steps", "2", "--batch", "4", "--workers", "1", "--set", "depth=2")
CLAIM = "L1H0 attends to the last unmatched open bracket"
# Command -> its arguments, and the options that name files.
WRITING: dict[str, tuple[list[str], list[str]]] = {
    "train": ([*SMALL, "--set", "width=4", "--set", "init_std=0.4"], ["--out t.safetensors", "--json t.json"]),
    "analyze": (["variation", "dyck-minimal"], ["--json t.json", "--figure t.html"]),
    "audit": (["constructed/stack", "--claim", CLAIM], ["--json t.json", "--figure t.html"]),
    "audit of several": (
        ["constructed/stack", "--claim", CLAIM, "--claim", "L0H0 attends to itself"], ["--json t.json"],
    ),
    "audit --bench": (["--bench", "--per-family", "1"], ["--json t.json", "--figure t.html"]),
    "scan": (["constructed/stack", "--num-inputs", "120"], ["--json t.json", "--figure t.html"]),
    "heatmap": (["dyck-minimal", "--text", "([])"], ["--out t.html"]),
    "merge": (["dyck-minimal"], ["--out t.safetensors"]),
    "prune": (["target.safetensors", "--candidates", "8"], ["--out t.safetensors", "--json t.json", "--figure t.html"]),
    "report": (["dyck-balance"], ["--out folder"]),
    "curves": (["dyck-minimal"], ["--json t.json", "--figure t.html"]),
    "list": ([], ["--json t.json"]),
}  # fmt: skip


class Gone(io.TextIOBase):
    """Standard output whose reader has gone: everything that is said fails at once."""

    def __init__(self, path: Path):
        self._file = open(path, "w")  # noqa: SIM115 - closed with the stream

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()


def test_every_command_that_writes_a_file_is_run():
    """The kinds of files are those of the parser: a new option, or command, needs an entry."""
    commands = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    named = {name.split(" ")[0] for name in WRITING}
    options = {
        name: {o for o in ("--out", "--json", "--figure") if o in parser._option_string_actions}
        for name, parser in commands.items()
    }
    assert named == {name for name, known in options.items() if known}
    for name, (_, files) in WRITING.items():
        if name != "audit of several":
            assert {file.split(" ")[0] for file in files} == options[name.split(" ")[0]]


@pytest.fixture
def short(monkeypatch):
    """The bench and the studies in small: what is asked here is when they print."""
    import probes.audit.bench
    from case_studies.study import Study

    def run(study: Study, out: Path, **how: object) -> Path:
        path = Path(out) / "index.html"
        path.write_text("a report")
        return path

    whole = probes.audit.bench.run_bench
    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr(
        probes.audit.bench, "run_bench", lambda count, seed, **how: whole(count, families=["solo"], seed=seed)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITING)
def test_every_file_is_written_where_nobody_reads_the_output(name, tmp_path, monkeypatch, short):
    monkeypatch.chdir(tmp_path)
    given, files = WRITING[name]
    if name == "prune":
        train, _ = WRITING["train"]
        assert main(["train", *train, "--out", "target.safetensors"]) == 0
    stream = Gone(tmp_path / "nowhere")
    monkeypatch.setattr(sys, "stdout", stream)
    status = main([name.split(" ")[0], *given, *" ".join(files).split(" ")])
    monkeypatch.undo()
    stream.close()
    assert status == 1
    for file in files:
        path = tmp_path / file.split(" ")[1]
        path = path if path.suffix else path / "index.html"
        assert path.is_file(), f"{file.split(' ')[0]} was not written"
        assert path.stat().st_size


def test_a_file_that_cannot_be_written_costs_no_summary(tmp_path, monkeypatch, capsys):
    import interp.cli.files as files

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_json", full)
    assert main(["list", "--json", str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr()
    assert "Bundled checkpoints" in told.out
    assert "No space left on device" in told.err


def test_a_pipe_whose_reader_has_gone(tmp_path):
    path = tmp_path / "t.json"
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "interp", "list", "--json", str(path)],
            cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
    assert path.stat().st_size
