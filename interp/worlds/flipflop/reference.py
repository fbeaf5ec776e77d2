"""What is true in flip-flops, said by a loop that keeps one bit (see `interp.world.Reference`)."""

import math
from typing import Any, NamedTuple

from interp.world import Reference, Row
from interp.worlds.flipflop.grammar import FlipFlopGrammar


class Kept(NamedTuple):
    """What is known after each token: where writes stand and what each wrote, and where the state was told last."""

    writes: list[list[tuple[int, str]]]
    told: list[int]
    idle: list[set[int]]


def kept(row: Row, grammar: Any) -> Kept:
    """The machine, token by token, by the names of tokens."""
    pairs = isinstance(grammar, FlipFlopGrammar)
    writes: list[tuple[int, str]] = []
    idle: set[int] = set()
    told, out = -1, Kept([], [], [])
    for at, token in enumerate(row):
        name = grammar.vocab[token]
        does = ("w" if name in "01" else "i") if not pairs else grammar.vocab[row[at - 1]] if at % 2 else ""
        if does == "w":
            writes = [*writes, (at, name)]
        if does in ("w", "r") and does:
            told = at
        if does == "i":
            idle = {*idle, at}
        out.writes.append(writes)
        out.told.append(told)
        out.idle.append(idle)
    return out


def _last(row: Row, grammar: Any) -> list[int]:
    return [writes[-1][0] if writes else -1 for writes in kept(row, grammar).writes]


def _labels(row: Row, grammar: Any) -> list[int | None]:
    stored = [writes[-1][1] if writes else "" for writes in kept(row, grammar).writes]
    if not isinstance(grammar, FlipFlopGrammar):
        return [int(bit) for bit in stored]
    if grammar.mode == "generative":
        return [*row[1:], None]
    return [grammar.vocab.index(stored[at]) if grammar.vocab[token] == "r" else None for at, token in enumerate(row)]


def _law(row: Row, grammar: Any) -> list[float]:
    """By Bayes' rule over the parts of the mixture, one token after the other; an impossible one tells nothing."""
    out = [0.0] * len(row)
    if not isinstance(grammar, FlipFlopGrammar) or grammar.mode == "deterministic":
        return out
    belief = [1 / len(grammar.ignore)] * len(grammar.ignore)
    for at in range(len(row) - 1):
        following = grammar.vocab[row[at + 1]]
        if at % 2 == 0:
            out[at] = 0.0 if grammar.vocab[row[at]] == "r" else math.log(2)
        elif at + 1 == grammar.length - 2:
            out[at] = 0.0 if following == "r" else math.inf
        else:
            parts = [
                p if following == "i" else (1 - p) * (grammar.writes if following == "w" else 1 - grammar.writes)
                for p in grammar.ignore
            ]
            joint = [b * part for b, part in zip(belief, parts, strict=True)]
            out[at] = -math.log(sum(joint)) if sum(joint) > 0 else math.inf
            belief = [one / sum(joint) for one in joint] if sum(joint) > 0 else belief
    return out


def _before(row: Row, grammar: Any) -> list[set[int]]:
    return [{writes[-2][0]} if len(writes) > 1 else set() for writes in kept(row, grammar).writes]


def _of_value(row: Row, grammar: Any) -> list[set[int]]:
    return [{at for at, bit in writes if bit == writes[-1][1]} for writes in kept(row, grammar).writes]


REFERENCE = Reference(
    labels=_labels,
    law=_law,
    keys={
        "last-write": lambda row, grammar: [{at} for at in _last(row, grammar)],
        "writes-of-value": _of_value,
        "writes-of-value-even": _of_value,
        "writes": lambda row, grammar: [{at for at, _ in writes} for writes in kept(row, grammar).writes],
        "write-before": _before,
        "last-told": lambda row, grammar: [{at} for at in kept(row, grammar).told],
        "idle": lambda row, grammar: list(kept(row, grammar).idle),
    },
    overlays={
        "last_write": _last,
        "written": lambda row, grammar: [
            next((int(bit) for at, bit in kept(row, grammar).writes[-1] if at == here), -1) for here in range(len(row))
        ],
        "gap": lambda row, grammar: [0 if at < 0 else here - at for here, at in enumerate(_last(row, grammar))],
    },
)
