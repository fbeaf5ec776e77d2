"""Writing files so that nothing is ever half-written."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interp.errors import OutputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it over `path` if the block succeeds.

    Raises `OutputError` when the folder does not exist or cannot be written.
    """
    path = Path(path)
    try:
        path = _target(path)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(path: str | Path) -> None:
    """Raise `OutputError` now if `path` could not be written later. Leaves nothing behind."""
    path = Path(path)
    try:
        path = _target(path)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _target(path: Path) -> Path:
    """The file that writing `path` would replace: links are followed, anything but a file is refused."""
    if path.is_symlink():
        path = path.resolve()
    if path.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: it is a folder, a file name is needed")
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {str(path)!r}: it exists and is no regular file")
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_folder(path: str | Path) -> Path:
    """Create a folder and its parents, and check that it can be written."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {str(path)!r}: {error.strerror or error}") from error
    check_writable(path / "x")
    return path
