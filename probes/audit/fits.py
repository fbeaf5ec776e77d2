"""What a scan finds: of a head and a relation, of a head, and of a layer in several models."""

from dataclasses import dataclass
from typing import Literal

from interp.stats import CONFIDENCE, Estimate
from probes.audit.whole import Matters
from probes.claims import Relation

Column = Literal["mass", "even"]
COLUMNS: tuple[Column, ...] = ("mass", "even")  # two scales: neither is ever ranked among the other


@dataclass(frozen=True)
class Fit:
    """One head against one relation, over half B.

    - `kind`: the scale of the score: `mass`, weight on the keys, or `even`, how evenly it is spread over them.
    - `rows` to which the relation applies; `score`, `top1`, `p_value` (Holm-corrected, of the matched null) and
      `untrained` (the best score of untrained heads): as in an audit; None where there is none.
    - `pattern`: the word of the audit's rules, of the best relations; None where they were not asked. `reason`: why.
    - `when`: where the head looks there in some rows only, a condition in words under which it does in nearly all: a
      hint from half A, for an audit; "" where none is known.
    - `best_of_layer`: of several models, whether this head fits this relation best in its layer, in half A.
    """

    seed: int
    layer: int
    head: int
    relation: str
    words: str
    kind: Column
    rows: int
    score: Estimate
    top1: Estimate | None
    p_value: float | None
    untrained: float | None = None
    pattern: str | None = None
    reason: str = ""
    best_of_layer: bool = False
    when: str = ""


@dataclass(frozen=True)
class ScannedHead:
    """One head: its best relation of each kind, the next of mass that is not nested in the best, and what it matters.

    `matters`: None where the model has no task.
    """

    seed: int
    layer: int
    head: int
    mass: Fit | None
    runner_up: Fit | None
    even: Fit | None
    matters: Matters | None


@dataclass(frozen=True)
class LayerShare:
    """Of several models: in which share of seeds the best head of a layer has a relation, and has it and matters.

    `used`: None where the models have no task. `level`: of both intervals.
    """

    layer: int
    relation: str
    words: str
    kind: Column
    share: Estimate
    used: Estimate | None
    level: float = CONFIDENCE


def column_of(relation: Relation) -> Column:
    """The scale on which a relation is scored: what is even *among* keys must first have its weight on them."""
    return "even" if relation.kind == "even" else "mass"
