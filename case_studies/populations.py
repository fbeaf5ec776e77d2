"""Populations that studies train once and keep: a file a recipe and seed count, named by digest."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interp import Population, train_population
from interp.files import make_folder
from interp.header import canonical_json, read_header
from interp.presets import Recipe, make_recipe

_DEVICE: ContextVar[str] = ContextVar("device", default="cpu")


@contextmanager
def train_on(device: str) -> Iterator[None]:
    """Studies train on `device` inside; they measure on the CPU, where a trained population lies."""
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


@dataclass(frozen=True)
class Family:
    """A group of models a study compares: a preset with options, under a name for tables."""

    name: str
    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None  # None: the preset's
    batch: int | None = None
    snapshots: tuple[int, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The preset with the options applied."""
        return make_recipe(self.preset, self.options, steps=self.steps, batch=self.batch, snapshots=self.snapshots)

    def file(self, folder: Path, seeds: int) -> Path:
        """Where the trained population lies. The name changes with anything that decides its weights."""
        device = _DEVICE.get()
        decides = [self.recipe.to_dict(), seeds, *([] if device == "cpu" else [device])]
        digest = hashlib.sha256(canonical_json(decides).encode()).hexdigest()[:10]
        return folder / f"{self.preset}-{digest}.safetensors"


def obtain(family: Family, seeds: int, folder: Path, workers: int | None = None) -> tuple[Population, str]:
    """Train the family's population, or continue or load what is already there; and its file's digest."""
    path = family.file(make_folder(folder), seeds)
    population = train_population(
        family.recipe, seeds, out=path, resume=True, workers=workers, device=_DEVICE.get(), progress=True
    )
    return population, read_header(path)["digest"]
