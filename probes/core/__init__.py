"""What analyzers share: the result they return, how intervals are made, how many is said."""

from probes.core.files import KEPT, OF, SEVERAL, file_of, load_result, read_file, written
from probes.core.intervals import (
    clopper_pearson,
    jackknife,
    jackknife_pairs,
    mean_over_inputs,
    mean_over_seeds,
    t_interval,
)
from probes.core.kinds import get_kind, kind_of
from probes.core.origin import Origin, recorded
from probes.core.result import Result, to_json, unread_seed
from probes.core.wording import counted

__all__ = [
    "KEPT",
    "OF",
    "SEVERAL",
    "Origin",
    "Result",
    "clopper_pearson",
    "counted",
    "file_of",
    "get_kind",
    "jackknife",
    "jackknife_pairs",
    "kind_of",
    "load_result",
    "mean_over_inputs",
    "mean_over_seeds",
    "read_file",
    "recorded",
    "t_interval",
    "to_json",
    "unread_seed",
    "written",
]
