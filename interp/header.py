"""Reading a checkpoint's header without torch, so that listing checkpoints is instant.

A safetensors file is an 8-byte little-endian length, that many bytes of JSON, and the tensors. Ours
keep one metadata key (safetensors writes several in random order) that holds canonical JSON.
"""

import difflib
import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

from interp.errors import CheckpointError

METADATA_KEY = "interp"
FORMAT_VERSION = 1
MAX_HEADER_BYTES = 100_000_000
PRETRAINED = Path(__file__).parent / "pretrained"
CONSTRUCTED = {
    "constructed/balanced": "Theorem 1: matched pairs cancel under a balanced, non-uniform attention; exact law",
    "constructed/uniform": "Corollary 1: uniform attention in both layers, no positions; exact law",
    "constructed/stack": "layer 1 finds the depth, layer 2 attends to the last unmatched opener; exact law",
    "constructed/constant": "Proposition 1: the attention of constructed/stack, a constant output",
}
# Built by `interp.constructed` when loaded: these paths are addresses, with no file behind them.
_ADDRESSES = {PRETRAINED / f"{name}.safetensors": name for name in CONSTRUCTED}


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
        about = {"name": name, "about": CONSTRUCTED[name], "trained": False, "constructed": True}
        return {"version": FORMAT_VERSION, "kind": "model", "seeds": [0], "provenance": about, "history": []}
    if path.exists() and not path.is_file():
        raise CheckpointError(f"cannot read {str(path)!r}: it is no regular file")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER_BYTES + 1
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
            f"{str(path)!r} is a foreign safetensors file: it has no {METADATA_KEY!r} metadata, "
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
        raise CheckpointError(f"{str(path)!r} has format version {version!r}; this release reads {FORMAT_VERSION}")
    if not intact:
        raise CheckpointError(f"{str(path)!r} has been edited or damaged: its metadata does not match its digest")
    if wrong := _wrong_entry(meta):
        raise CheckpointError(f"{str(path)!r} was not written by save_checkpoint: its metadata has no valid {wrong!r}")
    return meta


def _wrong_entry(meta: dict[str, Any]) -> str | None:
    """The first entry that is missing or of another form than `save_checkpoint` writes, or None."""

    def whole(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0

    def words(value: object) -> bool:
        return isinstance(value, list) and all(isinstance(v, str) for v in value)

    seeds = meta.get("seeds")
    many = isinstance(seeds, list) and len(seeds) > 0 and all(map(whole, seeds)) and len(set(seeds)) == len(seeds)
    history, provenance = meta.get("history"), meta.get("provenance")
    diverged = provenance.get("diverged", {}) if isinstance(provenance, dict) else None
    grammar, snapshots = meta.get("grammar", 0), meta.get("snapshots")
    checks = {
        "seeds": many,
        "kind": meta.get("kind") == "population" or (meta.get("kind") == "model" and many and len(seeds or []) == 1),
        "config": isinstance(meta.get("config"), dict),
        "grammar": grammar is None or isinstance(grammar, dict),
        "vocabulary": words(meta.get("vocabulary")) or (grammar is None and meta.get("vocabulary", 0) is None),
        "provenance": isinstance(diverged, dict),
        "history": isinstance(history, list)
        and all(isinstance(r, dict) and whole(r.get("seed")) and whole(r.get("step")) for r in history),
        "snapshots": isinstance(snapshots, list) and all(map(whole, snapshots)),
        "digests": words(meta.get("digests")) and len(meta["digests"]) > 0,
    }
    return next((name for name, good in checks.items() if not good), None)


def constructed_at(path: Path) -> str | None:
    """Name of the constructed model whose address `path` is, None for any other path and for a file."""
    return None if path.is_file() else _ADDRESSES.get(path)


def list_pretrained() -> list[str]:
    """Names of the checkpoints that ship with the package, constructed models included, for `load_checkpoint`."""
    paths = {*PRETRAINED.rglob("*.safetensors"), *(p for p in _ADDRESSES if p.is_relative_to(PRETRAINED))}
    return sorted(str(p.relative_to(PRETRAINED).with_suffix("")) for p in paths)


def find_checkpoint(name_or_path: str | Path) -> Path:
    """A bundled checkpoint's file (a constructed model's address) for its name, or the path itself.

    Raises `CheckpointError`.
    """
    if not isinstance(name_or_path, (str, Path)):
        raise CheckpointError(f"a checkpoint is named by text or a path, not by {name_or_path!r}")
    name = str(name_or_path)
    names = list_pretrained()
    if name in names:
        return PRETRAINED / f"{name}.safetensors"
    path = Path(name_or_path)
    if os.path.isfile(path):  # unlike Path.is_file, takes any name
        return path
    if os.path.isdir(path):
        raise CheckpointError(f"{name!r} is a folder; name the .safetensors file in it")
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise CheckpointError(f"no file and no bundled checkpoint {name!r}{hint}; bundled are {', '.join(names) or 'none'}")
