"""What an analysis of attention variation returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from interp.numbers import ABSENT, Cells, absent, number, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.core import Result, counted
from probes.variation.figure import variation_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_PAIRS = 1_000  # of models, a layer: beyond, quantiles are written


@dataclass(frozen=True)
class VariationResult(Result):
    """Attention variation of a population, one entry per layer.

    - `variation`: mean over pairs of models of the squared Frobenius distance; with several heads the
      mean over heads, after those of each pair have been matched by optimal assignment on their
      distance averaged over inputs. Its `null` holds
      `uniform_simplex`: independent rows uniform on the simplex (exact, of one fixed pair of heads);
      `untrained`: the same figure for the same config and seeds before training, or None;
      `sharpness_matched`: these very rows, each with its visible keys permuted at random. Exact
      with one head; with several, one random draw that goes through the same matching.
    - `normalised`: 1 - 2<A1, A2> / (|A1|^2 + |A2|^2): 0 for equal, 1 for disjoint patterns.
    - `unmatched`: `variation` without matching: the mean over all pairs of heads; nulls exact.
    - `untrained`: the untrained population's variation with its interval, or None.
    - `by_input`: per layer [inputs], the mean over pairs on each input (heads unmatched).
    - `pairs`, `untrained_pairs`: per layer [S(S-1)/2], what the means over pairs are taken of; in `to_dict`, and in a
      result that was read from a file of `--json`, 101 quantiles beyond 1,000 pairs per layer.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `unread`: says so of a seed that was given and not read, since nothing was drawn; in `to_dict` where there is one.

    Intervals are over seeds: delete-one jackknife, t(S - 1). They cover near 95 % for spread-out
    populations and less where a few seeds fall into clusters (see `pairs`).

    The first position of a causal model attends to itself alone, so its row adds exactly 0; its *key*
    column counts like any other.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("variation", "unmatched")

    variation: tuple[Estimate, ...]
    normalised: tuple[Estimate, ...]
    unmatched: tuple[Estimate, ...]
    untrained: tuple[Estimate, ...] | None
    by_input: tuple[np.ndarray, ...]
    pairs: tuple[np.ndarray, ...]
    untrained_pairs: tuple[np.ndarray, ...] | None
    num_models: int
    num_heads: tuple[int, ...]
    num_inputs: int
    positions: int
    causal: bool
    inputs: tuple[str, ...] = field(default=())
    task_check: TaskCheck | None = None
    unread: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    def summary(self) -> str:
        """A table, a line per layer, with what to compare it with."""
        heads = "" if max(self.num_heads) == 1 else f", {max(self.num_heads)} heads matched in pairs"
        shown = f" {self.inputs[0]}" if len(self.inputs) == 1 and len(self.inputs[0]) <= 30 else ""
        lines = [
            f"Attention variation |A1 - A2|^2 between {self.num_models} models{heads}",
            f"{counted(self.num_inputs, 'input')} of N = {self.positions} positions{shown}",
            f"{'layer':>5}  {'variation':<24}{'simplex':>8}{'as sharp':>9}{'untrained':>10}  normalised",
        ]
        estimates = (*self.variation, *self.normalised)
        cells = Cells(estimates)
        for layer, (estimate, normal) in enumerate(zip(self.variation, self.normalised, strict=True)):
            null = estimate.null
            assert isinstance(null, dict)
            lines.append(
                f"{layer:>5}  {cells(estimate):<24}{number(null['uniform_simplex']):>8}"
                f"{number(null['sharpness_matched']):>9}{number(null['untrained'], none=ABSENT):>10}"
                f"  {cells(normal, 2)}"
            )
        lines += [f"intervals: {cells.over}, jackknife over pairs", *reasons(estimates), *absent(lines)]
        if max(self.num_heads) > 1:
            text = ", ".join(number(e.value) for e in self.unmatched)
            lines.append(f"heads not matched: {text}")
        if self.num_inputs > 1:
            text = ", ".join(number(float(x.std(ddof=1))) for x in self.by_input)
            lines.append(f"sd over inputs: {text}")
        if self.causal:
            lines.append("The first query sees one key only: its row adds 0, its key column counts.")
        if self.task_check is not None:
            lines.append(str(self.task_check))
        lines += self.unread
        return fold(lines)

    def to_dict(self) -> dict[str, Any]:
        """As of every result; of more than `MOST_PAIRS` pairs a layer 101 quantiles stand in the place of them all."""
        brief = {}
        number = self.num_models * (self.num_models - 1) // 2
        for name in ("pairs", "untrained_pairs"):
            each = getattr(self, name)
            if each is not None and number > MOST_PAIRS:
                many = f"{number} pairs of models per layer, more than {MOST_PAIRS}"
                brief[name] = {
                    "of": f"{many}: quantiles from 0 to 1 by 0.01",
                    "quantiles": [np.quantile(pairs, np.linspace(0, 1, 101)).tolist() for pairs in each],
                }
        return {**super().to_dict(), **brief}

    def figure(self) -> "go.Figure":
        """Every pair of models as a point, layer by layer, with the baselines as lines."""
        return variation_figure(
            self.variation,
            self.pairs,
            num_models=self.num_models,
            num_inputs=self.num_inputs,
            positions=self.positions,
        )
