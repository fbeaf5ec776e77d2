"""Images from browsers that do not draw: one line in a bounded time, and no process of theirs is left."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import plotly.graph_objects as go
import pytest

from interp.cli import main
from interp.errors import ExportError
from interp.plots import browser, save_figure

pytest.importorskip("kaleido")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

# 3 and 4 are the pipes that a browser reads from and writes to.
SCRIPTS = {
    "sleeps, and has children": "sleep 1000 & sleep 1000 &\nsleep 1000",
    "does not end when asked": "trap '' TERM INT HUP PIPE\nwhile true; do sleep 1; done",
    "reads and does not answer": "cat <&3 >/dev/null",
    "answers nonsense": "while true; do printf 'nonsense\\0' >&4; sleep 0.2; done",
    "answers what was not asked": """while true; do printf '{"id": 99}\\0' >&4; sleep 0.2; done""",
}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes a browser of a script; gives a count of the processes that are left of it, told by their environment."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"

    def left():
        deadline = time.monotonic() + 60  # what was killed may need a moment to be gone
        while (found := count()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def count():
        found = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"MARK_OF_A_TEST={mark}".encode() in (process / "environ").read_bytes()
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            found += marked and state != "Z" and int(process.name) != os.getpid()
        return found

    def make(script):
        path = tmp_path / "browser"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("BROWSER_PATH", str(path))
        monkeypatch.setenv("MARK_OF_A_TEST", mark)
        monkeypatch.setattr(browser, "SECONDS", 1.0)
        monkeypatch.setattr(browser, "GRACE", 2.0)
        return left

    return make


FIGURE = go.Figure(go.Heatmap(z=[[1, 2], [3, 4]]))


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.slow
def test_a_browser_that_never_draws_is_ended_and_said_in_one_line(fake, tmp_path, capfd, kind):
    left = fake(SCRIPTS[kind])
    threads, begun = set(threading.enumerate()), time.monotonic()
    with pytest.raises(
        ExportError, match=r"did not draw the \.png within 1 s and was ended: set BROWSER_PATH"
    ) as caught:
        save_figure(FIGURE, tmp_path / "a.png")
    assert time.monotonic() - begun < 300  # it ends at all, on a machine with other work too
    assert "\n" not in str(caught.value)
    assert left() == 0
    while (more := set(threading.enumerate()) - threads) and time.monotonic() - begun < 300:
        time.sleep(0.05)  # what watched the browser ends soon after it
    assert not more
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["browser"]


@pytest.mark.slow
def test_a_browser_that_ends_at_once_is_said_in_one_line(fake, tmp_path, capfd):
    left = fake("exit 3")
    with pytest.raises(ExportError, match=r"could not draw the \.svg: ") as caught:
        save_figure(FIGURE, tmp_path / "a.svg")
    assert "\n" not in str(caught.value)
    assert left() == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_the_command_line_ends_with_status_1(fake, tmp_path, capsys):
    left = fake(SCRIPTS["sleeps, and has children"])
    assert main(["heatmap", "dyck-minimal", "--text", "()", "--out", str(tmp_path / "a.pdf")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "did not draw the .pdf within 1 s" in err
    assert left() == 0


@pytest.mark.slow
def test_an_interruption_ends_the_browser(fake, tmp_path, monkeypatch):
    left = fake(SCRIPTS["does not end when asked"])
    monkeypatch.setattr(browser, "SECONDS", 60.0)
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        save_figure(FIGURE, tmp_path / "a.png")
    timer.join()
    assert left() == 0
