"""How a claim is said: phrases to relations, conditions and tasks, and back.

Phrases are compared after `plain`: case, articles and plurals do not count, and openers, opening and open brackets
are one word. What is not found is refused with the nearest phrases that are.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from interp.claims import Condition, Made, Relation, register
from interp.claims.general import whole
from interp.claims.register import Register
from interp.errors import RequestError, quoted

Thing = TypeVar("Thing", Relation, Condition, str)

LONGEST = 200  # characters of a phrase that are compared with the known ones
# What a model may be said to use a relation for: name -> words, after "to".
TASKS = Register(register.uses)


def plain(phrase: str) -> str:
    """`phrase` without what does not tell two phrases apart."""
    text = " ".join(phrase.lower().split()).strip(" .")
    for pattern, word in register.same_words():
        text = re.sub(pattern, word, text)
    return " ".join(text.split())


def relation_said(phrase: str, own: Sequence[Relation] = ()) -> Relation:
    """The relation a phrase names, the user's `own` first."""
    named = [*_own(own, Relation, "relations"), *register.relations().values()]
    table = {key: r for r in reversed(named) for key in (r.name, *map(plain, (r.words, *r.also)))}
    return _look_up("relation", phrase, table, register.relations_made(), relation_phrases(own))


def condition_said(phrase: str, own: Sequence[Condition] = ()) -> Condition:
    """The condition a phrase names."""
    named = [*_own(own, Condition, "conditions"), *register.conditions().values()]
    table = {key: c for c in reversed(named) for key in (c.name, *map(plain, (c.words, *c.also)))}
    return _look_up("condition", phrase, table, register.conditions_made(), condition_phrases(own))


def task_said(phrase: str) -> str:
    """The name of the task a phrase names."""
    also = register.also_uses()
    table = {plain(p): task for task, words in TASKS.items() for p in (task, words, *also[task])}
    return _look_up("use", phrase, table, (), list(TASKS.values()))


def _own(things: Sequence[Thing], kind: type[Thing], name: str) -> Sequence[Thing]:
    listed = isinstance(things, Iterable) and not isinstance(things, (str, bytes))
    if not listed or not all(isinstance(thing, kind) for thing in things):
        raise RequestError(f"{name}={quoted(things)} is no list of {kind.__name__}s")
    return things


def own_relations(relations: Any) -> Sequence[Relation]:
    """`relations`, or a `RequestError` where they are no list of `Relation`s, whether a claim names one or not."""
    return _own(relations, Relation, "relations")


def relation_phrases(own: Sequence[Relation] = ()) -> list[str]:
    """Every way to name a relation, canonical ones."""
    made = register.relations_made()
    patterns = [one.pattern for one in made if not one.as_written]
    fixed = [
        relation.words
        for relation in (*own, *register.relations().values())
        if not any(re.fullmatch(pattern, plain(relation.words)) for pattern in patterns)
    ]
    return [*fixed, *(one.written for one in made)]


def condition_phrases(own: Sequence[Condition] = ()) -> list[str]:
    """Every way to name a condition, canonical ones."""
    fixed = (condition.words for condition in (*own, *register.conditions().values()))
    return [*fixed, *(one.written for one in register.conditions_made())]


def _look_up(
    what: str, phrase: str, table: dict[str, Thing], made: Iterable[Made[Thing]], known: Sequence[str]
) -> Thing:
    key = plain(phrase)
    for said in (phrase.strip(), key):  # a name in a list of relations is taken as it stands
        if said in table:
            return table[said]
    # A token's own letters are kept: "the token [SEP]" is not "[sep]".
    kept = re.sub(r"^(the|a|an) ", "", " ".join(phrase.split()).strip(" ").removesuffix("."), flags=re.IGNORECASE)
    for one in made:
        for text in (kept,) if one.as_written else (key, kept):
            if found := re.fullmatch(one.pattern, text):
                return one.make(found[1])
    words = {plain(p): p for p in known}
    if key in words and re.search(r"\b[pnt]$", phrase.strip()):
        example = re.sub(r"\b[pnt]$", "2", phrase.strip())
        raise RequestError(
            f"{what} {quoted(phrase)} has a letter in the place of a number: write {quoted(example)}, say"
        )
    near = [words[p] for p in difflib.get_close_matches(key[:LONGEST], words, n=3, cutoff=0.0)]
    raise RequestError(f"{what} {quoted(phrase)} is not understood; the nearest are {', '.join(map(repr, near))}")


# -- the sentence -------------------------------------------------------------------------------------------

