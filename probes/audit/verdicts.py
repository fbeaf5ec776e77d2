"""The verdict: one word from two findings."""

from dataclasses import dataclass

from probes.audit.rows import Finding, Pattern, Use, Verdict
from probes.claims import Claim

ANY: tuple[Use, ...] = ("used", "redundant", "unused", "undecided", "not asked")


@dataclass(frozen=True)
class VerdictRow:
    """What two findings make of a claim about attention alone, and of one that says what the head is used for."""

    pattern: Pattern
    uses: tuple[Use, ...]
    attention: Verdict
    use: Verdict
    words: str = ""  # said of a claim of use, after the reasons of both


VERDICTS = (
    VerdictRow("fails", ("used", "redundant"), "refuted", "refuted",
               "So the claim is refuted although the model uses what the head reads there: a claim of use says where a "
               "head looks, too."),
    VerdictRow("fails", ("unused", "undecided", "not asked"), "refuted", "refuted"),
    VerdictRow("undecided", ANY, "undecided", "undecided"),
    VerdictRow("holds", ("used", "redundant"), "supported", "supported"),
    VerdictRow("holds", ("unused",), "supported", "misleading"),
    VerdictRow("holds", ("undecided", "not asked"), "supported", "undecided"),
)  # fmt: skip


def verdict_of(pattern: str, use: str, claim: Claim) -> Verdict:
    """One word from two findings.

    A claim about attention alone stands or falls with the pattern; that the model does not use it is said beside it. A
    claim of use needs the use, and one whose use is proven absent is misleading.
    """
    row = row_of(pattern, use)
    return row.attention if claim.uses is None else row.use


def row_of(pattern: str, use: str) -> VerdictRow:
    """The row of the table for two findings."""
    return next(row for row in VERDICTS if row.pattern == pattern and use in row.uses)


def reason_of(pattern: Finding, use: Finding, claim: Claim) -> str:
    """Why: of the pattern, of the use, and of a claim of use what connects the two where that may surprise."""
    more = row_of(pattern.word, use.word).words if claim.uses is not None else ""
    return " ".join(filter(None, (pattern.because, use.because, more)))
