"""The one colour scale that all panels of a heatmap share."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from interp.plots.style import colorscale, diverging

Kind = Literal["weight", "sd", "difference"]
LINEAR_UP_TO = 64  # tokens; beyond, one even row is so pale on [0, 1] that it would vanish
ENDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
WORDS = {
    "weight": "attention weight",
    "sd": "sd of the attention weight over seeds",
    "difference": "difference of attention weights",
}


def colour_axis(matrices: Sequence[np.ndarray], kind: Kind, n: int, causal: bool, height: int) -> dict[str, Any]:
    """plotly's `coloraxis` for matrices [query, key] of `n` tokens, with a bar of at most `height` pixels."""
    linear = n <= LINEAR_UP_TO
    power = 1.0 if linear else 0.5
    end, cut = _end(np.abs(np.stack(matrices)), kind, linear, causal)
    bar: dict[str, Any] = {
        "thickness": 14, "len": min(height, 360), "lenmode": "pixels", "y": 1, "yanchor": "top", "ypad": 0,
        "outlinewidth": 0, "tickfont": {"size": 12},
        "title": {"side": "right", "font": {"size": 12}, "text": WORDS[kind]},
    }  # fmt: skip
    axis: dict[str, Any] = {"cmin": 0, "cmax": end, "colorscale": colorscale(power), "colorbar": bar}
    if not linear:
        bar["title"]["text"] += "<br>(colours follow its square root)"
    if kind == "difference":
        axis |= {"cmin": -end, "colorscale": diverging(power)}
    ticks = _ticks(end, bar["len"] / (2 if kind == "difference" else 1), linear)
    above = [f"{t:g}" for t in ticks]
    below = [f"−{text}" for text in above] if kind == "difference" else []
    above = [f"+{text}" for text in above] if kind == "difference" else above
    if cut:
        above[-1] = f"≥ {ticks[-1]:g}"
        below[-1:] = [f"≤ −{ticks[-1]:g}"] if below else []
    values = [*(-t for t in ticks[: len(below)][::-1]), 0, *ticks]
    # Blanks at the end: plotly sets the bar's title close to its tick labels.
    bar |= {"tickvals": values, "ticktext": [f"{text}\u00a0\u00a0" for text in (*below[::-1], "0", *above)]}
    return axis


def _ticks(end: float, length: float, linear: bool) -> list[float]:
    """Round numbers up to `end` whose labels do not touch on a bar of `length` pixels from 0 to `end`."""
    if linear and end in (0.5, 1.0):
        return [end * i / 5 for i in range(1, 6)]
    kept: list[float] = []
    for value in (end, *(t for t in TICKS[::-1] if t < end)):
        place = value / end * length
        if place >= 15 and (not kept or kept[-1] / end * length - place >= 15):
            kept.append(value)
    return kept[::-1]


def _end(sizes: np.ndarray, kind: Kind, linear: bool, causal: bool) -> tuple[float, bool]:
    """End of the scale, and whether anything lies above it.

    Long sequences: the 99.9 % quantile, rounded up. One cell in a row is 1 where a head is sharp, which is more than
    1 in 1,000 up to 2,000 keys: the scale then ends at 1. An even head stays visible, since only its first rows hold
    large weights.
    """
    largest = float(sizes.max())
    if linear:
        if kind == "sd":
            return 0.5 if largest <= 0.5 else 0.75, False  # two seeds, 0 and 1: .707 is the most there is
        return (1.0 if kind == "weight" else next(t for t in ENDS if t >= min(largest, 1))), False
    if causal:
        sizes = sizes[:, np.tri(sizes.shape[-1], dtype=bool)]
    quantile = np.quantile(sizes, 0.999)
    end = next(t for t in ENDS if t >= min(quantile, 1.0))
    return end, largest > end * (1 + 1e-6)
