"""What became of a claim: the audit's words beside its truth, and how such outcomes are counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from interp.stats import Estimate
from probes.core import clopper_pearson

Outcome = Literal["right", "false support", "missed pattern", "missed use", "undecided"]
ERRORS: tuple[Outcome, ...] = ("false support", "missed pattern", "missed use", "undecided")
OF_USE = ("used", "redundant")


@dataclass(frozen=True)
class Told:
    """A claim, its truth (`pattern`, `use`), and the audit's words. `asks`: whether the claim says that it is used.

    `cluster`: models of another name are independent of this one.
    """

    family: str
    seed: int
    cluster: str
    claim: str
    kind: str
    pattern: bool
    use: str
    asks: bool
    said_pattern: str
    said_use: str
    verdict: str
    measured: dict[str, float]

    @property
    def outcome(self) -> Outcome:
        """The first error that applies, else `right`."""
        if self._false_support:
            return "false support"
        if self.pattern and self.said_pattern == "fails":
            return "missed pattern"
        if self.pattern and self.use in OF_USE and self.said_use == "unused":
            return "missed use"
        return "undecided" if self._open else "right"

    @property
    def _false_support(self) -> bool:
        if self.said_pattern == "holds" and not self.pattern:
            return True
        if self.use != "unused":
            return False
        return self.said_use in OF_USE or (self.asks and self.verdict == "supported")

    @property
    def _open(self) -> bool:
        """Whether something that can be told was not told."""
        if self.said_pattern not in ("holds", "fails"):
            return True
        return self.pattern and self.use != "not asked" and self.said_use not in (*OF_USE, "unused")

    @property
    def at_risk(self) -> tuple[Outcome, ...]:
        """The errors that can be made about it."""
        risks: list[Outcome] = ["undecided"]
        if not self.pattern or self.use == "unused":
            risks.append("false support")
        if self.pattern:
            risks.append("missed pattern")
            if self.use in OF_USE:
                risks.append("missed use")
        return tuple(risks)

    @property
    def named(self) -> bool | None:
        """Of a head that attends as claimed and is of no use: whether the audit says both."""
        if not (self.pattern and self.use == "unused"):
            return None
        return self.said_pattern == "holds" and self.said_use == "unused"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        truth = {"pattern": self.pattern, "use": self.use}
        said = {"pattern": self.said_pattern, "use": self.said_use, "verdict": self.verdict}
        return {
            "family": self.family, "seed": self.seed, "claim": self.claim, "kind": self.kind, "truth": truth,
            "said": said, "outcome": self.outcome, "measured": {k: round(v, 4) for k, v in self.measured.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class Rate:
    """One kind of error. `claims` of `of` have it, the claims about which it can be made.

    `share`: of the independent models that have such claims, those with the error in one of them at least, with its
    two-sided Clopper-Pearson interval: claims about one model stand and fall together, so that models are counted.
    """

    claims: int
    of: int
    share: Estimate

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "claims": self.claims, "of": self.of, "models": self.share.n, "share": self.share.value,
            "low": self.share.low, "high": self.share.high,
        }  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The claims of one family and kind (None: of all).

    `right`: claims without an error. `named` of `nameable`: decoys and idle heads called so. `spare`: claims whose head
    is used and was called redundant, which is no error here.
    """

    family: str | None
    kind: str | None
    claims: int
    models: int
    right: int
    named: int
    nameable: int
    spare: int
    rates: dict[Outcome, Rate]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "family": self.family, "kind": self.kind, "claims": self.claims, "models": self.models,
            "right": self.right, "named": [self.named, self.nameable], "used_called_redundant": self.spare,
            "errors": {name: rate.to_dict() for name, rate in self.rates.items()},
        }  # fmt: skip


def rate(told: Sequence[Told], error: Outcome) -> Rate:
    """How often an error was made about claims that it can be made about."""
    mine = [t for t in told if error in t.at_risk]
    wrong = {t.cluster for t in mine if t.outcome == error}
    everyone = {t.cluster for t in mine}
    count = sum(t.outcome == error for t in mine)
    if not everyone:
        return Rate(0, 0, Estimate.undefined("no such claims", 0, "seeds"))
    return Rate(count, len(mine), clopper_pearson(len(wrong), len(everyone), over="seeds"))


def row(told: Sequence[Told], family: str | None = None, kind: str | None = None) -> Row:
    """The row of a family and kind, None for all of them."""
    mine = [t for t in told if family in (None, t.family) and kind in (None, t.kind)]
    named = [t.named for t in mine if t.named is not None]
    spare = sum(t.use == "used" and t.outcome == "right" and t.said_use == "redundant" for t in mine)
    return Row(
        family, kind, len(mine), len({t.cluster for t in mine}), sum(t.outcome == "right" for t in mine),
        sum(named), len(named), spare, {error: rate(mine, error) for error in ERRORS},
    )  # fmt: skip


def rows(told: Sequence[Told], kinds: Iterable[str]) -> list[Row]:
    """By kind, of all families together; then by family and kind, where there are any; last all."""
    families = dict.fromkeys(t.family for t in told)
    found = [row(told, None, kind) for kind in kinds]
    found += [row(told, family, kind) for family in families for kind in kinds]
    return [*(r for r in found if r.claims), row(told)]
