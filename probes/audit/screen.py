"""Which of very many heads are tried at all: by slopes, one run with its gradient for all of them.

What an edit of a head's z does to the margin is, to first order, the slope of the margin along that z times the way
from z to what it becomes (attribution patching). To its mean, this says what the loss of the head does: in the intact
run alone, in the run with the interchange once the claimed heads say something else. The difference is what the loss of
the head adds to the interchange: the number by which partners are chosen where every head can be tried. Slopes choose
what is tried, and decide nothing.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from interp.guests import undisturbed
from probes.audit.edits import Edges, Head, Writer, differentiable, hooked, logits_at, unembedded_at, writers_of
from probes.audit.side import Side


def screened(side: Side, edges: Sequence[Edges], heads: Sequence[Head]) -> dict[Head, float]:
    """By how much the effect of `edges` on the mean margin grows with the loss of each head, to first order."""
    alone, beside = (changes(side, side.mean_of, given) for given in ((), edges))
    return {(layer, head): float(alone[layer, head] - beside[layer, head]) for layer, head in heads}


def exchanged(side: Side, heads: Sequence[Head]) -> dict[Head, float]:
    """What the mean margin loses, to first order, when a head gives all that it gives for the donor."""
    found = changes(side, lambda layer: side.donor_cache.z[layer])
    return {(layer, head): -float(found[layer, head]) for layer, head in heads}


def changes(side: Side, becomes: Callable[[int], Tensor], edges: Sequence[Edges] = ()) -> Tensor:
    """What the mean margin gains, to first order, when one head's z is what `becomes` gives of its layer [layer, head].

    `becomes(layer)`: [pos, head, d_head] or [item, pos, head, d_head]; `edges` are edited in all of it.
    """
    model, layers = side.model, range(side.model.cfg.n_layers)
    slots: dict[int, tuple[Tensor, Tensor]] = {}  # by layer: z as it is, and what is added to it

    def opened(layer: int, write: Writer | None) -> Writer:
        def with_slot(z: Tensor) -> Tensor:
            written = None if write is None else write(z)
            z = z if written is None else written
            slots[layer] = z.detach(), torch.zeros_like(z).requires_grad_()
            return z + slots[layer][1]

        return with_slot

    writers = writers_of(model, side.tokens, edges)
    names = {layer: f"blocks.{layer}.attn.hook_z" for layer in layers}
    writers |= {name: opened(layer, writers.get(name)) for layer, name in names.items()}
    with undisturbed(model), torch.inference_mode(False), torch.enable_grad(), differentiable(model):
        with hooked(model, writers), unembedded_at(model, side.rows, side.read):
            at_read = logits_at(model(side.tokens.clone()), side.rows, side.read)
        each = torch.arange(len(side.items), device=at_read.device)
        answer, foil = (torch.from_numpy(which).to(at_read.device) for which in (side.items.answer, side.items.foil))
        margin = at_read[each, answer] - at_read[each, foil]
        slopes = torch.autograd.grad(margin.mean(), [slots[layer][1] for layer in layers], allow_unused=True)
    out = torch.zeros(len(layers), model.cfg.n_heads, dtype=torch.float64)
    for layer, slope in zip(layers, slopes, strict=True):
        if slope is not None:
            out[layer] = (slope * (becomes(layer) - slots[layer][0])).sum((0, 1, 3)).double().cpu()
    return out
