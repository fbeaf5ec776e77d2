"""Whether a model uses what a head reads along the claimed edges.

The primary edit is a value interchange: at every claimed edge the pattern stays, and the value is that of the minimal
pair's donor. e is the change of the margin, less what a sham of the same size does, as a share of the intact margin.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.rng import generator
from interp.stats import Estimate
from probes import _audit_thresholds as t
from probes._audit_edits import Cache, Edges, Head, Run, is_pattern_times_values, reaches_output, run
from probes._audit_inputs import Inputs
from probes._audit_pattern import Asked
from probes._audit_stats import Floats, low, ratio
from probes._audit_tasks import Items, Task

DRAWS = 6  # tries to find two sham values that differ


@dataclass(frozen=True)
class Effects:
    """What the edits of one claim do; shares of the intact margin, over items of half B.

    - `margin`: intact, in logits. The rest is None where the margin is not positive or an edit is dead.
    - `total`, `sham`, `raw`: net effect of the interchange, that of the sham, and the two added up.
    - `direct`: the net effect with later patterns and norm scales frozen.
    - `fill`: the same edges' values replaced by their mean; `direct_fill`: that, frozen, where use rests on `direct`.
    - `every`: the interchange in all heads at once; `token`: the donor's token itself.
    - `aimed`: share of items whose claimed edges ever read a token that the donor changes.
    - `paired`: donors are minimal pairs. Else they are other inputs, and `token` exchanges what the claimed edges read.
    - `partners`, `with_partners`: the set found in half A, and the net effect in half B once it is ablated;
      `raw_with_partners`: that without the sham taken off.
    - `unnatural`: share of items whose last residual norm leaves the natural range.
    - `still`: the output is exactly the same whatever is read; `silent`: the answer does not move at all, not in the
      last bit, when the token itself is exchanged.
    - `dead`: why no edit can be trusted, or None.
    """

    items: int
    margin: Estimate
    total: Estimate | None = None
    raw: Estimate | None = None
    sham: Estimate | None = None
    direct: Estimate | None = None
    fill: Estimate | None = None
    direct_fill: Estimate | None = None
    every: Estimate | None = None
    token: Estimate | None = None
    aimed: float = 0.0
    paired: bool = True
    partners: tuple[Head, ...] = ()
    with_partners: Estimate | None = None
    raw_with_partners: Estimate | None = None
    unnatural: float = 0.0
    still: bool = False
    silent: bool = False
    dead: str | None = None

    @property
    def aims(self) -> bool:
        """Whether the claimed edges read the token that the donor changes, in most items."""
        return self.aimed >= 0.5

    @property
    def powerful(self) -> bool:
        """Whether an edit that moves nothing means something."""
        every, token = ((x.value or 0.0) if x else 0.0 for x in (self.every, self.token))
        return every >= t.POWER or (self.aims and token >= t.POWER)


@dataclass
class Side:
    """One half's items and the model's runs on them, shared by all claims about the same rows."""

    model: Any
    items: Items
    level: float
    tokens: Tensor = field(init=False)
    read: Tensor = field(init=False)
    base: Run = field(init=False)
    donor: Run = field(init=False)
    margin: Floats = field(init=False)
    _made: dict[Any, Floats] = field(default_factory=dict)
    _means: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        device = self.model.cfg.device
        self.tokens = torch.from_numpy(self.items.tokens).to(device)
        self.read = torch.from_numpy(self.items.read).to(device)
        self.base = run(self.model, self.tokens, self.read, keep=True)
        self.donor = run(self.model, torch.from_numpy(self.items.donors).to(device), self.read, keep=True)
        self.margin = self.margin_of(self.base)

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

    def mixed(self, places: NDArray[np.bool_]) -> Run:
        """The inputs with the donors' tokens at `places` [item, pos]."""
        tokens = np.where(places, self.items.donors, self.items.tokens)
        return run(self.model, torch.from_numpy(tokens).to(self.tokens.device), self.read)

    def edited(self, edges: list[Edges], **how: Any) -> Run:
        return run(self.model, self.tokens, self.read, edges, **how)

    def share(self, change: Floats) -> Estimate:
        """Mean change of the margin as a share of the intact one."""
        return ratio(change, self.margin, self.level)

    def fill(self, heads: tuple[Head, ...]) -> dict[Head, Tensor]:
        """Each head's z, averaged over the positions up to those read: what an ablated head gives."""
        if not self._means:
            upto = torch.from_numpy(self.items.upto).to(self.read.device)
            weight = upto.to(self.cache.z[0].dtype)[..., None, None]
            self._means.extend((z * weight).sum((0, 1)) / weight.sum() for z in self.cache.z)
        return {(layer, head): self._means[layer][head] for layer, head in heads}

    def without(self, heads: tuple[Head, ...], *, held: bool = False) -> Floats:
        """Margins with these heads mean-ablated. `held`: every norm's scale stays that of the intact run."""
        if (heads, held) not in self._made:
            done = self.edited([], ablated=self.fill(heads), frozen=self.cache if held else None)
            self._made[heads, held] = self.margin_of(done)
        return self._made[heads, held]


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
        n = len(side.items)
        found = Effects(n, ratio(side.margin, np.ones(n), self.level), dead=self._dead_heads(side, heads))
        keys = self._keys(asked, side)
        upto = side.items.upto
        attended = np.asarray((keys.cpu().numpy() & upto[..., None]).any(1))  # [item, key]: a claimed edge reads it
        moved = side.donor if side.items.flipped is not None else side.mixed(attended)
        token: Floats = side.margin - side.margin_of(moved)
        logits = side.base.logits
        loudest = float(logits.abs().max())
        found = replace(
            found,
            aimed=float((attended & side.items.decisive).any(1).mean()),
            paired=side.items.flipped is not None,
            silent=bool(np.abs(token).max() <= t.EXACT * loudest),
            still=bool((logits - logits[:1]).abs().max() <= t.EXACT * loudest),
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
        if found.direct and found.total and low(found.direct) >= t.USED > low(found.total):
            changed = side.margin - side.margin_of(side.edited(fills, frozen=side.cache))
            found = replace(found, direct_fill=side.share(changed))
        partners = self._partners(asked, heads)
        if not partners:
            return found
        ablated, rest = side.fill(partners), side.without(partners)
        change = rest - side.margin_of(side.edited(swap, ablated=ablated))
        control = np.mean([rest - side.margin_of(side.edited(one, ablated=ablated)) for one in shams], axis=0)
        net, whole = side.share(change - control), side.share(change)
        return replace(found, partners=partners, with_partners=net, raw_with_partners=whole)

    def _partners(self, asked: Asked, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """The heads whose ablation makes the claimed ones matter most, in half A: found by function, not by look.

        A partner stands in for the claimed heads. One whose loss, norms held, makes the model surer of the right answer
        works against them: what they write, it takes away again, and to be taken away is no use.
        """
        side = self.side(asked, "a")
        cfg = self.model.cfg
        others = [(layer, h) for layer in range(cfg.n_layers) for h in range(cfg.n_heads) if (layer, h) not in heads]
        if side is None or not others or side.margin.mean() <= 0:
            return ()
        if len(others) > t.CANDIDATES:
            others.sort(key=lambda head: -float(np.abs(side.margin - side.without((head,))).mean()))
            others = others[: t.CANDIDATES]
        swap = interchange(side.donor_cache, self._keys(asked, side), heads)
        intact = float(side.margin.mean())

        def effect(group: tuple[Head, ...]) -> float:
            done = side.edited(swap, ablated=side.fill(group))
            return float((side.without(group) - side.margin_of(done)).mean()) / intact

        chosen: tuple[Head, ...] = ()
        best, held = -np.inf, intact
        for _ in range(min(t.PARTNERS, len(others))):
            tried = sorted(((effect((*chosen, head)), head) for head in others if head not in chosen), reverse=True)
            enough = (pair for pair in tried if pair[0] >= best + t.GAIN)
            with_it = ((size, head, float(side.without((*chosen, head), held=True).mean())) for size, head in enough)
            found = next((one for one in with_it if one[2] - held <= t.UNUSED * intact), None)
            if found is None:
                break
            best, chosen, held = found[0], (*chosen, found[1]), found[2]
        return chosen

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
                new = (direction.norm(dim=-1, keepdim=True) == 0) & (norm > 1e-4 * v.norm(dim=-1).max())
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
