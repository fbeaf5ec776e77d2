"""The world of copying: brackets, each of which is its own label."""

from dataclasses import replace

from interp.config import TransformerConfig
from interp.world import Preset, World
from interp.worlds.copying.grammar import CopyGrammar
from interp.worlds.dyck.inputs import sentence, texts
from interp.worlds.dyck.recipes import OPTIONS, UNREAD, check, standard
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.dyck.world import OVERLAYS


def _copy(grammar: CopyGrammar) -> TransformerConfig:
    return standard(grammar, n_layers=4)


WORLD = World(
    name="copying",
    about="strings of brackets, each to be repeated where it stands (Wen et al. 2023, App. B.1)",
    grammars=(CopyGrammar,),
    settings=DyckSettings,
    presets={
        "dyck-copy": Preset(
            "4-layer dyck-standard trained to repeat each bracket where it stands",
            _copy,
            replace(DyckSettings(), steps=300, eval_every=100),
            CopyGrammar,
        )
    },
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.dyck.task:Objective",
    size="interp.worlds.dyck.size:need",
    columns={"copied": "copied"},
    measures=("excess", "copied"),
    overlays=OVERLAYS,
    sentence=sentence,
    inputs=texts,
    vouch="interp.worlds.dyck.exam:exam",
    claims="interp.worlds.dyck.claims:CLAIMS",
    kin=("dyck",),
    adopt="interp.worlds.brackets.foreign:adopt",
)
