"""What analyzers share: the result they return."""

from probes.core.result import Result, to_json, unread_seed

__all__ = [
    "Result",
    "to_json",
    "unread_seed",
]
