"""What `transformer_lens.head_detector` makes of the bench: a score a claim, and the threshold that suits it best."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.guests import undisturbed
from probes.audit.bench.cases import Case
from probes.audit.bench.worlds import seen_by

SEQUENCES = 16  # inputs over which its score is averaged


def detector_score(case: Case) -> float | None:
    """Share of a head's attention on the claimed pairs, by `detect_head` itself; the least over the claim's heads.

    Of "some head" the largest over all heads.

    None where it cannot be asked: it takes no pattern that looks ahead, and no padding.
    """
    from transformer_lens.head_detector import detect_head

    if case.world.direction != "causal":
        return None
    tokens = case.inputs[:SEQUENCES]
    keys = case.claim.relation.keys(tokens, case.world.grammar, seen_by(tokens, case.world.grammar, "causal"))
    if case.claim.when is not None:
        keys = keys & case.claim.when.rows(tokens, case.world.grammar, keys)[..., None]
    cfg = case.model.cfg
    every = [(layer, head) for layer in range(cfg.n_layers) for head in range(cfg.n_heads)]
    heads = list(case.claim.heads) or every
    scores = []
    with undisturbed(case.model), torch.no_grad():
        for row, wanted in zip(torch.from_numpy(tokens), torch.from_numpy(keys).float(), strict=True):
            found: Any = detect_head(case.model, row, wanted, heads=heads)
            scores.append([float(found[layer, head]) for layer, head in heads])
    mean = np.mean(scores, axis=0)
    return float(mean.min() if case.claim.heads else mean.max())


def best_threshold(scores: NDArray[np.float64], there: NDArray[np.bool_]) -> float:
    """The threshold with most scores on the right side: at or above it means that the pattern is there."""
    cuts = np.concatenate([[-np.inf], np.unique(scores), [np.inf]])
    right = [int(((scores >= cut) == there).sum()) for cut in cuts]
    best = int(np.argmax(right))
    if not np.isfinite(cuts[best]):
        return float(cuts[best])
    below = scores[scores < cuts[best]]
    return float((cuts[best] + below.max()) / 2) if len(below) else float(cuts[best])
