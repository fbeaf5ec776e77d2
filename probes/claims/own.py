"""Relations, conditions and questions of a user's own file, for the command line."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from interp.errors import RequestError
from interp.limits import check_regular
from interp.theirs import load_theirs
from probes.claims.sentence import Own

LISTS = ("RELATIONS", "CONDITIONS", "QUESTIONS")
MODULE = "_relations_of_the_user"  # its name among the modules


def read_own(path: Path) -> Own:
    """What a Python file defines as lists `RELATIONS`, `CONDITIONS` and `QUESTIONS`. Runs the file.

    Raises `RequestError`, in one line that names the file, where it cannot be read or run, or defines none of them.
    """
    check_regular(path, "relations")
    what = f"relations {str(path)!r}"
    module = load_theirs(lambda: _run(path), RequestError, f"{what} cannot be run")
    given = {name.lower(): getattr(module, name) for name in LISTS if hasattr(module, name)}
    if not given:
        raise RequestError(f"{what} define none of {', '.join(LISTS)}: list there what claims may say")
    own: Own = load_theirs(lambda: Own(**given).checked(), RequestError, what)
    return own


def _run(path: Path) -> Any:
    spec = spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise RequestError("its name does not end in .py")
    module: ModuleType = module_from_spec(spec)
    before, written = sys.modules.get(MODULE), sys.dont_write_bytecode
    sys.modules[MODULE] = module  # dataclasses look up the module that they are of
    sys.dont_write_bytecode = True  # nothing is left beside the user's file
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(MODULE, None)
        if before is not None:
            sys.modules[MODULE] = before
        raise
    finally:
        sys.dont_write_bytecode = written
    return module
