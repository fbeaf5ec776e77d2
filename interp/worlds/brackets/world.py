"""The world of any strings of brackets: only other people's models are of it."""

from interp.world import World
from interp.worlds.brackets.grammar import BracketStrings
from interp.worlds.dyck.inputs import sentence, texts
from interp.worlds.dyck.recipes import OPTIONS, UNREAD, check
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.dyck.world import OVERLAYS

WORLD = World(
    name="brackets",
    about="any strings of brackets, in the spelling of the model that reads them",
    grammars=(BracketStrings,),
    settings=DyckSettings,
    options=OPTIONS,
    check=check,
    unread=UNREAD,
    task="interp.worlds.dyck.task:Objective",
    size="interp.worlds.dyck.size:need",
    overlays=OVERLAYS,
    sentence=sentence,
    inputs=texts,
    vouch="interp.worlds.dyck.exam:exam",
    claims="interp.worlds.dyck.claims:CLAIMS",
    kin=("dyck",),
    adopt="interp.worlds.brackets.foreign:adopt",
)
