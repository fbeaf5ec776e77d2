"""What is exchanged between a run and its donor's: values along claimed edges, whole rows of patterns; and shams."""

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.errors import InterpError
from interp.rng import generator
from probes.audit.edits import Cache, Edges, Head
from probes.audit.inputs import Inputs
from probes.audit.pattern import Asked
from probes.audit.side import Side
from probes.audit.tasks import Items


class Seen(Protocol):
    """What is kept of a run, by layer: patterns [batch, head, query, key] and v [batch, pos, head, d_head]."""

    @property
    def patterns(self) -> list[Tensor] | dict[int, Tensor]: ...

    @property
    def v(self) -> list[Tensor] | dict[int, Tensor]: ...


DRAWS = 6  # tries to find two sham values that differ
FAR = 100.0  # logits below the largest: exp(-104) is 0 in float32, so that such an output is never the answer


def interchange(donor: Cache, keys: Tensor, heads: tuple[Head, ...]) -> list[Edges]:
    """Edges on which the heads read the donor's values."""
    layers = sorted({layer for layer, _ in heads})
    return [
        Edges(layer, tuple(head for at, head in heads if at == layer), keys, values=donor.v[layer]) for layer in layers
    ]


def whole_rows(
    side: Side,
    keys: Tensor,
    heads: tuple[Head, ...],
    donor_values: bool,
    spared: Tensor | None = None,
    source: "Seen | None" = None,
) -> list[Edges]:
    """Edits by which heads look, at the queries of `keys`, where they look in the donor's run, or in `source`.

    `donor_values`: and read what is there. `spared` [item, query, key]: edges that stay as they are; the rest of the
    row's weight is laid out as the donor's rest is. Only keys that the recipient's query sees get any weight.
    """
    out = []
    rows = keys.any(-1)
    source = side.donor_cache if source is None else source
    for layer in sorted({layer for layer, _ in heads}):
        own, new = side.cache.patterns[layer], source.patterns[layer]
        new = new * side.sees(layer)[:, None]
        total = new.sum(-1, keepdim=True)
        new = torch.where(total > 0, new / total.clamp(min=1e-12), own)
        read = torch.ones_like(keys)
        if spared is not None:
            kept = spared[:, None]
            rest = torch.where(kept, 0.0, new)
            left, there = torch.where(kept, 0.0, own).sum(-1, keepdim=True), rest.sum(-1, keepdim=True)
            laid = torch.where(there > 1e-6, rest * left / there.clamp(min=1e-6), torch.where(kept, 0.0, own))
            new, read = torch.where(kept, own, laid), ~spared
        mine = tuple(head for at, head in heads if at == layer)
        values = source.v[layer] if donor_values else None
        out.append(Edges(layer, mine, read & rows[..., None], values=values, patterns=new, rows=rows))
    return out


def pattern_change(side: Side, keys: Tensor, heads: tuple[Head, ...]) -> float:
    """The largest change of a weight of these heads, at the queries of `keys`, from the input to its donor."""
    rows = keys.any(-1)[:, None, :, None]
    pairs = ((side.cache.patterns[layer][:, head], side.donor_cache.patterns[layer][:, head]) for layer, head in heads)
    return max(float(((own - other).abs() * rows[:, 0]).max()) for own, other in pairs)


def mean_filled(side: Side, keys: Tensor, heads: tuple[Head, ...]) -> list[Edges]:
    """Edges whose values are their mean over the edges of inputs and donors: all that varies is lost.

    Over edges that can matter: those of a query that nothing reads have no part in what the rest is used to.
    """
    out = []
    for layer in sorted({layer for layer, _ in heads}):
        v = side.cache.v[layer]
        live = keys & side.lives(layer == side.model.cfg.n_layers - 1)[..., None]
        live = live if live.any() else keys  # of heads of several layers some may have none
        times = live.sum(1).to(v.dtype)[..., None, None]  # how many of these edges read each key
        mean = ((v + side.donor_cache.v[layer]) * times).sum((0, 1)) / (2 * times.sum())
        mine = tuple(head for at, head in heads if at == layer)
        out.append(Edges(layer, mine, keys, values=mean.expand_as(v)))
    return out


