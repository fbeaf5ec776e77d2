"""Attention patterns as arrays: taken from numpy or torch, and checked before anyone uses them."""

from typing import Any

import numpy as np

from interp.errors import PatternError
from interp.numeric_arrays import real_array

# Softmax in float32 sums to 1 within 1e-6; what was rounded on the way within a few 1e-3.
ROW_TOLERANCE = 5e-3


def as_array(values: Any) -> np.ndarray:
    """numpy float64 from a numpy array, a torch tensor or nested lists of real numbers of 32 bits or more."""
    return real_array(values, "patterns", PatternError)


def check_patterns(values: Any, name: str = "patterns") -> np.ndarray:
    """Return `values` [..., query, key] as float64, or raise `PatternError` naming the first bad place.

    A pattern is square and finite, has no negative weight, and each of its rows sums to 1.
    """
    p = as_array(values)
    if p.ndim < 2 or p.shape[-1] != p.shape[-2] or 0 in p.shape:
        raise PatternError(f"{name} of shape {list(p.shape)} are not square: [..., query, key] is needed")
    if not np.isfinite(p).all():
        at = _first(~np.isfinite(p))
        raise PatternError(f"{name}{list(at)} is {p[at]}: a weight must be a finite number")
    if p.min() < -ROW_TOLERANCE:
        at = _first(p < -ROW_TOLERANCE)
        raise PatternError(f"{name}{list(at)} is {p[at]:.4g}: a weight must not be negative")
    sums = p.sum(axis=-1)
    if (np.abs(sums - 1) > ROW_TOLERANCE).any():
        at = _first(np.abs(sums - 1) > ROW_TOLERANCE)
        hint = " (its columns sum to 1: is it transposed?)" if _columns_sum_to_one(p) else ""
        raise PatternError(f"row {list(at)} of {name} sums to {sums[at]:.4g}, not to 1{hint}")
    return p


def is_causal(patterns: np.ndarray) -> bool:
    """True if no query attends to a later key, for patterns [..., query, key]."""
    # Row by row: the upper triangle at once would be a copy of half of them.
    return not any(patterns[..., row, row + 1 :].any() for row in range(patterns.shape[-1]))


def even_pattern(n: int, causal: bool) -> np.ndarray:
    """[query, key]: every query attends evenly to the keys it can see."""
    visible = np.tri(n) if causal else np.ones((n, n))
    return np.asarray(visible / visible.sum(axis=-1, keepdims=True))


def permute_keys(pattern: np.ndarray, causal: bool, rng: np.random.Generator) -> np.ndarray:
    """Each row's visible keys in a random order, independently for every row of [..., query, key].

    The sharpness-matched null: rows keep their weights, and forget which keys they were for.
    """
    if not causal:
        return rng.permuted(pattern, axis=-1)
    out = np.zeros_like(pattern)
    for row in range(pattern.shape[-1]):
        out[..., row, : row + 1] = rng.permuted(pattern[..., row, : row + 1], axis=-1)
    return out


def _first(bad: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(bad)[0])


def _columns_sum_to_one(p: np.ndarray) -> bool:
    return bool((np.abs(p.sum(axis=-2) - 1) < ROW_TOLERANCE).all())
