"""Models that come as they run: bridges of TransformerLens, models and folders of Hugging Face.

Where one is of our architectures it is copied into a `SandboxTransformer`, and both are run: only equal logits prove
that settings were read right. All others stay hooked bridges, of a copy. No code of a folder is ever run.
"""

import contextlib
import copy
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from interp._foreign_config import KNOWN, to_config
from interp.errors import CheckpointError, InterpError, quoted
from interp.foreign import gpt, lens
from interp.foreign.files import State, settings_of
from interp.foreign.ours import Ours, check_tensors
from interp.guests import guest_errors, is_bridge, shortened, undisturbed
from interp.limits import check_memory
from interp.model import SandboxTransformer
from interp.numbers import number

EQUAL = 2e-5  # of the largest logit: rounding of float32 through a dozen layers; another activation differs by more
ROWS, LENGTH = 2, 16  # tokens on which two models are compared
COPIES = 3.0
NO_BRIDGE = "has no bridge in transformer-lens, so pass it through an adapter, a function of tokens"
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")


def is_hugging_face_model(source: Any) -> bool:
    """Whether it is a model of transformers, without importing that."""
    return isinstance(source, nn.Module) and hasattr(getattr(source, "config", None), "model_type")


def of_hugging_face(source: Any, tokenizer: Any) -> tuple[Ours | None, Any, str]:
    """(ours, None, told) of a GPT-2 whose logits come out equal, else (None, a bridge of a copy, told)."""
    kind = type(source).__name__
    config, reason = settings_of(source.config), ""
    if config.get("model_type") == "gpt2" and kind == "GPT2LMHeadModel":
        try:
            tensors = {k.removeprefix("transformer."): v for k, v in source.state_dict().items()}
            state, settings, _ = gpt.convert_gpt2(tensors, config, kind)
            ours = _proved(state, settings, kind, lambda ids: _logits(source, ids))
            return ours, None, f"{kind} of transformers, as a SandboxTransformer: the same logits"
        except InterpError as error:
            reason = f" ({error})"
    else:
        reason = f" (of transformers' models our blocks compute GPT2LMHeadModel, and this is {kind})"
    return None, bridge_of(source, tokenizer), f"{kind} of transformers, as a hooked bridge{reason}"


def of_bridge(bridge: Any) -> tuple[Ours | None, Any, str]:
    """(ours, None, told) where our blocks compute the bridge's logits, else (None, the bridge itself, told)."""
    kind = type(bridge.original_model).__name__
    try:
        state, settings = _of_parts(bridge)
        ours = _proved(state, settings, kind, lambda ids: _logits(bridge, ids))
    except Exception as error:  # whatever a part of another architecture lacks or raises: it stays a bridge
        said = f" ({error if isinstance(error, InterpError) else f'our blocks do not compute {kind}'})"
        return None, bridge, f"TransformerBridge of {kind}, as it is{said}"
    return ours, None, f"TransformerBridge of {kind}, as a SandboxTransformer: the same logits"


def open_folder(folder: Path) -> tuple[Any, Any]:
    """(the model of transformers, its tokenizer or None) in a folder. Raises `CheckpointError`."""
    weights = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin")]
    if not weights:
        raise CheckpointError(
            f"the folder {quoted(str(folder))} holds a config.json and no weights: model.safetensors is needed beside "
            "it, as model.save_pretrained(folder) writes it"
        )
    size = sum(path.stat().st_size for path in weights)
    check_memory(
        f"the model in {quoted(str(folder))}, {size / 1e6:,.0f} MB,", COPIES * size, "name a smaller one",
        CheckpointError,
    )  # fmt: skip
    _check_type(folder)
    has_tokenizer = any((folder / file).is_file() for file in TOKENIZERS)
    return _pretrained(folder, str(folder), has_tokenizer, {})


