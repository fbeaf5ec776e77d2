"""Figures to files: offline HTML with the same bytes every time, and PNG, SVG, PDF."""

import hashlib
import itertools
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interp.checks import not_read, plain
from interp.errors import ExportError, RequestError, quoted
from interp.files import as_path, replacing, write_text
from interp.plots import browser as browsers

if TYPE_CHECKING:
    import plotly.graph_objects as go

IMAGES = (".png", ".svg", ".pdf")
ENDINGS = (".html", *IMAGES)
SCRIPT = "plotly.min.js"
# plotly.js 4 offers to send a chart to its makers' server unless told otherwise.
PLOT_CONFIG = {"responsive": True, "displaylogo": False, "showSendToCloud": False}
DEFAULT_SIZE = (900, 600)
MOST_SCALE = 20
PLACEHOLDER = "figure-id-that-becomes-a-hash"
DIV_ID = re.compile(r"[\w.:-]+")  # nothing at which an attribute or a string of a script would end
shown = itertools.count()  # figures of this process


def save_figure(
    fig: "go.Figure",
    path: str | Path,
    *,
    include_plotlyjs: Literal["inline", "directory"] | None = None,
    scale: float | None = None,
) -> Path:
    """Write `fig` by the ending of `path`: .html, .png, .svg or .pdf; return the path.

    - .html is one page that needs no network. `include_plotlyjs="inline"` (None) puts the plotly script
      (4.5 MB) in it; "directory" puts it once beside the page as plotly.min.js.
    - Images are drawn by plotly's exporter in a Chromium or Chrome: `BROWSER_PATH` if it is set,
      else one found on this machine. `scale` (2) is pixels per layout unit, for .png.

    The same figure gives the same bytes. The file appears whole or not at all.

    Raises `RequestError` (unknown ending), `WriteError` (cannot be written), `ExportError` (no browser, or one that
    does not draw an image within a minute; it is ended then, and no process of it is left).
    """
    _check_figure(fig)
    path = as_path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise RequestError(f"{str(path)!r} ends in {quoted(ending or 'nothing')}: known are {', '.join(ENDINGS)}")
    known = isinstance(include_plotlyjs, str) and include_plotlyjs in ("inline", "directory")
    if include_plotlyjs is not None and not known:
        raise RequestError(f"include_plotlyjs={quoted(include_plotlyjs)} is not 'inline' or 'directory'")
    pixels = 2.0 if scale is None else plain(scale)
    number = isinstance(pixels, (int, float)) and not isinstance(pixels, bool)
    if not number or not 0 < pixels <= MOST_SCALE:
        raise RequestError(f"scale={quoted(scale)} is not a number above 0, up to {MOST_SCALE}")
    if ending != ".html":
        not_read("it is for pages, .html", include_plotlyjs=include_plotlyjs)
    if ending != ".png":
        not_read("it is for .png", scale=scale)
    if ending in IMAGES:
        with replacing(path) as temporary:  # a path that cannot be written is refused before anything slow
            temporary.write_bytes(_image(fig, ending[1:], pixels))
        return path
    if include_plotlyjs == "directory":
        write_plotly_script(path.parent)
    write_text(path, _page(fig, include_plotlyjs or "inline"))
    return path


def figure_html(fig: "go.Figure", div_id: str | None = None) -> str:
    """`fig` as a <div> for a page that loads the plotly script itself.

    Without `div_id` the id is a hash of the figure: the same bytes every time, but a page that shows
    one figure twice must name its divs. A `div_id` is a name of letters, digits and -_.: alone.
    It is written into the page and into its script as it is.

    Raises `RequestError` for what is no plotly figure, and for any other `div_id`.
    """
    _check_figure(fig)
    check_div_id(div_id)
    page = fig.to_html(full_html=False, include_plotlyjs=False, div_id=div_id or PLACEHOLDER, config=PLOT_CONFIG)
    return str(page) if div_id else with_hash_id(page)


def notebook_html(fig: "go.Figure") -> str:
    """`fig` as a <div> that brings the plotly script (4.8 MB) along: no network, wherever HTML is shown.

    The id counts the figures of this process: one that is shown twice is drawn twice. In notebooks the script stands
    once: see `interp.plots.notebook`.
    """
    return with_hash_id(figure_page(fig, include_plotlyjs=True), f"-{next(shown)}")


def figure_page(fig: "go.Figure", include_plotlyjs: bool = False) -> str:
    """`fig` as a <div> whose id is `PLACEHOLDER`."""
    page = fig.to_html(full_html=False, include_plotlyjs=include_plotlyjs, div_id=PLACEHOLDER, config=PLOT_CONFIG)
    return str(page)


