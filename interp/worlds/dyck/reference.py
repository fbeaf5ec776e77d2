"""What is true in strings of brackets, said by a stack that is pushed and popped (see `interp.world.Reference`)."""

from typing import NamedTuple

from interp.world import Reference, Row
from interp.worlds.dyck.grammar import DyckGrammar


class Read(NamedTuple):
    """What is known after each token: openers that wait, the opener just closed (-1 none), and the depth."""

    waiting: list[list[int]]
    closed: list[int]
    depth: list[int]


def read(row: Row, grammar: DyckGrammar) -> Read:
    """Ids 2t and 2t + 1 open and close type t; after the first bracket that breaks a string nothing waits."""
    stack: list[int] = []
    depth, broken, out = 0, False, Read([], [], [])
    for at, token in enumerate(row):
        closed = -1
        if token < 2 * grammar.num_types:
            depth += 1 if token % 2 == 0 else -1
            if token % 2 == 0 and len(stack) < grammar.max_depth and not broken:
                stack.append(at)
            elif token % 2 == 1 and stack and row[stack[-1]] == token - 1:
                closed = stack.pop()
            else:
                broken, stack = True, []
        out.waiting.append(list(stack))
        out.closed.append(closed)
        out.depth.append(depth)
    return out


def _last(row: Row, grammar: DyckGrammar) -> list[int]:
    return [stack[-1] if stack else -1 for stack in read(row, grammar).waiting]


def _labels(row: Row, grammar: DyckGrammar) -> list[int | None]:
    """The next bracket, END after the last."""
    return [*row[1:], grammar.end]


def _same_depth(row: Row, grammar: DyckGrammar) -> list[set[int]]:
    depth = read(row, grammar).depth
    return [{key for key in range(len(row)) if depth[key] == here} for here in depth]


REFERENCE = Reference(
    labels=_labels,
    keys={
        "stack-top": lambda row, grammar: [{last} for last in _last(row, grammar)],
        "unmatched": lambda row, grammar: [set(stack) for stack in read(row, grammar).waiting],
        "partner": lambda row, grammar: [{closed} for closed in read(row, grammar).closed],
        "same-depth": _same_depth,
        "openers": lambda row, grammar: [
            {key for key, token in enumerate(row) if token in range(0, 2 * grammar.num_types, 2)} for _ in row
        ],
        "closers": lambda row, grammar: [
            {key for key, token in enumerate(row) if token in range(1, 2 * grammar.num_types, 2)} for _ in row
        ],
    },
    overlays={
        "stack_top": _last,
        "partner": lambda row, grammar: read(row, grammar).closed,
        "depth": lambda row, grammar: read(row, grammar).depth,
    },
)
