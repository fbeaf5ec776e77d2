"""The stages of `probes.topics` under their older name."""

from probes.topics import TwoStageResult, analyze_two_stages, rotation

__all__ = [
    "TwoStageResult",
    "analyze_two_stages",
    "rotation",
]
