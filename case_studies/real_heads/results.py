"""What is committed of `real-heads`: small, every number with its interval."""

from typing import Any

import numpy as np

from case_studies.real_heads.findings import NOTHING, SAME_LOOK, Costs, Findings, Model, over_inputs
from case_studies.real_heads.pair import ALIKE, LEAST, Head
from interp.claims.language import PASSAGE_NAME
from probes.audit import AuditResult, ScanResult
from probes.claims import heads_text

MOST = 12  # heads that cost most, with their intervals


def to_results(f: Findings) -> dict[str, Any]:
    """JSON-ready."""
    primary = {name: c.to_dict() for name, c in f.comparisons.items() if c.primary}
    return {
        "over": "inputs: there is one model, and so there are no seeds",
        "text": PASSAGE_NAME,
        "decoder": of_model(f.decoder),
        "twins": [of_model(twin) for twin in f.twins],
        "encoders": [of_model(one) for one in f.encoders],
        "rule": {"least": LEAST, "alike": ALIKE, "same_look": SAME_LOOK, "nothing": NOTHING},
        "primary": primary,
        "pair": None if f.pair is None else {
            "costly": of_head(f, f.pair.costly), "idle": of_head(f, f.pair.idle),
        },
        "candidates": {
            heads_text([head]): {"score": round(f.chosen_scores[head], 4), "cost": round(cost, 4)}
            for head, cost in f.chosen_costs.items()
        },
        "costs": {name: of_costs(f, one) for name, one in f.costs.items()},
        "every": {name: of_costs(f, one) for name, one in f.every.items()},
        "audits": [of_audit(one) for one in f.audits],
    }  # fmt: skip


def of_model(model: Model) -> dict[str, Any]:
    """One model's numbers."""
    out: dict[str, Any] = {"name": model.name, "identity": model.identity}
    if model.second is not None and model.first is not None:
        out["first_copy"] = over_inputs(model.first).to_dict()
        out["second_copy"] = over_inputs(model.second).to_dict()
    return out | {"scans": {name: of_scan(scan) for name, scan in model.scans.items()}}


def of_scan(scan: ScanResult) -> dict[str, Any]:
    """How many heads each relation is the best one of, by the word on its pattern, and the heads of which it holds."""
    rows: dict[str, Any] = {}
    for one in scan.heads:
        if one.mass is None or one.mass.pattern is None:
            continue
        row = rows.setdefault(one.mass.relation, {"holds": 0, "fails": 0, "undecided": 0, "heads": {}})
        row[one.mass.pattern] += 1
        if one.mass.pattern == "holds" and one.mass.score.value is not None:
            row["heads"][heads_text([(one.layer, one.head)])] = round(one.mass.score.value, 3)
    return {
        "heads": scan.num_heads, "relations": scan.num_relations, "inputs": scan.num_inputs, "level": scan.level,
        "best": dict(sorted(rows.items())),
    }  # fmt: skip


def of_head(f: Findings, head: Head) -> dict[str, Any]:
    """A head's score and costs on half B."""
    costs = {name: cost for name in f.costs if (cost := f.cost(head, name)) is not None}
    return {
        "head": heads_text([head]),
        "score": f.score(head).to_dict(),
        "cost": {name: cost.to_dict() for name, cost in costs.items()},
        "finding": {name: f.word(head, f.costs[name]) for name in costs},
    }


def of_costs(f: Findings, costs: Costs) -> dict[str, Any]:
    """All heads taken out: their mean costs, and how many of each finding."""
    found = [f.word(head, costs) for head in costs.heads]
    return {
        "inputs": len(costs.inputs.tokens),
        "words": costs.inputs.words,
        "heads": len(costs.heads),
        "intact": over_inputs(costs.intact).to_dict(),
        "findings": {word: found.count(word) for word in sorted(set(found))},
        "most": {heads_text([costs.heads[i]]): over_inputs(costs.more[i]).to_dict()
                 for i in np.argsort(-costs.more.mean(1))[:MOST]},
        "mean": {heads_text([head]): round(float(np.mean(row)), 4)
                 for head, row in zip(costs.heads, costs.more, strict=True)},
    }  # fmt: skip


def of_audit(result: AuditResult) -> dict[str, Any]:
    """The verdict, and the numbers on which it rests."""
    return {
        "claim": result.claim, "verdict": result.verdict, "pattern": result.pattern, "use": result.use,
        "reason": result.reason, "inputs": result.num_inputs, "level": result.level,
        "rests_on": [dict(row) for row in result.evidence if row.get("decides")],
    }  # fmt: skip
