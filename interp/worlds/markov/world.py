"""The world of in-context Markov chains and causal graphs: where each of its parts is."""

import numpy as np
from numpy.typing import NDArray

from interp.world import Column, Overlay, World
from interp.worlds.markov.base import InContext, Ints
from interp.worlds.markov.grammar import MarkovGrammar, OrderGrammar
from interp.worlds.markov.graph import CausalGraphGrammar
from interp.worlds.markov.recipes import OPTIONS, PRESETS, UNREAD, check
from interp.worlds.markov.settings import CountingSettings


def _parent(tokens: Ints, grammar: InContext) -> Ints:
    return grammar.parents_of(len(tokens))[:, -1]


def _matched(tokens: Ints, grammar: InContext) -> NDArray[np.bool_]:
    """Whether a key was drawn in the context of a query [query, key]: all these are counted, not the last alone."""
    return np.asarray(grammar.matches(tokens[None])[0])


WORLD = World(
    name="markov",
    about="chains and causal graphs with a kernel of their own for every string, to be counted in context",
    grammars=(MarkovGrammar, OrderGrammar, CausalGraphGrammar),
    presets=PRESETS,
    options=OPTIONS,
    settings=CountingSettings,
    task="interp.worlds.markov.task:make_task",
    check=check,
    unread=UNREAD,
    columns={
        "loss": "loss",
        "rung/unigram": "unigram",
        "rung/kernel": "kernel known",
        "accuracy_seen": Column("likeliest is right"),
    },
    measures=("accuracy", "excess"),
    kin=("recall",),
    claims="interp.worlds.markov.claims:CLAIMS",
    reference="interp.worlds.markov.reference:REFERENCE",
    overlays={
        "matched": Overlay("targets", _matched, "tokens drawn after the same context: to be counted", usual=True),
        "parent": Overlay("targets", _parent, "the (nearest) causal parent"),
    },
)
