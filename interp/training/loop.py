"""The training loop for one chunk of seeds on one device."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interp.functional import Params, stack_params
from interp.model import SandboxTransformer
from interp.recipe import Recipe
from interp.settings import TrainingSettings
from interp.training.flat import FlatParams
from interp.training.task import make_task


@dataclass
class ChunkState:
    """All that a run needs to continue: after `step` steps, for the seeds of one chunk."""

    seeds: tuple[int, ...]
    step: int
    params: Params
    moments: dict[str, Params]  # optimizer state: "exp_avg", "exp_avg_sq"
    history: list[dict[str, Any]] = field(default_factory=list)
    snapshots: dict[int, Params] = field(default_factory=dict)
    diverged: dict[int, int] = field(default_factory=dict)  # seed -> first bad step

    @property
    def all_diverged(self) -> bool:
        return len(self.diverged) == len(self.seeds)


@dataclass(frozen=True)
class Timing:
    """CPU seconds of this process spent on a chunk."""

    training: float
    evaluation: float


def initial_state(recipe: Recipe, seeds: tuple[int, ...]) -> ChunkState:
    """Step 0: each seed's own initial weights."""
    models = [SandboxTransformer.init(recipe.config, recipe.settings.origins(seed)[0]) for seed in seeds]
    starts: list[Params] = [{n: p.detach() for n, p in m.named_parameters()} for m in models]
    own = recipe.world.load("start")
    return ChunkState(seeds, 0, stack_params(starts if own is None else [own(params, recipe) for params in starts]), {})


def train_chunk(
    recipe: Recipe,
    state: ChunkState,
    *,
    device: str = "cpu",
    until: int | None = None,
    save: Callable[[ChunkState], None] = lambda state: None,
    progress: Callable[[int], None] = lambda step: None,
) -> tuple[ChunkState, Timing]:
    """Train the chunk's seeds from `state` to the last step (or `until`).

    Seeds share nothing but the clock: each has its own weights, moments and strings, and the loss is
    summed over seeds, so that a seed's gradient is its own. `save` is called with a consistent state
    at each evaluation.
    """
    s = recipe.settings
    last = s.steps if until is None else min(until, s.steps)
    run = _Run(recipe, state, device)
    training = evaluation = 0.0
    while True:
        clock = time.process_time()
        if run.due():
            run.record()
            save(run.export())
        evaluation += time.process_time() - clock
        if run.step >= last:
            break
        clock = time.process_time()
        run.train(min(_next_stop(s, run.step), run.step + run.ahead, last))
        training += time.process_time() - clock
        progress(run.step)
    return run.export(), Timing(training, evaluation)


