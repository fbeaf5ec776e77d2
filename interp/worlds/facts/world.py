"""The world of facts: where each of its parts is."""

from typing import Any

import numpy as np

from interp.world import Overlay, World
from interp.worlds.facts.grammar import FactsGrammar, Ints
from interp.worlds.facts.recipes import CONSTRUCTED, OPTIONS, PRESETS, UNREAD, check
from interp.worlds.facts.settings import FactsSettings

SHOWN = "n0 n3 s2 n1 n4 r1 n2 END"
KINDS = ("subject", "relation", "noise", "END")


def _asked(tokens: Any, grammar: FactsGrammar, kind: int) -> Ints:
    """Where the token of a kind stands, at END: nothing is asked of other queries."""
    return np.where(grammar.kinds(tokens) == KINDS.index("END"), grammar.seen(tokens, kind), -1)


def _subject(tokens: Any, grammar: FactsGrammar) -> Ints:
    return _asked(tokens, grammar, 0)


def _relation(tokens: Any, grammar: FactsGrammar) -> Ints:
    return _asked(tokens, grammar, 1)


def _kinds(tokens: Any, grammar: FactsGrammar) -> Ints:
    return grammar.kinds(tokens)


def sentence(grammar: Any) -> str | None:
    """The string that is usually shown; None where its tokens are not all there, or strings are shorter."""
    names = SHOWN.split()
    return SHOWN if set(names) <= set(grammar.vocab) and len(names) <= grammar.length else None


WORLD = World(
    name="facts",
    about="a subject and a relation among noise, asked for the answer that a table has for them",
    grammars=(FactsGrammar,),
    settings=FactsSettings,
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.facts.task:make_task",
    start="interp.worlds.facts.task:start",
    columns={"accuracy": "right", "accuracy_block": "right block", "loss": "loss", "rung/relation": "relation alone"},
    measures=("loss", "excess", "accuracy", "accuracy_block", "kl/uniform", "kl/subject", "kl/relation", "kl/fact"),
    overlays={
        "subject": Overlay("targets", _subject, "the subject", usual=True),
        "relation": Overlay("targets", _relation, "the relation", usual=True),
        "kinds": Overlay("groups", _kinds, "kinds of tokens", name=lambda kind: KINDS[kind]),
    },
    sentence=sentence,
    claims="interp.worlds.facts.claims:CLAIMS",
    reference="interp.worlds.facts.reference:REFERENCE",
    constructed=CONSTRUCTED,
    construct="interp.worlds.facts.constructed:construct",
)
