"""What one would use instead: a loop over native TransformerLens models, and a plain PyTorch module."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from interp.config import TransformerConfig
from interp.model import SandboxTransformer
from interp.presets import Recipe
from interp.training.layout import IGNORE
from interp.worlds.dyck.task import data_source


def padded(recipe: Recipe, seed: int, steps: range) -> tuple[Tensor, Tensor]:
    """The strings of our packed batches, one per row and padded: inputs, targets [steps, batch, width]."""
    source = data_source(recipe)
    layout = source.layout()
    inputs, targets = source.draw(seed, steps)
    width = int(layout.capacity.max()) + 1
    shape = (len(steps), recipe.settings.batch, width)
    x, y = np.full(shape, recipe.grammar.pad), np.full(shape, IGNORE)
    flat_x, flat_y = inputs.reshape(len(steps), -1), targets.reshape(len(steps), -1)
    for i, (begin, size) in enumerate(zip(layout.start, layout.capacity + 1, strict=True)):
        x[:, i, :size], y[:, i, :size] = flat_x[:, begin : begin + size], flat_y[:, begin : begin + size]
    return torch.from_numpy(x), torch.from_numpy(y)


def native_model(recipe: Recipe, seed: int, device: str) -> Any:
    """`TransformerBridge.boot_native` with our initial weights; positions that ours learn are learned.

    A linear position is one of its own for each place there: as much work, and a few weights more.
    """
    c = recipe.config
    config = TransformerBridgeConfig(
        d_model=c.d_model,
        d_head=c.d_head,
        n_heads=c.n_heads,
        n_layers=c.n_layers,
        n_ctx=c.n_ctx,
        d_vocab=c.d_vocab,
        d_vocab_out=c.d_out,
        d_mlp=c.d_mlp,
        attn_only=c.mlp_depth == 0,
        act_fn="gelu_new",
        normalization_type="LN",
    )
    first = SandboxTransformer.init(c, seed).state_dict()
    state = {"pos_embed.W_pos": torch.zeros(c.n_ctx, c.d_model), **first}
    state.pop("pos_embed.w_pos", None)  # the direction of linear positions
    with contextlib.redirect_stdout(io.StringIO()):  # it tells where it lies
        bridge = TransformerBridge.boot_native(config).to(device)
    bridge.load_state_dict(convert_tl_checkpoint(state, config))
    for name, parameter in bridge.named_parameters():
        parameter.requires_grad_("pos_embed" not in name or c.positions != "none")
    return bridge


class PlainBlock(nn.Module):
    """A GPT-2 block as one writes it in PyTorch."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(approximate="tanh"), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, pos, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, pos, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(z.transpose(1, 2).reshape(batch, pos, width))
        return x + self.mlp(self.ln2(x))


class PlainTransformer(nn.Module):
    """The `dyck-standard` architecture without hooks."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embed = nn.Embedding(config.d_vocab, config.d_model)
        self.blocks = nn.Sequential(*(PlainBlock(config.d_model, config.n_heads) for _ in range(config.n_layers)))
        self.ln_final, self.unembed = nn.LayerNorm(config.d_model), nn.Linear(config.d_model, config.d_vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.unembed(self.ln_final(self.blocks(self.embed(tokens))))


def train_steps(model: nn.Module, inputs: Tensor, targets: Tensor, lr: float) -> None:
    """One step a batch of [steps, batch, pos], as one writes it."""
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=lr, weight_decay=0.0)
    for x, y in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORE).backward()
        optimizer.step()


def multiplications(config: TransformerConfig, rows: int, width: int) -> float:
    """Floating-point operations of the products of one training step: 2 a multiplication, backwards twice forwards."""
    positions = rows * width
    d, e, m = config.d_model, config.n_heads * config.d_head, config.d_mlp
    layer = 4 * positions * d * e + 2 * positions * width * e + 2 * positions * d * m
    return 6.0 * (config.n_layers * layer + positions * config.d_final * config.d_out)


def chunked(seeds: int, size: int) -> Iterator[tuple[int, ...]]:
    """Seeds as `train_population` splits them."""
    for begin in range(0, seeds, size):
        yield tuple(range(begin, min(begin + size, seeds)))
