"""How much memory one request may need, and how files of unknown size are read.

Whoever is about to hold arrays whose size follows from a number that a user gave says so first, with an estimate:

    check_memory("variation of 1000 models", 8 * models**2, "measure fewer models")

There is one bound for all of them, `DEFAULT_GB`, which the environment variable `INTERP_MEMORY_GB` replaces.
Imports no torch.
"""

import os
import stat
from pathlib import Path

from interp.errors import InterpError, RequestError, quoted
from interp.numbers import written_number

MEMORY_VARIABLE = "INTERP_MEMORY_GB"
DEFAULT_GB = 2.0
GB = 10**9
LEAST_WORKERS, WORKERS_A_CORE = 16, 4
JSON_COST = 30  # bytes of Python objects that a byte of JSON becomes, at the worst: "[]," is a list of 56 and a pointer


def memory_bound() -> float:
    """Bytes that one request may need. Raises `RequestError` where the environment variable is no number above 0."""
    told = os.environ.get(MEMORY_VARIABLE)
    if told is None:
        return DEFAULT_GB * GB
    bound = written_number(told) or 0.0
    if not bound > 0:
        raise RequestError(f"{MEMORY_VARIABLE}={quoted(told)} is not a number of gigabytes above 0, such as 8")
    return bound * GB


def check_memory(what: str, need: float, instead: str, error: type[InterpError] = RequestError) -> None:
    """Raise `error` if `what` would need more bytes than the bound; `instead` says how to ask for less.

    `need` is an estimate of all that is held at once, within a factor of about two.
    """
    bound = memory_bound()
    if need > bound:
        raise error(
            f"{what} would take about {in_gb(need)} of memory, and {in_gb(bound)} is the bound: {instead} "
            f"({MEMORY_VARIABLE} sets another bound)"
        )


def check_workers(workers: int) -> int:
    """`workers`, or a `RequestError` for more processes than help on this machine: each holds its own libraries."""
    most = max(LEAST_WORKERS, WORKERS_A_CORE * (os.cpu_count() or 1))
    if workers > most:
        raise RequestError(
            f"workers={workers} processes are more than {most}, {WORKERS_A_CORE} per core of this machine: one per "
            "core is best"
        )
    return workers


def in_gb(size: float) -> str:
    """A number of bytes in gigabytes, in words for whatever is beyond all machines."""
    if size >= 10**9 * GB:  # an int may be beyond floats
        return "more than a billion GB"
    return f"{size / GB:,.0f} GB" if size >= 10 * GB else f"{size / GB:.2g} GB"


def read_whole(
    path: str | Path, what: str, *, cost: float = JSON_COST, error: type[InterpError] = RequestError
) -> bytes:
    """All bytes of a regular file, which costs `cost` bytes of memory a byte, what is then made of it included.

    Anything that is no regular file (a folder, a pipe, a device) is refused without being read, and so is a file
    that would need more than the memory bound. Raises `error`, in one line that names `what` and the path.
    """
    name = repr(str(path))
    try:
        # A pipe without a writer would hold up an ordinary open for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as failed:  # ValueError: a name with a null character
        raise error(f"cannot read the {what} {name}: {getattr(failed, 'strerror', None) or failed}") from failed
    try:
        size = _size(os.fstat(handle), what, name, error)
        check_memory(f"the {what} {name} of {size / 1e6:,.0f} MB", cost * size, "give a smaller file", error)
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(size + 1)  # one more: a file of /proc says that it has none
    except OSError as failed:
        raise error(f"cannot read the {what} {name}: {failed.strerror or failed}") from failed
    finally:
        os.close(handle)
    if len(data) > size:
        raise error(f"cannot read the {what} {name}: it grows while it is read")
    return data


def check_regular(path: str | Path, what: str, error: type[InterpError] = RequestError) -> int:
    """Size in bytes of a regular file; `error` for anything else. For files that a library opens by name."""
    name = repr(str(path))
    try:
        found = os.stat(path)
    except (OSError, ValueError) as failed:
        raise error(f"cannot read the {what} {name}: {getattr(failed, 'strerror', None) or failed}") from failed
    return _size(found, what, name, error)


def _size(found: os.stat_result, what: str, name: str, error: type[InterpError]) -> int:
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((word for test, word in kinds if test(found.st_mode)), "a device")
    raise error(f"cannot read the {what} {name}: it is {kind}, no regular file")
