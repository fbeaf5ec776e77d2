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
    - `contrast`: the pairs of that regulariser: `nested`, drawn for each string, or `released`, as the released code
      has it: one string for the batch, before START, of D nested pairs of each type, and a pair more somewhere in it.
    - `corpus`: train on one corpus of so many brackets, START and END included, the same for all seeds, read in another
      order by each seed and epoch (as in the released code of Wen et al. 2023); 0: new strings at every step.
    - `compute`: `attention` over the positions of a string, or, for one layer without positions, `counts`
      of states: the same function at less cost, with other rounding (see the manual's part on speed).
    """

    LATER: ClassVar[Mapping[str, Any]] = {
        **TrainingSettings.LATER,
        "compute": "attention",
        "corpus": 0,
        "contrast": "nested",
    }

    contrastive: Annotated[
        float, Interval(ge=0, le=LARGEST), doc("weight of the regulariser that asks for balance (eq. 18)")
    ] = 0.0
    contrast: Annotated[
        Literal["nested", "released"], doc("its pairs: drawn for each string, or the released code's, before START")
    ] = "nested"
    targets: Annotated[Literal["all", "closers"], doc("predictions on which the loss is taken")] = "all"
    data: Annotated[Literal["complete", "prefix"], doc("whole strings, or prefixes of one length")] = "complete"
    min_length: Annotated[int, Interval(ge=0, le=LONGEST), doc("smallest number of brackets of a complete string")] = 2
    max_length: Annotated[int, Interval(ge=0, le=LONGEST), doc("largest number of brackets of a complete string")] = 26
    length: Annotated[int, Interval(ge=1, le=LONGEST), doc("brackets of a prefix")] = 28
    corpus: Annotated[int, Interval(ge=0, le=10**7), doc("tokens of one corpus for all; 0: always new strings")] = 0
    compute: Annotated[
        Literal["attention", "counts"], doc("through positions, or, for one layer without positions, through counts")
    ] = "attention"
