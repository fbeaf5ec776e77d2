"""One head in five pictures: truth, null, seeds, difference, a long text.

Run: python examples/attention_pictures.py [FOLDER]
"""

import sys
from pathlib import Path

from interp import load_checkpoint
from interp.plots import attention_heatmap, save_figure

TEXT = "[[()]]([])"


def main(folder: Path) -> None:
    population = load_checkpoint("dyck-standard")
    grammar = population.grammar
    long_text = grammar.format(grammar.sample(1, seed=0, mode="prefix", length=499)[0])
    pictures = {
        "truth": attention_heatmap(population[0], TEXT, layer=1, overlay=["stack_top", "depth"]),
        "null": attention_heatmap(population[0], TEXT, layer=1, null=["sharpness", "uniform"]),
        "spread": attention_heatmap(population, TEXT, population="sd"),
        "difference": attention_heatmap(population[0], TEXT, layer=1, minus=population[1]),
        "long": attention_heatmap(population, long_text, population="grid", overlay="depth"),
    }
    for name, figure in pictures.items():  # one plotly script for all pages
        page = save_figure(figure, folder / f"{name}.html", include_plotlyjs="directory")
        print(f"wrote {page} ({page.stat().st_size / 1e6:.2f} MB)")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    main(folder)
