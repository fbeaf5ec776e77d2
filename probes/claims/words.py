"""How a claim is said: phrases to relations, conditions and tasks, and back.

Phrases are compared after `plain`: case, articles and plurals do not count, and openers, opening and open brackets
are one word. What is not found is refused with the nearest phrases that are.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from interp.claims import Condition, Made, Question, Relation, register
from interp.claims.combined import AMONG, BUT, EVENLY, complement, evenly, evenly_among
from interp.claims.register import Register
from interp.claims.rows import IS, IS_NOT, not_so
from interp.errors import RequestError, quoted
from interp.names import first_duplicate
from interp.registry import kept

Thing = TypeVar("Thing", Relation, Condition, str)

LONGEST = 200  # characters of a phrase that are compared with the known ones
DEEPEST = 8  # "anything but anything but ..."
NEAREST = 3  # wordings that a refusal prints
# These tell no wording from another.
COMMON = {"the", "a", "an", "of", "to", "in", "on", "at", "is", "are", "that", "and", "or", "for", "current", "token"}
# What a model may be said to use a relation for: name -> words, after "to".
TASKS = Register(register.uses)
ANY = "RELATION"  # stands in lists for any relation
FORMS = (f"{BUT}{ANY}", f"{ANY}{EVENLY}", f"{ANY}{AMONG}")

_BUT = re.compile(
    r"(?:(?:anything|everything|everywhere|any|all|every)(?: (?:visible )?(?:other )?(?:tokens?|keys?|positions?))?|"
    r"(?:other )?(?:tokens?|keys?|positions?)) (?:but|except(?: for)?|other than|besides|apart from) (.+)",
    re.IGNORECASE,
)
_OTHER = re.compile(r"(?:other than|not) (.+)", re.IGNORECASE)
_EVENLY = re.compile(r"(.+?),? (?:evenly|uniformly|equally)", re.IGNORECASE)
_EVENLY_OVER = re.compile(r"(?:evenly|uniformly|equally) (?:over|across|on|to) (.+)", re.IGNORECASE)
_AMONG = re.compile(
    r"(?:(?:evenly|uniformly|equally) (?:among|between|within) (.+)|(.+?),? (?:evenly|uniformly|equally) among them)",
    re.IGNORECASE,
)


def plain(phrase: str) -> str:
    """`phrase` without what does not tell two phrases apart."""
    text = " ".join(phrase.lower().split()).strip(" .")
    for pattern, word in register.same_words():
        text = re.sub(pattern, word, text)
    return " ".join(text.split())


# -- relations ----------------------------------------------------------------------------------------------


def relation_said(phrase: str, own: Sequence[Relation] = ()) -> Relation:
    """The relation a phrase names, the user's `own` first."""
    found = find_relation(phrase, own)
    if found is None:
        _refuse("relation", phrase, {**_own_table(own), **_relations()}, relation_phrases(own))
    return found


def find_relation(phrase: str, own: Sequence[Relation] = (), deep: int = DEEPEST) -> Relation | None:
    """The same, None for a phrase that names none."""
    table = _own_table(own_relations(own))
    found: Relation | None = _find(phrase, (table, _relations()), register.relations_made())
    if found is None and (part := re.fullmatch(r"(.+ \S+) (?:tokens?|positions?)", phrase.strip(), re.IGNORECASE)):
        found = _find(part[1], (table, _relations()), ())  # "the last write token"
    if found is not None or not deep:
        return found
    for pattern, make in ((_AMONG, evenly_among), (_EVENLY_OVER, evenly), (_EVENLY, evenly), (_BUT, complement),
                          (_OTHER, complement)):  # fmt: skip
        part = pattern.fullmatch(phrase.strip())
        inner = next(group for group in part.groups() if group) if part else None
        if inner is None:
            continue
        if (of := find_relation(inner, own, deep - 1)) is not None:
            return make(of)
        if make in (evenly_among, evenly):  # "evenly over all tokens": that there are such has no words of its own
            return _find(f"{inner}{EVENLY}", (table, _relations()), ())
    return None


