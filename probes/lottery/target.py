"""The target of a lottery ticket: which models the theorem covers, and their matrices as the pruners want them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from interp.config import TransformerConfig
from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import check_precision
from interp.model import SandboxTransformer
from interp.population import Population
from probes.lottery.pruning import LARGEST, SMALLEST, balanced
from probes.lottery.subset_sum import Array

LARGEST_C = 1e6  # of a norm's constant in a config


@dataclass(frozen=True)
class Layer:
    """One layer of a target, float64: scores [key, query], values centred (P W_V) [in, out], the MLP's two maps."""

    scores: Array
    values: Array
    v1: Array
    v2: Array


@dataclass(frozen=True)
class Target:
    """A covered target: its layers, with values multiplied by `scale` so that the largest is 1/2.

    LN_C(s z) with s C in the place of C is LN_C(z): the random network's C is `scale` times the target's. Values
    so small beside C that s C would pass `LARGEST_C` stay below 1/2: they add next to nothing to the stream.
    """

    model: SandboxTransformer
    layers: tuple[Layer, ...]
    scale: float

    @property
    def width(self) -> int:
        """m, the width of the stream."""
        return self.model.config.d_model


def read_target(target: Any) -> Target:
    """Check that the theorem covers `target` and take its matrices out, or say what would have to change."""
    model = _one_model(target)
    _check_architecture(model.config)
    _check_vocabulary(model)
    check_precision(model.named_parameters(), "lottery ticket")
    c = model.config
    for name, p in model.named_parameters():
        if not bool(torch.isfinite(p).all()):
            raise AnalysisError(f"lottery ticket: {name} of the target holds NaN or infinite numbers")
    layers = []
    for block in model.blocks:
        w = {n: p.detach().cpu().double().numpy() for n, p in block.named_parameters()}
        scores = np.zeros((c.d_model, c.d_model))
        if c.attention == "learned":
            scores = w["attn.W_K"][0] @ w["attn.W_Q"][0].T / block.attn.attn_scale
        values = w["attn.W_V"][0] - w["attn.W_V"][0].mean(axis=1, keepdims=True)
        layers.append(Layer(scores, values, *balanced(w["mlp.W_in"], w["mlp.W_out"])))
    largest = max(float(np.abs(layer.values).max()) for layer in layers)
    scale = min(0.5 / largest, LARGEST_C / c.norm_eps) if largest > 0 else 1.0
    layers = [replace(layer, values=scale * layer.values) for layer in layers]
    for i, layer in enumerate(layers):
        words = {"scores": "attention scores W_K W_Q^T", "v1": "first MLP map", "v2": "second MLP map"}
        for name, said in words.items():
            if (size := float(np.abs(getattr(layer, name)).max(initial=0.0))) > LARGEST:
                raise AnalysisError(
                    f"lottery ticket: the {said} of layer {i} hold {size:.3g}, out of reach of sums of random products "
                    f"(at most {LARGEST:g}): scale the target's weights down, and its embedding up where scores matter"
                )
    return check_small(Target(model, tuple(layers), scale))


def check_small(target: Target) -> Target:
    """Refuse maps so small that the errors of sums would be most of them; what is 0 is met exactly."""
    c = target.scale * target.model.config.norm_eps
    for i, layer in enumerate(target.layers):
        # Values far below C pass the norm as z / C: next to nothing beside the stream, and so are their errors.
        words = {"v1": "first MLP map", "v2": "second MLP map"} | ({"values": "values W_V"} if c < SMALLEST else {})
        for name, said in words.items():
            if 0 < (size := float(np.abs(getattr(layer, name)).max(initial=0.0))) < SMALLEST:
                what = "scaled with those of all layers" if name == "values" else "its hidden units rescaled"
                raise AnalysisError(
                    f"lottery ticket: the {said} of layer {i} ({what}) hold at most {size:.3g}, too little beside the "
                    f"errors of sums of random products (at least {SMALLEST:g} is needed): scale the weights up"
                )
    return target


def _one_model(target: Any) -> SandboxTransformer:
    if isinstance(target, Population):
        if len(target) != 1:
            raise RequestError(f"a population of {len(target)} models is no single target: pass population[0], say")
        return target[0]
    if not isinstance(target, SandboxTransformer):
        raise AnalysisError(
            f"lottery ticket: {type(target).__name__!r} is not a target: a SandboxTransformer of block='paper' is "
            "needed"
        )
    return target


def _check_architecture(c: TransformerConfig) -> None:
    """Refuse what the theorem says nothing about, with everything that would have to change, in one line."""
    wrong = []
    for name, needed in (("block", "paper"), ("norm", "unit"), ("n_heads", 1), ("mlp_depth", 2)):
        if getattr(c, name) != needed:
            wrong.append(f"{name}={quoted(getattr(c, name))} should be {needed!r}")
    if c.biases:
        wrong.append("biases=True should be False (let the embedding carry a constant)")
    if c.attention == "linear":
        wrong.append("attention='linear' should be 'learned' (softmax) or 'uniform'")
    if c.activation != "relu":
        wrong.append(f"activation={c.activation!r} should be 'relu'")
    if c.norm == "unit" and c.norm_eps <= 0:
        wrong.append(f"norm_eps={c.norm_eps:g}, the norm's C, should be above 0")
    if c.oracle is not None:
        wrong.append(f"embedding={c.embedding!r} fixes the width and should be 'learned'")
    if wrong:
        raise AnalysisError(f"lottery ticket: the theorem does not cover this target: {'; '.join(wrong)}")


def _check_vocabulary(model: SandboxTransformer) -> None:
    """Refuse a model that cannot predict every token of its grammar."""
    if model.grammar is not None and model.config.d_out < model.grammar.vocab_size:
        raise AnalysisError(
            f"lottery ticket: d_vocab_out={model.config.d_out} of the target is less than its grammar's vocabulary of "
            f"{model.grammar.vocab_size} tokens: use a target that predicts all of them, or one without a grammar"
        )


def in_double(target: Target) -> SandboxTransformer:
    """The target's model in float64: what pruned networks are compared with."""
    model = SandboxTransformer(target.model.config, target.model.grammar, target.model.provenance).double()
    model.load_state_dict(target.model.state_dict())
    return model
