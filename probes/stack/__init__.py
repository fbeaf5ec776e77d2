"""How far do attention patterns follow the top of the stack?"""

from probes.stack.analyzer import StackResult, analyze_stack_likeness

__all__ = [
    "StackResult",
    "analyze_stack_likeness",
]
