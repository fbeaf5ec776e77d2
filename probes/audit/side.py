"""One half's items of a task and the runs of a model on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    """One half's items and the model's runs on them, shared by all claims about the same rows.

    `pairs`: the inputs with their donors, each once, as they are run; caches and edits are of these [pair, pos, ...].
    Items are read in them: those of one text, at several places, in one run.
    """

    model: Any
    items: Items
    level: float
    left_out: float = 0.0  # share of the items that were left out, since nothing that is claimed could matter there
    aside: Items | None = None  # those
    pairs: Items = field(init=False)
    tokens: Tensor = field(init=False)
    read: Tensor = field(init=False)
    rows: Tensor = field(init=False)
    _made: dict[Any, Floats] = field(default_factory=dict)
    _means: list[Tensor] = field(default_factory=list)
    _parts: dict[int, "Side"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device, causal = self.model.cfg.device, getattr(self.model.cfg, "attention_dir", "causal") == "causal"
        self.pairs, rows = _once(self.items, causal)
        self.aside = None if self.aside is None else _once(self.aside, causal)[0]
        self.tokens, self.read, self.rows = (
            torch.from_numpy(x).to(device) for x in (self.pairs.tokens, self.items.read, rows)
        )

    @cached_property
    def base(self) -> Run:
        """The model's own run. Somebody else's model may keep a state, so that no later run can begin half way."""
        base = self._run(self.tokens, keep=True)
        refuse_probabilities(base.logits, "audit", self.model)
        if base.cache is not None and is_bridge(self.model):
            again = self._run(self.tokens, begun=base.cache)
            if not torch.equal(again.logits, base.logits):
                base.cache.blocks.clear()
        return base

    @cached_property
    def donor(self) -> Run:
        """The run on the donors."""
        return self._run(torch.from_numpy(self.pairs.donors).to(self.tokens.device), keep=True)

    @cached_property
    def margin(self) -> Floats:
        """The margin of each item in the model's own run."""
        return self.margin_of(self.base)

    def _run(self, tokens: Tensor, edges: Sequence[Edges] = (), **how: Any) -> Run:
        return run(self.model, tokens, self.read, edges, rows=self.rows, **how)

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
        """Keys that a query of the recipient gives any weight in some head [pair, query, key]."""
        return self.cache.patterns[layer].sum(1) > 0

    def loudness(self) -> Floats:
        """The larger of the two logits of each margin, by size, beside the other outputs [item]."""
        logits, each = centred(self.base.logits).cpu().numpy(), np.arange(len(self.items))
        return np.maximum(*(np.abs(logits[each, which]) for which in (self.items.answer, self.items.foil)))

    def mixed(self, places: NDArray[np.bool_]) -> Run:
        """The inputs with the donors' tokens at `places` [item, pos], which may differ where an input is read twice."""
        tokens = np.where(places, self.items.donors, self.items.tokens)
        return run(self.model, torch.from_numpy(tokens).to(self.tokens.device), self.read)

    def edited(self, edges: list[Edges], **how: Any) -> Run:
        """The run on the inputs with edges edited."""
        return self._run(self.tokens, edges, begun=self.cache, **how)

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

    def lives(self, last: bool) -> Tensor:
        """Places [pair, pos] of which anything can reach what is read; `last`: from the last layer."""
        if not last:
            return torch.from_numpy(np.asarray(self.pairs.upto)).to(self.read.device)
        at_read = torch.zeros(self.tokens.shape, dtype=torch.bool, device=self.read.device)
        at_read[self.rows, self.read] = True
        return at_read

    def without(self, heads: tuple[Head, ...], *, held: bool = False) -> Floats:
        """Margins with these heads mean-ablated. `held`: every norm's scale stays that of the intact run."""
        if (heads, held) not in self._made:
            done = self.edited([], ablated=self.fill(heads), frozen=self.cache if held else None)
            self._made[heads, held] = self.margin_of(done)
        return self._made[heads, held]


def _once(items: Items, causal: bool) -> tuple[Items, NDArray[np.int64]]:
    """Each input with its donor once, read at its last place; and which of them each item is.

    Of a causal model alone: what is edited or read behind a place is nothing to that place.
    """
    both = np.concatenate([items.tokens, items.donors, items.sequence[:, None]], axis=1)
    _, first, which = np.unique(both, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    if len(first) == len(items) or not causal or items.seen is not None:
        return items, np.arange(len(items))
    last = np.zeros(len(first), dtype=items.read.dtype)
    np.maximum.at(last, which, items.read)
    order = np.argsort(first)  # as the items are ordered
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return replace(items.only(first[order]), read=last[order]), place[which]


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