@kept
def _relations() -> dict[str, Relation]:
    return _table(register.named_relations().values())


def _own_table(own: Sequence[Thing]) -> dict[str, Thing]:
    return _table(own) if own else {}


def relation_phrases(own: Sequence[Relation] = ()) -> list[str]:
    """Every way to name a relation, canonical ones."""
    made = register.relations_made()
    patterns = [one.pattern for one in made if not one.as_written]
    fixed = [
        relation.words
        for relation in (*own, *register.named_relations().values())
        if not any(re.fullmatch(pattern, plain(relation.words)) for pattern in patterns)
    ]
    return [*fixed, *(one.written for one in made), *FORMS]


# -- conditions and uses ------------------------------------------------------------------------------------


def condition_said(phrase: str, own: Sequence[Condition] = ()) -> Condition:
    """The condition a phrase names, the user's `own` first."""
    found = find_condition(phrase, own)
    if found is None:
        for two in re.finditer(r",? (?:and|when|where|while|but) ", phrase):
            one, other = phrase[: two.start()], phrase[two.end() :]
            if find_condition(one, own) is not None and find_condition(other, own) is not None:
                raise RequestError(
                    f"{quoted(one)} and {quoted(other)} are two conditions, and a claim has one: claim each by "
                    "itself, or give one of your own that says both (see `conditions=`)"
                )
        _refuse("condition", phrase, {**_own_table(own), **_conditions()}, condition_phrases(own))
    return found


def find_condition(phrase: str, own: Sequence[Condition] = ()) -> Condition | None:
    """The same, None for a phrase that names none."""
    tables = (_own_table(own_conditions(own)), _conditions())
    denied = re.fullmatch(rf"(?:{IS_NOT}|the query is not )(.+)", phrase.strip(), re.IGNORECASE)
    if denied and (of := _find(f"{IS}{denied[1]}", tables, ())) is not None and of.words.startswith(IS):
        return not_so(of)
    return _find(phrase, tables, register.conditions_made())


@kept
def _conditions() -> dict[str, Condition]:
    return _table(register.conditions().values())


def condition_phrases(own: Sequence[Condition] = ()) -> list[str]:
    """Every way to name a condition, canonical ones."""
    fixed = (condition.words for condition in (*own, *register.conditions().values()))
    return [*fixed, *(one.written for one in register.conditions_made())]


def task_said(phrase: str, own: Sequence[Question] = ()) -> str:
    """The name of the task a phrase names, the user's `own` questions first."""
    found = find_task(phrase, own)
    if found is None:
        words = {q.name: q.words for q in own} | dict(TASKS)
        table = {said: words[name] for said, name in {**_tasks(), **_own_tasks(own)}.items()}
        _refuse("use", phrase, table, list(words.values()))
    return found


def find_task(phrase: str, own: Sequence[Question] = ()) -> str | None:
    """The same, None for a phrase that names none."""
    return _find(phrase, (_own_tasks(own_questions(own)), _tasks()), ())


@kept
def _tasks() -> dict[str, str]:
    also = register.also_uses()
    return {key: task for task, words in TASKS.items() for key in (task, *map(plain, (words, *also[task])))}


def _own_tasks(own: Sequence[Question]) -> dict[str, str]:
    return {key: q.name for q in own for key in (q.name, *map(plain, (q.words, *getattr(q, "also", ()))))}


# -- what the user adds -------------------------------------------------------------------------------------


def own_relations(relations: Any) -> Sequence[Relation]:
    """`relations`, or a `RequestError` where they are no list of `Relation`s, whether a claim names one or not."""
    return _own(relations, Relation, "relations")


def own_conditions(conditions: Any) -> Sequence[Condition]:
    """`conditions`, or a `RequestError` where they are no list of `Condition`s."""
    return _own(conditions, Condition, "conditions")


