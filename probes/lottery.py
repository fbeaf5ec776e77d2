"""The lottery ticket made real: masks on a random Transformer that turn it into a given one.

Wen et al. 2023, Theorem 2: a random Transformer, four times as deep and wider, contains any given one, so that
looking at one weight matrix cannot tell what a model does. Here the masks are found (`probes._ticket`, entry by
entry, by subset sums), and the pruned network is measured against its target: the error in the theorem's norm on
random inputs and on Dyck strings, the closing accuracy, and what other masks of the same density reach. Not
drawn but copied from the target: embedding, positions, unembedding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interp.errors import RequestError
from interp.model import SandboxTransformer
from interp.progress import progress_bar
from interp.rng import check_seed, generator
from interp.stats import Estimate
from interp.training.evaluate import EvalSet
from probes._lottery_controls import CONTROLS
from probes._lottery_inputs import (
    Closing,
    Inputs,
    accuracy_gap,
    closing_accuracy,
    evaluation_set,
    floors,
    random_inputs,
    token_inputs,
)
from probes._result import Result
from probes._subset_sum import expected_error
from probes._ticket import (
    Patterns,
    Ticket,
    check_candidates,
    check_patterns,
    place_layers,
    prune_network,
    sizes_used,
)
from probes._ticket_run import Runner, target_stream
from probes._ticket_target import in_double, read_target

if TYPE_CHECKING:
    import plotly.graph_objects as go

SWEEP = (8, 12, 16)  # candidates an entry, beside those asked for
CONTROL_STRINGS = 80  # distinct strings that controls are run on: most keep no structure to leave zeros out by


@dataclass(frozen=True)
class Level:
    """One network: candidates an entry, widths, errors. `theory` is the median error expected of one subset sum.

    `epsilon`: largest |T'(X) - T(X)| / |X| over random inputs, small ones and strings; `relative`: over |T(X)|.
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
        return max(self.relative.values())


@dataclass(frozen=True)
class Control:
    """Other masks on the same network: closing accuracy by rule with the copied unembedding, and refitted.

    `refitted`: argmax accuracy when the unembedding is fitted to the masked network's last stream by least
    squares, on other strings; None where that stream is 0. `floor`: argmax accuracy of "close the token before,
    else guess" on the same strings. `relative`: as in `Level`, over strings; None where it is not finite.
    """

    accuracy: dict[str, float | None]
    refitted: float | None
    floor: float | None
    relative: float | None


