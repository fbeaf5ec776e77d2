"""What became of a claim: the audit's words beside its truth, and how such outcomes are counted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    def named(self) -> bool | None:
        """Of a head that attends as claimed and is of no use: whether the audit says both."""
        if not (self.pattern and self.use == "unused"):
            return None
        return self.said_pattern == "holds" and self.said_use == "unused"

    def counted(self) -> "Counted":
        """What is counted of it."""
        spare = self.use == "used" and self.outcome == "right" and self.said_use == "redundant"
        truth = (self.kind, self.pattern, self.use)
        return Counted(self.family, self.seed, self.cluster, *truth, self.outcome, self.named, spare)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        truth = {"pattern": self.pattern, "use": self.use}
        said = {"pattern": self.said_pattern, "use": self.said_use, "verdict": self.verdict}
        return {
            "family": self.family, "seed": self.seed, "claim": self.claim, "kind": self.kind, "truth": truth,
            "said": said, "outcome": self.outcome, "measured": {k: round(v, 4) for k, v in self.measured.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """So many `claims` of one model that have one truth and one outcome: what results keep of every claim.

    `named`: as of `Told`; `spare`: the head is used and was called redundant, which is no error here.
    """

    family: str
    seed: int
    cluster: str
    kind: str
    pattern: bool
    use: str
    outcome: Outcome
    named: bool | None = None
    spare: bool = False
    claims: int = 1

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


def grouped(told: Sequence[Told]) -> list[Counted]:
    """Claims of one model, truth and outcome together, in the order in which they were told."""
    return [replace(one, claims=claims) for one, claims in Counter(t.counted() for t in told).items()]


def models_to_json(counted: Sequence[Counted]) -> list[dict[str, Any]]:
    """By model: family, seed, cluster, and how many claims of which kind and truth came out how."""
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for one in counted:
        cell = {"kind": one.kind, "pattern": one.pattern, "use": one.use, "outcome": one.outcome, "claims": one.claims}
        cell |= {} if one.named is None else {"named": one.named}
        cell |= {"spare": True} if one.spare else {}
        found.setdefault((one.family, one.seed, one.cluster), []).append(cell)
    return [
        {"family": family, "seed": seed, "cluster": cluster, "outcomes": cells}
        for (family, seed, cluster), cells in found.items()
    ]


def models_from_json(data: Iterable[Mapping[str, Any]]) -> list[Counted]:
    """What `models_to_json` wrote."""
    return [
        Counted(family=model["family"], seed=model["seed"], cluster=model["cluster"], **cell)
        for model in data
        for cell in model["outcomes"]
    ]


@dataclass(frozen=True)
class Rate:
    """One kind of error. `claims` of `of` have it, the claims about which it can be made.

    `share`: of the independent models that have such claims, those with the error in one of them at least, with its
    two-sided Clopper-Pearson interval: claims about one model stand and fall together, so that models are counted.
    """

    claims: int
    of: int
    share: Estimate

    @property
    def wrong(self) -> int:
        """How many models have it."""
        return round((self.share.value or 0.0) * self.share.n)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "claims": self.claims, "of": self.of, "models_with_it": self.wrong, "models": self.share.n,
            "share": self.share.value, "low": self.share.low, "high": self.share.high,
        }  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The claims of one family and kind (None: of all).

    `right`: claims without an error; `models`: independent ones; `faultless`: the share of them without an error of
    any kind. `named` of `nameable`: decoys and idle heads called so. `spare`: claims whose head is used and was called
    redundant, which is no error here.
    """

    family: str | None
    kind: str | None
    claims: int
    models: int
    right: int
    faultless: Estimate
    named: int
    nameable: int
    spare: int
    rates: dict[Outcome, Rate]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        clean = self.faultless
        return {
            "family": self.family, "kind": self.kind, "claims": self.claims, "models": self.models,
            "right": self.right, "named": [self.named, self.nameable], "used_called_redundant": self.spare,
            "without_error": {"share": clean.value, "low": clean.low, "high": clean.high},
            "errors": {name: rate.to_dict() for name, rate in self.rates.items()},
        }  # fmt: skip


def rate(counted: Sequence[Counted], error: Outcome) -> Rate:
    """How often an error was made about claims that it can be made about."""
    mine = [c for c in counted if error in c.at_risk]
    with_it = [c for c in mine if c.outcome == error]
    share = _share(mine, {c.cluster for c in with_it})
    return Rate(sum(c.claims for c in with_it), sum(c.claims for c in mine), share)


def row(counted: Sequence[Counted], family: str | None = None, kind: str | None = None) -> Row:
    """The row of a family and kind, None for all of them."""
    mine = [c for c in counted if family in (None, c.family) and kind in (None, c.kind)]
    right = {c.cluster for c in mine} - {c.cluster for c in mine if c.outcome != "right"}
    return Row(
        family, kind, sum(c.claims for c in mine), len({c.cluster for c in mine}),
        sum(c.claims for c in mine if c.outcome == "right"), _share(mine, right),
        sum(c.claims for c in mine if c.named), sum(c.claims for c in mine if c.named is not None),
        sum(c.claims for c in mine if c.spare), {error: rate(mine, error) for error in ERRORS},
    )  # fmt: skip


def rows(counted: Sequence[Counted], kinds: Iterable[str]) -> list[Row]:
    """By kind, of all families together; then by family and kind, where there are any; last all."""
    families, kinds = dict.fromkeys(c.family for c in counted), list(kinds)
    found = [row(counted, None, kind) for kind in kinds]
    found += [row(counted, family, kind) for family in families for kind in kinds]
    return [*(r for r in found if r.claims), row(counted)]


def of_false(counted: Sequence[Counted]) -> tuple[int, int] | None:
    """Of the false claims, whose pattern is not there: how many were refuted, how many left open. None: there are none.

    Those that are right were refuted; the others were supported.
    """
    false = [c for c in counted if not c.pattern]
    words: tuple[Outcome, ...] = ("right", "undecided")
    refuted, left = (sum(c.claims for c in false if c.outcome == word) for word in words)
    return (refuted, left) if false else None


def of_families(counted: Sequence[Counted], error: Outcome | None) -> Estimate:
    """Of the families with claims about which an error (None: any) can be made, those with it in one claim at least.

    The two-sided Clopper-Pearson interval takes families for draws from all that might have been written.
    """
    everyone = {c.family for c in counted if error is None or error in c.at_risk}
    wrong = {c.family for c in counted if c.outcome == error or (error is None and c.outcome != "right")}
    return clopper_pearson(len(wrong), len(everyone))


def _share(counted: Sequence[Counted], chosen: set[str]) -> Estimate:
    """Of the independent models of these claims, those that are chosen."""
    everyone = {c.cluster for c in counted}
    if not everyone:
        return Estimate.undefined("no such claims", 0, "seeds")
    return clopper_pearson(len(chosen), len(everyone), over="seeds")
