"""Audits with other thresholds than the auditor's own, in a process of their own.

The thresholds are constants, and the auditor's rules are built from them when they are imported. So a job goes to a
new process (`python -m case_studies.head_claims.moved`), which replaces them before the auditor is imported; nothing
here or in the caller changes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from interp.errors import AnalysisError, RequestError, quoted

THRESHOLDS = "probes.audit.thresholds"


@dataclass(frozen=True)
class Job:
    """What is audited there: the primary statements about the first `seeds` models of a checkpoint.

    - `group`: a name of `groups.GROUPS`; `source`: a bundled checkpoint's name, or a path.
    - `inputs`, `length`, `seed`: as of `audit_claims`. `thresholds`: name -> value.
    """

    group: str
    source: str
    seeds: int
    inputs: int
    length: int
    seed: int
    thresholds: Mapping[str, float]


def audits_of(job: Job) -> list[dict[str, Any]]:
    """The audits, as of `AuditResult.to_dict`, a claim each. Raises `AnalysisError` with what the process said."""
    path = os.pathsep.join(p for p in (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")) if p)
    # `-m` would put the current folder, and whatever lies in it, first
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "case_studies.head_claims.moved"]
    given = json.dumps({**asdict(job), "thresholds": dict(job.thresholds)})
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", env=env, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise AnalysisError(f"the audit of {quoted(job.group)} with {dict(job.thresholds)} failed: {last}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def replace_thresholds(values: Mapping[str, Any]) -> None:
    """Put the auditor's thresholds with these values where it will find them; it must not be imported yet."""
    if "probes.audit" in sys.modules:
        raise RequestError("the auditor is imported already: its rules are made of its own thresholds")
    module = _module()
    for name, value in values.items():
        if not hasattr(module, name):
            raise RequestError(f"the auditor has no threshold {quoted(name)}")
        setattr(module, name, value)
    sys.modules[THRESHOLDS] = module


def own_thresholds() -> dict[str, Any]:
    """The auditor's own, name -> value, without importing the auditor."""
    return {name: value for name, value in vars(_module()).items() if name.isupper()}


def _module() -> ModuleType:
    """The auditor's thresholds, read anew."""
    import probes

    spec = spec_from_file_location(THRESHOLDS, Path(str(probes.__file__)).parent / "audit" / "thresholds.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Read a job as JSON from the standard input, and write its audits to the standard output."""
    job = Job(**json.load(sys.stdin))
    replace_thresholds(job.thresholds)
    from case_studies.head_claims.groups import GROUPS, primary_claims
    from interp import Population, load_checkpoint
    from probes.audit import audit_claims

    population = load_checkpoint(job.source)
    assert isinstance(population, Population)
    group = next(g for g in GROUPS if g.name == job.group)
    claims = [claim for _, asked in primary_claims(group, population) for claim in asked]
    how: dict[str, Any] = {"num_inputs": job.inputs, "length": job.length, "seed": job.seed, "task_check": False}
    results = audit_claims(population[: job.seeds], claims, **how)
    print(json.dumps([result.to_dict() for result in results], allow_nan=False))


if __name__ == "__main__":
    main()
