"""Masks on random networks that make them a target: one target (a lottery ticket), or two from shared matrices."""

from probes.lottery.demonstration import demonstrate_lottery_ticket
from probes.lottery.inputs import evaluation_set, random_inputs, token_inputs
from probes.lottery.measures import CONTROL_STRINGS, Control, Level, measure_level
from probes.lottery.result import LotteryResult
from probes.lottery.shared_matrix import SharedMatrixResult, demonstrate_shared_matrix
from probes.lottery.subset_sum import best_subsets, expected_error, fit_entries
from probes.lottery.target import in_double, read_target
from probes.lottery.ticket import MATRICES, foreign_entries, prune_network, sizes_used

__all__ = [
    "CONTROL_STRINGS",
    "MATRICES",
    "Control",
    "Level",
    "LotteryResult",
    "SharedMatrixResult",
    "best_subsets",
    "demonstrate_lottery_ticket",
    "demonstrate_shared_matrix",
    "evaluation_set",
    "expected_error",
    "fit_entries",
    "foreign_entries",
    "in_double",
    "measure_level",
    "prune_network",
    "random_inputs",
    "read_target",
    "sizes_used",
    "token_inputs",
]
