"""Whole 40-seed studies: training, evaluation and the Dyck probes, one thread; and when all seeds are at 97 %.

    python benchmarks/study.py [--quick] [--device cuda]

Beside the released code of Wen et al. 2023, which needs about 37 CPU-s of steps and 397 of evaluation a seed (measured
once, elsewhere: no ratio in turn), and beside a native TransformerLens loop's steps alone, in turn, at the same batch
size. A study runs in a process of its own, so that its peak memory is its own; it is run once, since it is long.
"""

import json
import subprocess
import sys
import time
from typing import Any

import torch
from harness import Arguments, Row, Time, clock, main, peak_memory_gb
from rivals import native_model, padded, train_steps

from interp.numbers import percent
from interp.presets import make_recipe
from interp.training.run import train_population
from interp.worlds.dyck.evaluate import RULES
from probes import analyze_balance, analyze_stack_likeness, analyze_variation

GOAL = 0.97
RELEASED = {"steps": 37.0, "evaluation": 397.0}  # CPU-s a seed of the released code
STUDIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dyck-standard", {}),
    ("dyck-minimal", {}),
    ("dyck-minimal", {"compute": "counts"}),
)


def study(preset: str, options: dict[str, Any], seeds: int, steps: int | None, device: str) -> dict[str, Any]:
    """Train, evaluate and probe one population; what each part cost."""
    torch.set_num_threads(1)
    cpu, wall = time.process_time(), time.perf_counter()
    recipe = make_recipe(preset, options, steps=steps)
    population = train_population(recipe, seeds, workers=1, device=device)
    trained = time.process_time() - cpu
    probe_times = {}
    for probe in (analyze_variation, analyze_stack_likeness, analyze_balance):
        probe_times[probe.__name__] = clock(lambda p=probe: p(population), device)[0]
    whole = time.process_time() - cpu
    rows = population.final_metrics()
    worst = {rule: min(row[rule] for row in rows) for rule in RULES}
    reached = {
        step: all(row[rule] >= GOAL for row in population.history if row["step"] == step for rule in RULES)
        for step in sorted({row["step"] for row in population.history})
    }
    first = next((step for step in reached if all(ok for s, ok in reached.items() if s >= step)), None)
    return {
        "seeds": seeds,
        "steps": recipe.settings.steps,
        "batch": recipe.settings.batch,
        "cpu_s_a_seed": whole / seeds,
        "wall_s_a_seed": (time.perf_counter() - wall) / seeds,
        "training_cpu_s_a_seed": population.timing["training_cpu_s_per_seed"],
        "evaluation_cpu_s_a_seed": population.timing["evaluation_cpu_s_per_seed"],
        "other_cpu_s_a_seed": trained / seeds - sum(population.timing.values()),
        "probes_cpu_s_a_seed": {name: spent / seeds for name, spent in probe_times.items()},
        "evaluation_share": population.timing["evaluation_cpu_s_per_seed"] / (trained / seeds),
        "worst_accuracy": worst,
        "all_seeds_at_goal_from_step": first,
        "peak_memory_gb": peak_memory_gb(),
    }


def native_seconds(steps: int, batch: int, device: str) -> tuple[float, float]:
    """CPU and wall seconds of `steps` steps of a native loop."""
    recipe = make_recipe("dyck-standard", batch=batch)
    inputs, targets = (x.to(device) for x in padded(recipe, 0, range(steps)))
    model = native_model(recipe, 0, device)
    return clock(lambda: train_steps(model, inputs, targets, recipe.settings.lr), device)


def in_its_own_process(*given: Any) -> dict[str, Any]:
    """`study`, whose peak memory is then its own."""
    done = subprocess.run([sys.executable, __file__, "--study", json.dumps(given)], capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"the study {given[0]!r} ended with {done.returncode}: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(arguments: Arguments) -> dict[str, Any]:
    """A row a study: its CPU time a seed beside that of a native loop's steps alone."""
    torch.set_num_threads(1)
    seeds, steps = (2, 2) if arguments.quick else (40, None)
    some = 2 if arguments.quick else 40
    rows, studies = [], {}
    for preset, options in STUDIES[1:2] if arguments.quick else STUDIES:
        name = f"study {preset}{''.join(f', {k}={v}' for k, v in options.items())}, S={seeds}"
        before = native_seconds(some, 32, arguments.device)
        found = in_its_own_process(preset, options, seeds, steps, arguments.device)
        after = native_seconds(some, 32, arguments.device)
        times = []
        for i, own in enumerate((found["cpu_s_a_seed"], found["wall_s_a_seed"])):
            scale = found["steps"] / some
            ends = [own / (x[i] * scale) for x in (before, after)]
            reference = (before[i] + after[i]) / 2 * scale
            times.append(Time(own, reference, own / reference, min(ends), max(ends)))
        rows.append(Row(name, "a native dyck-standard loop of as many steps, steps alone", "a seed", *times, 1))
        released = sum(RELEASED.values())
        studies[name] = {**found, "released_over_ours": released / found["cpu_s_a_seed"]}
        first = found["all_seeds_at_goal_from_step"]
        when = "at no step" if first is None else f"from step {first} on"
        print(f"{name}: all seeds at {percent(GOAL)} {when}", flush=True)
    return {"rows": rows, "studies": studies, "released_cpu_s_a_seed": RELEASED, "goal": GOAL}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--study"]:
        print(json.dumps(study(*json.loads(sys.argv[2]))))
    else:
        main("study", __doc__, measure, paired=False)
