"""`topics`: where a one-layer Transformer keeps the topics of its documents.

Li, Li, Risteski 2023; thesis section 2.1, Figs 2.1-2.10, Tables 2.1, 2.2. `run` trains what is missing, measures,
writes index.html and results.json. Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case_studies.page import command_of, write_study
from case_studies.topics import families as known
from case_studies.topics.measure import (
    TAUS,
    boundaries,
    exact_descent,
    exact_row,
    landscapes,
    measure_exact,
    measure_group,
    measure_stage,
    measure_table,
    optima,
)
from case_studies.topics.report import Findings, report
from interp.files import make_folder
from interp.grammars import TopicGrammar


@dataclass(frozen=True)
class Size:
    """Seeds of the figures and tables, and of the exact law and the two stages."""

    main: int
    few: int


QUICK, FULL = Size(2, 2), Size(10, 4)


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
) -> Path:
    """Train or load the populations, measure, and write the report; return the path of its page.

    `seeds` and `steps` replace what `full` and the families say.
    """
    size = FULL if full else QUICK
    if seeds is not None:
        size = Size(seeds, seeds)
    folder = make_folder(out)
    found = collect(size, folder / "populations", workers, steps)
    command = command_of("topics", full, out)
    return write_study(to_results(found), report(found, command), folder)


def collect(size: Size, folder: Path, workers: int | None = None, steps: int | None = None) -> Findings:
    """Every population, trained or loaded, and everything measured on it."""
    idealised = TopicGrammar(law="idealised")
    exact = [exact_row("gradient descent from zero, float64", None, exact_descent(idealised), idealised)]
    exact += [measure_exact(f, size.few, folder, workers, steps) for f in known.EXACT]
    return Findings(
        count=size.main,
        groups=[measure_group(g, size.main, folder, workers, steps) for g in known.GROUPS],
        exact=exact,
        table=measure_table(size.main, folder, workers, steps),
        stages=[measure_stage(f, size.main, folder, workers, steps) for f in known.STAGES],
        boundaries=boundaries(size.few, folder, workers, steps),
        landscapes=landscapes(),
        optima=optima(),
    )


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    groups = {}
    for g in f.groups:
        groups[g.group.label] = {
            arm.family.name: {
                "digest": arm.digest,
                "structure": arm.result.structure,
                "p_value": arm.result.p_value,
                "loss": arm.loss.to_dict(),
                "block_mean": arm.block_mean.to_dict(),
                "other_mean": arm.other_mean.to_dict(),
                "theory": {name: e.to_dict() for name, e in arm.result.theory.items()},
                **{
                    name: getattr(arm.result, name).to_dict()
                    for name in ("contrast", "raw_contrast", "diagonality", "uniformity", "ari")
                },
            }
            for arm in g.arms
        }
    return {
        "seeds": f.count,
        "figures": groups,
        "exact": {
            row.name: {
                "digest": row.digest,
                **{n: getattr(row, n).to_dict() for n in ("excess", "largest", "row_zero", "family")},
            }
            for row in f.exact
        },
        "table_2_1": {
            row.family.name: {
                "digest": row.digest,
                "structures": row.structures,
                "ratio": row.ratio.to_dict(),
                "loss": row.loss.to_dict(),
                "relations": {name: e.to_dict() for name, e in row.relations.items()},
                "paper": row.paper,
            }
            for row in f.table
        },
        "stage_2": {
            row.family.name: {
                "digest": row.digest,
                "ratio": {str(step): e.to_dict() for step, e in row.curve.items()},
                "relations": {name: e.to_dict() for name, e in row.relations.items()},
                "optimum": row.optimum,
            }
            for row in f.stages
        },
        "two_stages": {
            b.family.name: {
                "digest": b.digest,
                "two_stages": b.result.two_stages,
                "reason": b.result.reason,
                **{n: getattr(b.result, n).to_dict() for n in ("boundary", "share", "value_done", "attention_done")},
            }
            for b in f.boundaries
        },
        "landscapes": {
            "block": {
                str(tau): {"gamma": o.gamma, "loss": o.loss} for tau, o in zip(TAUS, f.optima["block"], strict=True)
            },
            "diagonal": {
                str(tau): {"alpha": o.alpha, "beta": o.beta, "loss": o.loss}
                for tau, o in zip(TAUS, f.optima["diagonal"], strict=True)
            },
        },
    }
