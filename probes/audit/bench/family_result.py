"""What the bench found in one family of claims."""

from dataclasses import dataclass
from typing import Any

from interp.stats import Estimate

# Families on which the audit once erred, and was mended: a partner must not be one that takes away what the head
# writes (cancelled); no effect is no effect, whatever a sham does, with partners ablated too (unread, for another
# task); partners may have to go two at once (any two of four); the best looking head need not be the one that is used
# (another looks better); of heads claimed together each must have a part in it (one of two idle); what stands by
# stands by for a filled-in mean, too (self-repaired).
DEVELOPED = (
    "cancelled", "unread", "for another task", "any two of four", "another looks better", "one of two idle",
    "self-repaired",
)  # fmt: skip
# Families whose own truth was not always what it said, and was corrected.
CORRECTED = ("redundant, other pattern", "another looks better")
WORDS = ("supported", "misleading", "refuted", "undecided")


def mark(developed: bool, corrected: bool) -> str:
    """* for families on which the audit was mended, † for those that were corrected themselves."""
    signs = [sign for sign, there in (("*", developed), ("†", corrected)) if there]
    return f" {' '.join(signs)}" if signs else ""


@dataclass(frozen=True)
class FamilyResult:
    """The claims of one family.

    - `verdicts`: how often each word was said. A true claim must also be found to be of use: `supported` with the use
      undecided counts as undecided here.
    - `errors`: verdicts other than `expected`, undecided included; `undecided`: those among them that are (of an
      undecidable claim: none, it is the right word). `error_rate`: with its Clopper-Pearson interval.
    - `detector_errors` among `detector_n` claims that the detector can be asked about.
    - `developed`: the audit was changed after errors in this family; `corrected`: the family itself was.
    """

    name: str
    kind: str
    expected: str
    n: int
    verdicts: dict[str, int]
    errors: int
    undecided: int
    error_rate: Estimate
    detector_n: int
    detector_errors: int
    developed: bool
    corrected: bool

    @property
    def mark(self) -> str:
        """What tables put behind the name."""
        return mark(self.developed, self.corrected)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `low` and `high` bound the rate of errors."""
        return {
            "name": self.name, "kind": self.kind, "expected": self.expected, "n": self.n, "errors": self.errors,
            "undecided": self.undecided, "low": self.error_rate.low, "high": self.error_rate.high,
            "verdicts": dict(self.verdicts), "developed": self.developed, "corrected": self.corrected,
            "detector": {"n": self.detector_n, "errors": self.detector_errors},
        }  # fmt: skip
