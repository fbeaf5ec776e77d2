"""`train_population`: seeds split into chunks, chunks trained by one-thread workers, nothing lost.

A run keeps its state in a folder beside the output, `<out>.run/`: the plan (recipe and chunks), one state file a chunk,
and what was measured so far (`metrics.jsonl`). The folder goes away when the checkpoint is written. Workers are plain
subprocesses that read the plan and write the state: no pickling, and no `__main__` guard in the caller.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interp.checkpoints import load_checkpoint, save_checkpoint
from interp.checks import not_read, plain, true_or_false, whole_number
from interp.config import TransformerConfig
from interp.devices import usable_device
from interp.errors import CheckpointError, GrammarError, RequestError, TrainingError, quoted
from interp.files import write_text
from interp.grammars import Grammar
from interp.header import canonical_json
from interp.limits import check_workers, read_whole
from interp.population import Population
from interp.presets import check_read, make_recipe
from interp.progress import progress_bar
from interp.recipe import Recipe
from interp.registry import world_of
from interp.rng import check_seed
from interp.settings import TrainingSettings
from interp.threads import one_thread
from interp.torch_modes import ordinary_torch
from interp.training.folder import PLAN_FILE, remove_run, run_folder
from interp.training.loop import ChunkState, Timing, initial_state, train_chunk
from interp.training.metrics import Callback, Metrics, Watch
from interp.training.pool import train_in_workers
from interp.training.size import check_training, seeds_that_fit
from interp.training.state import read_state, write_state

MAX_CHUNK = 10  # more seeds together cost the same a seed, and more memory
MAX_SEEDS = 100_000


@ordinary_torch(gradients=True)
def train_population(
    preset: str | Recipe | TransformerConfig,
    seeds: int | Sequence[int] = 40,
    *,
    grammar: Grammar | None = None,
    settings: TrainingSettings | None = None,
    options: Mapping[str, Any] | None = None,
    steps: int | None = None,
    batch: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int | None = None,
    device: str = "cpu",
    progress: bool = False,
    callback: Callback | None = None,
) -> Population:
    """Train S models of one config together and return them as a `Population`.

    - `preset`: a preset's name (with `options`, the `--set` keys), a `Recipe`, or a `TransformerConfig`
      (with `grammar` and `settings`).
    - `seeds`: how many (0, 1, ...) or which. Seed s gives the same model bit for bit (on one kind of
      machine) whether trained alone or among others, resumed or not, by however many workers.
    - `out`: write the checkpoint there; `resume` continues a run that was stopped before its end.
    - `workers`: one-thread processes (default: one per core, as far as there are seeds); 1 trains in
      this process. On another `device` than "cpu" all seeds train in this process, and `workers` is refused.
    - `callback(rows)`: called in this process, as the training goes, with the new rows of the history (a dict per seed
      and evaluated step). What it raises stops the run, which can be resumed. `interp.training.writers` has some.

    Raises `RequestError`/`ConfigError` for what cannot be done and `TrainingError` when every seed
    diverged or a worker died; seeds that diverge among others are named in `provenance["diverged"]`.
    """
    resume, progress = true_or_false("resume", resume), true_or_false("progress", progress)
    if grammar is not None and world_of(grammar) is None:
        raise RequestError(f"grammar={quoted(grammar)} is not a grammar of a world")
    for name, given, kind in (
        ("settings", settings, TrainingSettings),
        ("options", options, Mapping),
    ):
        if given is not None and not isinstance(given, kind):
            what = {"options": "a mapping of --set keys", "settings": "TrainingSettings"}[name]
            raise RequestError(f"{name}={quoted(given)} is not {what}")
    if callback is not None and not callable(callback):
        raise RequestError(f"callback={quoted(callback)} is not a function of the rows that were measured")
    recipe = _recipe(preset, grammar, settings, options, steps, batch)
    chosen = _seeds(seeds)
    device = usable_device(device)
    if resume and out is None:
        raise RequestError("resume=True needs out=FILE, whose unfinished run is to be continued")
    workers = _workers(workers, len(chosen), device)
    check_training(recipe, len(chosen), MAX_CHUNK if device == "cpu" else len(chosen))
    with run_folder(out, resume) as folder:
        if out is not None and resume and not (folder.path / PLAN_FILE).exists() and os.path.exists(out):
            population = _finished(Path(out), recipe, chosen)
            remove_run(folder.path)  # it was killed while it cleaned up
            return population
        plan = _Plan.open(folder.path, recipe, chosen, workers, device)
        watch = Watch(folder.path, callback)
        bar = progress_bar(
            total=len(chosen) * recipe.settings.steps,
            disable=not progress,
            desc=f"training {len(chosen)} x {recipe.name}",
            unit="step",
            unit_scale=True,
        )
        with bar:
            if workers == 1 or device != "cpu":
                _train_here(plan, bar.update, watch)
            else:
                train_in_workers(folder, list(map(_span, plan.chunks)), workers, bar.update, watch)
        watch()
        population = _assemble(plan, kept=out is not None)
        if out is not None:
            save_checkpoint(population, out)
        remove_run(folder.path)
    return population


def chunk_size(recipe: Recipe) -> int:
    """How many seeds train together on a CPU, at most: bits do not depend on it."""
    return min(MAX_CHUNK, seeds_that_fit(recipe))


# -- the plan ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    folder: Path
    recipe: Recipe
    chunks: tuple[tuple[int, ...], ...]
    device: str
    digest: str

    @classmethod
    def open(cls, folder: Path, recipe: Recipe, seeds: Sequence[int], workers: int, device: str) -> "_Plan":
        """Continue the plan in the folder, or make one."""
        path = folder / PLAN_FILE
        if path.exists():
            plan = cls.read(folder)
            planned = [s for c in plan.chunks for s in c]
            if plan.recipe != recipe or planned != list(seeds) or plan.device != device:
                raise RequestError(
                    f"{str(folder)!r} holds another run ({_differences(plan, recipe, seeds, device)}); "
                    "remove it or choose another output file"
                )
            return plan
        size = min(chunk_size(recipe), -(-len(seeds) // workers)) if device == "cpu" else len(seeds)
        chunks = tuple(tuple(seeds[i : i + size]) for i in range(0, len(seeds), size))
        content = {"recipe": recipe.to_dict(), "chunks": chunks, "device": device}
        write_text(path, canonical_json(content))
        return cls.read(folder)

    @classmethod
    def read(cls, folder: Path) -> "_Plan":
        try:
            text = read_whole(folder / PLAN_FILE, "plan", error=CheckpointError).decode()
        except UnicodeDecodeError as error:
            raise _damaged(folder) from error
        try:
            data = json.loads(text)
            recipe = Recipe.from_dict(data["recipe"])
            chunks = tuple(tuple(c) for c in data["chunks"])
            device = data["device"]
        except GrammarError as error:  # of a world that this process does not find
            raise CheckpointError(f"{str(folder / PLAN_FILE)!r} cannot be read here: {error}") from error
        except Exception as error:  # whatever it is, this is not what was written
            raise _damaged(folder) from error
        return cls(folder, recipe, chunks, device, hashlib.sha256(text.encode()).hexdigest())

    def state_file(self, index: int) -> Path:
        return self.folder / f"chunk-{index:03d}.safetensors"

    def load(self, index: int) -> tuple[ChunkState, Timing]:
        """Where a chunk stands: its state file, or the start."""
        path, seeds = self.state_file(index), self.chunks[index]
        if not path.exists():
            return initial_state(self.recipe, seeds), Timing(0.0, 0.0)
        state, timing = read_state(path, self.digest)
        if state.seeds != seeds:
            raise CheckpointError(f"{str(path)!r} holds seeds {_span(state.seeds)}, not {_span(seeds)}; remove it")
        return state, timing

    def load_finished(self, index: int) -> tuple[ChunkState, Timing]:
        """A chunk's last state. Raises `TrainingError`, naming the chunk, if it has not been trained to the end."""
        chunk, last = f"chunk {index} (seeds {_span(self.chunks[index])})", self.recipe.settings.steps
        try:
            state, timing = self.load(index)
        except CheckpointError as error:
            raise TrainingError(f"{chunk} cannot be read back: {error}") from error
        if state.step != last:
            where = "" if self.state_file(index).exists() else f": {str(self.state_file(index))!r} is not there"
            raise TrainingError(f"{chunk} stands at step {state.step} of {last}{where}")
        return state, timing


