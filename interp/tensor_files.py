"""Files of tensors, ours and other people's: read whole or refused in one line, whatever lies in them."""

import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from interp.errors import CheckpointError, quoted
from interp.limits import JSON_COST, check_memory, check_regular

COPIES = 3.0  # of a file's tensors that are held while they are read, checked and put into models


def read_safetensors(path: Path, copies: float = COPIES) -> tuple[dict[str, str], dict[str, Tensor]]:
    """(metadata, tensors) of a safetensors file. Raises `CheckpointError` for whatever is none, or too large."""
    name = repr(str(path))
    size = check_regular(path, "checkpoint", CheckpointError)
    if not is_utf8(path):
        raise CheckpointError(f"cannot read {name}: safetensors opens no file whose name is not UTF-8; rename it")
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise CheckpointError(f"cannot read {name}: {error.strerror or error}") from error
    length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
    if length <= size:  # else it is no such file, which the library says
        _check_header(name, length)
        check_memory(f"{name} of {in_mb(size)}", copies * size, "give a smaller file", CheckpointError)
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            metadata = dict(opened.metadata() or {})
            return metadata, {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118 - not a mapping
    except Exception as error:  # the library and torch have several kinds for what may be wrong
        raise CheckpointError(f"{name} is a damaged safetensors file: {_reason(error)}") from error


def check_finite(params: Mapping[str, Tensor], seeds: tuple[int, ...], where: str = "") -> None:
    """Raise `CheckpointError`, naming tensor and seed, where weights [seed, ...] hold NaN or infinities."""
    for name, tensor in params.items():
        for seed, values in zip(seeds, tensor, strict=True):  # a seed at a time: no copy of all
            if not bool((values if values.element_size() > 1 else values.float()).isfinite().all()):
                raise CheckpointError(f"tensor {quoted(where + name)} of seed {seed} holds numbers that are not finite")


def read_torch(path: Path, copies: float = COPIES) -> Any:
    """What `torch.save` wrote, tensors only: nothing that could run is unpickled. Raises `CheckpointError`."""
    name = repr(str(path))
    size = _unpacked(path, check_regular(path, "state dict", CheckpointError))
    check_memory(f"{name} of {in_mb(size)}", copies * size, "give a smaller file", CheckpointError)
    try:
        # From an open file: given a path, torch would take one that ends in .safetensors for what its name says.
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of pickle protocols, before what is wrong is said in one line
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "GLOBAL" in str(error):
            raise CheckpointError(
                f"{name} holds more than tensors (a whole model or a config), which is never unpickled: save "
                "model.state_dict()"
            ) from error
        raise CheckpointError(f"{name} is not a torch file of tensors, or a damaged one") from error
    except Exception as error:  # a damaged pickle or archive breaks torch's reader in any way
        raise CheckpointError(f"{name} is truncated or damaged, or not a torch file of tensors") from error


def is_utf8(path: str | Path) -> bool:
    """Whether the file's name is text: bytes that are none come as lone surrogates."""
    return not any("\ud800" <= ch <= "\udfff" for ch in str(path))


def in_mb(size: float) -> str:
    """A number of bytes in megabytes."""
    return f"{size / 1e6:,.0f} MB"


def _unpacked(path: Path, size: int) -> int:
    """Bytes of a file's contents: an archive says of each how large it becomes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return max(size, sum(entry.file_size for entry in archive.infolist()))
    except Exception:  # no archive, or a damaged one, which torch will say
        return size


def _check_header(name: str, length: int) -> None:
    check_memory(f"the header of {name}, {in_mb(length)}", JSON_COST * length, "give a smaller file", CheckpointError)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
