"""Masks that keep as much of the random network as a ticket does, without looking for anything."""

from collections.abc import Callable

import numpy as np

from interp.rng import generator
from probes.lottery.subset_sum import Mask
from probes.lottery.ticket import MATRICES, Ticket

Masks = dict[str, Mask]
PAIRS = (("attn.W_Q", "attn.W_K"), ("mlp.W_in", "mlp.W_hid_1"), ("mlp.W_hid_2", "mlp.W_out"))


def magnitude(ticket: Ticket, seed: int) -> Masks:
    """The largest weights of each matrix, as many as the ticket keeps of it."""
    out = {}
    for name, mask in ticket.masks.items():
        size = np.abs(ticket.random[name]).ravel()
        kept = np.argpartition(-size, max(0, int(mask.sum()) - 1))[: int(mask.sum())]
        out[name] = _flat(mask.shape, kept)
    return out


def magnitude_overall(ticket: Ticket, seed: int) -> Masks:
    """The largest weights of the whole network: of uniform weights the same share of every matrix."""
    total = sum(int(m.sum()) for m in ticket.masks.values())
    sizes = np.concatenate([np.abs(w).ravel() for w in ticket.random.values()])
    kept = _flat(sizes.shape, np.argpartition(-sizes, total - 1)[:total])
    ends = np.cumsum([w.size for w in ticket.random.values()])
    parts = np.split(kept, ends[:-1])
    return {name: part.reshape(w.shape) for (name, w), part in zip(ticket.random.items(), parts, strict=True)}


def random_masks(ticket: Ticket, seed: int) -> Masks:
    """As many entries of each matrix, anywhere."""
    out = {}
    for name, mask in ticket.masks.items():
        source = generator(seed, f"lottery/random/{name}")
        out[name] = _flat(mask.shape, source.choice(mask.size, int(mask.sum()), replace=False))
    return out


def shuffled_subsets(ticket: Ticket, seed: int) -> Masks:
    """The ticket's own units and numbers of kept entries, but each subset drawn anew among its candidates.

    Values stay as they are: what is lost is which subset was taken, and nothing else.
    """
    out = dict(ticket.masks)
    busy = {at for w in ticket.working for at in (w - 1, w)} | set(ticket.idle)
    for at in sorted(busy):
        for first, second in PAIRS:
            names = f"blocks.{at}.{first}", f"blocks.{at}.{second}"
            if second == "attn.W_K" and at not in ticket.working:
                continue
            turn = second == "attn.W_K"
            opened = ticket.masks[names[0]]
            read = ticket.masks[names[1]][0].T if turn else ticket.masks[names[1]]
            new = _reshuffled(opened[0] if turn else opened, read, ticket, names[0], seed)
            out[names[1]] = new.T[None] if turn else new
    return out


def _reshuffled(opened: Mask, read: Mask, ticket: Ticket, name: str, seed: int) -> Mask:
    """`read` [units, out] with each column permuted among the units that serve one input with one sign."""
    source = generator(seed, f"lottery/shuffled/{name}")
    weight = ticket.random[name].reshape(opened.shape)
    owner = opened.argmax(axis=0)
    sign = np.take_along_axis(weight, owner[None], axis=0)[0] > 0
    new = np.zeros_like(read)
    columns = np.flatnonzero(read.any(axis=0))
    used = opened.any(axis=0)
    for j, s in sorted(set(zip(owner[used].tolist(), sign[used].tolist(), strict=True))):
        units = np.flatnonzero(used & (owner == j) & (sign == s))
        new[np.ix_(units, columns)] = source.permuted(read[np.ix_(units, columns)], axis=0)
    return new


def _flat(shape: tuple[int, ...], kept: np.ndarray) -> Mask:
    mask = np.zeros(int(np.prod(shape)), dtype=bool)
    mask[kept] = True
    return mask.reshape(shape)


CONTROLS: dict[str, Callable[[Ticket, int], Masks]] = {
    "largest of each matrix": magnitude,
    "largest of the network": magnitude_overall,
    "random entries": random_masks,
    "random subsets": shuffled_subsets,
}
assert len(MATRICES) == 7  # PAIRS and the values are all of them
