"""However a run ends, nothing of it goes on, nobody trains beside it, and `--resume` gives the same bytes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interp import processes
from interp.errors import CheckpointError, RequestError, TrainingError, WorkerError
from interp.presets import make_recipe
from interp.processes import spread
from interp.training import folder as run_folders
from interp.training import loop, pool, run
from interp.training.folder import RunFolder, run_folder
from interp.training.run import train_population
from interp.training.state import read_state, write_state
from interp.worlds.dyck import task as objective

ROOT = Path(__file__).parents[2]
PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
MAIN = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread"
)


@pytest.fixture(autouse=True)
def small_evaluations(request, monkeypatch):
    """Small held-out sets where everything happens in this process."""
    if "slow" not in request.keywords:
        monkeypatch.setattr(objective, "EVAL_STRINGS", 20)
        monkeypatch.setattr(objective, "FINAL_STRINGS", 30)
        monkeypatch.setattr(
            objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=40, score_from=30)
        )


def recipe(steps=8, **options):
    return make_recipe("dyck-minimal", {"eval_every": max(2, steps // 40), **options}, steps=steps, batch=3)


# -- chunks are put together only if they are finished ------------------------------------------------------


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A run of three chunks, trained to the end and not yet put together."""
    monkeypatch.setattr(run, "MAX_CHUNK", 2)
    made = run._Plan.open(tmp_path, recipe(), [4, 1, 3, 0, 2], 1, "cpu")
    for index in range(3):
        run.run_chunk(made, index)
    return made


def stopped_early(made, path):
    state, timing = loop.train_chunk(made.recipe, loop.initial_state(made.recipe, made.chunks[1]), until=4)
    write_state(path, state, made.digest, timing)


def never_begun(made, path):
    write_state(path, loop.initial_state(made.recipe, made.chunks[1]), made.digest, loop.Timing(0.0, 0.0))


def of_another_chunk(made, path):
    path.write_bytes(made.state_file(0).read_bytes())


def of_another_run(made, path):
    state, timing = read_state(path, made.digest)
    write_state(path, state, "another", timing)


def damaged(made, path):
    path.write_bytes(path.read_bytes()[:-1])


UNFINISHED_CHUNKS = {
    "not there": (lambda made, path: path.unlink(), "stands at step 0 of 8: .*chunk-001.safetensors' is not there"),
    "stopped early": (stopped_early, "stands at step 4 of 8"),
    "never begun": (never_begun, "stands at step 0 of 8"),
    "of another chunk": (of_another_chunk, "holds seeds 4-1, not 3-0"),
    "of another run": (of_another_run, "belongs to another run"),
    "damaged": (damaged, "is damaged"),
    "a folder": (lambda made, path: (path.unlink(), path.mkdir()), "cannot be read back"),
}


@pytest.mark.parametrize(("spoil", "said"), UNFINISHED_CHUNKS.values(), ids=UNFINISHED_CHUNKS.keys())
@pytest.mark.slow
def test_an_unfinished_chunk_never_passes_for_a_finished_one(plan, spoil, said):
    assert run._assemble(plan, kept=True).seeds == (4, 1, 3, 0, 2)
    spoil(plan, plan.state_file(1))
    with pytest.raises(TrainingError, match=rf"^chunk 1 \(seeds 3-0\) .*{said}") as error:
        run._assemble(plan, kept=True)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 1


def test_a_state_of_another_chunk_is_not_continued_either(plan):
    of_another_chunk(plan, plan.state_file(1))
    with pytest.raises(CheckpointError, match="holds seeds 4-1, not 3-0"):
        run.run_chunk(plan, 1)


# -- one run in a folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("state", ["nothing yet", "a plan", "a chunk"])
def test_a_folder_in_use_is_never_called_unfinished(tmp_path, resume, state):
    out = tmp_path / "x.safetensors"
    with run_folder(out, resume=False) as mine:
        if state != "nothing yet":
            (mine.path / "plan.json").write_text("{}")
        if state == "a chunk":
            (mine.path / "chunk-000.safetensors").write_text("")
        before = sorted(os.listdir(mine.path))
        with pytest.raises(RequestError, match="another process is training into") as error, run_folder(out, resume):
            pass
        assert "remove" not in str(error.value)
        assert sorted(os.listdir(mine.path)) == before
    assert (tmp_path / "x.safetensors.run").exists() == (state == "a chunk")


