"""How models that count in context are trained. Imports no torch."""

from dataclasses import dataclass
from typing import Literal

from interp.constraints import Annotated, doc
from interp.settings import TrainingSettings


@dataclass(frozen=True)
class CountingSettings(TrainingSettings):
    """`TrainingSettings`, and:

    - `answers`: what the loss of a causal graph compares with: the kernel's row at the query (`law`, as slides of seed
      003 have it, L2656), or a token drawn from it (`drawn`). The mean is the same; a row says more than a draw.
    """

    answers: Annotated[Literal["law", "drawn"], doc("the loss of a causal graph is taken against this")] = "law"
