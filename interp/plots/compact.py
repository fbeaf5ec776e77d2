"""`CompactFigure`: a plotly figure whose pages carry large heatmaps rounded and compressed."""

import base64
import json
import tempfile
import webbrowser
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from interp.names import printable
from interp.plots import notebook
from interp.plots.export import PLACEHOLDER, PLOT_CONFIG, check_div_id, notebook_html, with_hash_id

PACK_FROM = 20_000  # drawn cells; below, plotly's own form is small, and exact
BUDGET = 880_000  # characters of base64 a figure
_INSIDE = ("notebook", "mimetype", "colab", "kaggle", "vscode")  # plotly's names for what shows figures in notebooks
STEPS = (255, 127, 63)  # of the root; the most that fit the budget


class CompactFigure(go.Figure):
    """A figure of equally large heatmaps. `.data` is a normal plotly figure; only its HTML is compact.

    In HTML, weights are rounded: their square root to 1/255, 1/127 or 1/63 of the largest root
    (as fine as fits into 0.9 MB; the hover says which), one byte each, causal patterns without their
    upper triangle, deflated. Images are drawn from the exact weights.
    """

    def __repr__(self) -> str:
        """One line. `print` shows every property, as of any of plotly's."""
        kinds = Counter(trace.type for trace in self.data)
        drawn = ", ".join(f"{n} {kind} {'trace' if n == 1 else 'traces'}" for kind, n in kinds.items()) or "no traces"
        return printable(f"<CompactFigure: {notebook.title_of(self)}; {drawn}>")

    def __str__(self) -> str:
        return str(go.Figure.__repr__(self))

    def to_html(self, *args: Any, **kwargs: Any) -> str:
        """As plotly's; heatmaps of over 20,000 cells in all are packed, and the div's id is a hash."""
        check_div_id(kwargs.get("div_id"))
        fixed = kwargs.get("div_id") is not None
        kwargs = {"config": PLOT_CONFIG, **kwargs} if not args else kwargs
        if not fixed:
            kwargs["div_id"] = PLACEHOLDER
        light, kwargs = self._light(kwargs)
        page = str(light.to_html(*args, **kwargs) if light is not None else super().to_html(*args, **kwargs))
        return page if fixed else with_hash_id(page)

    def write_html(self, file: Any, *args: Any, **kwargs: Any) -> None:
        """As plotly's, in the form of `to_html`."""
        check_div_id(kwargs.get("div_id"))
        kwargs = {"config": PLOT_CONFIG, **kwargs} if not args else kwargs
        if kwargs.get("div_id") is None:
            kwargs["div_id"] = "figure"
        light, kwargs = self._light(kwargs)
        if light is None:
            super().write_html(file, *args, **kwargs)
        else:
            light.write_html(file, *args, **kwargs)

    def show(self, renderer: str | None = None, **kwargs: Any) -> None:
        """As plotly's; large figures go to notebooks and browsers in their compact form."""
        import plotly.io as pio

        name = renderer or pio.renderers.default or ""
        inside = any(word in name for word in (*_INSIDE, "iframe"))
        opened = any(word in name for word in ("browser", "chrom", "firefox"))
        if self._light({})[0] is None or not (inside or opened):
            super().show(renderer, **kwargs)
        elif inside:
            notebook.show_figure(self)
        else:
            page = Path(tempfile.mkdtemp(prefix="interp-")) / "figure.html"
            self.write_html(page)
            webbrowser.open(page.as_uri())

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        if self._light({})[0] is None:
            return super()._repr_mimebundle_(*args, **kwargs)
        return {"text/html": self._repr_html_()}

    def _ipython_display_(self) -> None:
        import plotly.io as pio

        name = pio.renderers.default or ""
        if notebook.in_notebook() and (not name or any(word in name for word in _INSIDE)):
            notebook.show_figure(self)  # with one script for all
        else:
            self.show()

    def is_packed(self) -> bool:
        """Whether its page carries weights rounded and compressed."""
        return self._light({})[0] is not None

    def _light(self, kwargs: dict[str, Any]) -> tuple[go.Figure | None, dict[str, Any]]:
        """The figure without its weights (None: nothing to pack), and `kwargs` with the script that puts them in."""
        packed = pack(self)
        if packed is None:
            return None, kwargs
        light, script = packed
        more = kwargs.get("post_script") or []
        return light, {**kwargs, "post_script": [script, *([more] if isinstance(more, str) else more)]}


def pack(fig: go.Figure) -> tuple[go.Figure, str] | None:
    """The figure without its weights, and the script that puts them in; None if that would not pay."""
    traces = [i for i, trace in enumerate(fig.data) if _is_square(trace)]
    if not traces:
        return None
    first = fig.data[traces[0]]
    size = len(first.z)
    same = (len(fig.data[i].z) == size and fig.data[i].x == first.x and fig.data[i].y == first.y for i in traces)
    if size * size * len(traces) < PACK_FROM or not all(same):
        return None
    weights = np.stack([np.asarray(fig.data[i].z, dtype=float) for i in traces])
    lower = np.tri(size, dtype=bool)
    causal = bool(np.isnan(weights[:, ~lower]).all())
    cells = weights[:, lower] if causal else weights.reshape(len(traces), -1)
    if cells.size < PACK_FROM or not np.isfinite(cells).all():
        return None
    coded = _encode(cells)
    layout = fig.layout.to_plotly_json()
    # Boxes and strips repeat from panel to panel.
    texts = {"x": list(first.x), "y": list(first.y), "shapes": layout.pop("shapes", [])}
    content = {"traces": traces, "size": size, "causal": causal, **coded, "texts": _deflated(_json(texts).encode())}
    light = go.Figure(layout=layout)
    for i, trace in enumerate(fig.data):
        plain = trace.to_plotly_json()
        if i in traces:
            plain = {key: value for key, value in plain.items() if key not in ("x", "y", "z")}
            plain["hovertemplate"] = _rounded(plain.get("hovertemplate") or "", coded["steps"])
        light.add_trace(plain)
    return light, _script().replace("$PACKED", _json(content))


def _is_square(trace: Any) -> bool:
    z = trace.z if trace.type == "heatmap" else None
    return z is not None and len(z) > 1 and len(z) == len(z[0]) and trace.x is not None and trace.y is not None


def _encode(cells: np.ndarray) -> dict[str, Any]:
    """Signed roots of `cells` [trace, cell] in whole steps, a byte each, deflated, as text."""
    largest = float(np.abs(cells).max()) or 1.0
    root = np.sign(cells) * np.sqrt(np.abs(cells) / largest)
    signed = bool((cells < 0).any())
    for steps in STEPS[signed:]:
        zero = steps if signed else 0
        codes = (np.rint(root * steps) + zero).astype(np.uint8)
        text = _deflated(codes.tobytes())
        if len(text) <= BUDGET:
            break
    return {"steps": steps, "zero": zero, "largest": largest, "bytes": text}


def _rounded(hover: str, steps: int) -> str:
    said = f"weights rounded:<br>root to 1/{steps}"
    return hover.replace("</extra>", f"<br>{said}</extra>") if "</extra>" in hover else hover


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@cache
def _script() -> str:
    return Path(__file__).with_name("compact.js").read_text(encoding="utf-8")
