"""How models of a binary chain are trained. Imports no torch."""

from dataclasses import dataclass
from typing import Literal

from interp.constraints import Annotated, Interval, doc
from interp.settings import TrainingSettings


@dataclass(frozen=True)
class ChainSettings(TrainingSettings):
    """`TrainingSettings`, and:

    - `start`: weights `gaussian`, or the rank-one weights of the `canonical` model at (`start_e`, `start_w`), with
      the output bias at its optimum and attention that adds nothing (see `interp.worlds.binary_chain.flow`).
    - `trained`: weights that learn: `slides`, those of the model on the slides, whose only bias is at the output
      (the biases of attention and MLP stay 0), or `all`.
    """

    start: Annotated[Literal["gaussian", "canonical"], doc("first weights")] = "gaussian"
    start_e: Annotated[float, Interval(ge=-10, le=10), doc("embedding scale e of the canonical start")] = 0.3
    start_w: Annotated[float, Interval(ge=-10, le=10), doc("MLP scale w of the canonical start")] = 0.5
    trained: Annotated[Literal["slides", "all"], doc("weights that learn")] = "slides"
