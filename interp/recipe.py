"""`Recipe`: all that decides what a population becomes, apart from its seeds. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interp.config import TransformerConfig
from interp.errors import ConfigError, quoted
from interp.grammars import Grammar
from interp.registry import grammar_from_dict, world_of
from interp.rng import generator
from interp.settings import TrainingSettings
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
        own = self.world.settings
        if type(self.settings) is TrainingSettings:
            object.__setattr__(self, "settings", own.of(self.settings))
        if not isinstance(self.settings, own):
            raise ConfigError(
                f"settings={quoted(self.settings)} are {type(self.settings).__name__}, and the world "
                f"{quoted(self.world.name)} trains by {own.__name__}"
            )
        if self.world.check is not None:
            self.world.check(self)
        if self.world.task is None and self.config.positions == "learned":
            needed = string_length(self.grammar)
            if needed > self.config.n_ctx:
                raise ConfigError(f"strings of {needed} tokens are more than n_ctx={self.config.n_ctx} positions")

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


def string_length(grammar: Any) -> int:
    """How many tokens the longest string that a grammar draws has, its padding included."""
    return int(np.shape(grammar.draw(generator(0, "length"), 1))[1])


def num_labels(grammar: Grammar) -> int:
    """How many outputs a model of this grammar has: its labels where it names some, else its tokens."""
    names = getattr(grammar, "label_names", None)
    return grammar.vocab_size if names is None else len(names)
