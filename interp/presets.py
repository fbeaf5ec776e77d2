"""Presets: a grammar, a model and training settings under one name. Imports no torch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from interp.checks import one_of, plain, whole_number
from interp.config import TransformerConfig, disentangled_width
from interp.constraints import help_of, read_option
from interp.errors import InterpError, RequestError, quoted
from interp.names import did_you_mean
from interp.recipe import Recipe as Recipe
from interp.recipe import own_settings
from interp.registry import broken, presets, worlds
from interp.settings import TrainingSettings as TrainingSettings
from interp.unread import changed_fields, refuse_unread
from interp.world import World

MODEL_KEYS = {
    "positions": "positions",
    "layers": "n_layers",
    "heads": "n_heads",
    "n_ctx": "n_ctx",
    "init_std": "init_std",
    "block": "block",
    "embedding": "embedding",
    "scale_scores": "scale_scores",
    "norm_added": "norm_added",
    "final_norm": "final_norm",
    "unembed_bias": "unembed_bias",
}
OWN_ARGUMENTS = {"steps", "batch", "snapshots"}  # settings that `make_recipe` and `interp train` take by themselves


def set_keys() -> tuple[str, ...]:
    """Every `--set` key of any world, sorted."""
    own = {key for world in worlds() for key in (*world.options, *_setting_keys(world.settings))}
    return tuple(sorted({*own, *MODEL_KEYS, "width"}))


def options_of(preset: str) -> dict[str, str]:
    """The `--set` keys of a preset, each with what it sets and takes."""
    world = next(world for world in worlds() if preset in world.presets)
    grammar, settings = help_of(world.presets[preset].grammar), help_of(world.settings)
    model = help_of(TransformerConfig)
    told = {key: grammar.get(name, "") for key, name in _grammar_keys(world, world.presets[preset].grammar).items()}
    told |= {key: model.get(name, "") for key, name in MODEL_KEYS.items()}
    told |= {"width": "d_model, d_head x n_heads and d_mlp together; d_head alone on an oracle first layer"}
    return told | {key: text for key, text in settings.items() if key not in {*told, *OWN_ARGUMENTS}}


def _symbol(preset: str, key: str) -> str:
    """Which options a symbol of the papers stands for ("p_i", "T"), by what is said of them: " (...)", "" for none."""
    if not isinstance(key, str) or len(key.partition("_")[0]) > 1:
        return ""
    symbol = re.compile(rf"(?<!\w){re.escape(key)}(_\w+)?(?!\w)")
    said = {name: re.split("[:;]", text)[0] for name, text in options_of(preset).items()}
    found = [f"{name} is {text}" for name, text in said.items() if symbol.search(text)]
    return f" ({'; '.join(found)})" if found else ""


def _grammar_keys(world: World, grammar: type[Any]) -> dict[str, str]:
    """The world's `--set` keys that this grammar of it has a field for, each with the field."""
    have = getattr(grammar, "__dataclass_fields__", world.options.values())
    return {key: name for key, name in world.options.items() if name in have}


def _setting_keys(settings: type[TrainingSettings]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(settings) if f.name not in OWN_ARGUMENTS)


def __getattr__(name: str) -> Any:
    """`PRESETS` and `SET_KEYS`: of all worlds, which are loaded when first asked for."""
    if name == "PRESETS":
        return presets()
    if name == "SET_KEYS":
        return set_keys()
    raise AttributeError(f"module 'interp.presets' has no attribute {quoted(name)}")


