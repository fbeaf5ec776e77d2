"""Where tensors live: one spelling a device, tried out before any work."""

import torch

from interp.errors import RequestError, quoted


def usable_device(device: str | torch.device) -> str:
    """The device's one spelling, after a try-out. Raises `RequestError` where it is not usable."""
    try:
        torch.zeros(1, device=torch.device(device)).tolist()
    except (RuntimeError, AssertionError, TypeError, ImportError, AttributeError) as error:
        raise RequestError(f"device {quoted(device)} is not usable here: {str(error).splitlines()[0]}") from error
    name = str(torch.device(device))
    return "cpu" if name.startswith("cpu") else name
