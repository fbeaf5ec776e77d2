"""The world of bounded Dyck languages: where each of its parts is."""

import numpy as np

from interp.world import Overlay, World
from interp.worlds.dyck.grammar import DyckGrammar
from interp.worlds.dyck.inputs import sentence, texts
from interp.worlds.dyck.oracles import EMBEDDINGS
from interp.worlds.dyck.recipes import CONSTRUCTED, OPTIONS, PRESETS, RULES, UNREAD, check, fits, longest
from interp.worlds.dyck.settings import DyckSettings


def _partner(tokens: np.ndarray, grammar: DyckGrammar) -> np.ndarray:
    """The opener that each closer closes."""
    found = grammar.partner(tokens)
    return np.where(found < np.arange(len(found)), found, -1)


OVERLAYS = {
    "stack_top": Overlay(
        "targets",
        lambda tokens, grammar: grammar.stack_top(tokens),
        "last unmatched open bracket (top of the true stack)",
        usual=True,
    ),
    "partner": Overlay("targets", _partner, "the bracket that a closing one closes"),
    "depth": Overlay("levels", lambda tokens, grammar: grammar.depth(tokens), "depth"),
}

WORLD = World(
    name="dyck",
    about="strings of k types of brackets, nested at most D deep (Wen et al. 2023)",
    grammars=(DyckGrammar,),
    settings=DyckSettings,
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    fits=fits,
    longest=longest,
    unread=UNREAD,
    task="interp.worlds.dyck.task:Objective",
    size="interp.worlds.dyck.size:need",
    columns={"argmax": "argmax", "argmax_closers": "closers", "mass": "mass", "mass_nontrivial": "non-triv."},
    measures=("excess", *RULES, *(f"{rule}_nontrivial" for rule in RULES)),
    embeddings=EMBEDDINGS,
    overlays=OVERLAYS,
    sentence=sentence,
    inputs=texts,
    vouch="interp.worlds.dyck.exam:exam",
    claims="interp.worlds.dyck.claims:CLAIMS",
    reference="interp.worlds.dyck.reference:REFERENCE",
    constructed=CONSTRUCTED,
    construct="interp.worlds.dyck.constructed:construct",
    finite="interp.worlds.dyck.finite:ShortStrings",
    adopt="interp.worlds.brackets.foreign:adopt",
)
