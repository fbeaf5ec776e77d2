"""Which batch size needs least work until every seed closes 97 % of brackets by every rule.

    python benchmarks/batches.py [--quick] [--device cuda]

`dyck-standard`, ten seeds, its learning rate. The rate falls to 0 over a run, so what counts is a whole run: for each
batch size runs of 6,000 strings per seed, 12,000 and so on, until one ends with every seed there. Only steps are timed.
"""

from typing import Any

from harness import Arguments, main
from study import GOAL

from interp.presets import make_recipe
from interp.training.run import train_population
from interp.worlds.dyck.evaluate import RULES

BATCHES = (8, 16, 32, 64, 100)
FEWEST, MOST = 6_000, 96_000  # strings per seed


def runs_of(batch: int, arguments: Arguments) -> list[dict[str, Any]]:
    """Runs of twice as many strings each until one suffices."""
    seeds, fewest, most = (2, 4 * batch, 4 * batch) if arguments.quick else (10, FEWEST, MOST)
    found = []
    strings = fewest
    while strings <= most:
        steps = strings // batch
        recipe = make_recipe("dyck-standard", {"eval_every": steps}, steps=steps, batch=batch)
        population = train_population(recipe, seeds, workers=1, device=arguments.device)
        final = [min(row[rule] for rule in RULES) for row in population.final_metrics()]
        found.append(
            {
                "batch": batch,
                "steps": recipe.settings.steps,
                "strings": recipe.settings.steps * batch,
                "cpu_s_a_seed": population.timing["training_cpu_s_per_seed"],
                "seeds": seeds,
                "seeds_at_goal": sum(accuracy >= GOAL for accuracy in final),
                "worst_accuracy": min(final),
            }
        )
        print(found[-1], flush=True)
        if found[-1]["seeds_at_goal"] == seeds:
            break
        strings *= 2
    return found


def measure(arguments: Arguments) -> dict[str, Any]:
    """No comparison of two programs: what each run took and reached."""
    batches = BATCHES[:1] if arguments.quick else BATCHES
    return {"runs": [run for batch in batches for run in runs_of(batch, arguments)], "goal": GOAL}


if __name__ == "__main__":
    main("batches", __doc__, measure, paired=False)
