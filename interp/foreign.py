"""Other people's checkpoints: a TransformerLens `HookedTransformer` state dict as a `SandboxTransformer`.

    model = load_foreign("model.pt", "config.json", vocab=["[start]", "[pad]", "[end]", "a", "b"])

The weights are copied as they are and the model computes the same logits. What our blocks cannot compute is refused
with the name of the setting. A vocabulary in which a world finds its tokens is mapped onto that world's grammar: the
model's token ids are then the grammar's, and every analyzer serves it.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interp._foreign_config import to_config
from interp.checks import not_read, plain
from interp.config import TransformerConfig
from interp.errors import CheckpointError, ConfigError, RequestError, quoted
from interp.files import as_path
from interp.grammars import Grammar
from interp.header import METADATA_KEY
from interp.limits import read_whole
from interp.model import SandboxTransformer
from interp.names import first_duplicate
from interp.registry import world_of, worlds
from interp.tensor_files import read_safetensors, read_torch
from interp.torch_modes import ordinary_torch
from interp.vocabulary import Vocabulary, checked_names, find_token
from interp.world import Adopted

_WRAPPERS = ("state_dict", "model_state_dict", "model", "model_state", "params", "weights")
_PREFIXES = ("module.", "_orig_mod.", "model.")
_STALE = (".attn.mask", ".attn.IGNORE", ".attn.rotary_sin", ".attn.rotary_cos", ".attn.causal_mask")
NEVER = 30.0  # logits by which a token that the foreign model does not have stays below the mean of the others


@ordinary_torch()
def load_foreign(
    weights: Mapping[str, Any] | str | Path,
    config: Any,
    vocab: Any = None,
    *,
    grammar: Grammar | None = None,
    pad_token: int | str | None = None,
    max_depth: int | None = None,
    class_names: Sequence[str] | None = None,
) -> SandboxTransformer:
    """A model from a `HookedTransformer`'s state dict and config.

    - `weights`: the dict, or a file of it (`torch.save` of tensors, or safetensors); wrappers of training scripts
      ({"model": ...}, "module." before every name) are taken off.
    - `config`: a dict, a JSON file of it, or an object with TransformerLens's fields. Beside those it may say
      `pad_token`, `max_depth` and `class_names`, which the arguments of these names override. A setting that is
      neither read nor known to change nothing is refused.
    - `vocab`: names of the token ids, a list or {name: id}, or a JSON file of either. Without it the model takes ids.
      Texts get START first if the vocabulary has one, unless the config says `default_prepend_bos` False.
    - `grammar`: what the vocabulary is mapped onto, where a world knows how; default: the first world that finds its
      tokens in it.
    - `max_depth`: where that is a bounded language; default: 4 for a language model, and as deep as its inputs are
      long for a classifier.
    - `pad_token`: id or name of the token that is never attended to; default: the one that is usually called so.
    - `class_names`: of a classifier, what its outputs are called.

    Raises `ConfigError`, `CheckpointError`, `GrammarError` or `RequestError`, in one line.
    """
    settings = _settings(config)
    given = {"pad_token": pad_token, "max_depth": max_depth, "class_names": class_names}
    given = {name: settings.get(name) if value is None else value for name, value in given.items()}
    names = _names(vocab)
    settled = to_config(settings, given["class_names"])
    if names is not None and len(names) != settled.d_vocab:
        raise ConfigError(f"vocab names {len(names)} tokens, and the config's d_vocab is {settled.d_vocab}")
    state = state_of(weights)
    source = str(weights) if isinstance(weights, (str, Path)) else "a state dict"
    check_tensors(state, settled, source)
    order, language = _language(names, settled, grammar, given["max_depth"])
    prepends = _reads_texts_as(settings, language)
    pad = _pad(given["pad_token"], language, names, order, settled)
    if order is not None:
        state = _reordered(state, order, settled)
    if isinstance(language, Vocabulary):
        language = Vocabulary(language.names, language.start, language.end, pad, prepends)
    fields = settled.to_dict() | {"pad_token": pad, "d_vocab": len(order) if order else settled.d_vocab}
    if order is not None:
        fields["d_vocab_out"] = settled.d_out if is_classifier(settled) else None
    about = {"name": Path(source).stem, "source": "TransformerLens state dict", "trained": True}
    model = SandboxTransformer(TransformerConfig.from_dict(fields), language, about)
    model.load_state_dict(state)
    return model


# -- the file -----------------------------------------------------------------------------------------------


def state_of(weights: Mapping[str, Any] | str | Path) -> dict[str, Tensor]:
    """Tensors by TransformerLens's names, float32 on the CPU; buffers that only old versions keep are left out."""
    if isinstance(weights, Mapping):
        source, found = "the state dict", weights
    else:
        path = as_path(weights, "state dict", CheckpointError)
        source, found = repr(str(path)), _read(path)
    for _ in range(3):
        if isinstance(found, Mapping) and not any(isinstance(value, Tensor) for value in found.values()):
            inner = next((found[key] for key in _WRAPPERS if isinstance(found.get(key), Mapping)), None)
            found = found if inner is None else inner
    if not isinstance(found, Mapping) or not any(isinstance(value, Tensor) for value in found.values()):
        what = f"keys {', '.join(map(repr, list(found)[:4]))}" if isinstance(found, Mapping) else type(found).__name__
        raise CheckpointError(f"{source} holds {what} and no tensors: save model.state_dict()")
    state = {str(name): value for name, value in found.items() if isinstance(value, Tensor)}
    for _ in _PREFIXES:
        for prefix in _PREFIXES:
            if all(name.startswith(prefix) for name in state):
                state = {name.removeprefix(prefix): value for name, value in state.items()}
    return {name: value for name, value in state.items() if not name.endswith(_STALE)}


