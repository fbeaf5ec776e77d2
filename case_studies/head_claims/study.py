"""`head-claims`: what the literature says of attention heads, audited over populations and on a real encoder.

Stack-like second layers, depth, type or evenness in the first (Ebrahimi et al. 2020, Yao et al. 2021, Wen et al. 2023),
copying models (Wen et al., App. B.1), constructed models whose truth is known, untrained ones; positional and
special-token claims (Clark et al. 2019) for every head of a pretrained encoder and of its randomly initialised twin.
Nothing here states a finding in advance.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from case_studies.head_claims.audits import Audited, audit_group
from case_studies.head_claims.encoder import Read, scan_encoders
from case_studies.head_claims.groups import GROUPS, Group, quick_groups
from case_studies.head_claims.report import Findings, report
from case_studies.page import command_of, write_study
from case_studies.topics_wikipedia.corpus import check_corpus
from case_studies.topics_wikipedia.encoder import default_model
from interp.files import make_folder

QUICK, FULL = 8, 40  # seeds of each group that is trained; eight are bundled


def run(
    out: Path,
    full: bool = False,
    workers: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    groups: Sequence[Group] | None = None,
    encoder: bool = True,
) -> Path:
    """Audit every group of models and the encoder, and write the report; return the path of its page.

    A quick run asks the primary statements alone, which its seeds can decide; `full` asks all.
    What is trained lies in `out`/populations, each group's audits in `out`/audits: what is there is not made again.
    `seeds`, `steps` and `groups` replace what `full` and the presets say; `encoder=False` leaves the encoder out.
    """
    count = seeds if seeds is not None else FULL if full else QUICK
    if encoder:  # what is not installed is said before anything is audited
        default_model()
        check_corpus(None)
    folder = make_folder(out)
    chosen = groups if groups is not None else GROUPS if full else quick_groups()
    found = [_audited(group, count, full, folder, workers, steps) for group in chosen]
    read = scan_encoders(folder / "audits", full) if encoder else None
    most = max(t.n for a in found for t in a.tallies.values())
    findings = Findings(found, read, most)
    return write_study(to_results(findings), report(findings, command_of("head-claims", full, out)), folder)


def _audited(group: Group, count: int, full: bool, folder: Path, workers: int | None, steps: int | None) -> Audited:
    if group.bundled is not None and not full and steps is None:
        models = group.load_bundled()
    else:
        own = replace(group, family=replace(group.family, steps=steps)) if steps and group.family else group
        models = own.load(count, folder / "populations", workers)
    return audit_group(group, models, folder / "audits", quick=not full)


def to_results(f: Findings) -> dict[str, Any]:
    """What is committed: verdicts, a letter a seed, with their counts, intervals and scores."""
    return {
        "seeds": f.seeds,
        "groups": {a.group.name: of_group(a) for a in f.groups},
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