def resampled(side: Side, heads: tuple[Head, ...], seed: int) -> list[Edges]:
    """Edits by which heads give, at every position, what they give on another item's donor; of its length if one is.

    The donor's, since all items may have one right answer, and only their donors another.
    """
    order = generator(seed, "audit/resampled").permutation(len(side.pairs))
    length = side.pairs.upto.sum(1)
    by_length = order[np.argsort(length[order], kind="stable")]
    other = np.empty(len(order), dtype=np.int64)
    other[by_length] = np.roll(by_length, 1)
    out = []
    for layer in sorted({layer for layer, _ in heads}):
        z = side.cache.z[layer]
        mine = tuple(head for at, head in heads if at == layer)
        none = torch.zeros(z.shape[0], z.shape[1], z.shape[1], dtype=torch.bool, device=z.device)
        out.append(Edges(layer, mine, none, add=side.donor_cache.z[layer][torch.from_numpy(other).to(z.device)] - z))
    return out


def donor_keys(asked: Asked, side: Side, inputs: Inputs) -> Tensor:
    """The claimed relation in the donors [pair, query, key]; none where it cannot be read off them."""
    visible = inputs.visible[side.pairs.sequence]
    try:
        keys = asked.claim.relation.keys(side.pairs.donors, inputs.grammar, visible)
    except InterpError:
        keys = np.zeros_like(visible)
    return torch.from_numpy(np.ascontiguousarray(keys)).to(side.tokens.device)


def seen_items(items: Items, model: Any, visible: NDArray[np.bool_]) -> Items:
    """Items that depend on what their read place sees, of `visible` [input, query, key]: of an encoder, all of it."""
    if items.seen is not None or getattr(model.cfg, "attention_dir", "causal") == "causal":
        return items
    return replace(items, seen=visible[items.sequence, items.read])


def live_items(items: Items, keys: NDArray[np.bool_], last: bool) -> tuple[Items, Items | None]:
    """The items on which claimed `keys` [input, query, key] can matter: some edge up to where it is read; the others.

    `last`: the heads are of the last layer, of which only the query that is read counts.
    """
    if not len(items):
        return items, None
    of_rows: NDArray[np.bool_] = np.asarray(keys[items.sequence].any(-1))
    at_read = of_rows[np.arange(len(items)), items.read]
    live = at_read if last else (of_rows & items.upto).any(-1)
    return (items, None) if np.all(live) else (items.only(np.flatnonzero(live)), items.only(np.flatnonzero(~live)))


def output_change(logits: Tensor) -> float:
    """The most that any finite output of `centred` logits [item, d_out] changes from item to item, each by its size.

    An output far below the others (a masked logit of -1e9, say) must not hide what they do, nor may rounding in one
    near 0 count: outputs smaller than the usual one are held to that one's size. The usual one is the median of those
    that come near the largest in some item. Infinite where none is finite.
    """
    finite = logits[:, torch.isfinite(logits).all(0)]
    if finite.shape[1] == 0:
        return math.inf
    size = finite.abs().amax(0)
    near = size[finite.amax(0) > -FAR]
    usual = (near if len(near) else size).sort().values[(max(len(near), 1) - 1) // 2]
    change, size = (finite - finite[:1]).abs().amax(0), torch.maximum(size, usual)
    return float(torch.where(size > 0, change / size.clamp(min=torch.finfo(size.dtype).tiny), change).max())


def sham_edges(
    side: Side, keys: Tensor, heads: tuple[Head, ...], roles: NDArray[np.int64], seed: int
) -> list[list[Edges]]:
    """Edits as large as the interchange on the same edges, in directions off the relation, and their opposites.

    Each key's value moves by the norm that the interchange moves it by, along the difference of the values of two
    keys of its class that the relation leaves out at the read position. Both signs: what is left of their mean is
    the damage that any change of this size does, and not a lucky or unlucky answer.
    """
    pairs = sham_pairs(side.pairs, roles[side.pairs.sequence], keys.cpu().numpy(), seed)
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
