"""Sampling and analyzers, beside literal loops where one is known, else beside the machine's matrix product.

    python benchmarks/analyzers.py [--quick] [--device cuda]

Sampling (complete strings, against one string at a time by rejection, as the released code draws them), attention
variation of a population (against a loop over pairs), stack-likeness, an audit of 100 claims on one model, and
subset sums of 20 candidates. Sampling and subset sums are numpy's, on the CPU alone.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from harness import Arguments, Row, compare, main, matmuls

from interp import Population, SandboxTransformer
from interp.grammars import DyckGrammar
from interp.presets import make_recipe
from interp.rng import generator
from probes import analyze_stack_likeness, analyze_variation, audit_claims
from probes.lottery import best_subsets
from probes.variation import PAPER_SENTENCE

RELATIONS = ("the last unmatched open bracket", "open brackets", "the previous token", "the first token", "START")
RELATIONS += ("closing brackets", "the most recent open bracket", "all visible tokens evenly", "the current token")
RELATIONS += ("all unmatched open brackets",)
CONDITIONS = ("", " when the current token is a closing bracket", " when the depth is at least 2")
CONDITIONS += (" when the current token is an open bracket", " when the position is at least 5")
UNITS = ("a string", "a target")  # of what is also told as so many a second


def population(seeds: int, device: str) -> Population:
    """Untrained models: what the analyzers cost does not depend on the weights."""
    recipe = make_recipe("dyck-standard")
    return Population.init(recipe.config, range(seeds), recipe.grammar).to(device)


def rejection(grammar: DyckGrammar, count: int, seed: int, longest: int = 26) -> list[list[int]]:
    """Complete strings of at most `longest` brackets, drawn bracket by bracket and drawn again when too long."""
    draw = generator(seed, "benchmark/rejection")
    out: list[list[int]] = []
    while len(out) < count:
        stack: list[int] = []
        string: list[int] = []
        while len(string) <= longest:
            if not stack:
                if string and draw.random() < grammar.end_prob:
                    out.append(string)
                    break
                opens = True
            else:
                opens = len(stack) < grammar.max_depth and draw.random() < grammar.open_prob
            if opens:
                stack.append(int(draw.integers(grammar.num_types)))
                string.append(2 * stack[-1])
            else:
                string.append(2 * stack.pop() + 1)
    return out


def pairwise(patterns: np.ndarray) -> float:
    """Mean squared distance over pairs of models, one pair at a time; `patterns` [model, query, key]."""
    return float(np.mean([np.square(a - b).sum() for a, b in itertools.combinations(patterns, 2)]))


def variation_program(models: Population) -> Callable[[], None]:
    """A hooked run of each model on the paper's sentence and the loop over pairs."""
    tokens = models[0].to_tokens(PAPER_SENTENCE)

    def run() -> None:
        stacks: list[list[np.ndarray]] = [[], []]
        for model in models:
            with torch.no_grad():
                _, cache = model.run_with_cache(tokens)
            for layer in (0, 1):
                stacks[layer].append(cache["pattern", layer][0, 0].cpu().numpy())
        for stack in stacks:
            pairwise(np.stack(stack))

    return run


def claims(count: int) -> list[str]:
    """`count` different sentences about both heads of `dyck-standard`."""
    every = [f"L{layer}H0 attends to {r}{c}" for layer in (0, 1) for r in RELATIONS for c in CONDITIONS]
    return every[:count]


def measure(arguments: Arguments) -> dict[str, Any]:
    """A row a program."""
    quick = arguments.quick
    models = population(3 if quick else 40, arguments.device)
    model: SandboxTransformer = models[0]
    asked = claims(2 if quick else 100)
    inputs = 20 if quick else 400
    rows: list[Row] = numpy_rows(arguments) if arguments.device == "cpu" else []
    rows += compare(
        {f"variation with nulls, S={len(models)}": (lambda: analyze_variation(models, task_check=False), 1.0)},
        ("hooked runs and a loop over pairs, no nulls", variation_program(models), 1.0),
        "a population",
        arguments,
    )
    rows += compare(
        {
            f"stack-likeness with nulls, S={len(models)}": (
                lambda: analyze_stack_likeness(models, task_check=False),
                1.0,
            ),
            f"audit of {len(asked)} claims": (
                lambda: audit_claims(model, asked, num_inputs=inputs, task_check=False),
                1.0,
            ),
        },
        matmuls(arguments.device),
        "a run",
        arguments,
        warm_up=False,
    )
    return {"rows": rows, "per_cpu_second": {row.what: 1 / row.cpu.ours for row in rows if row.unit in UNITS}}


def numpy_rows(arguments: Arguments) -> list[Row]:
    """What runs on the CPU alone."""
    grammar = DyckGrammar(2, 4)
    strings, slow, targets = (50, 20, 20) if arguments.quick else (20_000, 500, 2000)
    source = generator(0, "benchmark/targets")
    values = source.uniform(-1, 1, (targets, 20)) * source.uniform(-1, 1, (targets, 20))
    wanted = source.uniform(-0.5, 0.5, targets)
    rows = compare(
        {"sampling complete strings": (lambda: grammar.sample(strings, seed=0), float(strings))},
        ("rejection, one at a time", lambda: rejection(grammar, slow, 0), float(slow)),
        UNITS[0],
        arguments,
    )
    return rows + compare(
        {"subset sum, 20 candidates": (lambda: best_subsets(wanted, values), float(targets))},
        matmuls("cpu"),
        UNITS[1],
        arguments,
    )


if __name__ == "__main__":
    main("analyzers", __doc__, measure)
