"""Counter-based randomness.

Every random number of the project is a pure function of (seed, stream, step): resuming a run,
splitting it over workers or drawing seed 7 alone gives the same numbers.
"""

import zlib

import numpy as np

from interp.checks import whole_number
from interp.errors import GrammarError, RequestError, quoted
from interp.limits import check_memory

MAX_SEED = 2**32 - 1


def check_seed(seed: int) -> int:
    """Return `seed` as an int, or raise `RequestError` unless 0 <= seed < 2**32."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= MAX_SEED:
        raise RequestError(f"seed {quoted(seed)} is not a whole number from 0 to {MAX_SEED}")
    return int(seed)


def generator(seed: int, stream: str, step: int = 0) -> np.random.Generator:
    """A numpy generator keyed by (seed, stream, step).

    `stream` names what the numbers are for ("init", "data", "bootstrap", ...), so that two uses
    with one seed never share numbers. Philox is counter-based: nothing has to be advanced.
    """
    if not isinstance(stream, str):
        raise RequestError(f"stream={quoted(stream)} is not a name of what random numbers are for: give text")
    key = (check_seed(seed) << 32) | zlib.crc32(stream.encode())
    return np.random.Generator(np.random.Philox(key=np.array([key, step], dtype=np.uint64)))


def check_draw(rng: np.random.Generator, count: int, numbers: float) -> int:
    """`count` strings to draw as an int; `numbers`: how many numbers of 64 bits are held at once for each of them.

    What every grammar's `draw` calls first. Raises `GrammarError` for a generator or a count that is none, and for
    more than memory holds.
    """
    if not isinstance(rng, np.random.Generator):
        raise GrammarError(f"rng={quoted(rng)} is not a numpy generator: pass np.random.default_rng(seed)")
    count = whole_number("count", count, 0, error=GrammarError)
    check_memory(f"count={count} strings", 8.0 * count * numbers, "draw fewer", GrammarError)
    return count
