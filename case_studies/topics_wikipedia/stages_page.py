"""The section on Fig. 2.9: the figure, a table and a sentence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from case_studies.page import Figure, Table
from case_studies.topics_wikipedia.stages import BATCH, HEADS, LAG, LAYERS, PARTS, ROW, StageRuns
from case_studies.words import Cell, Row
from interp.numbers import ABSENT, number, percent
from probes.topics import TwoStageResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

LEAST = 0.05  # growth of a norm, by its first value, of which a share is given
THESIS = (100, 400)  # steps at which stage 1 and stage 2 end there, "roughly"


def stage_parts(stages: Sequence[StageRuns]) -> list[str | Table | Figure]:
    """What is said, drawn and counted of every setting and layer."""
    return [
        stage_sentence(stages),
        Figure(
            stage_figure(stages),
            f"Frobenius norms of W_K, W_Q and W_V by layer (columns) over steps, and the rotation of W_V over {LAG} "
            f"steps, (1 - cos) / 2; a line per run, n={_runs(stages)} runs per setting.",
        ),
        stage_table(stages),
    ]


def stage_sentence(stages: Sequence[StageRuns]) -> str:
    """How many layers of which settings show two stages."""
    total = sum(len(s.layers) for s in stages)
    staged = [(s, at) for s in stages for at, layer in enumerate(s.layers) if layer.two_stages]
    told = f"{len(staged)} of {total} layers show two stages by the rule that the synthetic models are held to"
    if staged:
        ends = sorted(v for s, at in staged if (v := s.layers[at].boundary.value) is not None)
        names = ", ".join(dict.fromkeys(s.setting.name for s, _ in staged))
        told += f" ({names}), the first ending at steps {number(ends[0], 0)} to {number(ends[-1], 0)}"
    steps = max((float(layer.steps[-1]) for s in stages for layer in s.layers), default=0.0)
    lost = "; ".join(
        f"{len(s.diverged)} of {len(s.diverged) + len(s.loss)} runs of {s.setting.name} at step "
        f"{' and '.join(map(str, s.diverged))}"
        for s in stages
        if s.diverged
    )
    faster = sum(_leads(layer) for s in stages for layer in s.layers)
    return (
        f"A model of {LAYERS} layers and {HEADS} heads per layer fills in masked tokens of this corpus, {len(stages)} "
        f"settings, {number(steps, 0)} steps, n={_runs(stages)} runs each: {told}. Without the rule: in {faster} of "
        f"{total} W_V has done a larger share of its growth than W_K and W_Q of theirs a quarter of the way. "
        f"{f'Diverged, and left out: {lost}. ' if lost else ''}The thesis sees stage 1 end at about step {THESIS[0]} "
        f"and stage 2 at {THESIS[1]}, and names no settings."
    )


def stage_table(stages: Sequence[StageRuns]) -> Table:
    """A row a setting and layer."""
    rows: list[Row] = []
    for s in stages:
        loss = number(sum(s.loss) / len(s.loss), 2) if s.loss else ABSENT
        for at, r in enumerate(s.layers):
            rows.append(
                [
                    f"{s.setting.name}, layer {at}",
                    "two stages" if r.two_stages else "no",
                    Cell(r.share),
                    Cell(r.boundary, 0) if r.two_stages else ABSENT,
                    *(number(growth_by_quarter(r.norms[part]), 2, none=ABSENT) for part in PARTS),
                    loss,
                ]
            )
    return Table(
        [
            "trained with",
            "verdict",
            "share of runs",
            "stage 1 ends",
            *(f"{p}, growth" for p in PARTS),
            "loss",
        ],
        rows,
        f"Means over n={_runs(stages)} runs. Growth: how much of that from the first norm to the largest is done after "
        f"a quarter of the steps ({ABSENT}: less than {percent(LEAST)} in all). {BATCH} rows of {ROW} tokens per step; "
        "W_K, W_Q, W_V begin at the initial scale, all else at 0.02; loss: cross entropy in nats, last tenth of steps.",
    )


def growth_by_quarter(norms: NDArray[np.float64]) -> float | None:
    """Share of a norm's [run, step] growth that is done after a quarter of the steps, of the mean over runs.

    None where it grows by less than `LEAST` of where it begins.
    """
    curve = norms.mean(0)
    growth = float(curve.max() - curve[0])
    if growth < LEAST * curve[0]:
        return None
    return float((curve[(len(curve) - 1) // 4] - curve[0]) / growth)


def _leads(r: TwoStageResult) -> bool:
    """Whether W_V is further in its growth than W_K and W_Q a quarter of the way."""
    done = {part: growth_by_quarter(r.norms[part]) for part in PARTS}
    value = done["W_V"]
    return value is not None and value > max(done["W_Q"] or 0.0, done["W_K"] or 0.0)


def _runs(stages: Sequence[StageRuns]) -> int:
    """Of a setting, those that diverged included."""
    return max(len(s.loss) + len(s.diverged) for s in stages)


def stage_figure(stages: Sequence[StageRuns]) -> "go.Figure":
    """Four columns of layers; rows of norms of W_K, W_Q, W_V and of the rotation of W_V."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import PALETTE, finish

    rows = ("W_K", "W_Q", "W_V")
    titles = [f"layer {at}" for at in range(LAYERS)]
    fig = make_subplots(len(rows) + 1, LAYERS, shared_xaxes=True, column_titles=titles, vertical_spacing=0.05)
    for colour, s in zip(PALETTE, stages, strict=False):
        for at, r in enumerate(s.layers):
            lines: list[tuple[int, Sequence[float], Any]] = [
                (k, list(r.steps), r.norms[part]) for k, part in enumerate(rows, start=1)
            ]
            if r.rotation is not None:
                lines.append((len(rows) + 1, r.rotation_steps, r.rotation))
            for row, x, curves in lines:
                for run, curve in enumerate(curves):
                    trace = go.Scatter(
                        x=x, y=curve.round(5), mode="lines", line={"color": colour, "width": 1.3},
                        name=s.setting.name, legendgroup=s.setting.name,
                        showlegend=row == 1 and at == 0 and run == 0,
                    )  # fmt: skip
                    fig.add_trace(trace, row=row, col=at + 1)
    for row, title in enumerate((*(f"|{part}|" for part in rows), "rotation of W_V"), start=1):
        fig.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    fig.update_xaxes(title_text="step", row=len(rows) + 1)
    staged = sum(layer.two_stages for s in stages for layer in s.layers)
    title = f"{staged} of {sum(len(s.layers) for s in stages)} layers train in two stages"
    return finish(fig, title, f"n={_runs(stages)} runs per setting", width=1160, height=640)
