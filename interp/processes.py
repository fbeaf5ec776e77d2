"""A function mapped over processes that never outlive this one: killed, interrupted or done, none is left.

The standard library's pools wait for work under way when they are interrupted, print tracebacks of every process, and
one of them waits for ever when a process is killed. (Training has workers of its own, `interp.training.pool`, which
need nothing picklable.)
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

from interp.errors import WorkerError


def spread(function: Callable[[Any], Any], jobs: Sequence[Any], workers: int) -> Generator[Any]:
    """As `map(function, jobs)`, over so many processes of one thread each (1: in this one); all must be picklable.

    An exception in one of them is raised here. Raises `WorkerError` if one is killed. Close the iterator (or exhaust
    it, or see it raise) and no process is left: `with contextlib.closing(spread(...)) as results`.
    """
    if workers == 1:
        yield from map(function, jobs)
        return
    processes: dict[Any, Any] = {}
    try:
        with _undisturbed(), _one_thread_each():
            for _ in range(workers):
                ends: Any = multiprocessing.Pipe()
                here, there = ends
                processes[here] = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
                processes[here].start()
                there.close()  # so that the end of the process is the end of `here`
        for here in processes:
            _send(here, function)
        waiting, done = iter(enumerate(jobs)), dict[int, Any]()
        busy = [here for here in processes if _give(here, waiting)]
        for number in range(len(jobs)):
            while number not in done:
                for here in wait(busy):
                    index, result = _take(here, processes[here])
                    done[index] = result
                    if not _give(here, waiting):
                        busy.remove(here)
            yield done.pop(number)
    finally:
        for process in processes.values():
            if process.pid is not None:
                process.kill()
        for here, process in processes.items():
            here.close()
            if process.pid is not None:
                process.join()
                process.close()


def _give(here: Any, waiting: Iterator[tuple[int, Any]]) -> bool:
    """Send the next job, if there is one."""
    job = next(waiting, None)
    if job is not None:
        _send(here, job)
    return job is not None


def _send(here: Any, thing: Any) -> None:
    with contextlib.suppress(OSError):  # it is dead: `_take` will say so
        here.send(thing)


def _take(here: Any, process: Any) -> tuple[int, Any]:
    try:
        index, fine, result = here.recv()
    except (EOFError, OSError) as error:
        process.join()
        raise WorkerError(f"a process that did a part of the work ended with {process.exitcode}") from error
    if not fine:
        raise result
    return index, result


def _serve(there: Any) -> None:
    """What a process does: one job after the other. It watches its parent before it loads what the function needs."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    function = there.recv()
    while True:
        index, job = there.recv()
        try:
            answer = index, True, function(job)
        except Exception as error:
            answer = index, False, error
        there.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals to end wait until every process has begun; Ctrl-C reaches none of these: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # the standard library's own helper; beginning, it would let signals through
    with _handlers_wait():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _handlers_wait() -> Iterator[None]:
    """What a signal to end does here is done afterwards.

    A mask is one thread's: the libraries' own threads take a signal that this one blocks, and Python then calls the
    handler in the main thread all the same. Elsewhere than in the main thread no handler can interrupt.
    """
    came: list[int] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(one) not in (None, signal.SIG_IGN):  # None: of another language, cannot be set again
                handlers[one] = signal.signal(one, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes begun here take one thread of the numeric libraries, unless the user says otherwise."""
    set_here = "OMP_NUM_THREADS" not in os.environ
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        yield
    finally:
        if set_here:
            del os.environ["OMP_NUM_THREADS"]
