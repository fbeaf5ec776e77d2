"""The world of the binary chain: where each of its parts is."""

from typing import Any

import numpy as np

from interp.world import Overlay, World
from interp.worlds.binary_chain.grammar import BinaryChain
from interp.worlds.binary_chain.recipes import CONSTRUCTED, OPTIONS, PRESETS, UNREAD, check
from interp.worlds.binary_chain.settings import ChainSettings


def _runs(tokens: Any, grammar: BinaryChain) -> Any:
    """Which run of equal states, counted from 0."""
    return np.cumsum(np.diff(tokens, prepend=tokens[:1]) != 0)


WORLD = World(
    name="binary_chain",
    about="a fixed binary first-order Markov chain (Makkuva et al. 2024)",
    grammars=(BinaryChain,),
    settings=ChainSettings,
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.binary_chain.task:ChainTask",
    start="interp.worlds.binary_chain.task:start_params",
    columns={"loss": "loss", "excess": "over the law", "rung/unigram": "unigram"},
    measures=("excess",),
    claims="interp.worlds.binary_chain.claims:CLAIMS",
    constructed=CONSTRUCTED,
    construct="interp.worlds.binary_chain.constructed:construct",
    reference="interp.worlds.binary_chain.reference:REFERENCE",
    overlays={
        "last_switch": Overlay(
            "targets", lambda tokens, grammar: grammar.run_start(tokens), "first state of the current run", usual=True
        ),
        "runs": Overlay("groups", _runs, "run of equal states", name=lambda run: f"run {run}"),
    },
)
