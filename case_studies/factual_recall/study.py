"""`factual-recall`: does a model know the relation before the fact, which heads read what, and how many facts fit?

The slides of seed 003 (L3341-3512), after Nichani et al. 2024. `run` trains what is missing, reads stages off the
history, interchanges heads, compares maps with indicators and sums of outer products, and writes index.html and
results.json. Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from typing import Any

from case_studies.factual_recall import DECLARED
from case_studies.factual_recall.arms import ARMS, KNOBS
from case_studies.factual_recall.capacity import sizes
from case_studies.factual_recall.findings import Findings, Measured, alphas, measure
from case_studies.factual_recall.maps import memory_slope
from case_studies.factual_recall.report import report
from case_studies.factual_recall.stages import partial_knowledge
from case_studies.study import Plan, Run, Study, wanted


@dataclass(frozen=True)
class Size:
    """Seeds of every arm, and of every size."""

    seeds: int
    sized: int


def populations(size: Size) -> Plan:
    """The arms, and all sizes of every knob."""
    return {
        "arms": wanted(ARMS, size.seeds),
        "sizes": wanted([family for knob in KNOBS for family in knob.families], size.sized),
    }


def collect(run: Run[Size]) -> Findings:
    """Everything measured."""
    measured = [measure(one) for one in run.obtain("arms")]
    trained = iter(run.obtain("sizes"))
    return Findings(measured, [sizes(knob, [next(trained) for _ in knob.values]) for knob in KNOBS], memory_slope())


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    capacities, slope = f.memory
    grammar: Any = f.measured[0].population.grammar
    return {
        "seeds": len(f.measured[0].population),
        "arms": {m.family.name: of_arm(m) for m in f.measured},
        "partial_knowledge": partial_knowledge(grammar),
        "alpha": alphas(f.measured).to_dict(),
        "capacity": {one.knob.name: one.to_dict() for one in f.sizes},
        "memory": {"facts": {str(width): value for width, value in capacities.items()}, "slope": slope.to_dict()},
    }


def of_arm(m: Measured) -> dict[str, Any]:
    """One arm's numbers."""
    found: dict[str, Any] = {
        "digest": m.digest,
        "options": dict(m.family.options),
        "diverged": m.population.provenance["diverged"],
        "primary": m.primary,
        "stages": m.stages.to_dict(),
        "maps": {name: one.to_dict() for name, one in m.maps.estimates().items()},
        "untrained": m.maps.untrained,
    }
    if m.heads is not None:
        found["heads"] = {
            "groups": m.heads.groups(),
            "apart": m.heads.apart().to_dict(),
            "looks": {kind: m.heads.looks(kind).to_dict() for kind in ("subject", "relation")},
            "same": m.heads.same_at_most(),
            "effects": {name: getattr(m.heads, name).tolist() for name in ("subject", "relation")},
        }
    if m.keys is not None:
        found["keys"] = {name: one.to_dict() for name, one in m.keys.items()}
    return found


STUDY = Study(DECLARED, Size(3, 3), Size(40, 40), collect, to_results, report, populations)
run = STUDY.run
