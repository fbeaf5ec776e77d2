"""Populations that studies train once and keep: a file a recipe and seed count, named by digest."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from interp import Population, train_population
from interp.files import make_folder
from interp.header import canonical_json, read_header
from interp.presets import Recipe, make_recipe


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

    def in_steps(self, steps: int) -> Self:
        """The same training in another number of steps; what is done on the way is done at the same shares of it."""
        whole = self.recipe.settings.steps
        options = dict(self.options)
        for name in ("eval_every", "hold"):  # how often it is evaluated, and how often its rate moves
            if name in options:
                options[name] = max(1, options[name] * steps // whole)
        if options.get("hold") == 1:  # as without the option
            del options["hold"]
        moved = {step * steps // whole for step in self.snapshots}
        return replace(self, steps=steps, options=options, snapshots=tuple(sorted(moved)))

    def file(self, folder: Path, seeds: int | Sequence[int], device: str = "cpu") -> Path:
        """Where the trained population lies. The name changes with anything that decides its weights."""
        decides = [self.recipe.to_dict(), seeds, *([] if device == "cpu" else [device])]
        digest = hashlib.sha256(canonical_json(decides).encode()).hexdigest()[:10]
        return folder / f"{self.preset}-{digest}.safetensors"


def obtain(
    family: Family, seeds: int | Sequence[int], folder: Path, workers: int | None = None, device: str = "cpu"
) -> tuple[Population, str]:
    """Train the family's population, or continue or load what is already there; and its file's digest.

    It trains on `device`, and comes back on the CPU, where studies measure.
    """
    path = family.file(make_folder(folder), seeds, device)
    population = train_population(
        family.recipe, seeds, out=path, resume=True, workers=workers, device=device, progress=True
    )
    return population, read_header(path)["digest"]
