"""Models of the trained bench, trained or read from a folder: one file a preset, one file a seed of our own."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors.torch

from interp.checkpoints import load_checkpoint
from interp.errors import CheckpointError
from interp.files import make_folder, replacing
from interp.header import canonical_json
from interp.population import Population
from interp.presets import make_recipe
from interp.tensor_files import read_safetensors
from interp.training.run import train_population
from probes.audit.bench.trained.cases import DEVELOP, JUDGE
from probes.audit.bench.trained.models import Recipe, train

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ALL = (*DEVELOP, *JUDGE)


def own_model(recipe: Recipe, family: str, seed: int, folder: Path) -> Any:
    """The model of a seed; trained if the folder has none. Raises `CheckpointError` for a file of another recipe."""
    path = make_folder(folder / family) / f"{seed}.safetensors"
    digest = recipe_digest(recipe)
    if path.exists():
        told, tensors = read_safetensors(path)
        if told.get("recipe") != digest:
            raise CheckpointError(f"{str(path)!r} was trained otherwise than this bench asks for: remove it")
        model = recipe.build()
        model.load_state_dict(tensors)
        return model
    model = train(recipe, seed)
    content = safetensors.torch.save(dict(model.state_dict()), metadata={"recipe": digest})
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return model


def recipe_digest(recipe: Recipe) -> str:
    """What decides the weights of a seed, told in few letters; the task itself is known by its first strings."""
    from interp.rng import generator

    first = recipe.draw(generator(0, "bench/trained/digest"), 4)
    frozen = {str(head): [f.relation.name, f.mass] for head, f in recipe.frozen.items()}
    told = [
        json.loads(json.dumps(vars(recipe.config))), recipe.steps, recipe.batch, recipe.lr, frozen, recipe.dropout,
        str(recipe.blind), first.tokens.tolist(), first.labels.tolist(),
        None if recipe.inherits is None else recipe_digest(recipe.inherits),
    ]  # fmt: skip
    return hashlib.sha256(canonical_json(told).encode()).hexdigest()[:16]


def preset_model(preset: str, seed: int, folder: Path, seeds: Sequence[int] = ALL) -> Any:
    """A model of a preset's population, which is trained first if the folder has none."""
    population = preset_population(preset, folder, seeds)
    return population[population.seeds.index(seed)]


def preset_population(preset: str, folder: Path, seeds: Sequence[int] = ALL) -> Population:
    """All seeds of a preset, trained here or read. Raises `CheckpointError` for a file of other seeds or settings."""
    path = make_folder(folder) / f"{preset}.safetensors"
    with _one_at_a_time(path.parent):
        if not path.exists():
            return train_population(preset, seeds, out=path, resume=True, workers=1)
    found, recipe = load_checkpoint(path), make_recipe(preset)
    same = isinstance(found, Population) and (found.config, found.grammar) == (recipe.config, recipe.grammar)
    if not same or found.seeds != tuple(seeds):
        raise CheckpointError(f"{str(path)!r} is not the population that this bench asks for: remove it")
    return found


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """The processes of a bench ask for one population at once: one trains it, the others wait for the file."""
    if fcntl is None:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
