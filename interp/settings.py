"""`TrainingSettings`: how a population is trained. Imports no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from interp.checks import make_plain, one_of, plain
from interp.errors import ConfigError, quoted

_WHOLE = {  # beyond, nothing here would ever finish
    "steps": (1, 10**9),
    "batch": (1, 100_000),
    "eval_every": (1, 10**9),
    "warmup": (0, 10**9),
    "length": (1, 10_000),
    "min_length": (0, 10_000),
    "max_length": (0, 10_000),
}
_LATER = {
    "start": "random",
    "trained": "all",
    "compute": "attention",
}  # not in `to_dict` at their defaults (see interp.config)
_LARGEST = 1e30  # optimizers multiply by lr, weight decay and l2 in float32


@dataclass(frozen=True)
class TrainingSettings:
    """How a population is trained. `batch` counts strings a seed and step.

    - `data`: `complete` strings of min_length..max_length brackets, or `prefix`es of `length`; of topic models
      `documents` drawn anew at every step, or `exact`: the infinite documents of every set of topics at once.
    - `targets`: the loss is taken on `all` predictions, or on `closers` only (as in the released code
      of Wen et al. 2023).  `loss`: cross entropy `ce`, or `mse` between logits and one-hot (eq. 5).
    - `contrastive`: weight of the regulariser of eq. 18: mean squared difference of a string's logits with
      and without r ~ U[1..D] nested pairs before it.
    - `l2`: adds l2 / 2 times the squared norm of all parameters to the loss.
    - `start` (topic models): weights `random`, all `zero`, or W_V at the `block` or `diagonal` optimum of the theory or
      the `identity` (then W_Q = W_K = 0). `trained`: `all` weights, or only `attention` (W_Q, W_K) or `embedding`.
    - `schedule`: `cosine` (to 0 over the run) or `constant`; both after `warmup` linear steps.
    - `compute` (brackets): `attention` over the positions of a string, or, for one layer without positions, `counts`
      of states: the same function at less cost, with other rounding (see the manual's part on speed).
    - `eval_every`, `snapshots`: steps at which to evaluate, and at which to keep weights.
    """

    steps: int = 1500
    batch: int = 32
    lr: float = 3e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: int = 0
    optimizer: Literal["adamw", "sgd"] = "adamw"
    weight_decay: float = 0.0
    loss: Literal["ce", "mse"] = "ce"
    l2: float = 0.0
    contrastive: float = 0.0
    targets: Literal["all", "closers"] = "all"
    data: Literal["complete", "prefix", "documents", "exact"] = "complete"
    min_length: int = 2
    max_length: int = 26
    length: int = 28
    eval_every: int = 300
    snapshots: tuple[int, ...] = ()
    start: Literal["random", "zero", "block", "diagonal", "identity"] = "random"
    trained: Literal["all", "attention", "embedding"] = "all"
    compute: Literal["attention", "counts"] = "attention"

    def __post_init__(self) -> None:
        make_plain(self)
        if not isinstance(self.snapshots, (list, tuple, np.ndarray)):
            raise ConfigError(f"snapshots={quoted(self.snapshots)} is not a list of steps")
        object.__setattr__(self, "snapshots", tuple(map(plain, self.snapshots)))
        for name, allowed in (
            ("schedule", ("cosine", "constant")),
            ("optimizer", ("adamw", "sgd")),
            ("loss", ("ce", "mse")),
            ("targets", ("all", "closers")),
            ("data", ("complete", "prefix", "documents", "exact")),
            ("start", ("random", "zero", "block", "diagonal", "identity")),
            ("trained", ("all", "attention", "embedding")),
            ("compute", ("attention", "counts")),
        ):
            if not one_of(getattr(self, name), allowed):
                raise ConfigError(f"{name}={quoted(getattr(self, name))} is not one of {', '.join(allowed)}")
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ConfigError(f"{name}={quoted(value)} is not a whole number from {least} to {most}")
        for name in ("lr", "weight_decay", "l2", "contrastive"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LARGEST:
                raise ConfigError(f"{name}={quoted(value)} is not a number from 0 to {_LARGEST:g}")
        for step in self.snapshots:
            if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= self.steps:
                raise ConfigError(f"snapshot step {quoted(step)} is not within 0..{self.steps}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        data = {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}
        return {**data, "snapshots": list(self.snapshots)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "TrainingSettings":
        """Inverse of `to_dict`; an unknown key is a `ConfigError`."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ConfigError(f"unknown training setting {quoted(unknown[0])}; known are {', '.join(sorted(known))}")
        return cls(**data)
