"""The world of recall: where each of its parts is."""

import numpy as np

from interp.world import Overlay, World
from interp.worlds.recall.grammar import Ints, RecallGrammar
from interp.worlds.recall.recipes import CONSTRUCTED, OPTIONS, PRESETS, check


def _recalled(tokens: Ints, grammar: RecallGrammar) -> Ints:
    return grammar.recalled(tokens)


def _last_copy(tokens: Ints, grammar: RecallGrammar) -> Ints:
    return grammar.last_copy(tokens)


def _previous(tokens: Ints, grammar: RecallGrammar) -> Ints:
    return np.arange(-1, len(tokens) - 1)


WORLD = World(
    name="recall",
    about="strings of symbols; each is asked what followed its last earlier copy",
    grammars=(RecallGrammar,),
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    columns={"accuracy": "right", "accuracy_contested": "last copy decides", "loss": "loss"},
    measures=("accuracy", "accuracy_elsewhere", "accuracy_contested"),
    claims="interp.worlds.recall.claims:CLAIMS",
    reference="interp.worlds.recall.reference:REFERENCE",
    constructed=CONSTRUCTED,
    construct="interp.worlds.recall.constructed:construct",
    overlays={
        "recalled": Overlay("targets", _recalled, "the token after the last earlier copy", usual=True),
        "last_copy": Overlay("targets", _last_copy, "the last earlier copy"),
        "previous": Overlay("targets", _previous, "the previous token"),
    },
)
