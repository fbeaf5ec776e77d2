"""`dyck-balance`: does balance violation predict length generalisation, and does asking for balance help?

Wen et al. 2023, section 4.2, Figs. 3 and 10. Models with a minimal first layer (eq. 15) are trained with and
without the contrastive regulariser (eq. 18), on complete strings and on prefixes; each model gives beta (exact) and its
closing accuracy at positions 400-499. The two arms are compared pairwise (same seed: same initial weights, same
strings). The paper shows the two clouds in one picture, where a correlation mostly tells the arms apart: ours is
the rank correlation *within* an arm. A third arm spreads beta over a grid of weights and steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from case_studies.dyck_balance.measure import RULES, Arm, arms, grid, measure
from case_studies.dyck_balance.report import report
from case_studies.page import command_of, write_study
from case_studies.populations import Family
from interp.files import make_folder
from interp.stats import GAP, POSITIVE, REALS, SHARE, mean_over_seeds, spearman

QUICK_SEEDS, FULL_SEEDS = 6, 40


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
) -> Path:
    """Train or load every arm, measure, and write index.html and results.json; return the page's path."""
    count = seeds or (FULL_SEEDS if full else QUICK_SEEDS)
    folder = make_folder(out)

    def all_of(families: Sequence[Family], n: int) -> list[Arm]:
        return [measure(family, n, folder / "populations", workers) for family in families]

    pairs = {data: all_of(arms(data, steps), count) for data in ("complete", "prefix")}
    spread = all_of(grid(full, steps), min(count, 8 if full else 2))
    results = to_results(pairs, spread, count)
    page = report(pairs, spread, results, count, command_of("dyck-balance", full, out))
    return write_study(results, page, folder)


def to_results(pairs: dict[str, list[Arm]], spread: Sequence[Arm], count: int) -> dict[str, Any]:
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

    beta = np.concatenate([a.beta for a in spread])
    pooled = {rule: np.concatenate([a.accuracy[rule] for a in spread]) for rule in RULES}
    return {
        "seeds": count,
        "arms": {a.family.name: arm(a) for both in pairs.values() for a in both},
        "contrastive_minus_standard": {
            data: {
                "beta": mean_over_seeds(new.beta - old.beta, support=REALS).to_dict(),
                **{
                    rule: mean_over_seeds(new.accuracy[rule] - old.accuracy[rule], support=GAP).to_dict()
                    for rule in RULES
                },
            }
            for data, (old, new) in pairs.items()
        },
        "spread": {
            "models": len(beta),
            "rank_correlation": {rule: spearman(beta, v, over="seeds").to_dict() for rule, v in pooled.items()},
            "cells": {a.family.name: arm(a) for a in spread},
        },
    }
