"""The stages of `probes.topics` under their older name."""

from probes.topics import Run, TwoStageResult, analyze_two_stages, rotation

__all__ = [
    "Run",
    "TwoStageResult",
    "analyze_two_stages",
    "rotation",
]
