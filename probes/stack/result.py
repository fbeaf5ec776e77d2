"""What a stack-likeness analysis returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.numbers import ABSENT, Cells, absent, number, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.core import Result, counted
from probes.stack.figure import NAME, merged, null_of, stack_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]
Nested = tuple[tuple[Estimate, ...], ...]  # [layer][head]

SHOWN = 16  # heads in the summary


@dataclass(frozen=True)
class StackResult(Result):
    """Stack-likeness of every head of a model or population.

    `score`, `top1`, `score_trivial`, `top1_trivial` are nested lists of Estimates, `[layer][head]`. A model's
    number is the mean over inputs of the mean over the input's queries. Heads of a population are taken
    by index: head 1 is the mean over the head 1 of every seed, whatever each has become (see `best`).

    - `score`: mean of (m - c) / (1 - c) over closing brackets at depth >= 1.
    - `top1`: how often the target holds the largest weight; tied weights share the place.
    - `score_trivial`, `top1_trivial`: the same over opening brackets, which are their own target.
    - `best`: a layer's best head, one Estimate per layer: chosen on every other input and scored on the
      rest, and the other way round, in each model by itself. No winner's curse.
    - `untrained`: `score` of the same config and seeds before training, or None.
    - `by_distance`: `[layer][head]` distance from query to target -> mean score of those queries, mean over
      models; `queries_by_distance`: how many there are.
    - `rivals`: what heads with a simple rule would score on the same queries (see `RIVALS`; None for START
      where inputs have none). Each spreads its weight evenly over the keys it names. The latest opening bracket at
      the query's depth *is* the target: `same_depth` spreads over all of them, matched ones too.
    - `per_model`: per layer [models, heads], what the means over seeds are taken of.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `unread`: says so of a seed that was given and not read, since nothing was drawn; in `to_dict` where there is one.
    - `shorter`: says so where the model has no room for strings of the usual length; in `to_dict` where there is one.
    - `queries`, `queries_trivial`, `excluded`: how many queries; those that see one key only (c = 1) are
      left out and counted.

    The `null` of each Estimate holds the rivals under the same rule, `uniform` (score 0; top-1 rate: mean
    of c), `untrained`, and `permuted`: the target replaced by an opening bracket drawn from those visible, the target
    among them. It is exact: the mean weight of visible opening brackets. (`best` has the first three nulls only,
    `permuted` of the chosen heads.)

    Intervals are over seeds for a population, over inputs for one model.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("score", "top1", "score_trivial", "top1_trivial", "best")

    score: Nested
    top1: Nested
    score_trivial: Nested
    top1_trivial: Nested
    best: tuple[Estimate, ...]
    untrained: Nested | None
    by_distance: tuple[tuple[dict[int, float], ...], ...]
    queries_by_distance: dict[int, int]
    rivals: dict[str, float | None]
    num_models: int
    num_inputs: int
    positions: int
    queries: int
    queries_trivial: int
    excluded: int
    per_model: tuple[Array, ...] = field(repr=False)
    task_check: TaskCheck | None = None
    unread: tuple[str, ...] = field(default=(), metadata={"json": "given"})
    shorter: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    def summary(self) -> str:
        """A table, a line per head, with what to compare it with."""
        lines = [
            f"{NAME}: attention to the last unmatched open bracket",
            f"{counted(self.num_models, 'model')}, {counted(self.num_inputs, 'input')} of N <= {self.positions} "
            f"positions, {counted(self.queries, 'closing bracket')} inside a pair",
            f"{'head':>6}  {'stack-likeness':<25}{'permuted':>9}{'untrained':>10}{'top-1':>8}{'on opening':>12}",
        ]
        heads = [(layer, head) for layer, row in enumerate(self.score) for head in range(len(row))]
        shown = heads
        if len(heads) > SHOWN:
            ranked = sorted(heads, key=lambda at: -(self.score[at[0]][at[1]].value or 0.0))
            shown = sorted(ranked[:SHOWN])
        choice = self.best if max(map(len, self.score)) > 1 else ()
        estimates = [*(self.score[layer][head] for layer, head in shown), *choice]
        cells = Cells(estimates)
        for layer, head in shown:
            e = self.score[layer][head]
            null = null_of(e)
            lines.append(
                f"{f'{layer}.{head}':>6}  {cells(e):<25}{number(null['permuted']):>9}"
                f"{number(null['untrained'], none=ABSENT):>10}{number(self.top1[layer][head].value):>8}"
                f"{number(self.score_trivial[layer][head].value):>12}"
            )
        if len(heads) > SHOWN:
            lines.append(f"       (the {SHOWN} highest of {len(heads)} heads)")
        if choice:
            lines.append("best head per layer, chosen on one half of the inputs, scored on the other:")
            for layer, e in enumerate(choice):
                null = null_of(e) if e.null else {}
                lines.append(
                    f"{layer:>6}  {cells(e):<25}{number(null.get('permuted'), none=ABSENT):>9}"
                    f"{number(null.get('untrained'), none=ABSENT):>10}"
                )
        lines += [f"intervals: {cells.over}", *reasons(estimates), *absent(lines)]
        lines.append("rivals on the same closing brackets (a uniform head scores 0):")
        lines += [f"  {number(value):>6}  {name}" for name, value in merged(self.rivals)]
        if self.excluded:
            lines.append(f"left out, since they see one key only: {counted(self.excluded, 'query', 'queries')}")
        if self.task_check is not None:
            lines.append(str(self.task_check))
        lines += [*self.shorter, *self.unread]
        return fold(lines)

    def figure(self) -> "go.Figure":
        """Every seed as a point, head by head, with nulls and rivals as lines."""
        return stack_figure(
            self.score,
            rivals=self.rivals,
            per_model=self.per_model,
            num_models=self.num_models,
            num_inputs=self.num_inputs,
            queries=self.queries,
        )
