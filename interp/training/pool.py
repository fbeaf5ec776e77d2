"""Worker processes that train the chunks of a run, and that end with this process, however it ends."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interp.errors import TrainingError
from interp.training.folder import RunFolder

PATIENCE = 10  # seconds for killed workers to be gone


def train_in_workers(
    folder: RunFolder,
    chunks: Sequence[str],
    workers: int,
    progress: Callable[[int], Any],
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Train every chunk of the plan in `folder`, each in a process of its own, `workers` at a time.

    `chunks` names each chunk's seeds. `progress` gets the seed-steps done, from several threads, one at a time. `watch`
    is called twice a second in this thread. The
    first worker that fails stops the others and is a `TrainingError`; any exception in this thread (Ctrl-C) stops all.

    A worker reads from a pipe to which nobody writes. Its end means that this process is gone, killed or not, and the
    worker goes too. It also inherits the folder's lock, which is thus held as long as any process may write there.
    """
    waiting = deque(range(len(chunks)))
    running: list[subprocess.Popen[str]] = []
    failures: list[str] = []
    guard = threading.Lock()  # of all three, and of `progress`
    lifeline, alive = os.pipe()

    def start_next() -> tuple[int, "subprocess.Popen[str]"] | None:
        with guard:
            if not waiting:
                return None
            index = waiting.popleft()
            running.append(start_worker(folder, index, lifeline))
            return index, running[-1]

    def report(steps: int) -> None:
        with guard:
            progress(steps)

    def serve() -> None:
        try:
            while (started := start_next()) is not None:
                index, process = started
                said = _follow(process, report)
                with guard:
                    running.remove(process)
                if process.returncode != 0:
                    raise TrainingError(f"the worker for seeds {chunks[index]} {_ending(process.returncode)}: {said}")
        except Exception as error:  # whatever it is, an unfinished chunk must not pass for a finished one
            known = isinstance(error, TrainingError)
            with guard:
                failures.append(str(error) if known else f"a worker could not be run: {error}")
            stop()

    def stop() -> None:
        with guard:
            waiting.clear()
            for process in running:
                process.kill()  # a state is written whole or not at all: any moment will do

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(workers, len(chunks)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(timeout=0.5)
                watch()
    finally:
        os.close(alive)  # first: should a second Ctrl-C cut this short, the workers end all the same
        stop()
        for thread in threads:
            if thread.ident is not None:  # it was started
                thread.join(timeout=PATIENCE)
        os.close(lifeline)
    if failures:
        raise TrainingError(f"{failures[0]}; what was done so far is kept")


def start_worker(folder: RunFolder, index: int, lifeline: int) -> "subprocess.Popen[str]":
    """A process that trains one chunk, prints seed-steps, and ends when `lifeline` does."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",  # `-m` would put the current folder, and whatever lies in it, first
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "interp.training.worker", str(folder.path), str(index)],
        stdin=lifeline,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=env,
        pass_fds=() if folder.lock is None else (folder.lock,),
        start_new_session=True,  # Ctrl-C goes to the parent, which stops its workers
    )


def _follow(process: "subprocess.Popen[str]", report: Callable[[int], None]) -> str:
    """Pass on a worker's progress until it has ended; the last line of its complaints."""
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = process.stderr
    last: deque[str] = deque(maxlen=1)
    reader = threading.Thread(target=lambda: last.extend(line.strip() for line in complaints if line.strip()))
    reader.start()
    with process:
        try:
            for line in process.stdout:
                if line.strip().isdigit():  # and not what somebody's sitecustomize prints
                    report(int(line))
        except BaseException:
            process.kill()
            raise
        reader.join()
    return last[0] if last else "no message"


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    return f"was killed by {signal.Signals(-code).name}"