@pytest.mark.parametrize("moment", ["mkdir", "open", "flock"])
def test_a_folder_that_its_run_removes_just_now_is_made_anew(tmp_path, monkeypatch, moment):
    """The other run may end at any point between our looking at the folder and our locking it."""
    path, removed = tmp_path / "x.run", []
    path.mkdir()
    owner, name = {
        "mkdir": (Path, "mkdir"),
        "open": (run_folders.os, "open"),
        "flock": (run_folders.fcntl, "flock"),
    }[moment]
    original = getattr(owner, name)

    def ending(*arguments, **options):
        if moment == "mkdir":
            result = original(*arguments, **options)
        if not removed:
            removed.append(1)
            path.rmdir()
        return result if moment == "mkdir" else original(*arguments, **options)

    monkeypatch.setattr(owner, name, ending)
    with run_folder(tmp_path / "x", resume=True) as mine:
        assert os.path.samestat(os.stat(path), os.fstat(mine.lock))
    assert removed
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("missing", ["module", "file system"])
def test_without_locks_training_goes_on_unlocked(tmp_path, monkeypatch, missing):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    if missing == "module":
        monkeypatch.setattr(run_folders, "fcntl", None)
    else:
        monkeypatch.setattr(run_folders.fcntl, "flock", refuse)
    with run_folder(tmp_path / "x", resume=False) as mine:
        assert mine == RunFolder(tmp_path / "x.run")
    train_population(recipe(), 2, out=tmp_path / "y", workers=1)
    assert os.listdir(tmp_path) == ["y"]


def test_a_run_killed_while_it_cleaned_up_is_found_finished(tmp_path, monkeypatch):
    out = tmp_path / "x.safetensors"
    first = train_population(recipe(), 2, out=out, workers=1)
    left = Path(f"{out}.run")
    left.mkdir()
    (left / "chunk-000.safetensors").write_bytes(b"")
    (left / ".chunk-000.safetensors.abcdefgh.part").write_bytes(b"")
    monkeypatch.setattr(run, "run_chunk", None)
    again = train_population(recipe(), 2, out=out, workers=1, resume=True)
    assert again.history == first.history
    assert os.listdir(tmp_path) == ["x.safetensors"]


# -- workers, in this process's hands ---------------------------------------------------------------------------


def open_files():
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


ENDLESS = "import time\nprint('no number')\nprint(3, flush=True)\ntime.sleep(600)"
BEHAVIOURS = {
    "hangs": ENDLESS,
    "fails": "import sys\nsys.stderr.buffer.write(b'first\\n\\xff\\n')\nsys.exit('no luck')",
    "kills itself": "import os\nos.kill(os.getpid(), 9)",
    "is refused memory": None,
    "floods": "import sys\nfor _ in range(20000): print('x' * 100, file=sys.stderr)\nsys.exit('no luck')",
    "is done": "print(5)",
}


def stand_in(*behaviours):
    """Workers that do not train: one behaviour a chunk."""
    started = []

    def start(folder, index, lifeline):
        code = BEHAVIOURS[behaviours[index]]
        if code is None:
            raise OSError(12, "Cannot allocate memory")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
        started.append(subprocess.Popen([sys.executable, "-c", code], stdin=lifeline, **pipes))
        return started[-1]

    return start, started


FAILURES = {
    ("fails", "hangs"): "worker for seeds 0 ended with 1: no luck",
    ("hangs", "fails", "is done"): "worker for seeds 1 ended with 1: no luck",
    ("hangs", "kills itself"): "worker for seeds 1 was killed by SIGKILL: no message",
    ("hangs", "is refused memory"): "a worker could not be run: .*Cannot allocate memory",
    ("hangs", "floods"): "worker for seeds 1 ended with 1: no luck",
}


@pytest.mark.parametrize(("behaviours", "said"), FAILURES.items(), ids=map(", ".join, FAILURES))
def test_the_first_failure_stops_the_others_at_once(behaviours, said, tmp_path, monkeypatch):
    start, started = stand_in(*behaviours)
    monkeypatch.setattr(pool, "start_worker", start)
    steps, files, threads = [], open_files(), threading.active_count()
    with pytest.raises(TrainingError, match=said) as error:
        pool.train_in_workers(RunFolder(tmp_path), list("012")[: len(behaviours)], 2, steps.append)
    assert str(error.value).endswith("what was done so far is kept")
    assert all(process.poll() is not None for process in started)
    assert threading.active_count() == threads
    assert open_files() == files


