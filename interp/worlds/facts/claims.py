"""What can be said of heads that recall facts: relations, conditions, the question with both kinds of minimal pair."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from interp.claims import Claims, Condition, Items, Pairs, Relation, Rows, Tokens, general
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.worlds.facts.grammar import FactsGrammar

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
FACTS = "facts"
SUBJECT, RELATION, NOISE, END = range(4)  # kinds of tokens


def _known(grammar: Any) -> FactsGrammar:
    if not isinstance(grammar, FactsGrammar):
        raise RequestError(f"grammar={quoted(grammar)} is not a grammar of facts: this is about subjects and relations")
    return grammar


# -- relations ----------------------------------------------------------------------------------------------


def _subject(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & general.places(_known(grammar).seen(tokens, SUBJECT))


def _relation(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return visible & general.places(_known(grammar).seen(tokens, RELATION))


def _fact(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return _subject(tokens, grammar, visible) | _relation(tokens, grammar, visible)


def _noise(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    past = visible & np.tri(visible.shape[-1], dtype=bool)
    return past & (_known(grammar).kinds(tokens) == NOISE)[:, None, :]


THE_SUBJECT = Relation("subject", "the subject", "mass", FACTS, _subject, ("the subject token",))
THE_RELATION = Relation("relation", "the relation", "mass", FACTS, _relation, ("the relation token",))
BOTH = Relation("fact", "the subject and the relation", "mass", FACTS, _fact, ("subject and relation",))
THE_NOISE = Relation("noise", "the noise", "mass", FACTS, _noise, ("noise tokens", "noise"))


# -- conditions ---------------------------------------------------------------------------------------------


def _asked(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    return np.asarray(_known(grammar).kinds(tokens) == END)


def _subject_later(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    subject, relation = (_known(grammar).seen(tokens, kind) for kind in (SUBJECT, RELATION))
    return np.asarray((relation >= 0) & (subject > relation))


def _subject_first(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    subject, relation = (_known(grammar).seen(tokens, kind) for kind in (SUBJECT, RELATION))
    return np.asarray((subject >= 0) & (relation > subject))


ASKED = Condition("asked", "the answer is asked", FACTS, _asked, ("at END", "the query is END"))
SUBJECT_FIRST = Condition(
    "subject-first", "the subject stands before the relation", FACTS, _subject_first, ("the subject comes first",)
)
SUBJECT_LATER = Condition(
    "relation-first", "the relation stands before the subject", FACTS, _subject_later, ("the relation comes first",)
)


def _suggest(grammar: Any, longest: int) -> list[Condition]:
    return [ASKED, SUBJECT_FIRST, SUBJECT_LATER]


# -- the question -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """Which answer does the table have? Asked at END.

    - `subject`: the subject becomes another one, which has another answer to this relation. A relation to which all
      subjects have one answer has no such pair.
    - `relation`: the relation becomes another one; its answers lie in another block.
    """

    name: str = "fact"
    words: str = "recall the fact"
    also: tuple[str, ...] = ("tell the answer of subject and relation", "answer by the table")
    kinds: ClassVar[tuple[str, ...]] = ("subject", "relation")

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int, kind: str = "subject") -> Items:
        """Minimal pairs of a kind; at most one per input."""
        if kind not in self.kinds:
            raise RequestError(f"kind={quoted(kind)} is none of {', '.join(self.kinds)}")
        of = _known(grammar)
        subject, relation = of.facts(tokens)
        answer = of.table[subject, relation]
        swapped = of.table[:, relation].T if kind == "subject" else of.table[subject]  # answers of what may come in
        usable = (swapped != answer[:, None]) & rows[:, -1:]
        chance = np.where(usable, generator(seed, f"audit/fact/{kind}").random(usable.shape), -1.0)
        sequence = np.flatnonzero(usable.any(1))
        new = chance.argmax(1)[sequence]
        base, each = tokens[sequence], np.arange(len(sequence))
        flipped = of.seen(base, SUBJECT if kind == "subject" else RELATION)[:, -1]
        donors = base.copy()
        donors[each, flipped] = new + (0 if kind == "subject" else of.subjects)
        read = np.full(len(sequence), tokens.shape[1] - 1)
        return Items(sequence, base, donors, read, flipped, answer[sequence], swapped[sequence, new])


CLAIMS = Claims(
    relations=(THE_SUBJECT, THE_RELATION, BOTH, THE_NOISE),
    conditions=(ASKED, SUBJECT_FIRST, SUBJECT_LATER),
    questions=(Fact(),),
    question=lambda grammar: "fact",
    suggest=_suggest,
    roles=lambda tokens, grammar: _known(grammar).kinds(tokens),
    truth="a grammar of facts",
    use="is about facts, and the model has no grammar of facts",
)
