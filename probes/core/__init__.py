"""What analyzers share: the result they return, how intervals are made, how many is said."""

from probes.core.intervals import (
    clopper_pearson,
    jackknife,
    jackknife_pairs,
    mean_over_inputs,
    mean_over_seeds,
    t_interval,
)
from probes.core.result import Result, to_json, unread_seed
from probes.core.wording import counted

__all__ = [
    "Result",
    "clopper_pearson",
    "counted",
    "jackknife",
    "jackknife_pairs",
    "mean_over_inputs",
    "mean_over_seeds",
    "t_interval",
    "to_json",
    "unread_seed",
]
