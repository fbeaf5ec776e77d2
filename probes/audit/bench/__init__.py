"""How often the audit is wrong: claims about models whose truth is known by construction."""

from probes.audit.bench.cases import VERDICT, Case, make_case
from probes.audit.bench.digest import auditor
from probes.audit.bench.families import FAMILIES
from probes.audit.bench.family_result import CORRECTED, DEVELOPED, WORDS, FamilyResult
from probes.audit.bench.run import PER_FAMILY, BenchResult, named, run_bench

__all__ = [
    "CORRECTED",
    "DEVELOPED",
    "FAMILIES",
    "PER_FAMILY",
    "VERDICT",
    "WORDS",
    "BenchResult",
    "Case",
    "FamilyResult",
    "auditor",
    "make_case",
    "named",
    "run_bench",
]
