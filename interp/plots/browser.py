"""Images drawn by a browser: a time limit, and nothing of the browser left behind."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import kaleido

SECONDS = 60.0  # an image is drawn in, start of the browser included; it takes two or three
GRACE = 10.0  # seconds that the exporter may take to notice that its browser is gone


class TooSlow(Exception):
    """The browser did not answer in time; it has been ended."""


def render(figure: dict[str, Any], options: dict[str, Any], browser: str) -> bytes:
    """Bytes of an image of `figure` (plotly's JSON); `options` as kaleido takes them: format, width, height, scale.

    Whatever happens, all processes of the browser have ended when this returns. Raises `TooSlow` after `SECONDS`, and
    the exporter's own errors.
    """
    import kaleido

    for name in ("kaleido", "choreographer"):  # what goes wrong is said once, by an error
        logging.getLogger(name).addHandler(logging.NullHandler())
    # kaleido's default loads MathJax from the network; its browser runs without a sandbox, so root may.
    exporter = kaleido.Kaleido(n=1, timeout=SECONDS, mathjax=False, path=browser)
    found: list[bytes] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(_in_time(exporter, figure, options)))
        except BaseException as error:  # told to the thread that waits
            failed.append(error)

    # A thread of its own: a notebook has a loop running in this one.
    thread = threading.Thread(target=run, daemon=True, name="interp-render")
    try:
        thread.start()
        thread.join(SECONDS + GRACE)
    finally:
        _end(exporter)
        thread.join(GRACE)
    if found:
        return found[0]
    raise failed[0] if failed else TooSlow


async def _in_time(exporter: "kaleido.Kaleido", figure: dict[str, Any], options: dict[str, Any]) -> bytes:
    async def draw() -> bytes:
        async with exporter:
            return bytes(await exporter.calc_fig(figure, opts=options))

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of tasks that the exporter forgot
    task = asyncio.ensure_future(draw())
    done, _ = await asyncio.wait({task}, timeout=SECONDS)
    if not done:  # asked to stop, the exporter would ask the browser, and wait for its answer
        _end(exporter)
        await asyncio.wait({task}, timeout=GRACE)
        raise TooSlow
    return task.result()


def _end(exporter: "kaleido.Kaleido") -> None:
    """End every process of the browser that is left: it leads a process group of its own."""
    process = getattr(exporter, "subprocess", None)
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    with contextlib.suppress(Exception):  # no zombie is left either
        process.wait(GRACE)
