"""How models of brackets are trained. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from interp.constraints import Annotated, Interval, Literal, doc
from interp.settings import LARGEST, TrainingSettings

LONGEST = 10_000


@dataclass(frozen=True)
class DyckSettings(TrainingSettings):
    """`TrainingSettings`, and:

    - `data`: `complete` strings of min_length..max_length brackets, or `prefix`es of `length`.
    - `targets`: the loss is taken on `all` predictions, or on `closers` only (as in the released code
      of Wen et al. 2023).
    - `contrastive`: weight of the regulariser of eq. 18: mean squared difference of a string's logits with
      and without r ~ U[1..D] nested pairs before it.
    - `compute`: `attention` over the positions of a string, or, for one layer without positions, `counts`
      of states: the same function at less cost, with other rounding (see the manual's part on speed).
    """

    LATER: ClassVar[Mapping[str, Any]] = {"compute": "attention"}

    contrastive: Annotated[
        float, Interval(ge=0, le=LARGEST), doc("weight of the regulariser that asks for balance (eq. 18)")
    ] = 0.0
    targets: Annotated[Literal["all", "closers"], doc("predictions on which the loss is taken")] = "all"
    data: Annotated[Literal["complete", "prefix"], doc("whole strings, or prefixes of one length")] = "complete"
    min_length: Annotated[int, Interval(ge=0, le=LONGEST), doc("brackets of a complete string, at least")] = 2
    max_length: Annotated[int, Interval(ge=0, le=LONGEST), doc("brackets of a complete string, at most")] = 26
    length: Annotated[int, Interval(ge=1, le=LONGEST), doc("brackets of a prefix")] = 28
    compute: Annotated[
        Literal["attention", "counts"], doc("through positions, or, for one layer without positions, through counts")
    ] = "attention"