def script_tag() -> str:
    """The plotly script as a part of a page, for all figures of that page."""
    from plotly.offline import get_plotlyjs

    return f"<script>window.PlotlyConfig = {{MathJaxConfig: 'local'}};</script><script>{get_plotlyjs()}</script>"


def with_hash_id(page: str, ending: str = "") -> str:
    """`page` with `PLACEHOLDER` replaced by a hash of itself."""
    return page.replace(PLACEHOLDER, f"figure-{hashlib.sha256(page.encode()).hexdigest()[:12]}{ending}")


def write_plotly_script(folder: Path) -> Path:
    """Put plotly.min.js into `folder` for the pages there to share; an equal one is left alone."""
    from plotly.offline import get_plotlyjs

    path, script = folder / SCRIPT, get_plotlyjs().encode()
    if not path.is_file() or path.read_bytes() != script:
        _write_bytes(path, script)
    return path


def find_browser() -> str | None:
    """Path of a Chromium or Chrome: `BROWSER_PATH` if set, else what plotly's exporter finds, or None."""
    if chosen := os.environ.get("BROWSER_PATH"):
        return shutil.which(chosen)
    try:
        from choreographer.browsers.chromium import Chromium
    except ImportError:  # it comes with kaleido
        return None
    return Chromium.find_browser(skip_local=False)


def check_div_id(div_id: Any) -> None:
    """Raise `RequestError` for an id that could not stand in a page as it is."""
    if div_id is not None and (not isinstance(div_id, str) or not DIV_ID.fullmatch(div_id)):
        raise RequestError(
            f"div_id={quoted(div_id)} is not a name for a part of a page: use letters, digits and -_.: alone"
        )


def _check_figure(fig: Any) -> None:
    import plotly.graph_objects as go

    if not isinstance(fig, go.Figure):
        raise RequestError(
            f"{quoted(fig)} is not a plotly figure: pass what attention_heatmap or result.figure() gives"
        )


def _write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _page(fig: "go.Figure", include_plotlyjs: str) -> str:
    from plotly.offline import get_plotlyjs

    inline = include_plotlyjs == "inline"
    script = f"<script>{get_plotlyjs()}</script>" if inline else f'<script src="{SCRIPT}"></script>'
    title = re.sub(r"<br><su[bp]>.*|<[^>]*>", " ", fig.layout.title.text or "figure").strip()
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n{script}\n</head>\n<body>\n{figure_html(fig, 'figure')}\n</body>\n</html>\n"
    )


def _image(fig: "go.Figure", kind: str, scale: float) -> bytes:
    try:
        import kaleido  # noqa: F401 - is it there?
    except ImportError as error:
        raise ExportError(f".{kind} needs the package kaleido: pip install 'kaleido>=1'") from error
    browser = find_browser()
    if browser is None:
        tried = os.environ.get("BROWSER_PATH")
        found = f"BROWSER_PATH={tried!r} is not a program" if tried else "none was found"
        raise ExportError(
            f".{kind} is drawn by a browser and {found}: install chromium "
            "(apt install chromium, or run plotly_get_chrome), or set BROWSER_PATH; .html needs none"
        )
    drawing = fig.to_dict()
    for i, trace in enumerate(drawing["data"]):
        trace["uid"] = f"t{i}"  # plotly.js would draw one at random and write it into the file
    size = {
        "width": fig.layout.width or DEFAULT_SIZE[0],
        "height": fig.layout.height or DEFAULT_SIZE[1],
        "scale": scale if kind == "png" else 1,
    }
    try:
        data = browsers.render(drawing, {"format": kind, **size}, browser)
    except browsers.TooSlow as error:
        raise ExportError(
            f"{quoted(browser)} did not draw the .{kind} within {browsers.SECONDS:g} s and was ended: set BROWSER_PATH "
            "to another Chromium or Chrome; .html needs none"
        ) from error
    except Exception as error:  # kaleido and choreographer share no base class
        said = next((part for part in error.args if isinstance(part, str)), str(error))
        reason = said.strip().split("\n")[0] or type(error).__name__
        raise ExportError(f"{quoted(browser)} could not draw the .{kind}: {reason}") from error
    return _without_chance(data, kind)


def _without_chance(data: bytes, kind: str) -> bytes:
    """The same image without what differs between two runs: plotly's id in .svg, dates in .pdf."""
    if kind == "svg" and (found := re.search(rb'id="defs-([0-9a-f]{6})"', data)):
        return re.sub(rb"(?<!#)" + found[1], b"figure", data)  # after # it would be a colour
    if kind == "pdf":
        # Same length, since a .pdf holds byte offsets.
        return re.sub(rb"(?<=Date \(D:)\d{14}", b"20000101000000", data)
    return data
