"""`lottery-ticket`: random Transformers pruned into trained and constructed ones (Wen et al. 2023, Theorem 2).

It trains small bounded-Dyck models, prunes random networks into them and into two constructed solvers, measures
errors and accuracy against other masks, shares matrices between functions, and writes index.html and results.json.
Nothing here states a finding in advance.
"""

from typing import Any

from case_studies.lottery_ticket import DECLARED
from case_studies.lottery_ticket.measure import (
    FULL,
    QUICK,
    TRAINED,
    Everything,
    Size,
    curve,
    decoy,
    prune_all,
    shared_matrices,
    subset_sums,
    with_more,
)
from case_studies.lottery_ticket.report import report
from case_studies.study import Plan, Run, Study, Wanted
from interp.threads import one_thread
from probes.core import to_json


def populations(size: Size) -> Plan:
    """The targets that are trained."""
    return {"trained": [Wanted(family, seeds) for family, seeds in zip(TRAINED, size.trained, strict=False)]}


@one_thread()
def collect(run: Run[Size]) -> Everything:
    """Every target pruned, and everything measured on the pruned networks."""
    size = run.size
    trained = list(run.obtain("trained"))
    pruned = prune_all(trained, size)
    return Everything(
        size=size,
        sums=subset_sums(size.sums),
        trained=trained,
        pruned=pruned,
        more=with_more(pruned, size),
        curve=curve(pruned[0], size),
        decoy=decoy(run.folder, size),
        shared=shared_matrices(size),
    )


def to_results(found: Everything) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    d = found.decoy
    results: dict[str, Any] = to_json(
        {
            "sums": found.sums,
            "targets": [{"family": p.family, "seed": p.seed, **p.result.to_dict()} for p in found.pruned],
            "more": found.more,
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


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, one_thread()(report), populations)
run = STUDY.run
