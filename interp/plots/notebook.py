"""Figures in notebooks: plotly's script (4.8 MB) once a notebook, in JupyterLab, in VS Code and on pages made of it.

The first figure that a kernel shows is preceded by an output that holds the script, and every figure waits for it:
so a notebook of any number of figures holds it once. Where that output is gone (cleared, or its cell deleted), a figure
takes the same script from plotly's server, checked by its hash; where no script runs at all, it says what would be
seen. Beside the HTML stands plotly's own type, which VS Code, and a JupyterLab that plotly is installed beside, draw
without a script in the notebook, also in one that is not trusted.
"""

import base64
import hashlib
import html
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from interp.plots.export import figure_page, script_tag, shown, with_hash_id

if TYPE_CHECKING:
    import plotly.graph_objects as go

PLOTLY = "application/vnd.plotly.v1+json"
MOST = 2_000_000  # characters of JSON; larger figures stand in a notebook once, as HTML
# A browser sets a text of its own width unless told otherwise, and columns would not line up.
PRE = '<pre style="white-space: pre; overflow-x: auto; font-family: monospace">{}</pre>'
_carrier: dict[str, Any] = {}  # the cell whose output holds the script, and its run


def in_notebook() -> bool:
    """Whether this process is the kernel of one (and not a terminal)."""
    return getattr(_shell(), "kernel", None) is not None


def show_figure(fig: "go.Figure") -> None:
    """Display a figure in the notebook."""
    display = _display()
    if _needs_script():
        display({"text/html": script_tag(), "text/plain": "(the script that draws figures)"}, raw=True)
    display(figure_bundle(fig), raw=True)


def show_result(text: str, fig: "go.Figure") -> None:
    """Display a summary, as wide as it is, and the figure below it."""
    _display()({"text/html": PRE.format(html.escape(text)), "text/plain": text}, raw=True)
    show_figure(fig)


def figure_bundle(fig: "go.Figure") -> dict[str, Any]:
    """A figure for a notebook that holds the script: by type."""
    told = title_of(fig)
    bundle: dict[str, Any] = {"text/html": _waiting(fig, told), "text/plain": f"figure: {told}"}
    if not _packs(fig):
        plain = json.dumps(_plain(fig.to_plotly_json()), allow_nan=False)
        if len(plain) <= MOST:
            bundle[PLOTLY] = json.loads(plain)
    return bundle


def _waiting(fig: "go.Figure", told: str) -> str:
    """The figure's <div>, with a script that draws it as soon as plotly's is there."""
    page = figure_page(fig)
    before, _, rest = page.partition("<script>")
    body, _, after = rest.rpartition("</script>")
    place = re.search(r'<div id="([^"]+)"', before)
    assert place is not None
    said = f"{html.escape(told)} (a figure, drawn by a script: trust this notebook, or run it)"
    before = re.sub(r'(class="plotly-graph-div"[^>]*>)', lambda found: f"{found[0]}<em>{said}</em>", before)
    script = _WAIT % (json.dumps(place[1]), body, *_elsewhere())
    return with_hash_id(f"{before}<script>{script}</script>{after}", f"-{next(shown)}")


_WAIT = """(function () {
  const at = %s;
  let left = 20;
  const draw = () => {
    const place = document.getElementById(at);
    if (window.Plotly && place) { place.textContent = ""; %s }
    else {
      if (left-- === 0 && !document.getElementById("interp-plotly")) {
        const script = document.createElement("script");
        Object.assign(script, { id: "interp-plotly", src: %s, integrity: %s, crossOrigin: "anonymous" });
        document.head.appendChild(script);
      }
      setTimeout(draw, 250);
    }
  };
  draw();
})();"""


@cache
def _elsewhere() -> tuple[str, str]:
    """Where plotly's server has this very script, and its hash."""
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    digest = base64.b64encode(hashlib.sha256(get_plotlyjs().encode()).digest()).decode()
    return json.dumps(f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"), json.dumps(f"sha256-{digest}")


def _needs_script() -> bool:
    """Whether no cell holds the script yet, or the one that does is run again, and with it loses its outputs."""
    shell = _shell()
    cell, run = _cell(shell), getattr(shell, "execution_count", None)
    if _carrier and (cell is None or _carrier["cell"] != cell or _carrier["run"] == run):
        return False
    _carrier.update(cell=cell, run=run)
    return True


def _cell(shell: Any) -> Any:
    """The id of the cell that is run, where the notebook tells it."""
    try:
        return shell.kernel.get_parent("shell")["metadata"].get("cellId")
    except Exception:  # other kernels have no such thing
        return None


def _shell() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def _display() -> Any:
    from IPython.display import display

    return display


def _packs(fig: "go.Figure") -> bool:
    light = getattr(fig, "is_packed", None)
    return bool(light is not None and light())


def title_of(fig: "go.Figure") -> str:
    """The title as plain text on one line."""
    title = fig.layout.title.text or "figure"
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", title)).split())


def _plain(value: Any) -> Any:
    """Arrays as lists: what other versions of plotly's script read, too. What is not finite is blank."""
    if isinstance(value, dict) and "bdata" in value:
        shape = [int(n) for n in str(value.get("shape", -1)).split(",")]
        return _plain(np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"]).reshape(shape))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
