"""Writing files so that nothing is ever half-written, and so that nothing is left behind for ever.

`check_writable` and `check_folder` look at a request before the work: `OutputError`, the request was wrong. Whatever
fails later, in a write, is a `WriteError`: the work failed.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interp.errors import InterpError, OutputError, WriteError, quoted

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".part"  # how the name of a file that is being written ends
# What another path on the same machine would not have cured.
_NOT_THE_PATH = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENFILE, errno.EMFILE, errno.ENOMEM}


def as_path(given: Any, what: str = "path", error: type[InterpError] = OutputError) -> Path:
    """`given` as a path. Raises `error` for anything but text and paths of text."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise error(f"{what} {quoted(given)} names no file: give text or a Path")
    return Path(text)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it over `path` if the block succeeds.

    What a killed process left of the same file is removed. Raises `WriteError` when the folder does not exist or
    cannot be written, and for an `OSError` of the block.
    """
    path = as_path(path)
    try:
        path = _target(path)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        _remove_abandoned(path)
        handle, temporary = _temporary(path)
    except OSError as error:
        raise WriteError(_said("write", path, error)) from error
    try:
        yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        raise WriteError(_said("write", path, error)) from error
    finally:
        with contextlib.suppress(OSError):  # the folder is gone, and the file with it
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _temporary(path: Path) -> tuple[int | None, Path]:
    """A new file beside `path`, locked as long as the handle is open: by that others know that it is not abandoned."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", suffix=UNFINISHED, dir=path.parent)
        if fcntl is None:  # an open file could not be renamed there
            os.close(handle)
            return None, Path(name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # taken for abandoned before it was locked, and about to be removed
            os.close(handle)
            continue
        except OSError:  # a file system without locks, where nobody removes anything
            return handle, Path(name)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # removed in between


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files of `path` that no process is writing."""
    if fcntl is None:
        return
    try:
        names = os.listdir(path.parent)
    except PermissionError:  # a folder may be written and not read
        return
    for name in names:
        if not (name.startswith(f".{path.name[:50]}.") and name.endswith(UNFINISHED)):
            continue
        with contextlib.suppress(OSError):  # another process is writing it, or was quicker
            handle = os.open(path.parent / name, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path.parent / name)
            finally:
                os.close(handle)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text in one step; what UTF-8 has not (a broken file name, quoted) is written as its escape."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def check_writable(path: str | Path) -> None:
    """Raise `OutputError` now if `path` could not be written later. Leaves nothing behind."""
    path = as_path(path)
    try:
        path = _target(path)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _refused("write", path, error) from error


def check_folder(path: str | Path) -> Path:
    """Create a folder and its parents. Raises `OutputError` if that cannot be done or it cannot be written."""
    path = as_path(path, "folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused("make the folder", path, error) from error
    check_writable(path / "x")
    return path


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """`check_folder`; if the block fails with nothing in the folder, it goes again, and the parents made for it."""
    path = as_path(path, "folder")
    made = [folder for folder in (path, *path.parents) if not os.path.exists(folder)]
    try:
        yield check_folder(path)
    except BaseException:
        with contextlib.suppress(OSError):  # something is in it
            for folder in made:
                folder.rmdir()
        raise


def make_folder(path: str | Path) -> Path:
    """The same in the middle of the work: raises `WriteError`."""
    try:
        return check_folder(path)
    except OutputError as error:
        raise WriteError(str(error)) from error


def _refused(verb: str, path: Path, error: OSError) -> OutputError:
    """The error for a path that was asked for: the work's, if the machine is to blame."""
    return (WriteError if error.errno in _NOT_THE_PATH else OutputError)(_said(verb, path, error))


def _said(verb: str, path: Path, error: OSError) -> str:
    return f"cannot {verb} {str(path)!r}: {error.strerror or error}"


def _target(path: Path) -> Path:
    """The file that writing `path` would replace: links are followed, anything but a file is an `OSError`."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no name holds a null character")
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if path.is_dir():
        raise OSError(errno.EISDIR, "it is a folder, a file name is needed")
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it exists and is no regular file")
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
