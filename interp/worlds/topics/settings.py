"""How topic models are trained. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from interp.constraints import Annotated, Literal, doc
from interp.settings import TrainingSettings


@dataclass(frozen=True)
class TopicSettings(TrainingSettings):
    """`TrainingSettings`, and:

    - `data`: `documents` drawn anew at every step, or `exact`: the infinite documents of every set of topics at once.
    - `start`: weights `random`, all `zero`, or W_V at the `block` or `diagonal` optimum of the theory or the `identity`
      (then W_Q = W_K = 0).  `trained`: `all` weights, or only `attention` (W_Q, W_K) or `embedding`.
    """

    LATER: ClassVar[Mapping[str, Any]] = {**TrainingSettings.LATER, "start": "random", "trained": "all"}
    CARRIED: ClassVar[Mapping[str, Any]] = {
        "contrastive": 0.0,
        "targets": "all",
        "min_length": 2,
        "max_length": 26,
        "length": 28,
    }

    data: Annotated[Literal["documents", "exact"], doc("documents drawn anew, or the exact law")] = "documents"
    start: Annotated[Literal["random", "zero", "block", "diagonal", "identity"], doc("first weights")] = "random"
    trained: Annotated[Literal["all", "attention", "embedding"], doc("weights that learn")] = "all"
