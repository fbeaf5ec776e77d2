"""The formats of state dicts that are known, in one table: how each is recognised, and how it becomes ours.

A format is recognised by keys of its first block, behind whatever prefix a training script put before all names. To
add one, write a function and a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interp.errors import CheckpointError, quoted
from interp.foreign import gpt, lens
from interp.foreign.files import Found, State

Settings = dict[str, Any]  # of a `HookedTransformerConfig`
LENS = "TransformerLens 1-3"


@dataclass(frozen=True)
class Format:
    """One way to name a decoder's weights.

    - `name`: what users call it.  `marks`: keys that a state dict of it holds, all of them behind one prefix.
    - `convert` (tensors without the prefix, config or None, source) -> (tensors by TransformerLens's names, its
      settings, what was supposed: a line for the user, or ""). Raises `ConfigError`, `CheckpointError`.
    - `bridge` (tensors, config) -> hooked model, where our blocks do not compute it; None: nothing else does.
    """

    name: str
    marks: tuple[str, ...]
    convert: Callable[[State, Settings | None, str], tuple[State, Settings, str]]
    bridge: Callable[[State, Settings], Any] | None = None

    def within(self, state: Mapping[str, Any]) -> State | None:
        """The tensors without the prefix, None where they are not of this format."""
        first = self.marks[0]
        for key in state:
            prefix = key[: len(key) - len(first)]
            if key.endswith(first) and all(prefix + mark in state for mark in self.marks):
                return {name.removeprefix(prefix): tensor for name, tensor in state.items()}
        return None


_H, _SA = "h.0.attn.", "blocks.0.sa."
FORMATS = (
    Format(LENS, ("blocks.0.attn.W_Q",), lens.convert),
    Format(LENS, ("embed.W_E",), lens.convert),
    Format(
        "a native TransformerBridge of TransformerLens 4", ("embed.weight", "blocks.0.attn.q.weight"),
        lens.convert_native, lens.boot_native,
    ),
    Format("GPT-2, nanoGPT or minGPT", ("wte.weight", "wpe.weight", f"{_H}c_attn.weight"), gpt.convert_gpt2),
    Format("minGPT (of 2020)", ("tok_emb.weight", "pos_emb", "blocks.0.attn.query.weight"), gpt.convert_mingpt),
    Format(
        "the lecture code of nanoGPT (ng-video-lecture)",
        ("token_embedding_table.weight", "position_embedding_table.weight", f"{_SA}heads.0.query.weight"),
        gpt.convert_lecture,
    ),
)  # fmt: skip

_WHOLE = "load the model itself: load_foreign(model), or its folder with config.json"
_ADAPT = "pass the model through an adapter, a function of tokens that gives (logits, patterns): see the manual"
# What is known by name and has no row above: (a part of a key, whose it is, the way in).
ELSEWHERE = (
    ("self_attn.q_proj.weight", "a Hugging Face decoder (LLaMA, Qwen, Gemma, OPT, ...)", _WHOLE),
    ("attention.self.query.weight", "a Hugging Face encoder (BERT, RoBERTa, ...)", _WHOLE),
    ("attention.query_key_value.weight", "a Hugging Face GPT-NeoX, Pythia or BLOOM", _WHOLE),
    ("attn.attention.k_proj.weight", "a Hugging Face GPT-Neo", _WHOLE),
    ("SelfAttention.q.weight", "a Hugging Face T5", _WHOLE),
    ("._original_component.", "the module inside a TransformerBridge", "pass the bridge, or bridge.state_dict()"),
    ("self_attn.in_proj_weight", "torch.nn.TransformerEncoder or Decoder", _ADAPT),
    ("in_proj_weight", "torch.nn.MultiheadAttention", _ADAPT),
    ("attention.wq.weight", "Meta's LLaMA", _ADAPT),
    ("lora_A", "an adapter of PEFT", "merge it into its model first: merge_and_unload()"),
    ("lstm.weight_ih_l0", "an LSTM, which attends to nothing", _ADAPT),
)


def recognised(found: Found) -> tuple[Format, State]:
    """The format of a state dict, and its tensors without prefix.

    Raises `CheckpointError` for one of none, which says whose keys these are, and the way in.
    """
    for one in FORMATS:
        if (state := one.within(found.state)) is not None:
            return one, state
    keys = list(found.state)
    shown = ", ".join(quoted(key) for key in keys[:4])
    for part, whose, way in ELSEWHERE:
        if hit := next((key for key in keys if part in key), None):
            raise CheckpointError(f"{found.source}: these are keys of {whose} ({quoted(hit)}): {way}")
    known = "; ".join(dict.fromkeys(one.name for one in FORMATS))
    raise CheckpointError(
        f"{found.source}: these are keys of no format known here ({shown}{', ...' if len(keys) > 4 else ''}). Known "
        f"are: {known}. Any other: {_ADAPT}"
    )
