"""Whether another package's world may join those that are there: it takes no name that is in use, and breaks none.

Imports no torch.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from interp.claims import Claims, Condition, Relation, general, places, rows
from interp.claims.register import ANYWHERE
from interp.errors import WorldError, quoted
from interp.presets import MODEL_KEYS
from interp.settings import TrainingSettings
from interp.theirs import load_theirs
from interp.vocabulary import Vocabulary
from interp.world import Column, Embedding, Overlay, Preset, World

_PARTS: Mapping[str, type] = {"presets": Preset, "overlays": Overlay, "embeddings": Embedding, "constructed": str}

EVERYWHERE: Mapping[str, Sequence[Any]] = {
    "relations": (*general.RELATIONS, *places.RELATIONS),
    "conditions": (*general.CONDITIONS, *rows.CONDITIONS),
}


def check_joins(world: World, others: Sequence[World]) -> None:
    """Raise `WorldError`, in one line that names the world, for one that cannot stand beside the others."""
    _check_shape(world)
    if Vocabulary.KIND in _names(world, "grammars"):
        _refuse(world, f"a grammar of kind {quoted(Vocabulary.KIND)} is a plain vocabulary")
    for part in (*_PARTS, "grammars"):
        mine = dict.fromkeys(_names(world, part)) if part == "grammars" else getattr(world, part)
        for other in others:
            both = sorted(set(mine) & set(_names(other, part)))
            # What a world hands on from another, unchanged, takes nothing away.
            taken = [name for name in both if part == "grammars" or mine[name] is not getattr(other, part)[name]]
            if taken:
                _refuse(world, f"{part} {quoted(taken[0])} is one of the world {quoted(other.name)} already")
    if "none" in world.overlays:
        _refuse(world, "an overlay cannot be called 'none'")
    if clash := taken_keys(world):
        _refuse(world, f"option {quoted(clash[0])} is a key of models or settings already")
    for key, name in world.options.items():
        if any(name not in getattr(kind, "__dataclass_fields__", {}) for kind in world.grammars):
            _refuse(world, f"option {quoted(key)} sets {quoted(name)}, which its grammar has not")
    if world.claims is not None:
        _check_claims(world, others)


def taken_keys(world: World) -> list[str]:
    """Its options whose names are those of models or settings, which `--set` could not tell apart."""
    return sorted({*MODEL_KEYS, "width", *world.settings.__dataclass_fields__} & set(world.options))


def _check_shape(world: World) -> None:
    if not world.grammars or not all(isinstance(kind, type) for kind in world.grammars):
        _refuse(world, f"grammars={quoted(world.grammars)} are no classes")
    for part, kind in _PARTS.items():
        given = getattr(world, part)
        if not isinstance(given, Mapping):
            _refuse(world, f"{part}={quoted(given)} is not a mapping")
        for name, one in given.items():
            if not isinstance(name, str) or not isinstance(one, kind):
                _refuse(world, f"{part}[{quoted(name)}]={quoted(one)} is no {kind.__name__} by its name")
    for name, preset in world.presets.items():
        if preset.grammar not in world.grammars:
            _refuse(world, f"preset {quoted(name)} is for {quoted(preset.grammar)}, no grammar of it")
    if not isinstance(world.options, Mapping) or not isinstance(world.columns, Mapping):
        _refuse(world, "options and columns are mappings of names")
    for name, column in world.columns.items():
        if not isinstance(column, (str, Column)) or not column:
            _refuse(world, f"columns[{quoted(name)}]={quoted(column)} is neither a head nor a Column")
    if not isinstance(world.settings, type) or not issubclass(world.settings, TrainingSettings):
        _refuse(world, f"settings={quoted(world.settings)} is not a class of TrainingSettings")


def _names(world: World, part: str) -> list[str]:
    if part == "grammars":
        return [kind.KIND for kind in world.grammars]
    return list(getattr(world, part))


def _check_claims(world: World, others: Sequence[World]) -> None:
    what = f"world {quoted(world.name)}: its claims {quoted(world.claims)} cannot be loaded"
    own = load_theirs(lambda: world.load("claims"), WorldError, what)
    if not isinstance(own, Claims):
        _refuse(world, f"claims={quoted(own)} are no Claims")
    known = [theirs for theirs in (other.load("claims") for other in others) if theirs is not None]
    if any(own is theirs for theirs in known):
        return  # handed on from another world, unchanged
    for part, kind in (("relations", Relation), ("conditions", Condition), ("questions", object)):
        mine, theirs = getattr(own, part), [thing for one in known for thing in getattr(one, part)]
        if any(not isinstance(thing, kind) or not hasattr(thing, "words") for thing in mine):
            _refuse(world, f"its {part} are no {kind.__name__}s")
        theirs += EVERYWHERE.get(part, ())
        taken = _said(theirs)
        if clash := next((said for said in _said(m for m in mine if m not in theirs) if said in taken), None):
            _refuse(world, f"{quoted(clash)} of its {part} is said by another world, or by all")
    if clash := next((question.name for question in own.questions if question.name in ANYWHERE), None):
        _refuse(world, f"a question cannot be called {quoted(clash)}, which is one of every world")
    words = [
        word for one in known for part in ("relations", "conditions", "questions") for word in _said(getattr(one, part))
    ]
    words += _said([*EVERYWHERE["relations"], *EVERYWHERE["conditions"]])
    for pattern, word in own.same:
        try:
            changed = next((said for said in words if re.sub(pattern, word, said) != said), None)
        except re.error as error:
            _refuse(world, f"same={quoted(pattern)} is not a regular expression: {error}")
        if changed is not None:
            _refuse(world, f"same={quoted(pattern)} changes {quoted(changed)}, which others say")


def _said(things: Iterable[Any]) -> list[str]:
    return [said for thing in things for said in (thing.name, thing.words, *getattr(thing, "also", ()))]


def _refuse(world: World, why: str) -> NoReturn:
    raise WorldError(f"world {quoted(world.name)}: {why}")
