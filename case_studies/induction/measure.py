"""What `induction` measures on each model: how well it predicts, what its heads attend to, and what they are for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interp.model import SandboxTransformer
from interp.patterns import attention_patterns
from interp.population import Population
from interp.rng import generator
from interp.training.layout import IGNORE
from interp.worlds.markov import MarkovGrammar
from interp.worlds.markov.base import InContext
from interp.worlds.markov.counts import stationary
from interp.worlds.recall import RecallGrammar

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
STRINGS = 128  # on which patterns and edits are measured
EARLY = 4  # of so many parts of a string the first is left out where heads are scored: few keys are there


@dataclass(frozen=True)
class Strings:
    """Held-out strings, what is asked of them, and where the answer is found.

    - `tokens`, `labels` [string, pos].  `keys` [string, query, key]: the keys that hold the answer.
    - `rows` [string, pos]: queries on which heads are scored: labelled, late, with such a key, none of them the query.
    """

    grammar: Any
    tokens: Ints
    labels: Ints
    keys: Bools
    rows: Bools


def strings_of(grammar: Any, count: int = STRINGS, stream: str = "induction") -> Strings:
    """Strings of a grammar of recall or of chains, from a stream that no training draws."""
    tokens = grammar.draw(generator(0, stream), count)
    n = tokens.shape[1]
    keys = matching_keys(grammar, tokens)
    labels = grammar.labels(tokens)
    late = np.arange(n) >= n // EARLY
    rows = (labels != IGNORE) & late & keys.any(-1) & ~np.einsum("bqq->bq", keys)
    return Strings(grammar, tokens, labels, keys, rows)


def matching_keys(grammar: Any, tokens: Ints) -> Bools:
    """The keys [string, query, key] of the second hop: what followed the last copy (recall), or any (counting)."""
    if isinstance(grammar, RecallGrammar):
        at = grammar.recalled(tokens)
        return np.asarray(at[..., None] == np.arange(tokens.shape[1]))
    counting: InContext = grammar
    return counting.matches(tokens)


# -- patterns -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heads:
    """Scores of one model. `previous`, `matching` [layer, head]: mean weight on the previous token, and on the keys
    that hold the answer, over the scored rows; `chance`: what an even head has there."""

    previous: Array
    matching: Array
    chance: float

    @property
    def first(self) -> float:
        """The best previous-token head of the first layer."""
        return float(self.previous[0].max())

    @property
    def second(self) -> float:
        """The best matching head of the last layer."""
        return float(self.matching[-1].max())


def head_scores(model: SandboxTransformer, strings: Strings) -> Heads:
    """Of every head of a model."""
    patterns = attention_patterns(model, torch.from_numpy(strings.tokens))
    rows, n = strings.rows, strings.tokens.shape[1]
    before = np.broadcast_to(np.eye(n, k=-1, dtype=bool), strings.keys.shape)
    even = np.tri(n) / np.arange(1, n + 1)[:, None]

    def mass(pattern: Array, keys: Bools) -> Array:
        return np.asarray([np.where(keys, one, 0.0).sum(-1)[rows].mean() for one in np.moveaxis(pattern, 1, 0)])

    return Heads(
        np.stack([mass(layer, before) for layer in patterns]),
        np.stack([mass(layer, strings.keys) for layer in patterns]),
        float(np.where(strings.keys, even, 0.0).sum(-1)[rows].mean()),
    )


def matching_without_first(model: SandboxTransformer, strings: Strings) -> float:
    """The best matching score of the last layer while every head of layer 0 gives its mean output.

    What is left of the score is the last layer's own: nothing that layer 0 carries can be in it.
    """
    tokens, name = torch.from_numpy(strings.tokens), "blocks.0.attn.hook_z"
    kept: list[Tensor] = []

    def keep(pattern: Tensor, hook: Any) -> Tensor:
        kept.append(pattern.clone())
        return pattern

    with torch.no_grad():
        _, cache = model.run_with_cache(tokens, names_filter=[name])
        mean = cache[name].mean((0, 1))
        final = f"blocks.{model.config.n_layers - 1}.attn.hook_pattern"
        model.run_with_hooks(tokens, fwd_hooks=[(name, lambda z, hook: mean.expand_as(z)), (final, keep)])
    weights = np.where(strings.keys[:, None], kept[0].numpy(), 0.0).sum(-1)  # [string, head, query]
    return float(max(weights[:, head][strings.rows].mean() for head in range(weights.shape[1])))


# -- what it predicts ---------------------------------------------------------------------------------------


def loss_of(logits: Tensor, labels: Ints) -> float:
    """Mean nats at the labels."""
    wanted = torch.from_numpy(labels)
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE))


def accuracy_of(logits: Tensor, labels: Ints) -> float:
    """Share of labels that are the likeliest output."""
    asked = labels != IGNORE
    return float((logits.argmax(-1).numpy() == labels)[asked].mean())


def divergences(logits: Tensor, rungs: Mapping[str, Array], labels: Ints) -> dict[str, float]:
    """KL(rung, model) in nats, by rung, the mean over what is asked; `rungs` are predictions [string, pos, state]."""
    asked = labels != IGNORE
    model = torch.log_softmax(logits.double(), -1).numpy()[asked]
    return {name: float((told[asked] * (np.log(told[asked]) - model)).sum(-1).mean()) for name, told in rungs.items()}


def nearest(divergence: Mapping[str, float]) -> str:
    """The rung that a model is nearest to: its phase."""
    return min(divergence, key=lambda name: divergence[name])


def gradient_norm(model: SandboxTransformer, strings: Strings) -> float:
    """Norm of the gradient of the mean loss in all weights."""
    with torch.enable_grad():
        logits = model(torch.from_numpy(strings.tokens))
        wanted = torch.from_numpy(strings.labels)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE)
        parts = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return float(torch.stack([part.square().sum() for part in parts if part is not None]).sum().sqrt())


def beyond_the_prior(model: SandboxTransformer, grammar: MarkovGrammar, beta: float) -> tuple[float, float]:
    """(loss of the model, loss of the count of the trained prior) on kernels of Dirichlet(`beta`).

    The count keeps the beta that the model was trained with: what there is to be learned from the prior."""
    other = strings_of(replace(grammar, beta=beta), stream="induction/beyond")
    with torch.no_grad():
        loss = loss_of(model(torch.from_numpy(other.tokens)), other.labels)
    nats = grammar.posterior(other.tokens)[other.labels != IGNORE]
    return loss, float(nats.mean())


# -- what the heads are for ---------------------------------------------------------------------------------

PATHS = ("k", "q", "v")  # by which a layer reads what the one before wrote


@dataclass(frozen=True)
class Edits:
    """Losses (nats) of one model, intact and edited.

    - `intact`.  `first`, `last`: all heads of the first (last) layer give their mean output over strings and positions.
    - `paths`: by "k", "q" and "v", the last layer's keys, queries or values computed without what the first wrote.
    """

    intact: float
    first: float
    last: float
    paths: Mapping[str, float]


def edit_losses(model: SandboxTransformer, strings: Strings) -> Edits:
    """Of a model of two layers or more; of one layer `last` is `first`, and there are no paths."""
    tokens, final = torch.from_numpy(strings.tokens), model.config.n_layers - 1
    names = [f"blocks.{layer}.attn.hook_z" for layer in {0, final}]
    with torch.no_grad():
        intact, cache = model.run_with_cache(tokens, names_filter=names)

        def constant(layer: int) -> tuple[str, Callable[..., Tensor]]:
            name = f"blocks.{layer}.attn.hook_z"
            mean = cache[name].mean((0, 1))
            return name, lambda z, hook: mean.expand_as(z)

        def loss(hooks: Sequence[tuple[str, Callable[..., Tensor]]]) -> float:
            return loss_of(model.run_with_hooks(tokens, fwd_hooks=list(hooks)), strings.labels)

        paths = {}
        if final:
            read = [f"blocks.{final}.attn.hook_{path}" for path in PATHS]
            kept: dict[str, Tensor] = {}

            def keep(value: Tensor, hook: Any) -> Tensor:
                kept[hook.name] = value.clone()
                return value

            loss([constant(0), *((name, keep) for name in read)])
            for path, name in zip(PATHS, read, strict=True):
                paths[path] = loss([(name, _giving(kept[name]))])
        return Edits(loss_of(intact, strings.labels), loss([constant(0)]), loss([constant(final)]), paths)


def _giving(value: Tensor) -> Callable[..., Tensor]:
    return lambda now, hook: value


def composition(model: SandboxTransformer) -> dict[str, float]:
    """How much of what a first-layer head writes the last layer's keys, queries and values read, by path.

    The largest over pairs of heads of |OV M| / (|OV| |M|), Frobenius norms (Elhage et al. 2021): M is W_K W_Q^T for
    keys, W_Q W_K^T for queries and W_V W_O for values. Norms before the layer are left out.
    """
    first, last = model.blocks[0].attn, model.blocks[-1].attn
    weights: Any = {name: [getattr(at, name).detach().double() for at in (first, last)] for name in WEIGHTS}
    written = weights["W_V"][0] @ weights["W_O"][0]  # [head, d_model, d_model]
    q, k, v, o = (weights[name][1] for name in WEIGHTS)
    read = {"k": k @ q.transpose(-1, -2), "q": q @ k.transpose(-1, -2), "v": v @ o}
    found = {}
    for path, matrix in read.items():
        norms = written.norm(dim=(-2, -1))[:, None] * matrix.norm(dim=(-2, -1))
        together = (written[:, None] @ matrix).norm(dim=(-2, -1))
        found[path] = float((together / norms).max())
    return found


WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


# -- over training ------------------------------------------------------------------------------------------


def crossing(steps: Sequence[int], values: Sequence[float], level: float) -> float | None:
    """The step at which values first cross a level, between two measurements in proportion; None if they never do.

    Rising or falling, as the first value says; a first value on the level crosses at its step.
    """
    sign = 1.0 if values[0] <= level else -1.0
    gaps = [sign * (value - level) for value in values]
    for at, gap in enumerate(gaps):
        if gap >= 0:
            if at == 0:
                return float(steps[0])
            share = -gaps[at - 1] / (gap - gaps[at - 1])
            return float(steps[at - 1] + share * (steps[at] - steps[at - 1]))
    return None


def onset(steps: Sequence[int], scores: Sequence[float]) -> float | None:
    """The step at which a score is first half way from its first to its last value; None if it does not rise."""
    if not scores[-1] > scores[0]:
        return None
    return crossing(steps, scores, (scores[0] + scores[-1]) / 2)


def over_snapshots(population: Population, read: Callable[[SandboxTransformer], Any]) -> dict[int, list[Any]]:
    """What `read` gives of every model at every snapshot, by step."""
    return {step: [read(model) for model in population.at_step(step)] for step in sorted(population.snapshots)}


# -- information --------------------------------------------------------------------------------------------


def chi_square(kernel: Array, lags: Sequence[int]) -> Array:
    """chi^2 information [kernel, lag] between tokens of stationary chains `kernel` [kernel, state, state].

    I = sum P(s, s')^2 / (P(s) P(s')) - 1 of the tokens s' now and s `lag` before (slides of seed 003, L2691, with the
    sign and the square of its definition); 0 where they are independent.
    """
    law = stationary(kernel)
    out = []
    for lag in lags:
        joint = law[:, :, None] * np.linalg.matrix_power(kernel, lag)
        out.append((joint**2 / (law[:, :, None] * law[:, None, :])).sum((1, 2)) - 1)
    return np.stack(out, axis=1)