@dataclass(frozen=True)
class LotteryResult(Result):
    """A pruned random network beside its target.

    - `relative_error_max`: largest |T'(X) - T(X)| / |T(X)| in the paper's 1,2-norm (largest position) over random
      inputs and Dyck strings. A maximum over a sample has no interval; `reason` says what it does tell. Null: controls.
    - `accuracy_gap`: argmax closing accuracy of the target minus that of the pruned network on held-out strings.
      Null: the gap of each control.
    - `epsilon`: largest error over |X|, the theorem's, by kind of input.
    - `levels`: the same for other numbers of candidates, ascending; `decay`: slope of log10 of the largest relative
      error against candidates, by least squares (theory: -0.301, a factor 2 a candidate, before constants).
    - `accuracy`: closing accuracy by rule of target, pruned network and floor (close the token before, else guess).
    - `controls`: by name; see `probes._lottery_controls`.
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
        from probes._lottery_figure import summary_lines

        return "\n".join(summary_lines(self))

    def figure(self) -> "go.Figure":
        """Errors against candidates, and accuracy beside the controls."""
        from probes._lottery_figure import lottery_figure

        return lottery_figure(self)


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
    - `candidates`: n, random products an entry is chosen from, twice; the widths follow from it.
    - `sweep`: other n, for the curve of errors. () leaves it out, `controls=False` the other masks.
    - `working`: which layers stand for the target's (default 1, 3, ...); the layer before each prepares it, all
      others are the identity. `patterns`: scores [m, m] (key, query) that idle layers' attention should
      show, by layer, or None for masked queries and keys.
    - `d_model`, `d_mlp`: wider than needed.

    Raises `AnalysisError` or `RequestError` before any work for a target that the theorem does not cover, a weight
    out of reach, and widths that are too small.
    """
    n, seed = check_candidates(candidates), check_seed(seed)
    others = sorted({check_candidates(x) for x in sweep if x != n})
    found = read_target(target)
    places = place_layers(len(found.layers), working)
    check_patterns(patterns, found, places)
    sizes = sizes_used(found, n, d_model, d_mlp, patterns)
    for name, value in (("num_inputs", num_inputs), ("num_strings", num_strings)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RequestError(f"{name}={value!r} is not a whole number of at least 1")
    model = in_double(found)
    data = evaluation_set(model, num_strings, seed)
    inputs = random_inputs(model, num_inputs, seed)
    if isinstance(data, EvalSet):
        inputs["strings"] = token_inputs(model, torch.from_numpy(data.inputs))
    steps = [*others, n, *(CONTROLS if controls and isinstance(data, EvalSet) else ())]
    with progress_bar(total=len(steps), disable=not progress, desc="lottery ticket", unit="network") as bar:
        levels = []
        for other in others:
            ticket = prune_network(found, other, seed, sizes_used(found, other, None, None), working=working)
            levels.append(measure_level(ticket, inputs))
            bar.update()
        ticket = prune_network(found, n, seed, sizes, working=working, patterns=patterns)
        levels.append(measure_level(ticket, inputs))
        bar.update()
        masked = {}
        for name in CONTROLS if controls and isinstance(data, EvalSet) else ():
            assert isinstance(data, EvalSet)
            masked[name] = measure_control(ticket, model, name, data)
            bar.update()
    return _result(ticket, model, inputs, data, levels, masked)


# -- measuring ----------------------------------------------------------------------------------------------


def measure_level(ticket: Ticket, inputs: Mapping[str, Inputs]) -> Level:
    """Errors of one pruned network on inputs."""
    epsilon, relative, rounded = {}, {}, {}
    run, run32 = Runner(ticket), Runner(ticket, torch.float32)
    for kind, given in inputs.items():
        with torch.no_grad():
            over_input, over_output = given.errors(run(given.x, given.visible)[0])
            _, over_output32 = given.errors(run32(given.x, given.visible)[0])
        epsilon[kind], relative[kind] = float(over_input.max()), float(over_output.max())
        rounded[kind] = float(over_output32.max())
    entries = ticket.entry_errors()
    return Level(
        ticket.candidates,
        ticket.config.d_model,
        ticket.config.d_mlp,
        float(np.median(entries)),
        float(entries.max()),
        expected_error(ticket.candidates),
        epsilon,
        relative,
        rounded,
    )


def measure_control(ticket: Ticket, model: SandboxTransformer, name: str, data: EvalSet) -> Control:
    """The random network of `ticket` under the masks of a control; `model` is the target in float64."""
    few, others = _parts(data, ticket.seed)
    run, m = Runner(ticket.with_masks(CONTROLS[name](ticket, ticket.seed))), ticket.target.width

    given = token_inputs(model, torch.from_numpy(few.inputs))
    with torch.no_grad():
        stream = run(given.x, given.visible)[0]
        relative = float(given.errors(stream)[1].max())
        accuracy = closing_accuracy(stream[..., :m] @ model.unembed.W_U, few).by_rule
        fitted_on = token_inputs(model, torch.from_numpy(others.inputs))
        train = run(fitted_on.x, fitted_on.visible)[0]
    refitted = _refitted(train, others, stream, few)
    return Control(accuracy, refitted, floors(few).get("argmax"), relative if np.isfinite(relative) else None)


def _parts(data: EvalSet, seed: int) -> tuple[EvalSet, EvalSet]:
    """Strings to measure on and strings to fit on, at most `CONTROL_STRINGS` each, distinct and disjoint."""
    order = generator(seed, "lottery/controls").permutation(len(data.inputs))
    half = min(CONTROL_STRINGS, len(order) // 2)
    chosen = np.sort(order[:half]), np.sort(order[half : 2 * half])
    names = ("inputs", "targets", "weight", "law_nll", "distance")
    few, others = (replace(data, **{name: getattr(data, name)[rows] for name in names}) for rows in chosen)
    return few, others


def _refitted(train: torch.Tensor, train_data: EvalSet, test: torch.Tensor, data: EvalSet) -> float | None:
    """Argmax closing accuracy of a least-squares unembedding, fitted at the scored positions of `train`."""
    scored = train_data.targets >= 0
    x, scale = train[torch.from_numpy(scored)].numpy(), train.abs().amax().item()
    if not 0 < scale < np.inf:
        return None
    targets = np.eye(int(max(train_data.targets.max(), data.targets.max())) + 1)[train_data.targets[scored]]
    features = np.concatenate([x / scale, np.ones((len(x), 1))], axis=1)
    weights = np.linalg.lstsq(features, targets, rcond=1e-10)[0]
    logits = test.numpy() / scale @ weights[:-1] + weights[-1]
    return closing_accuracy(torch.from_numpy(logits), data).by_rule["argmax"]


# -- the result ---------------------------------------------------------------------------------------------


def _result(
    ticket: Ticket,
    model: SandboxTransformer,
    inputs: Mapping[str, Inputs],
    data: EvalSet | str,
    levels: list[Level],
    controls: dict[str, Control],
) -> LotteryResult:
    last, run = levels[-1], Runner(ticket, torch.float32)
    levels = sorted(levels, key=lambda level: level.candidates)
    accuracy: dict[str, dict[str, float | None]] = {}
    if isinstance(data, EvalSet):
        given = inputs["strings"]
        with torch.no_grad():
            pruned_logits = run(given.x, given.visible)[0][..., : ticket.target.width] @ model.unembed.W_U.float()
            logits = model.unembed(given.wanted)
        both: dict[str, Closing] = {
            "target": closing_accuracy(logits, data),
            "pruned": closing_accuracy(pruned_logits, data),
        }
        gap = accuracy_gap(both["target"], both["pruned"], data, ticket.seed)
        accuracy = {**{name: c.by_rule for name, c in both.items()}, "floor": floors(data)}
        gap = gap.with_null({name: _minus(both["target"], c) for name, c in controls.items()})
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
        norms=spectral_norms(ticket.target.model),
        pattern_error=_pattern_error(ticket, model, inputs),
        density=ticket.density,
        copied=tuple(sorted(ticket.copied)),
        ticket=ticket,
    )


def _minus(target: Closing, control: Control) -> float | None:
    a, b = target.by_rule["argmax"], control.accuracy["argmax"]
    return None if a is None or b is None else a - b


def _largest(value: float, size: int, null: Any = None) -> Estimate:
    beyond = 1 - 0.05 ** (1 / size)
    return Estimate(
        value, None, None, size, "inputs", null,
        f"a largest value has no interval: with 95 % confidence at most {beyond:.1%} of such inputs exceed it",
    )  # fmt: skip


def decay(levels: Sequence[Level]) -> float | None:
    """Slope of log10 of the largest relative error against candidates; None for one level or an exact network."""
    n = np.array([level.candidates for level in levels], dtype=float)
    worst = np.array([level.worst for level in levels])
    return float(np.polyfit(n, np.log10(worst), 1)[0]) if len(n) > 1 and (worst > 0).all() else None


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