def _check_type(folder: Path) -> None:
    """Raise `CheckpointError` where a config.json names a type of model that transformers does not know."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = settings_of(folder / "config.json").get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise CheckpointError(
            f"the config.json in {quoted(str(folder))} says model_type={quoted(kind)}, which transformers "
            f"{transformers.__version__} does not know: update transformers, correct it, or pass the model through an "
            "adapter"
        )


def open_gguf(file: Path) -> tuple[Any, Any]:
    """(the model of transformers, its tokenizer) in a GGUF file: its weights are what the quantised ones stand for.

    Raises `CheckpointError`.
    """
    if not os.path.isfile(file):  # unlike Path.is_file, takes any name
        raise CheckpointError(f"no file {str(file)!r}, and nothing is downloaded: give a GGUF file")
    if find_spec("gguf") is None:
        raise CheckpointError(
            f"{str(file)!r} is a GGUF file, which the package gguf reads: pip install 'interp-sandbox[llm]'"
        )
    return _pretrained(file, str(file.parent), True, {"gguf_file": file.name})


def _pretrained(source: Path, folder: str, has_tokenizer: bool, file: dict[str, str]) -> tuple[Any, Any]:
    """What transformers makes of a folder, or of a `file` in it; `source` is what the user named."""
    import transformers

    name = str(source)
    with _quiet(), _in_our_words(name):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True, **file)
        loader = _loader(config, name)
        if file:
            _check_unpacked(name, loader, config)
        with torch.random.fork_rng(devices=[]):  # heads that the file lacks are drawn at random
            model, told = loader.from_pretrained(
                folder, config=config, output_loading_info=True, trust_remote_code=False, local_files_only=True,
                ignore_mismatched_sizes=True, **file,
            )  # fmt: skip
        tokenizer = None
        if has_tokenizer:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True, **file
            )
    if told.get("mismatched_keys"):
        key, there, wanted = sorted(told["mismatched_keys"], key=lambda one: str(one[0]))[0]
        raise CheckpointError(
            f"{quoted(name)}: tensor {quoted(key)} has shape {list(there)}, and config.json makes it {list(wanted)}: "
            "its sizes are to be those of the weights"
        )
    missing = [key for key in told["missing_keys"] if loader is transformers.AutoModelForCausalLM]
    if missing:
        raise CheckpointError(
            f"{quoted(name)} lacks weights: {quoted(sorted(missing)[0])} of {type(model).__name__} is missing"
        )
    return _unpacked(model).float().eval(), tokenizer


@contextlib.contextmanager
def _in_our_words(name: str) -> Iterator[None]:
    """Whatever transformers raises over what a user named, as a `CheckpointError` in one line."""
    try:
        yield
    except InterpError:
        raise
    except Exception as error:  # of transformers, safetensors, tokenizers, or the file system
        damaged = type(error).__name__ in ("SafetensorError", "UnpicklingError", "EOFError")
        what = "its weights are truncated or damaged: copy them again" if damaged else (
            "a folder as model.save_pretrained(folder) writes it is needed, or a whole GGUF file"
        )  # fmt: skip
        raise CheckpointError(
            f"{quoted(name)} cannot be loaded by transformers ({type(error).__name__}: {shortened(error)}); {what}"
        ) from error


def _check_unpacked(name: str, loader: Any, config: Any) -> None:
    """Refuse a quantised file whose weights, as float32, are more than the bound: its own size says little of that."""
    with torch.device("meta"):
        size = 4 * sum(p.numel() for p in loader.from_config(config, trust_remote_code=False).parameters())
    what = f"the model in {name!r}, {size / 1e6:,.0f} MB unpacked,"
    check_memory(what, COPIES * size, "name a smaller one", CheckpointError)


def _unpacked(model: Any) -> Any:
    """The same model, no longer called quantised where its file alone was: transformers unpacks GGUF when it loads.

    A model that is marked so refuses to change its type, which copies of it need.
    """
    if getattr(getattr(model, "quantization_method", None), "value", None) == "gguf":
        model.is_quantized = False
    return model


def _loader(config: Any, name: str) -> Any:
    """Which of transformers' loaders: a language model, causal where its architecture is, else an encoder."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    kinds = config.architectures or []
    causal, masked = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    named_causal = any(kind.endswith(("CausalLM", "LMHeadModel")) for kind in kinds)
    if config.model_type in causal and (named_causal or config.model_type not in masked):
        return transformers.AutoModelForCausalLM
    if config.model_type in masked:
        return transformers.AutoModelForMaskedLM
    raise CheckpointError(
        f"{quoted(name)} is a {quoted(config.model_type)} ({', '.join(kinds) or 'no architecture'}), neither a "
        "language model nor an encoder of text: pass the model through an adapter"
    )


