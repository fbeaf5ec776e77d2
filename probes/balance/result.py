"""What a balance analysis returns."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.numbers import ABSENT, Cells, absent, number, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.balance.figure import balance_figure, null_of
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]

SHOWN = 16  # heads in the summary


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
    - `by_head`: beta of each head, with the null of that head.  `released`: the released code's variant.
      `condition`: residual of eq. 11. Both are of the first head.
    - `explained`: share of the variance of queries, keys and values that (bracket, depth) explains, mean
      over models and heads; `exact` where it is 1.
    - `norm_on_output`: whether a norm sits directly on the attention output, so that beta means what the
      paper means. Where it does not, `functional` is the headline.
    - `by_count`: pairs inserted -> tv.  `shift_control`: pairs -> tv of moving positions alone.
    - `table` [d, d', i, j]: |S| / P, mean over models, first head (NaN -> None at d = 1).
    - `per_model`: beta of each model, first head.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `shorter`: says so where the model has no room for strings of the usual length; in `to_dict` where there is one.
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
    shorter: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    def summary(self) -> str:
        """What was measured, beside its nulls."""
        where = f"layer {self.layer}, " if self.layer is not None else ""
        lines = [f"Balance violation, {where}{counted(self.num_models, 'model')}"]
        lines.append(f"functional: {self.functional}; unrelated strings {number(null_of(self.functional), None)}")
        note = "" if self.norm_on_output else "  (no norm on the attention output: see the functional form)"
        if len(self.by_head) > 1:
            lines += [f"beta: {self.beta}{note}", *self._heads()]
        else:
            lines.append(f"beta: {self.beta}; untrained {number(null_of(self.beta), None, none=ABSENT)}{note}")
        if self.explained is not None:
            kind = "exact: minimal first layer" if self.exact else "mean over contexts"
            lines.append(f"states: {kind}; (bracket, depth) explains {number(self.explained)} of q, k, v")
            first = "of head 0: " if len(self.by_head) > 1 else ""
            lines.append(f"{first}eq. 11 residual {self.condition}; released code's variant {self.released}")
        counts = ", ".join(f"{r}: {number(e.value, None)}" for r, e in self.by_count.items())
        lines.append(f"tv by pairs inserted: {counts}")
        if self.shift_control:
            shifts = ", ".join(f"{r}: {number(e.value, None)}" for r, e in self.shift_control.items())
            lines.append(f"moving positions alone: {shifts}")
        if self.task_check is not None:
            lines.append(str(self.task_check))
        lines += self.shorter
        return fold([*lines, *absent(lines)])

    def _heads(self) -> list[str]:
        """A line a head, the lowest of many."""
        heads = sorted(range(len(self.by_head)), key=lambda head: _rank(self.by_head[head]))[:SHOWN]
        estimates = [self.by_head[head] for head in sorted(heads)]
        cells = Cells(estimates, None)
        lines = [f"{'head':>6}  {'beta (by_head)':<34}{'untrained':>10}"]
        for head, e in zip(sorted(heads), estimates, strict=True):
            lines.append(f"{head:>6}  {cells(e):<34}{number(null_of(e), None, none=ABSENT):>10}")
        if len(self.by_head) > SHOWN:
            lines.append(f"       (the {SHOWN} lowest of {len(self.by_head)} heads)")
        return [*lines, f"intervals: {cells.over}", *reasons(estimates)]

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


def _rank(e: Estimate) -> float:
    """Heads without a value come last."""
    return math.inf if e.value is None else e.value
