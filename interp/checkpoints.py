"""Checkpoints: one safetensors file a population, which says all about itself.

The header holds config, grammar, vocabulary, seeds, provenance (training settings and data law),
the table of metrics, and one SHA-256 a seed over its tensors, config and grammar. The digests find
damage and accidental edits; they are not a signature.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import CheckpointError, InterpError, OutputError, RequestError, quoted
from interp.files import as_path, replacing
from interp.functional import Params
from interp.header import (
    FORMAT_VERSION,
    MAX_HEADER_BYTES,
    METADATA_KEY,
    canonical_json,
    constructed_at,
    find_checkpoint,
    header_digest,
    read_header,
    wrong_entry,
)
from interp.model import SandboxTransformer
from interp.population import Population, seeded
from interp.registry import broken, grammar_from_dict, grammar_kinds, worlds
from interp.sources import Part, with_source
from interp.tensor_files import check_finite, is_utf8, read_safetensors
from interp.torch_modes import ordinary_torch


def save_checkpoint(model: SandboxTransformer | Population, path: str | Path) -> Path:
    """Write a model or a population to `path` as one safetensors file; the same content gives the same bytes.

        >>> import tempfile
        >>> from interp import load_checkpoint, save_checkpoint
        >>> model = load_checkpoint("constructed/stack")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_checkpoint(save_checkpoint(model, f"{folder}/stack.safetensors"))
        >>> again.config == model.config
        True

    Raises `RequestError` for what `load_checkpoint` could not give back: what is no model, weights that are not finite,
    a grammar or config of another class than ours, numbers that JSON has not (NaN, arrays) in provenance or history.
    Raises `WriteError` when the file cannot be written. Nothing is half-written.
    """
    if not isinstance(model, (SandboxTransformer, Population)):
        raise RequestError(f"cannot save {type(model).__name__!r}: a SandboxTransformer or Population is needed")
    path = as_path(path)
    kind = "population" if isinstance(model, Population) else "model"
    population = model if isinstance(model, Population) else _alone(model)
    try:
        for where, params in _groups(population):
            check_finite(params, population.seeds, where)
    except CheckpointError as error:
        raise RequestError(f"cannot save {str(path)!r}: {error}") from error
    tensors = {
        f"{where or 'params/'}{name}": _plain(p) for where, params in _groups(population) for name, p in params.items()
    }
    grammar = population.grammar
    try:
        meta: dict[str, Any] = {
            "version": FORMAT_VERSION,
            "kind": kind,
            "config": population.config.to_dict(),
            "grammar": None if grammar is None else grammar.to_dict(),
            "vocabulary": None if grammar is None else list(grammar.vocab),
            "seeds": list(population.seeds),
            "provenance": population.provenance,
            "history": list(population.history),
            "snapshots": sorted(population.snapshots),
        }
        meta["digests"] = seed_digests(meta, tensors)
        meta["digest"] = header_digest(meta)
        text = canonical_json(meta)
    except (TypeError, ValueError) as error:
        raise RequestError(f"provenance or history cannot be written as JSON: {error}") from error
    _check_comes_back(population, text)
    write_tensors(path, tensors, meta)
    return path


def _groups(population: Population) -> list[tuple[str, Params]]:
    """Weights, and those of each snapshot, with what is put before their names."""
    return [("", population.params), *((f"snapshots/{step}/", ps) for step, ps in population.snapshots.items())]


def _check_comes_back(population: Population, text: str) -> None:
    """Raise `RequestError` unless what is read from the header's `text` is what was to be saved."""
    if len(text) > MAX_HEADER_BYTES:
        raise RequestError(
            f"settings and measurements of {len(population)} models fill {len(text) / 1e6:,.0f} MB, more than the "
            f"{MAX_HEADER_BYTES / 1e6:,.0f} MB that a safetensors header holds: save fewer models, or less history"
        )
    meta = json.loads(text)
    if wrong := wrong_entry(meta):
        raise RequestError(f"cannot save this population: load_checkpoint would not take its {quoted(wrong)}")
    read: list[tuple[str, Any, Callable[[dict[str, Any]], Any]]] = [
        ("config", population.config, TransformerConfig.from_dict),
        ("grammar", population.grammar, grammar_from_dict),
    ]
    for name, given, read_back in read:
        if given is None:
            continue
        try:
            found = read_back(meta[name])
        except (InterpError, TypeError, ValueError) as error:
            raise RequestError(f"{name}={quoted(given)} could not be read again: {error}") from error
        if type(found) is not type(given) or found != given:
            raise RequestError(
                f"{name}={quoted(given)} of {type(given).__name__!r} would come back as {quoted(found)} of "
                f"{type(found).__name__!r}: only {name}s of interp's own classes are saved"
            )
        if name == "grammar" and list(found.vocab) != meta["vocabulary"]:
            raise RequestError(f"the vocabulary of grammar={quoted(given)} is not the one that its description gives")


