"""Writing: whole or not at all, nothing left behind, and whose fault a failure is: the request's, or the work's."""

import ast
import contextlib
import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interp.checkpoints import load_checkpoint, save_checkpoint
from interp.cli import main
from interp.errors import InterpError, OutputError, WriteError
from interp.files import UNFINISHED, check_folder, check_writable, make_folder, new_folder, replacing, write_text
from interp.foreign import load_foreign
from interp.plots import attention_heatmap, save_figure
from interp.presets import make_recipe
from interp.training import run
from interp.training.loop import Timing, initial_state
from interp.training.run import train_population
from interp.training.state import write_state

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def file_size_limit(size):
    """As on a disk that is full after `size` bytes: the write fails, with another number but in the same way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def mounted(folder, options):
    """Mount a small file system; a skip where one may not."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")


@contextlib.contextmanager
def no_disk(folder, how):
    """`folder` as it is when nothing more can be written there."""
    if how == "limit":
        with file_size_limit(100):
            yield
    elif how == "folder removed":
        shutil.rmtree(folder)
        yield
    else:
        kept = {path.name: path.read_bytes() for path in folder.iterdir()}
        mounted(folder, "size=16k")
        try:
            for name, content in kept.items():
                (folder / name).write_bytes(content)
            if how == "read-only":
                done = subprocess.run(["mount", "-o", "remount,ro", str(folder)], capture_output=True)
                assert done.returncode == 0
            else:
                with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(512))
            yield
        finally:
            subprocess.run(["umount", str(folder)], check=True)


MODEL = "constructed/stack"


def a_state(path):
    recipe = make_recipe("dyck-minimal", {}, steps=2, batch=2)
    write_state(path, initial_state(recipe, (0,)), "plan", Timing(0.0, 0.0))


WRITERS = {
    "text": lambda path: write_text(path, "x" * 5000),
    "checkpoint": lambda path: save_checkpoint(load_checkpoint(MODEL), path),
    "state": a_state,
    "page": lambda path: save_figure(attention_heatmap(load_checkpoint(MODEL), "()"), path.with_suffix(".html")),
    "page and script": lambda path: save_figure(
        attention_heatmap(load_checkpoint(MODEL), "()"), path.with_suffix(".html"), include_plotlyjs="directory"
    ),
    "folder": lambda path: write_text(make_folder(path.with_suffix(".new")) / "x", "x" * 5000),
}


