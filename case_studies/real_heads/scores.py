"""How much weight a head puts where it should, input by input, in a few lines: nothing of the auditor is used."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from case_studies.real_heads.decoder import Ids, Patterns
from case_studies.real_heads.inputs import Bools

Score = NDArray[np.float64]


def targets(tokens: Ids) -> Mapping[str, Bools]:
    """Keys [input, query, key] of the two relations of the circuit that repeats."""
    count, length = tokens.shape
    previous = np.broadcast_to(np.eye(length, k=-1, dtype=bool), (count, length, length))
    same = tokens[:, :, None] == tokens[:, None, :]
    after = np.zeros_like(same)
    after[:, :, 1:] = same[:, :, :-1]  # the key before this one is a copy of the query
    earlier = np.tri(length, k=-1, dtype=bool)
    return {"previous": previous, "induction": after & earlier}


def claim_scores(patterns: Patterns, keys: Bools) -> Score:
    """[layer, head, input]: mean of (m - c) / (1 - c) over the queries with a target, c the share of keys that are one.

    `patterns` [input, layer, head, query, key]. NaN where an input has no such query.
    """
    length = keys.shape[-1]
    visible = np.tri(length, dtype=bool)
    chance = (keys & visible).sum(-1) / visible.sum(-1)
    rows = (chance > 0) & (chance < 1)
    mass = np.einsum("blhqk,bqk->blhq", patterns, keys.astype(patterns.dtype))
    scores = (mass - chance[:, None, None]) / np.where(rows, 1 - chance, 1.0)[:, None, None]
    scores = (
        np.where(rows[:, None, None], scores, 0.0).sum(-1) / np.where(rows.any(1), rows.sum(1), np.nan)[:, None, None]
    )
    return np.asarray(np.moveaxis(scores, 0, -1), dtype=np.float64)
