"""How a claim is said: phrases to relations, conditions and tasks, and back.

Phrases are compared after `plain`: case, articles and plurals do not count, and openers, opening and open brackets
are one word. What is not found is refused with the nearest phrases that are.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from interp.errors import RequestError, quoted
from interp.numbers import written_whole
from probes.claims import built_in as built
from probes.claims.conditions import BUILT_IN_CONDITIONS, Condition, depth_at_least, position_at_least, token_is
from probes.claims.relations import Relation

Thing = TypeVar("Thing", Relation, Condition, str)
Made = tuple[str, str, Callable[[str], Thing]]  # as written in help, pattern with one group, what it makes

LONGEST = 200  # characters of a phrase that are compared with the known ones
DIGITS = 9  # of a number in a claim; a longer one is a slip of the pen, and Python reads no more than 4300


def whole(digits: str) -> int:
    """The number written so, a sign included."""
    if len(digits) > DIGITS:
        raise RequestError(f"number {quoted(digits)} of a claim is too long: {DIGITS} digits at most")
    number = written_whole(digits)
    if number is None:
        raise RequestError(f"number {quoted(digits)} of a claim is not written in the digits 0 to 9")
    return number


# -- phrases ------------------------------------------------------------------------------------------------

_ALSO = {
    "current": ("itself", "the current position", "the query itself"),
    "previous": ("the preceding token", "the token before", "the token just before"),
    "next": ("the following token", "the token after"),
    "first": ("the initial token", "the first position"),
    "start": ("the START token", "the start of the string"),
    "stack-top": (
        "the last unclosed open bracket",
        "the most recent unmatched open bracket",
        "the unmatched open bracket nearest by",
        "the innermost open bracket that is unmatched",
        "the top of the stack",
        "the stack top",
    ),
    "unmatched": ("unmatched open brackets", "all unclosed open brackets", "all brackets on the stack"),
    "partner": ("the open bracket that matches it", "its partner", "the partner"),
    "last-opener": ("the last open bracket", "the latest open bracket"),
    "openers": ("all open brackets", "any open bracket"),
    "closers": ("all closing brackets", "any closing bracket"),
    "same-type": ("tokens of the same type", "the same type", "same type"),
    "same-depth": ("all tokens at the same depth",),
    "same-depth-openers": ("all open brackets at the same depth",),
    "earlier-copies": ("an earlier copy of the current token", "earlier copies of itself"),
    "induction": (
        "token after an earlier copy",
        "the token after an earlier copy",
        "the token that followed an earlier copy of the current token",
        "the induction target",
    ),
    "same-topic": ("words of the same topic", "the same topic", "same topic"),
    "all": ("all tokens evenly", "everything evenly", "all visible keys evenly"),
    "following": ("all later tokens evenly",),
}
_ALSO_WHEN = {
    "closing": ("at closing brackets", "the query is a closing bracket"),
    "opening": ("at open brackets", "the query is an open bracket"),
    "elsewhere": ("the target is not the current token", "the query is non-trivial", "non-trivial"),
}
_RELATIONS: tuple[Made[Relation], ...] = (
    ("position p", r"(?:token at |tokens at )?position (\d+)", lambda p: built.position(whole(p))),
    ("offset -n", r"(?:token at )?offset ([+-]?\d+)", lambda n: built.offset(whole(n))),
    (
        "the token n positions before",
        r"token (\d+) positions? (?:before|back|earlier)",
        lambda n: built.offset(-whole(n)),
    ),
    ("the token n positions after", r"token (\d+) positions? (?:after|ahead|later)", lambda n: built.offset(whole(n))),
    ("brackets of type t", r"bracket of type (\d+)", lambda t: built.brackets_of_type(whole(t))),
    ("the token [SEP]", r"(?:special )?tokens? (\S+)", built.token),
    ("[SEP]", r"(\[[^\]\s]+\])(?: tokens?)?", built.token),
)
_CONDITIONS: tuple[Made[Condition], ...] = (
    ("the depth is at least n", r"(?:depth is )?(?:at )?(?:depth )?at least (\d+)", lambda n: depth_at_least(whole(n))),
    ("the current token is [CLS]", r"(?:the )?(?:query|current token) is (?:the token )?(\S+)", token_is),
    ("the position is at least p", r"position (?:is )?at least (\d+)", lambda p: position_at_least(whole(p))),
)
# What a model may be said to use a relation for: task -> words, after "to".
TASKS = {
    "closers": "predict closing brackets",
    "copies": "repeat the current token",
    "labels": "predict the label",
    "task": "do its task",  # whatever that is: the inputs' labels, or what models of its grammar are trained for
}
_ALSO_TASK = {
    "closers": ("predict the closing bracket", "close brackets", "predict the right closing bracket"),
    "copies": ("copy the current token", "copy brackets"),
    "labels": ("predict labels", "predict the right label", "classify", "predict the class"),
    "task": ("do the task", "do its job"),
}

_SAME = (
    (r"\b(opening|open) bracket", "open bracket"),
    (r"\bopeners?\b", "open bracket"),
    (r"\b(closed|close) bracket", "closing bracket"),
    (r"\bclosers?\b", "closing bracket"),
    (r"\bmost recent\b|\blatest\b", "last"),
    (r"\bpreceding\b", "previous"),
    (r"\bunclosed\b", "unmatched"),
    (r"\bcopies\b", "copy"),
    (r"\b(bracket|token|word|position|key|type)s\b", r"\1"),
    (r"\b(the|a|an|their)\b ", ""),
)


def plain(phrase: str) -> str:
    """`phrase` without what does not tell two phrases apart."""
    text = " ".join(phrase.lower().split()).strip(" .")
    for pattern, word in _SAME:
        text = re.sub(pattern, word, text)
    return " ".join(text.split())


def relation_said(phrase: str, own: Sequence[Relation] = ()) -> Relation:
    """The relation a phrase names, the user's `own` first."""
    named = [*_own(own, Relation, "relations"), *built.BUILT_IN.values()]
    table = {key: r for r in reversed(named) for key in (r.name, *map(plain, (r.words, *_ALSO.get(r.name, ()))))}
    return _look_up("relation", phrase, table, _RELATIONS, relation_phrases(own))


