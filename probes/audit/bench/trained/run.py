"""`interp audit --bench trained`: the audit on models that training made.

    run_trained_bench("trained-bench", half="develop").summary()

Each model is trained (or read), its claims' truths are checked by `truth`, and all claims that passed are audited in
one call, as a user would. `docs/trained-bench.md` says what was fixed before the first audit, and what was not.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from interp.checks import one_of
from interp.errors import RequestError, quoted
from interp.files import make_folder
from interp.limits import check_workers
from interp.processes import spread
from interp.rng import check_seed
from interp.threads import one_thread
from probes.audit.analyzer import audit_claims
from probes.audit.bench.digest import auditor
from probes.audit.bench.trained.cases import JUDGE, KINDS, NEW, Family, Half, seeds_of_half
from probes.audit.bench.trained.errors import Row, Told, grouped, models_to_json, rows
from probes.audit.bench.trained.families import FAMILIES
from probes.audit.bench.trained.fresh import FRESH
from probes.audit.bench.trained.history import HISTORY, begin_run, end_run, history_path, runs_of, runs_so_far
from probes.audit.bench.trained.table import long_table, short_table, terminal, trained_figure
from probes.audit.bench.trained.truth import check_subject
from probes.core import Result, recorded

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Tally:
    """Of a family: its models; those that did not learn their task; all claims; those in the grey zone; those whose
    truth by construction the check denies; CPU seconds of the audit a claim."""

    family: str
    models: int
    unlearned: int
    claims: int
    grey: int
    contradicted: int
    seconds_per_claim: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "seconds_per_claim": round(self.seconds_per_claim, 3)}


@dataclass(frozen=True)
class TrainedResult(Result):
    """What the trained bench found. `rows`: by kind, by family and kind, and all; `families`: how many models and
    claims there were before the check, and what it dropped; `told`: every claim that was audited.

    `auditor`: the version and digest of what was asked; `judge_runs`: how often the judging half (of a result about
    fresh families: those) has been run, this time included.
    """

    TABLE: ClassVar[str] = "told"

    auditor: dict[str, str]
    half: Half
    seed: int
    judge_runs: int
    rows: tuple[Row, ...]
    families: tuple[Tally, ...]
    told: tuple[Told, ...]
    seconds_per_claim: float

    def summary(self) -> str:
        """The table by kind, for a terminal."""
        return terminal(self.to_dict())

    def table(self, long: bool = False) -> str:
        """Markdown: the table by kind; `long`: by family and kind, and what was dropped."""
        return (long_table if long else short_table)(self.to_dict())

    def figure(self) -> "go.Figure":
        """Shares of models with an error, by kind."""
        return trained_figure(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `told`: by model, how many claims came out how; `wrong`: the claims with an error, by name."""
        return {
            "auditor": dict(self.auditor), "half": self.half, "seed": self.seed, "judge_runs": self.judge_runs,
            "models": len({(t.family, t.seed) for t in self.told}), "claims": len(self.told),
            "seconds_per_claim": round(self.seconds_per_claim, 3),
            "rows": [r.to_dict() for r in self.rows], "families": [f.to_dict() for f in self.families],
            "told": models_to_json(grouped(self.told)),
            "wrong": [t.to_dict() for t in self.told if t.outcome != "right"],
        }  # fmt: skip


