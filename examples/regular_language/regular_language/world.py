"""What the package tells of this world: a preset, an overlay, a relation, a condition and a question."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from interp.claims import Claims, Condition, Items, Relation, general
from interp.config import TransformerConfig
from interp.rng import generator
from interp.settings import TrainingSettings
from interp.world import Overlay, Preset, World
from regular_language.grammar import LastLetter


@dataclass(frozen=True)
class State:
    """Which letter came last? Asked after a dot; that letter becomes the other one."""

    name: str = "state"
    words: str = "tell the last letter"

    def items(self, tokens: Any, grammar: LastLetter, rows: Any, seed: int) -> Items:
        at = grammar.last_letter(tokens)
        asked = rows & (at >= 0) & (at < np.arange(tokens.shape[1]))
        sequence = np.flatnonzero(asked.any(1))
        read = np.where(asked, generator(seed, "state").random(rows.shape), -1.0).argmax(1)[sequence]
        base, each, flipped = tokens[sequence], np.arange(len(sequence)), at[sequence, read]
        donors = base.copy()
        donors[each, flipped] = 5 - base[each, flipped]
        return Items(sequence, base, donors, read, flipped, base[each, flipped] - 1, donors[each, flipped] - 1)


def _keys(tokens: Any, grammar: Any, visible: Any) -> Any:
    return visible & general.places(grammar.last_letter(tokens))


def _dots(tokens: Any, grammar: Any, keys: Any) -> Any:
    return tokens == 1


def _last_letter(tokens: Any, grammar: LastLetter) -> Any:
    return grammar.last_letter(tokens)


def _model(grammar: LastLetter) -> TransformerConfig:
    return TransformerConfig(4, 1, d_model=32, d_head=32, d_mlp=32, positions="learned", d_vocab_out=3, n_ctx=64)


CLAIMS = Claims(
    relations=(Relation("last-letter", "the last letter", "mass", "last-letter", _keys),),
    conditions=(Condition("dot", "the current token is a dot", "last-letter", _dots),),
    questions=(State(),),
    question=lambda grammar: "state",
)
WORLD = World(
    name="last-letter",
    about="which letter came last, among dots",
    grammars=(LastLetter,),
    presets={"last-letter": Preset("1-layer Transformer", _model, TrainingSettings(steps=600, lr=1e-2), LastLetter)},
    options={"length": "length", "letters": "letters"},
    claims="regular_language.world:CLAIMS",
    reference="regular_language.grammar:REFERENCE",
    overlays={"last_letter": Overlay("targets", _last_letter, "the last letter", usual=True)},
)