def own_questions(questions: Any) -> Sequence[Question]:
    """`questions`, or a `RequestError` where they are none, or take a name that is in use."""
    given = _listed(questions)
    if given is None or not all(map(is_question, given)):
        raise RequestError(f"questions={quoted(questions)} is not a list of questions, each with name, words and items")
    if given and (twice := first_duplicate([*(q.name for q in given), *TASKS])) is not None:
        raise RequestError(f"a question cannot be called {quoted(twice)}: another one is")
    return given


def is_question(given: Any) -> bool:
    """Whether something has the parts of a `Question`."""
    texts = all(isinstance(getattr(given, part, None), str) and getattr(given, part).strip() for part in
                ("name", "words"))  # fmt: skip
    return texts and callable(getattr(given, "items", None)) and not isinstance(given, type)


def _own(things: Any, kind: type[Any], name: str) -> Sequence[Any]:
    given = _listed(things)
    if given is None or not all(isinstance(thing, kind) for thing in given):
        raise RequestError(f"{name}={quoted(things)} is not a list of {kind.__name__}s")
    return given


def _listed(things: Any) -> tuple[Any, ...] | None:
    """What is listed, None where nothing is."""
    return tuple(things) if isinstance(things, Iterable) and not isinstance(things, (str, bytes)) else None


# -- looking up ---------------------------------------------------------------------------------------------


def _table(things: Iterable[Any]) -> dict[str, Any]:
    """By name, words and other words; of two that say the same, the first."""
    return {key: t for t in reversed(list(things)) for key in (t.name, *map(plain, (t.words, *t.also)))}


def _find(phrase: str, tables: Sequence[Mapping[str, Thing]], made: Iterable[Made[Thing]]) -> Thing | None:
    key = plain(phrase)
    for table in tables:
        for said in (phrase.strip(), key):  # a name in a list of relations is taken as it stands
            if said in table:
                return table[said]
    # A token's own letters are kept: "the token [SEP]" is not "[sep]".
    kept = re.sub(r"^(the|a|an) ", "", without_stop(phrase), flags=re.IGNORECASE)
    for one in made:
        for text in (kept,) if one.as_written else (key, kept):
            if found := re.fullmatch(one.pattern, text):
                return one.make(found[1])
    return None


def without_stop(text: str) -> str:
    """A text on one line, without the full stop of a sentence; one that stands alone is a token."""
    return re.sub(r"(?<=[^\s.])\.$", "", " ".join(text.split()))


def _refuse(what: str, phrase: str, table: Mapping[str, Any], known: Sequence[str]) -> NoReturn:
    """Raise `RequestError` with the nearest wordings: of other words for a thing, its usual ones are printed."""
    words = {said: getattr(thing, "words", thing) for said, thing in table.items()}
    words |= {plain(phrase): phrase for phrase in known}
    key = plain(phrase)
    if key in words and re.search(r"\b[a-z]$", phrase.strip()):
        example = re.sub(r"\b[a-z]$", "2", phrase.strip())
        raise RequestError(
            f"{what} {quoted(phrase)} has a letter in the place of a number: write {quoted(example)}, say"
        )
    raise RequestError(f"{what} {quoted(phrase)} is not understood; the nearest are {nearest(key, words)}")


def nearest(said: str, words: Mapping[str, str]) -> str:
    """The wordings that come nearest, most like first, each once, as a refusal prints them."""
    said = said[:LONGEST]
    near = sorted(words, key=lambda one: -likeness(said, one))
    return ", ".join(map(repr, list(dict.fromkeys(words[one] for one in near))[:NEAREST]))


def likeness(said: str, words: str) -> float:
    """How near a wording comes: by its letters, and by half of the share of its telling words that were said."""
    telling = set(words.split()) - COMMON
    shared = len(telling & set(said.split())) / len(telling) if telling else 0.0
    return difflib.SequenceMatcher(None, said, words).ratio() + shared / 2
