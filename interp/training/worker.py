"""One worker process: `python -m interp.training.worker FOLDER CHUNK`. Prints seed-steps done.

Standard input is a pipe that ends when the process that started this one does: nobody is left to train for then.
"""

import contextlib
import os
import sys
import threading
from pathlib import Path


def main(folder: str, index: str) -> None:
    """Train one chunk of the plan in `folder`."""
    threading.Thread(target=_end_with_parent, daemon=True).start()  # before torch, which takes seconds to load
    from interp.errors import InterpError
    from interp.training.run import _Plan, run_chunk

    try:
        run_chunk(_Plan.read(Path(folder)), int(index), lambda steps: print(steps, flush=True))
    except InterpError as error:
        sys.exit(str(error))


def _end_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
