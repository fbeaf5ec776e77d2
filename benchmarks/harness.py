"""What all benchmarks share: two programs timed in turn, a JSON each, and a comparison with the committed one.

Absolute times drift on shared machines, so every figure is a ratio of two programs run one after the other,
the median over pairs, with the least and the largest ratio beside it; a row may ask for seconds as well. CPU time
counts this process only. On another device than the CPU, whose work is no CPU time, wall time is what counts, and the
JSON is another one.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interp.devices import usable_device
from interp.errors import InterpError
from interp.files import check_writable, write_text
from interp.numbers import percent, significant

HERE = Path(__file__).parent
FALLEN = 1.2  # a ratio this many times the committed one is named
Program = Callable[[], Any]


@dataclass(frozen=True)
class Arguments:
    """`quick`: a smoke run on tiny sizes, whose numbers mean nothing. `pairs`: timed pairs of programs."""

    quick: bool
    device: str
    pairs: int


@dataclass(frozen=True)
class Time:
    """Seconds a unit of ours and of the reference (medians), and their ratio over pairs."""

    ours: float
    reference: float
    ratio: float
    least: float
    largest: float


@dataclass(frozen=True)
class Row:
    """One comparison. `unit`: what the seconds are for. `target`: the ratio asked for, if one was.

    `seconds`: the most a unit of ours may take, where that is asked for.
    """

    what: str
    reference: str
    unit: str
    cpu: Time
    wall: Time
    pairs: int
    target: float | None = None
    seconds: float | None = None


def time_of(row: Row, device: str) -> Time:
    """The time that counts: the CPU's, or the clock's where the work was another device's."""
    return row.cpu if device == "cpu" else row.wall


def written(row: Row) -> dict[str, Any]:
    """A row as its JSON has it: `seconds` only where some are asked for."""
    return {key: value for key, value in asdict(row).items() if key != "seconds" or value is not None}


def sync(device: str) -> None:
    """Wait for the device, so that a clock means something."""
    if device != "cpu":
        torch.accelerator.synchronize(torch.device(device))


def clock(program: Program, device: str) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    sync(device)
    cpu, wall = time.process_time(), time.perf_counter()
    program()
    sync(device)
    return time.process_time() - cpu, time.perf_counter() - wall


def compare(
    ours: dict[str, tuple[Program, float]],
    reference: tuple[str, Program, float],
    unit: str,
    arguments: Arguments,
    targets: dict[str, float] | None = None,
    warm_up: bool = True,
    seconds: dict[str, float] | None = None,
) -> list[Row]:
    """Each program of `ours` beside the reference. A program comes with the units that one run does.

    `targets`, of ratios, and `seconds` a unit that are asked for, by program.

    All run once a pair, in turn, after a run of each that is not counted (`warm_up`).
    """
    name, program, count = reference
    programs = {**ours, "": (program, count)}
    if warm_up:
        for run, _ in programs.values():
            run()
    times: dict[str, list[tuple[float, float]]] = {key: [] for key in programs}
    for _ in range(arguments.pairs):
        for key, (run, units) in programs.items():
            cpu, wall = clock(run, arguments.device)
            times[key].append((cpu / units, wall / units))
    return [
        Row(
            key,
            name,
            unit,
            *(_time([t[i] for t in times[key]], [t[i] for t in times[""]]) for i in (0, 1)),
            arguments.pairs,
            (targets or {}).get(key),
            (seconds or {}).get(key),
        )
        for key in ours
    ]


def _time(ours: list[float], reference: list[float]) -> Time:
    ratios = [a / b if b > 0 else float("inf") for a, b in zip(ours, reference, strict=True)]
    return Time(
        statistics.median(ours), statistics.median(reference), statistics.median(ratios), min(ratios), max(ratios)
    )


def matmuls(device: str, size: int = 256, count: int = 40) -> tuple[str, Program, float]:
    """A reference for what has no rival: `count` products of float32 matrices, the machine's own measure."""
    a = torch.ones(size, size, device=device)

    def run() -> None:
        for _ in range(count):
            a @ a

    return f"a product of two {size} x {size} matrices", run, count