def _read(path: Path) -> Any:
    name = repr(str(path))
    if not os.path.isfile(path):  # unlike Path.is_file, takes any name
        raise CheckpointError(f"no file {name}: give a state dict saved by torch.save or safetensors")
    try:
        with path.open("rb") as file:
            begin = file.read(9)
    except OSError as error:
        raise CheckpointError(f"cannot read {name}: {error.strerror or error}") from error
    if begin[8:9] != b"{":
        return read_torch(path)
    metadata, tensors = read_safetensors(path)
    if METADATA_KEY in metadata:
        raise CheckpointError(f"{name} is a checkpoint of ours, which says all about itself: give no config")
    return tensors


def check_tensors(state: dict[str, Tensor], config: TransformerConfig, source: str) -> None:
    """Make them float32. Raises `CheckpointError` for the first tensor that is missing, unknown or of a wrong shape."""
    with torch.device("meta"):
        expected = {name: tuple(p.shape) for name, p in SandboxTransformer(config).named_parameters()}
    for name, shape in expected.items():
        if name not in state:
            folded = config.norm == "LN" and name.rsplit(".", 1)[-1] in ("w", "b")
            hint = " (weights with folded norms have normalization_type 'LNPre')" if folded else ""
            raise CheckpointError(f"{source}: tensor {quoted(name)} of shape {list(shape)} is missing{hint}")
    for name, tensor in state.items():
        _check_dense(name, tensor, source)
        if name not in expected:
            raise CheckpointError(
                f"{source}: tensor {quoted(name)} {list(tensor.shape)} does not belong to this config"
            )
        if tuple(tensor.shape) != expected[name]:
            raise CheckpointError(
                f"{source}: tensor {quoted(name)} has shape {list(tensor.shape)}, and the config needs "
                f"{list(expected[name])}"
            )
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{source}: tensor {quoted(name)} holds {tensor.dtype}, and weights are floating-point"
            )
        state[name] = tensor.detach().to("cpu", torch.float32)
        if not bool(state[name].isfinite().all()):
            raise CheckpointError(f"{source}: tensor {quoted(name)} holds numbers that are not finite")


def _check_dense(name: str, tensor: Tensor, source: str) -> None:
    what = None
    if tensor.is_nested:
        what = "is a nested tensor"
    elif tensor.is_meta:
        what = "is on the meta device and holds no numbers"
    elif tensor.layout != torch.strided:
        what = f"is {str(tensor.layout).removeprefix('torch.')}"
    if what is not None:
        raise CheckpointError(f"{source}: tensor {quoted(name)} {what}: save dense tensors, with their numbers")


# -- config and vocabulary ----------------------------------------------------------------------------------


def _settings(config: Any) -> dict[str, Any]:
    if isinstance(config, (str, Path)):
        config = read_json(config, "config")
    if not isinstance(config, Mapping):
        config = config.to_dict() if hasattr(config, "to_dict") else getattr(config, "__dict__", None)
    if not isinstance(config, Mapping):
        raise ConfigError("config is neither a dict, a JSON file of one, nor an object with TransformerLens's fields")
    return dict(config)


def _names(vocab: Any) -> tuple[str, ...] | None:
    if isinstance(vocab, (str, Path)):
        vocab = read_json(vocab, "vocab")
    if isinstance(vocab, Mapping):
        vocab = {name: plain(i) for name, i in vocab.items()}
        ids = list(vocab.values())
        whole = all(isinstance(i, int) and not isinstance(i, bool) for i in ids)
        if not whole or sorted(ids) != list(range(len(ids))):
            raise ConfigError(f"vocab maps tokens to ids {quoted(ids)}: each of 0 to {len(ids) - 1} once is needed")
        vocab = [name for name, _ in sorted(vocab.items(), key=lambda item: item[1])]
    return None if vocab is None else checked_names(vocab)


