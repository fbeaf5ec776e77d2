"""Whether a model uses what a head reads along the claimed edges.

The primary edit is a value interchange: at every claimed edge the pattern stays, and the value is that of the minimal
pair's donor. e is the change of the margin, less what a sham of the same size does, as a share of the intact margin.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.rng import generator
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.edits import Cache, Edges, Head, is_pattern_times_values, reaches_output
from probes.audit.effects import Effects
from probes.audit.inputs import Inputs
from probes.audit.partners import candidates, company_change, find_company, find_partners, idle_heads
from probes.audit.pattern import Asked
from probes.audit.side import Side
from probes.audit.stats import Floats, low, ratio
from probes.audit.tasks import Items, Task

DRAWS = 6  # tries to find two sham values that differ
CAN_BE_NOTHING = ("total", "raw", "with_partners", "raw_with_partners", "in_company")


class Used:
    """One model's use of its heads for one task."""

    def __init__(self, model: Any, inputs: Inputs, task: Task, level: float, seed: int):
        self.model, self.inputs, self.task, self.level, self.seed = model, inputs, task, level, seed
        self._sides: dict[Any, Side | None] = {}
        self._dead: dict[int, str | None] = {}
        self._every: dict[Any, Estimate] = {}

    def side(self, asked: Asked, half: str) -> Side | None:
        """Items of half "a" or "b" in the rows a claim is about; None where there are fewer than two."""
        when = asked.claim.when
        # Rows differ between relations only through a condition that asks for the relation's keys.
        # Donors that are other inputs are chosen to have the claimed keys where the input itself has them.
        on_keys = getattr(self.task, "items_on", None)
        key = (half, when, asked.claim.relation if when or on_keys else None)
        if key not in self._sides:
            rows = np.zeros(self.inputs.tokens.shape, dtype=bool)
            rows[self.inputs.half_a if half == "a" else self.inputs.half_b] = True
            if when is not None:
                rows &= when.rows(self.inputs.tokens, self.inputs.grammar, asked.keys)
            about = self.inputs.tokens, self.inputs.grammar, rows, self.seed
            items = self.task.items(*about) if on_keys is None else on_keys(*about, asked.keys)
            self._sides[key] = Side(self.model, items, self.level) if len(items) > 1 else None
        return self._sides[key]

    def dead(self, side: Side, layer: int) -> str | None:
        """Why an edit of this layer proves nothing, or None."""
        if layer not in self._dead:
            reason = None
            if not is_pattern_times_values(side.cache, layer):
                reason = f"hook_z of layer {layer} is not pattern times values"
            elif not reaches_output(self.model, side.tokens, layer):
                reason = f"what is written to hook_z of layer {layer} does not reach the output"
            self._dead[layer] = reason
        return self._dead[layer]

    def effects(self, asked: Asked, heads: tuple[Head, ...]) -> Effects | None:
        """All edits of one claim; None without items."""
        side = self.side(asked, "b")
        if side is None:
            return None
        units = side.by_unit(np.ones(len(side.items)))
        margin = ratio(side.by_unit(side.margin), units, self.level)
        found = Effects(len(units), margin, dead=self._dead_heads(side, heads))
        if not np.isfinite(side.margin).all():
            return replace(found, dead="the logit of an answer or a foil is not finite")
        keys = self._keys(asked, side)
        upto = side.items.upto
        attended = np.asarray((keys.cpu().numpy() & upto[..., None]).any(1))  # [item, key]: a claimed edge reads it
        moved = side.donor if side.items.flipped is not None else side.mixed(attended)
        token: Floats = side.margin - side.margin_of(moved)
        loudness = side.loudness()
        found = replace(
            found,
            output_change=output_change(side.base.logits),
            answer_change=float(np.divide(np.abs(token), loudness, np.zeros_like(token), where=loudness > 0).max()),
            aimed=float((attended & side.items.decisive).any(1).mean()),
            paired=side.items.flipped is not None,
            silent=bool((np.abs(token) <= t.EXACT * loudness).all()),
            still=is_still(side.base.logits),
        )
        if found.dead or found.still or not found.margin.value or found.margin.value <= 0:
            return found
        found = replace(found, token=side.share(token), every=self._all_heads(asked, side, keys))
        if not found.powerful:
            return found
        return self._measure(found, asked, side, keys, heads)

    # -- inside ---------------------------------------------------------------------------------------

    def _dead_heads(self, side: Side, heads: tuple[Head, ...]) -> str | None:
        reasons = (self.dead(side, layer) for layer in sorted({layer for layer, _ in heads}))
        return next((reason for reason in reasons if reason), None)

    def _keys(self, asked: Asked, side: Side) -> Tensor:
        return torch.from_numpy(asked.keys[side.items.sequence]).to(side.tokens.device)

    def _all_heads(self, asked: Asked, side: Side, keys: Tensor) -> Estimate:
        key = (asked.claim.relation, asked.claim.when)
        if key not in self._every:
            cfg = self.model.cfg
            every = tuple((layer, head) for layer in range(cfg.n_layers) for head in range(cfg.n_heads))
            done = side.edited(interchange(side.donor_cache, keys, every))
            self._every[key] = side.share(side.margin - side.margin_of(done))
        return self._every[key]

    def _measure(self, found: Effects, asked: Asked, side: Side, keys: Tensor, heads: tuple[Head, ...]) -> Effects:
        swap = interchange(side.donor_cache, keys, heads)
        done = side.edited(swap)
        raw = side.margin - side.margin_of(done)
        shams = self._shams(asked, side, keys, heads)
        sham = np.mean([side.margin - side.margin_of(side.edited(one)) for one in shams], axis=0)
        frozen = [side.margin - side.margin_of(side.edited(e, frozen=side.cache)) for e in (swap, *shams)]
        fills = self._fills(side, keys, heads)
        filled = side.margin - side.margin_of(side.edited(fills))
        natural = np.quantile(side.base.norm.cpu().numpy(), t.NATURAL)
        norm = done.norm.cpu().numpy()
        found = replace(
            found,
            total=side.share(raw - sham),
            raw=side.share(raw),
            sham=side.share(sham),
            direct=side.share(frozen[0] - (frozen[1] + frozen[2]) / 2),
            fill=side.share(filled),
            unnatural=float(((norm < natural[0]) | (norm > natural[1])).mean()),
        )
        # Later parts may make up for the loss of the mean as they do for an exchange.
        if found.direct and low(found.direct) >= t.USED and not found.used_whole:
            changed = side.margin - side.margin_of(side.edited(fills, frozen=side.cache))
            found = replace(found, direct_fill=side.share(changed))
        found = self._among_others(found, asked, side, keys, heads, swap, shams)
        if len(heads) > 1:
            idle = idle_heads(side, lambda group: interchange(side.donor_cache, keys, group), heads)
            alone = [(head, self.effects(asked, (head,))) for head in idle]
            found = replace(found, idle=tuple((head, e) for head, e in alone if e is not None))
        shown = {name: getattr(found, name) for name in CAN_BE_NOTHING}
        return replace(found, nothing=frozenset(n for n, e in shown.items() if e is not None and side.nothing(e)))

    def _among_others(
        self, found: Effects, asked: Asked, side: Side, keys: Tensor, heads: tuple[Head, ...], swap: list[Edges],
        shams: list[list[Edges]],
    ) -> Effects:  # fmt: skip
        """With partners ablated, and, where nothing shows any use so far, in company."""
        search = self.side(asked, "a")
        if search is None:
            return found
        others = candidates(search, heads)

        def swap_in(part: Side) -> list[Edges]:
            return interchange(part.donor_cache, self._keys(asked, part), heads)

        partners = find_partners(search, swap_in, others, self.seed)
        if partners:
            ablated, rest = side.fill(partners), side.without(partners)
            change = rest - side.margin_of(side.edited(swap, ablated=ablated))
            control = np.mean([rest - side.margin_of(side.edited(one, ablated=ablated)) for one in shams], axis=0)
            net, whole = side.share(change - control), side.share(change)
            found = replace(found, partners=partners, with_partners=net, raw_with_partners=whole)
        if found.with_partners is not None and low(found.with_partners) >= t.USED:
            rest = side.without(partners, held=True)
            held = [rest - side.margin_of(side.edited(e, ablated=ablated, frozen=side.cache)) for e in (swap, *shams)]
            return replace(found, held_with_partners=side.share(held[0] - (held[1] + held[2]) / 2))
        if found.total is not None and found.direct is not None and max(low(found.total), low(found.direct)) < t.USED:
            company = find_company(search, swap_in, others, self.seed)
            if company:
                effect = side.share(company_change(side, swap, company))
                found = replace(found, company=company, in_company=effect)
        return found

    def _shams(self, asked: Asked, side: Side, keys: Tensor, heads: tuple[Head, ...]) -> list[list[Edges]]:
        """Edits as large as the interchange on the same edges, in directions off the relation, and their opposites.

        Each key's value moves by the norm that the interchange moves it by, along the difference of the values of two
        keys of its class that the relation leaves out at the read position. Both signs: what is left of their mean is
        the damage that any change of this size does, and not a lucky or unlucky answer.
        """
        pairs = sham_pairs(side.items, self.inputs.roles[side.items.sequence], keys.cpu().numpy(), self.seed)
        out: list[list[Edges]] = [[], []]
        for layer in sorted({layer for layer, _ in heads}):
            v, donor = side.cache.v[layer], side.donor_cache.v[layer]
            size = (donor - v).norm(dim=-1, keepdim=True)
            direction = torch.zeros_like(v)
            for one, other in pairs:
                difference = v[one] - v[other]
                norm = difference.norm(dim=-1, keepdim=True)
                usual = v.norm(dim=-1, keepdim=True).amax((0, 1), keepdim=True)  # of each head
                new = (direction.norm(dim=-1, keepdim=True) == 0) & (norm > 1e-4 * usual)
                direction = torch.where(new, difference / norm.clamp(min=1e-12), direction)
            mine = tuple(head for at, head in heads if at == layer)
            for edges, sign in zip(out, (1.0, -1.0), strict=True):
                edges.append(Edges(layer, mine, keys, shift=sign * size * direction))
        return out

    def _fills(self, side: Side, keys: Tensor, heads: tuple[Head, ...]) -> list[Edges]:
        """The claimed edges' values replaced by their mean over edges: all that varies is lost, not just the type."""
        times = keys.sum(1).to(side.cache.v[0].dtype)[..., None, None]  # how many claimed edges read each key
        out = []
        for layer in sorted({layer for layer, _ in heads}):
            v = side.cache.v[layer]
            mean = (v * times).sum((0, 1)) / times.sum()
            mine = tuple(head for at, head in heads if at == layer)
            out.append(Edges(layer, mine, keys, values=mean.expand_as(v)))
        return out


