"""TransformerLens's own formats: the state dicts of its versions 1-3, and those of native bridges of version 4."""

from typing import Any

from interp.errors import CheckpointError, ConfigError, quoted
from interp.foreign.files import State

_STALE = (".attn.mask", ".attn.IGNORE", ".attn.rotary_sin", ".attn.rotary_cos", ".attn.causal_mask")
_NORMS = {"weight": "w", "bias": "b"}


def convert(state: State, settings: dict[str, Any] | None, source: str) -> tuple[State, dict[str, Any], str]:
    """Versions 1-3: the names are those that we have; buffers that only old versions keep are left out."""
    return {k: v for k, v in state.items() if not k.endswith(_STALE)}, _needed(settings, source), ""


def convert_native(state: State, settings: dict[str, Any] | None, source: str) -> tuple[State, dict[str, Any], str]:
    """Version 4, `TransformerBridge.boot_native(...).state_dict()`: linear maps as torch has them."""
    told = _needed(settings, source)
    return native_tensors(state, told, source), told, ""


def heads_of(settings: dict[str, Any]) -> int:
    """The number of heads that a config says or implies."""
    heads, width, size = (settings.get(name) for name in ("n_heads", "d_model", "d_head"))
    if isinstance(heads, int) and heads > 0:
        return heads
    if not isinstance(width, int) or not isinstance(size, int) or size < 1:
        raise ConfigError("config setting 'n_heads' is missing: HookedTransformerConfig has it")
    return width // size


def native_tensors(state: State, settings: dict[str, Any], source: str) -> State:
    """Tensors of a native bridge under the names and in the shapes of versions 1-3."""
    out: State = {}
    heads = heads_of(settings)
    groups = settings.get("n_key_value_heads") or heads
    for name, x in state.items():
        stem, _, kind = name.rpartition(".")
        part = stem.rpartition(".")[2]
        at = stem.removesuffix(part)
        if part in ("q", "k", "v"):
            own = per_head(name, x, heads if part == "q" else groups, source)
            letter = part.upper()
            out |= {f"{at}W_{letter}": own.transpose(1, 2)} if kind == "weight" else {f"{at}b_{letter}": own}
        elif part == "o":
            out[f"{at}{'W_O' if kind == 'weight' else 'b_O'}"] = (
                per_head(name, x.T, heads, source) if kind == "weight" else x
            )
        elif part in ("in", "out", "gate"):
            out[f"{at}{'W' if kind == 'weight' else 'b'}_{part}"] = x.T if kind == "weight" else x
        elif stem == "embed":
            out["embed.W_E"] = x
        elif stem == "pos_embed":
            out["pos_embed.W_pos"] = x
        elif stem == "unembed":
            out["unembed.W_U" if kind == "weight" else "unembed.b_U"] = x.T if kind == "weight" else x
        else:
            out[f"{stem}.{_NORMS.get(kind, kind)}"] = x
    return out


def per_head(name: str, x: Any, heads: int, source: str) -> Any:
    """Rows [heads x d_head, ...] as [head, d_head, ...]."""
    if x.ndim == 0 or heads < 1 or len(x) % heads:
        raise CheckpointError(
            f"{source}: tensor {quoted(name)} of shape {list(x.shape)} is not one of {heads} heads: n_heads in the "
            "config is another one"
        )
    return x.reshape(heads, len(x) // heads, *x.shape[1:])


def boot_native(state: State, settings: dict[str, Any]) -> Any:
    """The bridge that wrote the state dict, in eval mode. The caller's random numbers stay as they are."""
    import torch
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    fields = {k: v for k, v in settings.items() if k not in ("device", "dtype", "architecture", "n_devices")}
    with torch.random.fork_rng(devices=[]):
        bridge = TransformerBridge.boot_native(TransformerBridgeConfig.from_dict(fields), device="cpu")
        said = bridge.load_state_dict(state, strict=False)
    wrong = [*said.missing_keys, *said.unexpected_keys]
    if wrong:
        raise CheckpointError(f"tensor {quoted(wrong[0])} is missing, or does not belong to this config")
    return bridge.eval()


def _needed(settings: dict[str, Any] | None, source: str) -> dict[str, Any]:
    if settings is None:
        raise ConfigError(
            f"{source} is a state dict of TransformerLens, which does not say its heads or activation: give its "
            "config, a dict, an object or a JSON file (on the command line --model-config FILE.json)"
        )
    return settings
