"""All that can be said of heads: what holds anywhere, and what each world adds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from interp.claims import general, names, places, rows
from interp.claims.language import NEXT_TOKEN
from interp.claims.types import Called, Claims, Condition, Ints, Made, Question, Relation, Tokens
from interp.errors import RequestError, quoted
from interp.registry import get_world, kept, world_of, worlds
from interp.vocabulary import find_token

NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SAME = (
    (r"\bmost recent\b|\blatest\b", "last"),
    (r"\bpreceding\b", "previous"),
    (r"\bcopies\b", "copy"),
    (r"\boccurrences\b", "occurrence"),
    (r"\b(token|word|position|key|type)s\b", r"\1"),
    *((rf"\b{word}\b", str(number)) for number, word in enumerate(NUMBER_WORDS, start=2)),
)
ARTICLES = (r"\b(the|a|an|their)\b ", "")
# Questions that are of no world: whatever the inputs' labels are, and whatever a model is trained for.
ANYWHERE = {
    "labels": ("predict the label", ("predict labels", "predict the right label", "classify", "predict the class")),
    "task": ("do its task", ("do the task", "do its job", "predict the next token", "predict what comes next")),
}


class Register(Mapping[str, Any]):
    """What can be said, by name, read from the worlds when it is looked at."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]):
        self._read = read

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def claims_of(grammar: Any) -> Claims:
    """What the world of a grammar adds; nothing where it is of none."""
    world = world_of(grammar)
    own: Claims | None = None if world is None else world.load("claims")
    return Claims() if own is None else own


@kept
def _every() -> tuple[tuple[str, Claims], ...]:
    """(world, what it adds), each once: worlds may share."""
    found: list[tuple[str, Claims]] = []
    for world in worlds():
        own = world.load("claims")
        if own is not None and not any(own is other for _, other in found):
            found.append((world.name, own))
    return tuple(found)


@kept
def relations() -> dict[str, Relation]:
    """Every relation that claims are held against as rivals, and scanned for, general ones first."""
    return _named((*general.RELATIONS, *(r for _, own in _every() for r in own.relations)))


@kept
def named_relations() -> dict[str, Relation]:
    """Every relation that has a name: `relations`, and those that claims alone may name."""
    return relations() | _named(places.RELATIONS)


@kept
def conditions() -> dict[str, Condition]:
    """Every condition that has a name, those of worlds first."""
    return _named((*(c for _, own in _every() for c in own.conditions), *general.CONDITIONS, *rows.CONDITIONS))


@kept
def called() -> tuple[Called, ...]:
    """What heads are called, and what that says of their attention; what holds anywhere first."""
    return (*names.CALLED, *(one for _, own in _every() for one in own.called))


@kept
def questions() -> dict[str, Question]:
    """Every question of a world by name."""
    return _named([q for _, own in _every() for q in own.questions])


def relations_made() -> tuple[Made[Relation], ...]:
    """Wordings with a number or token in them."""
    own = (made for _, claims in _every() for made in claims.relations_made)
    return (*general.RELATIONS_MADE, *own, *places.MADE, *general.TOKENS_MADE)


def conditions_made() -> tuple[Made[Condition], ...]:
    """Wordings with a number or token in them."""
    own = (made for _, claims in _every() for made in claims.conditions_made)
    return (*own, *rows.MADE, *general.CONDITIONS_MADE)


def uses() -> dict[str, str]:
    """What a model may be said to use a head for: name -> words, after "to"."""
    return {q.name: q.words for q in questions().values()} | {name: words for name, (words, _) in ANYWHERE.items()}


def also_uses() -> dict[str, tuple[str, ...]]:
    """Other words for each."""
    own = {q.name: tuple(getattr(q, "also", ())) for q in questions().values()}
    return own | {name: also for name, (_, also) in ANYWHERE.items()}


def same_words() -> tuple[tuple[str, str], ...]:
    """Words of claims that mean one thing: regular expression and replacement, in order."""
    return (*(pair for _, own in _every() for pair in own.same), *SAME, ARTICLES)


