"""Checks of what a world lets be said of heads: inputs, relations, conditions, wordings."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import numpy as np

from interp.checking.drawn import LEAST_P
from interp.checking.reading import alike, at_of, reads_back
from interp.checking.subject import (
    INPUTS,
    LENGTH,
    Bools,
    Ints,
    Subject,
    check_ids,
    check_mask,
    inputs_of,
    name_of,
    same,
)
from interp.checking.suite import must
from interp.claims import Claims, Condition, Kind, Made, Relation
from interp.claims.register import check_usable, same_words
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.world import World

SHOWN = 8  # inputs that are drawn to be shown
SEEDS, MANY = 8, 400  # seeds of which not all give the same, and strings that tell how likely that is
KINDS = get_args(Kind)
NUMBERS = ("1", "2")  # that stand in wordings for a letter
LETTER = r"\b[a-z]\b"


def own(subject: Subject) -> Claims:
    """What the world adds; nothing where it adds nothing."""
    found: Claims | None = subject.world.load("claims")
    return Claims() if found is None else found


def check_inputs(subject: Subject) -> None:
    """Inputs to show and to audit on are a function of their seed, of known tokens, and no longer than announced."""
    world, claims = subject.world, own(subject)
    for grammar in subject.grammars:
        if world.inputs is not None or hasattr(grammar, "labels"):
            _check_shown(world, grammar, f"inputs shown of {name_of(grammar)}")
    for grammar in subject.grammars if claims.inputs is not None else ():
        tokens, said = inputs_of(grammar), f"inputs of {name_of(grammar)}"
        assert tokens is not None
        must(
            tokens.ndim == 2 and len(tokens) == INPUTS,
            f"{said} have shape {list(tokens.shape)}: {INPUTS} were asked for",
        )
        check_ids(tokens, tokens.shape, grammar.vocab_size, said)
        must(same([tokens], [inputs_of(grammar)]), f"{said}: the same seed, drawn again, gives others")
        _check_seeds([tokens, *(inputs_of(grammar, seed=seed) for seed in range(1, SEEDS))], grammar, said)
        if claims.longest is not None:
            most = claims.longest(grammar, LENGTH)
            must(tokens.shape[1] <= most, f"{said} have {tokens.shape[1]} tokens, and longest announces {most}")
        if claims.roles is not None:
            roles = np.asarray(claims.roles(tokens, grammar))
            must(roles.shape == tokens.shape and roles.dtype.kind in "iu", f"{said}: roles are no class of each token")


def _check_shown(world: World, grammar: Any, said: str) -> None:
    """What analyzers look at where nobody says at what."""
    text = world.sentence(grammar)
    must(text is None or isinstance(text, str), f"{said}: sentence gives {quoted(text)}, neither a text nor None")
    if text is not None:
        grammar.to_tokens([text])
    drawn, again, *others = (world.draw_inputs(grammar, SHOWN, seed, "check/shown") for seed in (0, *range(SEEDS)))
    texts = all(isinstance(one, str) for one in drawn)
    tokens = np.asarray(grammar.to_tokens(list(drawn)) if texts else drawn)
    must(tokens.ndim == 2 and len(tokens) == SHOWN, f"{said} have shape {list(tokens.shape)}: {SHOWN} were asked for")
    check_ids(tokens, tokens.shape, grammar.vocab_size, said)
    must(np.array_equal(drawn, again), f"{said}: the same seed, drawn again, gives others")
    _check_seeds([np.asarray(drawn), *map(np.asarray, others)], grammar, said)


def _check_seeds(drawn: Sequence[Any], grammar: Any, said: str) -> None:
    """Not all seeds give the same inputs, but where the grammar draws one string so often that they may."""
    if any(not np.array_equal(drawn[0], other) for other in drawn[1:]):
        return
    often = 0.0
    if hasattr(grammar, "labels"):
        many = np.asarray(grammar.draw(generator(0, "check/seeds"), MANY))
        often = np.unique(many, axis=0, return_counts=True)[1].max() / MANY
    chance = often ** (len(drawn[0]) * (len(drawn) - 1))
    must(chance > LEAST_P, f"{said}: seeds 0 to {len(drawn) - 1} give the same")


# -- relations and conditions -------------------------------------------------------------------------------


def sights(grammar: Any, tokens: Ints) -> Iterator[tuple[str, Bools]]:
    """What queries may see [input, query, key]: all before, and everything; PAD never."""
    n, pad = tokens.shape[1], getattr(grammar, "pad", None)
    real = np.ones(tokens.shape, dtype=bool) if pad is None else tokens != pad
    for name, seen in (("causal", np.tri(n, dtype=bool)), ("every key visible", np.ones((n, n), dtype=bool))):
        yield name, seen & real[:, :, None] & real[:, None, :]


def padded(grammar: Any, tokens: Ints) -> Ints | None:
    """The same inputs with PAD on the right, None where there is none."""
    pad = getattr(grammar, "pad", None)
    return None if pad is None else np.pad(tokens, ((0, 0), (0, 2)), constant_values=pad)


def check_relations(subject: Subject) -> None:
    """Keys are among the visible, and those of an input are its own: no other input and no PAD changes them."""
    claims = own(subject)
    for relation in claims.relations:
        said = f"relation {quoted(relation.name)}"
        must(relation.kind in KINDS, f"{said} is of kind {quoted(relation.kind)}, which is none of {', '.join(KINDS)}")
        _check_needs(subject, relation, said)
    for grammar, tokens in subject.asked():
        for relation in claims.relations:
            if _refused(relation, grammar):
                continue
            _check_relation(relation, grammar, tokens, f"relation {quoted(relation.name)} of {name_of(grammar)}")
            if reads_back(subject, grammar):
                _check_foresight(relation, grammar, tokens, f"relation {quoted(relation.name)} of {name_of(grammar)}")


def _check_foresight(relation: Relation, grammar: Any, tokens: Ints, said: str) -> None:
    """Who reads only what is behind cannot attend by what comes: strings that are alike so far have the same keys."""
    keys = relation.keys(tokens, grammar, dict(sights(grammar, tokens))["causal"])
    for at, numbers in alike(tokens, False):
        _, first, back = np.unique(numbers, return_index=True, return_inverse=True)
        apart = np.flatnonzero((keys[:, at] != keys[first[back.reshape(-1)], at]).any(1))
        for i in apart[:1]:
            must(False, f"{said} has other keys at query {at} {at_of(tokens[i], at, False)} where other tokens follow")
    for end in range(1, tokens.shape[1]):
        short = tokens[:, :end]
        try:
            again = relation.keys(short, grammar, dict(sights(grammar, short))["causal"])
        except Exception:  # a part of a string may be no string
            continue
        apart = np.flatnonzero((again[:, -1] != keys[:, end - 1, :end]).any(1))
        for i in apart[:1]:
            must(
                False,
                f"{said} has other keys at query {end - 1} {at_of(short[i], end - 1, False)} where nothing follows",
            )


def _refused(relation: Relation, grammar: Any) -> bool:
    try:
        check_usable(relation, grammar)
    except RequestError:
        return True
    return False


def _check_needs(subject: Subject, thing: Relation | Condition, said: str) -> None:
    known = ("tokens", "vocab", "numbers", subject.world.name, *subject.world.kin)
    must(thing.needs in known, f"{said} needs {quoted(thing.needs)}, which is none of {', '.join(known)}")


def _check_relation(relation: Relation, grammar: Any, tokens: Ints, said: str) -> None:
    any_key = False
    for name, visible in sights(grammar, tokens):
        before, seen = tokens.copy(), visible.copy()
        keys = relation.keys(tokens, grammar, visible)
        check_mask(keys, visible.shape, f"keys of {said}")
        must((tokens == before).all() and (visible == seen).all(), f"{said} changes the arrays it is given")
        beyond = np.argwhere(keys & ~visible)
        must(
            not len(beyond),
            f"{said} marks keys that are not visible ({name}): {beyond[:1].tolist()} [input, query, key]",
        )
        alone = np.concatenate(
            [relation.keys(tokens[i : i + 1], grammar, visible[i : i + 1]) for i in range(len(tokens))]
        )
        must(np.array_equal(keys, alone), f"{said} depends on the other inputs of a batch ({name})")
        longer = padded(grammar, tokens)
        if longer is not None:
            wide = dict(sights(grammar, longer))[name]
            n = tokens.shape[1]
            again = relation.keys(longer, grammar, wide)[:, :n, :n]
            must(np.array_equal(keys, again), f"{said} changes where PAD follows ({name})")
        any_key = any_key or bool(keys.any())
    must(any_key, f"{said} has no key on any of {len(tokens)} inputs")


def check_conditions(subject: Subject) -> None:
    """A condition is a truth value a query, which neither other inputs nor PAD change."""
    claims = own(subject)
    for grammar, tokens in subject.asked():
        suggested = claims.suggest(grammar, tokens.shape[1])
        every = {one.name: one for one in (*claims.conditions, *suggested)}
        for condition in every.values():
            said = f"condition {quoted(condition.name)}"
            _check_needs(subject, condition, said)
            _check_condition(condition, grammar, tokens, f"{said} of {name_of(grammar)}")


def _check_condition(condition: Condition, grammar: Any, tokens: Ints, said: str) -> None:
    for name, keys in sights(grammar, tokens):
        rows = condition.rows(tokens, grammar, keys)
        check_mask(rows, tokens.shape, f"rows of {said}")
        alone = np.concatenate(
            [condition.rows(tokens[i : i + 1], grammar, keys[i : i + 1]) for i in range(len(tokens))]
        )
        must(np.array_equal(rows, alone), f"{said} depends on the other inputs of a batch")
        longer = padded(grammar, tokens)
        if longer is not None:
            wide = dict(sights(grammar, longer))[name]
            again = condition.rows(longer, grammar, wide)[:, : tokens.shape[1]]
            must(np.array_equal(rows, again), f"{said} changes where PAD follows")


def check_wordings(subject: Subject) -> None:
    """What is made from a number can be said as it is written in help, and what it makes is said by its own words."""
    claims = own(subject)
    for what, every in (("relation", claims.relations_made), ("condition", claims.conditions_made)):
        for one in every:
            said = f"{what} {quoted(one.written)}"
            for number in NUMBERS:
                thing = _made(one, _numbered(one, number), said)
                kind = Relation if what == "relation" else Condition
                must(isinstance(thing, kind), f"{said} makes {quoted(thing)}, which is no {kind.__name__}")
                again = _made(one, thing.words, said)
                must(
                    again.name == thing.name,
                    f"{said}: {quoted(thing.words)} makes {quoted(again.name)}, not {quoted(thing.name)}",
                )
                for grammar, tokens in subject.asked():
                    if isinstance(thing, Condition):
                        _check_condition(thing, grammar, tokens, f"{said} of {name_of(grammar)}")
                    elif not _refused(thing, grammar):
                        _check_relation(thing, grammar, tokens, f"{said} of {name_of(grammar)}")
            if not one.as_written:
                names = {_made(one, _numbered(one, number), said).name for number in NUMBERS}
                must(len(names) == len(NUMBERS), f"{said} makes the same, {quoted(min(names))}, of two numbers")


def _numbered(one: Made[Any], number: str) -> str:
    """Its wording with a number for the last letter that stands alone."""
    if one.as_written:
        return one.written
    *_, last = [found.span() for found in re.finditer(LETTER, one.written)] or [(0, 0)]
    return one.written[: last[0]] + number + one.written[last[1] :]


def _made(one: Made[Any], text: str, said: str) -> Any:
    kept = " ".join(text.split()) if one.as_written else text.lower()
    for pattern, word in () if one.as_written else same_words():
        kept = re.sub(pattern, word, kept)
    found = re.fullmatch(one.pattern, " ".join(kept.split()))
    must(found, f"{said}: the pattern {quoted(one.pattern)} does not read {quoted(text)}")
    assert found is not None
    return one.make(found[1])