def write_tensors(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Write a safetensors file with our one metadata key, whole or not at all."""
    if not is_utf8(path):
        raise OutputError(f"cannot write {str(path)!r}: safetensors opens no file whose name is not UTF-8")
    # Not by `save_file`, which writes to a name of its own first: a kill would leave that behind for ever.
    content = safetensors.torch.save(tensors, metadata={METADATA_KEY: canonical_json(meta)})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@ordinary_torch()
def load_checkpoint(name_or_path: str | Path) -> SandboxTransformer | Population:
    """A bundled checkpoint by name, or a file: one model or a population, on the CPU, in eval mode.

    `constructed/...` models are built on the spot, for the default grammar of their world.

        >>> from interp import load_checkpoint
        >>> population = load_checkpoint("recall")
        >>> len(population), population[3].provenance["seed"]
        (8, 3)

    Raises `CheckpointError` when the file is missing, truncated, edited, damaged or not ours.
    """
    path = find_checkpoint(name_or_path)
    if name := constructed_at(path):
        built = next(world.load("construct")(name) for world in worlds() if name in world.constructed)
        return with_source(built, (Part(str(name_or_path)),))
    meta = read_header(path)
    kind = (meta["grammar"] or {}).get("kind", "")
    if isinstance(kind, str) and kind and kind not in grammar_kinds():  # what is no name of one is damage, see below
        lost = "".join(f"; {reason}" for reason in broken().values())
        raise CheckpointError(
            f"{str(path)!r} is of a grammar {quoted(kind)}, and no world here has it: install the package that brings "
            f"it{lost}"
        )
    _, tensors = read_safetensors(path)
    try:
        if (found := seed_digests(meta, tensors)) != meta["digests"]:
            wrong = [s for s, a, b in zip(meta["seeds"], found, meta["digests"], strict=False) if a != b]
            raise CheckpointError(f"the weights of seed {wrong or meta['seeds']} do not match their SHA-256")
        population = _population(meta, tensors)
        for where, params in _groups(population):
            check_finite(params, population.seeds, where)
    except Exception as error:  # numbers and names of a forged file break their readers in any way
        raise CheckpointError(f"{str(path)!r} is damaged or edited: {error}") from error
    model = population[0] if meta["kind"] == "model" else population
    return with_source(model, (Part(str(name_or_path)),))


def seed_digests(meta: dict[str, Any], tensors: dict[str, Tensor]) -> list[str]:
    """One SHA-256 a seed, over its config, grammar, seed and tensors (snapshots included)."""
    law = canonical_json([meta["config"], meta["grammar"]])
    digests = []
    for i, seed in enumerate(meta["seeds"]):
        sha = hashlib.sha256(f"{law}{seed}".encode())
        for name in sorted(tensors):
            part = tensors[name][i].contiguous()
            sha.update(f"{name}{part.dtype}{list(part.shape)}".encode())
            sha.update(part.reshape(-1).view(torch.uint8).numpy().tobytes())
        digests.append(sha.hexdigest())
    return digests


def _population(meta: dict[str, Any], tensors: dict[str, Tensor]) -> Population:
    groups: dict[str, Params] = {}
    for name, tensor in tensors.items():
        group, _, leaf = name.rpartition("/")
        groups.setdefault(group, {})[leaf] = tensor
    if unlisted := groups.keys() - {"params", *(f"snapshots/{step}" for step in meta["snapshots"])}:
        raise ValueError(f"it holds tensors of {min(unlisted)!r}, which its header does not list")
    return Population(
        TransformerConfig.from_dict(meta["config"]),
        None if meta["grammar"] is None else grammar_from_dict(meta["grammar"]),
        groups["params"],
        tuple(meta["seeds"]),
        meta["provenance"],
        tuple(meta["history"]),
        {step: groups[f"snapshots/{step}"] for step in meta["snapshots"]},
    )


def _alone(model: SandboxTransformer) -> Population:
    alone = Population.from_models([model])
    provenance = {k: v for k, v in model.provenance.items() if k != "seed"}
    if not seeded(model):
        provenance["seeded"] = False
    return Population(alone.config, alone.grammar, alone.params, alone.seeds, provenance)


def _plain(tensor: Tensor) -> Tensor:
    """A contiguous CPU copy that owns its storage (safetensors refuses shared ones)."""
    return tensor.detach().to("cpu").contiguous().clone()
