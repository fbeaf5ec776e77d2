"""The trained bench's null: what a head's mean weights and one ablation say of a claim, by fixed bounds.

As one would do it in twenty lines: no rivals, no interchange, no intervals, one bound a word, and never `undecided`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from probes.audit.bench.trained.cases import Examples, Head, Ints
from probes.audit.bench.trained.truth import keys_and_rows
from probes.audit.verdicts import row_of
from probes.claims import Claim

SCORE = 0.25  # a pattern is there: mean weight beyond chance, the audit's own least
TOP = 0.5  # or: share of rows whose largest weight lies on a claimed key
LOWERS = 0.10  # a head is used: share of the margin that its mean in its place takes
By = Literal["score", "top"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Means:
    """Of one claim: `score`, mean of (m - c) / (1 - c); `top`, share of rows with the largest weight on a claimed key;
    `lowers`, share of the margin that is lost with the head's mean in its place. 0 where there are no rows."""

    score: float
    top: float
    lowers: float

    def words(self, by: By, asks: bool) -> tuple[str, str, str]:
        """Pattern, use, and the verdict as the audit words it; `asks`: whether the claim says that the head is used.

        Of a head that does not look there nobody asks what it is used for.
        """
        there = self.score >= SCORE if by == "score" else self.top >= TOP
        use = "not asked" if not there else "used" if self.lowers >= LOWERS else "unused"
        pattern = "holds" if there else "fails"
        row = row_of(pattern, use)
        return pattern, use, row.use if asks else row.attention


def means_of(model: Any, claims: Sequence[Claim], examples: Examples, grammar: Any) -> list[Means]:
    """What the rule needs of each claim, all about one model; a claim of several heads has their least pattern."""
    tokens = torch.from_numpy(examples.tokens)
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    intact, found, ablated = logits.double().numpy(), [], dict[tuple[Head, ...], Floats]()
    for claim in claims:
        keys, rows = keys_and_rows(claim, examples.tokens, grammar)
        looks = [
            looks_of(cache[f"blocks.{layer}.attn.hook_pattern"][:, head].double().numpy(), keys, rows)
            for layer, head in claim.heads
        ]
        heads = tuple(claim.heads)
        if heads not in ablated:
            ablated[heads] = _ablated(model, tokens, cache, heads)
        lowers = lowered(intact, ablated[heads], examples.labels, applies(keys, rows))
        found.append(Means(min(score for score, _ in looks), min(top for _, top in looks), lowers))
    return found


def applies(keys: Bools, rows: Bools) -> Bools:
    """Rows [input, query] that a claim is about: some key that is visible is claimed, and not every one."""
    size = keys.sum(-1)
    return np.asarray(rows & (size > 0) & (size < np.arange(keys.shape[1]) + 1))


def looks_of(weights: Floats, keys: Bools, rows: Bools) -> tuple[float, float]:
    """Mean score, and share of rows with the largest weight on a claimed key, of causal weights [input, query, key]."""
    asked = applies(keys, rows)
    if not asked.any():
        return 0.0, 0.0
    chance = (keys.sum(-1) / (np.arange(keys.shape[1]) + 1))[asked]
    mass = (weights * keys).sum(-1)[asked]
    top = np.take_along_axis(keys, weights.argmax(-1)[..., None], axis=-1)[..., 0][asked]
    return float(((mass - chance) / (1 - chance)).mean()), float(top.mean())


def lowered(intact: Floats, ablated: Floats, labels: Ints, rows: Bools) -> float:
    """Share of the margin logit(label) - largest other logit, a mean over labelled rows, that an ablation takes."""
    asked = rows & (labels >= 0)
    whole = _margin(intact[asked], labels[asked])
    return 1 - _margin(ablated[asked], labels[asked]) / whole if whole > 0 else 0.0


def _margin(logits: Floats, labels: Ints) -> float:
    if not len(labels):
        return 0.0
    each = np.arange(len(labels))
    others = logits.copy()
    others[each, labels] = -np.inf
    return float((logits[each, labels] - others.max(-1)).mean())


def _ablated(model: Any, tokens: Any, cache: Any, heads: Sequence[Head]) -> Floats:
    """Logits with the z of `heads` at its mean over the inputs, at each position."""

    def mean(z: Any, hook: Any) -> Any:
        z, means = z.clone(), cache[hook.name].mean(0)
        for layer, head in heads:
            if hook.name == f"blocks.{layer}.attn.hook_z":
                z[:, :, head] = means[:, head]
        return z

    points = {f"blocks.{layer}.attn.hook_z" for layer, _ in heads}
    with torch.no_grad():
        out = model.run_with_hooks(tokens, fwd_hooks=[(name, mean) for name in sorted(points)])
    return np.asarray(out.double().numpy())
