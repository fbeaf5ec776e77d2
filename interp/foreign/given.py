"""What is said of a model beside its tensors: by its file, by a config.json that lies there, and by the caller."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from interp._foreign_config import _HARMLESS, _READ_BESIDE, ACTIVATIONS, KNOWN
from interp.checks import not_read, whole_number
from interp.errors import ConfigError, quoted
from interp.foreign import gpt
from interp.foreign.files import settings_of

Settings = dict[str, Any]
_CHANGE_NOTHING = {*gpt.IDLE, *(name for names in _HARMLESS.values() for name in names)} - {*_READ_BESIDE}
_SIZES = ("n_ctx", "d_vocab", "n_layers", "n_heads", "d_model", "d_head")
_ANY = {*KNOWN, *gpt.MEANS, *gpt.IDLE, *gpt.NEUTRAL, "scale_attn_weights"}


def merged(own: Mapping[str, Any] | None, whose: str, given: Settings | None) -> Settings | None:
    """A file's `own` settings, and what `given` ones add. Raises `ConfigError` for one that contradicts the file's."""
    if not own or given is None:
        return given if not own else settings_of(own)
    told = settings_of(own)
    if (clash := contradiction(told, given)) is not None:
        name, there, value = clash
        raise ConfigError(
            f"config says {name}={quoted(given[name])}, and {whose} itself {there}={quoted(value)}: leave {name} out"
        )
    # A training script writes more than a model's settings: what is known of the model then comes from the caller.
    stands_alone = any(gpt.MEANS.get(name) == "n_heads" for name in given)
    hugging_face = "model_type" in told and "architectures" in told
    if stands_alone or hugging_face:
        told = {name: value for name, value in told.items() if name in _ANY}
    return given | {name: value for name, value in told.items() if value is not None or name not in given}


def contradiction(own: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, str, Any] | None:
    """(a given setting, its name in the file, the file's value) where both say something, and not the same."""
    there = {gpt.MEANS.get(name, name): (name, value) for name, value in own.items() if _says(name, value)}
    for name, value in given.items():
        usual = gpt.MEANS.get(name, name)
        if name in _CHANGE_NOTHING or usual not in there or not _says(name, value):
            continue
        called, told = there[usual]
        if _same_as(usual, told) != _same_as(usual, value):
            return name, called, told
    return None


def beside_only(config: Any, why: str) -> Settings | None:
    """A config for a model that has its own: how it is read beside its weights. Raises `RequestError` for more."""
    if config is None:
        return None
    settings = settings_of(config)
    if not set(settings) <= {"pad_token", "max_depth"}:
        not_read(f"{why}, beside which pad_token and max_depth may be said", config=config)
    return settings


def checked_adapter(settings: Settings, run: Any) -> Settings:
    """The settings of a function. Raises `ConfigError` for one that is unknown, or that is not a whole number."""
    known = (*_SIZES, "attention_dir", "device", "pad_token", "max_depth")
    if (unknown := next((name for name in settings if name not in known), None)) is not None:
        weights = (
            "; to have its weights read instead, where they are of a known format, pass its .state_dict()"
            if isinstance(run, nn.Module)
            else ""
        )
        raise ConfigError(
            f"config setting {quoted(unknown)} of an adapter is unknown: known are {', '.join(known)}{weights}"
        )
    whole = {
        name: whole_number(f"config setting {name}", settings[name], error=ConfigError)
        for name in _SIZES
        if settings.get(name) is not None and (name not in ("n_layers", "n_heads") or settings[name] != 0)
    }
    if (way := settings.get("attention_dir", "causal")) not in ("causal", "bidirectional"):
        raise ConfigError(f"config setting attention_dir={quoted(way)} is neither 'causal' nor 'bidirectional'")
    return settings | whole


def neighbour(file: Path, given: Settings | None) -> tuple[Settings | None, str]:
    """(the settings with those of a config.json beside a file that was named, what is to be said of it).

    Nobody named that one: where it contradicts what was given it is another model's, and is left alone.
    """
    path = file.with_name("config.json")
    if not path.is_file():
        return given, ""
    own = settings_of(path)
    clash = None if given is None else contradiction(own, given)
    if clash is None:
        return merged(own, quoted(str(path)), given), ""
    name, there, value = clash
    return given, f"{str(path)!r} says {there}={quoted(value)}, and is not read beside config with another {name}"


def _says(name: str, value: Any) -> bool:
    return value is not None or name == "normalization_type"


def _same_as(name: str, value: Any) -> Any:
    """A value as it is compared: names of one activation are one."""
    return ACTIVATIONS.get(value, value) if name == "act_fn" and isinstance(value, str) else value