@pytest.mark.parametrize("behaviours", [("is done",) * 5, ("is done", "hangs", "hangs")], ids=["ends", "interrupted"])
@pytest.mark.parametrize("interruptions", [1, 2])
def test_an_interruption_leaves_no_worker_thread_or_open_file(behaviours, interruptions, tmp_path, monkeypatch):
    start, started = stand_in(*behaviours)
    monkeypatch.setattr(pool, "start_worker", start)
    steps, files, threads = [], open_files(), threading.active_count()
    join, calls = threading.Thread.join, []

    def interrupted(thread, timeout=None):
        if timeout is not None and "hangs" in behaviours:
            while sum(steps) < 6:  # the main thread waits here
                time.sleep(0.01)
            calls.append(timeout)
            if len(calls) <= interruptions:
                raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    if "hangs" in behaviours:
        with pytest.raises(KeyboardInterrupt):
            pool.train_in_workers(RunFolder(tmp_path), list("01234")[: len(behaviours)], 2, steps.append)
    else:
        pool.train_in_workers(RunFolder(tmp_path), list("01234"), 2, steps.append)
        assert steps == [5] * 5
    monkeypatch.undo()
    for process in started:
        process.wait(timeout=20)
    until = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == threads
    assert open_files() <= files + (interruptions - 1)  # a second Ctrl-C may cost the end of a pipe


@pytest.mark.parametrize("at", range(4))
def test_ctrl_c_while_workers_start(at, tmp_path, monkeypatch):
    """Threads that were not begun are not waited for, and no worker is begun any more."""
    start, started = stand_in("hangs", "hangs", "hangs", "hangs")
    monkeypatch.setattr(pool, "start_worker", start)
    begin, calls, threads = threading.Thread.start, [], threading.active_count()

    def interrupted(thread):
        if threading.current_thread() is threading.main_thread():
            calls.append(1)
            if len(calls) > at:
                raise KeyboardInterrupt
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.train_in_workers(RunFolder(tmp_path), list("0123"), 4, lambda steps: None)
    assert all(process.poll() is not None for process in started)
    assert len(started) <= at
    assert threading.active_count() == threads


# -- the real thing ------------------------------------------------------------------------------------------------


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def workers_of(folder):
    """Process ids of the workers that train into a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"interp.training.worker" in words and str(folder).encode() in words:
                found.append(int(path.parent.name))
    return [pid for pid in found if state_of(pid) not in "ZX"]


def is_free(folder):
    """Does nobody hold the folder's lock? A process is off the list a moment before its files are closed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        run_folders.fcntl.flock(handle, run_folders.fcntl.LOCK_EX | run_folders.fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def wait_until(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


STEPS = 240
COMMAND = f"train dyck-minimal --seeds 3 --steps {STEPS} --batch 3 --set eval_every=6 --out"


def begin(out, workers, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "interp", *COMMAND.split(), str(out), "--workers", str(workers), *more],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_threads": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of the undisturbed run."""
    out = tmp_path_factory.mktemp("whole") / "x.safetensors"
    train_population(recipe(STEPS), 3, out=out, workers=1)
    return out.read_bytes()


def under_way(out):
    """Has every worker of two begun to write?"""
    return len(list(Path(f"{out}.run").glob("chunk-*"))) == 2


ENDINGS = {
    "parent killed": ("parent", signal.SIGKILL, -signal.SIGKILL, ""),
    "parent terminated": ("parent", signal.SIGTERM, 1, "interrupted; the same command with --resume"),
    "parent interrupted": ("parent", signal.SIGINT, 1, "interrupted; the same command with --resume"),
    "terminal closed": ("parent", signal.SIGHUP, -signal.SIGHUP, ""),
    "worker killed": ("worker", signal.SIGKILL, 1, "was killed by SIGKILL"),
    "worker terminated": ("worker", signal.SIGTERM, 1, "was killed by SIGTERM"),
    "worker hangs, parent interrupted": ("both", signal.SIGINT, 1, "interrupted"),
}


@PROC
@pytest.mark.slow
@pytest.mark.parametrize(("whom", "how", "status", "said"), ENDINGS.values(), ids=ENDINGS.keys())
def test_however_it_ends_nothing_goes_on_and_resume_gives_the_same_bytes(whom, how, status, said, tmp_path, whole):
    out = tmp_path / "x.safetensors"
    process = begin(out, 2)
    wait_until(lambda: under_way(out) or process.poll() is not None)
    workers = workers_of(f"{out}.run")
    assert len(workers) == 2
    if whom == "both":
        os.kill(workers[0], signal.SIGSTOP)
    os.kill(workers[0] if whom == "worker" else process.pid, how)
    assert process.wait(timeout=60) == status
    wait_until(lambda: not workers_of(f"{out}.run") and is_free(f"{out}.run"), seconds=5)
    complaint = process.stderr.read()
    assert said in complaint
    assert "Traceback" not in complaint
    assert len([line for line in complaint.splitlines() if line.startswith("interp: ")]) == (status == 1)
    assert not out.exists()
    train_population(recipe(STEPS), 3, out=out, workers=1, resume=True)
    assert out.read_bytes() == whole
    assert os.listdir(tmp_path) == ["x.safetensors"]


