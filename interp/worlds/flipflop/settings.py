"""How flip-flop models are trained. Imports no torch."""

import math
from dataclasses import dataclass

from interp.constraints import Annotated, Interval, Literal, doc
from interp.settings import LARGEST, MOST, TrainingSettings


@dataclass(frozen=True)
class FlipFlopSettings(TrainingSettings):
    """`TrainingSettings`, and the sharpening of attention (thesis, sections 3.5.4.2 and 3.5.6.4):

    - `sharpen`: a penalty on the attention of each query, averaged over queries, heads and layers: its `entropy` in
      nats, minus its 2-norm (`l2norm`) or minus its largest weight (`maximum`).
    - `sharpen_weight`: of the penalty in the loss.
    - `sharpen_schedule`: from step `sharpen_from` on that weight is `constant`, rises in a straight line to it at the
      last step (`linear`), or goes up to it and down to 0 and up again (`oscillating`, once in `sharpen_period`
      steps, a cosine). The thesis names the schedules and gives no formula: these are ours.
    - `sharpen_layers`: `all` of them, or the `first` alone (Fig. 3.38).
    """

    sharpen: Annotated[Literal["none", "entropy", "l2norm", "maximum"], doc("penalty that sharpens attention")] = "none"
    sharpen_weight: Annotated[float, Interval(ge=0, le=LARGEST), doc("weight of that penalty")] = 0.01
    sharpen_schedule: Annotated[
        Literal["constant", "linear", "oscillating"], doc("how that weight changes over the steps")
    ] = "constant"
    sharpen_from: Annotated[int, Interval(ge=0, le=MOST), doc("the first step with the penalty")] = 0
    sharpen_period: Annotated[int, Interval(ge=2, le=MOST), doc("period of sharpen_schedule=oscillating, in steps")] = (
        200
    )
    sharpen_layers: Annotated[Literal["all", "first"], doc("layers whose attention is sharpened")] = "all"

    def sharpening(self, step: int) -> float:
        """The weight of the penalty at a step, numbered from 0."""
        if self.sharpen == "none" or step < self.sharpen_from:
            return 0.0
        done = step - self.sharpen_from
        if self.sharpen_schedule == "linear":
            return self.sharpen_weight * (done + 1) / (self.steps - self.sharpen_from)
        if self.sharpen_schedule == "oscillating":
            return self.sharpen_weight * (1 - math.cos(2 * math.pi * done / self.sharpen_period)) / 2
        return self.sharpen_weight
