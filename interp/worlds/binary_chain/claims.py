"""What can be said of heads of models of a binary chain: runs of equal states, and what the next state is."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.claims import Claims, Condition, Items, Pairs, Relation, Rows, Tokens, general
from interp.errors import RequestError, quoted
from interp.rng import generator
from interp.worlds.binary_chain.grammar import BinaryChain

WORLD_NAME = "binary_chain"


def _chain(grammar: Any) -> BinaryChain:
    if not isinstance(grammar, BinaryChain):
        raise RequestError(f"grammar={quoted(grammar)} is no BinaryChain: this is said of states of a binary chain")
    return grammar


def _run(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    place, began = np.arange(tokens.shape[1]), _chain(grammar).run_start(tokens)
    within = (place >= began[:, :, None]) & (place <= place[:, None])
    return np.asarray(visible & within)


def _last_switch(tokens: Tokens, grammar: Any, visible: Pairs) -> Pairs:
    return np.asarray(visible & general.places(_chain(grammar).run_start(tokens)))


def _just_switched(tokens: Tokens, grammar: Any, keys: Pairs) -> Rows:
    began = _chain(grammar).run_start(tokens)
    return np.asarray((began == np.arange(tokens.shape[1])) & (began > 0))


@dataclass(frozen=True)
class Next:
    """Which state does the current one make likelier? The current state becomes the other one.

    That is the other state where p + q > 1 and the same where p + q < 1, whichever is likelier by itself. At
    p + q = 1 the current state says nothing, and nothing is asked; nor where no next state is trained for.
    """

    name: str = "next"
    words: str = "predict the next state"
    also: tuple[str, ...] = ("tell the next state",)

    def items(self, tokens: Tokens, grammar: BinaryChain, rows: NDArray[np.bool_], seed: int) -> Items:
        """Minimal pairs in the current state."""
        asked = rows & (np.arange(tokens.shape[1]) < grammar.length - 1) & (grammar.eigenvalue != 0)
        drawn = np.where(asked, generator(seed, "audit/next").random(asked.shape), -1.0)
        sequence = np.flatnonzero(asked.any(1))
        read = drawn.argmax(1)[sequence]
        base, each = tokens[sequence], np.arange(len(sequence))
        donors = base.copy()
        donors[each, read] = 1 - base[each, read]
        answer, foil = (given[each, read] ^ int(grammar.eigenvalue < 0) for given in (base, donors))
        return Items(sequence, base, donors, read, read, answer, foil)


CLAIMS = Claims(
    relations=(
        Relation("run", "the current run of equal states", "mass", WORLD_NAME, _run, ("the current run",)),
        Relation("last-switch", "the first state of the current run", "mass", WORLD_NAME, _last_switch),
    ),
    conditions=(Condition("just-switched", "the state has just switched", WORLD_NAME, _just_switched),),
    questions=(Next(),),
    question=lambda grammar: "next" if grammar.eigenvalue != 0 else None,
    truth="states of a binary chain",
    use="is about a binary chain, and the model has none",
    nothing="has nothing to learn from the current state at p + q = 1",
)
