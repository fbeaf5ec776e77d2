"""`TrainingSettings`: how a population is trained, whatever its world. Imports no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from interp.constraints import Annotated, Interval, Literal, check_fields, doc
from interp.errors import ConfigError, quoted

LARGEST = 1e30  # optimizers multiply by lr, weight decay and l2 in float32
MOST = 10**9  # beyond, nothing here would ever finish


@dataclass(frozen=True)
class TrainingSettings:
    """How a population is trained. `batch` counts strings per seed and step. Worlds add settings of their own.

    - `loss`: cross entropy `ce`, or `mse` between logits and one-hot (Wen et al. 2023, eq. 5).
    - `l2`: adds l2 / 2 times the squared norm of all parameters to the loss.
    - `schedule`: `cosine` (to 0 over the run) or `constant`; both after `warmup` linear steps. `hold`: the rate changes
      after this many steps, those of an epoch, say.
    - `crossed`: of n > 0, seed s starts from the weights of seed s // n and reads the data of seed s % n, so that
      n * n seeds tell what initial weights do from what data do (`probes.variation.share_of_origins`).
    - `eval_every`, `snapshots`: steps at which to evaluate, and at which to keep weights.

    Raises `ConfigError` for a value out of its range, and for a snapshot step beyond the last.
    """

    # Fields that came after the first files: not in `to_dict` at these values, so that bytes stay what they were.
    LATER: ClassVar[Mapping[str, Any]] = {"hold": 1, "crossed": 0}
    # Settings of other worlds that the first files carry, at the only values that they had.
    CARRIED: ClassVar[Mapping[str, Any]] = {}

    steps: Annotated[int, Interval(ge=1, le=MOST), doc("steps of training")] = 1500
    batch: Annotated[int, Interval(ge=1, le=100_000), doc("strings per seed and step")] = 32
    lr: Annotated[float, Interval(ge=0, le=LARGEST), doc("learning rate")] = 3e-3
    schedule: Annotated[Literal["cosine", "constant"], doc("how the learning rate changes after warmup")] = "cosine"
    warmup: Annotated[int, Interval(ge=0, le=MOST), doc("steps in which the learning rate rises")] = 0
    hold: Annotated[int, Interval(ge=1, le=MOST), doc("steps between changes of the learning rate")] = 1
    optimizer: Annotated[Literal["adamw", "sgd"], doc("the optimizer")] = "adamw"
    weight_decay: Annotated[float, Interval(ge=0, le=LARGEST), doc("decoupled weight decay")] = 0.0
    loss: Annotated[Literal["ce", "mse"], doc("cross entropy, or squared distance to the one-hot target")] = "ce"
    l2: Annotated[float, Interval(ge=0, le=LARGEST), doc("weight of half the squared norm of all parameters")] = 0.0
    crossed: Annotated[
        int, Interval(ge=0, le=100_000), doc("n: seed s has the first weights of s // n, the data of s % n; 0: its own")
    ] = 0
    eval_every: Annotated[int, Interval(ge=1, le=MOST), doc("steps between evaluations")] = 300
    snapshots: Annotated[
        tuple[Annotated[int, Interval(ge=0, le=MOST)], ...], doc("steps at which weights are kept")
    ] = ()

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        for step in self.snapshots:
            if step > self.steps:
                raise ConfigError(f"snapshot step {quoted(step)} is not within 0..{self.steps}")

    def origins(self, seed: int) -> tuple[int, int]:
        """The seeds of the first weights and of the data."""
        return origins(self.crossed, seed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        data = {name: value for name, value in asdict(self).items() if self.LATER.get(name, _NEVER) != value}
        return {**self.CARRIED, **{name: list(v) if isinstance(v, tuple) else v for name, v in data.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`; an unknown key is a `ConfigError`."""
        known = {f.name for f in fields(cls)}
        own = {name: value for name, value in data.items() if cls.CARRIED.get(name, _NEVER) != value}
        if unknown := sorted(set(own) - known):
            raise ConfigError(f"unknown training setting {quoted(unknown[0])}; known are {', '.join(sorted(known))}")
        return cls(**own)

    @classmethod
    def of(cls, settings: "TrainingSettings") -> Self:
        """Common settings as a world's own, whose further ones are at their defaults."""
        return cls(**{f.name: getattr(settings, f.name) for f in fields(settings)})


_NEVER = object()


def origins(crossed: int, seed: int) -> tuple[int, int]:
    """The seeds of the first weights and of the data of one seed; the same one twice where they were not crossed."""
    return (seed // crossed, seed % crossed) if crossed else (seed, seed)


def first_seed(provenance: Mapping[str, Any], seed: int) -> int:
    """The seed of the first weights, which is another one where initial weights and data were crossed."""
    return origins(provenance.get("settings", {}).get("crossed", 0), seed)[0]