@pytest.mark.parametrize("how", ["limit", "folder removed", "full", "read-only"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
@pytest.mark.slow
def test_a_write_that_fails_is_the_works_failure(write, how, tmp_path):
    """One line, status 1, and what was there before is there still."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "a.safetensors").write_text("before")
    (folder / "a.html").write_text("before")
    with no_disk(folder, how):
        if write is WRITERS["folder"] and how == "folder removed":
            write(folder / "a.safetensors")  # it makes the parents, too
            return
        with pytest.raises(WriteError, match="cannot ") as error:
            write(folder / "a.safetensors")
        assert error.value.exit_code == 1
        assert "\n" not in str(error.value)
        assert str(folder) in str(error.value)
        if how != "folder removed":
            assert {"a.safetensors": "before", "a.html": "before"}.items() <= {
                path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".html", ".safetensors")
            }.items()
            assert not [path for path in folder.iterdir() if path.name.endswith(UNFINISHED)]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing/x", "No such file or directory"),
        ("file/x", "Not a directory"),
        ("folder", "it is a folder"),
        ("pipe", "no regular file"),
        ("n" * 300, "File name too long"),
        ("loop", "symbolic links"),
        ("null\0x", "null character"),
    ],
)
def test_a_wrong_path_is_the_requests_fault_before_the_work_and_found_by_the_write_too(path, said, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match=said) as refused:
        check_writable(tmp_path / path)
    assert not isinstance(refused.value, WriteError)
    assert refused.value.exit_code == 2
    with pytest.raises(WriteError, match=said):
        write_text(tmp_path / path, "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "loop", "pipe"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE])
def test_a_full_disk_is_no_wrong_path_before_the_work_either(number, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    for check in (check_writable, check_folder):
        with pytest.raises(WriteError, match=os.strerror(number)):
            check(tmp_path / "x")


COMMANDS = {
    "train": "train dyck-minimal --steps 2 --batch 2 --seeds 1 --workers 1 --out {0}.safetensors",
    "train, two workers": "train dyck-minimal --steps 2 --batch 2 --seeds 2 --workers 2 --out {0}.safetensors",
    "analyze --json": "analyze stack constructed/stack --json {0}.json",
    "analyze --figure": "analyze stack constructed/stack --figure {0}.html",
    "heatmap": "heatmap constructed/stack --text () --out {0}.html",
    "list": "list --json {0}.json",
    "report": "report dyck-attention --quick --seeds 1 --steps 2 --workers 1 --out {0}",
}


HOLDS_A_PLAN = 3000  # bytes; but no state

FULL = [(name, 0) for name in COMMANDS] + [
    ("train", HOLDS_A_PLAN),
    pytest.param("train, two workers", HOLDS_A_PLAN, marks=pytest.mark.slow),
    pytest.param("report", HOLDS_A_PLAN, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "size"), FULL)
@pytest.mark.slow
def test_a_command_on_a_full_disk_ends_with_status_1_and_one_line(name, size, tmp_path, capsys):
    with file_size_limit(size):
        assert main(COMMANDS[name].format(tmp_path / "x").split()) == 1
    # A long run tells how far it is, and the disk may be full only then.
    lines = capsys.readouterr().err.splitlines(keepends=True)
    said = "".join(line for line in lines if not line.startswith("training"))
    assert said.startswith("interp: ")
    assert said.count("\n") == 1
    assert "cannot write" in said
    assert "File too large" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_with_a_wrong_path_ends_with_status_2_before_any_work(command, tmp_path, monkeypatch, capsys):
    for work in ("interp.training.run.run_chunk", "interp.checkpoints.load_checkpoint"):
        monkeypatch.setattr(work, None)
    (tmp_path / "file").write_text("x")
    assert main(command.format(tmp_path / "file" / "x").split()) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("interp: cannot ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("taken", ["index.html", "results.json"])
def test_a_report_is_refused_where_its_page_could_not_be_written(taken, tmp_path, capsys):
    (tmp_path / taken).mkdir()
    assert main(["report", "dyck-attention", "--out", str(tmp_path)]) == 2
    assert "it is a folder" in capsys.readouterr().err
    assert os.listdir(tmp_path) == [taken]


@pytest.mark.parametrize(
    "wrong", [["--corpus", "nothing.txt"], ["--model", "./nothing"], ["--device", "abacus"]], ids=lambda w: w[0]
)
def test_a_refused_report_leaves_no_folder(wrong, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for out in ("new/of/its/own", "there", "there/too"):
        assert main(["report", "topics-wikipedia", *wrong, "--out", out]) == 2
    assert capsys.readouterr().err.count("interp: ") == 3
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["there"]


def test_an_interrupted_folder_keeps_what_is_in_it(tmp_path):
    def work():
        with new_folder(tmp_path / "a" / "b") as folder:
            (folder / "x").write_text("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert (tmp_path / "a" / "b" / "x").exists()


def test_a_name_of_broken_bytes_can_be_quoted_in_a_page(tmp_path):
    write_text(tmp_path / "x", "reports/\udcff")
    assert (tmp_path / "x").read_text() == "reports/\\udcff"


@pytest.mark.parametrize("out", ["runs/x.safetensors", "x.safetensors"])
def test_a_folder_removed_in_the_middle_of_training_ends_with_status_1(out, tmp_path, monkeypatch, capsys):
    folder = (tmp_path / "out" / out).parent
    folder.mkdir(parents=True)
    original, calls = run.write_state, []

    def removing(*arguments):
        calls.append(1)
        if len(calls) == 2:
            shutil.rmtree(tmp_path / "out")
        original(*arguments)

    monkeypatch.setattr(run, "write_state", removing)
    command = "train dyck-minimal --steps 4 --batch 2 --seeds 1 --workers 1 --set eval_every=2 --out"
    assert main([*command.split(), str(tmp_path / "out" / out)]) == 1
    said = capsys.readouterr().err
    assert "chunk-000.safetensors': No such file or directory" in said
    assert said.count("\n") == 1
    assert os.listdir(tmp_path) == []


# -- what a killed process leaves ------------------------------------------------------------------------------


def test_what_a_killed_write_left_is_removed_by_the_next_and_a_living_one_is_let_alone(tmp_path):
    code = (
        "import os, sys, time\nfrom interp.files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n    print(flush=True)\n    time.sleep(600)\n"
    )
    out = tmp_path / "x.json"
    others = [
        subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, cwd=ROOT) for _ in range(2)
    ]
    try:
        for other in others:
            other.stdout.readline()
        assert len(os.listdir(tmp_path)) == 2
        others[0].kill()
        others[0].wait()
        (tmp_path / ".mine.part").write_text("of another name")
        write_text(out, "whole")
        left = [name for name in os.listdir(tmp_path) if name.startswith(".x.json")]
        assert len(left) == 1
        assert (tmp_path / left[0]).read_text() == "half"
    finally:
        for other in others:
            other.kill()
            other.wait()
            other.stdout.close()
    write_text(out, "again")
    assert sorted(os.listdir(tmp_path)) == [".mine.part", "x.json"]


def test_a_write_taken_for_abandoned_before_it_was_locked_begins_anew(tmp_path, monkeypatch):
    import tempfile

    original, made = tempfile.mkstemp, []

    def stolen(*args, **options):
        handle, name = original(*args, **options)
        made.append(name)
        if len(made) == 1:
            os.unlink(name)  # by another process that looked just now
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", stolen)
    write_text(tmp_path / "x", "whole")
    assert len(made) == 2
    assert (tmp_path / "x").read_text() == "whole"
    assert os.listdir(tmp_path) == ["x"]


def test_writing_leaves_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    for i in range(20):
        write_text(tmp_path / "x", str(i))
        with pytest.raises(ZeroDivisionError), replacing(tmp_path / "x"):
            raise ZeroDivisionError
        with pytest.raises(WriteError):
            write_text(tmp_path / "missing" / "x", "")
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


# -- nobody writes in another way ----------------------------------------------------------------------------------

WRITING = {"write_text", "write_bytes", "save_file", "write_html", "touch", "dump", "savez", "savetxt", "write_image"}


def raw_writes(path):
    """Lines of a module that write a file by other means than `interp.files`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        said = ast.unparse(node)
        if name == "open":
            modes = [a.value for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)]
            if any(isinstance(mode, str) and set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes):
                yield node.lineno, said
        elif name in WRITING and isinstance(node.func, ast.Attribute) and "temporary" not in said:
            yield node.lineno, said


def test_every_file_is_written_through_one_module():
    allowed = {
        ("interp/plots/compact.py", "write_html"),  # plotly's own method, which it stands in for
        ("interp/cli/__init__.py", "os.devnull"),
    }
    found = []
    for package in ("interp", "probes", "case_studies"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for line, said in raw_writes(path):
                if not any(name == where and what in said for where, what in allowed):
                    found.append(f"{name}:{line}: {said}")
    assert not found, "write through interp.files.replacing or write_text"


@pytest.mark.parametrize("wrong", [None, 5, 5.5, b"x.safetensors", [], Ellipsis], ids=str)
@pytest.mark.parametrize(
    "use",
    [
        lambda path: save_checkpoint(load_checkpoint(MODEL), path),
        load_checkpoint,
        lambda path: load_foreign(path, {}),
        lambda path: save_figure(attention_heatmap([[1.0]]), path),
        lambda path: train_population("dyck-minimal", 1, steps=1, batch=1, workers=1, out=path or 5),
        check_writable,
        lambda path: write_text(path, "x"),
    ],
    ids=range(7),
)
def test_what_is_no_path_is_refused(use, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterpError) as refused:
        use(wrong)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_anything_that_says_its_path_is_a_path(tmp_path):
    class Mine:
        def __fspath__(self):
            return str(tmp_path / "x.txt")

    write_text(Mine(), "x")
    assert (tmp_path / "x.txt").read_text() == "x"
