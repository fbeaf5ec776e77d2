"""The binary chain once more, by loops straight from the definition: what `check_world` holds the first against."""

import math
from typing import Any

from interp.world import Reference, Row


def _labels(row: Row, grammar: Any) -> list[int | None]:
    return [row[at + 1] if at + 1 < len(row) else None for at in range(len(row))]


def _law(row: Row, grammar: Any) -> list[float]:
    nats = []
    for at, state in enumerate(row):
        if at + 1 == len(row):
            nats.append(0.0)
            continue
        leaves = grammar.p if state == 0 else grammar.q
        nats.append(-math.log(leaves if row[at + 1] != state else 1 - leaves))
    return nats


def _run(row: Row, at: int) -> set[int]:
    found = {at}
    while min(found) > 0 and row[min(found) - 1] == row[at]:
        found.add(min(found) - 1)
    return found


def _runs(row: Row, grammar: Any) -> list[int]:
    number, found = 0, []
    for at, state in enumerate(row):
        number += at > 0 and state != row[at - 1]
        found.append(number)
    return found


REFERENCE = Reference(
    labels=_labels,
    law=_law,
    keys={
        "run": lambda row, grammar: [_run(row, at) for at in range(len(row))],
        "last-switch": lambda row, grammar: [{min(_run(row, at))} for at in range(len(row))],
    },
    overlays={"runs": _runs, "last_switch": lambda row, grammar: [min(_run(row, at)) for at in range(len(row))]},
)
