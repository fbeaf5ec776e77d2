"""What `lottery-ticket` measures: subset sums alone, targets pruned, curves over n, decoys, shared matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from case_studies.lottery_ticket.solvers import stack_scores, stack_solver, uniform_solver
from case_studies.populations import Family
from case_studies.study import Obtained
from interp import DyckGrammar, SandboxTransformer, load_checkpoint, save_checkpoint
from interp.presets import Recipe
from interp.progress import progress_bar
from interp.rng import generator
from interp.stats import REALS, Estimate, clopper_pearson, mean_over_seeds
from interp.worlds.dyck.evaluate import BracketSet
from probes import analyze_stack_likeness
from probes.lottery import (
    MATRICES,
    Level,
    LotteryResult,
    SharedMatrixResult,
    best_subsets,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    evaluation_set,
    expected_error,
    fit_entries,
    foreign_entries,
    in_double,
    measure_level,
    prune_network,
    random_inputs,
    read_target,
    sizes_used,
    token_inputs,
)

N = 20  # candidates an entry of the headline
MORE = 24  # candidates an entry where the theorem's own error is asked to fall below 1e-2 on small inputs too
C = 0.1  # the norm's constant of trained targets
SUMS = (8, 10, 12, 14, 16, 18, 20, 22, 24)
BETWEEN = (1, 5)  # working layers with two idle ones between them: layers 2 and 3
DECOY = 2


@dataclass(frozen=True)
class TargetFamily(Family):
    """A small model of the paper's block: C > 0, and an MLP of its own width."""

    d_mlp: int = 16

    @property
    def recipe(self) -> Recipe:
        """The preset with these two changed."""
        recipe = super().recipe
        return replace(recipe, config=replace(recipe.config, norm_eps=C, d_mlp=self.d_mlp))


_COMMON = {"k": 2, "lr": 1e-2, "weight_decay": 0.01, "max_length": 16, "eval_every": 1500}
TRAINED = (
    TargetFamily(
        "trained, D = 2, m = 8", "dyck-paper", {**_COMMON, "depth": 2, "width": 8, "init_std": 0.35}, 1500, d_mlp=16
    ),
    TargetFamily(  # twice the steps: after 1,500 the slowest of three seeds closes .953 by the strictest rule
        "trained, D = 3, m = 12",
        "dyck-paper",
        {**_COMMON, "depth": 3, "width": 12, "init_std": 0.3, "eval_every": 3000},
        3000,
        d_mlp=24,
    ),
)


@dataclass(frozen=True)
class Size:
    """How much is done. `trained`: seeds of each trained family; `curve`, `networks`: n and draws of the curve."""

    trained: tuple[int, ...]
    solver_depths: tuple[int, ...]
    curve: tuple[int, ...]
    networks: int
    sums: int
    shared: tuple[str, ...]  # kinds of matrix
    strings: int = 2000  # held-out strings drawn a target


QUICK = Size((2,), (2,), (8, 12, 16, 20), 2, 1000, ("attn.W_K", "mlp.W_hid_1"))
FULL = Size((5, 3), (2, 3), (8, 10, 12, 14, 16, 18, 20, 22, 24, 26), 8, 4000, MATRICES)


# -- subset sums alone ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Errors of n products against targets within 1/2: one group, and the better of two with a coarse rescue."""

    n: int
    theory: float
    median: float
    p99: float
    largest: float
    missed: Estimate  # share beyond 1e-3, one group
    paired_median: float
    paired_largest: float


def subset_sums(count: int) -> list[Sums]:
    """Random products of two U(-1, 1), random targets."""
    out = []
    for n in SUMS:
        source = generator(0, "lottery/sums", n)
        products = source.uniform(-1, 1, (count, 2, n)) * source.uniform(-1, 1, (count, 2, n))
        targets = source.uniform(-0.5, 0.5, count)
        _, one = best_subsets(targets, products[:, 0])
        two = fit_entries(targets, products).error
        out.append(
            Sums(
                n,
                expected_error(n, 0.25),
                float(np.median(one)),
                float(np.quantile(one, 0.99)),
                float(one.max()),
                clopper_pearson(int((one > 1e-3).sum()), count),
                float(np.median(two)),
                float(two.max()),
            )
        )
    return out


