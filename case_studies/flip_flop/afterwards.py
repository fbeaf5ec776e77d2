"""What was asked after the first look at the numbers, and decides nothing that was named beforehand.

Whether a look tells more than the model's own errors do, of the same seeds; in how many seeds a head leaves the last
write after it attended to it; how many seeds would be without an error had fewer reads been asked; and what lessens
errors, over all seeds of an arm and not over those that an answer of theirs has chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import fisher_exact

from case_studies.corrections import Comparison, compared, corrected
from case_studies.flip_flop.measure import OWN, Found, Measured
from case_studies.flip_flop.paired import auroc_difference
from case_studies.flip_flop.predict import LAWS, auroc, faulty
from interp.stats import Estimate, clopper_pearson, holm

LOOKS = ("mass", "top1", "far", "entropy")  # of `SCORES`, those of a head


@dataclass(frozen=True)
class Versus:
    """A look at a head against the errors on training's law, at the same faulty seeds.

    - `look`: its AUROC with the sign that makes it the larger, `turned` if less of the score is better: a choice on
      these very seeds, in the look's favour. `errors`: the AUROC of the errors. `apart`: look less errors, paired.
    """

    look: Estimate
    turned: bool
    errors: Estimate
    apart: Comparison

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        told = {"look": self.look.to_dict(), "turned": self.turned, "errors": self.errors.to_dict()}
        return {**told, "apart": self.apart.to_dict()}


def versus_errors(measured: Sequence[Measured]) -> dict[str, Versus]:
    """Every look at a head, arm and law; the differences are corrected together (Holm)."""
    found: dict[str, tuple[Estimate, bool, Estimate]] = {}
    differences = []
    for m in measured:
        for law, words in LAWS.items():
            for name in LOOKS if m.scores else ():
                bad, own, score = faulty(m.errors(law)), -m.errors(OWN), m.scores[name]
                turned = (auroc(score, bad).value or 0.0) < 0.5
                score = -score if turned else score
                key = f"{m.arm.family.name}, {words}: {name}"
                found[key] = auroc(score, bad), turned, auroc(own, bad)
                differences.append(compared(key, partial(auroc_difference, score, own, bad)))
    apart = corrected(differences)
    return {key: Versus(*parts, apart[key]) for key, parts in found.items()}


def attention(m: Measured) -> dict[str, Estimate]:
    """Shares of seeds by what the last layer's heads do as the gap grows; heads are not told apart by their index.

    - `kept`: some head attends to the last write at every gap. `left`: some head does at the shortest gap and at a
      longer one no more; `left_within`: at a gap that strings of training have. `none_kept`: no head does at every gap.
    """
    first = [failing.each for failing in m.drift.failing[-1]]  # [head][seed]
    gaps, seeds = m.drift.gaps, len(first[0])
    kept = [any(head[i] is None for head in first) for i in range(seeds)]
    later = [[head[i] for head in first if head[i] not in (None, gaps[0])] for i in range(seeds)]
    within = [any(gap is not None and gap < m.drift.trained_length for gap in one) for one in later]
    counted = {"kept": sum(kept), "none_kept": seeds - sum(kept), "left": sum(map(bool, later))}
    counted["left_within"] = sum(within)
    return {name: clopper_pearson(number, seeds, over="seeds") for name, number in counted.items()}


def faultless_at(m: Measured, law: str, reads: int) -> float:
    """Of how many seeds no error would be expected to be seen among `reads` of those that were asked, drawn at random.

    Of N reads with k errors the chance is C(N - k, n) / C(N, n).
    """
    asked = m.glitches.reads[law]
    wrong = np.rint(m.errors(law) * asked)
    left = asked - reads
    possible = wrong <= left
    k = wrong[possible]
    logs = gammaln(left + 1) - gammaln(left - k + 1) + gammaln(asked - k + 1) - gammaln(asked + 1)
    return float(np.exp(logs).sum())


def faultless(m: Measured) -> Estimate:
    """Share of all seeds without an error on any law."""
    clean = np.all([m.errors(law) == 0 for law in m.glitches.errors], axis=0)
    return clopper_pearson(int(clean.sum()), len(clean), over="seeds")


def lstms_faultless(found: Found) -> Estimate:
    """Share of LSTMs without an error on any law."""
    clean = [all(one.errors == 0 for one in each.values()) for each in found.lstms]
    return clopper_pearson(sum(clean), len(clean), over="seeds")


def right(m: Measured, law: str = OWN) -> Estimate:
    """Share of all seeds without an error on one law."""
    return clopper_pearson(int((m.errors(law) == 0).sum()), len(m.population), over="seeds")


@dataclass(frozen=True)
class Shares:
    """Two shares of seeds, taken as independent, with Fisher's exact p, and Holm's over all that were asked."""

    one: Estimate
    other: Estimate
    p: float
    adjusted: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"one": self.one.to_dict(), "other": self.other.to_dict(), "p": self.p, "adjusted": self.adjusted}


def shares(base: Measured, others: Sequence[Measured], pair: tuple[str, str]) -> dict[tuple[str, str], Shares]:
    """Every other arm against the base, by the shares of all seeds without an error on training's law and on any, and
    the `pair` of arms against each other by the latter; by (arm, law)."""
    by_name = {m.arm.family.name: m for m in others}
    asked = {
        (name, words): (share(m), share(base))
        for words, share in (("training's law", right), ("any law", faultless))
        for name, m in by_name.items()
    }
    if all(name in by_name for name in pair):
        asked[f"{pair[0]} against {pair[1]}", "any law"] = faultless(by_name[pair[0]]), faultless(by_name[pair[1]])
    p = [fisher(one, other) for one, other in asked.values()]
    return {
        key: Shares(*both, each, float(adjusted))
        for (key, both), each, adjusted in zip(asked.items(), p, holm(p), strict=True)
    }


def fisher(one: Estimate, other: Estimate) -> float:
    """Two-sided exact p-value of two shares being one."""
    rows = [[round((e.value or 0.0) * e.n), e.n - round((e.value or 0.0) * e.n)] for e in (one, other)]
    return float(fisher_exact(np.array(rows))[1])
