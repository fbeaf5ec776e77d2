"""What the stress tests share: their command line, their one line of output, and the table that is committed."""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results.json"
README = HERE / "README.md"
BEGIN, END = "<!-- stress: begin (written by the scripts) -->", "<!-- stress: end -->"
SHOWN = 20  # violations printed; all are in the JSON


@dataclass
class Report:
    """What one stress test found. `said` is the line without its time; one entry a violation."""

    said: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def wrong(self, what: str) -> None:
        """Note a violation."""
        self.violations.append(" ".join(what.split())[:600])


@dataclass(frozen=True)
class Arguments:
    """`quick`: a small number of everything. `seed`: of whatever is drawn."""

    quick: bool
    seed: int

    def size(self, full: int, quick: int) -> int:
        """How many, by the size that was asked for."""
        return quick if self.quick else full


def main(name: str, doc: str, run: Callable[[Arguments], Report]) -> None:
    """Command line of one stress test: run, print a line, note it; exit 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small number of everything; nothing is written")
    parser.add_argument("--seed", type=int, default=0, help="of whatever is drawn (default 0)")
    parser.add_argument("--json", type=Path, help="where to write (default: stress/results.json; quick: nowhere)")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun = time.monotonic()
    report = run(Arguments(given.quick, given.seed))
    seconds = time.monotonic() - begun
    verdict = "nothing wrong" if not report.violations else f"{len(report.violations)} WRONG"
    line = f"{report.said}; {verdict}, in {seconds:.0f} s"
    print(f"{name}: {line}", flush=True)
    for violation in report.violations[:SHOWN]:
        print(f"  WRONG: {violation}")
    entry = {
        "line": line,
        "counts": dict(sorted(report.counts.items())),
        "violations": report.violations,
        "seconds": round(seconds, 1),
        "seed": given.seed,
        "quick": given.quick,
        "machine": machine(),
    }
    path = given.json or (None if given.quick else RESULTS)
    if path is not None:
        note(path, name, entry)
    sys.exit(1 if report.violations else 0)


def note(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Replace the test's entry, and the table of the README if these are the committed results."""
    from interp.files import write_text

    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    known[name] = entry
    write_text(path, json.dumps(known, indent=1, sort_keys=True) + "\n")
    if path == RESULTS:
        text = README.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        write_text(README, f"{before}{BEGIN}\n{table(known)}\n{END}{rest.split(END)[1]}")


def table(known: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = ["| test | last full run | date, commit |", "|---|---|---|"]
    for name, entry in sorted(known.items()):
        about = entry["machine"]
        rows.append(f"| `{name}` | {entry['line']} | {about['date']}, {about['commit']} |")
    return "\n".join(rows)


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()


def machine() -> dict[str, Any]:
    """Where and when."""
    import torch

    try:
        commit = _git("describe", "--always")
        # The results that a script before this one wrote are no change of what is tested.
        mine = [f":!{path.relative_to(ROOT)}" for path in (RESULTS, README)]
        commit += "-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", ".", *mine) else ""
    except OSError:
        commit = ""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_after": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
