"""`lottery-ticket`: random Transformers pruned into trained and constructed ones (Wen et al. 2023, Theorem 2).

`run` trains small bounded-Dyck models, prunes random networks into them and into two constructed solvers, measures
errors and accuracy against other masks, shares matrices between functions, and writes index.html and results.json.
Nothing here states a finding in advance.
"""

from pathlib import Path
from typing import Any

from case_studies.lottery_ticket.measure import (
    FULL,
    QUICK,
    Everything,
    curve,
    decoy,
    prune_all,
    shared_matrices,
    subset_sums,
)
from case_studies.lottery_ticket.report import report
from case_studies.page import command_of, write_study
from interp.files import make_folder
from interp.threads import one_thread
from probes.core import to_json


@one_thread()
def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
) -> Path:
    """Train or load the targets, prune, measure, and write the report; return the path of its page.

    `seeds` and `steps` replace the number of trained targets of each kind and their training steps.
    """
    size, folder = FULL if full else QUICK, make_folder(out)
    pruned, digests = prune_all(folder / "populations", size, workers, seeds, steps)
    found = Everything(
        size=size,
        sums=subset_sums(size.sums),
        pruned=pruned,
        curve=curve(pruned[0], size),
        decoy=decoy(folder, size),
        shared=shared_matrices(size),
        digests=digests,
    )
    command = command_of("lottery-ticket", full, out)
    return write_study(to_results(found), report(found, command), folder)


def to_results(found: Everything) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    d = found.decoy
    results: dict[str, Any] = to_json(
        {
            "sums": found.sums,
            "targets": [{"family": p.family, "seed": p.seed, **p.result.to_dict()} for p in found.pruned],
            "curve": found.curve,
            "decoy": {
                "ticket": d.result.to_dict(),
                "stack": d.stack,
                "target_stack": d.target_stack,
                "same_output": d.same_output,
                "foreign_entries": d.foreign,
                "entries": d.entries,
                "accuracy": d.accuracy,
                "strings": d.strings,
            },
            "shared": [s.to_dict() for s in found.shared],
            "digests": dict(found.digests),
        }
    )
    return results
