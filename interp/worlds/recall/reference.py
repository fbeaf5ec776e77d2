"""What is true in recall, said by searching each string backwards (see `interp.world.Reference`)."""

from interp.world import Reference, Row
from interp.worlds.recall.grammar import RecallGrammar


def _copy(row: Row, at: int) -> int:
    """The nearest earlier position that holds the token at `at`, -1 for none."""
    for earlier in range(at - 1, -1, -1):
        if row[earlier] == row[at]:
            return earlier
    return -1


def _copies(row: Row, grammar: RecallGrammar) -> list[int]:
    return [_copy(row, at) for at in range(len(row))]


def _keys(row: Row, grammar: RecallGrammar) -> list[int]:
    return [-1 if copy == -1 else copy + 1 for copy in _copies(row, grammar)]


REFERENCE = Reference(
    labels=lambda row, grammar: [None if copy == -1 else row[copy + 1] for copy in _copies(row, grammar)],
    law=lambda row, grammar: [0.0] * len(row),
    keys={
        "after-last-copy": lambda row, grammar: [{at} for at in _keys(row, grammar)],
        "last-copy": lambda row, grammar: [{at} for at in _copies(row, grammar)],
    },
    overlays={
        "recalled": _keys,
        "last_copy": _copies,
        "previous": lambda row, grammar: [at - 1 for at in range(len(row))],
    },
)
