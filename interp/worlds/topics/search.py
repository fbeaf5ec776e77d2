"""The least value of a function of an attention ratio, found without slopes. Imports no torch."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SEARCH = (-8.0, 14.0)  # log10 of the attention ratios among which an optimum is looked for


def least_value(loss: Callable[[Array], Array], rows: int, points: int = 81) -> tuple[Array, Array]:
    """Least value over x >= 0 of `rows` functions at once, `loss` [rows, points] -> the same: (x, value), [rows] each.

    No slope is used: on the flats of these losses one says nothing. The grid keeps three cells on each side of the
    best, so that a neighbour that rounding puts first does no harm.
    """
    low, high = np.full((rows, 1), SEARCH[0]), np.full((rows, 1), SEARCH[1])
    place = np.arange(rows)
    while True:
        axis = low + (high - low) * np.linspace(0, 1, points)
        values = loss(10**axis)
        at = values.argmin(1)
        best, value = 10 ** axis[place, at], values[place, at]
        if (high - low).max() < 1e-8:
            break
        low, high = (axis[place, np.clip(at + step, 0, points - 1)][:, None] for step in (-3, 3))
    at_zero = loss(np.zeros((rows, 1)))[:, 0]
    return np.where(at_zero <= value, 0.0, best), np.minimum(at_zero, value)
