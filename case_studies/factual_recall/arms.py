"""Which models are trained: those whose stages, heads and maps are looked at, and those of every size."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from case_studies.populations import Family
from interp.recipe import Recipe

OFTEN = 5  # steps between evaluations: with Adam the stage lasts some twenty steps
ALPHA = 1e-3  # of the linear arm; the two others show what smaller and larger first weights do
LINEAR = {"eval_every": OFTEN}

ARMS = (
    Family("attention and MLP", "facts", {"eval_every": OFTEN}),
    Family("attention only", "facts-attention", {"eval_every": OFTEN}),
    Family("linear", "facts-linear", {**LINEAR, "alpha": ALPHA}),
    Family("linear, alpha = .1", "facts-linear", {**LINEAR, "alpha": 0.1}),
    Family("linear, alpha = 1e-5", "facts-linear", {**LINEAR, "alpha": 1e-5}),
    Family("linear, all weights drawn", "facts-linear", {**LINEAR, "start": "drawn", "init_std": 0.1}),
)
PRIMARY = ("attention and MLP", "attention only", "linear")

# A table of 128 facts, S + R = 24, R + A_max = 16, in short strings: noise is not what is asked about. Embeddings and
# unembedding are random and frozen, as in the bounds.
SMALL: Mapping[str, Any] = {
    "subjects": 16, "relations": 8, "answers": 8, "noise": 4, "length": 4, "trained": "maps",
    "lr": 1e-2, "warmup": 30, "init_std": 0.3,
}  # fmt: skip
STEPS, BATCH = 400, 64


@dataclass(frozen=True)
class Sized(Family):
    """A family whose sizes are set one by one."""

    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """The preset with these sizes."""
        recipe, sizes = super().recipe, dict[str, Any](self.sizes)
        return replace(recipe, config=replace(recipe.config, **sizes))


@dataclass(frozen=True)
class Knob:
    """One size that is varied, all others fixed.

    - `bound`: what the slides ask of it, as a value: sizes below do not suffice.  `primary`: named before the run.
    """

    name: str
    preset: str
    values: tuple[int, ...]
    fixed: Mapping[str, int]
    varied: str
    bound: float
    said: str
    primary: bool = False

    def scale(self, value: int) -> int:
        """The size on the axis: H d_h for heads."""
        return value * self.fixed["d_head"] if self.varied == "n_heads" else value

    @property
    def families(self) -> tuple[Sized, ...]:
        """One a size."""
        return tuple(
            Sized(
                f"{self.name} {self.scale(value)}",
                self.preset,
                {**SMALL, "eval_every": STEPS},
                STEPS,
                BATCH,
                sizes={**self.fixed, self.varied: value},
            )
            for value in self.values
        )


_HEADS = {"n_heads": 4, "d_head": 6}
KNOBS = (
    Knob("MLP width m =", "facts", (2, 8, 32), {**_HEADS, "d_model": 8}, "d_mlp", 16, "m d >= S R", True),
    Knob("with MLP, width d =", "facts", (4, 8, 16, 32), {**_HEADS, "d_mlp": 16}, "d_model", 8, "m d >= S R"),
    Knob(
        "with MLP, H d_h =",
        "facts",
        (1, 2, 4),
        {"d_head": 4, "d_model": 16, "d_mlp": 32},
        "n_heads",
        24,
        "H d_h >= S + R",
    ),
    Knob("attention only, width d =", "facts-attention", (4, 8, 16, 32), _HEADS, "d_model", 16, "d >= R + A_max"),
    Knob(
        "attention only, H d_h =",
        "facts-attention",
        (1, 2, 4),
        {"d_head": 4, "d_model": 32},
        "n_heads",
        16,
        "H d_h >= S",
        True,
    ),
)
