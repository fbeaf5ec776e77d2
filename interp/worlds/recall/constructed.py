"""`constructed/induction`: a two-hop induction circuit whose weights are written by hand, exact for recall.

THE STREAM has five parts. Four are one-hot: the token, its position, the token before it (written by layer 0), and
what layer 1 fetches (a symbol). One coordinate counts positions up: place / n_ctx.

LAYER 0 attends from position t to position t - 1 (score `SHARP`, others 0; position 0 sees itself alone) and writes
the token there into "the token before". START, first, is thus before itself, and no query but START asks for START.

LAYER 1 attends from a token x to positions whose token before is x: score 2R + R (place / n_ctx) where it is, and
R (place / n_ctx) where it is not, with R = `SHARP` n_ctx. Of two positions that match, the later one scores `SHARP`
more at least, and one that matches scores 2R - R > `SHARP` more than any that does not. So the weight on the right key
is at least 1 - n e^-SHARP. It writes the symbol at its key, which the unembedding turns into a logit of `CERTAIN`.

Without an earlier copy no position matches, and the last one, the query itself, is fetched: no label is there.

Rounding: scores are at most 3R = 3 SHARP n_ctx, so that in float32 they are known to 2^-22 of that; for n_ctx = 33 that
is 1e-3, beside gaps of SHARP = 40.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interp.checks import given_or_default
from interp.config import TransformerConfig
from interp.devices import real_type
from interp.errors import RequestError, quoted
from interp.model import SandboxTransformer
from interp.torch_modes import ordinary_torch
from interp.worlds.recall.grammar import RecallGrammar
from interp.worlds.recall.recipes import CONSTRUCTED

SHARP = 40.0  # least gap of scores: e^-40 = 4e-18
CERTAIN = 30.0  # logit of the answer, beside 0 of the others
NAME = "constructed/induction"


@ordinary_torch()
def construct(name: str) -> SandboxTransformer:
    """The constructed model of that name, for the default grammar. Raises `RequestError` if there is none."""
    if name != NAME:
        raise RequestError(f"no constructed model {quoted(name)}; there is {NAME}")
    return induction()


def induction(grammar: RecallGrammar | None = None, *, dtype: torch.dtype = torch.float32) -> SandboxTransformer:
    """The circuit for a grammar: 2 layers of 1 head, no norm, no MLP, no biases."""
    grammar, dtype = given_or_default("grammar", grammar, RecallGrammar), real_type(dtype)
    tokens, symbols, places = grammar.vocab_size, grammar.symbols, grammar.length + 1
    token, place, before = (slice(at, at + size) for at, size in _parts(tokens, places))
    fetched, count = slice(before.stop, before.stop + symbols), before.stop + symbols
    head = max(places, tokens + 1)
    config = TransformerConfig(
        tokens,
        n_layers=2,
        d_model=count + 1,
        d_head=head,
        mlp_depth=0,
        n_ctx=places,
        positions="learned",
        norm="none",
        scale_scores=False,
        biases=False,
        d_vocab_out=symbols,
        class_names=grammar.label_names,
    )
    about = {"name": NAME, "about": CONSTRUCTED[NAME], "trained": False, "constructed": True}
    model: Any = SandboxTransformer(config, grammar, about).to(dtype)
    first, second = model.blocks[0].attn, model.blocks[1].attn
    with torch.no_grad():
        _eye(model.embed.W_E[:, token])
        _eye(model.pos_embed.W_pos[:, place])
        model.pos_embed.W_pos[:, count] = torch.arange(places) / places
        # Layer 0: the query at t asks for t - 1, and the key at t answers to t.
        first.W_Q[0, place, :places] = SHARP * torch.from_numpy(np.eye(places, k=-1)).to(dtype)
        _eye(first.W_K[0, place, :places])
        _eye(first.W_V[0, token, :tokens])
        _eye(first.W_O[0, :tokens, before])
        # Layer 1: token against the token before the key; and how late the key stands.
        rank = SHARP * places
        _eye(second.W_Q[0, token, :tokens], 2 * rank)
        second.W_Q[0, token, tokens] = rank
        _eye(second.W_K[0, before, :tokens])
        second.W_K[0, count, tokens] = 1.0
        _eye(second.W_V[0, token, :tokens])
        _eye(second.W_O[0, :symbols, fetched])
        _eye(model.unembed.W_U[fetched], CERTAIN)
    return model


def _parts(tokens: int, places: int) -> list[tuple[int, int]]:
    """(where it begins, its width) of token, position and the token before."""
    return [(0, tokens), (tokens, places), (tokens + places, tokens)]


def _eye(part: Tensor, size: float = 1.0) -> None:
    """Put `size` on the diagonal of a part of a weight."""
    part.fill_diagonal_(size)