def _next_stop(s: TrainingSettings, step: int) -> int:
    """The next step at which something is measured or kept."""
    stops = [(step // s.eval_every + 1) * s.eval_every, s.steps, *(k for k in s.snapshots if k > step)]
    return min(stops)


class _Run:
    """The mutable part of `train_chunk`."""

    def __init__(self, recipe: Recipe, state: ChunkState, device: str):
        self.recipe, self.device, self.seeds = recipe, device, state.seeds
        self.template = SandboxTransformer(recipe.config).to(device)
        self.step, self.history = state.step, list(state.history)
        self.snapshots, self.diverged = dict(state.snapshots), dict(state.diverged)
        self.flat = FlatParams(state.params, device)
        self.optimizer = _optimizer(recipe.settings, self.flat.data)
        self.flat.data.grad = self.flat.grad
        if state.moments:
            moments = {key: self.flat.flatten(values) for key, values in state.moments.items()}
            step = torch.tensor(float(state.step), dtype=torch.float32)
            self.optimizer.state[self.flat.data] = {**moments, "step": step}
        self.task = make_task(self.template, recipe, device)
        self.ahead = self.task.ahead
        self.good = self.flat.data.clone()

    def due(self) -> bool:
        """Is there something to measure or keep at this step that has not been yet?"""
        s = self.recipe.settings
        if self.history and self.history[-1]["step"] == self.step:
            return False
        return self.step % s.eval_every == 0 or self.step == s.steps or self.step in s.snapshots

    def record(self) -> None:
        """Evaluate every seed and keep a snapshot where one is asked for."""
        s = self.recipe.settings
        params = self.flat.views(self.flat.data)
        if self.step in s.snapshots:
            self.snapshots[self.step] = self.flat.copy()
        rows: list[dict[str, Any]] = [{"seed": seed, "step": self.step} for seed in self.seeds]
        for name, values in self.task.metrics(params, self.step == s.steps).items():
            for row, value in zip(rows, values, strict=True):
                row[name] = float(value) if math.isfinite(value) else None
        if s.snapshots or self.recipe.world.norms:
            for name, p in params.items():
                for row, value in zip(rows, p.flatten(1).norm(dim=1).tolist(), strict=True):
                    row[f"norm/{name}"] = value if math.isfinite(value) else None
        self.history += rows

    def train(self, until: int) -> None:
        """Take the steps up to `until`; then look whether any seed went bad on the way."""
        if len(self.diverged) == len(self.seeds):
            self.step = until  # nothing to train; rows and snapshots as for a seed that diverged in company
            return
        steps = range(self.step, until)
        drawn = [self.task.draw(self.recipe.settings.origins(seed)[1], steps) for seed in self.seeds]
        batches = [torch.from_numpy(np.stack(part, axis=1)).to(self.device) for part in zip(*drawn, strict=True)]
        losses = self.take_steps(steps, batches)
        self.step = until
        self._retire(losses, steps)

    def take_steps(self, steps: range, batches: Sequence[Tensor]) -> Tensor:
        """One step a batch (arrays [steps, S, ...]); losses [steps, S]. Nothing in here waits for the device."""
        dead = self._dead()[:, None]
        leaves = {name: self.flat.leaves[name] for name in self.task.trained}
        losses = []
        for i, step in enumerate(steps):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.recipe.settings, step)
            loss = self.task(self.flat.leaves, *(part[i] for part in batches))  # [S]
            grads = torch.autograd.grad(loss.sum(), list(leaves.values()))
            self.flat.set_grad(dict(zip(leaves, grads, strict=True)))
            if self.diverged:
                self.flat.grad.masked_fill_(dead, 0)
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    def _dead(self) -> Tensor:
        return torch.tensor([seed in self.diverged for seed in self.seeds], device=self.device)

    def _retire(self, losses: Tensor, steps: range) -> None:
        """Name seeds that went bad in these steps and put them back to their last good weights."""
        bad = ~torch.isfinite(losses)  # [step, S]
        broken = ~self.flat.data.isfinite().all(1)
        for i, seed in enumerate(self.seeds):
            if seed not in self.diverged and bool(bad[:, i].any() | broken[i]):
                first = int(bad[:, i].long().argmax()) if bool(bad[:, i].any()) else len(steps) - 1
                self.diverged[seed] = steps[first]
        if self.diverged:
            dead = self._dead()
            self.flat.data[dead] = self.good[dead]
            for key, moment in self.optimizer.state.get(self.flat.data, {}).items():
                if key != "step" and moment is not None:
                    moment[dead] = 0
        self.good = self.flat.data.clone()

    def export(self) -> ChunkState:
        """A copy on the CPU that later steps do not touch."""
        moments = {
            key: self.flat.copy(value)
            for key, value in self.optimizer.state.get(self.flat.data, {}).items()
            if key != "step" and value is not None
        }
        return ChunkState(
            self.seeds,
            self.step,
            self.flat.copy(),
            moments,
            list(self.history),
            dict(self.snapshots),
            dict(self.diverged),
        )


def learning_rate(s: TrainingSettings, step: int) -> float:
    """Learning rate of the step numbered from 0."""
    if step < s.warmup:
        return s.lr * (step + 1) / s.warmup
    if s.schedule == "constant":
        return s.lr
    done = ((step - s.warmup) // s.hold * s.hold) / max(1, s.steps - s.warmup)
    return s.lr * 0.5 * (1 + math.cos(math.pi * done))


def _optimizer(s: TrainingSettings, data: Tensor) -> torch.optim.Optimizer:
    if s.optimizer == "sgd":
        return torch.optim.SGD([data], lr=s.lr, weight_decay=s.weight_decay, foreach=False)
    # Not fused: the fused kernel's rounding depends on the number of seeds.
    return torch.optim.AdamW([data], lr=s.lr, weight_decay=s.weight_decay, foreach=False, fused=False)
