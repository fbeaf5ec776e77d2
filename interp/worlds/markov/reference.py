"""What is true of chains and causal graphs, said by loops over one string (see `interp.world.Reference`)."""

import math

from interp.rng import generator
from interp.world import Reference, Row
from interp.worlds.markov.base import InContext
from interp.worlds.markov.graph import CausalGraphGrammar


def _parents(at: int, grammar: InContext) -> list[int]:
    """The positions that decide the token at `at`, rising."""
    k = grammar.order
    if not isinstance(grammar, CausalGraphGrammar):
        return list(range(at - k, at)) if at >= k else []
    if at == grammar.length:
        return list(range(at - k, at))
    if at < k or at >= grammar.length - k:
        return []
    if grammar.graph == "random":
        source = generator(grammar.graph_seed, "causal graph")
        drawn: list[int] = []
        for place in range(k, at + 1):
            drawn = sorted(int(i) for i in source.choice(place, k, replace=False))
        return drawn
    if grammar.graph == "pairs" and at % (k + 1) != k:
        return []
    return list(range(at - k, at))


def _matches(row: Row, at: int, grammar: InContext) -> list[int]:
    """Positions up to `at` whose parents hold the last tokens, in their order."""
    if at + 1 < grammar.order:
        return []
    now = row[at + 1 - grammar.order : at + 1]
    found = []
    for key in range(at + 1):
        parents = _parents(key, grammar)
        if parents and [row[place] for place in parents] == now:
            found.append(key)
    return found


def _asked(row: Row, at: int, grammar: InContext) -> bool:
    last = at + 1 == len(row)
    return not last and (not isinstance(grammar, CausalGraphGrammar) or at + 1 == grammar.length)


def _labels(row: Row, grammar: InContext) -> list[int | None]:
    return [row[at + 1] if _asked(row, at, grammar) else None for at in range(len(row))]


def _law(row: Row, grammar: InContext) -> list[float]:
    """The posterior mean: of what followed the current context, beta added to each count."""
    out = []
    for at in range(len(row)):
        followed = [row[key] for key in _matches(row, at, grammar)]
        label = row[at + 1] if at + 1 < len(row) else 0
        share = (followed.count(label) + grammar.beta) / (len(followed) + grammar.states * grammar.beta)
        out.append(-math.log(share))
    return out


def _parent(row: Row, grammar: InContext) -> list[int]:
    return [max(_parents(at, grammar), default=-1) for at in range(len(row))]


REFERENCE = Reference(
    labels=_labels,
    law=_law,
    keys={
        "parents": lambda row, grammar: [set(_parents(at, grammar)) for at in range(len(row))],
        "matches": lambda row, grammar: [set(_matches(row, at, grammar)) for at in range(len(row))],
    },
    overlays={
        "parent": _parent,
        "matched": lambda row, grammar: [
            [key in _matches(row, at, grammar) for key in range(len(row))] for at in range(len(row))
        ],
    },
)
