"""What the checks of a world look at: its grammars, recipes, inputs and short trainings, each made once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checking.suite import must
from interp.claims.register import claims_of
from interp.errors import WorldError, quoted
from interp.population import Population
from interp.presets import make_recipe
from interp.recipe import Recipe, num_labels
from interp.rng import generator
from interp.training.run import train_population
from interp.world import World

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
STEPS = 4  # of a training that is only to show that there can be one
INPUTS, LENGTH = 64, 12  # strings on which truth is asked
IGNORE = -100


@dataclass(frozen=True)
class Subject:
    """One world under examination."""

    world: World

    @cached_property
    def grammars(self) -> tuple[Any, ...]:
        """A small instance of each kind: what `small()` of its class gives, else the default one."""
        return tuple(map(instance, self.world.grammars))

    @cached_property
    def instances(self) -> tuple[Any, ...]:
        """The same, and the grammar that `World.finite` makes."""
        make = self.world.load("finite")
        return self.grammars if make is None else (*self.grammars, make())

    @property
    def labelled(self) -> list[Any]:
        """Instances that draw strings and label them."""
        return [grammar for grammar in self.instances if hasattr(grammar, "labels")]

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """Every preset, for a few steps."""
        return {name: make_recipe(name, steps=STEPS) for name in self.world.presets}

    @cached_property
    def trained(self) -> dict[str, tuple[Population, Population, Population]]:
        """Of every preset seeds 0 and 1 trained together, and each alone."""
        here = partial(train_population, workers=1)  # in this process
        return {
            name: (here(recipe, [0, 1]), here(recipe, [0]), here(recipe, [1])) for name, recipe in self.recipes.items()
        }

    def asked(self) -> list[tuple[Any, Ints]]:
        """Grammars that inputs can be drawn of, with theirs [input, pos]."""
        return [(grammar, tokens) for grammar in self.grammars if (tokens := inputs_of(grammar)) is not None]


def instance(kind: type) -> Any:
    """A small grammar of a kind."""
    small: Callable[[], Any] = getattr(kind, "small", kind)
    try:
        made = small()
    except TypeError as error:
        raise WorldError(
            f"grammar {kind.__name__} cannot be made without arguments: give each field a default, or write small() "
            f"({error})"
        ) from error
    must(type(made) is kind, f"{kind.__name__}.small() gives {quoted(made)}, which is no {kind.__name__}")
    return made


def inputs_of(grammar: Any, count: int = INPUTS, length: int = LENGTH, seed: int = 0) -> Ints | None:
    """Model inputs [input, pos]: those that the world audits on, else what the grammar draws; None without either."""
    own = claims_of(grammar).inputs
    if own is not None:
        return np.asarray(own(grammar, count, length, seed, "check/inputs"), dtype=np.int64)
    if not hasattr(grammar, "labels"):
        return None  # what `draw` gives is then its world's own affair
    return np.asarray(grammar.draw(generator(seed, "check/inputs"), count), dtype=np.int64)


def name_of(grammar: Any) -> str:
    """How a message calls a grammar."""
    return f"grammar {type(grammar).__name__}"


def check_ids(tokens: Any, shape: Sequence[int], size: int, what: str) -> None:
    """Whole numbers of a shape, each below `size`."""
    array = np.asarray(tokens)
    must(array.dtype.kind in "iu", f"{what} are of type {array.dtype}, and whole numbers are needed")
    must(array.shape == tuple(shape), f"{what} have shape {list(array.shape)}, and {list(shape)} is needed")
    wrong = (array < 0) | (array >= size)
    must(not wrong.any(), f"{what} hold {array[wrong][:1]}, and 0 to {size - 1} are known")


def check_mask(mask: Any, shape: Sequence[int], what: str) -> None:
    """Truth values of a shape."""
    array = np.asarray(mask)
    must(array.dtype == bool, f"{what} are of type {array.dtype}, and truth values are needed")
    must(array.shape == tuple(shape), f"{what} have shape {list(array.shape)}, and {list(shape)} is needed")


def check_labels(labels: Any, shape: Sequence[int], grammar: Any, what: str) -> None:
    """Labels of a shape, or -100."""
    array = np.asarray(labels)
    check_ids(np.where(array == IGNORE, 0, array), shape, num_labels(grammar), f"{what} (-100 apart)")


def same(one: Any, other: Any) -> bool:
    """Whether two batches of arrays are equal, bit for bit."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(map(np.asarray, one), map(np.asarray, other), strict=True)
    )