# -- targets ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pruned:
    """A target, its seed (of training and of the random network), and the result."""

    family: str
    seed: int
    result: LotteryResult


def prune_all(trained: Sequence[Obtained], size: Size) -> list[Pruned]:
    """Every target, trained and constructed, pruned from its own random network."""
    out = []
    for one in trained:
        out += [(one.family.name, seed, one.population[i]) for i, seed in enumerate(one.population.seeds)]
    for depth in size.solver_depths:
        grammar = DyckGrammar(2, depth)
        out += [(f"uniform solver, D = {depth}", 0, uniform_solver(grammar))]
        out += [(f"stack solver, D = {depth}", 0, stack_solver(grammar))]
    found: list[Pruned] = []
    for name, seed, model in progress_bar(out, desc="pruning", unit="target"):
        result = demonstrate_lottery_ticket(model, candidates=N, seed=seed, sweep=(), num_strings=size.strings)
        if found:  # the report looks at single weights of the first; the others' would fill the memory
            result = replace(result, ticket=result.ticket.without_arrays())
        found.append(Pruned(name, seed, result))
    return found


def widest_gap(pruned: Sequence[Pruned]) -> Estimate:
    """The accuracy gap furthest from 0 among models, with the outermost ends of their intervals over strings."""
    gaps = [p.result.accuracy_gap for p in pruned]
    ends = [(e.low or 0.0, e.high or 0.0) for e in gaps]
    furthest = max(gaps, key=lambda e: abs(e.value or 0.0))
    return replace(furthest, low=min(low for low, _ in ends), high=max(high for _, high in ends))


# -- the curve --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """Levels of one target for every n and random network, [network][n]; slopes of log10 error, an Estimate each.

    `expected`: the same slope of the expected error of one subset sum (`expected_error`) at these n. It is less steep
    than its limit -log10(2), since a sum of more products also spreads wider.
    """

    target: str
    levels: tuple[tuple[Level, ...], ...]
    slopes: dict[str, Estimate]
    expected: float


def curve(pruned: Pruned, size: Size) -> Curve:
    """One target over n and several random networks; slopes are fitted up to n = 20, above float32's rounding."""
    target = read_target(pruned.result.ticket.target.model)
    inputs = _inputs(in_double(target), size)
    levels = []
    with progress_bar(total=size.networks * len(size.curve), desc="curve", unit="network") as bar:
        for seed in range(size.networks):
            row = []
            for n in size.curve:
                row.append(measure_level(prune_network(target, n, seed, sizes_used(target, n)), inputs))
                bar.update()
            levels.append(tuple(row))
    kinds: dict[str, Any] = {
        "entry, median": lambda x: x.entry_median,
        "entry, largest": lambda x: x.entry_max,
        "end to end": lambda x: x.worst,
    }
    expected = _slope([x for x in levels[0] if x.candidates <= N], lambda x: x.theory)
    slopes = {}
    for name, read in kinds.items():
        each = [_slope([x for x in row if x.candidates <= N], read) for row in levels]
        slopes[name] = mean_over_seeds(each, support=REALS).with_null({"theory": expected})
    return Curve(pruned.family, tuple(levels), slopes, expected)


