"""Flip-flop readers whose weights are set by hand: Proposition 3 and Lemma 16 of B. Liu's thesis (2024).

Both are said there with hard attention and a rounding MLP; here attention is soft, and sharp enough that what the
MLP rounds is right by a wide margin. Positions count from 0. Where the thesis applies the MLP to what the attention
gives, our blocks add it to the stream; each is written so that the stream comes out the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from interp.checks import given_or_default
from interp.config import TransformerConfig
from interp.errors import RequestError, quoted
from interp.model import SandboxTransformer
from interp.recipe import num_labels
from interp.torch_modes import ordinary_torch
from interp.worlds.flipflop.grammar import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.recipes import CONSTRUCTED

STEP = 40.0  # score of one position of recency; the least lead of the right key is half of it
SURE = 30.0  # logits of the right and the wrong bit lie so far apart, and of what is no bit twice as far


def reader(grammar: FlipFlopGrammar | None = None, *, n_ctx: int = 512) -> SandboxTransformer:
    """Proposition 3: two layers of one head, d = 7, answer every read of FFL, up to `n_ctx` tokens."""
    # PROOF. Stream: e1 "is w", e2 "is r or i", e3 "is 0", e4 "is 1", e5 constant 1, e6 position / n_ctx, e7 flag.
    #
    # Layer 1. W_Q = [e5 e5], W_K = STEP n_ctx [3/(2 n_ctx) e1, e6]: position j scores STEP (1.5 [x_j = w] + j).
    # Among j <= i the highest is i - 1 if x_{i-1} = w (i - 1 + 1.5, against i), else i (against i - 1, and i - 2 + 1.5
    # for a w two before): the lead is STEP / 2 at least, and all others have together less than
    # e^-20 + sum_k e^{-40 k} < 1e-8. W_V = e1, W_O = e7: the flag is 1 at w and right after it, up to 1e-8, else 0.
    # The MLP rounds it: y -> clamp(2 y - 1/2, 0, 1).
    #
    # Layer 2. W_Q = [e5 e5], W_K = STEP n_ctx [e7, e6]: position j scores STEP (n_ctx [flag_j] + j). j < n_ctx, so the
    # latest flagged position is the highest, by STEP at least. At a read that is the bit of the last write, for its w
    # stands one before. W_V = e4, W_O = e1: at r, where e1 was 0, it becomes "the written bit is 1", up to 1e-8. The
    # MLP rounds it.
    #
    # Rounding: scores are 2 STEP n_ctx at most, 4e4 for n_ctx = 512, and err by 3 parts in 1e3 in float32.
    grammar = given_or_default("grammar", grammar, FlipFlopGrammar)
    model = _model(grammar, "constructed/flipflop-reader", n_layers=2, d_model=7, n_ctx=n_ctx)
    e = np.eye(7)
    embedding = np.array([e[0], e[1], e[1], e[2], e[3]]) + e[4]  # w, r, i, 0, 1
    _set(model.embed.W_E, embedding)
    _set(model.pos_embed.w_pos, e[5])
    for block, boost, key, value, to in ((model.blocks[0], 1.5, 0, 0, 6), (model.blocks[1], n_ctx, 6, 3, 0)):
        _set(block.attn.W_Q, np.stack([e[4], e[4]], axis=1)[None])
        _set(block.attn.W_K, STEP * np.stack([boost * e[key], n_ctx * e[5]], axis=1)[None])
        _set(block.attn.W_V, np.stack([e[value], 0 * e[0]], axis=1)[None])
        _set(block.attn.W_O, np.stack([e[to], 0 * e[0]])[None])
        _round(block.mlp, to)
    _say(model, np.array([0.0, 0.0, 0.0, -1.0, 1.0]), np.array([-1.5, -1.5, -1.5, 0.5, -0.5]))
    return model


def memory(grammar: TransductionGrammar | None = None, *, n_ctx: int = 512) -> SandboxTransformer:
    """Lemma 16 for two states and q_0 = 0: one layer of one head, d = 4, tells the state after every token.

    Also after no-ops that no write precedes, where the state is q_0: strings that the grammar does not have.
    """
    # PROOF. Stream: e1 the value (a no-op carries q_0 = 0), e2 "is a no-op", e3 position / n_ctx, e4 constant 1.
    # W_Q = [-2 e4, e4], W_K = STEP n_ctx [e2, e3]: position j scores STEP (j - 2 n_ctx [x_j is a no-op]): the latest
    # write is the highest, by STEP at least, and without one the latest no-op. W_V = W_O = e1: a no-op's e1 becomes
    # the value of the last write, a write's twice its own. The MLP maps y to clamp(2 y - 1/2, 0, 1), right for 0, 1, 2.
    # (The printed score has -1 in the place of -2, which its matrices give; both are right.)
    grammar = given_or_default("grammar", grammar, TransductionGrammar)
    model = _model(grammar, "constructed/flipflop-memory", n_layers=1, d_model=4, n_ctx=n_ctx)
    e = np.eye(4)
    _set(model.embed.W_E, np.array([e[1], 0 * e[0], e[0]]) + e[3])  # no-op, write 0, write 1
    _set(model.pos_embed.w_pos, e[2])
    attention: Any = model.blocks[0].attn
    _set(attention.W_Q, np.stack([-2 * e[3], e[3]], axis=1)[None])
    _set(attention.W_K, STEP * n_ctx * np.stack([e[1], e[2]], axis=1)[None])
    _set(attention.W_V, np.stack([e[0], 0 * e[0]], axis=1)[None])
    _set(attention.W_O, np.stack([e[0], 0 * e[0]])[None])
    _round(model.blocks[0].mlp, 0)
    _say(model, np.array([-1.0, 1.0]), np.array([0.5, -0.5]))
    return model


def _model(grammar: Any, name: str, *, n_layers: int, d_model: int, n_ctx: int) -> SandboxTransformer:
    """No norms, scores as they are, linear positions; 3 hidden units, which round one coordinate."""
    config = TransformerConfig(
        grammar.vocab_size,
        n_layers,
        d_model=d_model,
        d_head=2,
        d_mlp=3,
        n_ctx=n_ctx,
        positions="linear",
        norm="none",
        activation="relu",
        scale_scores=False,
        d_vocab_out=num_labels(grammar),
        class_names=getattr(grammar, "label_names", None),
    )
    told = {
        "name": name,
        "trained": False,
        "constructed": True,
        "about": CONSTRUCTED[name],
        "seed": 0,
        "proven_length": n_ctx,
    }
    return SandboxTransformer(config, grammar, told)


def _round(mlp: Any, coordinate: int) -> None:
    """Adds clamp(2 y - 1/2, 0, 1) - y to a coordinate y >= 0, and nothing to others."""
    width = mlp.W_in.shape[0]
    unit = np.eye(width)[coordinate]
    _set(mlp.W_in, np.stack([2 * unit, 2 * unit, unit], axis=1))
    _set(mlp.b_in, np.array([-0.5, -1.5, 0.0]))
    _set(mlp.W_out, np.array([1.0, -1.0, -1.0])[:, None] * unit)


def _say(model: SandboxTransformer, weight: Any, bias: Any) -> None:
    """Logits SURE (weight y + bias), of y in the first coordinate."""
    unembedding = np.zeros((model.config.d_model, model.config.d_out))
    unembedding[0] = SURE * weight
    _set(model.unembed.W_U, unembedding)
    _set(model.unembed.b_U, SURE * bias)


def _set(parameter: Tensor | nn.Module, value: ArrayLike) -> None:
    assert isinstance(parameter, Tensor)
    with torch.no_grad():
        given = torch.as_tensor(np.asarray(value), dtype=parameter.dtype)
        assert given.shape == parameter.shape, (given.shape, parameter.shape)
        parameter.copy_(given)


_BUILDERS: dict[str, Callable[[], SandboxTransformer]] = {
    "constructed/flipflop-reader": reader,
    "constructed/flipflop-memory": memory,
}


@ordinary_torch()
def construct(name: str) -> SandboxTransformer:
    """The constructed model of that name, for the default grammar. Raises `RequestError` if there is none."""
    if name not in _BUILDERS:
        raise RequestError(f"no constructed model {quoted(name)}; there are {', '.join(_BUILDERS)}")
    return _BUILDERS[name]()