@PROC
@pytest.mark.slow
def test_a_worker_that_outlives_its_parent_holds_the_lock_and_ends_as_soon_as_it_can(tmp_path, whole):
    """A stopped worker cannot notice anything; it could write as soon as it goes on."""
    out = tmp_path / "x.safetensors"
    process = begin(out, 2)
    wait_until(lambda: under_way(out) or process.poll() is not None)
    workers = workers_of(f"{out}.run")
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        process.kill()
        process.wait()
        for resume in (True, False):
            with pytest.raises(RequestError, match="another process is training into"):
                train_population(recipe(STEPS), 3, out=out, workers=1, resume=resume)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    wait_until(lambda: not workers_of(f"{out}.run") and is_free(f"{out}.run"), seconds=5)
    train_population(recipe(STEPS), 3, out=out, workers=1, resume=True)
    assert out.read_bytes() == whole


@PROC
@pytest.mark.slow
def test_a_parent_killed_while_workers_start_leaves_none(tmp_path):
    """They load torch for seconds, and must notice within it."""
    out = tmp_path / "x.safetensors"
    process = begin(out, 2)
    wait_until(lambda: workers_of(f"{out}.run") or process.poll() is not None)
    process.kill()
    process.wait()
    wait_until(lambda: not workers_of(f"{out}.run"), seconds=3)
    assert not list(Path(f"{out}.run").glob("chunk-*"))


