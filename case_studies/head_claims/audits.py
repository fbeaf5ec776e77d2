"""Audits of a group of models, kept in a file each, and what they add up to."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.head_claims.groups import Group, Models, statements_of
from case_studies.head_claims.moved import Job, audits_of
from case_studies.head_claims.said import VERDICTS, Statement, copying, of_options
from interp.errors import RequestError
from interp.files import make_folder, write_text
from interp.header import canonical_json
from interp.limits import read_whole
from interp.stats import REALS, SCORE, Estimate, Support, mean_over_seeds
from probes import audit_claims
from probes.audit import MOST_SEEDS, USED, AuditResult, binomial
from probes.audit.bench import auditor
from probes.claims import Claim

NUM_INPUTS, LENGTH, SEED = 400, 26, 0  # of the prefixes that an audit draws
DIRECT = "used by its direct effect alone"


@dataclass(frozen=True)
class Tally:
    """Verdicts of the seeds (of one model: of that model) on one statement.

    `verdicts`: one per seed; `population`: what they say of the population, by the audit's own rule; `floor`: the
    largest share of which so many seeds could be certain; `score`: mean over seeds, of the best option. `uses` counts
    the words on use where it was examined; `effect`: mean over the seeds where it was measured, decided or not (both
    means with 95 % intervals; of one model: over inputs, at the audit's level).
    """

    statement: Statement
    verdicts: tuple[str, ...]
    level: float
    population: str
    score: Estimate | None
    effect: Estimate | None
    uses: Mapping[str, int]

    @property
    def n(self) -> int:
        return len(self.verdicts)

    @property
    def floor(self) -> float | None:
        return binomial(self.n, self.n, self.level).low if self.n > 1 else None

    @property
    def decidable(self) -> bool:
        """Whether so many seeds, all of one verdict, would be enough for a word about such models."""
        return self.floor is None or self.floor > MOST_SEEDS

    def count(self, verdict: str) -> int:
        return self.verdicts.count(verdict)

    def share(self, verdict: str) -> Estimate | None:
        """In which share of such models, with the exact interval at the audit's level; None of one model."""
        return binomial(self.count(verdict), self.n, self.level) if self.n > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        out: dict[str, Any] = {"words": self.statement.words, "population": self.population, "n": self.n}
        out |= {"level": self.level, "floor": self.floor}
        out |= {
            name: None if e is None else e.to_dict() for name, e in (("score", self.score), ("effect", self.effect))
        }
        out |= {"uses": dict(self.uses), "seeds": "".join(v[0] for v in self.verdicts)}
        for verdict in VERDICTS:
            share = self.share(verdict)
            out[verdict] = {"count": self.count(verdict)}
            if share is not None:
                out[verdict] |= {"low": share.low, "high": share.high}
        return out


@dataclass(frozen=True)
class Audited:
    """One group: `options` holds a statement's audits (one an option), `tallies` what they add up to."""

    group: Group
    models: Models
    options: Mapping[str, tuple[AuditResult, ...]]
    tallies: Mapping[str, Tally]
    claims: int
    inputs: int
    level: float


def audit_group(group: Group, models: Models, folder: Path, quick: bool = False) -> Audited:
    """Every statement about a group (`quick`: the primary ones), as one set of claims corrected together."""
    one = models.models if hasattr(models.models, "hook_dict") else models.models[0]
    asked = [(s, s.claims(one.cfg.n_layers)) for s in statements_of(group, one.grammar, copying, quick)]
    asked = [(s, claims) for s, claims in asked if claims]
    found = iter(
        kept(group.name, models, [c for _, claims in asked for c in claims], folder, group.inputs(), grammar=None)
    )
    options = {s.name: tuple(next(found) for _ in claims) for s, claims in asked}
    first = next(iter(options.values()))[0]
    return Audited(
        group,
        models,
        options,
        {s.name: tally(s, options[s.name]) for s, _ in asked},
        first.num_claims,
        first.num_inputs,
        first.level,
    )


@cache
def asked_auditor() -> dict[str, str]:
    """The auditor that this process runs: files that change after the first look are not those it imported."""
    return auditor()


def kept(
    name: str,
    models: Models,
    claims: Sequence[Claim],
    folder: Path,
    inputs: NDArray[np.int64] | None,
    *,
    grammar: Any,
    strata: NDArray[np.int64] | None = None,
    drawn: Sequence[int] | None = None,
    job: Job | None = None,
) -> list[AuditResult]:
    """The audits of these claims, read from `folder` if they lie there, made and written otherwise.

    `drawn`: number, length and seed of the inputs that are drawn where none are given, in the place of those that hold
    everywhere else; `job`: the same audits with other thresholds, for a process of their own.

    The file's name changes with the models, the claims, the inputs and the auditor: nothing stale is ever read.
    """
    count, length, seed = drawn or (NUM_INPUTS, LENGTH, SEED)
    what = [count, length, seed] if inputs is None else [inputs.shape, hashlib.sha256(inputs.tobytes()).hexdigest()]
    key: list[Any] = [models.identity, [[*c.to_dict().values()] for c in claims], what, asked_auditor()["digest"]]
    key += [] if job is None else [dict(job.thresholds)]
    digest = hashlib.sha256(canonical_json(key).encode()).hexdigest()[:10]
    slug = "".join(c if c.isalnum() else "-" for c in name)
    path = make_folder(folder) / f"{slug}-{digest}.json"
    if job is not None and not path.is_file():
        write_text(path, json.dumps(audits_of(job), allow_nan=False))
    elif not path.is_file():
        # Untrained models are meant where they are audited.
        how: dict[str, Any] = {"seed": seed, "grammar": grammar, "progress": True, "task_check": False}
        if inputs is None:
            how |= {"num_inputs": count, "length": length}
        results = audit_claims(models.models, claims, inputs, strata=strata, **how)
        write_text(path, json.dumps([r.to_dict() for r in results], allow_nan=False))
    try:
        return [restored(row) for row in json.loads(read_whole(path, "kept audits"))]
    except (ValueError, LookupError, TypeError) as error:
        raise RequestError(f"the kept audits {str(path)!r} are damaged: remove the file to audit again") from error


def restored(row: Mapping[str, Any]) -> AuditResult:
    """An audit from its `to_dict`."""
    # What is only there where it says something (looks, what was drawn) may be missing.
    given = {f.name: row[f.name] for f in fields(AuditResult) if f.name in row or f.metadata.get("json") != "given"}
    given["looks"] = tuple(row.get("looks", ()))
    given["share"] = None if row["share"] is None else Estimate.from_dict(row["share"])
    given["heads"] = tuple((layer, head) for layer, head in row["heads"])
    given |= {name: tuple(row[name]) for name in ("evidence", "seeds")}
    return AuditResult(**given)


def tally(statement: Statement, options: Sequence[AuditResult]) -> Tally:
    """One verdict a seed from the audits of a statement's options."""
    level = options[0].level
    if not options[0].seeds:
        return _of_one(statement, options)
    rows = [[option.seeds[i] for option in options] for i in range(options[0].num_models)]
    verdicts = tuple(of_options([row["verdict"] for row in seed]) for seed in rows)
    scores = [max((r["score"] for r in seed if r["score"] is not None), default=None) for seed in rows]
    used = [r for seed in rows for r in seed if r["use"] != "not asked"]
    return Tally(
        statement,
        verdicts,
        level,
        of_seeds(verdicts, level),
        _mean(scores, SCORE),
        _mean([r["effect"] for r in used], REALS),
        dict(sorted(Counter(use_word(r["use"], r["effect"]) for r in used).items())),
    )


def use_word(use: str, effect: float | None) -> str:
    """The word on use; `used` told apart where the total effect alone would not have made it so."""
    return DIRECT if use == "used" and effect is not None and effect < USED else use


def _of_one(statement: Statement, options: Sequence[AuditResult]) -> Tally:
    """Of one model."""
    scores = [e for e in (estimate_of(option, "score") for option in options) if e is not None]
    used = [option for option in options if option.use != "not asked"]
    effects = [estimate_of(option, "effect") for option in used]
    verdict = of_options([option.verdict for option in options])
    best = max(scores, key=lambda e: e.value or 0.0, default=None)
    found = [(option.use, estimate_of(option, "effect")) for option in used]
    words = dict(sorted(Counter(use_word(use, e.value if e else None) for use, e in found).items()))
    return Tally(statement, (verdict,), options[0].level, verdict, best, effects[0] if effects else None, words)


def estimate_of(result: AuditResult, name: str) -> Estimate | None:
    """A number among an audit's evidence; None where it was not measured."""
    row = next((row for row in result.evidence if row["name"] == name), None)
    return None if row is None else Estimate.from_dict(row)


def of_seeds(verdicts: Sequence[str], level: float) -> str:
    """What seeds say of a population: as the audit has it, for statements of several options too."""
    n = len(verdicts)
    if n == 1:
        return verdicts[0]
    for word in ("supported", "misleading"):
        if (binomial(verdicts.count(word), n, level).low or 0.0) > MOST_SEEDS:
            return word
    other = n - verdicts.count("refuted")
    return "refuted" if (binomial(other, n, level).high or 1.0) < MOST_SEEDS else "undecided"


def _mean(values: Sequence[float | None], support: Support) -> Estimate | None:
    there = [v for v in values if v is not None]
    return mean_over_seeds(there, support=support) if there else None
