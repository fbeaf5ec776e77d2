"""`induction`: do trained two-layer models carry the previous token, match it, and need both? In which order?

The questions are those of the slides of seed 003 (L1256-1272, L2371-2502, L2836-2980), which print no numbers. `run`
trains what is missing, measures every model, writes index.html and results.json. Nothing here states a finding in
advance.
"""

from dataclasses import dataclass
from typing import Any

from case_studies.induction import DECLARED
from case_studies.induction.collect import FAMILIES, HIGHER, Findings, measure, of_family
from case_studies.induction.graphs import GRAPHS, measure_graph
from case_studies.induction.report import report
from case_studies.study import Plan, Run, Study, wanted
from probes.core import to_json


@dataclass(frozen=True)
class Size:
    """Seeds of chains and recall (`main`), and of what takes up to a minute a seed (`few`): the first `orders` families
    of chains of order 2, and the first `graphs` of causal graphs."""

    main: int
    few: int
    orders: int
    graphs: int


QUICK, FULL = Size(4, 2, 1, 1), Size(40, 40, len(HIGHER), len(GRAPHS))


def populations(size: Size) -> Plan:
    """Models of every family."""
    return {
        "families": wanted(FAMILIES, size.main),
        "higher": wanted(HIGHER[: size.orders], size.few),
        "graphs": wanted(GRAPHS[: size.graphs], size.few),
    }


def collect(run: Run[Size]) -> Findings:
    """Every model, measured."""
    return Findings(
        [measure(one) for one in (*run.obtain("families"), *run.obtain("higher"))],
        [measure_graph(one) for one in run.obtain("graphs")],
    )


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    found: dict[str, Any] = to_json({m.family.name: of_family(m) for m in f.measured})
    graphs = {one.family.name: one.to_dict() for one in f.graphs}
    return {"seeds": len(f.measured[0].models), "families": found, "graphs": graphs}


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
