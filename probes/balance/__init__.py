"""Does what a head reads depend on the matched pairs before it (the balance condition)?"""

from probes.balance.analyzer import analyze_balance, balance_tables
from probes.balance.result import BalanceResult
from probes.balance.table import BalanceTable, StateVectors, balance_table, head_states

__all__ = [
    "BalanceResult",
    "BalanceTable",
    "StateVectors",
    "analyze_balance",
    "balance_table",
    "balance_tables",
    "head_states",
]