_HEAD = re.compile(r"(?:heads? )?(?:L(\d+)\s?H(\d+)|(\d+)\.(\d+)|layer (\d+),? head (\d+))", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?P<heads>.+?) (?P<mainly>(?:mainly|mostly) )?"
    r"(?:(?P<use>uses?)|attends?(?P<late>(?: evenly| mainly| mostly)?) to) (?P<rest>.+)",
    re.IGNORECASE,
)
_AND_USES = re.compile(r"(?P<relation>.+?),? and uses? (?:it|them) to (?P<task>.+)", re.IGNORECASE)
_WHEN = re.compile(r"(?P<what>.+?),? (?:when|where|if) (?P<when>.+)", re.IGNORECASE)

VERBS = {"attends": "attends to", "attend": "attend to", "uses": "uses", "use": "use"}
FORM = (
    "write 'L1H0 attends to RELATION', 'L1H0 mainly attends to RELATION', '... when CONDITION', or "
    "'L1H0 uses RELATION [to do its task]'"
)


def _to_do() -> re.Pattern[str]:
    """A relation and a purpose, which begins with the verb of a known one."""
    phrases = [phrase for name, words in TASKS.items() for phrase in (words, *register.also_uses()[name])]
    verbs = {" ".join(phrase.split()[: 2 if phrase.startswith("do ") else 1]) for phrase in phrases}
    return re.compile(rf"(?P<relation>.+) to (?P<task>(?:{'|'.join(sorted(verbs))})\b.*)", re.IGNORECASE)


def heads_said(text: str) -> tuple[tuple[int, int], ...] | None:
    """Heads (layer, head), () for "some head", None where the text names none."""
    if text.strip().lower() in ("some head", "a head", "one head"):
        return ()
    parts = [part for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", text.strip()) if part]
    if re.fullmatch(r"layer \d+", parts[0], re.IGNORECASE) and len(parts) > 1:  # "layer 1, head 0"
        parts = [f"{parts[0]} {parts[1]}", *parts[2:]]
    found = [_HEAD.fullmatch(part) for part in parts]
    if not found or not all(found):
        return None
    pairs = [[whole(n) for n in match.groups() if n is not None] for match in found if match]
    return tuple((layer, head) for layer, head in pairs)


def _verb_meant(text: str) -> str | None:
    """Of a sentence without a known verb: the verb that its words after the heads come nearest."""
    words = text[: 2 * LONGEST].split(" ")
    for end in range(1, len(words)):
        if heads_said(" ".join(words[:end])) is None:
            continue
        if near := difflib.get_close_matches(words[end].lower(), VERBS, n=1, cutoff=0.7):
            return f"{quoted(words[end])} is no verb of claims; the nearest is {VERBS[near[0]]!r}"
    return None


def _is_relation(phrase: str, own: Sequence[Relation]) -> bool:
    """Whether a whole phrase names a relation: then a " to " in it begins no purpose ("the token to recall")."""
    named = (*own, *register.relations().values())
    return plain(phrase) in {plain(words) for one in named for words in (one.words, *one.also) if " to " in words}


def sentence(
    text: str, own: Sequence[Relation] = ()
) -> tuple[tuple[tuple[int, int], ...], str, str | None, str | None, bool]:
    """(heads, relation, condition, task, mainly) of a claim, as phrases."""
    if not isinstance(text, str):
        raise RequestError(f"claim {quoted(text)} is no text: {FORM}")
    clean = " ".join(text.split()).rstrip(".")
    found = _SENTENCE.fullmatch(clean)
    heads = heads_said(found["heads"]) if found else None
    if found is None:
        raise RequestError(f"claim {quoted(text)} is not understood: {_verb_meant(clean) or FORM}")
    if heads is None:
        if re.search(r"\b(?:does|do|did)(?: not|n't)$|\bnever$", found["heads"], re.IGNORECASE):
            raise RequestError(f"claim {quoted(text)} says what is not: claim what is, and see whether it is refuted")
        raise RequestError(
            f"claim {quoted(text)}: {quoted(found['heads'])} names no head; write L1H0, or L0H1 and L1H0"
        )
    late = (found["late"] or "").strip().lower()
    rest, when, task = found["rest"], None, None
    to_do = _to_do()
    if part := _WHEN.fullmatch(rest):
        rest, when = part["what"], part["when"]
        if tail := to_do.fullmatch(when):  # "when ... to predict ...", the purpose last
            when, task = tail["relation"], tail["task"]
    whole_rest = task is None and _is_relation(rest, own)
    if not whole_rest and (part := _AND_USES.fullmatch(rest) or to_do.fullmatch(rest)):
        rest, task = part["relation"], part["task"]
    if (
        found["use"] and task is None and not whole_rest and " to " in rest
    ):  # a purpose that is none of ours: `task_said` says which are
        rest, task = rest.rsplit(" to ", 1)
    if found["use"] and task is None:
        task = "task"
    if late == "evenly":
        rest = f"{rest} evenly"
    return heads, rest, when, task, bool(found["mainly"]) or late in ("mainly", "mostly")
