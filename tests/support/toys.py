"""Models whose attention is written down: heads that attend as functions of tokens say."""

from types import SimpleNamespace

import numpy as np
import torch
from transformer_lens.hook_points import HookPoint
from transformer_lens.HookedRootModule import HookedRootModule

from interp.grammars import DyckGrammar
from probes.claims import BUILT_IN, Relation

GRAMMAR = DyckGrammar(2, 4)
STACK = "L0H0 attends to the last unmatched open bracket"
TYPE = (1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0)  # a value that tells the type of an open bracket


class Toy(HookedRootModule):
    """Heads that attend as functions of tokens say, each with one number a token as value, and a rule for the answer.

    `layers`: per layer its heads, (attends, value of each token). `answer(read)`: evidence for the one closer against
    the other, from what the heads write [batch, pos, head of any layer]. `attends(tokens, read)` may look at `read`.
    """

    def __init__(self, layers, answer, gains=None, extra=None, deaf=False):
        super().__init__()
        self.layers, self.answer, self.grammar, self.extra, self.deaf = layers, answer, GRAMMAR, extra, deaf
        heads = len(layers[0])
        self.gains = torch.tensor(gains or [[1.0] * heads] * len(layers), dtype=torch.float64)
        self.blocks = torch.nn.ModuleList()
        for gain in self.gains:
            block = torch.nn.Module()
            block.attn = torch.nn.Module()
            for name in ("hook_pattern", "hook_v", "hook_z"):
                setattr(block.attn, name, HookPoint())
            block.attn.W_O = gain[:, None, None]
            block.hook_resid_post = HookPoint()
            self.blocks.append(block)
        self.cfg = SimpleNamespace(n_layers=len(layers), n_heads=heads, device="cpu", d_vocab=7)
        self.setup()

    def forward(self, tokens, return_type=None):
        ids, read = tokens.numpy(), torch.zeros(*tokens.shape, 0, dtype=torch.float64)
        for heads, gain, block in zip(self.layers, self.gains, self.blocks, strict=True):
            v = torch.stack([torch.tensor(value, dtype=torch.float64)[tokens] for _, value in heads], 2)[..., None]
            v = block.attn.hook_v(v)
            shape = [np.asarray(attends(ids, read.detach().numpy()), np.float64) for attends, _ in heads]
            pattern = block.attn.hook_pattern(torch.from_numpy(np.stack(shape, 1)))
            z = (pattern @ v.transpose(1, 2)).transpose(1, 2)
            changed = block.attn.hook_z(z)
            written = (z if self.deaf else changed)[..., 0] * gain
            read = block.hook_resid_post(torch.cat([read, written], -1))
        evidence = self.answer(read)
        logits = torch.zeros(*tokens.shape, 7, dtype=torch.float64)
        logits[..., 1], logits[..., 3] = 5 * evidence, -5 * evidence
        return logits if self.extra is None else self.extra(logits, read)


def onto(name):
    """Attends evenly to a relation, and to the first key where it names none."""

    def attends(tokens, read=None):
        real = tokens != GRAMMAR.pad
        visible = np.tri(tokens.shape[1], dtype=bool) & real[:, None, :] | np.eye(tokens.shape[1], dtype=bool)
        relation = name if isinstance(name, Relation) else BUILT_IN[name]
        keys = relation.keys(tokens, GRAMMAR, visible)
        keys[..., 0] |= ~keys.any(-1)
        return keys / keys.sum(-1, keepdims=True)

    return attends


def mixed(share, first, second):
    return lambda tokens, read=None: share * first(tokens) + (1 - share) * second(tokens)


def either(rows, first, second):
    """As `first` in rows(tokens) [batch, query], as `second` elsewhere."""
    return lambda tokens, read=None: np.where(rows(tokens)[..., None], first(tokens), second(tokens))


def clip(x):
    return x.clamp(-1, 1)


TOP, EVEN = onto("stack-top"), onto("all")
