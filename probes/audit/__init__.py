"""Is what is said of an attention head so? Audits of claims; `probes.audit.bench` measures how often they are wrong."""

from probes.audit.analyzer import audit_claim, audit_claims
from probes.audit.labels import LabelledInput, lay_out
from probes.audit.population_rules import binomial
from probes.audit.result import AuditResult, rests_on
from probes.audit.scan import ScanResult
from probes.audit.scanner import scan_heads
from probes.audit.tables import rules_table
from probes.audit.thresholds import EVEN, MOST_SEEDS, SCORE, TOP1, UNUSED, USED

__all__ = [
    "EVEN",
    "MOST_SEEDS",
    "SCORE",
    "TOP1",
    "UNUSED",
    "USED",
    "AuditResult",
    "LabelledInput",
    "ScanResult",
    "audit_claim",
    "audit_claims",
    "binomial",
    "lay_out",
    "rests_on",
    "rules_table",
    "scan_heads",
]
