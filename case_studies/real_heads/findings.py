"""All that is measured, and the comparisons that were named before the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case_studies.corrections import Comparison, compared, corrected
from case_studies.real_heads.ablation import Nats
from case_studies.real_heads.inputs import Inputs
from case_studies.real_heads.pair import LEAST, Head, Pair
from case_studies.real_heads.scores import Score
from interp.stats import REALS, Estimate, mean_over_seeds
from probes.audit import AuditResult, ScanResult

NOTHING = 0.02  # nats: taking out a head that moves the loss by less, either way, costs nothing
SAME_LOOK = 0.15  # of the claim score: two heads whose scores differ by less look the same
COPY, COST, LOOK = "the second copy is cheaper", "the pair's costs differ", "the pair looks the same"
PRIMARY = (COPY, COST, LOOK)


@dataclass(frozen=True)
class Costs:
    """Heads taken out of the decoder one by one on `inputs`: nats of each input with all heads, and what more without.

    `every`: whether these are all heads; else those of a high score, on more inputs.
    """

    inputs: Inputs
    heads: Sequence[Head]
    intact: Nats  # [input]
    more: Nats  # [head, input]
    every: bool

    def of(self, head: Head) -> Nats | None:
        """By how many nats the loss of each input is larger without a head; None where it was not taken out."""
        return self.more[list(self.heads).index(head)] if head in self.heads else None


@dataclass(frozen=True)
class Model:
    """What one model shows: scans by inputs, and of a decoder the nats of second and first copies [input]."""

    name: str
    identity: str
    scans: Mapping[str, ScanResult]
    second: Nats | None = None
    first: Nats | None = None


@dataclass(frozen=True)
class Findings:
    """Everything.

    - `scores`: of the decoder on half B's repetitions, by relation [layer, head, input], by plain code.
    - `chosen_scores`, `chosen_costs`: on half A, by which the pair was chosen; `pair` None where the rule found none.
    - `costs`: of heads of a high score, by name of the inputs; `every`: of all heads, on fewer (quick: none).
    - `audits`: of the pair and the first induction heads, with use; empty in the quick form.
    """

    decoder: Model
    twins: Sequence[Model]
    encoders: Sequence[Model]
    scores: Mapping[str, Score]
    chosen_scores: Mapping[Head, float]
    chosen_costs: Mapping[Head, float]
    pair: Pair | None
    costs: Mapping[str, Costs]
    every: Mapping[str, Costs]
    audits: Sequence[AuditResult]
    picture: "Picture"
    comparisons: Mapping[str, Comparison]

    def cost(self, head: Head, inputs: str = "repetition") -> Estimate | None:
        """What a head costs on half B, over inputs; None where it was not taken out."""
        found = self.costs[inputs].of(head) if inputs in self.costs else None
        return None if found is None else over_inputs(found)

    def score(self, head: Head, relation: str = "previous") -> Estimate:
        """A head's claim score on half B, over inputs."""
        return over_inputs(self.scores[relation][head])

    def word(self, head: Head, costs: Costs) -> str:
        """What the comparison of a head's cost with none says."""
        return self.comparisons[named(head, costs)].finding


@dataclass(frozen=True)
class Picture:
    """Patterns of two heads [head, query, key] on one text, and its tokens."""

    patterns: Any
    tokens: Sequence[str]


def named(head: Head, costs: Costs) -> str:
    """What the comparison of a head's cost with none is called."""
    return f"L{head[0]}H{head[1]}, {costs.inputs.name}, {len(costs.inputs.tokens)} inputs"


def over_inputs(values: Any, level: float = 0.95) -> Estimate:
    """The mean with its interval over inputs: there is one model, and so there are no seeds."""
    values = np.asarray(values, dtype=np.float64)
    return mean_over_seeds(values[np.isfinite(values)], over="inputs", support=REALS, level=level)


def compare(
    decoder: Model,
    scores: Mapping[str, Score],
    pair: Pair | None,
    costs: Mapping[str, Costs],
    every: Mapping[str, Costs],
) -> dict[str, Comparison]:
    """Every comparison of the study: the primary ones by their own p-values, all others corrected together."""

    def one(name: str, values: Any, bound: float | None = None) -> Comparison:
        return compared(name, lambda level: over_inputs(values, level), bound=bound)

    assert decoder.first is not None
    assert decoder.second is not None
    made = [one(COPY, decoder.second - decoder.first)]
    if pair is not None:
        costly, idle = (costs["repetition"].of(head) for head in pair.heads)
        assert costly is not None
        assert idle is not None
        made.append(one(COST, costly - idle))
        made.append(one(LOOK, scores["previous"][pair.costly] - scores["previous"][pair.idle], SAME_LOOK))
    for each in (*costs.values(), *every.values()):
        made += [one(named(head, each), more, NOTHING) for head, more in zip(each.heads, each.more, strict=True)]
    return corrected(made, [name for name in PRIMARY if name in {c.name for c in made}])


def looks(scores: Mapping[str, Score], relation: str) -> list[Head]:
    """Heads whose claim score on half B is at least `LEAST`, the highest first."""
    means = np.nanmean(scores[relation], axis=-1)
    found = [(int(i), int(j)) for i, j in np.argwhere(means >= LEAST)]
    return sorted(found, key=lambda head: -means[head])
