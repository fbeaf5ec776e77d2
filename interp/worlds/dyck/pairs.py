"""Minimal pairs of bracket strings: `DyckGrammar.counterfactual`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.errors import GrammarError, quoted
from interp.rng import generator
from interp.worlds.dyck.checks import per_row

if TYPE_CHECKING:
    from interp.worlds.dyck.grammar import DyckGrammar


def counterfactual(
    grammar: "DyckGrammar", tokens: ArrayLike, position: ArrayLike, new_type: ArrayLike | None, seed: int | None
) -> NDArray[Any]:
    """As `DyckGrammar.counterfactual`, which says what it takes and gives."""
    if seed is not None and new_type is not None:
        raise GrammarError(f"seed={quoted(seed)} changes nothing beside new_type, which says all; leave it out")
    if grammar.num_types == 1:
        raise GrammarError("num_types=1 leaves no other type to change to: take num_types of 2 or more")
    array = grammar._ids(tokens)
    partner = np.atleast_2d(grammar._structure(array).partner)
    result = np.array(tokens, copy=True)
    batch = np.atleast_2d(result)
    if batch.ndim != 2:
        raise GrammarError(f"token array of shape {array.shape}: counterfactual takes [batch, pos]")
    place = per_row("position", position, len(batch), batch.shape[1])
    rows = np.arange(len(batch))
    old = np.atleast_2d(array)[rows, place]
    if (old >= grammar.start).any():
        row = int((old >= grammar.start).argmax())
        name = grammar._name(old[row])
        raise GrammarError(f"row {row}, position {place[row]}: {name} is not a bracket; give the place of one")
    if new_type is not None:
        kind = per_row("new_type", new_type, len(batch), grammar.num_types)
    elif seed is not None:
        shift = generator(seed, "counterfactual").integers(1, grammar.num_types, size=len(batch))
        kind = (old // 2 + shift) % grammar.num_types
    else:
        kind = (old // 2 + 1) % grammar.num_types
    if (kind == old // 2).any():
        row = int((kind == old // 2).argmax())
        raise GrammarError(f"row {row}: new_type {kind[row]} is the type already there; give another")
    batch[rows, place] = 2 * kind + old % 2
    mate = partner[rows, place]
    paired = mate >= 0
    batch[rows[paired], mate[paired]] = (2 * kind + 1 - old % 2)[paired]
    return result
