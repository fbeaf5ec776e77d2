"""What the trained bench is made of, as data: claims with their truth, the models that they are about, families."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probes.claims import Claim

Ints = NDArray[np.int64]
Head = tuple[int, int]  # layer, head
Kind = Literal[
    "true", "false", "decoy", "one-hop", "two-hop", "pattern-carried", "redundant", "conditional", "tail",
    "fixed-query", "idle", "free",
]  # fmt: skip
# What claims of each kind are about, as pages say it.
ABOUT: dict[str, str] = {
    "true": "a head that attends as claimed and is used, since nothing else could bring the answer",
    "false": "a head that does not attend as claimed",
    "decoy": "a head that attends as claimed and says something, of which the model makes no use",
    "one-hop": "the head of layer 1 that finds the answer and brings it",
    "two-hop": "the head of layer 0 whose output the head of layer 1 needs to find its key",
    "pattern-carried": "a head that cannot read tokens, so that all it tells is where it looks",
    "redundant": "one of two heads of which either suffices",
    "conditional": "a head that looks elsewhere when the query is another; the claim names one, rightly or not",
    "tail": "the last write, where it lies at least 8, 16, 24 or 28 tokens back",
    "fixed-query": "a head whose query is one and the same token in every string",
    "idle": "a head that attends as claimed and says nothing at all, or always the same",
    "free": "a head of a model in which nothing is fixed; what it attends to, and whether it is used, is measured",
}
KINDS: tuple[str, ...] = tuple(ABOUT)
Use = Literal["used", "redundant", "unused", "not asked"]
Half = Literal["develop", "judge", "both", "fresh"]
DEVELOP, JUDGE = range(20), range(20, 40)
NEW = range(40, 50)  # of the fresh families, which are neither half's
NO_LABEL = -100


def seeds_of_half(half: Half) -> tuple[int, ...]:
    """The seeds of each family that belong to a half; "fresh": those of the fresh families."""
    parts = {"develop": tuple(DEVELOP), "judge": tuple(JUDGE), "both": (*DEVELOP, *JUDGE), "fresh": tuple(NEW)}
    return parts[half]


@dataclass(frozen=True)
class Spoken:
    """A claim and its truth, as construction has it.

    - `pattern`: whether the head attends so. None: what the plain statistic says of this model (a tail, or heads
      whose shares of the work training decides).
    - `use`: what the model uses the head for. None: what whole-head interventions say of this model.
    - `together`: of a redundant claim, the heads of which any one suffices.
    - `built`: use follows from how the model was made (an untrained model has no task), so that nothing is measured.
    """

    claim: Claim
    kind: Kind
    pattern: bool | None
    use: Use | None = "not asked"
    together: tuple[Head, ...] = ()
    built: bool = False


@dataclass(frozen=True)
class Examples:
    """Strings and their labels [input, pos], `NO_LABEL` where there is none: what truth is checked on."""

    tokens: Ints
    labels: Ints


@dataclass(frozen=True)
class Subject:
    """A model, what is claimed of it, and what the audit is given: `inputs` (None: it draws its own).

    `least`: the accuracy on `examples` of a model that has learned its task; None: it has none.
    """

    model: Any
    claims: tuple[Spoken, ...]
    examples: Examples
    inputs: Any = None
    grammar: Any = None
    least: float | None = None


@dataclass(frozen=True)
class Family:
    """Models of one kind. `make(seed, folder)` gives the model of a seed, trained or read from the folder.

    `base`: the families, in turn, whose models these are made from: a seed of both is one independent model.
    """

    name: str
    about: str
    make: Callable[[int, Path], Subject]
    base: tuple[str, ...] = ()

    def cluster(self, seed: int) -> str:
        """What is independent of all that has another name."""
        return f"{self.base[seed % len(self.base)] if self.base else self.name}/{seed}"


@dataclass(frozen=True)
class Checked:
    """A claim whose truth passed the check: `pattern` and `use` as they are, and what was measured."""

    spoken: Spoken
    pattern: bool
    use: Use
    measured: dict[str, float]
