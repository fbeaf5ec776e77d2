"""One worker process: `python -m interp.training.worker FOLDER CHUNK`. Prints seed-steps done."""

import sys
from pathlib import Path

from interp.training.run import _Plan, run_chunk


def main(folder: str, index: str) -> None:
    """Train one chunk of the plan in `folder`."""
    run_chunk(_Plan.read(Path(folder)), int(index), lambda steps: print(steps, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
