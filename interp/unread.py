"""Which parts of a recipe its training does not read, and why: tables, for `--set` and for recipes made in Python.

A setting that the chosen path never reads would be written into the checkpoint and change nothing. Where a user gave
one, it is refused by name. Imports no torch.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from interp.config import TransformerConfig
from interp.errors import RequestError, quoted

if TYPE_CHECKING:
    from interp.recipe import Recipe

LEAST_RATE = 2.0**-149  # the least number of float32, in which optimizers multiply
Field = tuple[str, str]  # (part of a recipe: "grammar", "config" or "settings"; its field)


@dataclass(frozen=True)
class Unread:
    """Fields that nothing reads `when` a recipe is so; `why` is said to whoever gave one, and `cure`: what to do."""

    fields: tuple[str, ...]
    when: Callable[["Recipe"], bool]
    why: str
    cure: str = "leave it out"


COMMON: tuple[Unread, ...] = (
    # -- the optimizer
    Unread(
        ("settings.lr",),
        lambda r: r.settings.lr < LEAST_RATE,
        "at a learning rate of 0 nothing trains",
        "give one above 0, or take untrained models with Population.init",
    ),
    Unread(
        ("settings.eval_every",),
        lambda r: r.settings.eval_every > r.settings.steps,
        "the last step is measured anyway",
        "give at most the number of steps",
    ),
    Unread(
        ("settings.schedule",),
        lambda r: r.settings.steps - r.settings.warmup < 2,
        "no step is left after warmup for the learning rate to fall in",
    ),
    Unread(
        ("settings.hold",),
        lambda r: r.settings.schedule == "constant",
        "schedule='constant' keeps the learning rate",
    ),
    Unread(
        ("settings.hold",),
        lambda r: r.settings.schedule != "constant" and r.settings.hold >= r.settings.steps - r.settings.warmup,
        "the learning rate would never fall",
        "give fewer steps than the training has, or schedule='constant'",
    ),
    # -- the model
    Unread(("config.d_mlp", "config.activation"), lambda r: r.config.mlp_depth == 0, "there is no MLP (mlp_depth=0)"),
    Unread(("config.norm_eps",), lambda r: r.config.norm == "none", "the model has no norm (norm='none')"),
    Unread(("config.final_norm",), lambda r: r.config.norm == "none", "the model has no norm (norm='none')"),
    Unread(
        ("config.final_norm",),
        lambda r: r.config.final_norm is not None and r.config.final_norm == (r.config.block == "gpt2"),
        "the block has it so by itself",
    ),
    Unread(("config.unembed_bias",), lambda r: not r.config.biases, "the model has no biases (biases=False)"),
    Unread(
        ("config.scale_scores", "config.attn_scale"),
        lambda r: r.config.attention == "uniform",
        "attention='uniform' has no scores",
    ),
)  # fmt: skip


def unread(recipe: "Recipe") -> dict[Field, Unread]:
    """The fields that training this recipe does not read, with the rule that says so."""
    found: dict[Field, Unread] = {}
    for rule in (*recipe.world.unread, *COMMON):
        for name in rule.fields:
            part, _, field = name.partition(".")
            if hasattr(getattr(recipe, part), field) and rule.when(recipe):
                found.setdefault((part, field), rule)
    return found


def refuse_unread(recipe: "Recipe", given: Mapping[str, Field]) -> None:
    """Raise `RequestError` for the first of the options `given` (name -> field) that nothing reads."""
    reasons = unread(recipe)
    for name, (part, field) in given.items():
        if (part, field) in reasons:
            value = getattr(getattr(recipe, part), field)
            rule = reasons[part, field]
            raise RequestError(f"{name}={quoted(value)} changes nothing here: {rule.why}; {rule.cure}")


def changed_fields(recipe: "Recipe", plain: tuple[TransformerConfig | None, Any]) -> Iterator[Field]:
    """Fields that somebody set: they differ from `plain` (a preset's config and settings), or from their defaults."""
    for part, usual in (("config", plain[0]), ("settings", plain[1]), ("grammar", None)):
        mine = getattr(recipe, part)
        for field in fields(mine):
            expected = field.default if usual is None else getattr(usual, field.name)
            if getattr(mine, field.name) != expected:
                yield part, field.name