def bridge_of(source: Any, tokenizer: Any) -> Any:
    """A hooked bridge of a copy of a Hugging Face model, float32 and in eval mode."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    kind = type(source).__name__
    size = sum(p.numel() * 4 for p in source.parameters())
    check_memory(f"a copy of {kind}, {size / 1e6:,.0f} MB,", 2 * size, "name a smaller one", CheckpointError)
    with torch.random.fork_rng(devices=[]), guest_errors("load_foreign", source, NO_BRIDGE, CheckpointError):
        whole = _unpacked(_with_head(source)).float().eval()
        if hasattr(whole, "set_attn_implementation"):
            whole.set_attn_implementation("eager")
        made = build_bridge_from_module(
            whole,
            type(whole).__name__,
            hf_config=whole.config,
            tokenizer=copy.deepcopy(tokenizer),
        ).eval()
    if getattr(made.cfg, "attention_dir", "causal") == "causal":
        gap, scale = compared(lambda ids: _logits(source, ids), lambda ids: _logits(made, ids), made.cfg)
        if not gap <= 50 * EQUAL * scale:
            raise CheckpointError(
                f"transformer-lens's bridge of {kind} gives other logits than the model (apart by {number(gap)}): "
                "pass the model through an adapter"
            )
    return made


def _with_head(source: Any) -> Any:
    """A copy that transformer-lens has a bridge for: an encoder without a language head gets one, of noise.

    Whoever reads its logits is told (`readout=`); patterns and hidden states are the model's own.
    """
    import transformers

    kind = type(source).__name__
    if kind.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM")):
        return copy.deepcopy(source)
    whole = transformers.AutoModelForMaskedLM.from_config(source.config, trust_remote_code=False)
    base = getattr(source, source.base_model_prefix, source)
    said = getattr(whole, whole.base_model_prefix).load_state_dict(base.state_dict(), strict=False)
    if said.missing_keys:
        raise CheckpointError(f"{kind} lacks {quoted(said.missing_keys[0])} of {type(whole).__name__}")
    return whole


def _of_parts(bridge: Any) -> tuple[State, dict[str, Any]]:
    """A bridge's weights as its parts name them, and those of its settings that are TransformerLens's."""
    settings = {k: v for k, v in vars(bridge.cfg).items() if k in KNOWN}
    state: State = {"embed.W_E": bridge.embed.W_E, "unembed.W_U": bridge.unembed.W_U, "unembed.b_U": bridge.unembed.b_U}
    if getattr(bridge.original_model, "tok_embed", None) is not None:
        return lens.native_tensors(bridge.state_dict(), settings, "the bridge"), settings
    state["pos_embed.W_pos"] = bridge.pos_embed.W_pos
    norms = {"ln_final": bridge.ln_final}
    for layer, block in enumerate(bridge.blocks):
        at = f"blocks.{layer}."
        for part in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
            state[f"{at}attn.{part}"] = getattr(block.attn, part)
        for part in ("W_in", "b_in", "W_out", "b_out"):
            state[f"{at}mlp.{part}"] = getattr(block.mlp, part)
        norms |= {f"{at}ln1": block.ln1, f"{at}ln2": block.ln2}
    for name, norm in norms.items():
        state |= {f"{name}.w": norm.weight, f"{name}.b": norm.bias}
    return state, settings


def _proved(state: State, settings: dict[str, Any], source: str, run: Any) -> Ours:
    """The converted model, once it gives the logits that the original gives. Raises `InterpError`."""
    config = to_config(settings, None)
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    check_tensors(state, config, source)
    model = SandboxTransformer(config)
    model.load_state_dict(state)
    gap, scale = compared(run, model, config)
    if not gap <= EQUAL * scale:
        raise CheckpointError(f"copied into our blocks it gives other logits: they differ by {number(gap)}")
    return Ours(config, state, settings)


def compared(one: Any, other: Any, cfg: Any) -> tuple[float, float]:
    """(largest difference of two models' logits on random tokens, largest logit)."""
    most = getattr(cfg, "n_ctx", None)
    length = min(LENGTH, most) if isinstance(most, int) and most > 0 else LENGTH
    size = cfg.d_vocab
    ids = torch.randint(0, size, (ROWS, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        a, b = (run(ids).detach().cpu().double() for run in (one, other))
    return float((a - b).abs().max()), float(a.abs().max())


def _logits(model: Any, ids: Tensor) -> Tensor:
    """Logits of a bridge or a model of transformers, run in eval mode."""
    device = next(model.parameters()).device
    with undisturbed(model):
        out = model(ids.to(device))
    logits: Tensor = out if is_bridge(model) else out.logits
    return logits.float()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no warnings of transformers, which write over ours."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
