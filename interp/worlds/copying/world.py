"""The world of copying: that of `interp.worlds.dyck`, and each bracket is its own label."""

from dataclasses import replace

from interp.config import TransformerConfig
from interp.world import Preset
from interp.worlds.copying.grammar import CopyGrammar
from interp.worlds.dyck.recipes import standard
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.dyck.world import WORLD as DYCK


def _copy(grammar: CopyGrammar) -> TransformerConfig:
    return standard(grammar, n_layers=4)


def _encoder(grammar: CopyGrammar) -> TransformerConfig:
    return standard(
        grammar, n_layers=4, block="bert", direction="bidirectional", positions="learned", activation="gelu_exact"
    )


WORLD = replace(
    DYCK,
    name="copying",
    about="strings of brackets, each to be repeated where it stands (Wen et al. 2023, App. B.1)",
    grammars=(CopyGrammar,),
    presets={
        "dyck-copy": Preset(
            "4-layer dyck-standard trained to repeat each bracket where it stands",
            _copy,
            DyckSettings(steps=300, eval_every=100),
            CopyGrammar,
        ),
        "dyck-copy-encoder": Preset(
            "a 4-layer encoder, BERT's block and attention in both directions, trained to repeat each bracket",
            _encoder,
            DyckSettings(steps=300, eval_every=100, data="prefix"),
            CopyGrammar,
        ),
    },
    columns={"copied": "copied"},
    measures=("excess", "copied"),
    kin=("dyck",),
    embeddings={},
    constructed={},
    construct=None,
    finite=None,
)
