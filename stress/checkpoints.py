"""Mutated checkpoints: none may load as anything but what was saved, and every refusal is one of our errors.

A population, a single model, a model with snapshots and the state of an unfinished run are written, a few KB each,
and mutated: bits, bytes and blocks, cuts and additions, lengths, headers of one file before the tensors of another,
entries of the safetensors header, entries of our metadata with every outer length put right, twice the same key, and
metadata whose own digest was made anew, as a forger would. A load that succeeds must give the original content bit
for bit (a forger may change what no digest of the weights covers, provenance and history; what is then shown of the
model must not fail either).
"""

import json
import math
import struct
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from stressing import Arguments, Report, main

from interp import Population, SandboxTransformer, load_checkpoint, load_foreign, save_checkpoint
from interp.checkpoints import seed_digests
from interp.config import TransformerConfig
from interp.errors import CheckpointError, InterpError
from interp.grammars import DyckGrammar
from interp.header import METADATA_KEY, canonical_json, header_digest, read_header
from interp.presets import make_recipe
from interp.training.loop import Timing, initial_state
from interp.training.state import _digest as state_digest
from interp.training.state import read_state, write_state

PLAN = "plan"


# -- the files ---------------------------------------------------------------------------------------------------


def config(**changes: Any) -> TransformerConfig:
    settings = {"n_layers": 1, "d_model": 4, "d_head": 4, "d_mlp": 4, "n_ctx": 8, "pad_token": 6}
    return TransformerConfig(7, **{**settings, **changes})


def population(seeds: tuple[int, ...], **changes: Any) -> Population:
    made = Population.init(config(**changes), seeds, DyckGrammar(2, 3))
    history = tuple({"seed": s, "step": step, "loss": 1.5 + s} for step in (0, 9) for s in seeds)
    provenance = {"name": "tiny", "trained": True, "diverged": {}, "settings": {"lr": 0.003}}
    return Population(made.config, made.grammar, made.params, seeds, provenance, history, {0: made.params})


def originals(folder: Path) -> dict[str, tuple[bytes, Callable[[Path], Any], Any]]:
    """Name -> (bytes, how it is read, its content)."""
    found: dict[str, tuple[bytes, Callable[[Path], Any], Any]] = {}
    for name, model in {
        "population": population((0, 1)),
        "other seeds": population((2, 5)),
        "other weights": population((0, 1), norm="LNPre"),
        "model": SandboxTransformer.init(config(), 3, DyckGrammar(2, 3)),
    }.items():
        path = save_checkpoint(model, folder / "x.safetensors")
        found[name] = (path.read_bytes(), load_checkpoint, content(load_checkpoint(path)))
    recipe = make_recipe("dyck-minimal", {"width": 17}, steps=4, batch=2)
    path = folder / "x.safetensors"
    write_state(path, initial_state(recipe, (0, 1)), PLAN, Timing(1.0, 2.0))
    found["state"] = (path.read_bytes(), lambda p: read_state(p, PLAN), content(read_state(path, PLAN)))
    return found | foreign(folder)


def foreign(folder: Path) -> dict[str, tuple[bytes, Callable[[Path], Any], Any]]:
    """State dicts of another library: they carry no digest, so changed numbers cannot be told from others."""
    settings = {
        "n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_mlp": 4, "n_ctx": 8, "d_vocab": 7,
        "act_fn": "relu", "normalization_type": "LN",
    }  # fmt: skip
    model = SandboxTransformer.init(config(positions="learned", activation="relu"), 0)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def load(path: Path) -> Any:
        return load_foreign(path, settings)

    found: dict[str, tuple[bytes, Callable[[Path], Any], Any]] = {}
    for name, save in {"foreign .pt": torch.save, "foreign safetensors": safetensors.torch.save_file}.items():
        path = folder / "x.safetensors"
        save(weights, path)
        found[name] = (path.read_bytes(), load, content(load(path)))
    return found


def content(loaded: Any) -> Any:
    """All that was loaded, comparable bit for bit."""
    if isinstance(loaded, torch.Tensor):
        held = loaded.detach().contiguous().reshape(-1).view(torch.uint8)
        return str(loaded.dtype), tuple(loaded.shape), held.numpy().tobytes()
    if isinstance(loaded, SandboxTransformer):
        loaded = {"model": dict(loaded.named_parameters()), "config": loaded.config, "grammar": loaded.grammar,
                  "provenance": loaded.provenance}  # fmt: skip
    if isinstance(loaded, Population) or hasattr(loaded, "moments"):
        loaded = vars(loaded)
    if isinstance(loaded, dict):
        return {str(key): content(value) for key, value in loaded.items()}
    if isinstance(loaded, (list, tuple)):
        return [content(value) for value in loaded]
    return repr(loaded)