def _inputs(model: SandboxTransformer, size: Size) -> dict[str, Any]:
    """Random inputs and held-out strings of a target in double precision."""
    data = evaluation_set(model, size.strings // 4, 0)
    assert isinstance(data, BracketSet)
    return {**random_inputs(model, 64, 0), "strings": token_inputs(model, torch.from_numpy(data.inputs))}


def with_more(pruned: Sequence[Pruned], size: Size) -> list[Level]:
    """Every target pruned again with `MORE` candidates an entry, from random networks of the same seeds."""
    found = []
    for p in progress_bar(pruned, desc=f"{MORE} candidates", unit="target"):
        target = read_target(p.result.ticket.target.model)
        inputs = _inputs(in_double(target), size)
        found.append(measure_level(prune_network(target, MORE, p.seed, sizes_used(target, MORE)), inputs))
    return found


def _slope(row: Sequence[Level], read: Any) -> float:
    return float(np.polyfit([x.candidates for x in row], np.log10([read(x) for x in row]), 1)[0])


# -- decoys, the checkpoint -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Decoy:
    """The uniform solver pruned with a stack-like attention in an idle layer, saved and loaded again.

    - `stack`: stack-likeness of each layer of the loaded checkpoint, and of the target's layers.
    - `same_output`: whether idle queries and keys that are whole, masked or made stack-like give the same logits
      to the last bit.
    - `foreign`: entries of the checkpoint that are neither 0 nor the random network's.
    - `accuracy`: argmax closing accuracy of the loaded model on `strings` held-out strings.
    """

    result: LotteryResult
    stack: tuple[Estimate, ...]
    target_stack: tuple[Estimate, ...]
    same_output: bool
    foreign: int
    entries: int
    accuracy: float
    strings: int
    path: str


def decoy(folder: Path, size: Size) -> Decoy:
    """See `Decoy`."""
    grammar = DyckGrammar(2, 2)
    target = uniform_solver(grammar)
    patterns = {DECOY: stack_scores(grammar), DECOY + 1: None}
    result = demonstrate_lottery_ticket(
        target,
        candidates=N,
        sweep=(),
        working=BETWEEN,
        patterns=patterns,
        controls=False,
        num_strings=size.strings // 4,
    )
    path = folder / "uniform-ticket.safetensors"
    save_checkpoint(result.model, path)
    loaded = load_checkpoint(path)
    assert isinstance(loaded, SandboxTransformer)
    options: dict[str, Any] = {"num_inputs": 40, "length": 16, "grammar": grammar}
    found = analyze_stack_likeness(loaded, **options)
    tokens = torch.from_numpy(grammar.to_tokens(grammar.sample(100, mode="complete", max_length=16, seed=1)))
    ticket, same = result.ticket, True
    with torch.no_grad():
        logits = loaded(tokens)
        for value in (False, True):
            names = [f"blocks.{i}.attn.W_{x}" for i in result.idle for x in "QK"]
            other = ticket.with_masks({name: np.full(ticket.masks[name].shape, value) for name in names}).model()
            same &= torch.equal(other(tokens), logits)
    right, closers = _closed(logits, tokens, grammar)
    return Decoy(
        result,
        tuple(layer[0] for layer in found.score),
        tuple(layer[0] for layer in analyze_stack_likeness(target, **options).score),
        same,
        foreign_entries(loaded),
        sum(mask.size for mask in ticket.masks.values()),
        right / closers,
        len(tokens),
        path.name,
    )


def _closed(logits: torch.Tensor, tokens: torch.Tensor, grammar: DyckGrammar) -> tuple[int, int]:
    """Closers of `tokens` predicted right by argmax, and how many there are."""
    following = tokens[:, 1:]
    closer = (following < grammar.start) & (following % 2 == 1)
    return int(((logits[:, :-1].argmax(-1) == following) & closer).sum()), int(closer.sum())


# -- one matrix, two functions ------------------------------------------------------------------------------


def shared_matrices(size: Size) -> list[SharedMatrixResult]:
    """A matrix of each kind, in layers all over the network, shared by pairs of solvers."""
    grammar = DyckGrammar(2, 2)
    uniform, swapped, stack = uniform_solver(grammar), uniform_solver(grammar, swapped=True), stack_solver(grammar)
    names = [f"blocks.{(3 * i) % 8}.{kind}" for i, kind in enumerate(size.shared)]
    pairs = [(uniform, stack, name) for name in names] + [(uniform, swapped, name) for name in names]
    found = []
    for first, second, name in progress_bar(pairs, desc="shared matrices", unit="pair"):
        result = demonstrate_shared_matrix(first, second, name, candidates=N, num_strings=size.strings // 4)
        one, other = (ticket.without_arrays() for ticket in result.tickets)
        found.append(replace(result, tickets=(one, other)))
    return found


@dataclass(frozen=True)
class Everything:
    """All that was measured."""

    size: Size
    sums: list[Sums]
    trained: Sequence[Obtained]
    pruned: list[Pruned]
    more: list[Level]
    curve: Curve
    decoy: Decoy
    shared: list[SharedMatrixResult]

    @property
    def digests(self) -> dict[str, str]:
        """Of the trained populations, by family."""
        return {one.family.name: one.digest for one in self.trained}
