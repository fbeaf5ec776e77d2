"""What `flip-flop` measures: glitches by law, drift by gap, and what heads look like where models were trained."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from case_studies.flip_flop.lstm import Counted
from case_studies.populations import Family
from case_studies.study import Obtained
from interp.patterns import attention_patterns
from interp.population import Population
from interp.rng import generator
from interp.worlds.flipflop import FlipFlopGrammar
from probes import analyze_drift, analyze_glitches
from probes.drift import DriftResult
from probes.glitches import GlitchResult

Array = NDArray[np.float64]

READS = 4000  # of each law, and seed
STRINGS = 400  # of training's law, on which heads are looked at
SPARSE, DENSE, OWN = "0.98", "0.1", "0.8"
SHARP = {"sharpen_weight": 0.1}


@dataclass(frozen=True)
class Arm:
    """A population of the study; `base`: one of which many seeds are trained, and heads are looked at."""

    family: Family
    base: bool = False


BASE = (
    Arm(Family("1 layer", "flipflop-1l1h"), base=True),
    Arm(Family("2 layers", "flipflop"), base=True),
)
OTHERS = (
    Arm(Family("1 layer, learned positions", "flipflop-1l1h", {"positions": "learned"})),
    Arm(Family("1 layer, no norm before attention", "flipflop-1l1h", {"block": "authors"})),
    Arm(Family("1 layer, mixture", "flipflop-1l1h", {"ignore": (0.9, 0.98, 0.1)})),
    Arm(Family("1 layer, entropy", "flipflop-1l1h", {"sharpen": "entropy", **SHARP})),
    Arm(Family("2 layers, mixture", "flipflop", {"ignore": (0.9, 0.98, 0.1)})),
    Arm(Family("2 layers, entropy", "flipflop", {"sharpen": "entropy", **SHARP})),
    Arm(Family("2 layers, 2-norm", "flipflop", {"sharpen": "l2norm", **SHARP})),
    Arm(Family("2 layers, maximum", "flipflop", {"sharpen": "maximum", **SHARP})),
)
SCORES = {
    "mass": "weight on the last write",
    "top1": "last write has the largest weight",
    "far": "weight on the last write, gaps of half a string or more",
    "entropy": "entropy of the row",
    "margin": "logit margin of the right bit",
    "least_margin": "the same, tenth percentile",
}


@dataclass(frozen=True)
class Measured:
    """One arm. `scores`: by name of `SCORES` a number per seed [S]; none where heads are not looked at."""

    arm: Arm
    population: Population
    digest: str
    glitches: GlitchResult
    drift: DriftResult
    scores: dict[str, Array] = field(default_factory=dict)

    @property
    def accuracy(self) -> list[float]:
        """Share of reads that each seed answered right in its last evaluation."""
        return [row["accuracy_read"] for row in self.population.final_metrics()]

    def errors(self, law: str) -> Array:
        """Errors a read of each seed [S]."""
        return np.array([e.value for e in self.glitches.each[law]], dtype=np.float64)


@dataclass(frozen=True)
class Found:
    """All that was measured; `lstms`: of each LSTM what it answered, by law."""

    measured: list[Measured]
    lstms: list[dict[str, Counted]]


def measure(arm: Arm, one: Obtained) -> Measured:
    """Everything of one arm."""
    population = one.population
    glitches = analyze_glitches(population, reads=READS)
    drift = analyze_drift(population)
    scores: dict[str, Array] = {}
    if arm.base:
        grammar: Any = population.grammar
        tokens = grammar.draw(generator(0, "flip-flop/looks"), STRINGS)
        each = [looks(model, grammar, tokens) for model in population]
        scores = {name: np.array([found[name] for found in each]) for name in SCORES}
    return Measured(arm, population, one.digest, glitches, drift, scores)


def looks(model: Any, grammar: Any, tokens: NDArray[np.int64]) -> dict[str, float]:
    """What a model looks like in training's law, at reads: of the head with the most weight on the last write, chosen
    on every other string and scored on the rest; and by how much it prefers the right bit."""
    reads, last = grammar.reads(tokens), np.maximum(grammar.last_write(tokens), 0)
    string, query = np.nonzero(reads)
    target = last[string, query]
    ids = torch.from_numpy(tokens)
    rows = np.concatenate([p[string, :, query] for p in attention_patterns(model, ids)], axis=1)  # [read, head, key]
    mass = np.take_along_axis(rows, target[:, None, None], 2)[..., 0]
    choosing = string % 2 == 1
    head = int(mass[choosing].mean(0).argmax())
    scored, mine = ~choosing, rows[~choosing, head]
    far = (query - target)[scored] >= grammar.length // 2
    with torch.no_grad():
        logits = model(ids).numpy()[string, query]
    first = 3 if isinstance(grammar, FlipFlopGrammar) else 0
    bit = grammar.state(tokens)[string, query]
    each = np.arange(len(bit))
    margin = logits[each, first + bit] - logits[each, first + 1 - bit]
    weight = mass[scored, head]
    return {
        "mass": float(weight.mean()),
        "top1": float((weight >= mine.max(1) * (1 - 1e-5)).mean()),
        "far": float(weight[far].mean()) if far.any() else float("nan"),
        "entropy": float(-(mine * np.log(np.maximum(mine, 1e-12))).sum(1).mean()),
        "margin": float(margin.mean()),
        "least_margin": float(np.quantile(margin, 0.1)),
    }


def of(measured: Sequence[Measured], name: str) -> Measured:
    """The arm of a name."""
    return next(m for m in measured if m.arm.family.name == name)
