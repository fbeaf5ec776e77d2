"""Numbers over seeds and over heads: accuracy, costs by layer, and which heads look interpretable and are useless."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from case_studies.corrections import Comparison, compared, corrected
from case_studies.dyck_copying.measure import ABLATIONS, EDITS, LINK, SHAM, Head, Measured
from case_studies.looks import INTERPRETABLE, Fit
from interp.stats import (
    CONFIDENCE,
    GAP,
    POSITIVE,
    REALS,
    SCORE,
    SHARE,
    Estimate,
    Support,
    clopper_pearson,
    mean_over_seeds,
    spearman,
)

THRESHOLDS = (0.3, INTERPRETABLE, 0.7)
COSTLIEST = "costliest"
ZEROED, LOOKS = "zeroed minus random", "looks against cost"  # the secondary comparisons of a layer
ACCURACY, MARGIN = 0.01, 0.05  # a head whose ablation costs less of both is useless


def useless(head: Head) -> bool | None:
    """None of the three ablations costs 1 % of accuracy or 5 % of the margin; None where one could not be judged."""
    accuracy, margin = head.cost.worst_accuracy, head.cost.worst_margin
    if np.isnan(accuracy) or np.isnan(margin):
        return None
    return accuracy < ACCURACY and margin < MARGIN


@dataclass(frozen=True)
class Crossing:
    """How many heads look interpretable, and how many of those are useless.

    Shares of heads come with exact binomial intervals that take heads for independent; layers of one model are
    not, hence the shares of seeds. `undecided` heads (a dead edit, no margin) take part in `interpretable` only.
    """

    threshold: float
    interpretable: Estimate  # of all heads
    useless: Estimate  # of the interpretable ones
    others_useless: Estimate  # of the rest
    seeds: Estimate  # seeds with an interpretable head
    seeds_any: Estimate  # of those: one at least is useless
    seeds_all: Estimate  # of those: all are
    undecided: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        names = ("interpretable", "useless", "others_useless", "seeds", "seeds_any", "seeds_all")
        estimates = {name: getattr(self, name).to_dict() for name in names}
        return {"threshold": self.threshold, **estimates, "undecided": self.undecided}


def crossing(heads: Sequence[Head], threshold: float = INTERPRETABLE, term: str | None = None) -> Crossing:
    """Of `heads`, by the best registered relation or (`term`) by one of the paper's terms."""
    fits = [_fit(head, term).score >= threshold for head in heads]
    judged = [(head.seed, looks, useless(head)) for head, looks in zip(heads, fits, strict=True)]
    decided = [(seed, looks, verdict) for seed, looks, verdict in judged if verdict is not None]
    inside = [(seed, verdict) for seed, looks, verdict in decided if looks]
    outside = [verdict for _, looks, verdict in decided if not looks]
    by_seed = {seed: [verdict for s, verdict in inside if s == seed] for seed, _ in inside}
    return Crossing(
        threshold,
        clopper_pearson(sum(fits), len(heads)),
        clopper_pearson(sum(verdict for _, verdict in inside), len(inside)),
        clopper_pearson(sum(outside), len(outside)),
        clopper_pearson(
            len({seed for seed, looks, _ in judged if looks}), len({head.seed for head in heads}), over="seeds"
        ),
        clopper_pearson(sum(any(v) for v in by_seed.values()), len(by_seed), over="seeds"),
        clopper_pearson(sum(all(v) for v in by_seed.values()), len(by_seed), over="seeds"),
        len(judged) - len(decided),
    )


def idle_models(heads: Sequence[Head]) -> Estimate:
    """Share of models, of all, with a head that looks interpretable and is useless."""
    idle = {head.seed for head in heads if head.best.score >= INTERPRETABLE and useless(head) is True}
    return clopper_pearson(len(idle), len({head.seed for head in heads}), over="seeds")


def by_edit(heads: Sequence[Head]) -> dict[str, dict[str, Estimate]]:
    """Share of `heads` that an edit alone costs less than the bounds: edit -> accuracy, margin, both.

    `COSTLIEST` takes the most that any of the three ablations costs, of each.
    """
    lost = {edit: [(head.cost.accuracy[edit], head.cost.margin[edit]) for head in heads] for edit in EDITS}
    lost[COSTLIEST] = [(head.cost.worst_accuracy, head.cost.worst_margin) for head in heads]
    out = {}
    for edit, pairs in lost.items():
        small = [(a < ACCURACY, m < MARGIN) for a, m in pairs if not np.isnan([a, m]).any()]
        out[edit] = {
            "accuracy": clopper_pearson(sum(a for a, _ in small), len(small)),
            "margin": clopper_pearson(sum(m for _, m in small), len(small)),
            "both": clopper_pearson(sum(a and m for a, m in small), len(small)),
        }
    return out


