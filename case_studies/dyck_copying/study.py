"""`dyck-copying`: do heads that look interpretable do anything in models that only copy?

Wen et al. 2023, App. B.1 (Figs. 4-6): models trained to repeat a bracket string show patterns that can be put into
words and that the task does not need, since a residual link carries every token. `run` trains what is missing,
scores each head's pattern, takes heads away, writes index.html and results.json. Nothing here states a finding in
advance.
"""

from collections.abc import Sequence
from typing import Any

from case_studies.dyck_copying import DECLARED
from case_studies.dyck_copying.estimates import (
    ACCURACY,
    INTERPRETABLE,
    MARGIN,
    THRESHOLDS,
    accuracy,
    by_edit,
    by_layer,
    crossing,
    idle_models,
    others,
    over_seeds,
    scores,
    without_heads,
)
from case_studies.dyck_copying.measure import ENCODERS, FURTHER, GROUPS, LATER, STRINGS, Measured, measure
from case_studies.dyck_copying.report import report
from case_studies.study import Plan, Run, Study, wanted
from interp.stats import REALS
from probes.core import to_json

QUICK, FULL = 8, 40  # seeds of each depth and block


def populations(seeds: int) -> Plan:
    """Models of each depth and block; twice as many further seeds of one."""
    groups = {"depths": GROUPS, "encoders": ENCODERS}
    plan = {name: wanted([group.family for group in listing], seeds) for name, listing in groups.items()}
    return {**plan, "further": wanted([FURTHER.family], 2 * seeds, first=seeds)}


def collect(run: Run[int]) -> list[Measured]:
    """Every head of every model, measured."""
    trained = [one for name in ("depths", "encoders", "further") for one in run.obtain(name)]
    return [measure(group, one) for group, one in zip((*GROUPS, *LATER), trained, strict=True)]


def to_results(measured: Sequence[Measured]) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n, and a row per head."""
    return {
        "seeds": len(measured[0].population),
        "strings": {"drawn": STRINGS, "distinct": len(measured[0].strings.data.inputs)},
        "bounds": {"score": INTERPRETABLE, "accuracy_lost": ACCURACY, "margin_lost": MARGIN},
        "groups": {m.group.family.name: of_group(m) for m in measured},
        "secondary": {name: c.to_dict() for name, c in others([m for m in measured if m.group not in LATER]).items()},
    }


def of_group(m: Measured) -> dict[str, Any]:
    """One depth's numbers."""
    likely = [head for head in m.heads if head.best.score >= INTERPRETABLE]
    rows = [head.to_dict() for head in m.heads]
    found = {
        "digest": m.digest,
        "options": dict(m.group.family.options),
        "diverged": m.population.provenance["diverged"],
        "paper_accuracy": m.group.paper_accuracy,
        "idle_models": idle_models(m.heads),
        **accuracy(m),
        "margin": over_seeds([x.seed for x in m.models], [x.margin for x in m.models], REALS),
        "without_heads": without_heads(m),
        "layers": [by_layer(m.at(layer)) for layer in range(m.layers)],
        "crossing": [crossing(m.heads, threshold).to_dict() for threshold in THRESHOLDS],
        "crossing_by_layer": [crossing(m.at(layer)).to_dict() for layer in range(m.layers)],
        "interpretable_by_edit": by_edit(likely),
        "paper_terms": {
            term: {"score": scores(m.heads, term), **crossing(m.heads, term=term).to_dict()}
            for term in m.heads[0].terms
        },
        "dead_edits": sum(len(head.cost.dead) for head in m.heads),
        "heads": {name: [row[name] for row in rows] for name in rows[0]},
    }
    plain: dict[str, Any] = to_json(found)
    return plain


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
