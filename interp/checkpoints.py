"""Checkpoints: one safetensors file a population, which says all about itself.

The header holds config, grammar, vocabulary, seeds, provenance (training settings and data law),
the table of metrics, and one SHA-256 a seed over its tensors, config and grammar. The digests find
damage and accidental edits; they are not a signature.
"""

import hashlib
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from interp.config import TransformerConfig
from interp.constructed import construct
from interp.errors import CheckpointError, InterpError, RequestError, WriteError
from interp.files import replacing
from interp.functional import Params
from interp.grammars import grammar_from_dict
from interp.header import (
    FORMAT_VERSION,
    METADATA_KEY,
    canonical_json,
    constructed_at,
    find_checkpoint,
    header_digest,
    read_header,
)
from interp.model import SandboxTransformer
from interp.population import Population


def save_checkpoint(model: SandboxTransformer | Population, path: str | Path) -> Path:
    """Write a model or a population to `path`; the same content gives the same bytes.

    Raises `RequestError` for what is no model or holds numbers that JSON has not (NaN, arrays) in its
    provenance or history, and `WriteError` when the file cannot be written. Nothing is half-written.
    """
    if not isinstance(model, (SandboxTransformer, Population)):
        raise RequestError(f"cannot save {type(model).__name__!r}: a SandboxTransformer or Population is needed")
    kind = "population" if isinstance(model, Population) else "model"
    population = model if isinstance(model, Population) else _alone(model)
    tensors = {f"params/{name}": _plain(p) for name, p in population.params.items()}
    for step, params in population.snapshots.items():
        tensors |= {f"snapshots/{step}/{name}": _plain(p) for name, p in params.items()}
    grammar = population.grammar
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
    try:
        meta["digests"] = seed_digests(meta, tensors)
        meta["digest"] = header_digest(meta)
    except (TypeError, ValueError) as error:
        raise RequestError(f"provenance or history cannot be written as JSON: {error}") from error
    write_tensors(path, tensors, meta)
    return Path(path)


def write_tensors(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Write a safetensors file with our one metadata key, whole or not at all."""
    with replacing(path) as temporary:
        try:
            safetensors.torch.save_file(tensors, temporary, metadata={METADATA_KEY: canonical_json(meta)})
        except safetensors.SafetensorError as error:  # a full disk, for one, is not an OSError here
            raise WriteError(f"cannot write {str(path)!r}: {error}") from error


def load_checkpoint(name_or_path: str | Path) -> SandboxTransformer | Population:
    """A bundled checkpoint by name, or a file: one model or a population, on the CPU, in eval mode.

    `constructed/...` models are built on the spot, for the default grammar (see `interp.constructed`).

    Raises `CheckpointError` when the file is missing, truncated, edited, damaged or not ours.
    """
    path = find_checkpoint(name_or_path)
    if name := constructed_at(path):
        return construct(name)
    meta = read_header(path)
    try:
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged: {error}") from error
    try:
        if (found := seed_digests(meta, tensors)) != meta["digests"]:
            wrong = [s for s, a, b in zip(meta["seeds"], found, meta["digests"], strict=False) if a != b]
            raise CheckpointError(f"the weights of seed {wrong or meta['seeds']} do not match their SHA-256")
        population = _population(meta, tensors)
    except (InterpError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{str(path)!r} is damaged or edited: {error}") from error
    return population[0] if meta["kind"] == "model" else population


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
    return Population(alone.config, alone.grammar, alone.params, alone.seeds, provenance)


def _plain(tensor: Tensor) -> Tensor:
    """A contiguous CPU copy that owns its storage (safetensors refuses shared ones)."""
    return tensor.detach().to("cpu").contiguous().clone()
