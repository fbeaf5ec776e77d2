"""`cfg`: a model's config under TransformerLens's names, to be read."""

from types import SimpleNamespace
from typing import Any, NoReturn

import torch

from interp.config import TransformerConfig
from interp.errors import RequestError, quoted

# ours -> TransformerLens's
ACTIVATION_NAMES = {"gelu": "gelu_new", "gelu_exact": "gelu", "relu": "relu", "silu": "silu"}
NORM_NAMES = {"LN": "LN", "LNPre": "LNPre", "unit": "LNPre", "none": None}


class ConfigView(SimpleNamespace):
    """What TransformerLens's tools read. Setting something here could change nothing, so it is refused."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise RequestError(
            f"cfg.{name}={quoted(value)} would change nothing: cfg is a view of model.config, which is frozen; build a "
            "model of another TransformerConfig"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise RequestError(f"cfg.{name} cannot be deleted: cfg is a view of model.config, which is frozen")


def transformer_lens_view(
    c: TransformerConfig, device: torch.device, dtype: torch.dtype, prepends_start: bool
) -> ConfigView:
    """`c` under TransformerLens's names. `prepends_start`: whether texts get START first."""
    return ConfigView(
        n_layers=c.n_layers,
        n_heads=c.n_heads,
        n_key_value_heads=None,
        d_model=c.d_model,
        d_head=c.d_head,
        d_mlp=c.d_mlp if c.mlp_depth else None,
        d_vocab=c.d_vocab,
        d_vocab_out=c.d_out,
        n_ctx=c.n_ctx,
        attn_only=c.mlp_depth == 0,
        act_fn=ACTIVATION_NAMES[c.activation],
        # TransformerLens centres and divides by `hook_scale`: right for a unit norm too, but only
        # for norms that a block *reads* the stream through.
        normalization_type=NORM_NAMES[c.norm] if c.block == "gpt2" and c.ends_in_norm else None,
        eps=c.norm_eps,
        attention_dir=c.direction,
        positional_embedding_type="standard",
        default_prepend_bos=prepends_start,
        device=device,
        dtype=dtype,
        use_split_qkv_input=False,
        use_attn_in=False,
        use_attn_result=False,
    )
