"""How close computed numbers must be: within a number of roundings of the largest magnitude that entered them.

A number computed in floating point is known to eps(dtype) times the magnitudes that were added up to it, however
small it comes out itself. A bound in plain units ("to 1e-6") is therefore right for one scale of weights and one
machine only: another processor adds in another order.
"""

from typing import Any

import numpy as np
import torch


def _array(x: Any) -> np.ndarray:
    return np.asarray(x.detach().cpu().double() if isinstance(x, torch.Tensor) else x, dtype=np.float64)


def _epsilon(x: Any) -> float:
    if isinstance(x, torch.Tensor):
        return torch.finfo(x.dtype).eps if x.is_floating_point() else 0.0
    dtype = np.asarray(x).dtype
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def rounding(*numbers: Any, dtype: torch.dtype | None = None) -> float:
    """The relative rounding error of `dtype`, by default of the coarsest type among `numbers`; integers have none."""
    return torch.finfo(dtype).eps if dtype else max(_epsilon(x) for x in numbers)


def magnitude(x: Any) -> float:
    """The largest finite absolute value in `x`."""
    values = np.abs(_array(x))
    return float(values[np.isfinite(values)].max(initial=0))


def assert_close(
    actual: Any, expected: Any, *, ulps: float = 32, scale: Any = None, dtype: torch.dtype | None = None
) -> None:
    """Every |actual - expected| is at most `ulps` * eps * scale; where one is NaN or infinite, the other is the same.

    actual, expected: tensors, arrays or (lists of) numbers of one shape; `expected` may be a single number.
    ulps: how many roundings may add up. The default is for a few sums of up to some hundred terms, whose errors add
        up like the square root of their number. A longer computation says more, and why.
    scale: the largest magnitude that entered the computation, a number or the numbers themselves; by default that of
        `expected`. To be given where something larger cancelled, and where `expected` is 0.
    dtype: what was computed in, where neither argument shows it (a mean, in float64, of float32 attention); by
        default the coarser of the two. Python numbers count as float64.
    """
    eps = rounding(actual, expected, dtype=dtype)
    a, b = _array(actual), _array(expected)
    assert a.shape == b.shape or not b.ndim, f"shapes differ: {a.shape} and {b.shape}"
    size = magnitude(expected if scale is None else scale)
    if not size:
        raise ValueError("a scale of 0: say by scale= which magnitude entered the computation")
    b = np.broadcast_to(b, a.shape)
    finite = np.isfinite(a) & np.isfinite(b)
    strange = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    assert not strange.any(), f"not finite alike at {_where(strange)}: {a[strange][0]} and {b[strange][0]}"
    gap = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0)
    bound = ulps * eps * size
    if (gap > bound).any():
        worst = gap == gap.max()
        raise AssertionError(
            f"differs by {gap.max():.3g} at {_where(worst)} ({a[worst][0]:.9g} and {b[worst][0]:.9g}), "
            f"{gap.max() / bound:.3g} times the bound {bound:.3g} = {ulps:g} ulps * {eps:.3g} * scale {size:.3g}"
        )


def _where(chosen: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(chosen)[0])
