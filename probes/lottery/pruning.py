"""Pruners: boolean masks on random matrices such that what is kept computes a given function.

Wen et al. 2023, App. C.5 (thesis 2.2.5.5-2.2.5.6), a function a lemma; numbers are the paper's. Nothing here
changes a weight: a pruner is given tensors drawn from U(-1, 1) and returns masks of their shape.

Shapes are the models' own: rows are inputs, x [..., in] @ W [in, out], the transpose of the paper's. `rows` and
`columns` say which coordinates of a wide tensor the target's inputs and outputs are; all others are masked.

Each entry of a target matrix is reached on its own, as a subset of products of two random weights on the
paths from that input to that output (`probes.lottery.subset_sum`). A hidden unit serves one input: its first
weights are masked but one. Which one is chosen after the draw, so that the kept weight is large.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.errors import AnalysisError
from probes.lottery.subset_sum import Array, Mask, fit_entries

Index = NDArray[np.int64]
Signs = tuple[int, ...]
IDENTITY: Signs = (0,)  # no activation: one unit serves inputs of either sign
RELU: Signs = (1, -1)  # a unit sees positive inputs if its kept weight is positive, else negative ones
NONNEGATIVE: Signs = (1,)  # ReLU after a ReLU: inputs are never negative

REACH = 1 / 20  # of a weight, a candidate: both groups of n hold n REACH, with almost certainty
COARSE = 10  # extra units for each 1 beyond
LARGEST = 8.0  # of a weight: more would need over 70 extra units an input
SMALLEST = 1e-2  # of a map's largest weight, if not 0: errors of sums (4e-5 the largest at n = 20) stay below 1 %
LEAST_KEPT = 0.5  # Lemma 9: kept entries of a value matrix lie within (1/2, 1)


# -- Lemma 2: a linear map through two random layers ----------------------------------------------------


@dataclass(frozen=True)
class Pruning:
    """Masks on two tensors, and `gap` [sign, in, out]: what the kept products add up to, minus the target."""

    first: Mask
    second: Mask
    gap: Array

    @property
    def epsilon(self) -> float:
        """Lemma 2's: |pruned(x) - x W| <= epsilon |x| for every x. Inputs of either sign have a gap of their own."""
        return float(np.linalg.norm(self.gap.reshape(-1, self.gap.shape[-1]), 2)) if self.gap.size else 0.0


def extra_units(target: Array, candidates: int) -> Index:
    """Units for coarse sums that each input of `target` [in, out] needs beside its two groups: [in]."""
    largest = np.abs(target).max(axis=1, initial=0.0)
    beyond = np.maximum(0.0, largest - candidates * REACH)
    return np.where(largest > 0, np.ceil(COARSE * beyond), 0).astype(np.int64)


def units_needed(target: Array, candidates: int, signs: Signs) -> int:
    """Hidden units that `prune_linear` serves `target` [in, out] with; inputs that are not read need none."""
    read = np.abs(target).max(axis=1, initial=0.0) > 0
    return int(len(signs) * (2 * candidates * read + extra_units(target, candidates)).sum())


def prune_linear(
    target: Array,
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    *,
    candidates: int,
    signs: Signs = IDENTITY,
    rows: Index | None = None,
    columns: Index | None = None,
) -> Pruning:
    """Lemma 2: masks on `first` [d_in, h] and `second` [h, d_out] so that act(x first) second is nearly x `target`.

    `signs` says what stands between them. Raises `AnalysisError` when `h` units are too few.
    """
    inputs, outputs = target.shape
    rows = np.arange(inputs) if rows is None else rows
    columns = np.arange(outputs) if columns is None else columns
    kept, n = first[rows].astype(np.float64), candidates
    read = np.abs(target).max(axis=1, initial=0.0) > 0
    size = np.where(read, 2 * n, 0) + extra_units(target, n)
    units = _assign(kept, size, signs, n)
    masks = np.zeros(first.shape, dtype=bool), np.zeros(second.shape, dtype=bool)
    gap = np.zeros((len(signs), inputs, outputs))
    gap[:] = -target  # what stays masked adds up to 0
    served = [(s, j) for s in range(len(signs)) for j in np.flatnonzero(read).tolist()]
    if not served:
        return Pruning(*masks, gap)
    most = int(size.max())
    places = np.zeros((len(served), most), dtype=np.int64)
    real = np.zeros((len(served), most), dtype=bool)
    for i, (s, j) in enumerate(served):
        places[i, : size[j]], real[i, : size[j]] = units[s, j], True
    paths = np.stack([kept[j, places[i]] for i, (_, j) in enumerate(served)]) * real  # [served, most]
    products = paths[:, None] * second[:, columns][places].transpose(0, 2, 1)  # [served, out, most]
    wanted = np.stack([target[j] for _, j in served])
    flat = products.reshape(-1, most)
    fit = fit_entries(wanted.ravel(), flat[:, : 2 * n].reshape(-1, 2, n), flat[:, 2 * n :])
    chosen = fit.chosen.reshape(products.shape)
    for i, (s, j) in enumerate(served):
        masks[1][np.ix_(units[s, j], columns)] = chosen[i, :, : size[j]].T
        masks[0][rows[j], units[s, j]] = chosen[i, :, : size[j]].any(axis=0)  # a unit that nobody reads goes
        gap[s, j] = (products[i] * chosen[i]).sum(-1) - wanted[i]
    return Pruning(*masks, gap)


