"""Reading a checkpoint's header without torch, so that listing checkpoints is instant.

A safetensors file is an 8-byte little-endian length, that many bytes of JSON, and the tensors. Ours
keep one metadata key (safetensors writes several in random order) that holds canonical JSON.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interp.errors import CheckpointError, quoted
from interp.limits import JSON_COST, check_memory, check_regular
from interp.names import did_you_mean, first_duplicate
from interp.registry import merged, worlds

METADATA_KEY = "interp"
FORMAT_VERSION = 1
MAX_HEADER_BYTES = 100_000_000  # beyond, safetensors reads no header
PRETRAINED = Path(__file__).parent / "pretrained"


def canonical_json(data: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def header_digest(meta: dict[str, Any]) -> str:
    """SHA-256 of everything in the header but the digest itself."""
    rest = {key: value for key, value in meta.items() if key != "digest"}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def read_header(path: str | Path) -> dict[str, Any]:
    """The metadata of one of our checkpoints, checked against its digest and the file's size.

    Raises `CheckpointError` naming the file when it is missing, truncated, foreign or edited.
    """
    path = Path(path)
    if name := constructed_at(path):
        about = {"name": name, "about": merged("constructed")[name], "trained": False, "constructed": True}
        world = next(world for world in worlds() if name in world.constructed)
        grammar = world.grammars[0]().to_dict()
        return {
            "version": FORMAT_VERSION, "kind": "model", "seeds": [0], "provenance": about, "history": [],
            "grammar": grammar,
        }  # fmt: skip
    size = check_regular(path, "checkpoint", CheckpointError)
    try:
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
            if length <= min(size, MAX_HEADER_BYTES):
                what = f"the header of {str(path)!r}, {length / 1e6:,.0f} MB,"
                check_memory(what, JSON_COST * length, "give a checkpoint of fewer seeds", CheckpointError)
            raw = file.read(length) if length <= MAX_HEADER_BYTES else b""
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    if length > MAX_HEADER_BYTES or not raw.startswith(b"{"):
        hint = ": a TransformerLens state dict needs --model-config" if path.suffix in (".pt", ".pth") else ""
        raise CheckpointError(f"{str(path)!r} is not a safetensors file{hint}")
    if len(raw) < length:
        raise CheckpointError(f"{str(path)!r} is truncated: its header needs {8 + length} bytes, it has {size}")
    try:
        entries = json.loads(raw)
        text = entries.pop("__metadata__", {}).get(METADATA_KEY)
        end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
    except (ValueError, AttributeError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged: its safetensors header does not parse") from error
    if text is None:
        raise CheckpointError(
            f"{str(path)!r} is a foreign safetensors file: it has no {quoted(METADATA_KEY)} metadata, "
            "so save_checkpoint did not write it"
        )
    if size != 8 + length + end:
        raise CheckpointError(f"{str(path)!r} is truncated or damaged: {size} bytes where {8 + length + end} belong")
    return _check_metadata(path, text)


def _check_metadata(path: Path, text: str) -> dict[str, Any]:
    try:
        meta = json.loads(text)
        version, digest = meta["version"], meta["digest"]
        intact = digest == header_digest(meta)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged: its metadata does not parse") from error
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{str(path)!r} has format version {quoted(version)}; this release reads {FORMAT_VERSION}"
        )
    if not intact:
        raise CheckpointError(f"{str(path)!r} has been edited or damaged: its metadata does not match its digest")
    if wrong := wrong_entry(meta):
        raise CheckpointError(
            f"{str(path)!r} was not written by save_checkpoint: its metadata has no valid {quoted(wrong)}"
        )
    return meta


def wrong_entry(meta: dict[str, Any]) -> str | None:
    """The first entry that is missing or of another form than its readers expect, or None."""
    seeds = meta.get("seeds")
    many = isinstance(seeds, list) and len(seeds) > 0 and all(map(_whole, seeds)) and len(set(seeds)) == len(seeds)
    grammar, history, snapshots = meta.get("grammar", 0), meta.get("history"), meta.get("snapshots")
    checks = {
        "seeds": many,
        "kind": meta.get("kind") == "population" or (meta.get("kind") == "model" and many and len(seeds or []) == 1),
        "config": isinstance(meta.get("config"), dict),
        "grammar": grammar is None or isinstance(grammar, dict),
        "vocabulary": _words(meta.get("vocabulary")) or (grammar is None and meta.get("vocabulary", 0) is None),
        "provenance": isinstance(meta.get("provenance"), dict),
        "history": isinstance(history, list) and all(map(_is_row, history)),
        "snapshots": isinstance(snapshots, list) and all(map(_whole, snapshots)) and first_duplicate(snapshots) is None,
        "digests": _words(meta.get("digests")) and len(meta["digests"]) > 0,
    }
    if wrong := next((name for name, good in checks.items() if not good), None):
        return wrong
    told = meta["provenance"]
    return next((f"provenance[{k!r}]" for k, good in _PROVENANCE.items() if k in told and not good(told[k])), None)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_row(row: object) -> bool:
    """A row of the table of measurements: seed, step, and whatever was measured, numbers where these are known."""
    measured = {"loss", "accuracy", "excess", *(name for world in worlds() for name in world.measures)}
    return (
        isinstance(row, dict)
        and _whole(row.get("seed"))
        and _whole(row.get("step"))
        and all(
            value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
            for name, value in row.items()
            if name in measured or name.startswith(("norm/", "rung/"))
        )
    )


def _is_diverged(value: object) -> bool:
    """Step by seed; seeds are written as text."""
    return isinstance(value, dict) and all(
        isinstance(seed, str) and seed.isascii() and seed.isdigit() and len(seed) <= 10 and _whole(step)
        for seed, step in value.items()
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


# What is read later of a checkpoint's provenance, and of what kind it has to be where it is told.
_PROVENANCE: dict[str, Callable[[object], bool]] = {
    "name": _is_text,
    "about": _is_text,
    "target": _is_text,
    "trained": lambda value: isinstance(value, bool),
    "seeded": lambda value: isinstance(value, bool),
    "settings": lambda value: value is None or isinstance(value, dict),
    "versions": _is_table,
    "diverged": _is_diverged,
    "step": _whole,
}


GGUF = ".gguf"
FOREIGN = (".pt", ".pth", ".ckpt", ".bin", GGUF)  # what torch and llama.cpp write: never a checkpoint of ours


def constructed_at(path: Path) -> str | None:
    """Name of the constructed model whose address `path` is, None for any other path and for a file."""
    return None if os.path.isfile(path) else _addresses().get(path)


def _addresses() -> dict[Path, str]:
    """Models that are built when loaded: these paths are addresses, with no file behind them."""
    return {PRETRAINED / f"{name}.safetensors": name for name in merged("constructed")}


def only_checkpoint(folder: Path) -> Path | None:
    """The one file of tensors in a folder, if it is a checkpoint of this package; else None."""
    try:
        there = [path for path in folder.iterdir() if path.suffix in (*FOREIGN, ".safetensors")]
    except OSError:
        return None
    return there[0] if len(there) == 1 and not is_theirs(there[0]) else None


def is_ours(name_or_path: str | Path) -> bool:
    """Whether it names a checkpoint of this package, if also a damaged one: bundled, a file, or a folder with one."""
    path = Path(name_or_path)
    if str(name_or_path) in list_pretrained():
        return True
    return only_checkpoint(path) is not None if os.path.isdir(path) else os.path.isfile(path) and not is_theirs(path)


def is_theirs(name_or_path: str | Path) -> bool:
    """Whether it is a file of tensors that no part of this package wrote. A damaged file of ours is not."""
    path = Path(name_or_path)
    if str(name_or_path) in list_pretrained() or not os.path.isfile(path):
        return False
    if path.suffix in FOREIGN:
        return True
    try:
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
            entries = json.loads(file.read(length)) if length <= min(MAX_HEADER_BYTES, path.stat().st_size) else {}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(entries, dict) and bool(entries) and METADATA_KEY not in (entries.get("__metadata__") or {})


def list_pretrained() -> list[str]:
    """Names of the checkpoints that ship with the package, constructed models included, for `load_checkpoint`.

        >>> from interp import list_pretrained
        >>> "constructed/stack" in list_pretrained()
        True

    Raises nothing.
    """
    paths = {*PRETRAINED.rglob("*.safetensors"), *(p for p in _addresses() if p.is_relative_to(PRETRAINED))}
    return sorted(str(p.relative_to(PRETRAINED).with_suffix("")) for p in paths)


def find_checkpoint(name_or_path: str | Path) -> Path:
    """A bundled checkpoint's file (a constructed model's address) for its name, or the path itself.

    Raises `CheckpointError`.
    """
    if not isinstance(name_or_path, (str, Path)):
        raise CheckpointError(f"a checkpoint is named by text or a path, not by {quoted(name_or_path)}")
    name = str(name_or_path)
    names = list_pretrained()
    if name in names:
        return PRETRAINED / f"{name}.safetensors"
    path = Path(name_or_path)
    if os.path.isfile(path):  # unlike Path.is_file, takes any name
        return path
    if os.path.isdir(path):
        if (only := only_checkpoint(path)) is not None:
            return only
        raise CheckpointError(f"{str(name)!r} is a folder; name the .safetensors file in it")
    hint = did_you_mean(name, names)
    raise CheckpointError(
        f"no file and no bundled checkpoint {str(name)!r}{hint}; bundled are {', '.join(names) or 'none'}"
    )