def scores(heads: Sequence[Head], term: str | None = None) -> Estimate:
    """Mean score over seeds (of the mean over a seed's heads), with its nulls."""
    fits = [_fit(head, term) for head in heads]
    seeds = [head.seed for head in heads]
    null: dict[str, float | None] = {"uniform": 0.0, "untrained": float(np.mean([fit.untrained for fit in fits]))}
    if term is None:
        null["untrained_best"] = float(np.mean([head.untrained for head in heads]))
    return over_seeds(seeds, [fit.score for fit in fits], SCORE).with_null(null)


def over_seeds(seeds: Sequence[int], values: Sequence[float], support: Support) -> Estimate:
    """Mean over seeds of each seed's mean."""
    given = np.asarray(seeds)
    means = [float(np.mean(np.asarray(values)[given == seed])) for seed in sorted(set(seeds))]
    return mean_over_seeds(means, support=support)


def _fit(head: Head, term: str | None) -> Fit:
    return head.best if term is None else head.terms[term]


# -- a group, and a layer of it -----------------------------------------------------------------------------


def accuracy(m: Measured) -> dict[str, Any]:
    """Copied accuracy on the training law and at positions 400-499, from the last evaluation.

    That counts all brackets. Models whose loss is on closing ones alone are scored on these, on the strings that are
    read here; at positions 400-499 nothing is said of them.
    """
    rows = m.population.final_metrics()
    copied = [model.accuracy for model in m.models] if m.group.closers else [row["copied"] for row in rows]
    far = mean_over_seeds([row["long_copied"] for row in rows], support=SHARE)
    if m.group.closers:
        far = Estimate.undefined("not evaluated on closing brackets alone", len(rows), "seeds")
    return {
        "copied": mean_over_seeds(copied, support=SHARE),
        "long_copied": far,
        "worst_seed": float(min(copied)),
        "n": len(rows),
        "seeds_below_paper": [
            int(row["seed"]) for row, one in zip(rows, copied, strict=True) if one <= m.group.paper_accuracy
        ],
    }


def without_heads(m: Measured) -> dict[str, dict[str, Estimate]]:
    """Accuracy and margin lost when all layers are edited at once: edit -> what -> over seeds."""
    return {
        edit: {
            what: mean_over_seeds([model.without[edit][at] for model in m.models], support=support)
            for at, (what, support) in enumerate((("accuracy", GAP), ("margin", REALS)))
        }
        for edit in (*ABLATIONS, LINK)
    }


def by_layer(heads: Sequence[Head]) -> dict[str, Estimate]:
    """One layer's heads, a seed each: how they look and what they cost, over seeds.

    `zero_minus_sham` is paired: what zeroing costs beyond a random change of the same size.
    """
    margin = {edit: np.array([head.cost.margin[edit] for head in heads]) for edit in EDITS}
    worst = [head.cost.worst_margin for head in heads]
    return {
        "score": scores(heads),
        "size": mean_over_seeds([head.cost.size for head in heads], support=POSITIVE),
        "accuracy_lost": mean_over_seeds([head.cost.worst_accuracy for head in heads], support=GAP),
        "margin_lost": mean_over_seeds(worst, support=REALS),
        **{f"margin_lost_{edit}": mean_over_seeds(values, support=REALS) for edit, values in margin.items()},
        "zero_minus_sham": mean_over_seeds(margin["zero"] - margin[SHAM], support=REALS).with_null(0.0),
        "rank_correlation": _correlation([head.best.score for head in heads], worst),
    }


def others(measured: Sequence[Measured]) -> dict[str, Comparison]:
    """All comparisons that are not primary, corrected together: layer by layer zeroing against a random change of the
    same size (none within the margin that counts as useless), and looks against cost.

    One without an interval (few seeds, an edit that moved nothing) counts among them with p = 1.
    """
    found = []
    for m in measured:
        for layer in range(m.layers):
            heads, where = m.at(layer), f"{m.group.family.name}, layer {layer}"
            gap = np.array([head.cost.margin["zero"] - head.cost.margin[SHAM] for head in heads])
            score, lost = [head.best.score for head in heads], [head.cost.worst_margin for head in heads]
            found += [
                compared(f"{where}: {ZEROED}", partial(_mean, gap), bound=MARGIN),
                compared(f"{where}: {LOOKS}", partial(_correlation, score, lost)),
            ]
    return corrected(found)


def _mean(gap: np.ndarray, level: float) -> Estimate:
    return mean_over_seeds(gap, level=level, support=REALS)


def _correlation(score: Sequence[float], lost: Sequence[float], level: float = CONFIDENCE) -> Estimate:
    if not np.isfinite([*score, *lost]).all():
        return Estimate.undefined("a head has no cost", len(score), "seeds", 0.0)
    return spearman(score, lost, level=level)