def difference(a: Any, b: Any, path: str = "") -> str:
    """Where two contents first differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((found for key in a if (found := difference(a[key], b[key], f"{path}.{key}"))), "")
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return next((found for i in range(len(a)) if (found := difference(a[i], b[i], f"{path}.{i}"))), "")
    return "" if a == b else f"{path}: {str(a)[:100]} became {str(b)[:100]}"


WEIGHTS = ("model", "params", "config", "grammar", "seeds", "snapshots", "moments", "step")


def weights(held: Any) -> Any:
    """What the digests of the weights cover."""
    return {key: value for key, value in held.items() if key in WEIGHTS} if isinstance(held, dict) else held


# -- mutations ---------------------------------------------------------------------------------------------------


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file's header and tensors."""
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: dict[str, Any] | bytes, tensors: bytes) -> bytes:
    """A file whose length prefix is right."""
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + tensors


def bits(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def blocks(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    out, size = bytearray(data), int(rng.choice([1, 4, 16, 512]))
    at = int(rng.integers(len(out)))
    kind = rng.integers(4)
    if kind == 0:
        out[at : at + size] = bytes(size)
    elif kind == 1:
        out[at : at + size] = b"\xff" * size
    elif kind == 2:
        out[at : at + size] = rng.bytes(size)
    else:
        other = int(rng.integers(len(out)))
        out[at : at + size], out[other : other + size] = out[other : other + size], out[at : at + size]
    return bytes(out)


def cuts(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
    kind = rng.integers(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[at:]
    if kind == 2:
        return data[:at] + data[at + size :]
    if kind == 3:
        return data[:at] + rng.bytes(size) + data[at:]
    if kind == 4:
        return data + rng.bytes(size)
    return data[:at] + bytes(len(data) - at)


def lengths(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    true = struct.unpack("<Q", data[:8])[0]
    said = (0, 1, true - 8, true - 1, true + 1, true + 8, len(data), 2**31, 2**40, 2**63 - 1, 2**64 - 1)
    return struct.pack("<Q", said[int(rng.integers(len(said)))]) + data[8:]


def splices(data: bytes, rng: np.random.Generator, others: dict[str, bytes]) -> bytes:
    """The header of one file before the tensors of another, or a seam anywhere."""
    other = others[str(rng.choice(sorted(others)))]
    if data[8:9] != b"{" or other[8:9] != b"{" or rng.integers(3) == 0:
        at = int(rng.integers(min(len(data), len(other))))
        return data[:at] + other[at:]
    (header, tensors), (header2, tensors2) = parts(data), parts(other)
    if rng.integers(2):
        return joined(header, tensors2)
    header["__metadata__"] = header2.get("__metadata__", {})
    return joined(header, tensors)


def entries(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    """The safetensors header, edited, its length put right."""
    header, tensors = parts(data)
    names = [name for name in header if name != "__metadata__"]
    a, b = (str(name) for name in rng.choice(names, 2, replace=False))
    kind = rng.integers(11)
    if kind == 0:  # two tensors change places
        header[a]["data_offsets"], header[b]["data_offsets"] = header[b]["data_offsets"], header[a]["data_offsets"]
    elif kind == 1:
        header[a], header[b] = header[b], header[a]
    elif kind == 2:
        del header[a]
    elif kind == 3:
        header[str(rng.choice([a + "x", "params/new", "", "snapshots/9/" + a, "__metadata", a.upper()]))] = header[a]
    elif kind == 4:
        header[a]["dtype"] = str(rng.choice(["F16", "BF16", "F64", "I32", "U8", "BOOL", "F8_E4M3", "X", "C64"]))
    elif kind == 5:
        true = header[a]["shape"]
        shapes = [[], [0], [-1], true[::-1], [*true, 1], [2**62, 4], ["2"], None]
        header[a]["shape"] = shapes[int(rng.integers(len(shapes)))]
    elif kind == 6:
        start, end = header[a]["data_offsets"]
        offsets = [
            [start, end + 4], [start - 4, end], [end, start], [0, 0], [0, end - start], [-8, -4], [start, 2**63],
            [start + 0.5, end], "ab", [start],
        ]  # fmt: skip
        header[a]["data_offsets"] = offsets[int(rng.integers(len(offsets)))]
    elif kind == 7:  # the rows of two seeds of one tensor
        start, end = header[a]["data_offsets"]
        half = (end - start) // 2
        if tensors[start : start + half] != tensors[start + half : end]:
            tensors = tensors[:start] + tensors[start + half : end] + tensors[start : start + half] + tensors[end:]
    elif kind == 8:
        true = header["__metadata__"][METADATA_KEY]
        others = [{}, None, [], "x", {METADATA_KEY: 3}, {METADATA_KEY: ""}, {"other": true}]
        header["__metadata__"] = others[int(rng.integers(len(others)))]
    elif kind == 9:  # JSON that only some parsers take
        raw = json.dumps(header, separators=(",", ":"))
        twice = f'"{a}":{json.dumps(header[b])},'
        odd = [
            raw[0] + twice + raw[1:], raw[:-1] + "," + twice[:-1] + "}", raw.replace(":[", ":[NaN,", 1), raw + "}",
            "[" * 3000, raw.replace('"F32"', '"F\\u0033\\u0032"', 1),
        ]  # fmt: skip
        return joined(odd[int(rng.integers(len(odd)))].encode(), tensors)
    else:
        header[a] = [None, 3, [], {}, {"dtype": "F32"}][int(rng.integers(5))]
    return joined(header, tensors)


def leaves(thing: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in nested JSON."""
    inside = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    return [path, *(found for key, value in inside for found in leaves(value, (*path, key)))]


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**30, 1.5, 1e308, "", "x", "0", "LNPre", [], [0], [[]], {}, {"0": 1},
    "\ud800", "\x1b[31m", "a" * 3000, [1, 2, 3], {"kind": "dyck"},
)  # fmt: skip


def edited(meta: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One entry, somewhere, of another value, gone, or one too many."""
    found = [path for path in leaves(meta) if path]
    path = found[int(rng.integers(len(found)))]
    inside: Any = meta
    for key in path[:-1]:
        inside = inside[key]
    kind = rng.integers(4)
    if kind == 0:
        del inside[path[-1]]
    elif kind == 1 and isinstance(inside, dict):
        inside[str(rng.choice(["new", "n_layers", "seed", "0", ""]))] = VALUES[int(rng.integers(len(VALUES)))]
    elif kind == 2 and isinstance(inside[path[-1]], (int, float)) and not isinstance(inside[path[-1]], bool):
        inside[path[-1]] += int(rng.choice([-1, 1, 100]))
    else:
        inside[path[-1]] = VALUES[int(rng.integers(len(VALUES)))]
    return meta


def metadata(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    """Our metadata, edited, or with a key twice, every outer length put right."""
    header, tensors = parts(data)
    text = header["__metadata__"][METADATA_KEY]
    kind = rng.integers(3)
    if kind == 0:
        meta = json.loads(text)
        key = str(rng.choice(sorted(meta)))
        other = VALUES[int(rng.integers(len(VALUES)))]
        twice = f'"{key}":{json.dumps(other)},'
        text = text[0] + twice + text[1:] if rng.integers(2) else text[:-1] + "," + twice[:-1] + "}"
    else:
        text = json.dumps(edited(json.loads(text), rng), sort_keys=bool(kind == 1))
    header["__metadata__"][METADATA_KEY] = text
    return joined(header, tensors)


def forged(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    """Our metadata, edited, and its digest made anew: what no digest of the weights covers may differ."""
    header, tensors = parts(data)
    meta = edited(json.loads(header["__metadata__"][METADATA_KEY]), rng)
    if "digest" in meta and "version" in meta:  # a state of a run has one digest over everything
        meta["digest"] = header_digest(meta)
    try:
        header["__metadata__"][METADATA_KEY] = canonical_json(meta)
    except ValueError:
        return b""
    return joined(header, tensors)


def poisoned(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    """A number that is none, with every digest made anew."""
    header, _tensors = parts(data)
    tensors = safetensors.torch.load(data)
    name = str(rng.choice(sorted(name for name in tensors if not name.startswith("moments/"))))
    flat = tensors[name].reshape(-1)
    flat[int(rng.integers(len(flat)))] = (math.nan, math.inf, -math.inf)[int(rng.integers(3))]
    meta = json.loads(header["__metadata__"][METADATA_KEY])
    if "digests" in meta:
        meta["digests"] = seed_digests(meta, tensors)
        meta["digest"] = header_digest(meta)
    else:
        del meta["digest"]
        meta["digest"] = state_digest(meta, tensors)
    return bytes(safetensors.torch.save(tensors, {METADATA_KEY: canonical_json(meta)}))


def harmless(data: bytes, rng: np.random.Generator, _: dict[str, bytes]) -> bytes:
    """Other bytes that say the same: notes of one's own, another order, white space. They have to load."""
    header, tensors = parts(data)
    text = header.get("__metadata__", {}).get(METADATA_KEY)
    kind = int(rng.integers(6 if text is not None else 4))
    if kind == 0:
        header.setdefault("__metadata__", {})[str(rng.choice(["mine", "format", "", "\x1b[31m"]))] = "a note"
    elif kind == 1:
        names = [str(name) for name in rng.permutation(list(header))]
        header = {name: header[name] for name in names}
    elif kind == 2:
        return joined(json.dumps(header).encode() + b" " * int(rng.integers(1, 4000)), tensors)
    elif kind == 3:
        return joined(json.dumps(header, indent=2).encode(), tensors)
    elif kind == 4:
        header["__metadata__"][METADATA_KEY] = json.dumps(json.loads(text), indent=1)
    else:
        header["__metadata__"][METADATA_KEY] = json.dumps(dict(reversed(json.loads(text).items())))
    return joined(header, tensors)


MUTATIONS = (bits, blocks, cuts, lengths, splices, entries, metadata, forged, poisoned, harmless)
SHARES = (0.2, 0.1, 0.1, 0.02, 0.1, 0.16, 0.12, 0.14, 0.02, 0.04)
BLIND = (bits, blocks, cuts, lengths, splices)  # all that can be done to a file of unknown form


# -- the test ----------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report, rng = Report(), np.random.default_rng(arguments.seed)
    count = arguments.size(21_000, 1_000)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="interp-stress-", dir=memory()) as name:
        folder = Path(name)
        known = originals(folder)
        files = {name: data for name, (data, *_) in known.items()}
        for number in range(count):
            kind = str(rng.choice(sorted(known)))
            mutation = MUTATIONS[int(rng.choice(len(MUTATIONS), p=SHARES))]
            if kind.startswith("foreign"):
                known_form = kind.endswith("safetensors") and mutation is harmless
                mutation = mutation if known_form else BLIND[int(rng.integers(len(BLIND)))]
            data = mutation(files[kind], rng, files)
            where = f"{kind}, {mutation.__name__}, number {number}"
            one(report, folder / "x.safetensors", kind, mutation.__name__, data, where, known)
    c = report.counts
    assert c["files"] == count
    report.said = (
        f"{count:,} mutated checkpoints: {c['loaded otherwise']} wrong loads, {c['refused']:,} refused, "
        f"{c['the same content']:,} with the same content "
        f"({c['harmless']:,} of them had to load), "
        f"{c['unchanged']:,} unchanged by chance, "
        f"{c['other provenance']:,} forged beyond the weights, {c['foreign, other numbers']:,} of other libraries "
        "with other numbers (they carry no digest)"
    )
    return report


def memory() -> str | None:
    """A file system in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def one(report: Report, path: Path, kind: str, mutation: str, data: bytes, where: str, known: Any) -> None:
    before, load, expected = original = known[kind]
    c = report.counts
    c["files"] += 1
    if data == before:
        c["unchanged"] += 1
        return
    path.write_bytes(data)
    try:
        loaded = load(path)
    except InterpError as error:
        c["refused"] += 1
        if mutation == "harmless":
            report.wrong(f"{where}: refused, though it says the same: {error}")
        if "\n" in str(error) or not str(error):
            report.wrong(f"{where}: not one line: {error!r}")
        if not isinstance(error, CheckpointError):
            report.wrong(f"{where}: {type(error).__name__} where a checkpoint is wrong: {error}")
        return
    except BaseException as error:
        c["other exceptions"] += 1
        report.wrong(f"{where}: {type(error).__name__}: {error}")
        return
    held = content(loaded)
    if held == expected:
        c["the same content"] += 1
        c["harmless"] += mutation == "harmless"
    elif any(held == other for _, _, other in known.values()):
        c["another whole file"] += 1  # a splice can give exactly the other file
    elif mutation == "forged" and weights(held) == weights(expected):
        c["other provenance"] += 1
    elif kind.startswith("foreign") and loaded.config == load(original_file(path, before)).config:
        c["foreign, other numbers"] += 1
    else:
        c["loaded otherwise"] += 1
        report.wrong(f"{where}: loads as something else: {difference(expected, held)}")
    try:
        if original[1] is load_checkpoint:
            read_header(path)
        if hasattr(loaded, "summary"):
            loaded.summary(), repr(loaded), loaded._repr_html_(), loaded[0], loaded.untrained()
    except Exception as error:
        c["failed afterwards"] += 1
        report.wrong(f"{where}: loads, and then {type(error).__name__}: {error}")


def original_file(path: Path, data: bytes) -> Path:
    """The file as it was."""
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    main("checkpoints", __doc__, run)