@PROC
@pytest.mark.slow
def test_of_two_runs_started_at_the_same_moment_one_is_refused(tmp_path, whole):
    out = tmp_path / "x.safetensors"
    both = [begin(out, 1) for _ in range(2)]
    said = [process.communicate(timeout=300)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    refused = said[[process.returncode for process in both].index(2)]
    assert "another process is training into" in refused
    assert out.read_bytes() == whole
    assert os.listdir(tmp_path) == ["x.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone_costs_no_training(stream, tmp_path, whole):
    out = tmp_path / "x.safetensors"
    read, write = os.pipe()
    os.close(read)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: write}
    done = subprocess.run(
        [sys.executable, "-m", "interp", *COMMAND.split(), str(out), "--workers", "1"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_threads": "1"},
        **streams,
    )
    os.close(write)
    assert done.returncode == (1 if stream == "stdout" else 0)  # what was asked for could not be said, or was
    assert out.read_bytes() == whole


# -- streams that cannot be written --------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("command", "stream", "status"),
    [
        ("list", "stdout", 1),
        ("list", "stderr", 0),
        ("nonsense", "stdout", 2),
        ("nonsense", "stderr", 2),
    ],
)
def test_the_status_is_right_where_a_stream_is_full(command, stream, status):
    with open("/dev/full", "w") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run([sys.executable, "-m", "interp", command], cwd=ROOT, text=True, **streams)
    assert done.returncode == status
    if stream == "stdout":
        assert done.stderr.startswith("interp: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "status"), [("list", 0), ("nonsense", 2)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_the_status_is_right_where_a_stream_is_closed(command, status, closed):
    done = subprocess.run(f"{sys.executable} -m interp {command} {closed}", shell=True, cwd=ROOT, capture_output=True)
    assert done.returncode == status
    assert b"Traceback" not in done.stderr


@MAIN
def test_an_interruption_within_an_exec_ends_with_status_1(tmp_path):
    """As in the import of a module with dataclasses; Python would end the process by SIGINT after all."""
    code = (
        "import sys\nimport interp.cli.commands as commands\nfrom interp.cli import main\n"
        "commands.list_all = lambda _: exec('raise KeyboardInterrupt')\n"
        "sys.exit(main(['list']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "interp: interrupted\n"


# -- a function over processes (the audit's bench) ----------------------------------------------------------------


def children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.fixture
def before():
    """Open files, threads and processes, once what stays for good is there (the resource tracker)."""
    assert list(spread(abs, [-1, 2], 2)) == [1, 2]
    return open_files(), threading.active_count(), children()


def nothing_left(before):
    assert (open_files(), threading.active_count(), children()) == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


@PROC
def test_results_come_in_order_from_several_processes(before):
    late_first = [f"[{i}, __import__('os').getpid(), __import__('time').sleep({(9 - i) / 100})]" for i in range(9)]
    found = list(spread(eval, late_first, 3))  # of the functions that need no import, the one that can do anything
    assert [job for job, *_ in found] == list(range(9))
    assert len({pid for _, pid, _ in found}) > 1
    assert list(spread(abs, [], 2)) == []
    nothing_left(before)


@PROC
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_ends_the_processes_at_once(kind, before):
    begun = time.monotonic()

    def work():
        with contextlib.closing(spread(time.sleep, [0, 0, 600, 600, 600], 2)) as results:
            assert next(results) is None
            raise kind

    with pytest.raises(kind):
        work()
    assert time.monotonic() - begun < 60
    nothing_left(before)


@PROC
@pytest.mark.parametrize(
    ("function", "jobs", "kind", "said"),
    [
        (os._exit, [3, 3, 3], WorkerError, "ended with 3"),
        (eval, ["__import__('os').kill(__import__('os').getpid(), 9)"], WorkerError, "ended with -9"),
        (eval, ["1", "1 / 0", "__import__('time').sleep(600)"], ZeroDivisionError, "division by zero"),
        (eval, [3], TypeError, "must be a string"),
    ],
)
def test_what_goes_wrong_in_a_process_is_raised_here(function, jobs, kind, said, before):
    with pytest.raises(kind, match=said) as error:
        list(spread(function, jobs, 2))
    assert getattr(error.value, "exit_code", 1) == 1
    nothing_left(before)


@PROC
@MAIN
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_until_every_process_has_begun_whichever_thread_takes_them(number, monkeypatch):
    """A mask is one thread's: a library's thread takes the signal, and Python calls the handler in the main one."""
    other, here, seen = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: (here.set(), other.wait(30)))
    thread.start()  # before the mask, so that it is unmasked, as the numeric libraries' threads are
    here.wait(30)
    before = signal.signal(number, lambda *_: seen.append("handled"))
    try:
        with processes._undisturbed():
            os.kill(os.getpid(), number)
            time.sleep(0.1)
            seen.append("begun")
        assert seen == ["begun", "handled"]
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {number}
    finally:
        signal.signal(number, before)
        other.set()
        thread.join()


@PROC
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "group", "status"),
    [(signal.SIGINT, True, 1), (signal.SIGTERM, False, 1), (signal.SIGKILL, False, -9)],
    ids=["ctrl-c", "terminated", "killed"],
)
def test_the_bench_ends_in_one_line_and_leaves_no_process(how, group, status):
    process = subprocess.Popen(
        [sys.executable, "-m", "interp", "audit", "--bench", "--per-family", "9"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def family():
        out = subprocess.run(["ps", "-eo", "sid=,stat="], capture_output=True, text=True).stdout.splitlines()
        return sum(1 for line in out if line.split()[0] == str(process.pid) and line.split()[1][0] != "Z")

    wait_until(lambda: family() >= 3 or process.poll() is not None)
    (os.killpg if group else os.kill)(process.pid, how)
    assert process.wait(timeout=60) == status
    wait_until(lambda: family() == 0, seconds=8)
    complaint = process.stderr.read()
    assert complaint.count("interp: interrupted") == (status == 1)
    assert "Traceback" not in complaint or status != 1  # of a process begun by a parent that is killed at that moment


# -- what a kill leaves -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_written_under_a_name_that_is_not_ours(tmp_path):
    """A kill may come at any moment: every file that ever lies in the folder must be known as one of ours."""
    watcher = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys, threading, time\n"
            "from interp import train_population\n"
            "folder, seen, going = sys.argv[1], set(), True\n"
            "def look():\n"
            "    while going:\n"
            "        for root, _, names in os.walk(folder):\n"
            "            seen.update(names)\n"
            "thread = threading.Thread(target=look)\n"
            "thread.start()\n"
            "for i in range(3):\n"
            "    train_population('dyck-minimal', 2, steps=6, batch=2, options={'eval_every': 1}, workers=1,\n"
            "                     out=f'{folder}/{i}.safetensors')\n"
            "going = False\n"
            "thread.join()\n"
            "print('\\n'.join(sorted(seen)))\n",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    names = watcher.stdout.split()
    assert any(name.startswith("chunk-") for name in names)
    ours = r"(chunk-\d+\.safetensors|plan\.json|metrics\.jsonl|\d\.safetensors)"
    known = re.compile(rf"{ours}|\.{ours}\..*\.part")
    assert [name for name in names if not known.fullmatch(name)] == []
