"""Other people's files: state dicts out of the wrappers of training scripts, folders, JSON. Nothing in them is run."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interp.checks import plain
from interp.errors import CheckpointError, ConfigError, RequestError, quoted
from interp.files import as_path
from interp.header import FOREIGN, METADATA_KEY
from interp.limits import read_whole
from interp.names import first_duplicate
from interp.tensor_files import read_safetensors, read_torch

State = dict[str, Tensor]
_WRAPPERS = ("state_dict", "model_state_dict", "model", "model_state", "params", "weights")
_BESIDE = ("model_args", "model_config", "config", "hyper_parameters", "args")  # where scripts write sizes
_INSIDE = ("._orig_mod.", "._fsdp_wrapped_module.")  # what compiling or sharding a block puts into its names
TENSORS = (*FOREIGN, ".safetensors")


@dataclass(frozen=True)
class Found:
    """A state dict, `source` in words, and what a training script wrote `beside` it of the model's sizes."""

    state: State
    source: str
    beside: Mapping[str, Any]


def read_state(weights: Mapping[str, Any] | str | Path) -> Found:
    """The tensors of a dict or file, with names as they are but for what wrappers put before and into them."""
    if isinstance(weights, Mapping):
        source, found = "the state dict", weights
    else:
        path = as_path(weights, "state dict", CheckpointError)
        source, found = repr(str(path)), _read(path)
    beside: Mapping[str, Any] = {}
    for _ in range(3):
        if isinstance(found, Mapping) and not any(isinstance(value, Tensor) for value in _weights(found)):
            inner = next((found[key] for key in _WRAPPERS if isinstance(found.get(key), Mapping)), None)
            if inner is not None:
                told = (found[key] for key in _BESIDE if isinstance(found.get(key), Mapping))
                beside = next(told, beside)
            found = found if inner is None else inner
    if not isinstance(found, Mapping) or not any(isinstance(value, Tensor) for value in found.values()):
        raise CheckpointError(f"{source} {_without_tensors(found)}: save model.state_dict()")
    for name, value in found.items():
        if isinstance(value, (list, tuple, np.ndarray)) and "." in str(name):  # so are weights called, and no lists
            kind = type(value).__name__
            raise CheckpointError(
                f"{source}: {quoted(name)} is of type {kind}, and weights are tensors: save model.state_dict()"
            )
    state = {_bare(str(name)): value for name, value in found.items() if isinstance(value, Tensor)}
    return Found(state, source, beside)


def _without_tensors(found: Any) -> str:
    """What there is where a state dict should be, in words."""
    if not isinstance(found, Mapping):
        return f"holds {type(found).__name__} and no tensors"
    if not found:
        return "is empty"
    name, value = next(iter(found.items()))
    first = f" ({quoted(name)} is of type {type(value).__name__})"
    return f"holds keys {', '.join(map(quoted, list(found)[:4]))} and no tensors{first}"


def _weights(found: Mapping[str, Any]) -> Iterator[Any]:
    """The values among which a tensor says that this is the state dict: a best loss beside it is none."""
    wrapped = any(isinstance(found.get(key), Mapping) for key in _WRAPPERS)
    return (value for value in found.values() if not (wrapped and isinstance(value, Tensor) and value.ndim == 0))


def _bare(name: str) -> str:
    for part in _INSIDE:
        name = name.replace(part, ".")
    return name.removeprefix("_orig_mod.")


def _read(path: Path) -> Any:
    name = repr(str(path))
    if not os.path.isfile(path):  # unlike Path.is_file, takes any name
        raise CheckpointError(
            f"no file or folder {name}, and nothing is downloaded: give a state dict saved by torch.save or safetensors"
            ", a GGUF file, or the folder of a Hugging Face model (model.save_pretrained(folder) writes it)"
        )
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


def files_of(folder: Path) -> tuple[Path, Path | None, Path | None]:
    """(the one file of tensors in a folder, its config.json, its vocab.json). Raises `CheckpointError`."""
    try:
        there = sorted(path for path in folder.iterdir() if path.suffix in TENSORS and path.is_file())
    except OSError as error:
        raise CheckpointError(f"cannot read {str(folder)!r}: {error.strerror or error}") from error
    if len(there) != 1:
        what = "no file of tensors" if not there else f"{len(there)} files of tensors ({there[0].name}, ...)"
        raise CheckpointError(
            f"the folder {str(folder)!r} holds {what}: give a folder with a config.json that says 'model_type' (a "
            f"Hugging Face model), one with a single {', '.join(TENSORS)}, or name the file"
        )
    config, vocab = folder / "config.json", folder / "vocab.json"
    return there[0], config if config.is_file() else None, vocab if vocab.is_file() else None


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder is a model that `save_pretrained` wrote: its config.json names a type of model.

    minGPT's config does so too: beside files of tensors that are none of Hugging Face's it says nothing.
    """
    path = folder / "config.json"
    if not path.is_file() or "model_type" not in settings_of(path):
        return False
    there = {one.suffix for one in folder.iterdir()}
    return bool(there & {".safetensors", ".bin"}) or not there & {*TENSORS}


def check_dense(name: str, tensor: Tensor, source: str) -> None:
    """Raise `CheckpointError` for a tensor that does not hold its numbers one by one."""
    what = None
    if tensor.is_nested:
        what = "is a nested tensor"
    elif tensor.is_meta:
        what = "is on the meta device and holds no numbers"
    elif tensor.layout != torch.strided:
        what = f"is {str(tensor.layout).removeprefix('torch.')}"
    if what is not None:
        raise CheckpointError(f"{source}: tensor {quoted(name)} {what}: save dense tensors, with their numbers")


def check_numbers(name: str, tensor: Tensor, source: str) -> None:
    """Raise `CheckpointError` for a tensor that is not one of finite floating-point numbers, one by one."""
    check_dense(name, tensor, source)
    if not tensor.is_floating_point():
        raise CheckpointError(f"{source}: tensor {quoted(name)} holds {tensor.dtype}, and weights are floating-point")
    if not bool(tensor.isfinite().all()):
        raise CheckpointError(f"{source}: tensor {quoted(name)} holds numbers that are not finite")


def settings_of(config: Any) -> dict[str, Any]:
    """A config's fields: a dict, a JSON file of one, or an object that has them."""
    given = config
    if isinstance(config, (str, Path)):
        told = read_json(config, "config")
        if not isinstance(told, Mapping):
            raise ConfigError(
                f"the config {str(config)!r} holds {quoted(told)}: an object of names and values is needed"
            )
        config = told
    if not isinstance(config, Mapping):
        config = config.to_dict() if hasattr(config, "to_dict") else getattr(config, "__dict__", None)
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"config={quoted(given)} is neither a dict, a JSON file of one, nor an object with TransformerLens's fields"
        )
    return {str(name): plain(value) for name, value in config.items()}


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
    raise ValueError(f"{constant} is not a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{quoted(digits)} is not a finite number")
    return number
