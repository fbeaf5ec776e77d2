"""Counter-based randomness.

Every random number of the project is a pure function of (seed, stream, step): resuming a run,
splitting it over workers or drawing seed 7 alone gives the same numbers.
"""

import zlib

import numpy as np

from interp.errors import RequestError, quoted

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
