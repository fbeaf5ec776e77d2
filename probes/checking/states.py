"""What an analyzer could change, of its guest and of the process, and the estimates of a result."""

import copy
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from interp.guests import is_model
from interp.population import Population


def estimates(told: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, estimate) of every estimate in a result's dict."""
    if isinstance(told, Mapping):
        if {"value", "low", "high", "n", "over"} <= set(told):
            yield place, dict(told)
        for key, value in told.items():
            yield from estimates(value, f"{place}.{key}" if place else str(key))
    elif isinstance(told, list):
        for i, value in enumerate(told):
            yield from estimates(value, f"{place}[{i}]")


def state_of(guest: Any) -> dict[str, Any]:
    """All of a guest's models that an analyzer could change: name -> value."""
    if isinstance(guest, Population):
        return {f"weight {name}": p.clone() for name, p in guest.params.items()}
    if isinstance(guest, (np.ndarray, torch.Tensor)):
        return {"array": copy.deepcopy(guest)}
    if not is_model(guest):
        pairs = guest.items() if isinstance(guest, Mapping) else enumerate(guest) if isinstance(guest, list) else ()
        return {f"{name} of {key}": value for key, one in pairs for name, value in state_of(one).items()}
    found: dict[str, Any] = {}
    for name, p in guest.named_parameters():
        found |= {f"weight {name}": p.detach().clone(), f"requires_grad of {name}": p.requires_grad}
        found[f"gradient of {name}"] = None if p.grad is None else p.grad.clone()
    for name, buffer in guest.named_buffers():
        found[f"buffer {name}"] = buffer.clone()
    for name, module in guest.named_modules():
        found[f"mode of {name or 'the model'}"] = module.training
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        found[f"hooks of {name or 'the model'}"] = [len(getattr(module, kind, ()) or ()) for kind in kinds]
    return found


def globals_of() -> dict[str, Any]:
    """All of the process that an analyzer could change: name -> value."""
    return {
        "torch's random state": torch.get_rng_state(),
        "numpy's random state": [np.asarray(part) for part in np.random.get_state()],
        "Python's random state": random.getstate(),
        "the number of threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch records gradients": torch.is_grad_enabled(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "how numpy treats errors": np.geterr(),
        "the current folder": os.getcwd(),
    }


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Whatever is drawn inside, random states are afterwards what they were."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def equal(one: Any, other: Any) -> bool:
    """Whether two values of such a state are the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list) and one and isinstance(one[0], np.ndarray):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
