"""The pictures of the concepts and tutorials: `python docs/pictures.py` draws them into docs/images (by a Chromium)."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from blocks import blocks
from plotly.subplots import make_subplots

from interp import load_checkpoint
from interp.plots import attention_heatmap, save_figure
from interp.stats import Estimate
from probes import analyze_balance, analyze_stack_likeness, analyze_variation

IMAGES = Path(__file__).parent / "images"
TEXT = "[[]([])]()"
MEASURED, NULL = "#0072b2", "#8a8f98"


def same_attention(name: str, title: str) -> go.Figure:
    """The pattern of a constructed model, with what the model does with it as the title."""
    figure = attention_heatmap(load_checkpoint(f"constructed/{name}"), TEXT, layer=1, overlay="stack_top")
    return figure.update_layout(title={"text": title, "font": {"size": 15}})


def against_nulls() -> go.Figure:
    """Three measured numbers, each on the scale of its nulls."""
    standard = load_checkpoint("dyck-standard")
    variation = analyze_variation(standard).variation[-1]
    stack = analyze_stack_likeness(standard)
    beta = analyze_balance(load_checkpoint("dyck-minimal"), num_inputs=20).beta
    nulls = variation.null if isinstance(variation.null, dict) else {}
    panels: list[tuple[str, Estimate, dict[str, float]]] = [
        ("attention variation", variation,
         {"random rows": nulls["uniform_simplex"], "as sharp": nulls["sharpness_matched"],
          "untrained": nulls["untrained"]}),
        ("balance violation beta", beta, {"untrained": float(beta.null), "perfect cancellation": 0.0}),
        ("stack-likeness (closers)", stack.score[-1][0],
         {"uniform head": 0.0, "all open brackets": stack.rivals["unmatched"], "perfect stack": 1.0}),
    ]  # fmt: skip
    figure = make_subplots(rows=3, cols=1, subplot_titles=[title for title, _, _ in panels], vertical_spacing=0.17)
    for row, (_, measured, beside) in enumerate(panels, start=1):
        names = ["trained", *beside]
        low, high = measured.low or 0.0, measured.high or 0.0
        figure.add_scatter(x=[measured.value], y=["trained"], mode="markers", marker={"color": MEASURED, "size": 11},
                           error_x={"type": "data", "symmetric": False, "array": [high - (measured.value or 0.0)],
                                    "arrayminus": [(measured.value or 0.0) - low]}, row=row, col=1)  # fmt: skip
        figure.add_scatter(x=list(beside.values()), y=list(beside), mode="markers", row=row, col=1,
                           marker={"color": NULL, "size": 11, "symbol": "diamond"})  # fmt: skip
        figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], row=row, col=1)
    return figure.update_layout(template="plotly_white", showlegend=False, width=760, height=620,
                                margin={"l": 160, "t": 50, "r": 30, "b": 40})  # fmt: skip


def of_tutorial(name: str) -> go.Figure:
    """The first figure of a tutorial, by the code that its page shows."""
    page, seen = IMAGES.parent / "tutorials" / f"{name}.md", dict[str, Any]()
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python" and "figure" not in seen:
            exec(compile(block.code, page.name, "exec"), seen)
    figure: go.Figure = seen["figure"]
    return figure


def main() -> None:
    """Draw all pictures."""
    titles = {"stack": "constructed/stack: reads it", "constant": "constructed/constant: ignores it"}
    for name, title in titles.items():
        save_figure(same_attention(name, title), str(IMAGES / f"pattern-{name}.png"))
    model = load_checkpoint("dyck-standard")[3]
    sharp = attention_heatmap(model, TEXT, layer=1, overlay="stack_top", null="sharpness")
    save_figure(sharp, str(IMAGES / "null-sharpness.png"))
    save_figure(against_nulls(), str(IMAGES / "nulls.png"))
    for tutorial, image in {
        "paper-figures": "paper-figure",
        "induction-over-training": "induction-over-training",
    }.items():
        save_figure(of_tutorial(tutorial), str(IMAGES / f"{image}.svg"))


if __name__ == "__main__":
    main()
