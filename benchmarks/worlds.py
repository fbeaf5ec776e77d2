"""Worlds whose heads have a known job: eight seeds trained to their target, one thread, beside a native loop's steps.

    python benchmarks/worlds.py [--quick]

The loop trains one `TransformerBridge.boot_native` model of the same shape after the other on the same batches, drawn
beforehand; drawing, evaluation and the end of training count with ours alone. The loop is timed before and after.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from harness import Arguments, Row, Time, clock, main
from rivals import native_model, train_steps

from interp.presets import Recipe, make_recipe
from interp.rng import generator
from interp.training.run import train_population

SEEDS = 8
SOME = 40  # steps of the loop that are timed, of many alike


@dataclass(frozen=True)
class Aim:
    """What a preset's seeds have to reach: `metric` of the worst at least `least`, or at most `most`, in CPU s each.

    `steps`: of what ships, where these are not the preset's.
    """

    preset: str
    seconds: float
    metric: str
    least: float | None = None
    most: float | None = None
    steps: int | None = None

    def reached(self, values: list[float]) -> bool:
        """Whether every seed is there."""
        low = self.least is None or min(values) >= self.least
        return low and (self.most is None or max(values) <= self.most)


AIMS = (
    Aim("recall", 5.0, "accuracy", least=0.99),
    Aim("facts", 5.0, "accuracy", least=0.99),
    Aim("markov", 10.0, "over_bigram", most=0.02),
    Aim("flipflop-1l1h", 5.0, "accuracy", least=0.9999, steps=1000),
    Aim("flipflop", 10.0, "accuracy", least=0.9999, steps=1000),
)


def whole(recipe: Recipe, aim: Aim, seeds: int) -> dict[str, Any]:
    """Train and evaluate one population; what it cost and what its worst seed reached."""
    cpu, wall = time.process_time(), time.perf_counter()
    population = train_population(recipe, seeds, workers=1)
    rows = population.final_metrics()
    values = [value_of(aim.metric, row) for row in rows]
    return {
        "seeds": seeds,
        "steps": recipe.settings.steps,
        "cpu_s_a_seed": (time.process_time() - cpu) / seeds,
        "wall_s_a_seed": (time.perf_counter() - wall) / seeds,
        "cpu_s_a_seed_asked": aim.seconds,
        "metric": aim.metric,
        "least": min(values),
        "largest": max(values),
        "all_seeds_there": aim.reached(values),
    }


def value_of(metric: str, row: dict[str, float]) -> float:
    """A number of one seed's last evaluation; `over_bigram`: nats of its loss above those of exact counts of pairs."""
    return row["loss"] - row["rung/bigram"] if metric == "over_bigram" else row[metric]


def native_seconds(recipe: Recipe, steps: int) -> tuple[float, float]:
    """CPU and wall seconds of `steps` steps of a native loop on batches of the recipe's world."""
    model, grammar = native_model(recipe, 0, "cpu"), recipe.grammar
    strings = [grammar.draw(generator(0, "train", step), recipe.settings.batch) for step in range(steps)]
    inputs = torch.from_numpy(np.stack(strings))
    targets = torch.from_numpy(np.stack([grammar.labels(part) for part in strings]))
    return clock(lambda: train_steps(model, inputs, targets, recipe.settings.lr), "cpu")


def measure(arguments: Arguments) -> dict[str, Any]:
    """A row a preset."""
    torch.set_num_threads(1)
    seeds, steps, some = (2, 2, 2) if arguments.quick else (SEEDS, None, SOME)
    rows, trained = [], {}
    for aim in AIMS[:1] if arguments.quick else AIMS:
        recipe = make_recipe(aim.preset, steps=steps or aim.steps)
        name = f"world {aim.preset}, S={seeds}"
        before = native_seconds(recipe, some)
        found = whole(recipe, aim, seeds)
        after = native_seconds(recipe, some)
        times = []
        for i, own in enumerate((found["cpu_s_a_seed"], found["wall_s_a_seed"])):
            scale = found["steps"] / some
            ends = [own / (x[i] * scale) for x in (before, after)]
            reference = (before[i] + after[i]) / 2 * scale
            times.append(Time(own, reference, own / reference, min(ends), max(ends)))
        rows.append(
            Row(name, "a native loop of the same shape and as many steps, steps alone", "a seed", *times, 1, 1.0)
        )
        trained[name] = found
    return {"rows": rows, "trained": trained}


if __name__ == "__main__":
    main("worlds", __doc__, measure, devices=False, paired=False)
