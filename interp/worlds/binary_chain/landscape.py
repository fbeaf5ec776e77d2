"""The loss landscape of models of a binary chain by exact expectation: gradient, Hessian, and what kind of point it is.

Two ways that share nothing. `landscape` lists all strings and differentiates the expected loss by every parameter:
for short strings. `unigram_hessian` is the closed form at the unigram point, for strings of any length.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacrev

from interp.checks import instance_of, whole_number
from interp.errors import RequestError, quoted
from interp.guests import check_fits
from interp.limits import check_memory
from interp.model import SandboxTransformer
from interp.worlds.binary_chain.grammar import BinaryChain

Array = NDArray[np.float64]
Kind = Literal["local minimum", "saddle", "flat"]
ZERO = 1e-9  # of the largest eigenvalue: below, one counts as 0


@dataclass(frozen=True)
class Landscape:
    """What is known of a point: `loss` (nats), the largest entry of its `gradient`, and the Hessian's `eigenvalues`.

    `eigenvalues` [n] rise. `free`: how many directions of weights leave the loss as it is all the way.
    """

    loss: float
    gradient: float
    eigenvalues: Array
    free: int = 0

    @property
    def signs(self) -> tuple[int, int, int]:
        """How many eigenvalues are below, at and above 0."""
        bound = ZERO * float(np.abs(self.eigenvalues).max(initial=0))
        below, above = int((self.eigenvalues < -bound).sum()), int((self.eigenvalues > bound).sum())
        return below, len(self.eigenvalues) - below - above, above

    @property
    def kind(self) -> Kind:
        """A `saddle` where the loss curves down; a `local minimum` where it curves up in all but the `free` directions.

        Along those lie other points of the same loss, so that none nearby is lower. Else `flat`: the second order does
        not tell.
        """
        below, level, _ = self.signs
        return "saddle" if below else "local minimum" if level == self.free else "flat"


def expected_loss(model: SandboxTransformer, grammar: BinaryChain) -> float:
    """Expected cross entropy (nats a prediction) over all strings. Raises `GrammarError` where these are too many."""
    _check(model, grammar)
    with torch.no_grad():
        return float(_loss_of(model, grammar)(_flat(model)))


def landscape(model: SandboxTransformer, grammar: BinaryChain, free: int = 0) -> Landscape:
    """Loss, gradient and Hessian of the expected loss by all parameters, in the model's precision, by enumeration."""
    _check(model, grammar)
    free = whole_number("free", free, 0)
    loss, at = _loss_of(model, grammar), _flat(model)
    check_memory(
        f"a Hessian of {len(at):,} parameters", 64.0 * len(at) ** 2, "take a narrower model or shorter strings"
    )
    second = hessian(loss)(at)
    first = grad(loss)(at)
    values = np.linalg.eigvalsh(second.detach().double().numpy())
    return Landscape(float(loss(at)), float(first.abs().max()), values, free)


def free_directions(model: SandboxTransformer) -> int:
    """At the unigram point: parameters less the e, a and b (one vector where tied, two else, and a number) that matter.

    e = 0 and a = 0 together keep every prediction where it is, whatever the other weights are.
    """
    return len(_flat(instance_of("model", model, SandboxTransformer))) - len(_names(model))


def unigram_hessian(model: SandboxTransformer, grammar: BinaryChain) -> Array:
    """Hessian [n, n] of the expected loss at the unigram point by (a, e, b), n = 2 d + 1, or by (e, b) where tied.

    There all tokens look alike, so that what the unembedding reads, z_n, and its derivatives G[n, i] by what comes in
    at position i are the same for all strings. Since E[(pi_1 - x_{n+1}) x_i] = -pi_0 pi_1 lambda^(n+1-i), with lambda =
    1 - p - q, and with N = length - 1 predictions,

        by a, a:  pi_0 pi_1 / N sum_n z_n z_n^T          by b: the same with 1 in the place of z_n
        by a, e:  -pi_0 pi_1 / N sum_n sum_{i <= n} lambda^(n+1-i) G[n, i]        by e, e: 0

    and tied, where a = e, the sum of all four blocks. All other second derivatives are 0. By W_E, W_U and b_U, of which
    these are differences of two rows, eigenvalues are twice as large.

    Raises `RequestError` for a model that is not at the unigram point.
    """
    _check(model, grammar)
    _check_unigram(model, grammar)
    z, slopes = _read(model, grammar.length - 1)
    steps, d = z.shape
    pi = grammar.stationary[0] * grammar.stationary[1]
    lag = np.arange(steps)[:, None] - np.arange(steps) + 1
    weight = np.where(lag > 0, float(grammar.eigenvalue) ** np.maximum(lag, 1), 0.0)
    cross = -pi / steps * np.einsum("ni,nkij->kj", weight, slopes)
    one = np.concatenate([z, np.ones((steps, 1))], axis=1)
    seen = pi / steps * one.T @ one
    if model.config.unembed == "tied":
        seen[:d, :d] += cross + cross.T
        return np.asarray(seen)
    out = np.zeros((2 * d + 1, 2 * d + 1))
    kept = [*range(d), 2 * d]
    out[np.ix_(kept, kept)] = seen
    out[:d, d : 2 * d], out[d : 2 * d, :d] = cross, cross.T
    return out


