"""What an analysis of glitches returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from interp.numbers import ABSENT, Cells, absent, number, reasons, significant, size
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN = 12  # seeds in the summary


@dataclass(frozen=True)
class Spread:
    """Errors a read over seeds: the least, quartiles, and the most; `faulty`: share of seeds with any error at all."""

    least: float
    quarter: float
    median: float
    three_quarters: float
    most: float
    faulty: Estimate


@dataclass(frozen=True)
class GlitchResult(Result):
    """Errors per read of a model or population, by law: keys are p_i as text, "0.98".

    - `errors`: share of reads answered wrong, mean over seeds. Its `null`: `untrained` (the same seeds before
      training, None where they cannot be rebuilt), `either bit` (0.5) and `last 8 tokens` (a predictor that knows what
      pairs of the last 8 tokens tell, and guesses elsewhere).
      Without an interval where few seeds err.
    - `each`: the same of each seed, with its own interval over trials (reads / deff); no error is no proof of none.
    - `spread`: how it is distributed over seeds.  `reads`, `strings`: how many were asked, each of every seed.
    - `trained_on`: p_i of the grammar.  `length`: tokens of a string.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `shorter`: says so where the models have no room for strings of the grammar's length; in `to_dict` where there is
      one.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("errors",)

    errors: dict[str, Estimate]
    each: dict[str, tuple[Estimate, ...]]
    spread: dict[str, Spread]
    strings: dict[str, int]
    reads: dict[str, int]
    trained_on: tuple[str, ...]
    length: int
    num_models: int
    task_check: TaskCheck | None = field(default=None)
    shorter: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    def summary(self) -> str:
        """A table, a line a law; then seed by seed."""
        cells = Cells(self.errors.values(), None)
        lines = [
            f"Glitches: errors per read, {counted(self.num_models, 'model')}, strings of {self.length} tokens",
            f"{'p_i':>6} {'reads':>7} {'errors per read':<32}{'median':>9}{'most':>9}{'with any':>10}",
        ]
        for law, e in self.errors.items():
            spread = self.spread[law]
            some = "-" if spread.faulty.value is None else f"{round(spread.faulty.value * spread.faulty.n)}"
            lines.append(
                f"{law:>6} {self.reads[law]:>7} {_errors(e, cells):<32}{significant(spread.median, 2):>9}"
                f"{significant(spread.most, 2):>9}{f'{some} of {self.num_models}':>10}"
            )
        trials = "; trials: reads / deff, with strings as clusters" if self.num_models == 1 else ""
        lines.append(f"intervals: {cells.over}{trials}; trained on p_i = {', '.join(self.trained_on)}")
        lines += reasons(self.errors.values())
        lines.append("on the same reads:")
        for law, e in self.errors.items():
            null = e.null if isinstance(e.null, dict) else {}
            told = ", ".join(f"{name} {number(value, none=ABSENT)}" for name, value in null.items())
            lines.append(f"{law:>6} {told}")
        if self.num_models > 1:
            lines.append("each seed: errors [95 %, Clopper-Pearson, strings as clusters]")
            for law, every in self.each.items():
                told = "; ".join(_errors(e) for e in every[:SHOWN])
                more = f"; and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
                lines.append(f"{law:>6} {told}{more}")
        if self.task_check is not None:
            lines.append(str(self.task_check))
        lines += self.shorter
        return fold([*lines, *absent(lines)])

    def figure(self) -> "go.Figure":
        """Every seed as a point, law by law, on a logarithmic axis with a place for none."""
        from probes.glitches.figure import glitch_figure

        return glitch_figure(self)


def _errors(e: Estimate, cells: Cells | None = None) -> str:
    """Errors, which lie orders of magnitude apart: "0.0012 [0.0003, 0.004]"."""
    told = significant(e.value, 2)
    if e.low is not None and e.high is not None:
        told += f" [{significant(e.low, 2)}, {significant(e.high, 2)}]"
    return told if cells is None or cells.n else f"{told} ({size(e)})"
