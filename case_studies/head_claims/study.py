"""`head-claims`: what the literature says of attention heads, audited over populations and on a real encoder.

Stack-like second layers, depth, type or evenness in the first (Ebrahimi et al. 2020, Yao et al. 2021, Wen et al. 2023),
copying models (Wen et al., App. B.1), constructed models whose truth is known, untrained ones; positional and
special-token claims (Clark et al. 2019) for every head of a pretrained encoder and of its randomly initialised twin.
Nothing here states a finding in advance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from case_studies.head_claims import DECLARED
from case_studies.head_claims.audits import Audited, audit_group
from case_studies.head_claims.encoder import Read, scan_encoders
from case_studies.head_claims.groups import GROUPS, Group, quick_groups
from case_studies.head_claims.report import Findings, report
from case_studies.head_claims.sensitivity import QUICK_SETTINGS, SETTINGS, Kept, Setting, sensitivity
from case_studies.study import Plan, Run, Study, Wanted
from case_studies.topics_wikipedia.corpus import check_corpus
from case_studies.topics_wikipedia.encoder import default_model

QUICK, FULL = 8, 40  # seeds of each group that is trained; eight are bundled


@dataclass(frozen=True)
class Size:
    """Seeds of what is trained, the groups, and whether the encoder is audited.

    `primary`: the primary statements alone are asked, which few seeds can decide, and bundled models serve.
    `settings`: those in which trained families (of a quick run: the bundled ones) are audited again.
    """

    seeds: int
    groups: tuple[Group, ...]
    primary: bool
    settings: tuple[Setting, ...]
    encoder: bool = True


def prepare(size: Size, groups: Sequence[Group] | None = None, encoder: bool = True) -> Size:
    """The size with other groups, and with or without the encoder; what is not installed is said here."""
    if encoder:
        default_model()
        check_corpus(None)
    return replace(size, groups=size.groups if groups is None else tuple(groups), encoder=encoder)


def populations(size: Size) -> Plan:
    """Each group's models, under its name; constructed ones need none."""
    return {
        group.name: [Wanted(group.family, size.seeds, bundled=group.bundled if size.primary else None)]
        for group in size.groups
        if group.family is not None
    }


def collect(run: Run[Size]) -> Findings:
    """Every group audited, and the encoder."""
    found = [_audited(group, run) for group in run.size.groups]
    moved = [kept for group in run.size.groups for kept in _sensitivity(group, run)]
    read = scan_encoders(run.folder / "audits", full=not run.size.primary) if run.size.encoder else None
    return Findings(found, read, max(t.n for a in found for t in a.tallies.values()), moved)


def _sensitivity(group: Group, run: Run[Size]) -> list[Kept]:
    """What becomes of a trained family's verdicts; nothing where it is audited elsewhere, or not bundled."""
    if group.family is None or group.kind not in ("dyck", "copying") or group.own_strings or not group.settings:
        return []
    (wanted,) = run.group(group.name)
    if run.size.primary and wanted.bundled is None:
        return []
    (one,) = run.obtain(group.name)
    source, identity = wanted.source(run.populations, run.device), group.models(one).identity
    return sensitivity(group, one.population, source, identity, run.folder / "audits", run.size.settings)


def _audited(group: Group, run: Run[Size]) -> Audited:
    if group.family is None:
        own, models = group, group.constructed()
    else:
        (one,) = run.obtain(group.name)
        own, models = replace(group, family=one.family), group.models(one)  # the family as it was trained
    return audit_group(own, models, run.folder / "audits", quick=run.size.primary)


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: verdicts, a letter a seed, with their counts, intervals and scores."""
    return {
        "seeds": f.seeds,
        "groups": {a.group.name: of_group(a) for a in f.groups},
        "sensitivity": [kept.to_dict() for kept in f.sensitivity],
        "encoder": None if f.read is None else of_encoders(f.read),
    }


def of_group(a: Audited) -> dict[str, Any]:
    """One group's numbers."""
    return {
        "identity": a.models.identity,
        "kind": a.group.kind,
        "claims": a.claims,
        "inputs": a.inputs,
        "level": a.level,
        "known": dict(a.group.known),
        "statements": {name: t.to_dict() for name, t in a.tallies.items()},
    }


def of_encoders(read: Read) -> dict[str, Any]:
    """Both encoders' numbers."""
    return {
        "corpus": read.corpus,
        "articles": len(read.tokens) // 2,
        "inputs": len(read.tokens),
        "claims": len(read.trained.results),
        "level": read.trained.results[0].level,
        "use": "not asked",
        "trained": read.trained.to_dict(),
        "randomly_initialised": read.random.to_dict(),
    }


STUDY = Study(
    DECLARED,
    Size(QUICK, tuple(quick_groups()), primary=True, settings=QUICK_SETTINGS),
    Size(FULL, GROUPS, primary=False, settings=SETTINGS),
    collect,
    to_results,
    report,
    populations,
    prepare,
)


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    groups: Sequence[Group] | None = None,
    encoder: bool = True,
) -> Path:
    """As `Study.run`; `groups` replaces what the size says, and `encoder=False` leaves the encoder out."""
    return STUDY.run(out, full, workers, seeds, steps, groups=groups, encoder=encoder)