def unigram_point(model: SandboxTransformer, grammar: BinaryChain) -> Landscape:
    """The unigram point by the closed form: loss H(pi), gradient 0, eigenvalues by (a, e, b) or (e, b)."""
    values = np.asarray(np.linalg.eigvalsh(unigram_hessian(model, grammar)), np.float64)
    return Landscape(grammar.unigram_loss, 0.0, values)


def _check(model: SandboxTransformer, grammar: BinaryChain) -> None:
    """Raise `RequestError` unless a model reads a chain's states and predicts them."""
    instance_of("model", model, SandboxTransformer)
    check_fits(instance_of("grammar", grammar, BinaryChain), model, "landscape")
    if model.config.d_out != grammar.vocab_size:
        raise RequestError(
            f"landscape: the model has {model.config.d_out} outputs, and {quoted(grammar)} {grammar.vocab_size} states "
            "to predict: pass a model with an output for each"
        )


def _names(model: SandboxTransformer) -> list[str]:
    """The numbers that the prediction depends on to second order, by name."""
    parts = ("e",) if model.config.unembed == "tied" else ("a", "e")
    return [*(f"{part}{i}" for part in parts for i in range(model.config.d_model)), "b"]


def _check_unigram(model: SandboxTransformer, grammar: BinaryChain) -> None:
    w_e, w_u, b_u = (x.detach().double() for x in (model.embed.W_E, model.unembed.W_U, model.unembed.b_U))
    off = {
        "e = W_E[1] - W_E[0]": float((w_e[1] - w_e[0]).abs().max()),
        "a = W_U[:, 1] - W_U[:, 0]": float((w_u[:, 1] - w_u[:, 0]).abs().max()),
        "b - log(p/q)": abs(float(b_u[1] - b_u[0]) - float(np.log(grammar.p / grammar.q))),
    }
    for name, size in off.items():
        if size > 1e-6:
            raise RequestError(f"{name} is {size:.3g}, not 0: this is not the unigram point of {quoted(grammar)}")
    if model.config.direction != "causal" or grammar.length - 1 > model.config.n_ctx:
        raise RequestError(
            f"direction={quoted(model.config.direction)}, n_ctx={model.config.n_ctx}: a causal model of at least "
            f"{grammar.length - 1} positions is needed"
        )


def _read(model: SandboxTransformer, steps: int) -> tuple[Array, Array]:
    """What the unembedding reads [n, d] where tokens are alike, and its derivatives by what comes in [n, d, i, d]."""
    tokens = torch.zeros((1, steps), dtype=torch.int64)
    visible = model.visible_keys(tokens)
    came = model.embed(tokens)
    if model.pos_embed is not None:
        came = came + model.pos_embed(torch.arange(steps)[None])

    def read(x: Tensor) -> Tensor:
        x = model.ln_embed(x[None])
        for block in model.blocks:
            x = block(x, visible)
        out: Tensor = model.ln_final(x)[0]
        return out

    start = came[0].detach()
    slopes = jacrev(read)(start)
    return read(start).detach().double().numpy(), slopes.detach().double().numpy()


def _flat(model: SandboxTransformer) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def _loss_of(model: SandboxTransformer, grammar: BinaryChain) -> Any:
    """The expected loss as a function of all parameters in one vector."""
    listed, probabilities = grammar.enumerate()
    tokens, weight = torch.from_numpy(listed[:, :-1]), torch.from_numpy(probabilities).to(_flat(model))
    labels = torch.from_numpy(listed[:, 1:])
    shapes = {name: p.shape for name, p in model.named_parameters()}

    def loss(flat: Tensor) -> Tensor:
        parts = flat.split([shape.numel() for shape in shapes.values()])
        params = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
        logits = functional_call(model, params, (tokens,))
        nats = torch.logsumexp(logits, -1) - logits.gather(-1, labels[..., None])[..., 0]
        return (nats.mean(1) * weight).sum()

    return loss
