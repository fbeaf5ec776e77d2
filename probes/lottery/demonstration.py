"""The lottery ticket made real: masks on a random Transformer that turn it into a given one.

Wen et al. 2023, Theorem 2: a random Transformer, four times as deep and wider, contains any given one, so that
looking at one weight matrix cannot tell what a model does. Here the masks are found (`probes.lottery.ticket`, entry by
entry, by subset sums), and the pruned network is measured against its target: the error in the theorem's norm on
random inputs and on Dyck strings, the closing accuracy, and what other masks of the same density reach. Not
drawn but copied from the target: embedding, positions, unembedding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interp.checks import true_or_false, whole_number
from interp.errors import RequestError, quoted
from interp.guests import hosting
from interp.model import SandboxTransformer
from interp.numbers import percent
from interp.progress import progress_bar
from interp.rng import check_seed, generator
from interp.stats import Estimate
from interp.text import fold
from interp.threads import one_thread
from interp.worlds.dyck.evaluate import BracketSet
from probes.core import Result
from probes.lottery.controls import CONTROLS
from probes.lottery.inputs import (
    Closing,
    Inputs,
    accuracy_by_rule,
    accuracy_gap,
    check_room,
    closing_accuracy,
    data_law,
    evaluation_set,
    floors,
    largest,
    random_inputs,
    token_inputs,
)
from probes.lottery.runner import Runner, target_stream
from probes.lottery.subset_sum import expected_error
from probes.lottery.target import in_double, read_target
from probes.lottery.ticket import (
    Patterns,
    Ticket,
    check_candidates,
    network_weights,
    pairs_to_prune,
    place_layers,
    prune_network,
    read_patterns,
    sizes_used,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

SWEEP = (8, 12, 16)  # candidates an entry, beside those asked for
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


@dataclass(frozen=True)
class LotteryResult(Result):
    """A pruned random network beside its target.

    - `relative_error_max`: largest |T'(X) - T(X)| / |T(X)| in the paper's 1,2-norm (largest position) over random
      inputs and Dyck strings. A maximum over a sample has no interval; `reason` says what it does tell. Null: each
      control's, over its strings.
    - `accuracy_gap`: argmax closing accuracy of the target minus that of the pruned network on held-out strings.
      Null: the same difference for each control, both accuracies on the strings of the controls.
    - `epsilon`: largest error over |X|, the theorem's, by kind of input.
    - `levels`: the same for other numbers of candidates, ascending; `decay`: slope of log10 of the largest relative
      error against candidates, by least squares (theory: -0.301, a factor 2 a candidate, before constants).
    - `accuracy`: closing accuracy by rule of target, pruned network and floor (close the token before, else guess).
    - `controls`: by name; see `probes.lottery.controls`. `reference`: the pruned network on their strings, refitted
      too: what the readout of `Control.refitted` makes of a network that works.
    - `law`: of the strings, the target's own, no longer than its n_ctx admits; None without brackets.
    - `norms`: spectral norms of the target's matrices, of which the theorem asks at most 1.
    - `pattern_error`: largest l1 difference between a row of the target's attention and of the working layer's.
    - `density`: kept share by kind of matrix. Idle and link layers keep W_Q and W_K whole unless told otherwise.
    - `copied`: what is not drawn at random but the target's own.
    """

    relative_error_max: Estimate
    accuracy_gap: Estimate
    epsilon: dict[str, Estimate]
    candidates: int
    seed: int
    d_model: int
    d_mlp: int
    working: tuple[int, ...]
    idle: tuple[int, ...]
    levels: tuple[Level, ...]
    decay: float | None
    accuracy: dict[str, dict[str, float | None]]
    controls: dict[str, Control]
    reference: Control | None
    law: dict[str, Any] | None
    norms: dict[str, float]
    pattern_error: float
    density: dict[str, float]
    copied: tuple[str, ...]
    ticket: Ticket = field(repr=False, metadata={"json": False})

    @property
    def model(self) -> SandboxTransformer:
        """The pruned network: give it to `save_checkpoint` or to any probe."""
        return self.ticket.model()

    def summary(self) -> str:
        """A few lines for a terminal."""
        from probes.lottery.figure import summary_lines

        return fold(summary_lines(self))

    def figure(self) -> "go.Figure":
        """Errors against candidates, and accuracy beside the controls."""
        from probes.lottery.figure import lottery_figure

        return lottery_figure(self)


@hosting("lottery ticket")
@one_thread()
def demonstrate_lottery_ticket(
    target: Any,
    *,
    candidates: int = 20,
    seed: int = 0,
    sweep: Sequence[int] = SWEEP,
    working: Sequence[int] | None = None,
    patterns: Patterns | None = None,
    d_model: int | None = None,
    d_mlp: int | None = None,
    num_inputs: int = 64,
    num_strings: int = 2000,
    controls: bool = True,
    progress: bool = False,
) -> LotteryResult:
    """Draw a random Transformer of 4L layers and prune it into `target`, a model of L layers.

    - `target`: a `SandboxTransformer` (or population of one) with block 'paper', norm 'unit' and C > 0, one
      head, 2-layer ReLU MLPs and no biases.
    - `candidates`: n, random products an entry is chosen from, twice; the widths follow from it. Time grows with
      2^(n/2): two more double it.
    - `sweep`: other n, for the curve of errors. () leaves it out, `controls=False` the other masks.
    - `working`: which layers stand for the target's (default 1, 3, ...); the layer before each prepares it, all
      others are the identity. `patterns`: scores [m, m] (key, query) that idle layers' attention should
      show, by layer, or None for masked queries and keys.
    - `d_model`, `d_mlp`: wider than needed. `num_strings`: held-out strings, at most n_ctx long.

    Raises `AnalysisError` or `RequestError` before any work for a target that the theorem does not cover, a weight
    out of reach, and widths that are too small.
    """
    n, seed = check_candidates(candidates), check_seed(seed)
    controls, progress = true_or_false("controls", controls), true_or_false("progress", progress)
    others = _other_candidates(sweep, n)
    num_inputs, num_strings = whole_number("num_inputs", num_inputs), whole_number("num_strings", num_strings)
    found = read_target(target)
    places = place_layers(len(found.layers), working)
    shown = read_patterns(patterns, found, places)
    sizes = {other: sizes_used(found, other) for other in others} | {n: sizes_used(found, n, d_model, d_mlp, shown)}
    model = in_double(found)
    weights = network_weights(found, sizes[n])
    check_room(model, sizes[n], weights, num_inputs, num_strings)
    data, law = evaluation_set(model, num_strings, seed), data_law(model)
    if isinstance(data, BracketSet):
        check_room(model, sizes[n], weights, num_inputs, data)
    inputs = random_inputs(model, num_inputs, seed)
    if isinstance(data, BracketSet):
        inputs["strings"] = token_inputs(model, torch.from_numpy(data.inputs))
    names = [TICKET, *CONTROLS] if controls and isinstance(data, BracketSet) else []
    # The search is what takes long: one pair of matrices costs 2^(n/2). Measuring is put at one pair of n = 20.
    cost = {x: 2 ** ((x + 1) // 2) / 2**10 for x in sizes}
    total = sum(cost[x] * pairs_to_prune(found, shown if x == n else {}) for x in sizes) + len(sizes) + len(names)
    line = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    with progress_bar(total=round(total, 6), disable=not progress, desc="lottery ticket", bar_format=line) as bar:
        levels = []
        for x in [*others, n]:
            options: dict[str, Any] = {"patterns": shown} if x == n else {}
            tick = partial(bar.update, cost[x])
            ticket = prune_network(found, x, seed, sizes[x], working=working, progress=tick, **options)
            levels.append(measure_level(ticket, inputs))
            bar.update()
        masked = {}
        for name in names:
            assert isinstance(data, BracketSet)
            masked[name] = measure_control(ticket, model, name, data)
            bar.update()
    return _result(ticket, model, inputs, data, None if isinstance(law, str) else law, levels, masked)


def _other_candidates(sweep: Any, n: int) -> list[int]:
    if isinstance(sweep, (str, bytes)) or not isinstance(sweep, (Sequence, set, frozenset, np.ndarray)):
        raise RequestError(f"sweep={quoted(sweep)} is no list of numbers of candidates; () leaves the curve out")
    return sorted({check_candidates(x) for x in sweep} - {n})


# -- measuring ----------------------------------------------------------------------------------------------


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
        relative=_largest(largest(given.errors(stream)[1]), given.size),
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


# -- the result ---------------------------------------------------------------------------------------------


def _result(
    ticket: Ticket,
    model: SandboxTransformer,
    inputs: Mapping[str, Inputs],
    data: BracketSet | str,
    law: dict[str, Any] | None,
    levels: list[Level],
    masked: dict[str, Control],
) -> LotteryResult:
    last, run = levels[-1], Runner(ticket, torch.float32)
    controls = {name: c for name, c in masked.items() if name != TICKET}
    levels = sorted(levels, key=lambda level: level.candidates)
    accuracy: dict[str, dict[str, float | None]] = {}
    if isinstance(data, BracketSet):
        given = inputs["strings"]
        with torch.no_grad():
            pruned_logits = run(given.x, given.visible)[0] @ model.unembed.W_U.float()
            logits = model.unembed(given.wanted)
        both: dict[str, Closing] = {
            "target": closing_accuracy(logits, data),
            "pruned": closing_accuracy(pruned_logits, data),
        }
        gap = accuracy_gap(both["target"], both["pruned"], data, ticket.seed)
        accuracy = {**{name: c.by_rule for name, c in both.items()}, "floor": floors(data)}
        gap = gap.with_null({name: c.gap for name, c in controls.items()})
    else:
        gap = Estimate.undefined(f"closing accuracy: {data}", 0, "inputs")
    total = sum(given.size for given in inputs.values())
    null = {name: c.relative for name, c in controls.items()}
    return LotteryResult(
        relative_error_max=_largest(last.worst, total, null),
        accuracy_gap=gap,
        epsilon={kind: _largest(value, inputs[kind].size) for kind, value in last.epsilon.items()},
        candidates=ticket.candidates,
        seed=ticket.seed,
        d_model=ticket.config.d_model,
        d_mlp=ticket.config.d_mlp,
        working=ticket.working,
        idle=ticket.idle,
        levels=tuple(levels),
        decay=decay(levels),
        accuracy=accuracy,
        controls=controls,
        reference=masked.get(TICKET),
        law=law,
        norms=spectral_norms(ticket.target.model),
        pattern_error=_pattern_error(ticket, model, inputs),
        density=ticket.density,
        copied=tuple(sorted(ticket.copied)),
        ticket=ticket,
    )


def _largest(value: float, size: int, null: Any = None) -> Estimate:
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


def decay(levels: Sequence[Level]) -> float | None:
    """Slope of log10 of the largest relative error against candidates; None for one level or an exact network."""
    n = np.array([level.candidates for level in levels], dtype=float)
    worst = np.array([level.worst for level in levels])
    usable = len(n) > 1 and bool((np.isfinite(worst) & (worst > 0)).all())
    return float(np.polyfit(n, np.log10(worst), 1)[0]) if usable else None


def spectral_norms(model: SandboxTransformer) -> dict[str, float]:
    """The largest over layers of each kind of matrix, and of the scores' W_K W_Q^T."""
    out: dict[str, float] = {}
    for block in model.blocks:
        w = {n: p.detach().double() for n, p in block.named_parameters()}
        norms = {name: torch.linalg.matrix_norm(p.reshape(p.shape[-2:]), 2).item() for name, p in w.items()}
        if "attn.W_K" in w:
            scores = w["attn.W_K"][0] @ w["attn.W_Q"][0].T / block.attn.attn_scale
            norms["scores"] = torch.linalg.matrix_norm(scores, 2).item()
        out = {name: max(out.get(name, 0.0), value) for name, value in norms.items()}
    return out


def _pattern_error(ticket: Ticket, model: SandboxTransformer, inputs: Mapping[str, Inputs]) -> float:
    worst = 0.0
    for given in inputs.values():
        with torch.no_grad():
            _, wanted = target_stream(model, given.x, given.visible)
            _, found = Runner(ticket)(given.x, given.visible, ticket.working)
        for layer, at in zip(wanted, ticket.working, strict=True):
            worst = max(worst, float(((layer - found[at]).abs().sum(-1) * given.real[..., 0]).max()))
    return worst


__all__ = ["Control", "Level", "LotteryResult", "demonstrate_lottery_ticket"]