def _assign(kept: Array, size: Index, signs: Signs, n: int) -> dict[tuple[int, int], Index]:
    """Units of every (sign, input): unit after unit to the open place where its weight `kept` [in, h] is largest."""
    left = np.tile(size, (len(signs), 1))  # [sign, in]
    which = np.where(kept > 0, 0, len(signs) - 1) if len(signs) == 2 else np.zeros(kept.shape, dtype=np.int64)
    strength = np.where(kept > 0, kept, 0) if signs == NONNEGATIVE else np.abs(kept)
    given: dict[tuple[int, int], list[int]] = {(s, j): [] for s in range(len(signs)) for j in range(len(size))}
    every, missing = np.arange(len(size)), int(left.sum())
    for unit in range(kept.shape[1]):
        if missing == 0:
            break
        side = which[:, unit]
        score = strength[:, unit] * (left[side, every] > 0)
        j = int(score.argmax())
        if score[j] > 0:
            given[int(side[j]), j].append(unit)
            left[side[j], j] -= 1
            missing -= 1
    if missing:
        raise AnalysisError(
            f"lottery ticket: {kept.shape[1]} hidden units leave {missing} of {int(size.sum()) * len(signs)} places "
            "without a weight of the right sign: a wider network or another seed is needed"
        )
    found = {at: np.array(units, dtype=np.int64) for at, units in given.items()}
    return {at: _even(units, np.abs(kept[at[1], units]), n) for at, units in found.items()}


def _even(units: Index, strength: Array, n: int) -> Index:
    """The same units, group one then two then the extra ones: equally strong groups, the weakest for coarse sums."""
    order = units[np.argsort(-strength, kind="stable")]
    return np.concatenate([order[0 : 2 * n : 2], order[1 : 2 * n : 2], order[2 * n :]])


# -- Lemmas 6, 20, 4: MLPs and linear layers --------------------------------------------------------------


def balanced(v1: Array, v2: Array) -> tuple[Array, Array]:
    """The same ReLU(x v1) v2, each hidden unit rescaled so that its largest weights in and out are equal."""
    ingoing, outgoing = np.abs(v1).max(axis=0, initial=0.0), np.abs(v2).max(axis=1, initial=0.0)
    used = (ingoing > 0) & (outgoing > 0)  # what reads or writes nothing is nothing
    scale = np.sqrt(np.divide(outgoing, ingoing, out=np.zeros_like(ingoing), where=used))
    return v1 * scale, np.divide(v2, scale[:, None], out=np.zeros_like(v2), where=used[:, None])


def as_mlp(target: Array) -> tuple[Array, Array]:
    """Lemma 20: x `target` [in, out] as a 2-layer ReLU MLP, x W = ReLU(x [1, -1]) [W; -W].

    The paper's [1, -1] stands on the other side, with twice as many hidden units as outputs; on this side it
    is twice the inputs, of which Lemma 14's map has half as many.
    """
    one = np.eye(len(target))
    return np.concatenate([one, -one], axis=1), np.concatenate([target, -target])