def peak_memory_gb() -> float:
    """Most memory this process has held so far, in GB."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def machine(device: str) -> dict[str, Any]:
    """What the numbers were measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        cpu = platform.processor()
    return {
        "date": datetime.date.today().isoformat(),
        "commit": git("rev-parse", "--short", "HEAD").strip(),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def clock_of(result: dict[str, Any]) -> str:
    """Which clock counts in a result: "cpu", or "wall" where the work was another device's."""
    return "cpu" if result["machine"]["device"] == "cpu" else "wall"


def main(
    name: str,
    doc: str,
    measure: Callable[[Arguments], dict[str, Any]],
    *,
    devices: bool = True,
    paired: bool = True,
    pairs: int = 5,
) -> None:
    """Command line of one benchmark: measure, print, write, compare with what is committed.

    `devices`: does any of it run elsewhere than on the CPU? `paired`: are programs timed in pairs, and in how
    many `pairs` if nothing else is asked for?
    """
    given, home, path = parse(name, doc, devices, paired, pairs)
    torch.set_num_threads(1)
    arguments = Arguments(given.quick, given.device, 1 if given.quick else given.pairs)
    before, about = committed(home), machine(given.device)
    if given.quick:
        print("a smoke run: its numbers mean nothing")
    found = measure(arguments)
    rows = [written(row) for row in found.pop("rows", [])]
    result = {"benchmark": name, "quick": given.quick, "machine": about, "rows": rows, **found}
    for row in rows:
        print(line(row, clock_of(result)))
    if path is not None:
        write_text(path, json.dumps(result, indent=1, sort_keys=True) + "\n")
        print(f"wrote {path}")
    if not given.quick and rows:
        print("\n".join(fallen(before, result)))


def parse(name: str, doc: str, devices: bool, paired: bool, pairs: int) -> tuple[argparse.Namespace, Path, Path | None]:
    """The arguments, all checked before anything is measured, the results' own file, and where to write."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run: tiny sizes, one pair, nothing written")
    parser.add_argument("--json", type=Path, help=f"where to write (default: benchmarks/{name}.json; quick: nowhere)")
    parser.set_defaults(device="cpu", pairs=pairs)
    if devices:
        parser.add_argument("--device", help="cpu (default) or a torch device such as cuda")
    if paired:
        parser.add_argument("--pairs", type=int, help=f"timed pairs of programs (default {pairs}; quick: 1)")
    given = parser.parse_args()
    if given.pairs < 1:
        parser.error(f"--pairs {given.pairs} is not a count of at least 1")
    try:
        given.device = usable_device(given.device)
        home = HERE / (f"{name}.json" if given.device == "cpu" else f"{name}-{given.device.split(':')[0]}.json")
        path = given.json or (None if given.quick else home)
        if path is not None:
            check_writable(path)
    except InterpError as error:
        parser.error(str(error))
    return given, home, path


def git(*arguments: str, folder: Path = HERE) -> str:
    """What a git command prints, "" where it fails or there is no git."""
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def committed(path: Path) -> Any:
    """The results in git, since a second run would else be compared with the first; without git, those in the file.

    None where there are none, or none that can be read.
    """
    text = git("show", f"HEAD:./{path.name}", folder=path.parent)
    try:
        return json.loads(text or path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def line(row: dict[str, Any], clock: str) -> str:
    """One comparison, for the terminal."""
    time, other = row[clock], "wall" if clock == "cpu" else "cpu"
    target = "" if row["target"] is None else f"  target {significant(row['target'])}"
    target += f"  target {significant(row['seconds'])} s" if "seconds" in row else ""
    return (
        f"{row['what']}: {significant(time['ours'])} {clock} s {row['unit']}, {row['reference']} "
        f"{significant(time['reference'])}; "
        f"ratio {significant(time['ratio'])} [{significant(time['least'])}, {significant(time['largest'])}], "
        f"{other} {significant(row[other]['ratio'])}{target}"
    )


def fallen(old: Any, new: dict[str, Any]) -> list[str]:
    """What became slower, against its own reference, by more than a fifth."""
    clock = clock_of(new)
    try:
        if old["machine"]["device"] != new["machine"]["device"]:
            return [f"the committed numbers are of {old['machine']['device']!r}: not compared"]
        before = {row["what"]: float(row[clock]["ratio"]) for row in old["rows"]}
    except (KeyError, TypeError, ValueError):
        return ["there are no committed numbers that can be read: not compared"]
    out = []
    for row in new["rows"]:
        was, now = before.get(row["what"]), row[clock]["ratio"]
        if was is not None and now > FALLEN * was:
            out.append(f"SLOWER: {row['what']}: ratio to {row['reference']} {significant(was)} -> {significant(now)}")
    return out or [f"nothing is slower than committed by more than {percent(FALLEN - 1)}"]
