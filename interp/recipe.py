"""`Recipe`: all that decides what a population becomes, apart from its seeds. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interp.config import TransformerConfig
from interp.errors import ConfigError, WorldError, quoted
from interp.grammars import Grammar
from interp.registry import grammar_from_dict, world_of
from interp.rng import generator
from interp.settings import TrainingSettings
from interp.theirs import load_theirs
from interp.world import World


@dataclass(frozen=True)
class Recipe:
    """All that decides what a population becomes, apart from its seeds.

    A grammar whose labels are no tokens (`label_names`) gives the model's outputs their names.

    Raises `ConfigError` where the model's tokens and outputs are not those of the grammar, or where its world says
    that the model or the settings cannot learn it.
    """

    name: str
    grammar: Grammar
    config: TransformerConfig
    settings: TrainingSettings

    def __post_init__(self) -> None:
        outputs, names = num_labels(self.grammar), getattr(self.grammar, "label_names", None)
        if names is not None and self.config.class_names is None and self.config.d_out == outputs:
            object.__setattr__(self, "config", replace(self.config, class_names=tuple(names)))
        if self.config.d_vocab != self.grammar.vocab_size or self.config.d_out != outputs:
            also = "" if outputs == self.grammar.vocab_size else f" and {outputs} labels"
            raise ConfigError(
                f"d_vocab={self.config.d_vocab}, d_out={self.config.d_out} do not fit the grammar's "
                f"vocabulary of {self.grammar.vocab_size}{also}"
            )
        object.__setattr__(self, "settings", own_settings(self.settings, self.world))
        if self.world.check is not None:
            self.world.check(self)
        if self.config.bounded:
            what = f"world {quoted(self.world.name)}: how long its strings are cannot be determined"
            needed = load_theirs(self._longest, WorldError, what)
            if needed > self.config.n_ctx:
                raise ConfigError(f"strings fill {needed} positions, more than n_ctx={self.config.n_ctx}")

    def _longest(self) -> int:
        """How many positions strings fill; 0 where neither world nor grammar can say."""
        if self.world.longest is not None:
            return self.world.longest(self)
        return string_length(self.grammar) if hasattr(self.grammar, "draw") else 0

    @property
    def world(self) -> World:
        """The world of the grammar. Raises `ConfigError` for a grammar that nothing can be trained on."""
        world = world_of(self.grammar)
        if world is None:
            raise ConfigError(f"grammar={quoted(self.grammar)} is of no world: nothing can be trained on it")
        return world

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Recipe":
        """Inverse of `to_dict`. Raises `InterpError` for what describes no recipe."""
        grammar = grammar_from_dict(data["grammar"])
        world = world_of(grammar)
        settings = TrainingSettings if world is None else world.settings
        config, told = TransformerConfig.from_dict(data["config"]), settings.from_dict(data["settings"])
        return cls(data["name"], grammar, config, told)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "grammar": self.grammar.to_dict(),
            "config": self.config.to_dict(),
            "settings": self.settings.to_dict(),
        }


def own_settings(settings: TrainingSettings, world: World) -> TrainingSettings:
    """Settings as the world's own: common ones get its further fields, at their defaults.

    Raises `ConfigError` for those of another world.
    """
    own = world.settings
    if type(settings) is TrainingSettings:
        settings = own.of(settings)
    if not isinstance(settings, own):
        raise ConfigError(
            f"settings={quoted(settings)} are {type(settings).__name__}, and the world "
            f"{quoted(world.name)} trains by {own.__name__}"
        )
    return settings


def string_length(grammar: Any) -> int:
    """How many tokens the longest string that a grammar draws has, its padding included."""
    return int(np.shape(grammar.draw(generator(0, "length"), 1))[1])


def num_labels(grammar: Grammar) -> int:
    """How many outputs a model of this grammar has: its labels where it names some, else its tokens."""
    names = getattr(grammar, "label_names", None)
    return grammar.vocab_size if names is None else len(names)
