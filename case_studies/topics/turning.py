"""Does W_V go on turning after stage 1, at an almost constant norm (thesis 2.1.6.1)?

Between two snapshots the direction of W_V moves by an angle and its norm by a share of itself. Both are numbers without
a unit, and a step that is all growth has an angle of 0, so that they can be set against each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from case_studies.populations import Family
from case_studies.study import Obtained
from interp.stats import POSITIVE, Estimate, mean_over_seeds
from probes.topics import TwoStageResult

VALUE = "blocks.0.attn.W_V"


@dataclass(frozen=True)
class Turning:
    """Of the runs of one setting that have two stages, means over the snapshots after each one's stage 1.

    `angle`: radians between consecutive snapshots (null 0: no turning); `growth`: change of the norm between them, by
    the norm, without sign; `ratio`: angle by growth (null 1: as much growth as turning); `lag`: steps between them.
    """

    family: Family
    lag: int
    angle: Estimate
    growth: Estimate
    ratio: Estimate

    def to_dict(self) -> dict[str, Any]:
        """What stands in results.json."""
        numbers = {name: getattr(self, name).to_dict() for name in ("angle", "growth", "ratio")}
        return {"lag": self.lag, **numbers}


def measure_turning(one: Obtained, result: TwoStageResult) -> Turning | None:
    """Of a population with snapshots; None without them, or where no run has two stages."""
    snapshots = one.population.snapshots
    steps = sorted(snapshots)
    if len(steps) < 2:
        return None
    values = {step: snapshots[step][VALUE].double().numpy() for step in steps}
    found = [
        _after(values, steps, index, run.boundary)
        for index, run in enumerate(result.runs)
        if run.two_stages and run.boundary is not None and run.boundary < steps[-2]
    ]
    if not found:
        return None
    angles, growths = np.array(found).T
    return Turning(
        one.family,
        steps[1] - steps[0],
        mean_over_seeds(angles, support=POSITIVE).with_null(0.0),
        mean_over_seeds(growths, support=POSITIVE),
        mean_over_seeds(angles / np.where(growths > 0, growths, np.nan), support=POSITIVE).with_null(1.0),
    )


def _after(values: Mapping[int, np.ndarray], steps: list[int], index: int, boundary: float) -> tuple[float, float]:
    """Mean angle and mean relative change of the norm between consecutive snapshots of a run from its boundary on."""
    each = [values[step][index].ravel() for step in steps if step >= boundary]
    norms = [float(np.linalg.norm(v)) for v in each]
    dots = [float(a @ b) for a, b in pairwise(each)]
    cosines = [dot / (m * n) for dot, (m, n) in zip(dots, pairwise(norms), strict=True)]
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    growths = [abs(n - m) / m for m, n in pairwise(norms)]
    return float(np.mean(angles)), float(np.mean(growths))
