"""A training step a seed: our population beside a loop over native TransformerLens models and a plain PyTorch one.

    python benchmarks/step.py [--quick] [--device cuda]

One thread each, `dyck-standard`, the same strings, AdamW. *Equal rows*: prefixes of 28 brackets, so that neither
program has padding. *Complete*: strings of 2 to 26 brackets; the loops pad them to 27 positions, we pack them. Our
time includes drawing the strings; the loops get theirs for nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from harness import Arguments, Row, compare, main
from rivals import PlainTransformer, chunked, multiplications, native_model, padded, train_steps

from interp.presets import Recipe, make_recipe
from interp.training.loop import _Run, initial_state
from interp.training.objective import data_source
from interp.training.run import chunk_size

NATIVE, PLAIN = "boot_native loop", "plain PyTorch loop"
TARGETS = {("equal rows", 100): 0.9, ("equal rows", 16): 0.6, ("complete", 16): 1 / 3, ("complete", 64): 1 / 3}
TARGETS[("complete", 100)] = 1 / 3


def rows_of(data: str, batch: int, arguments: Arguments) -> list[Row]:
    """All population sizes beside both loops at one batch size."""
    law = {"data": "prefix", "length": 28} if data == "equal rows" else {}
    recipe = make_recipe("dyck-standard", {"eval_every": 10**6, **law}, batch=batch)
    steps = 2 if arguments.quick else 8
    sizes = (1, 2) if arguments.quick else (1, 4, 10, 40)
    inputs, targets = (x.to(arguments.device) for x in padded(recipe, 0, range(steps)))
    lr = recipe.settings.lr
    programs = {
        f"{data}, batch {batch}, S={s}": (ours(recipe, s, steps, arguments.device), float(s * steps)) for s in sizes
    }
    plain = PlainTransformer(recipe.config).to(arguments.device)
    native = native_model(recipe, 0).to(arguments.device)
    programs[f"{PLAIN}: {data}, batch {batch}"] = (lambda: train_steps(plain, inputs, targets, lr), float(steps))
    reference = (NATIVE, lambda: train_steps(native, inputs, targets, lr), float(steps))
    largest = f"{data}, batch {batch}, S={sizes[-1]}"
    goal = TARGETS.get((data, batch))
    return compare(programs, reference, "a seed and step", arguments, {} if goal is None else {largest: goal})


def ours(recipe: Recipe, seeds: int, steps: int, device: str) -> Callable[[], None]:
    """`steps` more steps of every seed, in chunks as `train_population` takes them (one chunk on another device)."""
    size = chunk_size(recipe) if device == "cpu" else seeds
    runs = [_Run(recipe, initial_state(recipe, chunk), device) for chunk in chunked(seeds, size)]

    def run() -> None:
        for chunk in runs:
            chunk.train(chunk.step + steps)

    return run


def matmul_rate(device: str, quick: bool) -> dict[str, float]:
    """Floating-point operations a CPU second of float32 products, by size; the best of three."""
    from harness import clock

    rates = {}
    for size in (64, 256) if quick else (64, 128, 256, 512, 1024):
        a, count = torch.ones(size, size, device=device), max(2, int(2e9 / size**3 / 2))

        def run(a: torch.Tensor = a, count: int = count) -> None:
            for _ in range(count):
                a @ a

        run()
        wall = device != "cpu"  # a device's work is no CPU time
        rates[str(size)] = max(2 * size**3 * count / clock(run, device)[wall] for _ in range(3))
    return rates


KINDS = {
    "matrix products": ("bmm", "mm", "addmm"),
    "sums, products and biases": (
        "add",
        "add_",
        "mul",
        "mul_",
        "addcmul",
        "addcmul_",
        "sub",
        "div",
        "neg",
        "pow",
        "sum",
    ),
    "means and roots": ("native_layer_norm", "native_layer_norm_backward", "mean", "sqrt", "reciprocal", "rsqrt"),
    "activation": ("gelu", "gelu_backward"),
    "softmax and mask": ("_softmax", "_softmax_backward_data", "masked_fill", "masked_fill_", "logsumexp"),
    "copies": ("copy_", "fill_", "cat", "gather", "scatter_add_", "embedding_dense_backward", "index_select"),
}


def profile(recipe: Recipe, device: str) -> dict[str, float]:
    """Shares of a step's time in torch, by kind of operation, of one chunk of seeds; `other`: views and dispatch."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    run = _Run(recipe, initial_state(recipe, tuple(range(chunk_size(recipe)))), device)
    run.train(2)
    with profiled(activities=[ProfilerActivity.CPU]) as found:
        run.train(6)
    spent = {event.key.removeprefix("aten::"): event.self_cpu_time_total for event in found.key_averages()}
    total = sum(spent.values())
    shares = {kind: sum(spent.get(name, 0.0) for name in names) / total for kind, names in KINDS.items()}
    return {**shares, "other": 1 - sum(shares.values())}


def measure(arguments: Arguments) -> dict[str, Any]:
    """All rows, and how much of the machine's matmul rate the largest population's step reaches."""
    rows, reached, profiles = [], {}, {}
    rates = matmul_rate(arguments.device, arguments.quick)
    for data in ("equal rows", "complete"):
        for batch in (16,) if arguments.quick else (16, 64, 100):
            found = rows_of(data, batch, arguments)
            rows += found
            law = {"data": "prefix", "length": 28} if data == "equal rows" else {}
            recipe = make_recipe("dyck-standard", law, batch=batch)
            layout = data_source(recipe).layout()
            own = [row for row in found if ", S=" in row.what][-1]
            spent = own.cpu.ours if arguments.device == "cpu" else own.wall.ours
            if arguments.device == "cpu" and not arguments.quick:
                profiles[f"{data}, batch {batch}"] = profile(
                    make_recipe("dyck-standard", {"eval_every": 10**6, **law}, batch=batch), arguments.device
                )
            work = multiplications(recipe.config, layout.rows, layout.width)
            reached[own.what] = {
                "operations": work,
                "positions": layout.rows * layout.width,
                "share_of_matmul_rate": work / spent / max(rates.values()),
            }
    return {"rows": rows, "matmul_rate": rates, "reached": reached, "profile": profiles}


if __name__ == "__main__":
    main("step", __doc__, measure)
