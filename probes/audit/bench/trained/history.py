"""Runs of the judging half and of the fresh families, in a file that is committed: a new folder of models does not
start their count anew. Seeds say which of both an entry is of.

An entry is written before a run begins, so that one that was broken off counts too; what it found is added at its end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interp.errors import RequestError
from interp.files import as_path, check_writable, write_text
from interp.limits import read_whole
from interp.numbers import ABSENT
from probes.audit.bench.digest import ROOT, auditor
from probes.audit.bench.trained.errors import Counted

HISTORY = ROOT / "docs" / "trained-bench-runs.json"
Run = dict[str, Any]


def read_runs(path: Path) -> list[Run]:
    """All runs so far. Raises `RequestError` for a file that holds no list of runs."""
    try:
        found = json.loads(read_whole(path, "runs of the judging half"))
    except ValueError as error:
        raise RequestError(f"{str(path)!r} holds no list of runs: {error}") from error
    if not isinstance(found, list) or not all(isinstance(run, dict) and "auditor" in run for run in found):
        raise RequestError(f"{str(path)!r} holds no list of runs of the judging half")
    return found


def history_path(given: str | Path | None) -> Path:
    """Where runs are counted: the file that is given, or that of the source tree. Raises `RequestError` without one."""
    if given is None and not HISTORY.exists():
        raise RequestError(
            "runs of the judging half are counted in a file, and there is none here: give runs=FILE (--runs)"
        )
    return HISTORY if given is None else as_path(given, "runs", RequestError)


def runs_so_far(path: Path) -> list[Run]:
    """As `read_runs`; none where there is no file yet."""
    return read_runs(path) if path.exists() else []


def runs_of(runs: Sequence[Run], seeds: Iterable[int]) -> list[Run]:
    """Those runs that had one of these seeds at least."""
    wanted = set(seeds)
    return [run for run in runs if wanted & set(run["seeds"])]


def begin_run(path: Path, families: Sequence[str], seeds: Sequence[int], seed: int) -> int:
    """Write down that a run begins; its number, from 1, among all in the file."""
    check_writable(path)
    runs = runs_so_far(path)
    runs.append({
        "auditor": auditor(), "families": list(families), "seeds": list(seeds), "seed": seed,
        "models": None, "claims": None, "outcomes": None,
    })  # fmt: skip
    _write(path, runs)
    return len(runs)


def end_run(path: Path, number: int, counted: Sequence[Counted]) -> None:
    """Write down what run `number` found."""
    runs = read_runs(path)
    runs[number - 1] |= found_by(counted)
    _write(path, runs)


def found_by(counted: Sequence[Counted]) -> Mapping[str, Any]:
    """How many models and claims there were, and how many claims came out how."""
    outcomes: Counter[str] = Counter()
    for one in counted:
        outcomes[one.outcome] += one.claims
    models = len({(c.family, c.seed) for c in counted})
    return {"models": models, "claims": outcomes.total(), "outcomes": dict(outcomes)}


def runs_table(runs: Sequence[Run]) -> str:
    """The runs, for pages: what was asked of which auditor, and how many claims came out with an error."""
    lines = [
        "| run | auditor | seeds | families | models | claims | claims with an error |",
        "|---|---|---|---|---|---|---|",
    ]
    for at, run in enumerate(runs, start=1):
        asked, seeds = run["auditor"], run["seeds"]
        which = f"version {asked['version']}, digest {asked['digest'] or 'not recorded'}"
        errors = "not finished"
        if run["outcomes"] is not None:
            errors = _listed({k: n for k, n in run["outcomes"].items() if k != "right"}) or "0"
        cells = (at, which, f"{min(seeds)} to {max(seeds)}", len(run["families"]), run["models"], run["claims"], errors)
        lines.append(f"| {' | '.join(ABSENT if cell is None else str(cell) for cell in cells)} |")
    return "\n".join(lines)


def _listed(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{claims} {name}" for name, claims in sorted(errors.items()))


def _write(path: Path, runs: Sequence[Run]) -> None:
    write_text(path, json.dumps(runs, indent=2, sort_keys=True, allow_nan=False) + "\n")
