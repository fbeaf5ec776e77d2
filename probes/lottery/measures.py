"""What is measured of a network under masks: its errors, its accuracy, and what can be read off its last stream."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from interp.model import SandboxTransformer
from interp.numbers import percent
from interp.rng import generator
from interp.stats import Estimate
from interp.worlds.dyck.evaluate import BracketSet
from probes.lottery.controls import CONTROLS
from probes.lottery.inputs import (
    Inputs,
    accuracy_by_rule,
    accuracy_gap,
    closing_accuracy,
    floors,
    largest,
    token_inputs,
)
from probes.lottery.runner import Runner
from probes.lottery.subset_sum import expected_error
from probes.lottery.ticket import Ticket

TICKET = "ticket"  # its own masks, measured as a control is
CONTROL_STRINGS = 160  # that controls are run on, some 80 of them distinct: most have no structure to leave out by
FITTED_STRINGS = 80  # distinct others that an unembedding is fitted to
SHRINK = 1e-6  # L2 of that fit


@dataclass(frozen=True)
class Level:
    """One network: candidates an entry, widths, errors. `theory` is the median error expected of one subset sum.

    `epsilon`: largest |T'(X) - T(X)| / |X| over random inputs, small ones and strings; `relative`: over |T(X)|. NaN
    where every input has 0 / 0 (None in JSON).
    `relative_float32`: the same run in float32, where rounding is the floor.
    """

    candidates: int
    d_model: int
    d_mlp: int
    entry_median: float
    entry_max: float
    theory: float
    epsilon: dict[str, float]
    relative: dict[str, float]
    relative_float32: dict[str, float]

    @property
    def worst(self) -> float:
        """The largest relative error over all inputs."""
        return largest(np.array(list(self.relative.values())))


@dataclass(frozen=True)
class Control:
    """One network under some masks on `CONTROL_STRINGS` of the held-out strings; all Estimates are over these.

    - `accuracy`: closing accuracy by rule, with the copied unembedding; `gap`: the target's argmax accuracy on the
      same strings minus this one.
    - `refitted`: the share of closers of the right type when which closer comes is read off the network's last stream
      by logistic regression, fitted at the closers of other strings. A lower bound of what is there to read.
      Undefined where that stream is 0. `floor`: what "close the token before, else guess" scores on the same strings.
    - `relative`: as in `Level`, over these strings.
    """

    accuracy: dict[str, Estimate]
    gap: Estimate
    refitted: Estimate
    floor: float | None
    relative: Estimate


def measure_level(ticket: Ticket, inputs: Mapping[str, Inputs]) -> Level:
    """Errors of one pruned network on inputs."""
    epsilon, relative, rounded = {}, {}, {}
    run, run32 = Runner(ticket), Runner(ticket, torch.float32)
    for kind, given in inputs.items():
        with torch.no_grad():
            over_input, over_output = given.errors(run(given.x, given.visible)[0])
            _, over_output32 = given.errors(run32(given.x, given.visible)[0])
        epsilon[kind], relative[kind] = largest(over_input), largest(over_output)
        rounded[kind] = largest(over_output32)
    entries = ticket.entry_errors()
    return Level(
        ticket.candidates,
        ticket.config.d_model,
        ticket.config.d_mlp,
        float(np.median(entries)) if entries.size else 0.0,
        float(entries.max(initial=0.0)),
        expected_error(ticket.candidates),
        epsilon,
        relative,
        rounded,
    )


def measure_control(ticket: Ticket, model: SandboxTransformer, name: str, data: BracketSet) -> Control:
    """The random network of `ticket` under the masks of a control, or its own; `model` is the target in float64."""
    few, others = _parts(data, ticket.seed)
    masks = ticket.masks if name == TICKET else CONTROLS[name](ticket, ticket.seed)
    # In float64: the stream of a wide random network passes what float32 can hold within 8 layers.
    run, m = Runner(ticket.with_masks(masks)), ticket.target.width
    given, fitted_on = (token_inputs(model, torch.from_numpy(part.inputs)) for part in (few, others))
    with torch.no_grad():
        stream = run(given.x, given.visible, whole=True)[0]
        train = run(fitted_on.x, fitted_on.visible, whole=True)[0]
        found = closing_accuracy(stream[..., :m] @ model.unembed.W_U, few)
        of_target = closing_accuracy(model.unembed(given.wanted), few)
    read = refitted(train, others, stream, few)
    if isinstance(read, str):
        refit = Estimate.undefined(read, len(few.inputs), "inputs")
    else:
        refit = accuracy_by_rule(closing_accuracy(read, few), few, ticket.seed)["argmax_closers"]
    return Control(
        accuracy=accuracy_by_rule(found, few, ticket.seed),
        gap=accuracy_gap(of_target, found, few, ticket.seed),
        refitted=refit,
        floor=floors(few).get("argmax_closers"),
        relative=largest_error(largest(given.errors(stream)[1]), given.size),
    )


def _parts(data: BracketSet, seed: int) -> tuple[BracketSet, BracketSet]:
    """Strings to measure on, `CONTROL_STRINGS` as they were drawn, and others to fit on, each distinct one once."""
    drawn = np.repeat(np.arange(len(data.inputs)), data.weight.astype(int))
    drawn = generator(seed, "lottery/controls").permutation(drawn)
    rows, times = np.unique(drawn[: min(CONTROL_STRINGS, -(-len(drawn) // 2))], return_counts=True)
    rest = np.array([row for row in dict.fromkeys(drawn.tolist()) if row not in rows], dtype=np.int64)
    rest = np.sort(rest[:FITTED_STRINGS])
    names = ("inputs", "targets", "weight", "law_nll", "distance")
    few, others = (replace(data, **{name: getattr(data, name)[r] for name in names}) for r in (rows, rest))
    return replace(few, weight=times.astype(np.float64)), replace(others, weight=np.ones(len(rest)))


def refitted(train: torch.Tensor, train_data: BracketSet, test: torch.Tensor, data: BracketSet) -> torch.Tensor | str:
    """Logits of closers [strings, pos, vocab] by logistic regression, fitted at the closers of `train`; or why not.

    Closers alone, among themselves: whether a bracket opens or closes is a matter of the law (openers, or END, may
    be as likely as the one legal closer), and a fit to every next token says what is likely, not what is legal. Least
    squares will not do: it misses up to 6 % of what the ticket itself, separable exactly, has written.
    """
    where = train_data.closer
    if not where.any():
        return "no other string closes a bracket"
    x = train[torch.from_numpy(where)].numpy()
    if not np.isfinite(x).all():
        return "the last stream is not finite"
    if not x.any():
        return "the last stream is 0"
    middle, k = x.mean(axis=0), data.num_types
    scale = np.linalg.norm(x - middle, 2) / np.sqrt(len(x)) or 1.0
    wanted = np.eye(k)[train_data.targets[where] // 2]
    weights = _logistic(_with_one((x - middle) / scale), wanted)
    logits = np.full((*data.targets.shape, 2 * k), -np.inf)
    logits[..., 1::2] = _with_one((test.numpy() - middle) / scale) @ weights
    return torch.from_numpy(logits)


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)


def _logistic(x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Weights [features, classes] of least cross entropy and, as the smallest of concerns, least size."""
    from scipy.optimize import minimize

    shape = x.shape[1], wanted.shape[1]
    given, right = torch.from_numpy(x), torch.from_numpy(wanted)  # products on torch's one thread, not on numpy's many

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = torch.from_numpy(flat.reshape(shape))
        log_probs = (given @ w).log_softmax(1)
        slope = given.T @ (log_probs.exp() - right) / len(x) + SHRINK * w
        return float(-(log_probs * right).sum() / len(x) + SHRINK / 2 * w.square().sum()), slope.numpy().ravel()

    options: Any = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8}
    found = minimize(loss, np.zeros(x.shape[1] * wanted.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(shape)


def largest_error(value: float, size: int, null: Any = None) -> Estimate:
    """The largest error over `size` inputs, and what it tells of others; `null` beside it."""
    if np.isnan(value):
        why = "0 / 0: what the error would be divided by, and the error too, is 0 for every one of the inputs"
        return Estimate.undefined(why, size, "inputs", null)
    if np.isinf(value):
        why = "some of the inputs have an error, and what it would be divided by is 0"
        return Estimate.undefined(why, size, "inputs", null)
    beyond = 1 - 0.05 ** (1 / size)
    return Estimate(
        value, None, None, size, "inputs", null,
        f"a largest value has no interval: with 95 % confidence at most {percent(beyond, 1)} of such inputs exceed it",
    )  # fmt: skip
