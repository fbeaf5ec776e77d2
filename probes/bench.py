"""`probes.audit.bench` under its older name."""

from probes.audit.bench import CORRECTED, DEVELOPED, FAMILIES, PER_FAMILY, WORDS, BenchResult, FamilyResult, run_bench

__all__ = [
    "CORRECTED",
    "DEVELOPED",
    "FAMILIES",
    "PER_FAMILY",
    "WORDS",
    "BenchResult",
    "FamilyResult",
    "run_bench",
]
