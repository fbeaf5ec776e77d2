"""Where models are from: the files that they were loaded from, and a digest of the weights that were measured."""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Models of one file, as it was named.

    `seeds`: which of its seeds, None for all; `step`: of a snapshot. `config`, `vocab`: files beside a foreign one.
    """

    file: str
    seeds: tuple[int, ...] | None = None
    step: int | None = None
    config: str | None = None
    vocab: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, without what is None."""
        told = {**vars(self), "seeds": None if self.seeds is None else list(self.seeds)}
        return {name: value for name, value in told.items() if value is not None}


Source = tuple[Part, ...]


def with_source(thing: T, source: Source | None) -> T:
    """The same thing, which now says where it is from. No part of its value: copies that change it do not say so."""
    if source:
        with contextlib.suppress(AttributeError, TypeError):  # no model at all: whoever is given it says so
            object.__setattr__(thing, "_source", source)
    return thing


def source_of(given: Any) -> Source | None:
    """Where a model, a population or a list of models is from; None where not all of it is from files."""
    known: Source | None = getattr(given, "_source", None)
    if known is not None or not isinstance(given, (list, tuple)):
        return known
    parts = [source_of(one) for one in given]
    return tuple(part for each in parts if each for part in each) if parts and all(parts) else None


def digest_of(given: Any) -> str | None:
    """SHA-256 of the weights of a model, a population or a list of models; None of what has no weights.

    The same models have the same digest alone, stacked in a population, and in a list.
    """
    each = list(_weights(given))
    if not each or not all(each):
        return None
    import torch

    whole = hashlib.sha256()
    for weights in each:
        sha = hashlib.sha256()
        for name, tensor in sorted(weights):
            part = tensor.detach().to("cpu").contiguous()
            sha.update(f"{name}{part.dtype}{list(part.shape)}".encode())
            sha.update(memoryview(part.reshape(-1).view(torch.uint8).numpy()))
        whole.update(sha.digest())
    return whole.hexdigest()


def _weights(given: Any) -> Iterable[list[tuple[str, Any]]]:
    """Names and tensors of each model."""
    if hasattr(given, "params") and hasattr(given, "seeds"):
        for i in range(len(given.seeds)):
            yield [(name, p[i]) for name, p in given.params.items()]
    elif hasattr(given, "named_parameters"):
        yield list(given.named_parameters())
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        for one in given:
            yield from _weights(one)