def _damaged(folder: Path) -> CheckpointError:
    return CheckpointError(f"{str(folder / PLAN_FILE)!r} is damaged; remove the folder to start over")


def _differences(plan: _Plan, recipe: Recipe, seeds: Sequence[int], device: str) -> str:
    """What the run in the folder has, and what was asked for instead."""
    parts = []
    for group in ("grammar", "config", "settings"):
        old, new = getattr(plan.recipe, group), getattr(recipe, group)
        if type(old) is not type(new):
            parts.append(f"{type(old).__name__}, not {type(new).__name__}")
            continue
        # Every field, also those that `to_dict` leaves out at their defaults.
        both = {field.name: (getattr(old, field.name), getattr(new, field.name)) for field in fields(old)}
        parts += [f"{name}={quoted(a)}, not {quoted(b)}" for name, (a, b) in both.items() if a != b]
    if plan.recipe.name != recipe.name:
        parts.append(f"preset {quoted(plan.recipe.name)}, not {quoted(recipe.name)}")
    planned = [s for c in plan.chunks for s in c]
    if len(planned) != len(seeds):
        parts.append(f"{len(planned)} seeds, not {len(seeds)}")
    elif planned != list(seeds):
        parts.append(f"seeds {_span(planned)}, not {_span(seeds)}")
    if plan.device != device:
        parts.append(f"device {plan.device!r}, not {device!r}")
    return "with " + "; ".join([*parts[:4], *(["..."] if len(parts) > 4 else [])])