# -- what a model's grammar has -----------------------------------------------------------------------------


def usable(thing: Relation | Condition, grammar: Any) -> bool:
    """Whether a grammar (None for a model without) has what a relation or condition needs."""
    if thing.needs == "tokens":
        return True
    if thing.needs == general.VOCAB:
        named = _first(thing).tokens if isinstance(thing, Relation) else ()
        return all(find_token(grammar, name) is not None for name in named or (thing.name.removeprefix("token-"),))
    if thing.needs == places.NUMBERS:
        return places.has_numbers(grammar)
    world = world_of(grammar)
    return world is not None and thing.needs in (world.name, *world.kin)


def truth_of(needs: str) -> str:
    """What a relation asks of a model, in words."""
    if needs == general.VOCAB:
        return "that token in the vocabulary"
    if needs == places.NUMBERS:
        return "a vocabulary with numbers"
    own: Claims | None = get_world(needs).load("claims")
    return own.truth if own is not None and own.truth else f"a grammar of the world {quoted(needs)}"


def check_usable(relation: Relation, grammar: Any) -> None:
    """Raise `RequestError` naming the relation unless it is `usable`, and this very grammar has keys for it."""
    if usable(relation, grammar):
        claims_of(grammar).refuse(_first(relation), grammar)
        return
    names = tuple(getattr(grammar, "vocab", ()))
    have = "has no grammar"
    if grammar is not None:
        have = f"knows the tokens {' '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names else "has none"
    instead = f"; {relation.instead}" if relation.instead else ""
    raise RequestError(f"{quoted(relation.words)} needs {truth_of(relation.needs)}, and the model {have}{instead}")


def has_keys(relation: Relation, grammar: Any) -> bool:
    """Whether a grammar has what the relation needs, and can have keys in it."""
    try:
        check_usable(relation, grammar)
    except RequestError:
        return False
    return True


def same_relation(one: Relation, other: Relation) -> bool:
    """Two names of one relation, or one set of keys held against a pattern in two ways: neither is a rival."""
    aliases = (names for _, own in _every() for names in own.aliases)
    alike = one.name == other.name or one.keys is other.keys
    return alike or any({one.name, other.name} <= names for names in aliases)


def suggestions(grammar: Any, longest: int) -> list[Condition]:
    """Conditions worth trying where a claim holds in some rows only: those of the world, then those of any world."""
    own = claims_of(grammar).suggest
    return list(dict.fromkeys([*own(grammar, longest), *rows.suggest(longest)]))


def roles_of(tokens: Tokens, grammar: Any) -> Ints:
    """Class of each token [batch, pos] within which keys are compared; all alike where the world has none."""
    own = claims_of(grammar).roles
    return np.zeros_like(tokens) if own is None else own(tokens, grammar)


def question_for(grammar: Any, name: str | None) -> Question | None:
    """The question of that name, or the one that a grammar's models are trained for (name None); None without one.

    Of a grammar (or None) of no world only this is known: its models predict the next token.

    Raises `RequestError` where a question is named that a model of this grammar cannot be asked.
    """
    own = claims_of(grammar)
    usual = own.question(grammar)
    found = next((q for q in own.questions if q.name == (usual if name is None else name)), None)
    if name is None:
        return NEXT_TOKEN if world_of(grammar) is None else found
    if found is not None and usual is None:
        raise RequestError(f"use {quoted(name)} {own.nothing}")
    if found is not None:
        return found
    owner = next((claims for _, claims in _every() if any(q.name == name for q in claims.questions)), Claims())
    why = owner.use or "is none that a model of this grammar can be asked"
    words = next((q.words for q in own.questions if q.name == usual), None)
    instead = "" if words is None else f"; this one is asked to {words}"
    raise RequestError(f"use {quoted(name)} {why}{instead}")


def _first(relation: Relation) -> Relation:
    """What a relation was made from in the end, itself where from none."""
    while relation.of is not None:
        relation = relation.of
    return relation


def _named(things: Iterable[Any] | Sequence[Any]) -> dict[str, Any]:
    return {thing.name: thing for thing in things}
