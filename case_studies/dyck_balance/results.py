"""What `dyck-balance` commits: the numbers of its page."""

from typing import Any

import numpy as np

from case_studies.dyck_balance.measure import RULES, Arm, Findings
from interp.stats import GAP, POSITIVE, REALS, SHARE, mean_over_seeds, spearman


def to_results(f: Findings) -> dict[str, Any]:
    """Every number of the report with its interval and n."""

    def arm(a: Arm) -> dict[str, Any]:
        return {
            "options": dict(a.family.options),
            "digest": a.digest,
            "beta": mean_over_seeds(a.beta, support=POSITIVE).to_dict(),
            "accuracy": {rule: mean_over_seeds(v, support=SHARE).to_dict() for rule, v in a.accuracy.items()},
            "worst_in_distribution": a.worst_in_distribution,
            "rank_correlation": {rule: spearman(a.beta, v).to_dict() for rule, v in a.accuracy.items()},
            "per_seed": {"beta": a.beta.tolist(), **{rule: v.tolist() for rule, v in a.accuracy.items()}},
        }

    beta = np.concatenate([a.beta for a in f.spread])
    pooled = {rule: np.concatenate([a.accuracy[rule] for a in f.spread]) for rule in RULES}
    return {
        "seeds": f.count,
        "arms": {a.family.name: arm(a) for both in f.pairs.values() for a in both},
        "contrastive_minus_standard": {
            data: {
                "beta": mean_over_seeds(new.beta - old.beta, support=REALS).to_dict(),
                **{
                    rule: mean_over_seeds(new.accuracy[rule] - old.accuracy[rule], support=GAP).to_dict()
                    for rule in RULES
                },
            }
            for data, (old, new) in f.pairs.items()
        },
        "spread": {
            "models": len(beta),
            "rank_correlation": {rule: spearman(beta, v, over="seeds").to_dict() for rule, v in pooled.items()},
            "cells": {a.family.name: arm(a) for a in f.spread},
        },
    }
