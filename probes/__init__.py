"""Analyzers: `analyze_x(model_or_population, ...) -> XResult`, one a package, imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probes.audit import LabelledInput, audit_claim, audit_claims, scan_heads
    from probes.balance import analyze_balance
    from probes.checking import check_analyzer, check_audit
    from probes.claims import Claim, Condition, Items, Question, Relation
    from probes.core import load_result
    from probes.drift import analyze_drift
    from probes.glitches import analyze_glitches
    from probes.lottery import demonstrate_lottery_ticket, demonstrate_shared_matrix
    from probes.stack import analyze_stack_likeness
    from probes.topics import analyze_topic_blocks, analyze_two_stages
    from probes.variation import analyze_variation, share_of_origins

_HOME = {
    "Claim": "probes.claims",
    "Condition": "probes.claims",
    "Items": "probes.claims",
    "Question": "probes.claims",
    "Relation": "probes.claims",
    "LabelledInput": "probes.audit",
    "analyze_balance": "probes.balance",
    "analyze_drift": "probes.drift",
    "analyze_glitches": "probes.glitches",
    "analyze_stack_likeness": "probes.stack",
    "analyze_topic_blocks": "probes.topics",
    "analyze_two_stages": "probes.topics",
    "analyze_variation": "probes.variation",
    "check_analyzer": "probes.checking",
    "check_audit": "probes.checking",
    "demonstrate_lottery_ticket": "probes.lottery",
    "demonstrate_shared_matrix": "probes.lottery",
    "load_result": "probes.core",
    "audit_claim": "probes.audit",
    "audit_claims": "probes.audit",
    "scan_heads": "probes.audit",
    "share_of_origins": "probes.variation",
}

__all__ = [
    "Claim",
    "Condition",
    "Items",
    "LabelledInput",
    "Question",
    "Relation",
    "analyze_balance",
    "analyze_drift",
    "analyze_glitches",
    "analyze_stack_likeness",
    "analyze_topic_blocks",
    "analyze_two_stages",
    "analyze_variation",
    "audit_claim",
    "audit_claims",
    "check_analyzer",
    "check_audit",
    "demonstrate_lottery_ticket",
    "demonstrate_shared_matrix",
    "load_result",
    "scan_heads",
    "share_of_origins",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'probes' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
