"""What `dyck-balance` commits: the numbers of its page."""

from typing import Any

import numpy as np

from case_studies.dyck_balance.comparisons import (
    ACCURACY,
    BETA,
    BETWEEN,
    CORRELATION,
    MEASURES,
    WITHIN,
    change_name,
    correlation_name,
    within_over_cells,
)
from case_studies.dyck_balance.measure import RULES, SHOWN, Arm, Findings
from interp.stats import POSITIVE, SHARE, mean_over_seeds, spearman


def to_results(f: Findings) -> dict[str, Any]:
    """Every number of the report with its interval and n."""
    found = f.compared

    def measured(a: Arm) -> dict[str, Any]:
        return {
            "options": dict(a.family.options),
            "digest": a.digest,
            "beta": mean_over_seeds(a.beta, support=POSITIVE).to_dict(),
            "beta_released": mean_over_seeds(a.beta_released, support=POSITIVE).to_dict(),
            "accuracy": {rule: mean_over_seeds(v, support=SHARE).to_dict() for rule, v in a.accuracy.items()},
            "worst_in_distribution": a.worst_in_distribution,
            "per_seed": {
                "beta": a.beta.tolist(),
                "beta_released": a.beta_released.tolist(),
                **{rule: v.tolist() for rule, v in a.accuracy.items()},
            },
        }

    def arm(a: Arm) -> dict[str, Any]:
        name = a.family.name
        released = found[correlation_name(name, SHOWN, "beta_released")]
        return measured(a) | {
            "rank_correlation": {rule: found[correlation_name(name, rule)].to_dict() for rule in RULES},
            "rank_correlation_released": {SHOWN: released.to_dict()},
        }

    def cell(a: Arm) -> dict[str, Any]:
        """Of so few seeds the correlation is one of those that are averaged over cells, and no comparison itself."""
        return measured(a) | {"rank_correlation": {rule: spearman(a.beta, a.accuracy[rule]).value for rule in RULES}}

    beta = np.array([a.beta for a in f.spread])
    primary = [name for name, c in found.items() if c.primary]

    def again(a: Arm) -> dict[str, Any]:
        return measured(a) | {
            "rank_correlation": {rule: found[correlation_name(a.family.name, rule)].to_dict() for rule in RULES}
        }

    return {
        "seeds": f.count,
        "primary": primary,
        "corrected_together": len(found) - len(primary),
        "bounds": {"rank_correlation": CORRELATION, "accuracy": ACCURACY, "beta": BETA},
        "arms": {a.family.name: arm(a) for both in f.pairs.values() for a in both},
        "contrastive_minus_standard": {
            name: {measure: found[change_name(name, measure)].to_dict() for measure in MEASURES} for name in f.pairs
        },
        "further": {a.family.name: again(a) for a in f.further},
        "spread": {
            "models": beta.size,
            "between_cells": {rule: found[correlation_name(BETWEEN, rule)].to_dict() for rule in RULES},
            "within_cells": {rule: found[correlation_name(WITHIN, rule)].to_dict() for rule in RULES},
            "within_cells_over_cells": {
                rule: within_over_cells(beta, np.array([a.accuracy[rule] for a in f.spread])).to_dict()
                for rule in RULES
            },
            "cells": {a.family.name: cell(a) for a in f.spread},
        },
    }
