"""`interp replay`: a result is computed again from the header of its file."""

import argparse
import os
from pathlib import Path
from typing import Any

from interp.cli.files import is_of_others
from interp.cli.flags import refuse_unread
from interp.errors import InterpError, RequestError


def replay(arguments: argparse.Namespace) -> int:
    """Compute the result of a file again. Returns 0 if it is the same, 1 if not."""
    refuse_unread(arguments)
    from probes.core import read_file
    from probes.core import replay as again

    path = Path(arguments.file)
    data = read_file(path)

    def load_part(part: Any) -> Any:
        return _load(part, path.parent, arguments.checkpoint)

    try:
        found = again(data, load_part, arguments.checkpoint)
    except InterpError as error:
        if error.exit_code != 2:
            raise
        raise RequestError(f"{str(path)!r} cannot be computed again: {error}") from error
    print(found.summary())
    return int(not found.same)


def _load(part: Any, folder: Path, named: str | None) -> Any:
    """The models of a file; one that is not where it was named may lie beside the result."""
    from interp.checkpoints import load_checkpoint
    from interp.foreign import load_foreign

    def at(name: str | None) -> Any:
        beside = None if name is None else folder / name
        return beside if name != named and beside and not os.path.exists(str(name)) and beside.exists() else name

    if is_of_others(str(at(part.file)), part.config, part.vocab):
        return load_foreign(at(part.file), at(part.config), at(part.vocab))
    return load_checkpoint(at(part.file))