def interchange(donor: Cache, keys: Tensor, heads: tuple[Head, ...]) -> list[Edges]:
    """Edges on which the heads read the donor's values."""
    layers = sorted({layer for layer, _ in heads})
    return [
        Edges(layer, tuple(head for at, head in heads if at == layer), keys, values=donor.v[layer]) for layer in layers
    ]


def is_still(logits: Tensor) -> bool:
    """Whether no output [item, d_out] changes from item to item, each by its own size.

    An output far larger than the others (a masked logit of -1e9, say) must not hide what they do, nor may rounding in
    one near 0 count: outputs smaller than the usual one are held to that one's size.
    """
    found = _changes(logits)
    return found is not None and bool((found[0] <= t.EXACT * found[1]).all())


def output_change(logits: Tensor) -> float:
    """The largest change that `is_still` looks at, as a share of the size that it is held to; 0 without any output."""
    found = _changes(logits)
    if found is None:
        return 0.0
    change, size = found
    return float(torch.where(size > 0, change / size.clamp(min=torch.finfo(size.dtype).tiny), change).max())


def _changes(logits: Tensor) -> tuple[Tensor, Tensor] | None:
    """The largest change of each finite output [d_out] from item to item, and the size that it is held to."""
    finite = logits[:, torch.isfinite(logits).all(0)]
    if finite.shape[1] == 0:
        return None
    size = finite.abs().amax(0)
    usual = size.sort().values[(len(size) - 1) // 2]
    return (finite - finite[:1]).abs().amax(0), torch.maximum(size, usual)


def sham_pairs(
    items: Items, roles: NDArray[np.int64], keys: NDArray[np.bool_], seed: int
) -> list[tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """For every key of every item two keys (item, pos) of its class, off the relation where that class has such.

    Several draws: two values may be the same, and then give no direction.
    """
    count, width = roles.shape
    each = np.arange(count)
    upto = items.upto
    off = upto & ~keys[each, items.read]
    rng = generator(seed, "audit/sham")
    out = []
    for _ in range(DRAWS):
        ends = []
        for _ in range(2):
            rows, columns = np.zeros((2, count, width), dtype=np.int64)
            for role in np.unique(roles):
                pool = np.argwhere(off & (roles == role))
                if len(pool) < 2:
                    pool = np.argwhere(upto & (roles == role))
                place = roles == role
                if len(pool):
                    drawn = pool[rng.integers(0, len(pool), int(place.sum()))]
                    rows[place], columns[place] = drawn.T
            ends.append((torch.from_numpy(rows), torch.from_numpy(columns)))
        out.append((ends[0], ends[1]))
    return out
