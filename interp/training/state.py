"""The state of a chunk on disk: what `--resume` continues from."""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from interp.errors import CheckpointError
from interp.files import replacing
from interp.functional import Params
from interp.header import METADATA_KEY, canonical_json
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
    with replacing(path) as temporary:
        safetensors.torch.save_file(tensors, temporary, metadata={METADATA_KEY: canonical_json(meta)})


def read_state(path: Path, plan_digest: str) -> tuple[ChunkState, Timing]:
    """Read what `write_state` wrote. Raises `CheckpointError` for damage or another run's state."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            meta: dict[str, Any] = json.loads(file.metadata()[METADATA_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
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
        timing = Timing(*meta["timing"])
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged; remove it to train its seeds again") from error
    if meta["plan"] != plan_digest:
        raise CheckpointError(f"{str(path)!r} belongs to another run; remove its folder to start over")
    return state, timing
