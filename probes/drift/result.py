"""What an analysis of drift returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.numbers import ABSENT, Cells, absent, number, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold, ordinal
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

ByGap = dict[int, Estimate]
Nested = tuple[tuple[ByGap, ...], ...]  # [layer][head]
SHOWN = 8  # heads in the summary


@dataclass(frozen=True)
class Failing:
    """From which gap on the claim "attends to the last write" fails of one head, over seeds.

    It holds at a gap where the mean score (m - c) / (1 - c) is .25 or more and the last write has the largest weight
    in 75 % of the inputs: an audit's bounds.

    - `share`: of seeds whose claim fails at some gap that was measured; `null`: of untrained ones.
    - `never_held`: in how many it fails at the shortest gap.  `each`: the first gap of each seed, None: it holds.
    - `least`, `median`: of these gaps; None where the claim holds as far as was measured.
    """

    share: Estimate
    never_held: int
    least: int | None
    median: int | None
    each: tuple[int | None, ...]


@dataclass(frozen=True)
class DriftResult(Result):
    """Attention to the last write by gap, nested `[layer][head]`, each {gap in tokens: Estimate}.

    - `mass`: weight on the last write.  `weighted`: its share of weights times norms of what values add to the stream.
      `top1`: how often it has the largest weight.  Null: `untrained`, and a head that attends `even`ly.
    - `wrong`: {gap: share of wrong answers}; null: `untrained`, and a model that says `either bit`.
    - `failing`: from which gap on the claim fails, `[layer][head]`.
    - `heads_apart`: [layer] mean 2-norm of the difference of two heads' rows, over pairs of heads, rows and 40 strings
      of the law: 0 for copies, sqrt(2) for heads that look at two keys. Undefined for one head.
    - `gaps`: those that were measured.  `length`: tokens of a string; `trained_length`: of one in training.
    - `before`: how many tokens before the last write the other bit was written; 0: nothing was.
    - `curves` [model, layer, head, gap]: mean mass of each model.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `unread`: says so of a seed that was given and not read, since nothing was drawn.

    - `ranked` [model, layer]: of a population with several heads, the heads of each layer in the order of `[head]`
      above, most mass at the gaps of training first; in `to_dict` where there is one.

    A bit whose value is the zero vector has no share of `weighted`, whatever its weight. Of a population "head 0" of a
    layer is the best of each seed, since the numbering of heads means nothing across seeds.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("mass", "weighted", "heads_apart")

    mass: Nested
    weighted: Nested
    top1: Nested
    wrong: ByGap
    failing: tuple[tuple[Failing, ...], ...]
    heads_apart: tuple[Estimate, ...]
    gaps: tuple[int, ...]
    trained_length: int
    length: int
    before: int
    num_models: int
    num_inputs: int
    curves: NDArray[np.float64] = field(repr=False, metadata={"json": False})
    task_check: TaskCheck | None = None
    unread: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    ranked: tuple[tuple[tuple[int, ...], ...], ...] = field(default=(), metadata={"json": "given"})

    def called(self, layer: int, head: int) -> str:
        """How a head is called: by its place, or of a population by its rank."""
        return f"{layer} {ordinal(head + 1)}" if self.ranked else f"{layer}.{head}"

    def summary(self) -> str:
        """A table of gaps for each head, and from where its claim fails."""
        heads = [(layer, head) for layer, row in enumerate(self.mass) for head in range(len(row))][:SHOWN]
        picked = [self.gaps[i] for i in np.unique(np.linspace(0, len(self.gaps) - 1, 6).astype(int))]
        cells = Cells([self.mass[layer][head][gap] for layer, head in heads for gap in picked], 2)
        lines = [
            f"Attention to the last write by the gap to it, {counted(self.num_models, 'model')}, "
            f"{counted(self.num_inputs, 'input')} a gap",
            f"strings of {self.length} tokens, of {self.trained_length} in training; "
            + ("one write" if not self.before else f"the other bit was written {self.before} tokens before"),
            *(["heads of a layer by rank in each seed, most mass on the write first"] if self.ranked else ()),
            f"{'head':>6} {'gap':>5}  {'mass':<20}{'untrained':>10}{'even':>7}{'of values':>11}{'top-1':>7}",
        ]
        for layer, head in heads:
            for gap in picked:
                e = self.mass[layer][head][gap]
                null = e.null if isinstance(e.null, dict) else {}
                lines.append(
                    f"{self.called(layer, head):>6} {gap:>5}  {cells(e):<20}"
                    f"{number(null.get('untrained'), 2, none=ABSENT):>10}{number(null.get('even'), 2, none=ABSENT):>7}"
                    f"{number(self.weighted[layer][head][gap].value, 2):>11}"
                    f"{number(self.top1[layer][head][gap].value, 2):>7}"
                )
        wrong = Cells([self.wrong[gap] for gap in picked], 2)
        lines.append("wrong answers: " + ", ".join(f"{wrong(self.wrong[gap])} at {gap}" for gap in picked))
        lines.append('the claim "attends to the last write" (score 0.25, top-1 0.75) fails:')
        for layer, head in heads:
            lines.append(f"{self.called(layer, head):>6}  {self._fails(self.failing[layer][head])}")
        apart = [f"{number(e.value, 2)} in layer {i}" for i, e in enumerate(self.heads_apart) if e.value is not None]
        if apart:
            lines.append(f"distance of two heads' rows (copies 0, two keys 1.41): {', '.join(apart)}")
        lines += [f"intervals: {cells.over}", *reasons([self.mass[a][b][g] for a, b in heads for g in picked])]
        lines += [why for why in reasons([self.wrong[g] for g in picked]) if why not in lines]
        if self.task_check is not None:
            lines.append(str(self.task_check))
        lines += self.unread
        return fold([*lines, *absent(lines)])

    def _fails(self, failing: Failing) -> str:
        count = sum(gap is not None for gap in failing.each)
        if not count:
            return f"in none of {counted(len(failing.each), 'seed')}, as far as gap {self.gaps[-1]}"
        middle = f"beyond {self.gaps[-1]}" if failing.median is None else str(failing.median)
        at_once = f", {failing.never_held} of them at any" if failing.never_held else ""
        of = f"{count} of {counted(len(failing.each), 'seed')}{at_once}"
        return f"in {of}; from gap {middle} (median), {failing.least} (least)"

    def figure(self) -> "go.Figure":
        """Mass against gap, a panel per head, every seed a line; the nulls, values' shares and errors beside it."""
        from probes.drift.figure import drift_figure

        return drift_figure(self)
