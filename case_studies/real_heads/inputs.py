"""What the heads are looked at on: random tokens of which a stretch comes twice, and pieces of a text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from case_studies.real_heads.decoder import Decoder, Ids
from interp.claims.language import LENGTH, draw_language
from probes.claims import NAMED

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Inputs:
    """Token ids [input, pos], what they are in words, and the positions [input, pos] whose next token is scored."""

    name: str
    tokens: Ids
    words: str
    scored: Bools

    def first(self, count: int) -> "Inputs":
        """So many of them."""
        return Inputs(self.name, self.tokens[:count], self.words, self.scored[:count])


def repetitions(decoder: Decoder, count: int, length: int = LENGTH, seed: int = 0) -> Inputs:
    """START and random tokens, a stretch of which comes twice; scored where the first copy tells what comes next."""
    drawn = draw_language(decoder.words, decoder.size, [NAMED["induction"]], count, length, seed)
    return Inputs("repetition", drawn.tokens, drawn.words, foretold(drawn.tokens))


def pieces(decoder: Decoder, count: int, length: int = LENGTH, seed: int = 0) -> Inputs:
    """START and pieces of the shipped text, none of which overlap; scored everywhere."""
    drawn = draw_language(decoder.words, decoder.size, [NAMED["previous"]], count, length, seed)
    scored = np.ones(drawn.tokens.shape, dtype=bool)
    scored[:, -1] = False
    return Inputs("text", drawn.tokens, drawn.words, scored)


def foretold(tokens: Ids) -> Bools:
    """[input, pos]: an earlier copy of this token, not the one just before, was followed by the token that comes."""
    out = np.zeros(tokens.shape, dtype=bool)
    for row, found in zip(tokens, out, strict=True):
        for at in range(1, len(row) - 1):
            found[at] = any(row[i] == row[at] and row[i + 1] == row[at + 1] for i in range(at - 1))
    return out


def told_first(tokens: Ids) -> Bools:
    """[input, pos]: positions whose next token is the first copy's, which nothing tells."""
    out = np.zeros(tokens.shape, dtype=bool)
    for row, found in zip(tokens, out, strict=True):
        for at in range(len(row) - 1):
            found[at] = row[at + 1] not in row[: at + 1] and row[at + 1] in row[at + 2 :]
    return out
