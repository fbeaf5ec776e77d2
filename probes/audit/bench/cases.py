"""One claim about one model, and the truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.grammars import DyckGrammar
from interp.rng import generator
from probes.audit.bench.drafts import Draft
from probes.audit.bench.families import FAMILIES, Kind
from probes.audit.bench.model import BenchModel
from probes.audit.bench.worlds import NUM_INPUTS, World, brackets, sample_words, words
from probes.audit.tasks import Task
from probes.claims import Claim

VERDICT = {"true": "supported", "decoy": "misleading", "false": "refuted", "undecidable": "undecided"}


@dataclass(frozen=True)
class Case:
    """One claim about one model, and the truth. `inputs` [input, pos]; `given`, `task`: as the audit gets them."""

    family: str
    kind: Kind
    model: BenchModel
    claim: Claim
    inputs: NDArray[np.int64]
    given: Any
    task: Task | None
    world: World

    @property
    def expected(self) -> str:
        """The right verdict."""
        return VERDICT[self.kind]


def make_case(family: str, number: int, seed: int) -> Case:
    """Claim `number` of a family: a function of (family, number, seed) alone."""
    wanted = FAMILIES[family]
    rng = generator(seed, f"bench/{family}", number)
    own = int(rng.integers(2**31))
    world = (brackets if rng.random() < 0.5 else words)(rng, own, wanted.types)
    need, layers = wanted.needs
    n_layers = int(rng.integers(layers, 4))
    n_heads = int(rng.integers(max(1, -(-need // n_layers)), 5))
    if layers > 1:
        n_heads = max(n_heads, 2)
    draft = Draft(rng, world, n_layers, n_heads, wanted.norms[int(rng.integers(len(wanted.norms)))])
    heads, relation, when = wanted.write(draft)
    model = draft.build(own)
    inputs = _inputs_for(family, world, own)
    labelled = world.labelled is not None and inputs is world.inputs
    purpose = "closers" if world.task is None else "labels" if labelled else "task"
    claim = Claim(heads, relation, when, purpose if rng.random() < 0.5 else None)
    given, task = (world.labelled, None) if labelled else (inputs, world.task)
    return Case(family, wanted.kind, model, claim, inputs, given, task, world)


def _inputs_for(family: str, world: World, seed: int) -> NDArray[np.int64]:
    if family != "alike":
        return world.inputs
    if world.name == "words":  # [SEP] always at one place
        return sample_words(NUM_INPUTS, world.direction == "bidirectional", seed, sep_at=9)
    # Nothing but open brackets: the last unmatched one is the current token.
    grammar: DyckGrammar = world.grammar
    rng = generator(seed, "bench/openers")
    kinds = rng.integers(0, grammar.num_types, (NUM_INPUTS, grammar.max_depth))
    return np.concatenate([np.full((NUM_INPUTS, 1), grammar.start), 2 * kinds], axis=1)
