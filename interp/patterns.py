"""Attention patterns of any hooked model, and the sizes analyzers need, in one place."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import AnalysisError
from interp.guests import check_attention, check_length, guest_errors, is_bridge, undisturbed


def attention_patterns(
    model: Any, tokens: Tensor, layers: list[int] | None = None, pad: int | None = None
) -> list[NDArray[np.float64]]:
    """Attention patterns of a `SandboxTransformer` or `TransformerBridge`.

    One array [batch, head, query, key] per layer (all layers, or those named), float64. The model is
    left as it was: mode, gradients, device and the user's own hooks. `pad`: the id that no token of a bridge attends
    to; our own models know theirs.

    Rows are shares, at least 0 and 1 together. Linear attention (`attention="linear"`) has weights of either sign whose
    sum is free: of it a share is that of a key in the sum of absolute weights, even over visible keys where all are 0.
    The weights themselves are what `hook_pattern` gives.

        >>> from interp import load_checkpoint
        >>> from interp.patterns import attention_patterns
        >>> model = load_checkpoint("constructed/stack")
        >>> patterns = attention_patterns(model, model.to_tokens("([])"))
        >>> len(patterns), patterns[1].shape, patterns[1][0, 0, 3].round(2).tolist()  # ( is open after ([]
        (2, (1, 1, 5, 5), [0.0, 1.0, 0.0, 0.0, 0.0])

    Raises `AnalysisError` when the model has no `hook_pattern` at a layer that is asked for, takes fewer tokens, or
    raises anything itself.
    """
    return patterns_and_norms(model, tokens, layers, pad, norms=False)[0]


def patterns_and_norms(
    model: Any, tokens: Tensor, layers: list[int] | None = None, pad: int | None = None, *, norms: bool = True
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]] | None]:
    """`attention_patterns`, and a layer's norms [batch, key, head] of what each value writes, in one forward pass.

    No norms where they are not asked for, or the model shows no values. Our own models run no further than needed.
    """
    check_attention(model, "attention patterns")
    chosen = list(range(model.cfg.n_layers)) if layers is None else layers
    for layer in chosen:
        if not 0 <= layer < model.cfg.n_layers:
            raise AnalysisError(f"no layer {layer}: this model has layers 0..{model.cfg.n_layers - 1}")
    names = [hook_of(layer, "pattern") for layer in chosen]
    missing = [name for name in names if name not in model.hook_dict]
    if missing:
        raise AnalysisError(f"this model has no {missing[0]}: it does not expose its attention patterns")
    values = [hook_of(layer, "v") for layer in chosen] if norms else []
    values = values if all(name in model.hook_dict for name in values) else []
    cache = _cached(model, tokens, [*names, *values], pad, max(chosen, default=-1) + 1)
    weights = [cache[name].detach().to("cpu", torch.float64).numpy() for name in names]
    if has_signed_weights(model):
        visible = model.visible_keys(tokens).cpu().numpy()
        weights = [shares(weight, visible) for weight in weights]
    if not values:
        return weights, None
    outputs = [model.blocks[layer].attn.W_O.detach() for layer in chosen]
    return weights, [written_norms(cache[name].detach(), w) for name, w in zip(values, outputs, strict=True)]


def _cached(model: Any, tokens: Tensor, names: list[str], pad: int | None, upto: int) -> Any:
    """Activations by hook of a forward pass that leaves the model as it was, through `upto` layers at least."""
    length = tokens.shape[-1]
    check_length(model, length, "attention patterns")
    with undisturbed(model), torch.no_grad(), guest_errors("attention patterns", model, f"fails on {length} tokens"):
        real = torch.ones_like(tokens) if pad is None else tokens.ne(pad).long()
        how: dict[str, Any] = {"attention_mask": real} if is_bridge(model) and not real.all() else {}
        if isinstance(getattr(model, "config", None), TransformerConfig):
            how["stop_at_layer"] = upto
        _, cache = model.run_with_cache(tokens, names_filter=names, return_type=None, **how)
    return cache


def hook_of(layer: int, part: str) -> str:
    """Name of an attention layer's hook point: "pattern", "v", "z", ..."""
    return f"blocks.{layer}.attn.hook_{part}"


def has_signed_weights(model: Any) -> bool:
    """Are a model's attention weights of either sign, their sum free? Those of linear attention are."""
    return getattr(getattr(model, "config", None), "attention", None) == "linear"


def shares(weights: NDArray[np.float64], visible: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares of keys in the sum of absolute weights [..., query, key]; even over `visible` keys where all are 0."""
    size = np.abs(weights)
    size = np.where((size.sum(-1, keepdims=True) > 0), size, np.broadcast_to(visible, size.shape))
    return np.asarray(size / size.sum(-1, keepdims=True))


def values_of_heads(values: Tensor, n_heads: int) -> Tensor:
    """What each head reads of a key [batch, key, head, d_head], of values [batch, key, group, d_head].

    Of grouped heads (LLaMA, Qwen, Gemma, ...) neighbours share one key and value: head h reads group h // (heads a
    group). Where each has its own, they come back as they are.
    """
    groups = values.shape[2]
    if groups == n_heads:
        return values
    if n_heads % groups:
        raise AnalysisError(f"{n_heads} heads share {groups} values, and not evenly: whose is whose is not known")
    return values.repeat_interleave(n_heads // groups, dim=2)


def written_norms(values: Tensor, output: Tensor) -> NDArray[np.float64]:
    """Norm [batch, key, head] of what each key's value writes to the stream.

    `values` [batch, key, group, d_head], one or fewer a head; `output` [head, d_head, d_model] is W_O.
    """
    written = torch.einsum("bphd,hde->bphe", values_of_heads(values, len(output)), output)
    return np.asarray(written.norm(dim=-1).double().cpu().numpy())
