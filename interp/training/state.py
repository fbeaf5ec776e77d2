"""The state of a chunk on disk: what `--resume` continues from."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interp.checkpoints import write_tensors
from interp.errors import CheckpointError
from interp.functional import Params
from interp.header import METADATA_KEY, canonical_json
from interp.tensor_files import check_finite, read_safetensors
from interp.training.loop import ChunkState, Timing


def write_state(path: Path, state: ChunkState, plan_digest: str, timing: Timing) -> None:
    """Write atomically; `plan_digest` ties the state to its run."""
    tensors = {f"params/{n}": p for n, p in state.params.items()}
    for key, values in state.moments.items():
        tensors |= {f"moments/{key}/{n}": v for n, v in values.items()}
    for step, params in state.snapshots.items():
        tensors |= {f"snapshots/{step}/{n}": p for n, p in params.items()}
    meta = {
        "plan": plan_digest,
        "seeds": list(state.seeds),
        "step": state.step,
        "history": state.history,
        "diverged": list(state.diverged.items()),
        "timing": [timing.training, timing.evaluation],
    }
    write_tensors(path, tensors, {**meta, "digest": _digest(meta, tensors)})


def _digest(meta: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 of a state: to continue from a damaged one would silently give another population."""
    sha = hashlib.sha256(canonical_json(meta).encode())
    for name in sorted(tensors):
        kind = "" if tensors[name].dtype == torch.float32 else str(tensors[name].dtype)
        sha.update(f"{name}{kind}{list(tensors[name].shape)}".encode())
        sha.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def read_state(path: Path, plan_digest: str) -> tuple[ChunkState, Timing]:
    """Read what `write_state` wrote. Raises `CheckpointError` for damage or another run's state."""
    try:
        metadata, tensors = read_safetensors(path)
        meta: dict[str, Any] = json.loads(metadata[METADATA_KEY])
        if meta.pop("digest") != _digest(meta, tensors):
            raise ValueError("its digest does not match")
        groups: dict[str, Params] = {}
        for name, tensor in tensors.items():
            group, _, leaf = name.rpartition("/")
            groups.setdefault(group, {})[leaf] = tensor
        state = ChunkState(
            tuple(meta["seeds"]),
            meta["step"],
            groups["params"],
            {g.removeprefix("moments/"): p for g, p in groups.items() if g.startswith("moments/")},
            meta["history"],
            {int(g.removeprefix("snapshots/")): p for g, p in groups.items() if g.startswith("snapshots/")},
            dict(meta["diverged"]),
        )
        for group, params in groups.items():
            if not group.startswith("moments/"):  # squares of gradients may be infinite, weights never are
                check_finite(params, state.seeds)
        timing = Timing(*meta["timing"])
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except Exception as error:  # whatever it is, these bytes are not what was written
        raise CheckpointError(f"{str(path)!r} is damaged; remove it to train its seeds again: {error}") from error
    if meta["plan"] != plan_digest:
        raise CheckpointError(f"{str(path)!r} belongs to another run; remove its folder to start over")
    return state, timing
