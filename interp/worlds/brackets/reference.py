"""What is true in any strings of brackets: what `interp.worlds.dyck.reference` says, asked of broken ones too."""

from dataclasses import replace

import numpy as np

from interp.rng import generator
from interp.worlds.brackets.grammar import BracketStrings
from interp.worlds.dyck import reference
from interp.worlds.dyck.law import Ints

COUNT, LENGTH = 64, 10  # strings of any brackets, of which most break, and their length


def any_brackets(grammar: BracketStrings) -> Ints:
    """Model inputs [string, pos]: START, and brackets at random."""
    brackets = generator(0, "reference").integers(0, 2 * grammar.num_types, (COUNT, LENGTH))
    return np.insert(brackets, 0, grammar.start, axis=1)


REFERENCE = replace(reference.REFERENCE, strings=any_brackets)
