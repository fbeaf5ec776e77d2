"""What is true of facts, said by reading each string from the left (see `interp.world.Reference`)."""

import math

from interp.world import Reference, Row
from interp.worlds.facts.grammar import FactsGrammar


def _last(row: Row, grammar: FactsGrammar, letter: str) -> list[int]:
    """The last position up to each whose name begins so, -1 for none."""
    at, out = -1, []
    for here, token in enumerate(row):
        if grammar.vocab[token].startswith(letter):
            at = here
        out.append(at)
    return out


def _asked(row: Row, grammar: FactsGrammar, letter: str) -> list[int]:
    """The same at END, where the answer is asked, and -1 elsewhere."""
    where = zip(row, _last(row, grammar, letter), strict=True)
    return [at if grammar.vocab[token] == "END" else -1 for token, at in where]


def _number(row: Row, grammar: FactsGrammar, letter: str) -> int:
    (name,) = (grammar.vocab[token] for token in row if grammar.vocab[token].startswith(letter))
    return int(name[1:])


def _labels(row: Row, grammar: FactsGrammar) -> list[int | None]:
    answer = grammar.to_dict()["table"][_number(row, grammar, "s")][_number(row, grammar, "r")]
    return [*[None] * (len(row) - 1), answer]


def _keys(row: Row, grammar: FactsGrammar, letters: str) -> list[set[int]]:
    return [{_last(row, grammar, letter)[at] for letter in letters} - {-1} for at in range(len(row))]


def _noise(row: Row, grammar: FactsGrammar) -> list[set[int]]:
    return [
        {key for key in range(at + 1) if grammar.vocab[row[key]].startswith("n")} for at in range(len(row))
    ]  # fmt: skip


REFERENCE = Reference(
    labels=_labels,
    law=lambda row, grammar: [-math.log(1)] * len(row),
    keys={
        "subject": lambda row, grammar: _keys(row, grammar, "s"),
        "relation": lambda row, grammar: _keys(row, grammar, "r"),
        "fact": lambda row, grammar: _keys(row, grammar, "sr"),
        "noise": _noise,
    },
    overlays={
        "subject": lambda row, grammar: _asked(row, grammar, "s"),
        "relation": lambda row, grammar: _asked(row, grammar, "r"),
        "kinds": lambda row, grammar: ["srnE".index(grammar.vocab[token][0]) for token in row],
    },
)
