"""One thread a process: tests run in several processes, and more threads only fight over the cores.

Signals that the run itself was told to ignore (`make test &`, `nohup make test`) would be ignored by all programs that
the tests start, and some are started to be interrupted. A program does not inherit a handler.
"""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # the run itself goes on

import re
from collections.abc import Iterator
from typing import Any

import pytest

from refusals import own_words

_raises: Any = pytest.raises


def raises(*args: Any, **how: Any) -> Any:
    """`pytest.raises`, whose `match` must be found in the error's own words, not in those of a library it relays."""
    match = how.get("match")
    if match is not None and "check" not in how:
        how["check"] = lambda error: re.search(match, own_words(error)) is not None
    return _raises(*args, **how)


pytest.raises = raises


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; tests that need one are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from interp.plots.export import find_browser

    path = find_browser()
    if path is None:
        pytest.skip("no Chromium or Chrome found: pages cannot be looked at")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens a file in a fresh page, which at the end must have had no error and asked nothing of the network."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    complaints: list[str] = []

    def watch(page: Any) -> None:
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: complaints.append(r.url) if r.url.split(":")[0] in ("http", "https", "ws") else 0)

    def go(path: Any) -> Any:
        page = context.new_page()
        watch(page)
        page.goto(path.as_uri())
        return page

    yield go
    context.close()
    assert not complaints
