"""`to_json`: anything of ours as plain JSON; `probes.core.reading` is its inverse."""

import math
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from interp.stats import Estimate
from probes.core.reading import LeftOut


def to_json(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None; what is not finite becomes None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Estimate) or hasattr(type(value), "HEADLINES"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(to_json(item) for item in value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json(value.tolist())
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, LeftOut):
        return None
    raise TypeError(f"{type(value).__name__} has no JSON form")
