"""Checks of what a world says of itself: parts, grammars, texts, options, settings, presets."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from interp.checking.subject import Subject, name_of, same
from interp.checking.suite import must
from interp.company import taken_keys
from interp.config import TransformerConfig
from interp.constraints import Annotated, Several, declared, help_of
from interp.errors import ConfigError, InterpError, quoted
from interp.model import SandboxTransformer
from interp.presets import make_recipe
from interp.recipe import Recipe, num_labels
from interp.registry import grammar_from_dict, list_worlds, presets, worlds
from interp.settings import TrainingSettings
from interp.training.task import make_task
from interp.unread import unread
from interp.world import World, load

LATE = ("task", "start", "size", "vouch", "claims", "construct", "finite", "adopt", "reference")  # "module:attribute"


def check_parts(subject: Subject) -> None:
    """The world says what it is, and what it names by "module:attribute" is there."""
    world = subject.world
    must(isinstance(world.about, str) and world.about.strip(), f"about={quoted(world.about)} says nothing")
    must(world.grammars, "it has no grammar")
    kind: Any = world.settings
    must(isinstance(kind, type) and issubclass(kind, TrainingSettings), f"settings={quoted(kind)} are no settings")
    named = {part: getattr(world, part) for part in LATE}
    for name, oracle in world.embeddings.items():
        named |= {f"build of {name}": oracle.build, f"read of {name}": oracle.read}
    for part, where in named.items():
        if where is None:
            continue
        try:
            load(where)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            must(False, f"{part}={quoted(where)} names nothing that can be imported ({error})")
    for other in world.kin:
        must(other in list_worlds(), f"kin={quoted(other)} is not a world")
    _check_names(world)
    must(bool(world.constructed) == (world.construct is not None), "constructed names models that construct makes")


def _check_names(world: World) -> None:
    """What is found by name among all worlds is called as nothing of another world is."""
    for other in worlds():
        if other.name == world.name:
            continue
        theirs = {kind.KIND for kind in other.grammars}
        clash = next((kind.KIND for kind in world.grammars if kind.KIND in theirs), None)
        must(clash is None, f"KIND={quoted(clash)} is that of a grammar of world {quoted(other.name)}, too")
        for part in ("presets", "embeddings", "constructed"):
            both = sorted(set(getattr(world, part)) & set(getattr(other, part)))
            must(not both, f"{part} has {quoted(both[:1])}, and world {quoted(other.name)} has one of this name, too")


def check_grammars(subject: Subject) -> None:
    """Frozen, hashable, with distinct tokens and labels, and what `to_dict` writes comes back as it was."""
    for grammar in subject.grammars:
        name, kind = name_of(grammar), type(grammar)
        options = getattr(kind, "__dataclass_params__", None)
        must(options is not None and options.frozen, f"{name} is not a frozen dataclass")
        vocab, size = grammar.vocab, grammar.vocab_size
        words = isinstance(vocab, tuple) and all(isinstance(token, str) and token for token in vocab)
        must(words, f"{name}: vocab={quoted(vocab)} is not a tuple of texts")
        must(len(set(vocab)) == len(vocab), f"{name}: two tokens of vocab={quoted(vocab)} have one name")
        must(size == len(vocab), f"{name}: vocab_size={quoted(size)}, and vocab names {len(vocab)} tokens")
        labels = getattr(grammar, "label_names", None)
        if labels is not None:
            distinct = all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels)
            must(distinct and labels, f"{name}: label_names={quoted(labels)} are no distinct texts")
        for special in ("start", "end", "pad"):
            place = getattr(grammar, special, None)
            must(place is None or 0 <= place < size, f"{name}: {special}={quoted(place)} is not a token id")
        _check_dict(grammar)


def _check_dict(grammar: Any) -> None:
    name, told = name_of(grammar), grammar.to_dict()
    must(told.get("kind") == grammar.KIND, f"{name}: to_dict says kind {quoted(told.get('kind'))}, not its KIND")
    try:
        written = json.loads(json.dumps(told, allow_nan=False))
    except (TypeError, ValueError) as error:
        must(False, f"{name}: to_dict is no JSON ({error})")
    back = grammar_from_dict(written)
    must(
        type(back) is type(grammar) and back == grammar,
        f"{name}: {quoted(grammar)} comes back from to_dict as {quoted(back)}",
    )
    must(back.vocab == grammar.vocab, f"{name}: the vocabulary that comes back from to_dict is another")
    must(hash(back) == hash(grammar), f"{name}: two equal grammars have two hashes")


def check_texts(subject: Subject) -> None:
    """What `format` writes, `to_tokens` reads back."""
    for grammar, tokens in subject.asked():
        if not hasattr(grammar, "format"):
            continue
        pad = getattr(grammar, "pad", None)
        texts = [grammar.format(row) for row in tokens]
        for row, text in zip(tokens, texts, strict=True):
            short = row if pad is None else row[: int((row != pad).sum())]
            back = np.asarray(grammar.to_tokens([text]))
            must(
                back.shape == (1, len(short)) and (back[0] == short).all(),
                f"{name_of(grammar)}: the text {quoted(text)} of tokens {short.tolist()} is read as {back.tolist()}",
            )
        together = np.asarray(grammar.to_tokens(texts))
        wide = tokens[:, : together.shape[1]]
        must(np.array_equal(together, wide), f"{name_of(grammar)}: texts read together differ from those read alone")


# -- options ------------------------------------------------------------------------------------------------


def check_options(subject: Subject) -> None:
    """Every option of a grammar is documented, and another value of it makes another grammar and other strings."""
    taken = taken_keys(subject.world)
    must(not taken, f"option {quoted(taken[:1])} is a key of models or settings already")
    for key, field in subject.world.options.items():
        of = [grammar for grammar in subject.grammars if field in {f.name for f in fields(grammar)}]
        must(of, f"option {quoted(key)} sets {quoted(field)}, a field that no grammar has")
        for grammar in of:
            said = f"option {quoted(key)} of {name_of(grammar)}"
            must(help_of(type(grammar)).get(field), f"{said} is not documented: annotate {quoted(field)} with doc(...)")
            changed = _changed(grammar, field)
            must(changed is not None, f"{said}: no value but {quoted(getattr(grammar, field))} is accepted")
            must(changed != grammar, f"{said} does not count: {quoted(changed)} equals the default grammar")
            back = grammar_from_dict(changed.to_dict())
            must(back == changed, f"{said} is lost: {quoted(changed)} comes back from to_dict as {quoted(back)}")
        for name, preset in subject.world.presets.items():
            if preset.grammar in map(type, of):
                _check_option(name, subject.recipes[name], key, field)


def _check_option(name: str, recipe: Recipe, key: str, field: str) -> None:
    changed = _changed(recipe.grammar, field)
    config = presets()[name].model(changed)
    if ("grammar", field) in unread(Recipe(name, changed, config, recipe.settings)):
        return  # the world says itself that this preset does not read it
    other = make_recipe(name, {key: getattr(changed, field)}, steps=recipe.settings.steps)
    told = [(r.grammar.vocab, num_labels(r.grammar)) for r in (recipe, other)]
    if told[0] == told[1]:
        one, two = (task_of(r).draw(0, range(2)) for r in (recipe, other))
        must(
            not same(one, two),
            f"option {quoted(key)} changes nothing: preset {quoted(name)} with {field}="
            f"{quoted(getattr(changed, field))} draws the strings that it draws without",
        )


def _changed(grammar: Any, field: str) -> Any:
    """The grammar with another value of a field, None where no value is taken."""
    for value in _others(get_type_hints(type(grammar))[field], getattr(grammar, field)):
        for make in (partial(replace, grammar), type(grammar)):  # what others depend on it may only go with it
            with suppress(InterpError):
                return make(**{field: value})
    return None


def _others(hint: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        of = next(iter(get_args(hint)), None)
        yield from ((other, *value[1:]) for other in (_others(of, value[0]) if value else ()))
        yield from (one for one in (value[1:], value + value[:1]) if one != value)
        yield from ((one,) for one in (get_args(of) if get_origin(of) is Literal else (1, 0.5, "a")) if not value)
    elif get_origin(hint) is Literal:
        yield from (word for word in get_args(hint) if word != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value, value // 2)
    elif isinstance(value, float):
        yield from (value / 2, (1 + value) / 2, 2 * value)
    elif value is None:
        yield from (1, 2, 0.5)


def task_of(recipe: Recipe) -> Any:
    """The task of a recipe, as a training would make it."""
    return make_task(SandboxTransformer(recipe.config, recipe.grammar), recipe, "cpu")


# -- settings and presets -----------------------------------------------------------------------------------


def check_settings(subject: Subject) -> None:
    """Settings come back as they were, say what each means, and refuse what is beyond their bounds."""
    kind: Any = subject.world.settings
    usual = kind()
    said, known = help_of(kind), declared(kind)
    for settings in (usual, *(preset.settings for preset in subject.world.presets.values())):
        _check_settings(settings, "")
    for field in fields(kind):
        name = field.name
        must(said.get(name), f"setting {quoted(name)} has no help: annotate it with doc(...)")
        hint = get_type_hints(kind)[name]
        hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        must(name in known or hint not in (int, float), f"setting {quoted(name)} has no bounds: annotate Interval(...)")
        for value in _wrong(name, known):
            try:
                replace(usual, **{name: value})
            except ConfigError:
                continue
            must(False, f"setting {quoted(name)} takes {quoted(value)}: call check_fields in __post_init__")
        for value in _allowed(name, known):
            try:
                settings = replace(usual, **{name: value})
            except ConfigError:
                continue  # not beside the other settings
            _check_settings(settings, f" with {name}={quoted(value)}")


def _check_settings(settings: Any, where: str) -> None:
    written = json.loads(json.dumps(settings.to_dict(), allow_nan=False))
    back = type(settings).from_dict(written)
    must(back == settings, f"settings{where} come back from to_dict as {quoted(back)}")


def _wrong(name: str, known: Any) -> Iterator[Any]:
    yield object()
    if name in known:
        kind, (least, most), optional = known[name]
        yield "no such word"
        yield from () if optional else (None,)
        if isinstance(kind, Several):
            known = {name: (kind.kind, kind.bounds, False)}
            few, of_text = max(1, kind.least), kind.kind is str
            yield from ((entry,) * few for entry in _wrong(name, known) if not (of_text and isinstance(entry, str)))
        if kind in (int, float):
            yield from (value for value in (least - 1, 2 * most + 1) if math.isfinite(value))
            yield float("nan")


def _allowed(name: str, known: Any) -> Iterator[Any]:
    if name in known:
        kind, bounds, optional = known[name]
        yield from kind if isinstance(kind, tuple) else (True, False) if kind is bool else ()
        yield from (value for value in bounds if kind in (int, float) and math.isfinite(value))
        yield from (None,) if optional else ()
        if isinstance(kind, Several):
            entries = {name: (kind.kind, kind.bounds, False)}
            yield from ((entry,) * max(1, kind.least) for entry in _allowed(name, entries))


def check_presets(subject: Subject) -> None:
    """Every preset makes a recipe of this world, which comes back from `to_dict` as it was."""
    for name, preset in subject.world.presets.items():
        must(isinstance(preset.about, str) and preset.about.strip(), f"preset {quoted(name)} does not say what it is")
        kinds = subject.world.grammars
        must(
            preset.grammar in kinds, f"preset {quoted(name)} is for {preset.grammar.__name__}, no grammar of this world"
        )
        recipe = make_recipe(name)
        must(
            recipe.settings == preset.settings,
            f"preset {quoted(name)} makes a recipe with the settings {quoted(recipe.settings)}, not its own",
        )
        own = Recipe(name, recipe.grammar, preset.model(recipe.grammar), preset.settings)
        must(recipe.config == own.config, f"preset {quoted(name)} makes a recipe with another model than its own")
        back = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict(), allow_nan=False)))
        must(back == recipe, f"the recipe of preset {quoted(name)} comes back from to_dict as {quoted(back)}")


def check_unread(subject: Subject) -> None:
    """Rules on what training does not read name fields that exist, and answer for every preset."""
    world = subject.world
    have = {
        "grammar": {f.name for kind in world.grammars for f in fields(kind)},
        "config": {f.name for f in fields(TransformerConfig)},
        "settings": {f.name for f in fields(world.settings)},
    }
    for rule in world.unread:
        must(rule.why.strip(), f"the rule on {quoted(rule.fields)} does not say why")
        for name in rule.fields:
            part, _, field = name.partition(".")
            must(field in have.get(part, ()), f"the rule on {quoted(name)} names a field that no recipe has")
        for name, recipe in subject.recipes.items():
            answer = rule.when(recipe)
            must(
                isinstance(answer, (bool, np.bool_)),
                f"the rule on {quoted(rule.fields)} answers {quoted(answer)} for preset {quoted(name)}, not yes or no",
            )
