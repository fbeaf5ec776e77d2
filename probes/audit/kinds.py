"""Questions with several kinds of minimal pair: each is asked by itself, and the findings are put together.

A circuit of two hops has two kinds: the content that is fetched, and the address by which it is found. A head may
matter for one of them only, and used by one is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from interp.claims.types import Bools, Ints, Items, kinds_of
from probes.audit.effects import Effects
from probes.audit.rows import Finding
from probes.audit.rules import Gather, first
from probes.audit.tasks import NoTask, Task
from probes.audit.use_rules import USE_RULES

# The first of these words that any kind has is the word of all; "unused" thus needs every kind.
SHOWN_AT_ONCE = USE_RULES[: next(at for at, rule in enumerate(USE_RULES) if rule.finding == "used") + 1]
ORDER = ("used", "redundant", "undecided", "unused")
# What two inputs of a pair differ in; a question may have kinds of its own.
GLOSSES = {"content": "what is fetched differs", "address": "where it is to be found differs"}


@dataclass(frozen=True)
class OfKind:
    """A question asked of one of its kinds of minimal pair."""

    question: Any
    kind: str

    @property
    def name(self) -> str:
        return str(self.question.name)

    @property
    def words(self) -> str:
        return str(self.question.words)

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        """The question's items of this kind."""
        found: Items = self.question.items(tokens, grammar, rows, seed, kind=self.kind)
        return found


def by_kind(task: Task | NoTask) -> tuple[Any, ...]:
    """A question for each of its kinds; itself where it names none."""
    kinds = kinds_of(task)
    return tuple(OfKind(task, kind) for kind in kinds) if kinds else (task,)


def key_of(task: Task) -> tuple[str, str]:
    """What tells one question, of one kind, from another."""
    return task.name, str(getattr(task, "kind", ""))


def enough(asked: Sequence[Task], gathers: Sequence[Gather[Effects]]) -> tuple[tuple[Task, ...], list[Gather[Effects]]]:
    """The first kind of pair that shows the use by the exchange of values, if any does: one is enough. Else all."""
    for one, gather in zip(asked, gathers, strict=True):
        rule = first(SHOWN_AT_ONCE, gather)
        if len(asked) > 1 and rule is not None and rule.finding == "used":
            return (one,), [gather]
    return tuple(asked), list(gathers)


def together(asked: Sequence[Task], findings: Sequence[Finding]) -> Finding:
    """One finding of use for all kinds; of one kind, it is that one's as it is."""
    kinds = [key_of(one)[1] for one in asked]
    if len(findings) == 1:
        left = [kind for kind in kinds_of(getattr(asked[0], "question", asked[0])) if kind not in kinds]
        if not left:
            return findings[0]
        shown = f"Of {kinds[0]} pairs{_gloss(kinds[0])}: {findings[0].word}"
        more = f"{shown}, so that {' and '.join(left)} pairs need not be asked. "
        rows = tuple(
            replace(r, name=f"{r.name}/{kinds[0]}", words=f"{r.words} ({kinds[0]})") for r in findings[0].evidence
        )
        return replace(findings[0], because=more + findings[0].because, evidence=rows)
    word = next(word for word in (*ORDER, *(one.word for one in findings)) if any(f.word == word for f in findings))
    said = " ".join(
        f"Of {kind} pairs{_gloss(kind)}: {one.word}. {one.because}" for kind, one in zip(kinds, findings, strict=True)
    )
    rows = tuple(
        replace(
            row,
            name=f"{row.name}/{kind}",
            words=f"{row.words} ({kind})",
            finding=row.finding if one.word == word else None,  # the word of all rests on kinds that have it
        )
        for kind, one in zip(kinds, findings, strict=True)
        for row in one.evidence
    )
    first = next(one for one in findings if one.word == word)
    return Finding(word, said, rows, first.rule)


def _gloss(kind: str) -> str:
    return f" ({GLOSSES[kind]})" if kind in GLOSSES else ""
