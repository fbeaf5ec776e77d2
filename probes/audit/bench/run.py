"""How often the audit is wrong: claims about models whose truth is known by construction.

    run_bench(per_family=72).summary()

Each family (see `families`, beside this) is a kind of truth; its claims are drawn anew from a seed, with everything
that is not the point of the family left to chance. No threshold of the audit was set by it. Some rules of the audit
were mended when families came out wrong (`DEVELOPED`); the others have never moved anything.

Beside the audit stands `transformer_lens.head_detector`, with the one threshold that serves it best on these very
claims. It has two answers only, pattern or no pattern, so every decoy is an error of it, and an undecidable claim too.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from interp.checks import whole_number
from interp.errors import RequestError, quoted
from interp.limits import check_memory, check_workers
from interp.processes import spread
from interp.rng import check_seed
from interp.threads import one_thread
from probes.audit.analyzer import audit_claim
from probes.audit.bench.cases import VERDICT, make_case
from probes.audit.bench.detector import best_threshold, detector_score
from probes.audit.bench.digest import auditor
from probes.audit.bench.families import FAMILIES
from probes.audit.bench.family_result import CORRECTED, DEVELOPED, WORDS, FamilyResult
from probes.audit.bench.figure import bench_figure, bench_summary
from probes.audit.result import AuditResult
from probes.core import Result, clopper_pearson, recorded

if TYPE_CHECKING:
    import plotly.graph_objects as go

JOB_BYTES = 2000  # of a claim waiting, and of what was found
PER_FAMILY = 72  # no error among so many bounds a rate below 5 %


@dataclass(frozen=True)
class BenchResult(Result):
    """Error rates by family. `detector_threshold`: the one that gets most of these claims right; `auditor`: the
    version and digest of what was asked."""

    TABLE: ClassVar[str] = "families"

    families: tuple[FamilyResult, ...]
    per_family: int
    seed: int
    detector_threshold: float
    auditor: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        threshold = self.detector_threshold
        return {
            "auditor": dict(self.auditor),
            "families": [family.to_dict() for family in self.families],
            "per_family": self.per_family,
            "seed": self.seed,
            "detector_threshold": threshold if np.isfinite(threshold) else None,
        }

    def summary(self) -> str:
        """The confusion table."""
        return bench_summary(self.families, self.per_family, self.seed, self.detector_threshold)

    def figure(self) -> "go.Figure":
        """The confusion table as a picture."""
        return bench_figure(self.families, self.per_family)


@recorded
def run_bench(
    per_family: int = PER_FAMILY,
    *,
    families: Sequence[str] | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: bool = False,
) -> BenchResult:
    """Audit `per_family` claims of every family (default: all of `FAMILIES`), each by itself.

    `workers`: processes, of one thread each; the result does not depend on them. Takes about 1 CPU second a claim.
    Raises `RequestError` for a family that is not there and for numbers that are none; `WorkerError` if a process is
    killed.
    """
    check_seed(seed)
    for name, value in (("per_family", per_family), ("workers", workers)):
        whole_number(name, value)
    names = _names(families)
    check_workers(workers)
    asked = auditor()  # before the work, during which files may change
    check_memory(f"a bench of {per_family} claims a family", JOB_BYTES * per_family * len(names), "give fewer")
    jobs = [(name, number, seed) for name in names for number in range(per_family)]
    from interp.progress import progress_bar

    with closing(spread(_one, jobs, min(workers, len(jobs)))) as results:
        bar = progress_bar(results, total=len(jobs), desc="bench", unit="claim", disable=not progress, leave=False)
        found = list(bar)
    threshold = _threshold([FAMILIES[name].kind for name, _, _ in jobs], [score for _, score in found])
    out = []
    for at, name in enumerate(names):
        mine = found[at * per_family : (at + 1) * per_family]
        out.append(_family(name, [word for word, _ in mine], [s for _, s in mine if s is not None], threshold))
    return BenchResult(tuple(out), per_family, seed, threshold, asked)


# -- inside -------------------------------------------------------------------------------------------------


def _names(families: Sequence[str] | None) -> list[str]:
    """The families that are asked for, each of them there."""
    if families is not None and (not isinstance(families, Iterable) or isinstance(families, (str, bytes))):
        raise RequestError(f"families={quoted(families)} is not a list of names of families")
    names = list(FAMILIES) if families is None else list(families)
    if not names:
        raise RequestError("families=[] asks for nothing: leave it out for all of them")
    known = ", ".join(map(repr, list(FAMILIES)[:8]))
    for name in names:
        if not isinstance(name, str) or name not in FAMILIES:
            raise RequestError(
                f"families={quoted(families)}: {quoted(name)} is not one of {known}, ... (probes.bench.FAMILIES)"
            )
    return names


def _threshold(kinds: Sequence[str], scores: Sequence[float | None]) -> float:
    """The detector's best threshold on the claims whose truth is known and that it can score."""
    asked = [
        (score, kind in ("true", "decoy"))
        for kind, score in zip(kinds, scores, strict=True)
        if score is not None and kind != "undecidable"
    ]
    return best_threshold(np.array([s for s, _ in asked]), np.array([t for _, t in asked], dtype=bool))


def _one(job: tuple[str, int, int]) -> tuple[str, float | None]:
    """The audit's word on one claim, and the detector's score."""
    case = make_case(*job)
    with one_thread():  # two processes would fight over a second one
        found = audit_claim(case.model, case.claim, case.given, case.task, seed=job[1], task_check=False)
        return named(found, case.kind, case.claim.uses is not None), detector_score(case)


def named(found: AuditResult, kind: str, asks_use: bool) -> str:
    """The verdict, as it is counted.

    A true claim about attention counts as supported only where its use is found too. One about a decoy is true as it is
    worded: it counts as misleading where the line says that the model does not use the head, and as undecided where it
    leaves that open.
    """
    if found.verdict != "supported":
        return found.verdict
    if kind == "true":
        return "supported" if found.use in ("used", "redundant") else "undecided"
    if kind == "decoy" and not asks_use:
        return {"unused": "misleading", "undecided": "undecided"}.get(found.use, "supported")
    return found.verdict


def _family(name: str, words: Sequence[str], scores: Sequence[float], threshold: float) -> FamilyResult:
    family = FAMILIES[name]
    expected, counts = VERDICT[family.kind], Counter(words)
    errors = len(words) - counts[expected]
    there = np.array(scores) >= threshold
    # Its "pattern" can be right of a true claim only, its "no pattern" of a false one.
    right = int(there.sum()) if family.kind == "true" else int((~there).sum()) if family.kind == "false" else 0
    return FamilyResult(
        name=name,
        kind=family.kind,
        expected=expected,
        n=len(words),
        verdicts={word: counts[word] for word in WORDS},
        errors=errors,
        undecided=0 if family.kind == "undecidable" else counts["undecided"],
        error_rate=clopper_pearson(errors, len(words)),
        detector_n=len(scores),
        detector_errors=len(scores) - right,
        developed=name in DEVELOPED,
        corrected=name in CORRECTED,
    )
