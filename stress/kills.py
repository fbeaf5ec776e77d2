"""Training runs killed at random times: each goes on, with --resume, to the bytes of the undisturbed run.

Half of the runs train in worker processes. Parents and workers are killed, by SIGKILL, SIGTERM and (parents) SIGINT,
anywhere between the start of Python and the writing of the checkpoint; some again while they are resumed. After each
kill no process of the run may be left, and in the end no file but the checkpoint. Beside these, case studies are killed
and asked for again: the same page has to come out.
"""

import filecmp
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from stressing import ROOT, Arguments, Report, main

COMMAND = "train dyck-minimal --seeds 4 --steps 400 --batch 4 --set eval_every=5 --snapshot 0 --snapshot 200"
STUDY = (
    "import sys; from pathlib import Path; from case_studies.dyck_balance import study;"
    "study.run(Path(sys.argv[1]), seeds=2, steps=30, workers=int(sys.argv[2]))"
)
GONE_WITHIN = 10  # seconds from the end of a parent until nothing of its run may be left
PATIENCE = 600  # seconds for anything


def run(arguments: Arguments) -> Report:
    report, rng = Report(), np.random.default_rng(arguments.seed)
    kills, studies = arguments.size(80, 6), arguments.size(6, 0)
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name:
        folder = Path(name)
        whole, phases = undisturbed(folder)
        done = 0
        while done < kills:
            done += killed(report, folder, whole, phases, done, rng)
        for number in range(studies):
            killed_study(report, folder, number, rng)
    c = report.counts
    report.said = (
        f"{c['kills']} kills at random times ({c['with workers']} of runs with worker processes, {c['of a worker']} "
        f"of a worker, {c['while resumed']} while resumed; {c['before the first state']} before the first state was "
        f"written), each resumed: {c['the same bytes']} of {c['runs']} runs with the same bytes, {c['left behind']} "
        f"processes left behind; {c['studies']} studies killed and asked for again, {c['the same page']} with the "
        "same page"
    )
    return report


def begin(out: Path, workers: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "interp", *COMMAND.split(), "--out", str(out), "--workers", str(workers), *more],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def undisturbed(folder: Path) -> tuple[Path, dict[int, tuple[float, float]]]:
    """The checkpoint that has to come out; and by number of workers, seconds to the first state and from it on."""
    phases = {}
    for workers in (1, 2):
        out, begun = folder / f"whole-{workers}.safetensors", time.monotonic()
        process = begin(out, workers)
        wait_for(lambda: states_of(out) > 0 or process.poll() is not None)  # noqa: B023 - called here
        first = time.monotonic()
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        phases[workers] = first - begun, time.monotonic() - first
    assert filecmp.cmp(folder / "whole-1.safetensors", folder / "whole-2.safetensors", shallow=False)
    return folder / "whole-1.safetensors", phases


def states_of(out: Path) -> int:
    """How many chunks of a run have a state."""
    return len(list(Path(f"{out}.run").glob("chunk-*")))


def killed(
    report: Report,
    folder: Path,
    whole: Path,
    phases: dict[int, tuple[float, float]],
    number: int,
    rng: np.random.Generator,
) -> int:
    """Kill one run (and now and then its resumption), let it be finished, compare; how many kills it was."""
    c, out = report.counts, folder / f"run-{number}" / "x.safetensors"
    out.parent.mkdir()
    workers = 1 + number % 2
    kills = 0
    while True:
        process = begin(out, workers, *(["--resume"] if kills else []))
        whom, how = choose(workers, rng)
        before, after = phases[workers]
        if rng.integers(5):  # mostly while there is something to lose
            wait_for(lambda: states_of(out) > 0 or process.poll() is not None)  # noqa: B023 - called here
            time.sleep(float(rng.uniform(0, after)))
        else:
            time.sleep(float(rng.uniform(0, before)))
        victims = workers_of(out) if whom == "worker" else [process.pid]
        states = states_of(out)
        if process.poll() is None and victims:
            with suppress(ProcessLookupError):
                os.kill(int(rng.choice(victims)), how)
            kills += 1
            c["kills"] += 1
            c["with workers"] += workers == 2
            c["of a worker"] += whom == "worker"
            c["while resumed"] += kills > 1
            c["before the first state"] += states == 0
        where = f"run {number}, kill {kills} of a {whom} by {how.name} with {workers} worker(s), {states} states"
        try:
            said = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            report.wrong(f"{where}: goes on for ever")
            said = ""
        check_ending(report, where, process.returncode, said)
        check_nothing_goes_on(report, where, out)
        if out.exists() and process.returncode == 0:
            break
        if kills >= 1 and rng.integers(3):
            finish(report, where, out, 1 + int(rng.integers(2)))
            break
    c["runs"] += 1
    if not out.exists() or not filecmp.cmp(out, whole, shallow=False):
        report.wrong(f"{where}: other bytes than the undisturbed run")
    else:
        c["the same bytes"] += 1
    if (left := sorted(os.listdir(out.parent))) != [out.name]:
        report.wrong(f"{where}: {left} are left")
    shutil.rmtree(out.parent)
    return kills


