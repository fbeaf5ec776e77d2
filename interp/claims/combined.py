"""Relations made of another one: everything but its keys, its keys evenly, and evenly among them."""

from functools import lru_cache
from typing import Any

from interp.claims.asking import keys_of
from interp.claims.register import relations
from interp.claims.types import Pairs, Relation, Tokens
from interp.errors import RequestError, quoted

KEPT = 10_000  # relations made of others: the same object every time, so that two claims of the same words are equal
BUT, EVENLY, AMONG = "anything but ", " evenly", ", evenly among them"


def complement(relation: Relation) -> Relation:
    """Everything visible but the relation's keys: a head that scores 1 never attends to those.

    Where the relation has no key there is nothing to avoid, and its complement's row (c = 1) has no score.
    """
    return _complement(_of_mass(relation, "its complement none"))


@lru_cache(KEPT)
def _complement(relation: Relation) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & ~keys_of(relation, tokens, grammar, visible)

    name, words = f"not-{relation.name}", f"{BUT}{relation.words}"
    return Relation(name, words, "mass", relation.needs, keys, instead=relation.instead, of=relation)


def evenly(relation: Relation) -> Relation:
    """The relation's keys, all of the weight spread evenly over them: kind `even`."""
    return _evenly(_of_mass(relation, "nothing to be spread over"))


@lru_cache(KEPT)
def _evenly(relation: Relation) -> Relation:
    words = f"{relation.words}{EVENLY}"
    named = (one for one in relations().values() if one.kind == "even" and one.words == words)
    return next(named, None) or _spread(relation, f"{relation.name}-even", words, "even")


def evenly_among(relation: Relation) -> Relation:
    """The relation's keys, what weight they get spread evenly within them: kind `among`."""
    return _evenly_among(_of_mass(relation, "nothing to be spread over"))


@lru_cache(KEPT)
def _evenly_among(relation: Relation) -> Relation:
    return _spread(relation, f"{relation.name}-among", f"{relation.words}{AMONG}", "among")


def _spread(relation: Relation, name: str, words: str, kind: Any) -> Relation:
    return Relation(name, words, kind, relation.needs, relation.keys, instead=relation.instead, of=relation)


def _of_mass(relation: Any, what: str) -> Relation:
    if not isinstance(relation, Relation):
        raise RequestError(f"relation={quoted(relation)} is no Relation, and {what}")
    if relation.kind != "mass":
        raise RequestError(f"{quoted(relation.words)} says how evenly already: name a set of tokens")
    return relation
