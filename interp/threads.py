"""Torch on one thread, for work made of many small operations."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block, or the function that this decorates, on one torch thread; then what was set before.

    Small operations gain nothing from a second thread, round differently with it, and on a busy machine wait
    for it several times as long as they work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
