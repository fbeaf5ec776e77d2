"""How far do attention patterns follow the top of the stack?"""

from probes.stack.analyzer import analyze_stack_likeness
from probes.stack.figure import RIVALS
from probes.stack.result import StackResult

__all__ = [
    "RIVALS",
    "StackResult",
    "analyze_stack_likeness",
]
