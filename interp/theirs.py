"""Other people's code, asked for what it declares: whatever it raises, the user gets one line. Imports no torch."""

from collections.abc import Callable
from typing import Any

from interp.errors import InterpError


def load_theirs(load: Callable[[], Any], error: type[InterpError], what: str = "") -> Any:
    """What `load()` gives. Raises `error`, beginning with `what`, for anything that it raises, a request to exit too.

    Ctrl-C alone goes on: it is the user's.
    """
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        ours = isinstance(raised, InterpError)
        told = str(raised) if ours else f"{type(raised).__name__}: {' '.join(str(raised).split())}"
        raise error(f"{what}: {told}" if what else told) from raised
