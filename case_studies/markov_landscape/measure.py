"""What is measured on a trained arm, a number per seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from case_studies.markov_landscape.arms import Arm
from case_studies.study import Obtained
from interp import Population
from interp.functional import Params, stacked_logits
from interp.model import SandboxTransformer
from interp.stats import SHARE, Estimate, clopper_pearson, mean_over_seeds
from interp.training.evaluation import evaluate, plain_set
from interp.worlds.binary_chain import BinaryChain

Array = NDArray[np.float64]
HALF = 0.5  # of the way from the kernel's loss to the unigram's: above it a model counts as stuck
STRINGS = 1000  # held out, on which predictions and ablations are measured
LEVEL = 0.95
MATRICES = {
    "W_1": "blocks.0.mlp.W_in",
    "W_2": "blocks.0.mlp.W_out",
    "W_V": "blocks.0.attn.W_V",
    "positions": "pos_embed.W_pos",
}


@dataclass(frozen=True)
class Measured:
    """An arm and its population; arrays are [seed] unless said.

    - `steps` [evaluation], `way` [seed, evaluation]: loss above the law's, as a share of the unigram's above the law's
      on the same strings (0: the kernel, 1: the unigram).
    - `after` [seed, 2]: mean predicted probability of state 1 after 0 and after 1.
    - `gap`, `scale`: mean log-odds after 1 less those after 0; norm of e.
    - `path`: step -> (scale, gap), of the weights that were kept.
    - `energy`, `aligned`: matrix -> share of the squared singular values that is the first one's; |cosine| of its first
      singular vector in the stream with e. `first_energy`: of the same seeds before training.
    - `without_attention`: loss with what attention adds set to 0, less the loss (nats).
    """

    arm: Arm
    population: Population
    digest: str
    steps: NDArray[np.int64]
    way: Array
    after: Array
    gap: Array
    scale: Array
    path: dict[int, tuple[Array, Array]]
    energy: dict[str, Array]
    aligned: dict[str, Array]
    without_attention: Array
    first_energy: dict[str, Array] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the family."""
        return self.arm.family.name

    @cached_property
    def stuck(self) -> NDArray[np.bool_]:
        """Nearer to the unigram's loss than to the kernel's after the last step."""
        return np.asarray(self.way[:, -1] > HALF)

    def rank_one(self, matrix: str) -> Estimate:
        """Mean of `energy` over seeds; null: that before training, which random weights have."""
        first = self.first_energy.get(matrix)
        null = None if first is None else float(first.mean())
        return mean_over_seeds(self.energy[matrix], support=SHARE).with_null({"before training": null})

    def stuck_share(self, level: float = LEVEL) -> Estimate:
        """Share of seeds that are stuck."""
        return clopper_pearson(int(self.stuck.sum()), len(self.stuck), over="seeds", level=level)

    @property
    def escapes(self) -> list[int | None]:
        """The first step evaluated at which a seed is nearer to the kernel and stays so; None for one that is stuck."""
        found: list[int | None] = []
        for row in self.way:
            late = np.flatnonzero(row > HALF)
            first = 0 if len(late) == 0 else int(late[-1]) + 1
            found.append(int(self.steps[first]) if first < len(row) else None)
        return found

    @property
    def escape(self) -> Estimate:
        """Mean of these steps over the seeds that learned."""
        steps = [step for step in self.escapes if step is not None]
        return mean_over_seeds(steps, support=(0.0, np.inf))


def measure(arm: Arm, one: Obtained) -> Measured:
    """All of an arm's numbers."""
    population, grammar = one.population, one.population.grammar
    assert isinstance(grammar, BinaryChain)
    steps, way = _way(population)
    data = plain_set(grammar, STRINGS)
    template = SandboxTransformer(population.config, grammar)
    params = population.params
    ablated = {
        name: torch.zeros_like(p) if name.endswith(("attn.W_O", "attn.b_O")) else p for name, p in params.items()
    }
    cost = evaluate(template, ablated, data)["loss"] - evaluate(template, params, data)["loss"]
    tokens = np.repeat(data.inputs[:, : grammar.length], data.weight.astype(int), axis=0)[: STRINGS // 4]
    after, gap = predictions(template, params, tokens)
    path = {step: _projected(template, kept, tokens) for step, kept in population.snapshots.items()}
    energy, aligned = _ranks(params)
    first, _ = _ranks(population.snapshots[0]) if 0 in population.snapshots else ({}, {})
    return Measured(
        arm, population, one.digest, steps, way, after, gap, norm_of_e(params), path, energy, aligned, cost, first
    )  # fmt: skip


def predictions(template: SandboxTransformer, params: Params, tokens: NDArray[np.int64]) -> tuple[Array, Array]:
    """Mean probability of 1 after 0 and after 1 [seed, 2], and the gap between the mean log-odds [seed]."""
    with torch.no_grad():
        logits = stacked_logits(template, params, torch.from_numpy(tokens))[:, :, :-1]
    odds = (logits[..., 1] - logits[..., 0]).double().numpy()
    states = tokens[:, :-1]
    chance = 1 / (1 + np.exp(-odds))
    after = np.stack([chance[:, states == x].mean(1) for x in (0, 1)], axis=1)
    return after, np.asarray(odds[:, states == 1].mean(1) - odds[:, states == 0].mean(1))


def norm_of_e(params: Params) -> Array:
    """Norm of e = W_E[1] - W_E[0] of each seed."""
    return np.asarray((params["embed.W_E"][:, 1] - params["embed.W_E"][:, 0]).double().norm(dim=-1).numpy())


def canonical_w(scale: Array, gap: Array) -> Array:
    """The w of the canonical model with this e and this gap: gap = e^2 (1 + 2 w |w|); NaN where e is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = (gap / scale**2 - 1) / 2
    return np.asarray(np.sign(square) * np.sqrt(np.abs(square)))


def _projected(template: SandboxTransformer, params: Params, tokens: NDArray[np.int64]) -> tuple[Array, Array]:
    return norm_of_e(params), predictions(template, params, tokens)[1]


def _way(population: Population) -> tuple[NDArray[np.int64], Array]:
    rows: Sequence[dict[str, Any]] = population.history
    steps = sorted({row["step"] for row in rows})
    at = {(row["seed"], row["step"]): row for row in rows}
    way = [
        [
            row["excess"] / (row["rung/unigram"] - row["rung/law"]) if row["excess"] is not None else np.nan
            for row in (at[seed, step] for step in steps)
        ]
        for seed in population.seeds
    ]
    return np.array(steps), np.array(way)


def _ranks(params: Params) -> tuple[dict[str, Array], dict[str, Array]]:
    e = (params["embed.W_E"][:, 1] - params["embed.W_E"][:, 0]).double()
    e = e / e.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    energy, aligned = {}, {}
    for name, key in MATRICES.items():
        matrix = params[key].double()
        matrix = matrix[:, 0] if matrix.ndim == 4 else matrix  # the only head
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        share = values[:, 0] ** 2 / (values**2).sum(-1).clamp(min=1e-30)
        inner = left[..., 0] if name in ("W_1", "W_V") else right[:, 0]  # the side that lies in the stream
        energy[name] = np.asarray(share.numpy())
        aligned[name] = np.asarray((inner * e).sum(-1).abs().numpy())
    return energy, aligned
