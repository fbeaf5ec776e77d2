"""The relations a claim may name beyond those of `probes.claims.relations`, and the full register, `BUILT_IN`."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import whole_from, words_of
from interp.errors import RequestError, quoted
from interp.grammars import DyckGrammar
from interp.vocabulary import find_token
from probes.claims.relations import RELATIONS, Pairs, Relation, Tokens, bracket_type

TOPICS: Any = "topics"  # what a relation may need beside `tokens` and `dyck`: topics of tokens, a vocabulary
VOCAB: Any = "vocab"
MOST = 10_000  # a layer, a head, a position or an offset beyond is a slip of the pen


def _next(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & np.eye(tokens.shape[1], k=1, dtype=bool)


def _following(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & ~np.tri(tokens.shape[1], dtype=bool)


def _induction(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    after = np.zeros_like(visible)  # the token before the key is an earlier copy of the query's
    after[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    return np.asarray(visible & after & np.tri(tokens.shape[1], dtype=bool))


def _last_opener(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    place = np.arange(tokens.shape[1])
    recent = np.maximum.accumulate(np.where(_openers(tokens, grammar), place, -1), axis=1)
    return visible & np.asarray(recent[:, :, None] == place)


def _same_depth_openers(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    openers = _openers(tokens, grammar)
    depth = grammar.depth(tokens)
    return visible & openers[:, None, :] & (depth[:, :, None] == depth[:, None, :])


def _openers(tokens: Tokens, grammar: Any) -> NDArray[np.bool_]:
    if not isinstance(grammar, DyckGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is no DyckGrammar: this relation is one of brackets")
    return np.asarray((tokens < grammar.start) & (tokens % 2 == 0))


def _same_topic(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    if not hasattr(grammar, "topic_of"):
        raise RequestError(f"grammar={quoted(grammar)} has no topics: this relation needs a TopicGrammar")
    topic = np.asarray(grammar.topic_of)[tokens]
    return visible & (topic[:, :, None] == topic[:, None, :]) & (topic >= 0)[:, :, None]


def offset(steps: int) -> Relation:
    """The token `steps` positions after the query, before it where negative."""
    return _offset(whole_from("offset", steps, -MOST, MOST))


@cache
def _offset(steps: int) -> Relation:
    if steps in (-1, 0, 1):
        return (BUILT_IN["current"], BUILT_IN["next"], BUILT_IN["previous"])[steps]

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & np.eye(tokens.shape[1], k=steps, dtype=bool)

    words = f"the token {abs(steps)} positions {'before' if steps < 0 else 'after'}"
    return Relation(f"offset{steps:+d}", words, "mass", "tokens", keys)


def position(place: int) -> Relation:
    """The token at `place`, from 0."""
    return _position(whole_from("position", place, 0, MOST))


@cache
def _position(place: int) -> Relation:
    if place == 0:
        return BUILT_IN["first"]

    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        return visible & (np.arange(tokens.shape[1]) == place)

    return Relation(f"position-{place}", f"position {place}", "mass", "tokens", keys)


def brackets_of_type(kind: int) -> Relation:
    """Brackets of one type (from 0), opening and closing; the same object every time."""
    return _brackets_of_type(whole_from("bracket type", kind, 0, MOST))


@cache
def _brackets_of_type(kind: int) -> Relation:
    return BUILT_IN.get(f"type-{kind}") or bracket_type(kind)


def token(text: str) -> Relation:
    """Every `text` of the grammar's vocabulary, such as [SEP]."""
    return _token(words_of("token", text))


@cache
def _token(text: str) -> Relation:
    def keys(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
        vocabulary = tuple(getattr(grammar, "vocab", ()))
        if (found := find_token(grammar, text)) is None:
            known = f"its first are {' '.join(vocabulary[:8])}" if vocabulary else "it has no vocabulary"
            raise RequestError(f"no token {quoted(text)} in the model's vocabulary; {known}")
        return visible & (tokens == found)[:, None, :]

    return Relation(f"token-{text}", f"the token {text}", "mass", VOCAB, keys)


BUILT_IN: dict[str, Relation] = {
    **RELATIONS,
    **{
        relation.name: relation
        for relation in (
            Relation("next", "the next token", "mass", "tokens", _next),
            Relation("last-opener", "the most recent open bracket", "mass", "dyck", _last_opener),
            Relation("same-depth-openers", "open brackets at the same depth", "mass", "dyck", _same_depth_openers),
            Relation("induction", "the token after an earlier copy of the current token", "mass", "tokens", _induction),
            Relation("same-topic", "tokens of the same topic", "mass", TOPICS, _same_topic),
            Relation("following", "all following tokens evenly", "even", "tokens", _following),
        )
    },
}

# One and the same by definition, or on every input that reads START first: no rivals of each other.
ALIASES = ({"start", "first", "token-START"}, {"copies", "same-token"})


def usable(relation: Relation, grammar: Any) -> bool:
    """Whether the grammar (None for a model without) has what the relation needs."""
    if relation.needs == "dyck":
        return isinstance(grammar, DyckGrammar)
    if relation.needs == TOPICS:
        return hasattr(grammar, "topic_of")
    if relation.needs == VOCAB:
        return find_token(grammar, relation.name.removeprefix("token-")) is not None
    return True


def check_usable(relation: Relation, grammar: Any) -> None:
    """Raise `RequestError` naming the relation unless it is `usable`, and of a type that the grammar has."""
    if usable(relation, grammar):
        if not known_type(relation, grammar):
            types = grammar.num_types
            right = f"types 0 to {types - 1}" if types > 1 else "type 0 only"
            raise RequestError(f"{quoted(relation.words)} are not there: the grammar has brackets of {right}")
        return
    what = {"dyck": "a grammar of brackets", TOPICS: "topics of tokens", VOCAB: "that token in the vocabulary"}
    names = tuple(getattr(grammar, "vocab", ()))
    have = "has no grammar"
    if grammar is not None:
        have = f"knows the tokens {' '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else "has none"
    also = "; 'the first token' needs nothing" if relation.name == "start" else ""
    raise RequestError(f"{quoted(relation.words)} needs {what[relation.needs]}, and the model {have}{also}")


def known_type(relation: Relation, grammar: Any) -> bool:
    """False for brackets of a type that a grammar of brackets does not have."""
    kind = relation.name.removeprefix("type-")
    if not (relation.name.startswith("type-") and kind.isdigit() and isinstance(grammar, DyckGrammar)):
        return True
    return int(kind) < grammar.num_types


def same_relation(one: Relation, other: Relation) -> bool:
    """Two names of one relation."""
    return one.name == other.name or any({one.name, other.name} <= names for names in ALIASES)
