"""What a balance analysis returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.numbers import ABSENT, absent, number
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.balance.figure import balance_figure, null_of
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BalanceResult(Result):
    """Balance violation of a model or population.

    - `beta`: mean over models, each of one head; undefined with the reason where there are several heads
      (denominators differ by head: see `by_head`), one bracket type, or no attention layer to read.
      Its `null` is the same figure for the untrained config and seeds. Interval over seeds.
    - `functional`: total variation of the next-token distributions when 1..D nested pairs are put before
      a string, mean over r ~ U[1..D] (the law of eq. 18). `null`: the tv between unrelated strings.
      Interval over seeds, for one model over inputs.
    - `contrastive`: the same as mean squared difference of logits (eq. 18).
    - `by_head`: beta per head.  `released`: the released code's variant.  `condition`: residual of eq. 11.
    - `explained`: share of the variance of queries, keys and values that (bracket, depth) explains, mean
      over models and heads; `exact` where it is 1.
    - `norm_on_output`: whether a norm sits directly on the attention output, so that beta means what the
      paper means. Where it does not, `functional` is the headline.
    - `by_count`: pairs inserted -> tv.  `shift_control`: pairs -> tv of moving positions alone.
    - `table` [d, d', i, j]: |S| / P, mean over models, first head (NaN -> None at d = 1).
    - `per_model`: beta of each model, first head.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("beta",)

    beta: Estimate
    functional: Estimate
    contrastive: Estimate
    by_head: tuple[Estimate, ...]
    released: Estimate
    condition: Estimate
    explained: float | None
    exact: bool
    norm_on_output: bool
    by_count: dict[int, Estimate]
    shift_control: dict[int, Estimate]
    layer: int | None
    num_models: int
    table: Array = field(repr=False)
    per_model: tuple[float | None, ...] = field(repr=False)
    task_check: TaskCheck | None = None

    def summary(self) -> str:
        """What was measured, beside its nulls."""
        where = f"layer {self.layer}, " if self.layer is not None else ""
        lines = [f"Balance violation, {where}{counted(self.num_models, 'model')}"]
        lines.append(f"functional: {self.functional}; unrelated strings {number(null_of(self.functional), None)}")
        before = number(null_of(self.beta), None, none=ABSENT)
        note = "" if self.norm_on_output else "  (no norm on the attention output: see the functional form)"
        lines.append(f"beta: {self.beta}; untrained {before}{note}")
        if self.explained is not None:
            kind = "exact: minimal first layer" if self.exact else "mean over contexts"
            lines.append(f"states: {kind}; (bracket, depth) explains {number(self.explained)} of q, k, v")
            lines.append(f"eq. 11 residual {self.condition}; released code's variant {self.released}")
        counts = ", ".join(f"{r}: {number(e.value, None)}" for r, e in self.by_count.items())
        lines.append(f"tv by pairs inserted: {counts}")
        if self.shift_control:
            shifts = ", ".join(f"{r}: {number(e.value, None)}" for r, e in self.shift_control.items())
            lines.append(f"moving positions alone: {shifts}")
        if self.task_check is not None:
            lines.append(str(self.task_check))
        return fold([*lines, *absent(lines)])

    def figure(self) -> "go.Figure":
        """|S| / P over (d, d'), mean over types, and the functional form by pairs inserted."""
        return balance_figure(
            self.table,
            by_count=self.by_count,
            shift_control=self.shift_control,
            beta=self.beta,
            functional=self.functional,
            norm_on_output=self.norm_on_output,
            num_models=self.num_models,
        )
