"""Load a bundled population, measure it, draw it, and edit one head. Run: python examples/first_steps.py"""

import tempfile
from pathlib import Path

import torch

from interp import load_checkpoint
from interp.plots import attention_heatmap, save_figure
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

    # A seed is a hooked model: make its last layer attend uniformly and see what the prediction loses.
    model = population[0]
    prefix = "[(())"  # the only legal closer is ]
    intact = model(prefix)[0, -1].softmax(-1)

    def even(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        visible = (pattern > 0).to(pattern.dtype)
        return visible / visible.sum(-1, keepdim=True)

    edited = model.run_with_hooks(prefix, fwd_hooks=[("blocks.1.attn.hook_pattern", even)])[0, -1].softmax(-1)
    closer = model.to_single_token("]")
    print(f"P(']' | {prefix}) = {intact[closer]:.3f}; with the last layer attending evenly {edited[closer]:.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
