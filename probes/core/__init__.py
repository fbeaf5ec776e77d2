"""What analyzers share: the result they return, how intervals are made, how many is said."""

from interp.text import counted
from probes.core.arguments import argument_from, parts_from
from probes.core.files import (
    KEPT,
    LEFT,
    OF,
    SEVERAL,
    file_of,
    header_of_command,
    header_of_several,
    load_result,
    read_file,
    written,
)
from probes.core.intervals import (
    clopper_pearson,
    errors_over_seeds,
    jackknife,
    jackknife_pairs,
    mean_over_inputs,
    mean_over_seeds,
    t_interval,
)
from probes.core.kinds import get_kind, kind_of, ours
from probes.core.origin import Origin, recorded, release
from probes.core.plain import to_json
from probes.core.reading import LeftOut, hints
from probes.core.replaying import Replay, replay
from probes.core.result import Result, cut_short, unread_seed

__all__ = [
    "KEPT",
    "LEFT",
    "OF",
    "SEVERAL",
    "LeftOut",
    "Origin",
    "Replay",
    "Result",
    "argument_from",
    "clopper_pearson",
    "counted",
    "cut_short",
    "errors_over_seeds",
    "file_of",
    "get_kind",
    "header_of_command",
    "header_of_several",
    "hints",
    "jackknife",
    "jackknife_pairs",
    "kind_of",
    "load_result",
    "mean_over_inputs",
    "mean_over_seeds",
    "ours",
    "parts_from",
    "read_file",
    "recorded",
    "release",
    "replay",
    "t_interval",
    "to_json",
    "unread_seed",
    "written",
]