def choose(workers: int, rng: np.random.Generator) -> tuple[str, signal.Signals]:
    whom = "worker" if workers == 2 and rng.integers(2) else "parent"
    ways = [signal.SIGKILL, signal.SIGTERM] + [signal.SIGINT] * (whom == "parent")
    return whom, ways[int(rng.integers(len(ways)))]


def finish(report: Report, where: str, out: Path, workers: int) -> None:
    """Resume to the end."""
    process = begin(out, workers, "--resume")
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:
        report.wrong(f"{where}: cannot be resumed: {said}")


def check_ending(report: Report, where: str, status: int | None, said: str) -> None:
    """A status that is said in one line, or a death by the signal."""
    lines = [line for line in said.splitlines() if not line.startswith("training ")]
    if (status is not None and status < 0) or status == 0:
        good = not lines
    else:
        good = status == 1 and len(lines) == 1 and lines[0].startswith("interp: ")
    if not good:
        report.wrong(f"{where}: status {status}, {len(lines)} lines: {said[-300:]}")


def check_nothing_goes_on(report: Report, where: str, out: Path) -> None:
    until = time.monotonic() + GONE_WITHIN
    while left := workers_of(out):
        if time.monotonic() > until:
            report.counts["left behind"] += len(left)
            report.wrong(f"{where}: {len(left)} workers go on after {GONE_WITHIN} s")
            return
        time.sleep(0.01)
    time.sleep(0.05)  # off the list of processes a moment before their files are closed


def workers_of(out: Path) -> list[int]:
    """Process ids of the workers of a run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"interp.training.worker" in words and f"{out}.run".encode() in words:
                found.append(int(path.parent.name))
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)


def killed_study(report: Report, folder: Path, number: int, rng: np.random.Generator) -> None:
    """A case study, killed at a random time and asked for again."""
    whole, again = folder / "study", folder / "study-killed"
    begun = time.monotonic()
    if not whole.exists():
        ask(whole, 1).communicate(timeout=PATIENCE)
        report.counts["seconds of a study"] = int(time.monotonic() - begun)
    process = ask(again, 1 + number % 2)
    time.sleep(float(rng.uniform(2, max(3, report.counts["seconds of a study"]))))
    process.send_signal([signal.SIGKILL, signal.SIGTERM][int(rng.integers(2))])
    process.communicate(timeout=PATIENCE)
    for _ in range(200):
        if not any(f"{again}/" in line for line in command_lines()):
            break
        time.sleep(0.05)
    else:
        report.wrong(f"study {number}: workers go on")
    _, said = ask(again, 1).communicate(timeout=PATIENCE)
    report.counts["studies"] += 1
    files = [path / "results.json" for path in (whole, again)]
    pages = [path.read_bytes() if path.exists() else said for path in files]
    if pages[0] == pages[1] and not list(again.rglob("*.part")) and not list(again.rglob("*.run")):
        report.counts["the same page"] += 1
    else:
        report.wrong(f"study {number}: another result, or files left: {sorted(map(str, again.rglob('*')))[:9]} {said}")
    shutil.rmtree(again, ignore_errors=True)


def ask(out: Path, workers: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STUDY, str(out), str(workers)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


if __name__ == "__main__":
    main("kills", __doc__, run)