def read_json(path: str | Path, what: str) -> Any:
    """What a JSON file holds; `RequestError` in one line for one that cannot be read.

    Stricter than `json`: NaN and infinities are no numbers, and no name stands twice in an object.
    """
    data = read_whole(path, what)
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError, MemoryError) as error:
        raise RequestError(f"the {what} {str(path)!r} is not JSON: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := first_duplicate(name for name, _ in pairs)) is not None:
        raise ValueError(f"{quoted(twice)} stands twice in one object")
    return dict(pairs)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{quoted(digits)} is no finite number")
    return number


def _language(
    names: tuple[str, ...] | None, config: TransformerConfig, grammar: Grammar | None, max_depth: Any
) -> tuple[list[int | None] | None, Grammar | None]:
    """(the foreign id of each id of the grammar, or None where ids stay; the grammar or vocabulary)."""
    if grammar is not None:
        world = world_of(grammar)
        if world is None or world.adopt is None:
            known = ", ".join(sorted(kind.__name__ for one in worlds() if one.adopt for kind in one.grammars))
            raise RequestError(f"grammar={quoted(grammar)} is none that a vocabulary is mapped onto, such as {known}")
        not_read("grammar= has its own", max_depth=max_depth)
        if names is None:
            raise RequestError("a grammar is matched to token ids by the vocabulary: pass vocab=, a list of strings")
        found: Adopted | None = world.load("adopt")(names, grammar, None, is_classifier(config), config.n_ctx)
        assert found is not None
        return found.order, found.grammar
    for world in worlds() if names is not None else ():
        if world.adopt is not None:
            found = world.load("adopt")(names, None, max_depth, is_classifier(config), config.n_ctx)
            if found is not None:
                return found.order, found.grammar
    not_read("it bounds a language, and vocab= is of none that is bounded", max_depth=max_depth)
    return None, None if names is None else Vocabulary.of(names)


def _reads_texts_as(settings: Mapping[str, Any], language: Grammar | None) -> bool:
    """Whether texts get START first. Raises `ConfigError` for a reading of texts that the model would not have."""
    side, prepends = settings.get("default_padding_side"), settings.get("default_prepend_bos")
    if side not in (None, "right") and (language is not None or side != "left"):
        raise ConfigError(
            f"config setting default_padding_side={quoted(side)} is not supported: texts are padded on the 'right'; "
            "model.to_tokens(..., padding_side='left') does it once"
        )
    if prepends not in (None, True, False):
        raise ConfigError(f"config setting default_prepend_bos={quoted(prepends)} is neither True nor False")
    if prepends is False and not isinstance(language, (Vocabulary, type(None))):
        raise ConfigError(
            f"config setting default_prepend_bos=False is not supported for {quoted(language)}: every string of it "
            "begins with START; leave it out if the model was trained so, or load without vocab= and pass ids"
        )
    return prepends is not False


def _pad(
    told: Any,
    language: Grammar | None,
    names: tuple[str, ...] | None,
    order: list[int | None] | None,
    config: TransformerConfig,
) -> int | None:
    """Id of PAD as the loaded model counts."""
    if told is None:
        return getattr(language, "pad", None)
    if isinstance(told, str):
        found = (names or ()).index(told) if told in (names or ()) else find_token(Vocabulary.of(names or ("?",)), told)
        if found is None:
            raise ConfigError(f"pad_token={quoted(told)} is not in the vocabulary")
        told = found
    told = plain(told)
    if isinstance(told, bool) or not isinstance(told, int) or not 0 <= told < config.d_vocab:
        raise ConfigError(f"pad_token={quoted(told)} is no token id below d_vocab={config.d_vocab}")
    if order is None:
        if told == getattr(language, "start", None):
            raise ConfigError(
                f"pad_token={told} is {(names or ())[told]!r}, with which texts begin: no token attends to PAD, so it "
                "cannot be START too"
            )
        return told
    if order[-1] != told:
        raise ConfigError(
            f"pad_token={quoted(told)} is {(names or ())[told]!r}: in a vocabulary that is mapped onto a grammar PAD "
            "is called so"
        )
    return len(order) - 1


def is_classifier(config: TransformerConfig) -> bool:
    """Whether outputs are classes and not tokens: another number of them than of tokens, or names of their own."""
    return config.class_names is not None or config.d_out != config.d_vocab


def _reordered(state: dict[str, Tensor], order: list[int | None], config: TransformerConfig) -> dict[str, Tensor]:
    """Rows of W_E, and columns of W_U where outputs are tokens, in the grammar's order.

    Tokens that are not there are embedded as zero and stand in no input but as PAD, which nothing sees; as outputs
    they stay `NEVER` below the mean logit, so that they take no probability.
    """
    here = [at for at in order if at is not None]
    new = dict(state)
    embedding = state["embed.W_E"]
    new["embed.W_E"] = torch.stack([torch.zeros_like(embedding[0]) if at is None else embedding[at] for at in order])
    if not is_classifier(config):
        w, b = state["unembed.W_U"], state["unembed.b_U"]
        mean_w, mean_b = w[:, here].mean(1), b[here].mean() - NEVER
        new["unembed.W_U"] = torch.stack([mean_w if at is None else w[:, at] for at in order], dim=1)
        new["unembed.b_U"] = torch.stack([mean_b if at is None else b[at] for at in order])
    return new
