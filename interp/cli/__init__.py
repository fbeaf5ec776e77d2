"""The command line: `interp` or `python -m interp`. Starts in milliseconds; torch is loaded when work begins."""

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from interp.cli import commands
from interp.cli.parser import make_parser
from interp.errors import InterpError
from interp.names import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 (done), 1 (the work failed) or 2 (the request was wrong). Without one: help."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no failure
    arguments = argparse.Namespace()
    try:
        out = sys.stdout  # None where nobody listens
        with _terminated_as_interrupted(), contextlib.redirect_stdout(None if out is None else _Shown(out)):
            parser = make_parser()
            arguments = parser.parse_args(argv)
            if arguments.run is None:
                parser.print_help()
                return 0
            status = int(arguments.run(arguments))
            print(end="", flush=True)  # here, where a full disk or a reader that has gone can still be told of
            return status
    except InterpError as error:
        complain(in_flags(str(error)))
        return error.exit_code
    except KeyboardInterrupt:
        # Python ends by SIGINT if the last interruption came inside an `exec` (dataclasses use it): not this process.
        exec("")
        complain(f"interrupted{_going_on(arguments)}")
        return 1
    except BrokenPipeError:  # the reader (head, less) has gone
        _settle(sys.stdout)
        return 1
    except Exception as error:  # whatever it is, a user gets one line; INTERP_DEBUG=1 shows where it came from
        if os.environ.get("INTERP_DEBUG"):
            raise
        _settle(sys.stdout)
        complain(f"the work failed: {type(error).__name__}: {error} (INTERP_DEBUG=1 shows where)")
        return 1


# What a message of the library advises in Python, as the command line has it.
_IN_FLAGS = (
    ("task_check=False", "--no-task-check"),
    (", or load it with load_foreign(..., vocab=[...]), which says what its ids mean", ""),
    ("load_foreign(..., vocab=[...])", "--model-config and --vocab"),
    ("vocab=[...]", "--vocab FILE.json"),
    (" (train_population(..., seeds=8)) or a list of models", " (interp train PRESET --seeds 8)"),
)


def in_flags(said: str) -> str:
    """A message of the library in the words of the command line."""
    for python, flags in _IN_FLAGS:
        said = said.replace(python, flags)
    return re.sub(r"pass grammar=\w+\(\.\.\.\)", "name its tokens with --vocab FILE.json", said)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A request to terminate stops the work and its workers, as Ctrl-C does, instead of this process alone."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: a second must not cut the clean-up short
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield  # whoever started this wants it to go on; and only the main thread may be told
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _going_on(arguments: argparse.Namespace) -> str:
    """What to do after an interruption: nothing is kept but training runs."""
    run = getattr(arguments, "run", None)
    if run is commands.train:
        return "; the same command with --resume continues an unfinished training run"
    return "; the same command again keeps what was trained" if run is commands.report else ""


class _Shown:
    """Standard output to which only text and ends of lines get through: names come from anybody's files."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text, keep="\n"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def complain(message: str) -> None:
    """One line on standard error, however long or broken the message."""
    line = printable(" ".join(message.split()))
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # if nobody can be told, the exit status says it still
            print(f"interp: {line if len(line) <= 1000 else line[:1000] + ' ...'}", file=sys.stderr, flush=True)
        _settle(sys.stderr)


def _settle(stream: TextIO | None) -> None:
    """If a stream cannot be written, send what is left in it nowhere: Python would fail at it once more at the end."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
