"""Claims about attention heads, in words and typed.

    Claim.parse("L1H0 attends to the last unmatched open bracket")
    Claim.parse("L1H0 mainly attends to the previous token when the current token is a closing bracket")
    Claim.parse("L0H1 and L1H0 use the last unmatched open bracket to predict closing brackets")
    Claim.parse("L0H1 uses the previous token")
    Claim(heads=[(1, 0)], relation="stack-top", uses="closers")

A relation of your own is a `Relation` (see `interp.claims`), given to `Claim` as it is, or to `parse` among
`relations`, to be found by its words; likewise a `Condition`. `wordings()` lists all that is built in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interp.claims import Condition, Question, Relation
from interp.claims.general import MOST
from interp.errors import RequestError, quoted
from interp.names import first_duplicate, printable
from probes.claims.heads import HEADS
from probes.claims.sentence import VERBS, Own, meanings, said
from probes.claims.words import (
    TASKS,
    condition_phrases,
    condition_said,
    is_question,
    own_questions,
    relation_phrases,
    relation_said,
    task_said,
)


@dataclass(frozen=True)
class Claim:
    """What is said of one attention head, or of several together.

    - `heads`: (layer, head) from 0, in order and each once. None at all means "some head": the one of the model
      that fits best on half of the inputs.
    - `relation`: where it attends; a `Relation`, or the name or words of a built-in one.
    - `when`: the queries it is about, a `Condition` or its words; None: all that have a key in the relation.
    - `uses`: what the model is said to use it for, one of `TASKS` (`task`: whatever its task is), or a `Question` of
      your own; None: the claim is about attention only.
    - `mainly`: more than half of the weight, sinks included.
    - `question`: the `Question` of your own, whose name `uses` then is.
    """

    heads: tuple[tuple[int, int], ...]
    relation: Relation
    when: Condition | None = None
    uses: str | None = None
    mainly: bool = False
    question: Question | None = field(default=None, compare=False)

    def __init__(
        self,
        heads: Sequence[tuple[int, int]],
        relation: Relation | str,
        when: Condition | str | None = None,
        uses: str | Question | None = None,
        mainly: bool = False,
        question: Question | None = None,
    ):
        put = object.__setattr__
        put(self, "heads", _heads(heads))
        put(self, "relation", relation_said(relation) if isinstance(relation, str) else relation)
        put(self, "when", condition_said(when) if isinstance(when, str) else when)
        if question is None and is_question(uses):
            question = uses  # type: ignore[assignment]  # it has the parts of one
        if question is not None:
            name = own_questions([question])[0].name
            if uses not in (None, name, question):
                raise RequestError(f"uses={quoted(uses)} is not what the question asks, {quoted(name)}: leave it out")
            uses = name
        put(self, "question", question)
        put(self, "uses", task_said(uses) if isinstance(uses, str) and question is None else uses)
        if not isinstance(mainly, (bool, np.bool_)):
            raise RequestError(f"mainly={quoted(mainly)} is neither True nor False")
        put(self, "mainly", bool(mainly))
        for name, kind in (("relation", Relation), ("when", Condition | None), ("uses", str | None)):
            if not isinstance(getattr(self, name), kind):
                raise RequestError(f"{name}={quoted(getattr(self, name))} is neither words nor a {name} of a claim")
        if self.mainly and self.relation.kind != "mass":
            raise RequestError(f"{quoted(self.relation.words)} says how evenly: 'mainly' cannot be added")

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        relations: Sequence[Relation] = (),
        conditions: Sequence[Condition] = (),
        questions: Sequence[Question] = (),
    ) -> "Claim":
        """The claim a sentence makes; what you add is looked up first.

        Raises `RequestError` for one not understood, which names the part that is not, and the nearest wordings of it.
        """
        own = Own(relations, conditions, questions).checked()
        found = said(text, own)
        uses = next((question for question in own.questions if question.name == found.task), found.task)
        return cls(found.heads, found.relation, found.when, uses, found.mainly)

    def __repr__(self) -> str:
        return f"Claim({printable(self.text)!r})"

    @property
    def text(self) -> str:
        """The claim in words; `parse` reads it back."""
        one = len(self.heads) < 2
        mainly = "mainly " if self.mainly else ""
        verb = ("uses" if one else "use") if self.uses else ("attends to" if one else "attend to")
        when = f" when {self.when.words}" if self.when else ""
        task = self.question.words if self.question else TASKS[self.uses] if self.uses else ""
        purpose = f" to {task}" if task and self.uses != "task" else ""
        return f"{heads_text(self.heads)} {mainly}{verb} {self.relation.words}{purpose}{when}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "text": self.text,
            "heads": [list(head) for head in self.heads],
            "relation": self.relation.name,
            "when": self.when.name if self.when else None,
            "uses": self.uses,
            "mainly": self.mainly,
        }


def heads_text(heads: Sequence[tuple[int, int]]) -> str:
    """ "L1H0", "L0H1 and L1H0", or "some head" for none."""
    names = [f"L{layer}H{head}" for layer, head in heads]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "some head"


def check_each_once(claims: Iterable[Claim]) -> None:
    """Raise `RequestError` for two claims of the same words: each is one of several that are corrected together."""
    if (twice := first_duplicate(claim.text for claim in claims)) is not None:
        raise RequestError(
            f"claim {quoted(twice)} is given twice: claims that are audited together are held to a level for their "
            "number, so give each once"
        )


def wordings() -> dict[str, list[str]]:
    """Everything that `Claim.parse` understands, by part of the sentence; plurals, articles and case do not matter.

    `names` are said in the place of verb and relation; `Claim.text` tells what they stand for.
    """
    return {
        "heads": list(HEADS),
        "verbs": list(VERBS),
        "names": list(meanings()),
        "relations": relation_phrases(),
        "conditions": [f"when {phrase}" for phrase in condition_phrases()],
        "uses": [f"to {words}" for words in TASKS.values()],
    }


def _heads(heads: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(heads, Iterable) or isinstance(heads, (str, bytes)):
        raise RequestError(f"heads={quoted(heads)} is not a list of heads such as [(1, 0)]; [] is some head")
    return tuple(sorted({_head(head) for head in heads}))


def _head(head: Any) -> tuple[int, int]:
    try:
        layer, index = head
        if any(isinstance(n, (bool, np.bool_)) or int(n) != n for n in (layer, index)):
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:  # infinity overflows
        raise RequestError(f"head {quoted(head)} is not (layer, head), two whole numbers such as (1, 0)") from error
    if min(layer, index) < 0:
        raise RequestError(f"head {quoted(head)} counts from 0: (0, 0) is the first")
    if max(layer, index) > MOST:
        raise RequestError(f"head {quoted(head)} is not (layer, head) of a model: neither is above {MOST}")
    return int(layer), int(index)
