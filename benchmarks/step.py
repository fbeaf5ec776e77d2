"""A training step a seed: our population beside a loop over native TransformerLens models and a plain PyTorch one.

    python benchmarks/step.py [--quick] [--device cuda]

One thread each, `dyck-standard`, the same strings, AdamW. *Equal rows*: prefixes of 28 brackets, so that neither
program has padding. *Complete*: strings of 2 to 26 brackets; the loops pad them to 27 positions, we pack them. Our
time includes drawing the strings; the loops get theirs for nothing. On another device a thousand models as well, if
they fit. *Through counts*: ten `dyck-minimal` models with `compute=counts` beside the same through attention.
"""

from collections.abc import Callable
from typing import Any

import torch
from harness import Arguments, Row, clock, compare, main, time_of
from parts import shares
from rivals import PlainTransformer, chunked, multiplications, native_model, padded, train_steps

from interp.presets import Recipe, make_recipe
from interp.training.loop import _Run, initial_state
from interp.training.run import chunk_size
from interp.worlds.dyck.task import data_source

NATIVE, PLAIN = "boot_native loop", "plain PyTorch loop"
TARGETS = {("equal rows", 100): 0.7, ("equal rows", 64): 0.6, ("equal rows", 16): 0.45}
TARGETS |= {("complete", batch): 0.28 for batch in (16, 64, 100)}
COUNTED: dict[str, dict[str, Any]] = {
    "k=2, D=4": {},
    "k=5, D=3": {"k": 5, "depth": 3},
    "k=8, D=6": {"k": 8, "depth": 6},
    "k=10, D=10": {"k": 10, "depth": 10},
    "prefixes of 28": {"data": "prefix", "length": 28},
    "prefixes of 200": {"data": "prefix", "length": 200},
}
SIZES = {"quick": (1, 2), "cpu": (1, 4, 10, 40), "device": (1, 10, 40, 1000)}


def recipe_of(data: str, batch: int) -> Recipe:
    """The recipe of equal rows or complete strings."""
    law = {"data": "prefix", "length": 28} if data == "equal rows" else {}
    return make_recipe("dyck-standard", {"eval_every": 1500, **law}, batch=batch)


def rows_of(data: str, batch: int, arguments: Arguments) -> list[Row]:
    """All population sizes beside both loops at one batch size."""
    recipe = recipe_of(data, batch)
    steps = 2 if arguments.quick else 8
    sizes = SIZES["quick" if arguments.quick else "cpu" if arguments.device == "cpu" else "device"]
    sizes = tuple(s for s in sizes if s <= 40 or fits(recipe, s, arguments.device))
    inputs, targets = (x.to(arguments.device) for x in padded(recipe, 0, range(steps)))
    lr = recipe.settings.lr
    programs = {
        f"{data}, batch {batch}, S={s}": (ours(recipe, s, steps, arguments.device), float(s * steps)) for s in sizes
    }
    plain = PlainTransformer(recipe.config).to(arguments.device)
    native = native_model(recipe, 0, arguments.device)
    programs[f"{PLAIN}: {data}, batch {batch}"] = (lambda: train_steps(plain, inputs, targets, lr), float(steps))
    reference = (NATIVE, lambda: train_steps(native, inputs, targets, lr), float(steps))
    goals = {
        f"{data}, batch {batch}, S={s}": TARGETS[data, batch] for s in sizes if s >= 40 and (data, batch) in TARGETS
    }
    return compare(programs, reference, "a seed and step", arguments, goals)


def counted_row(name: str, arguments: Arguments) -> Row:
    """A step through counts beside one through attention, ten seeds at the preset's batch."""
    seeds, steps = (2, 2) if arguments.quick else (10, 8)
    through = [
        ours(
            make_recipe("dyck-minimal", {"eval_every": 800, "compute": compute, **COUNTED[name]}),
            seeds,
            steps,
            arguments.device,
        )
        for compute in ("counts", "attention")
    ]
    units = float(seeds * steps)
    reference = ("through attention", through[1], units)
    return compare({f"through counts, {name}": (through[0], units)}, reference, "a seed and step", arguments)[0]


def fits(recipe: Recipe, seeds: int, device: str) -> bool:
    """Does a step of so many seeds fit the device's memory?"""
    try:
        ours(recipe, seeds, 1, device)()
    except torch.OutOfMemoryError:
        return False
    return True


def ours(recipe: Recipe, seeds: int, steps: int, device: str) -> Callable[[], None]:
    """`steps` more steps of every seed, in chunks as `train_population` takes them (one chunk on another device)."""
    size = chunk_size(recipe) if device == "cpu" else seeds
    runs = [_Run(recipe, initial_state(recipe, chunk), device) for chunk in chunked(seeds, size)]

    def run() -> None:
        for chunk in runs:
            chunk.train(chunk.step + steps)

    return run


def matmul_rate(device: str, quick: bool) -> dict[str, float]:
    """Floating-point operations a second of float32 products (a CPU second there), by size; the best of three."""
    rates = {}
    sizes = (64, 128, 256, 512, 1024) if device == "cpu" else (256, 1024, 4096)
    for size in sizes[:2] if quick else sizes:
        a, count = torch.ones(size, size, device=device), max(2, int(2e9 / size**3 / 2))

        def run(a: torch.Tensor = a, count: int = count) -> None:
            for _ in range(count):
                a @ a

        run()
        wall = device != "cpu"  # a device's work is no CPU time
        rates[str(size)] = max(2 * size**3 * count / clock(run, device)[wall] for _ in range(3))
    return rates


def measure(arguments: Arguments) -> dict[str, Any]:
    """All rows, and how much of the machine's matmul rate the largest population's step reaches."""
    rows, reached, profiles = [], {}, {}
    rates = matmul_rate(arguments.device, arguments.quick)
    for data in ("equal rows", "complete"):
        for batch in (16,) if arguments.quick else (16, 64, 100):
            found = rows_of(data, batch, arguments)
            rows += found
            recipe = recipe_of(data, batch)
            layout = data_source(recipe).layout()
            own = [row for row in found if ", S=" in row.what][-1]
            if arguments.device == "cpu" and not arguments.quick:
                profiles[f"{data}, batch {batch}"] = shares(recipe)
            work = multiplications(recipe.config, layout.rows, layout.width)
            reached[own.what] = {
                "operations": work,
                "positions": layout.rows * layout.width,
                "share_of_matmul_rate": work / time_of(own, arguments.device).ours / max(rates.values()),
            }
    rows += [counted_row(name, arguments) for name in list(COUNTED)[: 1 if arguments.quick else None]]
    return {"rows": rows, "matmul_rate": rates, "reached": reached, "profile": profiles}


if __name__ == "__main__":
    main("step", __doc__, measure)