def make_recipe(
    preset: str,
    options: Mapping[str, Any] | None = None,
    *,
    steps: int | None = None,
    batch: int | None = None,
    snapshots: Sequence[int] = (),
) -> Recipe:
    """The recipe of a preset with `--set` options applied (`set_keys()`).

    `width` sets d_model, d_head x n_heads and d_mlp together; for an oracle first layer, whose d_model
    is fixed, it sets d_head. A field that holds several takes a list, or "a,b,c" as the command line writes it.
    """
    known, known_keys = presets(), set_keys()
    if not one_of(preset, known):
        lost = "".join(f"; {name} cannot be used: {reason}" for name, reason in broken().items())
        raise RequestError(
            f"no preset {quoted(preset)}{did_you_mean(preset, known)}; presets are {', '.join(known)}{lost}"
        )
    if options is not None and not isinstance(options, Mapping):
        raise RequestError(f"options={quoted(options)} is not a mapping of keys of --set to values")
    options = {key: plain(value) for key, value in (options or {}).items()}
    kind: Any = known[preset].grammar
    world = next(world for world in worlds() if preset in world.presets)
    own = _grammar_keys(world, kind)
    takes = {*own, *MODEL_KEYS, "width", *_setting_keys(world.settings)}
    for key in options:
        if key in takes:
            continue
        theirs, meant_by = ", ".join(sorted(takes)), _symbol(preset, key)
        if not one_of(key, known_keys):
            near = meant_by or did_you_mean(key, known_keys)
            raise RequestError(f"no option {quoted(key)}{near}; {quoted(preset)} takes {theirs}")
        raise RequestError(f"option {quoted(key)} is not one of {quoted(preset)}{meant_by}, which takes {theirs}")
    given = {key: value for key, value in (("steps", steps), ("batch", batch)) if value is not None}
    fields_of = {key: ("grammar", name) for key, name in own.items()}
    fields_of |= {key: ("config", name) for key, name in (*MODEL_KEYS.items(), ("width", "d_head"))}
    meant = {key: fields_of.get(key, ("settings", key)) for key in (*options, *given)}
    with _in_users_words({key: name for key, (_, name) in fields_of.items() if key != "width"}, options):
        grammar = kind(**{name: read_option(kind, name, options[key]) for key, name in own.items() if key in options})
        config = known[preset].model(grammar)
        model_changes = {
            name: read_option(TransformerConfig, name, options[key])
            for key, name in MODEL_KEYS.items()
            if key in options
        }
        width = read_option(TransformerConfig, "d_model", options["width"]) if "width" in options else None
        config = _resize(config, width, model_changes)
        usual = own_settings(known[preset].settings, world)
        told = {key: value for key, value in options.items() if meant[key][0] == "settings"}
        changes = given | {key: read_option(world.settings, key, value) for key, value in told.items()}
        if len(snapshots):
            changes["snapshots"] = snapshots
        recipe = Recipe(preset, grammar, config, replace(usual, **changes))
    refuse_unread(recipe, meant)
    return recipe


def check_read(recipe: Recipe) -> None:
    """Raise `RequestError` for a setting of a recipe made in Python that its training does not read.

    As far as it can be told that somebody set it: it differs from the preset of the recipe's name, or from the default.
    """
    usual: tuple[TransformerConfig | None, TrainingSettings | None] = (None, None)
    preset = presets().get(recipe.name)
    if preset is not None and isinstance(recipe.grammar, preset.grammar):
        usual = preset.model(recipe.grammar), own_settings(preset.settings, recipe.world)
    refuse_unread(recipe, {field: (part, field) for part, field in changed_fields(recipe, usual)})


@contextmanager
def _in_users_words(names: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[None]:
    """Errors quote options by the keys that the user knows (`layers=0`), not by the fields they set (`n_layers=0`)."""
    try:
        yield
    except InterpError as error:
        said = str(error)
        for key, name in names.items():
            said = re.sub(rf"\b{name}=", f"{key}=", said)
        if options and not any(f"{key}=" in said for key in options):
            said = f"{', '.join(f'{key}={quoted(value)}' for key, value in options.items())}: {said}"
        raise type(error)(said) from error


def _resize(config: TransformerConfig, width: int | None, changes: dict[str, Any]) -> TransformerConfig:
    """Apply width and heads together: without an explicit width the heads share the present one.

    A disentangled model's width follows from what it lays side by side.
    """
    if config.block == "disentangled":
        if width is not None:
            raise RequestError(
                f"width={quoted(width)}: of block='disentangled' it follows from tokens, positions, layers and heads"
            )
        n_ctx, layers, heads = (changes.get(name, getattr(config, name)) for name in ("n_ctx", "n_layers", "n_heads"))
        for name, value in (("n_ctx", n_ctx), ("layers", layers), ("heads", heads)):
            whole_number(name, value)
        size = disentangled_width(config.d_vocab, n_ctx, layers, heads)
        return replace(config, d_model=size, d_head=size, **changes)
    if width is None and "n_heads" not in changes:
        return replace(config, **changes)  # whatever widths the preset gives
    total = config.n_heads * config.d_head if width is None else width
    heads = changes.get("n_heads", config.n_heads)
    for name, value in (("width", total), ("heads", heads)):
        whole_number(name, value)
    if total % heads:
        raise RequestError(f"width={total} is not divisible by heads={heads}")
    sizes = {"d_head": total // heads}
    if config.block != "bare":
        sizes |= {"d_model": total} | ({"d_mlp": total} if config.mlp_depth else {})
    return replace(config, **sizes, **changes)
