"""The sentence of a claim: heads, then what they are said to do, where, when and what for."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from interp.claims import Called, Condition, Question, Relation, register
from interp.errors import RequestError, quoted
from interp.registry import kept
from probes.claims.heads import HEADS, heads_said
from probes.claims.words import (
    LONGEST,
    TASKS,
    condition_said,
    find_condition,
    find_relation,
    find_task,
    nearest,
    own_conditions,
    own_questions,
    own_relations,
    relation_said,
    task_said,
    without_stop,
)

Heads = tuple[tuple[int, int], ...]
MOST_HEADS = 80  # words that the heads of a claim take up
MOST_PARTS = 12  # places where a sentence may be cut, tried from the left

VERBS = (
    *("attends to", "mainly attends to", "attends mainly to", "attends evenly to", "attends evenly among"),
    *("looks at", "focuses on", "pays attention to", "points to", "attended to"),
    *("uses", "uses ... to", "relies on", "depends on"),
)
WRITES = ("copies", "copied", "copy", "moves", "carries", "writes", "passes", "outputs", "predicts")
DOES = ("implements", "performs", "computes", "retrieves", "finds", "detects", "identifies", "matches", "selects")
AVOIDS = ("ignores", "avoids", "suppresses", "excludes")
STRICT = ("only", "always", "exclusively", "solely", "consistently", "invariably")  # more than inputs can show
ADVERBS = ("mainly", "mostly", "primarily", "evenly", "uniformly")
FORM = (
    "write 'L1H0 attends to RELATION', 'L1H0 mainly attends to RELATION', '... when CONDITION', or "
    "'L1H0 uses RELATION [to do its task]'"
)

_MAINLY = r"(?:mainly|mostly|primarily|predominantly|chiefly|largely)"
_EVENLY = r"(?:evenly|uniformly|equally)"
_PLACE = r"(?:to|at|on|over|onto|towards?|across|among|between|within)"
_USE = r"uses?|used|rel(?:y|ies|ied) (?:up)?on|depends?(?:ed)? (?:up)?on|makes? use of|made use of"
_ATTEND = (
    r"attend(?:s|ed)?|(?:is|are|was|were) attending|look(?:s|ed)?|focus(?:es|ed)?|concentrat(?:es?|ed)|"
    r"point(?:s|ed)?|pa(?:ys?|id) (?:(?P<most>most of) )?(?:its |their )?attention|"
    r"(?:puts?|places?|placed|gives?|gave|spends?|spent|spreads?|distributes?|distributed|splits?) "
    r"(?:(?P<most2>most of|the bulk of) )?(?:its |their |the )?(?:attention|weight)(?: weights?)?"
)
_VERB = re.compile(
    rf"(?:(?P<early>{_MAINLY}|{_EVENLY}) )?(?:(?P<use>{_USE})|(?:{_ATTEND})(?: (?P<late>{_MAINLY}|{_EVENLY}))?"
    rf" (?P<place>{_PLACE})) (?P<rest>.+)",
    re.IGNORECASE,
)
_LAYER = re.compile(r"(?:of|in|from) (?:the )?layer[ -]?(?P<layer>\d+) ", re.IGNORECASE)
_AVERAGES = re.compile(r"averages? (?:(?:over|across) )?(?P<rest>.+)", re.IGNORECASE)
_NOT = re.compile(
    r"(?:(?:does|do|did|is|are|was|were|can)(?: not|n't|n’t)|cannot|never|no longer|hardly|rarely|barely)\b",
    re.IGNORECASE,
)
_AND_USES = r",? (?:and|which|that) (?:it |they )?(?:uses?|used) (?:it|them|this|that|these)? ?to "
_RELIES = r"(?:uses|relies on|depends on|needs|makes use of)"
_AND_IS_USED = re.compile(
    rf",? (?:and|which|that) (?:(?:the model |the network |it )?{_RELIES} (?:it|this|that)"
    rf"|(?<=(?:which|.that) )the (?:model|network) {_RELIES}"
    r"|(?:it |this |that )?is used(?: by the (?:model|network))?)$",
    re.IGNORECASE,
)
_WHEN = r",? (?:when|whenever|where|if|provided that) "
_WHEN_FIRST = re.compile(rf"(?P<what>.+?){_WHEN}(?P<when>.+)", re.IGNORECASE)
_CUT = re.compile(rf"(?P<when>{_WHEN}| (?=at ))|(?P<task>{_AND_USES}|,? (?:in order )?to )", re.IGNORECASE)
_AND_USES_FIRST = re.compile(rf"(?P<relation>.+?){_AND_USES}(?P<task>.+)", re.IGNORECASE)


@dataclass(frozen=True)
class Own:
    """What the user adds to what claims may say."""

    relations: Sequence[Relation] = ()
    conditions: Sequence[Condition] = ()
    questions: Sequence[Question] = ()

    def checked(self) -> "Own":
        """Itself, each part a list of its kind. Raises `RequestError`."""
        return Own(own_relations(self.relations), own_conditions(self.conditions), own_questions(self.questions))


@dataclass(frozen=True)
class Said:
    """What a sentence says."""

    heads: Heads
    relation: Relation
    when: Condition | None
    task: str | None
    mainly: bool


@dataclass(frozen=True)
class Parts:
    """A sentence behind its verb, cut into phrases."""

    relation: str
    when: str | None = None
    task: str | None = None


def said(text: str, own: Own) -> Said:
    """What a sentence says. Raises `RequestError` that names the part which is not understood, and what comes near."""
    if not isinstance(text, str):
        raise RequestError(f"claim {quoted(text)} is not a text: {FORM}")
    heads, rest = _heads(without_stop(text), text)
    if _NOT.match(rest):
        raise RequestError(
            f"claim {quoted(text)} says what is not: claim what is, and see whether it is refuted; that keys are "
            "avoided is 'attends to anything but ...'"
        )
    uses = _AND_IS_USED.search(rest)
    rest = _from_to(rest[: uses.start()] if uses else rest, own)
    verb = _verb(rest)
    if verb is not None and uses:
        verb = replace(verb, use=True)
    if verb is not None and (read := _tried(verb.tail, verb.use, own)) is not None:
        return Said(heads, *read, verb.mainly)
    if named := _named(rest, bool(uses), own):
        return Said(heads, *named)
    if verb is None:
        raise RequestError(f"claim {quoted(text)} is not understood: {_verb_meant(rest)}")
    return Said(heads, *_required(_heuristic(verb.tail, verb.use), own), verb.mainly)


@dataclass(frozen=True)
class Verb:
    """What is behind a verb, and what the verb says."""

    tail: str
    use: bool = False
    mainly: bool = False


def _verb(rest: str) -> Verb | None:
    """None where words begin with no known verb."""
    if averages := _AVERAGES.fullmatch(rest):
        return Verb(f"evenly over {averages['rest']}")
    found = _VERB.fullmatch(rest)
    if found is None:
        return None
    how = [found[name] for name in ("early", "late") if found[name]]
    tail = found["rest"]
    if any(re.fullmatch(_EVENLY, word, re.IGNORECASE) for word in how):
        among = (found["place"] or "").lower() in ("among", "between", "within")
        tail = f"evenly {'among' if among else 'over'} {tail}"
    mainly = any(re.fullmatch(_MAINLY, word, re.IGNORECASE) for word in how)
    return Verb(tail, bool(found["use"]), mainly or bool(found["most"] or found["most2"]))


def _from_to(rest: str, own: Own) -> str:
    """ "attends from closing brackets to X" as "attends to X when at closing brackets"."""
    if found := re.fullmatch(r"(?P<verb>attend(?:s|ed)?) from (?P<query>.+?) to (?P<what>.+)", rest, re.IGNORECASE):
        for when in (f"at {found['query']}", *(f"the current token is {a}{found['query']}" for a in ("", "a "))):
            if find_condition(when, own.conditions) is not None:
                return f"{found['verb']} to {found['what']} when {when}"
    return rest


# -- heads and verbs ----------------------------------------------------------------------------------------


def _heads(clean: str, text: str) -> tuple[Heads, str]:
    """The heads that a sentence begins with, as many words as name some, and the rest."""
    words = clean.split(" ")
    for end in range(min(len(words) - 1, MOST_HEADS), 0, -1):
        if (heads := heads_said(" ".join(words[:end]))) is not None:
            return heads, " ".join(words[end:])
    verb = next((at for at in range(1, min(len(words), MOST_HEADS)) if _VERB.match(" ".join(words[at:]))), None)
    if verb is None:
        raise RequestError(f"claim {quoted(text)} is not understood: {FORM}")
    named = " ".join(words[:verb])
    near = nearest(named, {one.lower(): one for one in HEADS})
    raise RequestError(f"claim {quoted(text)}: {quoted(named)} names no head; the nearest are {near}")


def _verb_meant(rest: str) -> str:
    """Of words without a known verb: which part is no verb, and what comes nearest."""
    words = rest[: 2 * LONGEST].split(" ")
    if _is_name(rest):
        core = _heuristic(rest, False).relation
        return f"{quoted(core)} is not a name of heads; the nearest are {nearest(_key(core), _name_words())}"
    if found := _LAYER.match(rest):
        layer = found["layer"]
        return (
            f"{quoted(found[0].strip())} after 'some head': name a head of it, such as 'L{layer}H0', which stands for "
            "the best head of the layer where several seeds are audited, or leave it out"
        )
    for at in range(min(len(words), 3)):
        if _VERB.match(" ".join([*words[:at], *words[at + 1 :]])):
            if words[at].lower() in STRICT:
                return f"{quoted(words[at])} is more than inputs can show: leave it out, or say 'mainly'"
            near = nearest(words[at].lower(), {adverb: adverb for adverb in ADVERBS})
            return f"{quoted(words[at])} is not an adverb of claims; the nearest are {near}"
    first = words[0].lower()
    if first in WRITES:
        said = f"{quoted(words[0])} says what a head writes, which is not examined"
        return f"{said}: claim where it attends, or that it 'uses' what is there"
    if first in DOES:
        said = f"{quoted(words[0])} says what a head is for, and not where it looks"
        return f"{said}: write 'attends to RELATION', or 'uses RELATION to do its task'"
    if first in AVOIDS:
        return f"{quoted(words[0])} says where a head does not look: write 'attends to anything but RELATION'"
    known = {verb.split(" ")[0]: verb for verb in reversed(VERBS)} | _name_words()
    return f"{quoted(words[0])} is not a verb of claims; the nearest are {nearest(first, known)}"


# -- names of heads -----------------------------------------------------------------------------------------

_IS = (
    r"(?:is|are|was|were|acts?(?:ed)? (?:as|like)|behaves?d? (?:as|like)|works? (?:as|like)|functions?(?:ed)? as|"
    r"serves?d? as)"
)
_IS_A = re.compile(rf"{_IS} (?:(?P<mainly>{_MAINLY}) )?(?:(?:an?|the|both|all) )?(?P<name>.+)", re.IGNORECASE)


def _is_name(phrase: str) -> bool:
    return _IS_A.fullmatch(phrase) is not None


def _key(phrase: str) -> str:
    """What tells one name of heads from another."""
    text = " ".join(phrase.lower().replace("-", " ").replace("‑", " ").split())
    if found := _IS_A.fullmatch(text):
        name = re.sub(r" (?:attention )?heads?$", "", found["name"])
        return f"is {re.sub(r'(?<=[^s])s$', '', name) if found['name'] == name else name}"
    first, _, rest = text.partition(" ")
    return " ".join([re.sub(r"(?:(?<=ch)es|ed|s)$", "", first), *rest.split()])


@kept
def _names() -> dict[str, Called]:
    return {_key(said): one for one in reversed(register.called()) for said in (one.words, *one.also)}


def _name_words() -> dict[str, str]:
    return {key: one.words for key, one in _names().items() if one.relation}


def _named(rest: str, use: bool, own: Own) -> tuple[Relation, Condition | None, str | None, bool] | None:
    """(relation, condition, task, mainly) of what a head is called, None where it is called nothing known."""
    for parts in _cuts(rest, use):
        one = _names().get(_key(parts.relation))
        if one is None:
            continue
        if not one.relation:
            raise RequestError(f"{quoted(parts.relation)} names no set of keys that is attended to: {one.instead}")
        if (found := _find(Parts(one.relation, parts.when, parts.task), own)) is not None:
            as_a = _IS_A.fullmatch(parts.relation)
            return *found, bool(as_a and as_a["mainly"])
    first = _heuristic(rest, use)
    if (one := _names().get(_key(first.relation))) is not None and one.relation:
        return *_required(Parts(one.relation, first.when, first.task), own), False
    return None


def meanings() -> dict[str, str]:
    """What heads are called, and the words of what they then attend to; without those that no relation stands for."""
    return {one.words: one.relation for one in register.called() if one.relation}


# -- relation, condition, use -------------------------------------------------------------------------------


def _tried(rest: str, use: bool, own: Own) -> tuple[Relation, Condition | None, str | None] | None:
    """What is behind a verb, however it may be cut; None where no way is understood."""
    found = (_find(parts, own) for parts in (_heuristic(rest, use), *_cuts(rest, use)))
    return next((one for one in found if one is not None), None)


def _find(parts: Parts, own: Own) -> tuple[Relation, Condition | None, str | None] | None:
    """What the phrases name, None where one of them names nothing."""
    task = None if parts.task is None else find_task(parts.task, own.questions)
    when = None if parts.when is None else find_condition(parts.when, own.conditions)
    if (parts.task is not None and task is None) or (parts.when is not None and when is None):
        return None
    relation = find_relation(parts.relation, own.relations)
    return None if relation is None else (relation, when, task)


def _required(parts: Parts, own: Own) -> tuple[Relation, Condition | None, str | None]:
    """The same; raises `RequestError` for the first phrase that names nothing."""
    return (
        relation_said(parts.relation.removeprefix("evenly over "), own.relations),
        None if parts.when is None else condition_said(parts.when, own.conditions),
        None if parts.task is None else task_said(parts.task, own.questions),
    )


def _cuts(rest: str, use: bool) -> Iterator[Parts]:
    """Every way to cut a sentence into a relation and perhaps a condition and a use, in either order."""
    found = list(_CUT.finditer(rest))[:MOST_PARTS]
    yield Parts(rest, task="task" if use else None)
    for i, one in enumerate(found):
        behind = rest[one.end() :]
        what = "when" if one["when"] else "task"
        single = {"task": "task" if use else None, what: behind}
        yield Parts(rest[: one.start()], **single)
        for other in found[i + 1 :]:
            second = "when" if other["when"] else "task"
            if second != what:
                yield Parts(rest[: one.start()], **{what: rest[one.end() : other.start()], second: rest[other.end() :]})


@kept
def _purposes() -> re.Pattern[str]:
    """A relation and a purpose, which begins with the verb of a known one."""
    phrases = [phrase for name, words in TASKS.items() for phrase in (words, *register.also_uses()[name])]
    verbs = {" ".join(phrase.split()[: 2 if phrase.startswith("do ") else 1]) for phrase in phrases}
    return re.compile(rf"(?P<relation>.+) to (?P<task>(?:{'|'.join(sorted(verbs))})\b.*)", re.IGNORECASE)


def _heuristic(rest: str, use: bool) -> Parts:
    """The likeliest way to cut a sentence: what is not understood is named by its phrases."""
    when, task = None, None
    if part := _WHEN_FIRST.fullmatch(rest):
        rest, when = part["what"], part["when"]
        if tail := _purposes().fullmatch(when):  # "when ... to predict ...", the purpose last
            when, task = tail["relation"], tail["task"]
    if part := _AND_USES_FIRST.fullmatch(rest) or _purposes().fullmatch(rest):
        rest, task = part["relation"], part["task"]
    if use and task is None and " to " in rest:  # a purpose that is none of ours: `task_said` says which are
        rest, task = rest.rsplit(" to ", 1)
    return Parts(rest, when, "task" if use and task is None else task)
