"""Pictures. Importing this package loads neither plotly nor torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interp.plots.curves import learning_curves
    from interp.plots.export import figure_html, save_figure
    from interp.plots.heatmap import attention_heatmap

__all__ = ["attention_heatmap", "figure_html", "learning_curves", "save_figure"]

_HOME = {
    "attention_heatmap": "interp.plots.heatmap",
    "figure_html": "interp.plots.export",
    "learning_curves": "interp.plots.curves",
    "save_figure": "interp.plots.export",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
