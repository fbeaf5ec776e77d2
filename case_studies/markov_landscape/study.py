"""`markov-landscape`: when does a one-layer model fail to learn a binary Markov chain?

Makkuva's slides (seed L1788-2331), after Makkuva et al. 2024. The unigram point is built by hand, and its Hessian taken
exactly; the canonical flow is integrated from 25 starts; and models are trained by two optimisers, tied and untied,
from small and from canonical weights. `run` trains what is missing, measures, writes index.html and results.json.
Nothing here states a finding in advance.
"""

from dataclasses import dataclass
from typing import Any

from case_studies.markov_landscape import DECLARED
from case_studies.markov_landscape.arms import ARMS
from case_studies.markov_landscape.measure import MATRICES, Measured, measure
from case_studies.markov_landscape.points import KERNELS, POSITIONS, SPREADS, STDS, cases, listed, points, starts
from case_studies.markov_landscape.report import Findings, report
from case_studies.markov_landscape.tables import finding, level_of
from case_studies.study import Plan, Run, Study, wanted
from interp.stats import REALS, SHARE, mean_over_seeds
from interp.worlds.binary_chain.flow import CanonicalFlow

SWEPT = (0.2, 0.3)  # whose unigram point is a saddle with small weights


@dataclass(frozen=True)
class Size:
    """Seeds of each arm, steps of each, and draws of the other weights of a unigram point."""

    seeds: int
    steps: int
    draws: int


QUICK, FULL = Size(6, 1000, 8), Size(40, 2000, 40)


def populations(size: Size) -> Plan:
    """Every arm."""
    families = [arm.family for arm in ARMS]
    shorter = [f if f.recipe.settings.steps == size.steps else f.in_steps(size.steps) for f in families]
    return {"arms": wanted(shorter, size.seeds)}


def collect(run: Run[Size]) -> Findings:
    """Everything measured."""
    measured = [measure(arm, one) for arm, one in zip(ARMS, run.obtain("arms"), strict=True)]
    draws = run.size.draws
    return Findings(
        run.seeds("arms"),
        measured,
        [points(kernel, tied, draws) for tied in (True, False) for kernel in KERNELS],
        {
            "weights": [points((0.5, 0.8), tied, draws, spread=s) for tied in (True, False) for s in SPREADS],
            "positions": [points(SWEPT, True, draws, positions=std) for std in POSITIONS],
            "norm": [points((0.5, 0.8), tied, draws, norm=norm) for tied in (True, False) for norm in ("none", "LN")],
        },
        [listed(kernel, tied) for tied in (True, False) for kernel in KERNELS],
        cases(),
    )


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: every number of the report with its interval and n."""
    return {
        "seeds": f.count,
        "arms": {m.name: of_arm(m, f) for m in f.measured},
        "points": [one.to_dict() for one in f.points],
        "sweeps": {name: [one.to_dict() for one in found] for name, found in f.sweeps.items()},
        "listed": [one.to_dict() for one in f.listed],
        "cases": [one.to_dict() for one in f.cases],
        "starts": starts(),
        "global_shares": [
            {"p": p, "q": q, "share": {f"{std:g}": CanonicalFlow(p, q).global_share(std) for std in STDS}}
            for p, q in KERNELS
        ],
    }


def of_arm(m: Measured, f: Findings) -> dict[str, Any]:
    """One arm's numbers."""
    level = level_of(m, f.measured)
    p, q = m.arm.kernel
    return {
        "digest": m.digest,
        "options": dict(m.arm.family.options),
        "diverged": m.population.provenance["diverged"],
        "primary": m.arm.primary,
        "said": m.arm.said,
        "stuck": {**m.stuck_share(level).to_dict(), "level": level},
        "finding": finding(m, level),
        "escape": m.escape.to_dict(),
        "escapes": m.escapes,
        "kernel": [p, 1 - q],
        "unigram": p / (p + q),
        "after": [mean_over_seeds(m.after[:, x], support=SHARE).to_dict() for x in (0, 1)],
        "gap": mean_over_seeds(m.gap, support=REALS).to_dict(),
        "norm_of_e": mean_over_seeds(m.scale, support=(0.0, float("inf"))).to_dict(),
        "energy": {name: m.rank_one(name).to_dict() for name in MATRICES},
        "aligned": {name: mean_over_seeds(m.aligned[name], support=SHARE).to_dict() for name in MATRICES},
        "without_attention": mean_over_seeds(m.without_attention, support=REALS).to_dict(),
        "final": m.way[:, -1].tolist(),
    }


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
