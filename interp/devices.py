"""Where tensors live: one spelling a device, tried out before any work."""

from typing import Any

import torch

from interp.errors import RequestError, quoted


def known_device(device: Any) -> torch.device:
    """`device` as torch's, the CPU without a number. Raises `RequestError` for what names none."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise RequestError(f"device {quoted(device)} is not usable here: {_first_line(error)}") from error
    if found.type != "cpu":
        return found
    if found.index not in (None, 0):
        raise RequestError(f"device {quoted(device)} does not exist: there is one CPU, 'cpu'")
    return torch.device("cpu")


def usable_device(device: Any) -> str:
    """The device's one spelling, after a try-out. Raises `RequestError` where it is not usable."""
    found = known_device(device)
    try:
        torch.zeros(1, device=found).tolist()
    except (RuntimeError, AssertionError, TypeError, ImportError, AttributeError) as error:
        raise RequestError(f"device {quoted(device)} is not usable here: {_first_line(error)}") from error
    return str(found)


def real_type(dtype: Any) -> torch.dtype:
    """`dtype`, or a `RequestError` for one that holds no weights: other than a floating-point type of torch."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise RequestError(f"dtype={quoted(dtype)} is not a floating-point type of torch, such as torch.float64")
    return dtype


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