def condition_said(phrase: str, own: Sequence[Condition] = ()) -> Condition:
    """The condition a phrase names."""
    named = [*_own(own, Condition, "conditions"), *BUILT_IN_CONDITIONS.values()]
    table = {key: c for c in reversed(named) for key in (c.name, *map(plain, (c.words, *_ALSO_WHEN.get(c.name, ()))))}
    return _look_up("condition", phrase, table, _CONDITIONS, condition_phrases(own))


def task_said(phrase: str) -> str:
    """The name of the task a phrase names."""
    table = {plain(p): task for task, words in TASKS.items() for p in (task, words, *_ALSO_TASK[task])}
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
    fixed = [r.words for r in (*own, *built.BUILT_IN.values()) if not r.name.startswith("type-")]
    return [*fixed, *(written for written, _, _ in _RELATIONS)]


def condition_phrases(own: Sequence[Condition] = ()) -> list[str]:
    """Every way to name a condition, canonical ones."""
    return [*(c.words for c in (*own, *BUILT_IN_CONDITIONS.values())), *(written for written, _, _ in _CONDITIONS)]


def _look_up(
    what: str, phrase: str, table: dict[str, Thing], made: Iterable[Made[Thing]], known: Sequence[str]
) -> Thing:
    key = plain(phrase)
    for said in (phrase.strip(), key):  # a name in a list of relations is taken as it stands
        if said in table:
            return table[said]
    # A token's own letters are kept: "the token [SEP]" is not "[sep]".
    kept = re.sub(r"^(the|a|an) ", "", " ".join(phrase.split()).strip(" ").removesuffix("."), flags=re.IGNORECASE)
    for _, pattern, make in made:
        for text in (key, kept) if make not in (built.token, token_is) else (kept,):
            if found := re.fullmatch(pattern, text):
                return make(found[1])
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
_TO_DO = re.compile(
    r"(?P<relation>.+) to (?P<task>(?:predict|close|repeat|copy|do (?:its|the)|classify)\b.*)", re.IGNORECASE
)
_WHEN = re.compile(r"(?P<what>.+?),? (?:when|where|if) (?P<when>.+)", re.IGNORECASE)

VERBS = {"attends": "attends to", "attend": "attend to", "uses": "uses", "use": "use"}
FORM = (
    "write 'L1H0 attends to RELATION', 'L1H0 mainly attends to RELATION', '... when CONDITION', or "
    "'L1H0 uses RELATION [to predict closing brackets]'"
)


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


def sentence(text: str) -> tuple[tuple[tuple[int, int], ...], str, str | None, str | None, bool]:
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
    if part := _WHEN.fullmatch(rest):
        rest, when = part["what"], part["when"]
        if tail := _TO_DO.fullmatch(when):  # "when ... to predict ...", the purpose last
            when, task = tail["relation"], tail["task"]
    if part := _AND_USES.fullmatch(rest) or _TO_DO.fullmatch(rest):
        rest, task = part["relation"], part["task"]
    if found["use"] and task is None and " to " in rest:  # a purpose that is none of ours: `task_said` says which are
        rest, task = rest.rsplit(" to ", 1)
    if found["use"] and task is None:
        task = "task"
    if late == "evenly":
        rest = f"{rest} evenly"
    return heads, rest, when, task, bool(found["mainly"]) or late in ("mainly", "mostly")
