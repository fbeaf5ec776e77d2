"""The folder beside an output in which a run keeps its state, and the lock that says that somebody trains into it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interp.errors import OutputError, RequestError, WriteError, quoted
from interp.files import check_writable
from interp.training.metrics import METRICS_FILE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PLAN_FILE = "plan.json"


@dataclass(frozen=True)
class RunFolder:
    """Where a run's state lies. `lock`: the open file that holds the lock, None where there is none.

    The lock belongs to the open file: it is held until the last process that has inherited it has ended.
    """

    path: Path
    lock: int | None = None


@contextlib.contextmanager
def run_folder(out: str | Path | None, resume: bool) -> Iterator[RunFolder]:
    """The folder of a run's state, for this run alone: beside the output, or a temporary one.

    Raises `RequestError` if another process trains into it, if an unfinished run lies there and is not to be resumed,
    and if something lies there that is not a run's.
    """
    if out is None:
        with _temporary_folder() as path:
            yield RunFolder(path)
        return
    check_writable(out)
    path = Path(f"{out}.run")
    with _alone_in(path) as lock:
        _check_content(path, resume)
        try:
            yield RunFolder(path, lock)
        finally:
            with contextlib.suppress(OSError):  # a run that got nowhere leaves nothing behind
                if not any(path.glob("chunk-*")):
                    remove_run(path)


def remove_run(folder: Path) -> None:
    """Delete what a run puts into its folder, and the folder if nothing else is in it.

    The plan goes first: were it the last, a run killed in between would be trained again from the start.
    """
    with contextlib.suppress(OSError):
        (folder / PLAN_FILE).unlink(missing_ok=True)
        for path in folder.iterdir():
            if _is_ours(path):
                path.unlink(missing_ok=True)
        folder.rmdir()


def _check_content(folder: Path, resume: bool) -> None:
    try:
        there = list(folder.iterdir())
    except OSError as error:
        raise OutputError(f"cannot read the folder {str(folder)!r}: {error.strerror or error}") from error
    if there and not resume:
        raise RequestError(f"an unfinished run lies in {str(folder)!r}: resume it (--resume) or remove the folder")
    foreign = [path.name for path in there if not _is_ours(path)]
    if foreign:
        raise RequestError(f"{str(folder)!r} holds {quoted(foreign[0])}, which no run put there: name another output")


def _is_ours(path: Path) -> bool:
    """The plan, a state file, the measures, or what a killed write left of one."""
    return any(map(path.match, (PLAN_FILE, METRICS_FILE, "chunk-*.safetensors", ".chunk-*", f".{PLAN_FILE}*")))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[int | None]:
    """Make the folder and refuse a second run into it; the lock's open file.

    On Windows, and on file systems without such locks, nothing is refused.
    """
    while True:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
        if fcntl is None:
            yield None
            return
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # the run that trained here has just ended and removed it
            continue
        except OSError as error:
            raise OutputError(f"cannot read the folder {str(folder)!r}: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RequestError(f"another process is training into {str(folder)!r} right now") from error
            except OSError:  # no locks here
                yield None
                return
            if not _is_still(folder, handle):  # removed in between, as above
                continue
            yield handle
            return
        finally:
            os.close(handle)


def _is_still(folder: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        name = tempfile.mkdtemp(prefix="interp-run-")
    except OSError as error:
        raise WriteError(f"cannot make a temporary folder: {error.strerror or error}") from error
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
