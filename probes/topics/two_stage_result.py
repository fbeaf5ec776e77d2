"""What an analysis of two stages of training returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interp.numbers import estimate, reasons
from interp.stats import Estimate
from interp.text import fold
from probes.core import Result, counted
from probes.topics.two_stage_figure import two_stage_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run: where stage 1 would end, and whether it is one.

    `boundary`: step of the ramp's first corner; `low`, `high`: its profile interval. `value_done`, `attention_done`:
    shares of the growth of W_V, and of sqrt(||W_K|| ||W_Q||), before it. `slowdown`: W_V's growth a step after it
    over before. `reason`: what the rule misses, or None.
    """

    two_stages: bool
    reason: str | None
    boundary: float | None
    low: float | None
    high: float | None
    value_done: float | None
    attention_done: float | None
    slowdown: float | None


@dataclass(frozen=True)
class TwoStageResult(Result):
    """Where stage 1 ends, over runs.

    A run has two stages if a ramp with a flat first stretch fits sqrt(||W_K|| ||W_Q||) better than one that rises from
    the start (by 10 in BIC, counting correlated residuals as fewer), rises by 4 residual standard deviations, and if at
    its first corner W_V has done half of its growth or more, W_K and W_Q a fifth of theirs or less, and W_V from there
    on grows at most half as fast. A population has two stages if most of its runs do.

    - `boundary`: mean over the runs that have two stages, t interval over seeds. Of a single run its profile interval
      (`over` steps: which corners fit about as well); it says nothing of another seed.
    - `share`: how many runs have two stages (exact binomial interval).
    - `value_done`, `attention_done`: of the same runs, see `Run`.
    - `rotation`: (1 - cos) / 2 between W_V at consecutive snapshots, [run, snapshot - 1], at `rotation_steps`, the
      later of the two; `rotation_stage_one`, `rotation_stage_two`: its mean before and after the boundary. None without
      snapshots. It grows with the steps between snapshots (the thesis takes 10).
    """

    two_stages: bool
    reason: str | None
    boundary: Estimate
    share: Estimate
    value_done: Estimate
    attention_done: Estimate
    rotation_stage_one: Estimate | None
    rotation_stage_two: Estimate | None
    num_runs: int
    layer: int | None
    runs: tuple[Run, ...]
    rotation: Array | None = field(repr=False)
    rotation_steps: tuple[int, ...] = field(repr=False)
    steps: Array = field(repr=False, metadata={"json": False})
    norms: dict[str, Array] = field(repr=False, metadata={"json": False})

    def summary(self) -> str:
        """The verdict, the boundary, and what stands on its two sides."""
        verdict = "two stages" if self.two_stages else "no two stages"
        lines = [
            f"Training of {counted(self.num_runs, 'run')}, steps {self.steps[0]:g} to {self.steps[-1]:g}: {verdict}"
        ]
        if self.reason is not None:
            lines.append(f"  {self.reason}")
        told = [("runs with two stages", self.share, 2)] if self.num_runs > 1 else []
        if self.two_stages:
            told += [
                ("stage 1 ends at step", self.boundary, 0),
                ("growth of W_V by then", self.value_done, 2),
                ("growth of W_K, W_Q by then", self.attention_done, 2),
            ]
        for name, e in (("stage 1", self.rotation_stage_one), ("stage 2", self.rotation_stage_two)):
            told += [] if e is None else [(f"rotation of W_V, {name}", e, 4)]
        lines += [f"{name:<34}{estimate(e, digits, n=True)}" for name, e, digits in told]
        lines += reasons(e for _, e, _ in told)
        return fold(lines)

    def figure(self) -> "go.Figure":
        """Norms over steps, a line per run, with the boundary; rotation below where there are snapshots."""
        return two_stage_figure(
            self.steps,
            self.norms,
            rotation=self.rotation,
            rotation_steps=self.rotation_steps,
            staged=[run.two_stages for run in self.runs],
            two_stages=self.two_stages,
            reason=self.reason,
            boundary=self.boundary,
            share=self.share,
        )
