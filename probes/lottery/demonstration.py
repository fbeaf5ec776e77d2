"""The lottery ticket made real: masks on a random Transformer that turn it into a given one.

Wen et al. 2023, Theorem 2: a random Transformer, four times as deep and wider, contains any given one, so that
looking at one weight matrix cannot tell what a model does. Here the masks are found (`probes.lottery.ticket`, entry by
entry, by subset sums), and the pruned network is measured against its target: the error in the theorem's norm on
random inputs and on Dyck strings, the closing accuracy, and what other masks of the same density reach. Not
drawn but copied from the target: embedding, positions, unembedding.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from interp.checks import true_or_false, whole_number
from interp.errors import RequestError, quoted
from interp.guests import hosting
from interp.model import SandboxTransformer
from interp.progress import progress_bar
from interp.rng import check_seed
from interp.stats import Estimate
from interp.threads import one_thread
from interp.worlds.dyck.evaluate import BracketSet
from probes.core import recorded
from probes.lottery.controls import CONTROLS
from probes.lottery.inputs import (
    Closing,
    Inputs,
    accuracy_gap,
    check_room,
    closing_accuracy,
    data_law,
    evaluation_set,
    floors,
    random_inputs,
    token_inputs,
)
from probes.lottery.measures import TICKET, Control, Level, largest_error, measure_control, measure_level
from probes.lottery.result import LotteryResult
from probes.lottery.runner import Runner, target_stream
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

SWEEP = (8, 12, 16)  # candidates an entry, beside those asked for


@recorded
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
        raise RequestError(f"sweep={quoted(sweep)} is not a list of numbers of candidates; () leaves the curve out")
    return sorted({check_candidates(x) for x in sweep} - {n})


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
        relative_error_max=largest_error(last.worst, total, null),
        accuracy_gap=gap,
        epsilon={kind: largest_error(value, inputs[kind].size) for kind, value in last.epsilon.items()},
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
