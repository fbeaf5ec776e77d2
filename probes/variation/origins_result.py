"""What a split of attention variation by its origins returns, and its picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from interp.numbers import Cells, estimate, number, reasons
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.core import Result, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go

ORIGINS = ("weights", "data", "both")
WORDS = {"weights": "first weights", "data": "order of data", "both": "both together"}


@dataclass(frozen=True)
class OriginsResult(Result):
    """Attention variation of a crossed population, split by origin; one entry per layer.

    - `variation`: mean squared Frobenius distance of models that share neither first weights nor data, as seeds of a
      usual population do; heads matched and nulls as in `VariationResult.variation`.
    - `weights`, `data`, `both`: the shares of it that first weights make, that data make, and that are due to neither
      alone (which weights meet which data). They sum to 1. A share is estimated by a difference of means and is
      below 0 where there is next to nothing: it is not cut. Their `null` holds
      `independent`: what seeds give of which neither weights nor data say anything: 0, 0 and 1 (exact);
      `untrained`: the same models before training, whose first weights are all there is: 1, 0 and 0; or None.
    - `parts`: the same three in units of `variation`, each without bias (the shares are ratios, and nearly so).
    - `levels`: how many first weights, and as many data: the n of every interval.
    - `task_check`, `unread`: as in `VariationResult`.

    Intervals: delete-one jackknife over first weights and over data, both errors together, t(levels - 1). In simulation
    with 8 by 8 levels they cover 90 to 100 % for patterns that differ in one direction to ten, more where the two act
    together. Fewer than 5 levels have none; so have fewer than 40 that fall into clusters.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("variation", *ORIGINS)

    variation: tuple[Estimate, ...]
    weights: tuple[Estimate, ...]
    data: tuple[Estimate, ...]
    both: tuple[Estimate, ...]
    parts: tuple[Mapping[str, float], ...]
    levels: int
    num_heads: tuple[int, ...]
    num_inputs: int
    positions: int
    inputs: tuple[str, ...] = field(default=())
    task_check: TaskCheck | None = None
    unread: tuple[str, ...] = field(default=(), metadata={"json": "given"})

    def shares(self, layer: int) -> dict[str, Estimate]:
        """Of one layer, by origin."""
        return {"weights": self.weights[layer], "data": self.data[layer], "both": self.both[layer]}

    def summary(self) -> str:
        """A table, three lines a layer."""
        heads = "" if max(self.num_heads) == 1 else f", {max(self.num_heads)} heads matched in pairs"
        shown = f" {self.inputs[0]}" if len(self.inputs) == 1 and len(self.inputs[0]) <= 30 else ""
        lines = [
            f"Attention variation by origin: {self.levels} first weights x {self.levels} data{heads}",
            f"{counted(self.num_inputs, 'input')} of N = {self.positions} positions{shown}",
            f"{'layer':>5}  {'variation':<24}{'due to':<15}{'share':<22}part",
        ]
        every = [e for layer in range(len(self.variation)) for e in (self.variation[layer], *self._of(layer))]
        cells = Cells(every)
        for layer, whole in enumerate(self.variation):
            for name, share in self.shares(layer).items():
                first = f"{layer:>5}  {cells(whole):<24}" if name == ORIGINS[0] else " " * 31
                lines.append(f"{first}{WORDS[name]:<15}{cells(share, 2):<22}{number(self.parts[layer][name])}")
        lines += [
            f"intervals: {cells.over} of weights and of data, jackknife over both",
            *reasons(every),
            "Independent seeds: 0, 0, 1; untrained models: 1, 0, 0. A share may be estimated below 0.",
        ]
        if self.task_check is not None:
            lines.append(str(self.task_check))
        return fold([*lines, *self.unread])

    def figure(self) -> "go.Figure":
        """The three shares, layer by layer, with the lines of what independent seeds give."""
        import plotly.graph_objects as go

        from interp.plots.style import INK, PALETTE, error_bars, finish

        fig, count = go.Figure(), len(self.variation)
        for i, name in enumerate(ORIGINS):
            found = [self.shares(layer)[name] for layer in range(count)]
            points = go.Scatter(
                x=[layer + 0.22 * (i - 1) for layer in range(count)], y=[e.value for e in found],
                error_y=error_bars(e.ends for e in found), mode="markers", name=WORDS[name],
                marker={"color": PALETTE[i], "size": 11, "symbol": ("circle", "square", "diamond")[i]},
                hovertext=[estimate(e, n=True) for e in found], hoverinfo="text+name",
            )  # fmt: skip
            fig.add_trace(points)
        for level in (0, 1):
            fig.add_hline(y=level, line={"color": INK, "width": 1, "dash": "dot"})
        cells = Cells(self.variation, 2)
        told = ", ".join(f"{cells(e)} in layer {i}" for i, e in enumerate(self.variation[:4]))
        ticks = {"tickvals": list(range(count)), "ticktext": [f"layer {i}" for i in range(count)]}
        return finish(
            fig,
            f"Where attention variation comes from: {self.levels} first weights by {self.levels} data",
            f"variation {told}; independent seeds: 0, 0, 1; untrained: 1, 0, 0; [{cells.over}, jackknife]",
            width=max(760, 260 + 160 * count),
            height=390,
            xaxis={**ticks, "range": [-0.6, count - 0.4], "showgrid": False},
            yaxis={"title": {"text": "share of variation"}},
            legend={"orientation": "h", "y": -0.12, "x": 0},
        )

    def _of(self, layer: int) -> list[Estimate]:
        return list(self.shares(layer).values())