@recorded
def run_trained_bench(
    models: str | Path,
    half: Half = "develop",
    *,
    families: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    seed: int = 0,
    runs: str | Path | None = None,
    workers: int = 1,
    progress: bool = False,
) -> TrainedResult:
    """Audit the claims about a half's models, which are trained into the folder `models` where it lacks them.

    `half="fresh"`: families that no rule was developed on, with seeds of their own. `seeds`: fewer than the half's own.
    `seed`: of whatever the audit draws. `runs`: the file in which runs of the judging half and of fresh families are
    counted, with the auditor's digest and what came out (default: `docs/trained-bench-runs.json` of the source tree).
    Training takes about 2 CPU seconds a model, auditing about 1 a claim.

    Raises `RequestError` for families, halves and seeds that are not there, and where runs cannot be counted.
    """
    check_seed(seed)
    check_workers(workers)
    if not one_of(half, get_args(Half)):
        raise RequestError(f"half={quoted(half)} is none of {', '.join(get_args(Half))}")
    names, chosen = _names(families, FRESH if half == "fresh" else FAMILIES), _seeds(half, seeds)
    judged, asked, folder = not set(chosen).isdisjoint((*JUDGE, *NEW)), auditor(), make_folder(Path(models))
    history = history_path(runs) if judged else HISTORY
    number = begin_run(history, names, chosen, seed) if judged else 0
    count = len(runs_of(runs_so_far(history), NEW if half == "fresh" else JUDGE))
    jobs = [(name, number, str(folder), seed) for name in names for number in chosen]
    from interp.progress import progress_bar

    with closing(spread(_one, jobs, min(workers, len(jobs)))) as results:
        found = list(progress_bar(results, total=len(jobs), desc="bench", unit="model", disable=not progress))
    told = [t for one in found for t in one.told]
    tallies = [_tally(name, [one for one in found if one.family == name]) for name in names]
    spent = sum(one.seconds for one in found) / max(1, len(told))
    counted = grouped(told)
    if judged:
        end_run(history, number, counted)
    return TrainedResult(
        asked, half, seed, count, tuple(rows(counted, KINDS)), tuple(tallies), tuple(told), spent
    )  # fmt: skip


@dataclass(frozen=True)
class Checkup:
    """How the models and claims of a family stand before any audit: claims that passed, by kind and truth."""

    tally: Tally
    kept: dict[tuple[str, bool, str], int]
    least_accuracy: float | None


def check_family(name: str, models: str | Path, seeds: Iterable[int]) -> Checkup:
    """Train and truth-check a family without auditing it."""
    found: list[_Found] = []
    kept: Counter[tuple[str, bool, str]] = Counter()
    accuracies = []
    for seed in seeds:
        subject = _family(name).make(seed, make_folder(Path(models)))
        right, passed, lost = check_subject(subject, seed)
        kept.update((c.spoken.kind, c.pattern, c.use) for c in passed)
        found.append(_Found(name, (), tuple(lost), len(passed), 0.0))
        if right is not None:
            accuracies.append(right)
    return Checkup(_tally(name, found), dict(kept), min(accuracies, default=None))


# -- inside -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """Of one model: its claims, why others were dropped, and CPU seconds of the audit."""

    family: str
    told: tuple[Told, ...]
    lost: tuple[str, ...]
    passed: int
    seconds: float


def _one(job: tuple[str, int, str, int]) -> _Found:
    """Make, check and audit one model."""
    name, seed, folder, audit_seed = job
    family = _family(name)
    with one_thread():
        subject = family.make(seed, Path(folder))
        _, kept, lost = check_subject(subject, seed)
        begun, results = time.process_time(), []
        if kept:
            claims = [checked.spoken.claim for checked in kept]
            results = audit_claims(
                subject.model, claims, subject.inputs, grammar=subject.grammar, seed=audit_seed, task_check=False
            )
        seconds = time.process_time() - begun
    told = tuple(
        Told(
            name, seed, family.cluster(seed), result.claim, checked.spoken.kind, checked.pattern, checked.use,
            checked.spoken.claim.uses is not None, result.pattern, result.use, result.verdict, checked.measured,
        )
        for checked, result in zip(kept, results, strict=True)
    )  # fmt: skip
    return _Found(name, told, tuple(lost), len(kept), seconds)


def _tally(name: str, found: Sequence[_Found]) -> Tally:
    lost = Counter(why for one in found for why in one.lost)
    unlearned = sum("unlearned" in one.lost for one in found)
    claims = sum(one.passed + len(one.lost) for one in found)
    spent = sum(one.seconds for one in found) / max(1, sum(len(one.told) for one in found))
    return Tally(name, len(found), unlearned, claims, lost["grey"], lost["contradicted"], spent)


def _family(name: str) -> Family:
    return FAMILIES[name] if name in FAMILIES else FRESH[name]


def _names(families: Sequence[str] | None, known: Mapping[str, Family]) -> list[str]:
    names = list(known) if families is None else list(families)
    for name in names:
        if name not in known:
            raise RequestError(f"family {quoted(name)} is none of {', '.join(known)}")
    return names


def _seeds(half: Half, seeds: Sequence[int] | None) -> tuple[int, ...]:
    own = seeds_of_half(half)
    chosen = own if seeds is None else tuple(seeds)
    for one in chosen:
        if one not in own:
            raise RequestError(f"seed {quoted(one)} is none of half={quoted(half)}: {own[0]} to {own[-1]}")
    return chosen