# -- running ----------------------------------------------------------------------------------------


def run_chunk(plan: "_Plan", index: int, progress: Callable[[int], None] = lambda steps: None) -> None:
    """Train one chunk from where its state file stands to the end. `progress` gets seed-steps."""
    state, before = plan.load(index)
    metrics = Metrics(plan.folder, state.seeds)
    metrics.add(state.history)  # what a kill kept out
    done = state.step
    progress(done * len(state.seeds))
    clock = _Clock(before)

    def save(current: ChunkState) -> None:
        write_state(plan.state_file(index), current, plan.digest, clock.now())
        metrics.add(row for row in current.history if row["step"] == current.step)

    def report(step: int) -> None:
        nonlocal done
        progress((step - done) * len(state.seeds))
        done = step

    with one_thread():
        state, timing = train_chunk(plan.recipe, state, device=plan.device, save=save, progress=report)
    total = Timing(before.training + timing.training, before.evaluation + timing.evaluation)
    write_state(plan.state_file(index), state, plan.digest, total)


class _Clock:
    """CPU seconds so far, for states written on the way (their split is settled at the end)."""

    def __init__(self, before: Timing):
        self.before, self.start = before, sum(os.times()[:2])

    def now(self) -> Timing:
        return replace(self.before, training=self.before.training + sum(os.times()[:2]) - self.start)


def _train_here(plan: _Plan, progress: Callable[[int], Any], watch: Callable[[], None]) -> None:
    def report(steps: int) -> None:
        progress(steps)
        watch()

    for index in range(len(plan.chunks)):
        run_chunk(plan, index, report)


