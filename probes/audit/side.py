"""One half's items of a task and the runs of a model on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.guests import is_bridge
from interp.logits import refuse_probabilities
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Cache, Edges, Head, Run, centred, run
from probes.audit.stats import Floats, ratio, reach
from probes.audit.tasks import Items


@dataclass
class Side:
    """One half's items and the model's runs on them, shared by all claims about the same rows."""

    model: Any
    items: Items
    level: float
    left_out: float = 0.0  # share of the items that were left out, since nothing that is claimed could matter there
    aside: Items | None = None  # those
    tokens: Tensor = field(init=False)
    read: Tensor = field(init=False)
    base: Run = field(init=False)
    donor: Run = field(init=False)
    margin: Floats = field(init=False)
    _made: dict[Any, Floats] = field(default_factory=dict)
    _means: list[Tensor] = field(default_factory=list)
    _parts: dict[int, "Side"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device = self.model.cfg.device
        self.tokens = torch.from_numpy(self.items.tokens).to(device)
        self.read = torch.from_numpy(self.items.read).to(device)
        self.base = self._intact()
        self.donor = run(self.model, torch.from_numpy(self.items.donors).to(device), self.read, keep=True)
        refuse_probabilities(self.base.logits, "audit", self.model)
        self.margin = self.margin_of(self.base)

    def _intact(self) -> Run:
        """The model's own run. Somebody else's model may keep a state, so that no later run can begin half way."""
        base = run(self.model, self.tokens, self.read, keep=True)
        if base.cache is not None and is_bridge(self.model):
            again = run(self.model, self.tokens, self.read, begun=base.cache)
            if not torch.equal(again.logits, base.logits):
                base.cache.blocks.clear()
        return base

    @cached_property
    def aside_cache(self) -> Cache:
        """What is kept of the model's own run on the items that were left out."""
        assert self.aside is not None
        tokens, read = (torch.from_numpy(x).to(self.tokens.device) for x in (self.aside.tokens, self.aside.read))
        cache = run(self.model, tokens, read, keep=True).cache
        assert cache is not None
        return cache

    @property
    def cache(self) -> Cache:
        assert self.base.cache is not None
        return self.base.cache

    @property
    def donor_cache(self) -> Cache:
        assert self.donor.cache is not None
        return self.donor.cache

    def margin_of(self, done: Run) -> Floats:
        """logit(answer) - logit(foil) of each item."""
        logits, each = done.logits.cpu().numpy(), np.arange(len(self.items))
        return np.asarray(logits[each, self.items.answer] - logits[each, self.items.foil])

    def lost(self, done: Run) -> Floats:
        """1 where the right answer was the largest output and is not in an edited run, else 0 [item]."""
        right, still = (run.logits.argmax(-1).cpu().numpy() == self.items.answer for run in (self.base, done))
        return np.asarray(right & ~still, dtype=np.float64)

    def sees(self, layer: int) -> Tensor:
        """Keys that a query of the recipient gives any weight in some head [item, query, key]."""
        return self.cache.patterns[layer].sum(1) > 0

    def loudness(self) -> Floats:
        """The larger of the two logits of each margin, by size, beside the other outputs [item]."""
        logits, each = centred(self.base.logits).cpu().numpy(), np.arange(len(self.items))
        return np.maximum(*(np.abs(logits[each, which]) for which in (self.items.answer, self.items.foil)))

    def mixed(self, places: NDArray[np.bool_]) -> Run:
        """The inputs with the donors' tokens at `places` [item, pos]."""
        tokens = np.where(places, self.items.donors, self.items.tokens)
        return run(self.model, torch.from_numpy(tokens).to(self.tokens.device), self.read)

    def edited(self, edges: list[Edges], **how: Any) -> Run:
        return run(self.model, self.tokens, self.read, edges, begun=self.cache, **how)

    def share(self, change: Floats) -> Estimate:
        """Mean change of the margin as a share of the intact one."""
        return ratio(self.by_unit(change), self.by_unit(self.margin), self.level)

    def share_of_items(self, each: Floats) -> Estimate:
        """Mean over items [item], which need be no part of the margin."""
        return ratio(self.by_unit(each), self.by_unit(np.ones(len(self.items))), self.level)

    def mean_margin(self) -> Estimate:
        """The intact margin, in logits."""
        return self.share_of_items(self.margin)

    def by_unit(self, values: Floats) -> Floats:
        """Sums over the items that share a donor [unit]: those are no independent observations."""
        if self.items.unit is None:
            return values
        _, unit = np.unique(self.items.unit, return_inverse=True)
        return np.asarray(np.bincount(unit, values), dtype=np.float64)

    def nothing(self, estimate: Estimate) -> bool:
        """Equivalent to no effect: bounds within `UNUSED`, and enough units that rare effects would have shown."""
        return reach(estimate, self.level) < t.UNUSED

    def part(self, count: int) -> "Side":
        """The first items only, for searches."""
        if len(self.items) <= count:
            return self
        if count not in self._parts:
            self._parts[count] = Side(self.model, self.items.first(count), self.level, self.left_out)
        return self._parts[count]

    def fill(self, heads: tuple[Head, ...]) -> dict[Head, Tensor]:
        """What ablated heads give [pos, d_head]."""
        return {(layer, head): self.mean_of(layer)[:, head] for layer, head in heads}

    def mean_of(self, layer: int) -> Tensor:
        """Each head's mean z [pos, head, d_head].

        Over inputs and donors: the inputs alone may all have one answer, which their mean would still tell. Place by
        place, since what a head always gives there is a part of what the rest is used to; of the last layer, of which
        nothing else is read, over the places that are read.
        """
        if not self._means:
            for at, both in enumerate(zip(self.cache.z, self.donor_cache.z, strict=True)):
                last = at == self.model.cfg.n_layers - 1
                self._means.append(mean_by_place([(z, self.lives(last)) for z in both], not last))
        return self._means[layer]

    def lives(self, last: bool, items: Items | None = None) -> Tensor:
        """Places [item, pos] of which anything can reach what is read; `last`: from the last layer."""
        items = self.items if items is None else items
        at_read = np.arange(items.tokens.shape[1]) == items.read[:, None]
        return torch.from_numpy(at_read if last else np.asarray(items.upto)).to(self.read.device)

    def without(self, heads: tuple[Head, ...], *, held: bool = False) -> Floats:
        """Margins with these heads mean-ablated. `held`: every norm's scale stays that of the intact run."""
        if (heads, held) not in self._made:
            done = self.edited([], ablated=self.fill(heads), frozen=self.cache if held else None)
            self._made[heads, held] = self.margin_of(done)
        return self._made[heads, held]


def mean_by_place(runs: Sequence[tuple[Tensor, Tensor]], by_place: bool) -> Tensor:
    """Mean of x [item, pos, ...] over the items of all runs (x, places [item, pos]) [pos, ...].

    By place where `MIN_SEQUENCES` are there, so that no item is much of its own mean; else over all places.
    """
    sums, count = runs[0][0].new_zeros(runs[0][0].shape[1:]), runs[0][0].new_zeros(runs[0][0].shape[1])
    for x, places in runs:
        sums = sums + (x * places.to(x.dtype)[..., None, None]).sum(0)
        count = count + places.to(x.dtype).sum(0)
    count = count[:, None, None]
    overall = (sums.sum(0) / count.sum()).expand_as(sums)
    return torch.where(count >= t.MIN_SEQUENCES, sums / count.clamp(min=1), overall) if by_place else overall
