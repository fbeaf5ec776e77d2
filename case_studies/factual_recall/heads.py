"""Which head reads the subject and which the relation: interchange of one head's output at END, by kind of pair."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from case_studies.factual_recall.stages import kept
from interp import Population
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.stats import SHARE, Estimate, mean_over_seeds
from interp.worlds.facts import FactsGrammar
from interp.worlds.facts.claims import Fact

Array = NDArray[np.float64]
STRINGS = 200
READS = 0.1  # of the whole difference: from here on a head counts as one that reads
Z, PATTERN = "blocks.0.attn.hook_z", "blocks.0.attn.hook_pattern"
GROUPS = ("subject alone", "relation alone", "both", "neither")


@dataclass(frozen=True)
class Heads:
    """Of an arm; arrays [seed, head].

    - `subject`, `relation`: the part of the difference of logits between answer and foil that goes when the head's
      output at END is that of the donor.  `same`: where the donor has the same fact among other noise.
    - `on_subject`, `on_relation`: mean weight of END on them.
    """

    subject: Array
    relation: Array
    same: Array
    on_subject: Array
    on_relation: Array

    def groups(self) -> dict[str, int]:
        """How many heads, of all seeds, read what."""
        s, r = self.subject >= READS, self.relation >= READS
        each = (s & ~r, r & ~s, s & r, ~s & ~r)
        return {name: int(one.sum()) for name, one in zip(GROUPS, each, strict=True)}

    def apart(self) -> Estimate:
        """How far heads are divided between subject and relation (1: each reads one), mean over seeds.

        Sum over heads of |s - r| over that of |s| + |r|. Null: heads of one kind paired with those of the other in
        every order.
        """
        found = [_apart(s, r) for s, r in zip(self.subject, self.relation, strict=True)]
        orders = list(itertools.permutations(range(self.subject.shape[1])))
        null = np.mean(
            [_apart(s, r[list(o)]) for s, r in zip(self.subject, self.relation, strict=True) for o in orders]
        )
        return mean_over_seeds(found, support=SHARE).with_null(float(null))

    def paired_at_random(self) -> float:
        """The null of `apart`."""
        null = self.apart().null
        assert isinstance(null, float)
        return null

    def looks(self, kind: str) -> Estimate:
        """Weight at END, on what it is about, of the head that the most goes with."""
        effect, mass = (
            (self.subject, self.on_subject) if kind == "subject" else (self.relation, self.on_relation)
        )  # fmt: skip
        best = effect.argmax(1)
        return mean_over_seeds(mass[np.arange(len(best)), best], support=SHARE)

    def same_at_most(self) -> float:
        """The largest effect in size of the same fact among other noise, mean over seeds."""
        return float(np.abs(self.same).max(1).mean())


def heads(population: Population) -> Heads:
    """Of a trained population; seeds that diverged are left out."""
    found = [_of_model(population[i]) for i in kept(population)]
    return Heads(*(np.stack([one[i] for one in found]) for i in range(5)))


def same_fact(grammar: FactsGrammar, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Strings with the facts of `tokens` at other places among other noise."""
    subject, relation = grammar.facts(tokens)
    drawn = grammar.draw(generator(0, "factual-recall/same"), len(tokens))
    each = np.arange(len(tokens))
    drawn[each, grammar.seen(drawn, 0)[:, -1]] = subject
    drawn[each, grammar.seen(drawn, 1)[:, -1]] = relation + grammar.subjects
    return drawn


def _of_model(model: SandboxTransformer) -> tuple[Array, ...]:
    grammar: Any = model.grammar
    tokens = grammar.draw(generator(0, "factual-recall/heads"), STRINGS)
    rows = np.ones(tokens.shape, dtype=bool)
    effects: dict[str, Array] = {}
    whole = {}
    for kind in Fact.kinds:
        items = Fact().items(tokens, grammar, rows, 0, kind=kind)
        moved, full = _interchange(model, items.tokens, items.donors, items.answer, items.foil)
        effects[kind], whole[kind] = moved / full, full
    asked = Fact().items(tokens, grammar, rows, 0, kind="subject")
    moved, _ = _interchange(model, asked.tokens, same_fact(grammar, asked.tokens), asked.answer, asked.foil)
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(tokens), names_filter=PATTERN)
    pattern, each = cache[PATTERN][:, :, -1].double().numpy(), np.arange(len(tokens))
    masses = [pattern[each, :, grammar.seen(tokens, kind)[:, -1]].mean(0) for kind in (0, 1)]
    return effects["subject"], effects["relation"], moved / whole["subject"], *masses


def _interchange(model: SandboxTransformer, base: Any, donors: Any, answer: Any, foil: Any) -> tuple[Array, float]:
    """Mean fall of the difference of logits when one head's output at END is the donor's [head], and of the donor's."""
    each = torch.arange(len(base))
    right, wrong = torch.from_numpy(answer), torch.from_numpy(foil)

    def lead(logits: Tensor) -> float:
        last = logits[:, -1].double()
        return float((last[each, right] - last[each, wrong]).mean())

    with torch.no_grad():
        there, cache = model.run_with_cache(torch.from_numpy(donors), names_filter=Z)
        given = cache[Z][:, -1]
        before = lead(model(torch.from_numpy(base)))

        def swapped(head: int) -> float:
            def write(z: Tensor, hook: Any) -> Tensor:
                z = z.clone()
                z[:, -1, head] = given[:, head]
                return z

            return lead(model.run_with_hooks(torch.from_numpy(base), fwd_hooks=[(Z, write)]))

        moved = np.array([before - swapped(head) for head in range(model.config.n_heads)])
    return moved, before - lead(there)


def _apart(s: Array, r: Array) -> float:
    total = (np.abs(s) + np.abs(r)).sum()
    return float(np.abs(s - r).sum() / total) if total > 0 else 0.0