def mlp_units(v1: Array, v2: Array, candidates: int) -> int:
    """Width of the random MLP that `prune_mlp` needs at least."""
    v1, v2 = balanced(v1, v2)
    return max(units_needed(v1, candidates, RELU), units_needed(v2, candidates, NONNEGATIVE), v1.shape[1])


def prune_mlp(
    v1: Array,
    v2: Array,
    layers: Sequence[NDArray[np.floating]],
    *,
    candidates: int,
    rows: Index | None = None,
    columns: Index | None = None,
) -> tuple[Pruning, Pruning]:
    """Lemma 6: masks on four random `layers` with ReLUs between them, which then nearly compute ReLU(x v1) v2.

    The first two make x v1 in the first hidden units of the second; its ReLU is the target's own.
    """
    v1, v2 = balanced(v1, v2)
    hidden = np.arange(v1.shape[1])
    reading = prune_linear(v1, layers[0], layers[1], candidates=candidates, signs=RELU, rows=rows, columns=hidden)
    writing = prune_linear(
        v2, layers[2], layers[3], candidates=candidates, signs=NONNEGATIVE, rows=hidden, columns=columns
    )
    return reading, writing


# -- Lemmas 7, 9: attention --------------------------------------------------------------------------------


def prune_scores(
    target: Array, w_k: NDArray[np.floating], w_q: NDArray[np.floating], *, candidates: int, rows: Index | None = None
) -> tuple[Mask, Mask, Pruning]:
    """Lemma 7: masks on `w_k`, `w_q` [d, h] so that (x_k w_k) . (x_q w_q) is nearly x_k `target` x_q, [key, query].

    A unit of the head serves one coordinate of the query: w_q, then w_k transposed, are Lemma 2's two layers.
    """
    found = prune_linear(target.T, w_q, w_k.T, candidates=candidates, rows=rows, columns=rows)
    return found.second.T, found.first, found


@dataclass(frozen=True)
class Diagonal:
    """Lemma 9: `kept` entries of a value matrix [d_in, d_out] at (inputs[i], outputs[i]); all else is masked."""

    mask: Mask
    inputs: Index
    outputs: Index
    kept: Array


def prune_value(w_v: NDArray[np.floating], size: int) -> Diagonal:
    """Lemma 9: one entry of at least 1/2 in each diagonal block of a `size` x `size` grid; the largest is taken.

    Outputs lie in the first half of the coordinates, inputs in the second, both ascending: no coordinate is
    both. The paper's "without loss of generality rows 1..m, columns m+1..2m" is a permutation of the stream,
    which the layer before (`Diagonal.inputs`) and the MLP after (`Diagonal.outputs`) have to know.
    """
    half = math.ceil(w_v.shape[0] / 2)
    side = half // size, (w_v.shape[0] - half) // size
    mask = np.zeros(w_v.shape, dtype=bool)
    inputs, outputs = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for i in range(size):
        first = half + i * side[1], i * side[0]
        block = w_v[first[0] : first[0] + side[1], first[1] : first[1] + side[0]]
        if block.size == 0 or block.max() < LEAST_KEPT:
            raise AnalysisError(
                f"lottery ticket: block {i} of a value matrix of width {w_v.shape[0]} has no entry of at least "
                f"{LEAST_KEPT}: a width of {16 * size} or more is needed"
            )
        at = np.unravel_index(int(block.argmax()), block.shape)
        inputs[i], outputs[i] = first[0] + at[0], first[1] + at[1]
    mask[inputs, outputs] = True
    return Diagonal(mask, inputs, outputs, w_v[inputs, outputs].astype(np.float64))


# -- the extended norm ----------------------------------------------------------------------------------------


def extended_norm(x: Tensor, c: float, b: float = 1.0) -> Tensor:
    """LN_C[b] of the paper's section 3.2: b P x / max(|P x|, C) + (1 - b) x over the last axis, P centring.

    b = 1 is eq. 7 (a model's norm='unit'), b = 0, the switch pruned, passes x through. The paper prints
    epsilon where C is meant. Its proof, and what is built here, keeps b = 1 everywhere: a layer that must
    not attend has its values masked, and the norm of 0 is 0.
    """
    centred = x - x.mean(-1, keepdim=True)
    return b * centred / torch.linalg.vector_norm(centred, dim=-1, keepdim=True).clamp(min=c) + (1 - b) * x
