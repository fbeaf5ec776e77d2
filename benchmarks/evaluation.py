"""What evaluation costs: its share of a training run, and strings of 500 brackets beside strings of 28.

    python benchmarks/evaluation.py [--quick] [--device cuda]

*Share*: all evaluations of a run (as scheduled, the drawing of held-out strings included) beside all its steps, ten
seeds. The ratio is evaluation / training. *Long*: accuracy on 10,000 predictions at positions 400-499 of prefixes,
40 seeds, beside 10,000 predictions of prefixes of 28, per prediction; where one layer without positions makes counts
suffice, also beside the same through full attention.
"""

from collections.abc import Callable
from typing import Any

from harness import Arguments, Row, compare, main, time_of

from interp.functional import Params
from interp.model import SandboxTransformer
from interp.presets import Recipe, make_recipe
from interp.training.loop import _Run, initial_state, make_task
from interp.worlds.dyck.evaluate import BracketSet, evaluate, evaluate_positions, held_out
from interp.worlds.dyck.shared import share_rows
from interp.worlds.dyck.task import EVAL_STRINGS, FINAL_STRINGS, LONG_FROM, LONG_TO, in_distribution

SHARE, FLAT = 0.05 / 0.95, 1.5  # evaluation at most 5 % of the whole; long at most 1.5 times short


def share_row(preset: str, options: dict[str, Any], arguments: Arguments) -> Row:
    """Evaluations of a whole run against its steps."""
    recipe = make_recipe(preset, options)
    s = recipe.settings
    seeds = tuple(range(2 if arguments.quick else 10))
    steps = 2 if arguments.quick else 32
    run = _Run(recipe, initial_state(recipe, seeds), arguments.device)
    params = run.flat.views(run.flat.data)
    template = SandboxTransformer(recipe.config).to(arguments.device)
    middle = -(-s.steps // s.eval_every)  # step 0 and every eval_every, but for the last

    def evaluations() -> None:
        task = make_task(template, recipe, arguments.device)  # a run draws its held-out strings itself
        for _ in range(middle):
            task.metrics(params, final=False)
        task.metrics(params, final=True)

    def training() -> None:
        run.train(run.step + steps)

    name = f"{preset}{''.join(f', {k}={v}' for k, v in options.items())}"
    return compare(
        {f"evaluation of a run, {name}": (evaluations, float(len(seeds)))},
        ("its training", training, len(seeds) * steps / s.steps),
        "a seed and run",
        arguments,
        {f"evaluation of a run, {name}": SHARE},
    )[0]


def predictions(recipe: Recipe, length: int, score_from: int, count: int) -> BracketSet:
    """About `count` predictions."""
    strings = -(-count // (length - score_from))
    return held_out(recipe.grammar, strings, data="prefix", length=length, score_from=score_from)


def in_parts(
    evaluator: Callable[..., Any], template: SandboxTransformer, params: Params, data: BracketSet, size: int
) -> Callable[[], None]:
    """`evaluator` over all seeds, `size` at a time."""
    seeds = len(next(iter(params.values())))

    def run() -> None:
        for begin in range(0, seeds, size):
            evaluator(template, {n: p[begin : begin + size] for n, p in params.items()}, data)

    return run


def long_rows(preset: str, options: dict[str, Any], arguments: Arguments) -> list[Row]:
    """Long strings beside short ones and, through counts, beside full attention."""
    recipe = make_recipe(preset, options)
    through_counts = recipe.config.counts_suffice
    seeds = 2 if arguments.quick else 40 if through_counts else 10
    count = 200 if arguments.quick else 10_000 if through_counts else 500
    params = {n: p.to(arguments.device) for n, p in initial_state(recipe, tuple(range(seeds))).params.items()}
    template = SandboxTransformer(recipe.config).to(arguments.device)
    short, long = predictions(recipe, 28, 0, count), predictions(recipe, LONG_TO, LONG_FROM, count)
    name = f"{preset}{''.join(f', {k}={v}' for k, v in options.items())}, S={seeds}"
    units = {id(d): float(seeds * (d.weight[:, None] * (d.targets >= 0)).sum()) for d in (short, long)}
    size = 10 if arguments.device == "cpu" else seeds
    rows = compare(
        {f"length 400-500, {name}": (in_parts(evaluate, template, params, long, size), units[id(long)])},
        ("length 28", in_parts(evaluate, template, params, short, size), units[id(short)]),
        "a prediction",
        arguments,
        {f"length 400-500, {name}": FLAT} if through_counts else {},
    )
    if through_counts:
        few = predictions(recipe, LONG_TO, LONG_FROM, 100 if arguments.quick else 500)
        rows += compare(
            {
                f"length 400-500 through counts, {name}": (
                    in_parts(evaluate, template, params, long, size),
                    units[id(long)],
                )
            },
            (
                "full attention",
                in_parts(evaluate_positions, template, params, few, size),
                float(seeds * (few.weight[:, None] * (few.targets >= 0)).sum()),
            ),
            "a prediction",
            arguments,
        )
    return rows


def measure(arguments: Arguments) -> dict[str, Any]:
    """Shares, then long strings."""
    runs: list[tuple[str, dict[str, Any]]] = [("dyck-standard", {}), ("dyck-minimal", {})]
    runs.append(("dyck-minimal", {"compute": "counts"}))
    rows = [share_row(preset, options, arguments) for preset, options in runs[:: 3 if arguments.quick else 1]]
    for preset in ("dyck-minimal",) if arguments.quick else ("dyck-minimal", "dyck-minimal-sum", "dyck-standard"):
        rows += long_rows(preset, {}, arguments)
    ratios = {row.what: time_of(row, arguments.device).ratio for row in rows if row.reference == "its training"}
    recipe = make_recipe("dyck-standard")
    strings = (20,) if arguments.quick else (EVAL_STRINGS, FINAL_STRINGS)
    shared = {str(count): saved(in_distribution(recipe, count)) for count in strings}
    return {"rows": rows, "share": {name: r / (1 + r) for name, r in ratios.items()}, "shared": shared}


def saved(data: BracketSet) -> dict[str, int]:
    """Positions of distinct strings, and cells of rows that share beginnings."""
    rows = share_rows(data.inputs, data.lengths, int(data.inputs.max()))
    return {"positions": int(data.lengths.sum()), "cells": rows.tokens.size}


if __name__ == "__main__":
    main("evaluation", __doc__, measure)
