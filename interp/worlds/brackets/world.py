"""The world of any strings of brackets: only other people's models are of it."""

from dataclasses import replace

from interp.worlds.brackets.grammar import BracketStrings
from interp.worlds.dyck.world import WORLD as DYCK

WORLD = replace(
    DYCK,
    name="brackets",
    about="any strings of brackets, in the spelling of the model that reads them",
    grammars=(BracketStrings,),
    presets={},
    columns={},
    measures=(),
    kin=("dyck",),
    reference="interp.worlds.brackets.reference:REFERENCE",
    embeddings={},
    constructed={},
    construct=None,
    finite=None,
)
