"""The modes of torch that a caller may have set: what is measured, trained or loaded here does not depend on them.

Importing this module loads no torch.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def ordinary_torch(gradients: bool = False) -> Iterator[None]:
    """Torch inside as it is by default; outside as the caller set it.

    No autocast, whose half precision would make coarse numbers in silence; no inference mode, whose tensors cannot be
    differentiated later; new tensors on the CPU unless a device is named. With `gradients` they are recorded, also
    under `torch.no_grad()`. The default type of numbers is the business of whoever makes tensors.
    """
    import torch

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.device("cpu"))
        for kind in ("cpu", "cuda", "mps", "xpu"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if gradients:
            stack.enter_context(torch.enable_grad())
        yield
