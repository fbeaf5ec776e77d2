"""Load a bundled population, measure it, draw it, and edit one head. Run: python examples/first_steps.py [FOLDER]"""

import sys
from pathlib import Path

import torch

from interp import load_checkpoint
from interp.plots import attention_heatmap, save_figure
from interp.worlds.dyck.evaluate import evaluate, held_out
from probes import analyze_variation

TEXT = "[[[[]]]](((())))"


def main(folder: Path) -> None:
    population = load_checkpoint("dyck-standard")
    print(population.summary())

    result = analyze_variation(population, TEXT)
    print(result.summary())

    page = save_figure(
        attention_heatmap(population, TEXT, population="grid", overlay="stack_top"), folder / "seeds.html"
    )
    print(f"wrote {page}")

    # A seed is a hooked model: make its last layer attend evenly and see what closing brackets loses.
    def even(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        visible = (pattern > 0).to(pattern.dtype)
        return visible / visible.sum(-1, keepdim=True)

    data, model = held_out(population.grammar, 500), population[0]
    intact = evaluate(model, population.params, data)["mass_nontrivial"]
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", even)]):
        edited = evaluate(model, population.params, data)["mass_nontrivial"]
    print("Closers that follow a closer, share right by the mass rule, a number a seed:")
    print("  as trained               ", " ".join(f"{x:.2f}" for x in intact))
    print("  last layer attends evenly", " ".join(f"{x:.2f}" for x in edited))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
