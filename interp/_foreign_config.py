"""TransformerLens's settings as a `TransformerConfig`. Imports no torch."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from interp.checks import plain
from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.names import nearest_name

ACTIVATIONS = {
    "relu": "relu",
    "silu": "silu",
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
}
NORMS = {"LN": "LN", "LNPre": "LNPre", None: "none"}
POSITIONS = {"standard": "learned", "none": "none"}
_READ = (
    "n_layers", "d_model", "d_head", "n_ctx", "d_vocab", "n_heads", "d_mlp", "act_fn", "d_vocab_out", "attn_only",
    "eps", "normalization_type", "attention_dir", "positional_embedding_type", "use_attn_scale", "attn_scale",
)  # fmt: skip
# Read by `load_foreign` itself.
_READ_BESIDE = ("default_prepend_bos", "default_padding_side", "pad_token", "class_names", "max_depth")
# Settings under which the model computes what our blocks do not, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "parallel_attn_mlp": (False, None),
    "gated_mlp": (False, None),
    "use_local_attn": (False, None),
    "final_rms": (False, None),
    "uses_rms_norm": (False, None),
    "rmsnorm_uses_offset": (False, None),
    "post_embedding_ln": (False, None),
    "use_qk_norm": (False, None),
    "qk_norm_after_rope": (False, None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "use_normalization_before_and_after": (False, None),
    "num_experts": (None, 0, 1),
    "attn_scores_soft_cap": (-1, None, 0),
    "output_logits_soft_cap": (-1, None, 0),
    "scale_embedding": (False, None),
    "per_layer_head_dim": (None,),
    "per_layer_num_key_value_heads": (None,),
    "load_in_4bit": (False, None),
    "use_NTK_by_parts_rope": (False, None),
    "is_audio_model": (False, None),
    "is_visual_model": (False, None),
    "is_stateful": (False, None),
    "is_multimodal": (False, None),
}
# Settings that change nothing about the weights, what is computed from them, or how texts are read here.
_HARMLESS: dict[str, tuple[str, ...]] = {
    "hooks that TransformerLens adds for tools; the numbers are the same": (
        "use_attn_result", "use_split_qkv_input", "use_hook_mlp_in", "use_attn_in", "use_hook_tokens",
        "ungroup_grouped_query_attention",
    ),
    "how weights were first drawn: here they are given": ("init_mode", "initializer_range", "init_weights", "seed"),
    "where and how they lie: they become float32 on the CPU": (
        "device", "n_devices", "dtype", "attn_implementation", "split_attention_weights",
    ),
    "where they come from": (
        "model_name", "architecture", "original_architecture", "from_checkpoint", "checkpoint_index",
        "checkpoint_label_type", "checkpoint_value", "trust_remote_code", "n_params",
    ),
    "folding and tying are done, or not, in the weights that are given": ("layer_norm_folding", "tie_word_embeddings"),
    "tokenizers of the library: here `vocab` reads texts": (
        "tokenizer_name", "tokenizer_prepends_bos", "tokenizer_appends_eos",
    ),
    "read with rotary or relative positions only, which are refused": (
        "rotary_dim", "rotary_base", "rotary_adjacent_pairs", "rotary_interleaved_cos_sin",
        "NTK_by_parts_low_freq_factor", "NTK_by_parts_high_freq_factor", "NTK_by_parts_factor", "NTK_original_ctx_len",
        "relative_attention_max_distance", "relative_attention_num_buckets",
    ),
    "read with local attention only, which is refused": ("window_size", "attn_types"),
    "read with experts only, which are refused": ("experts_per_token",),
    "read by models of pictures, sounds, or with a decoder of their own, which are refused": (
        "decoder_start_token_id", "vision_hidden_size", "vision_num_layers", "vision_num_heads", "mm_tokens_per_image",
    ),
}  # fmt: skip
KNOWN = {
    *_READ, *_READ_BESIDE, *_NEUTRAL, "n_key_value_heads", *(name for names in _HARMLESS.values() for name in names),
}  # fmt: skip


class NotCovered(ConfigError):
    """A setting of theirs that is known, and under which the model computes what our blocks do not."""


def to_config(settings: Mapping[str, Any], class_names: Any) -> TransformerConfig:
    """The same model under our names. Raises `ConfigError` naming a setting that is missing or not covered."""
    _check_names(settings)

    def get(name: str, default: Any, *unset: Any) -> Any:
        value = settings.get(name, default)
        return default if value is None or value in unset else value

    settings = {name: plain(value) for name, value in settings.items()}
    heads, width, size = get("n_heads", None, -1), settings["d_model"], settings["d_head"]
    if heads is None:
        if not all(isinstance(n, int) and n > 0 for n in (width, size)) or width % size:
            raise ConfigError(
                f"n_heads is missing, and d_model={quoted(width)} is not a multiple of d_head={quoted(size)}"
            )
        heads = width // size
    only, norm = get("attn_only", False), settings.get("normalization_type", "LN")
    if not isinstance(only, bool):
        raise _unsupported(settings, "attn_only", "True or False")
    if get("n_key_value_heads", heads) != heads:
        raise _unsupported(settings, "n_key_value_heads", f"one key and value a head, n_heads={heads}")
    activation = settings.get("act_fn")
    if not only and activation is None:
        raise ConfigError(f"config setting 'act_fn' is missing: one of {', '.join(ACTIVATIONS)}")
    tables: tuple[tuple[str, Any, Mapping[Any, str]], ...] = (
        ("normalization_type", norm, NORMS),
        ("act_fn", activation if not only else "relu", ACTIVATIONS),
        ("positional_embedding_type", get("positional_embedding_type", "standard"), POSITIONS),
        ("attention_dir", get("attention_dir", "causal"), {"causal": "causal", "bidirectional": "bidirectional"}),
    )
    for name, value, known in tables:
        if not isinstance(value, str | None) or value not in known:
            raise _unsupported(settings, name, ", ".join(map(repr, known)))
    scaled, scale = get("use_attn_scale", True), get("attn_scale", None, -1)
    if scale is not None and not _finite(scale):
        raise _unsupported(settings, "attn_scale", "a finite number, or None")
    if not _finite(size):  # before its root is taken
        raise _unsupported(settings, "d_head", "a whole number of at least 1")
    outputs = get("d_vocab_out", settings["d_vocab"], -1)
    # The tables hold plain strings; the config checks that they are names it knows.
    return TransformerConfig(
        d_vocab=settings["d_vocab"],
        n_layers=settings["n_layers"],
        n_heads=heads,
        d_model=width,
        d_head=size,
        d_mlp=get("d_mlp", 4 * width if isinstance(width, int) else width),
        mlp_depth=0 if only else 2,
        n_ctx=settings["n_ctx"],
        positions=POSITIONS[tables[2][1]],  # type: ignore[arg-type]
        direction=tables[3][1],
        norm=NORMS[norm],  # type: ignore[arg-type]
        norm_eps=get("eps", 1e-5),
        activation=ACTIVATIONS[tables[1][1]],  # type: ignore[arg-type]
        scale_scores=scaled,
        attn_scale=float(scale) if scaled and scale is not None and abs(scale - abs(size) ** 0.5) > 1e-6 else None,
        d_vocab_out=None if outputs == settings["d_vocab"] else outputs,
        class_names=class_names,
    )


def _check_names(settings: Mapping[str, Any]) -> None:
    for name in ("n_layers", "d_model", "d_head", "n_ctx", "d_vocab"):
        if settings.get(name) in (None, -1):
            close = nearest_name(name, [key for key in settings if key not in _READ], cutoff=0.8)
            hint = "" if close is None else f" ({close!r} is there)"
            raise ConfigError(
                f"config setting {quoted(name)} is missing{hint}: TransformerLens's HookedTransformerConfig has it"
            )
    twice = set()  # names close to a setting's that say the same as it does
    for name, value in settings.items():  # a slip of the pen must not pass for a default
        near = nearest_name(str(name), [*_READ, *_READ_BESIDE], cutoff=0.85)
        if near is None or name in KNOWN or value is None:
            continue
        right = settings.get(near)
        if right is None:
            raise ConfigError(f"config setting {quoted(name)} is unknown; did you mean {quoted(near)}?")
        if right != value:
            raise ConfigError(
                f"config setting {quoted(name)}={quoted(value)} is unknown, and {quoted(near)}={quoted(right)} is "
                "there: "
                "leave it out"
            )
        twice.add(name)
    for name, neutral in _NEUTRAL.items():
        if name in settings and not any(settings[name] is one or settings[name] == one for one in neutral):
            raise _unsupported(settings, name, repr(neutral[0]))
    unknown = [name for name, value in settings.items() if name not in twice | KNOWN and value is not None]
    if unknown:
        listed = ", ".join(f"{quoted(name)}={quoted(settings[name])}" for name in unknown[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        raise ConfigError(
            f"config setting {listed}{more}: HookedTransformerConfig has no such setting, and what it would change is "
            "not known; leave it out"
        )


def _finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond floats
        return False


def _unsupported(settings: Mapping[str, Any], name: str, right: str) -> NotCovered:
    given = quoted(settings.get(name))
    return NotCovered(f"config setting {name}={given} is not supported: this loader takes {right}")
