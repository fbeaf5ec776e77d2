"""The world of flip-flops: where each of its parts is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.world import Column, Overlay, World
from interp.worlds.flipflop.grammar import FlipFlopGrammar, TransductionGrammar
from interp.worlds.flipflop.recipes import CONSTRUCTED, OPTIONS, PRESETS, UNREAD, check
from interp.worlds.flipflop.settings import FlipFlopSettings

READING = "w1 i0 i0 r1 i1 w0 i1 i1 i0 r0 i1 w1 i0 i0 i0 r1"
STATES = "1....0.......1..0.........1....."


def _last_write(tokens: Any, grammar: Any) -> NDArray[np.int64]:
    """The last write of each query."""
    return np.asarray(grammar.last_write(tokens))


def _gap(tokens: Any, grammar: Any) -> NDArray[np.int64]:
    """How many tokens the last write lies back, 0 where there is none."""
    at = grammar.last_write(tokens)
    return np.where(at < 0, 0, np.arange(len(tokens)) - at)


def _written(tokens: Any, grammar: Any) -> NDArray[np.int64]:
    """The bit that a position writes, -1 for others."""
    return np.where(grammar.written(tokens), grammar.value(tokens), -1)


def sentence(grammar: Any) -> str | None:
    """The string that is usually shown; None where strings are shorter."""
    text = READING if isinstance(grammar, FlipFlopGrammar) else STATES
    return text if len(text.replace(" ", "")) <= grammar.length else None


WORLD = World(
    name="flipflop",
    about="a bit that is written, kept through what is to be ignored, and read (Liu et al. 2023)",
    grammars=(FlipFlopGrammar, TransductionGrammar),
    settings=FlipFlopSettings,
    presets=PRESETS,
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.flipflop.task:make_task",
    columns={
        "accuracy_read": "reads",
        "accuracy_far": "far",
        "accuracy_contested": "contested",
        "loss": Column("loss", "least", most=np.inf),
    },
    measures=("loss", "excess", "accuracy", "accuracy_read", "accuracy_far", "accuracy_contested"),
    overlays={
        "last_write": Overlay("targets", _last_write, "the last write", usual=True),
        "written": Overlay("groups", _written, "written bits", name=lambda bit: f"write {bit}"),
        "gap": Overlay("levels", _gap, "tokens since the last write"),
    },
    sentence=sentence,
    vouch="interp.worlds.flipflop.exam:exam",
    claims="interp.worlds.flipflop.claims:CLAIMS",
    reference="interp.worlds.flipflop.reference:REFERENCE",
    finite="interp.worlds.flipflop.finite:generative",
    constructed=CONSTRUCTED,
    construct="interp.worlds.flipflop.constructed:construct",
)
