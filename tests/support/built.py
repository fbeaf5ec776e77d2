"""Models by hand whose residual stream has named coordinates, and the inputs on which they are audited."""

import numpy as np
import torch

from interp import SandboxTransformer, TransformerConfig
from interp.vocabulary import Vocabulary
from probes import audit_claim
from probes.audit import LabelledInput

NAMES = ("b0", "b1", "[START]", "[ASK]", "up", "down", *(f"f{i}" for i in range(20)))
START, ASK, UP, DOWN, FILLER = 2, 3, 4, 5, 6
CLAIM = "L0H{} uses position 1 to predict the label when the current token is [ASK]"


class Built:
    """A model without norms whose residual stream has named coordinates: the bit at position 1 is the label."""

    def __init__(self, width, more, layers=1, heads=1, **config):
        places = [f"at{i}" for i in range(width)]
        coordinates = ["bit", "ask", "one", "answer", *more, *places]
        shape = TransformerConfig(
            len(NAMES), n_layers=layers, n_heads=heads, d_model=len(coordinates), n_ctx=width, positions="learned",
            norm="none", scale_scores=False, **{"d_vocab_out": 2, "d_head": 3, "mlp_depth": 0, **config},
        )  # fmt: skip
        self.model = SandboxTransformer(shape, Vocabulary(NAMES, start=START), {"trained": True}).requires_grad_(False)
        for weights in self.model.parameters():
            weights.zero_()
        self.at = {name: i for i, name in enumerate(coordinates)}
        embed = self.model.embed.W_E
        embed[:2, self.at["bit"]] = torch.tensor([-1.0, 1.0])
        embed[ASK, self.at["ask"]] = embed[:, self.at["one"]] = 1.0
        for i, place in enumerate(places):
            self.model.pos_embed.W_pos[i, self.at[place]] = 1.0
        self.answers("answer", 1.0)

    def answers(self, coordinate, size):
        self.model.unembed.W_U[self.at[coordinate], :2] = size * torch.tensor([-1.0, 1.0])

    def head(self, layer, head, asks, keys, reads, writes):
        """Scores: `asks` (coordinate, size) times the sum of `keys`; values: `reads`; all of it to `writes`."""
        attention = self.model.blocks[layer].attn
        attention.W_Q[head, self.at[asks[0]], 0] = asks[1]
        for name, size in keys.items():
            attention.W_K[head, self.at[name], 0] = size
        for name, size in reads.items():
            attention.W_V[head, self.at[name], 0] = size
        attention.W_O[head, 0, self.at[writes[0]]] = writes[1]

    def units(self, *units, layer=0):
        """Units of the MLP: (weights by coordinate, bias, what each adds to the answer) of each."""
        (into, out), (b_in, _) = (
            [p for p in self.model.blocks[layer].mlp.parameters() if p.dim() == d] for d in (2, 1)
        )
        for unit, (weights, bias, adds) in enumerate(units):
            for name, size in weights.items():
                into[self.at[name], unit] = size
            b_in[unit], out[unit, self.at["answer"]] = bias, adds

    def logits(self, tokens, gives=None):
        """At the last position; `gives`: by (layer, head), what becomes of its z [item, pos, d_head]; by hooks of its
        own.
        """

        def writer(layer):
            def write(z, hook):
                z = z.clone()
                for (at, head), new in (gives or {}).items():
                    if at == layer:
                        z[:, :, head] = new(z[:, :, head])
                return z

            return write

        hooks = [(f"blocks.{layer}.attn.hook_z", writer(layer)) for layer in {layer for layer, _ in gives or {}}]
        return self.model.run_with_hooks(torch.from_numpy(tokens), fwd_hooks=hooks)[:, -1]

    def accuracy(self, tokens, labels, gives=None):
        """Share of the inputs whose label is the larger output."""
        return float((self.logits(tokens, gives).argmax(-1).numpy() == labels).mean())


def mean(z):
    """Of z [item, pos, d_head], the mean over items."""
    return z.mean(0, keepdim=True).expand_as(z)


def resampled(z):
    """That of another item."""
    return z[torch.randperm(len(z), generator=torch.Generator().manual_seed(0))]


def swapped(z):
    """That of the neighbour, which has the other bit."""
    return z[torch.arange(len(z)) ^ 1]


def strings(marks=False, count=600):
    """[START], a bit, two words, fillers, [ASK]: both bits as often; `marks`: the words are "up" and "down"."""
    rng = np.random.default_rng(0)
    middle = rng.permuted(np.tile([UP, DOWN], (count, 1)), axis=1) if marks else rng.integers(FILLER, 26, (count, 2))
    start, ask = np.full(count, START), np.full(count, ASK)
    return np.column_stack([start, np.arange(count) % 2, middle, rng.integers(FILLER, 26, (count, 2)), ask])


def audited(built, tokens, claim, labels=None, pairs=True, **how):
    """Labels are the bit, if not given. `pairs`: donors have the other bit; else they are other inputs."""
    labels, texts = tokens[:, 1] if labels is None else labels, [[NAMES[i] for i in row] for row in tokens]
    other = [[row[0], NAMES[NAMES.index(row[1]) ^ 1], *row[2:]] for row in texts] if pairs else []
    given = [
        LabelledInput(text, int(label), -1, *((other[at], 1 - int(label)) if pairs else ()))
        for at, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    return audit_claim(built.model, claim, given, untrained=False, **how)
