"""One-layer models of a binary chain whose weights are set by hand: the unigram point, and the canonical weights.

- `unigram`: the point theta_pi of the slides (L1991-2039). All states look alike (e = 0) and the output reads nothing
  (a = 0, which e = 0 is if tied), so that every prediction is the stationary law. All other weights are free.
- `canonical_weights`: rank-one weights of the released code's reduced model, with the logits of `CanonicalFlow`.
- `bigram`: those at a point where they give the kernel.
"""

import math

import numpy as np
import torch

from interp.checks import finite_number, given_or_default, instance_of, true_or_false
from interp.devices import real_type
from interp.errors import RequestError, quoted
from interp.functional import Params
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.worlds.binary_chain.flow import CanonicalFlow
from interp.worlds.binary_chain.grammar import BinaryChain
from interp.worlds.binary_chain.recipes import CONSTRUCTED, WIDTH, one_layer

SPREAD = 0.1


def unigram(
    grammar: BinaryChain | None = None,
    *,
    tied: bool = True,
    width: int = WIDTH,
    spread: float = SPREAD,
    positions: float | None = None,
    norm: str = "none",
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> SandboxTransformer:
    """The unigram point; the weights that are free are drawn with `seed` from N(0, spread^2).

    `positions`: standard deviation of the position vectors, by default `spread` too. `norm`: as of the config; the
    slides have none. Its MLP has four times the `width`, as in the released code.
    """
    grammar, tied = given_or_default("grammar", grammar, BinaryChain), true_or_false("tied", tied)
    for what, size in (("spread", spread), ("positions", spread if positions is None else positions)):
        if finite_number(what, size) < 0:
            raise RequestError(f"{what}={quoted(size)} is not a standard deviation of at least 0")
    choices = {"d_model": width, "d_head": width, "d_mlp": 4 * width, "norm": norm}
    name = f"constructed/chain-unigram-{'tied' if tied else 'untied'}"
    model = _model(grammar, name, "tied" if tied else "learned", seed, dtype, **choices)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.rsplit(".", 1)[-1].startswith("W_"):
                std = positions if positions is not None and key == "pos_embed.W_pos" else spread
                draw = generator(seed, f"unigram/{key}").standard_normal(parameter.shape)
                parameter.copy_(torch.from_numpy(std * draw))
        model.embed.W_E[1] = model.embed.W_E[0]
        if not tied:
            model.unembed.W_U[:, 1] = model.unembed.W_U[:, 0]
        model.unembed.b_U.copy_(torch.from_numpy(np.log(grammar.stationary)))
    return model


def bigram(
    grammar: BinaryChain | None = None, *, tied: bool = True, seed: int = 0, dtype: torch.dtype = torch.float64
) -> SandboxTransformer:
    """Canonical weights that give the kernel: e^2 (1 + 2 w |w|) is the gap wanted, with w = 0 or, if p + q > 1, -1.

    Signs of the rank-one directions are drawn with `seed`; attention adds nothing.
    """
    grammar, tied = given_or_default("grammar", grammar, BinaryChain), true_or_false("tied", tied)
    target = grammar.log_odds_gap
    w = 0.0 if target >= 0 else -1.0
    e = math.sqrt(target / (1 + 2 * w * abs(w)))
    model = _model(grammar, "constructed/chain-bigram", "tied" if tied else "learned", seed, dtype)
    drawn = {name: p.detach() for name, p in model.named_parameters()}
    model.load_state_dict(canonical_weights(drawn, e, w, grammar), strict=False)
    return model


def canonical_weights(params: Params, e: float, w: float, grammar: BinaryChain) -> Params:
    """`params` of one model with the canonical weights (e, w) of the reduced model put in, b at its optimum.

    With signs alpha of the stream's coordinates and s of the hidden units, half of them +1 (both from the weights
    given): x_n = (state - 1/2) e alpha / sqrt d, positions 0; W_in = |w| k alpha s^T / sqrt d and
    W_out = w k s alpha^T / sqrt d, k = 2 / sqrt d_mlp; W_V = 0, and the output reads what the embedding wrote.
    So the log-odds of 1 are e^2 (1 + 2 w |w|) (state - 1/2) plus a bias. The released code has w in both matrices,
    which makes w |w| its square: it starts on the side w >= 0 alone.
    """
    e, w = finite_number("e", e), finite_number("w", w)
    instance_of("grammar", grammar, BinaryChain)
    out = {name: p.clone() for name, p in params.items()}
    embed = "embed.W_E"
    inward, outward = "blocks.0.mlp.W_in", "blocks.0.mlp.W_out"
    d, hidden = out[inward].shape
    alpha = torch.where(out[embed][1] >= 0, 1.0, -1.0).to(out[embed]) / math.sqrt(d)
    half = out[inward][0].argsort().argsort() >= hidden // 2
    signs = torch.where(half, 1.0, -1.0).to(out[embed]) * 2 / math.sqrt(hidden)
    out[embed] = torch.stack([-e / 2 * alpha, e / 2 * alpha])
    if "unembed.W_U" in out:
        out["unembed.W_U"] = out[embed].T.clone()
    out[inward] = abs(w) * alpha[:, None] * signs
    out[outward] = w * signs[:, None] * alpha
    for name in ("pos_embed.W_pos", "blocks.0.attn.W_V"):
        if name in out:
            out[name] = torch.zeros_like(out[name])
    flow = CanonicalFlow(grammar.p, grammar.q)
    middle = float(np.mean(flow.logits(e, w, flow.best_bias(e, w))))
    out["unembed.b_U"] = torch.tensor([-middle / 2, middle / 2], dtype=torch.float64).to(out[embed])
    return out


def construct(name: str) -> SandboxTransformer:
    """The model of a name, for the default grammar, in float32. Raises `RequestError` if there is none."""
    if name not in CONSTRUCTED:
        raise RequestError(f"no constructed model {quoted(name)}; there are {', '.join(CONSTRUCTED)}")
    if name == "constructed/chain-bigram":
        return bigram(dtype=torch.float32)
    return unigram(tied=name == "constructed/chain-unigram-tied", dtype=torch.float32)


def _model(
    grammar: BinaryChain, name: str, unembed: str, seed: int, dtype: torch.dtype, **choices: object
) -> SandboxTransformer:
    dtype = real_type(dtype)
    config = one_layer(unembed, **choices)(grammar)
    model = SandboxTransformer.init(config, seed)
    told = {"name": name, "about": CONSTRUCTED[name], "trained": False, "constructed": True, "seed": seed}
    made = SandboxTransformer(config, grammar, told).to(dtype)
    made.load_state_dict(model.state_dict())
    return made
