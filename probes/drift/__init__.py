"""Does a head go on attending to the last write as it lies further back?"""

from probes.drift.analyzer import analyze_drift
from probes.drift.result import DriftResult
from probes.drift.strings import drift_strings

__all__ = ["DriftResult", "analyze_drift", "drift_strings"]