def _assemble(plan: _Plan, kept: bool) -> Population:
    """One population from the chunks' last states. `kept`: does the run's folder outlive an error.

    Raises `TrainingError`, naming the chunk, if one of them has not been trained to the end.
    """
    parts = [plan.load_finished(i) for i in range(len(plan.chunks))]
    states = [state for state, _ in parts]
    diverged = {seed: step for state in states for seed, step in state.diverged.items()}
    if all(state.all_diverged for state in states):
        first = min(diverged.values())
        raise TrainingError(
            f"every seed diverged, the first at step {first}: lr={plan.recipe.settings.lr} is too large"
            + (f"; the last good weights are kept in {str(plan.folder)!r}" if kept else "")
        )
    recipe, seeds = plan.recipe, tuple(s for c in plan.chunks for s in c)
    params = {n: torch.cat([state.params[n] for state in states]) for n in states[0].params}
    snapshots = {
        step: {n: torch.cat([state.snapshots[step][n] for state in states]) for n in params}
        for step in states[0].snapshots
    }
    place = {seed: i for i, seed in enumerate(seeds)}
    history = sorted((row for state in states for row in state.history), key=lambda r: (r["step"], place[r["seed"]]))
    provenance = {
        "name": recipe.name,
        "trained": True,
        "settings": recipe.settings.to_dict(),
        "diverged": {str(seed): step for seed, step in sorted(diverged.items())},
        "versions": {
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    timing = {
        "training_cpu_s_per_seed": sum(t.training for _, t in parts) / len(seeds),
        "evaluation_cpu_s_per_seed": sum(t.evaluation for _, t in parts) / len(seeds),
    }
    return Population(recipe.config, recipe.grammar, params, seeds, provenance, tuple(history), snapshots, timing)


# -- what was asked for -----------------------------------------------------------------------------


def _recipe(
    preset: str | Recipe | TransformerConfig,
    grammar: Grammar | None,
    settings: TrainingSettings | None,
    options: Mapping[str, Any] | None,
    steps: int | None,
    batch: int | None,
) -> Recipe:
    if isinstance(preset, str):
        if grammar is not None or settings is not None:
            raise RequestError(
                f"preset {quoted(preset)} brings its grammar and settings: change them with options={{...}}"
            )
        return make_recipe(preset, options, steps=steps, batch=batch)
    if options:
        raise RequestError("options={...} change a preset; a Recipe or TransformerConfig is taken as it is")
    if isinstance(preset, TransformerConfig):
        if grammar is None:
            raise RequestError("a TransformerConfig needs grammar= to be trained on")
        preset = Recipe("custom", grammar, preset, settings or TrainingSettings())
    elif not isinstance(preset, Recipe):
        raise RequestError(f"cannot train {quoted(preset)}: name a preset, or pass a Recipe or TransformerConfig")
    changes: dict[str, Any] = {k: v for k, v in (("steps", steps), ("batch", batch)) if v is not None}
    recipe = replace(preset, settings=replace(preset.settings, **changes)) if changes else preset
    check_read(recipe)
    return recipe


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    seeds = seeds.tolist() if isinstance(seeds, np.ndarray) else plain(seeds)
    if isinstance(seeds, bool) or not isinstance(seeds, (int, Sequence)) or isinstance(seeds, (str, bytes)):
        raise RequestError(f"seeds={quoted(seeds)} is neither a count nor a list of seeds")
    if isinstance(seeds, int):
        if not 1 <= seeds <= MAX_SEEDS:
            raise RequestError(f"seeds={quoted(seeds)} is not a count from 1 to {MAX_SEEDS}")
        return list(range(seeds))
    if len(seeds) > MAX_SEEDS:
        raise RequestError(f"{len(seeds)} seeds are more than {MAX_SEEDS}")
    chosen = [check_seed(s) for s in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise RequestError(f"seeds={quoted(list(seeds))} must name at least one seed and none twice")
    return chosen


def _workers(workers: int | None, seeds: int, device: str) -> int:
    if workers is not None:
        workers = whole_number("workers", workers)
    if device != "cpu":
        not_read(f"on device {device!r} all seeds train in this process", workers=workers)
        return 1
    return min(check_workers(workers) if workers else _cores(), seeds)


def _cores() -> int:
    """How many cores this process may use; all, on systems that cannot say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _finished(out: Path, recipe: Recipe, seeds: list[int]) -> Population:
    """`--resume` on a run that is already complete."""
    population = load_checkpoint(out)
    if (
        not isinstance(population, Population)
        or population.config != recipe.config
        or population.grammar != recipe.grammar
        or population.provenance.get("settings") != recipe.settings.to_dict()
        or list(population.seeds) != seeds
    ):
        raise RequestError(f"{str(out)!r} holds another finished run and there is no unfinished one to resume")
    return population


def _span(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
