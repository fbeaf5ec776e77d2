"""The verdict: one word from two findings."""

from dataclasses import dataclass

from probes.audit.rows import Pattern, Use, Verdict
from probes.claims import Claim

ANY: tuple[Use, ...] = ("used", "redundant", "unused", "undecided", "not asked")


@dataclass(frozen=True)
class VerdictRow:
    """What two findings make of a claim about attention alone, and of one that says what the head is used for."""

    pattern: Pattern
    uses: tuple[Use, ...]
    attention: Verdict
    use: Verdict


VERDICTS = (
    VerdictRow("fails", ANY, "refuted", "refuted"),
    VerdictRow("undecided", ANY, "undecided", "undecided"),
    VerdictRow("holds", ("used", "redundant"), "supported", "supported"),
    VerdictRow("holds", ("unused",), "supported", "misleading"),
    VerdictRow("holds", ("undecided", "not asked"), "supported", "undecided"),
)


def verdict_of(pattern: str, use: str, claim: Claim) -> Verdict:
    """One word from two findings.

    A claim about attention alone stands or falls with the pattern; that the model does not use it is said beside it. A
    claim of use needs the use, and one whose use is proven absent is misleading.
    """
    row = next(row for row in VERDICTS if row.pattern == pattern and use in row.uses)
    return row.attention if claim.uses is None else row.use
