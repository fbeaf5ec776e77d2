"""Bars on a terminal, few whole lines elsewhere."""

import io
import sys

import pytest

from interp import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def log(monkeypatch):
    def put(stream: io.StringIO) -> io.StringIO:
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return put


def test_a_log_gets_nothing_from_work_that_is_soon_done(log):
    stream = log(io.StringIO())
    assert list(progress.progress_bar(range(5), desc="work", unit="step")) == [0, 1, 2, 3, 4]
    assert stream.getvalue() == ""


def test_a_log_gets_whole_lines(log, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0)
    stream = log(io.StringIO())
    with progress.progress_bar(total=4, desc="work", unit="step") as bar:
        for _ in range(4):
            bar.update()
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "work: 100%, 4 of 4 step, 00:00"
    assert "\r" not in stream.getvalue()


def test_a_terminal_gets_a_bar(log):
    stream = log(Terminal())
    list(progress.progress_bar(range(3), desc="work"))
    assert "\r" in stream.getvalue()
    assert "100%" in stream.getvalue()


def test_switched_off_it_says_nothing(log):
    stream = log(Terminal())
    list(progress.progress_bar(range(3), disable=True))
    assert stream.getvalue() == ""
