"""Do verdicts rest on how the audit is set up? The same claims with other inputs, more, fewer, and moved thresholds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from case_studies.head_claims.audits import (
    LENGTH,
    NUM_INPUTS,
    SEED,
    kept,
    of_seeds,
    tally,
)
from case_studies.head_claims.groups import Group, Models, primary_claims
from case_studies.head_claims.moved import Job
from interp import Population
from interp.stats import Estimate, clopper_pearson
from probes.audit import SCORE, UNUSED, USED, AuditResult

SEEDS = 8  # of each family, at most: every setting audits all of them once more
MOVED = 0.2  # thresholds move by this share of themselves, up and down: SCORE by .05


@dataclass(frozen=True)
class Setting:
    """How an audit is set up: `inputs` prefixes of `length` brackets, drawn with `seed`; `thresholds` that moved."""

    words: str
    inputs: int = NUM_INPUTS
    length: int = LENGTH
    seed: int = SEED
    thresholds: Mapping[str, float] = field(default_factory=dict)


def _moved(share: float) -> list[Setting]:
    use = {"USED": round(USED * share, 4), "UNUSED": round(UNUSED * share, 4)}
    score = round(SCORE * share, 4)
    return [
        Setting(f"score of at least {score:g} for {SCORE:g}", thresholds={"SCORE": score}),
        Setting(
            f"used from {use['USED']:g} on, unused below {use['UNUSED']:g}, for {USED:g} and {UNUSED:g}", thresholds=use
        ),
    ]


AS_EVER = Setting("as everywhere else here")
QUICK_SETTINGS = (
    Setting("other inputs, drawn with seed 1", seed=1),
    Setting(f"half as many inputs, {NUM_INPUTS // 2}", inputs=NUM_INPUTS // 2),
    *_moved(1 - MOVED),
    *_moved(1 + MOVED),
)
SETTINGS = (
    *QUICK_SETTINGS,
    Setting(f"twice as many inputs, {2 * NUM_INPUTS}", inputs=2 * NUM_INPUTS),
    Setting(f"inputs of {LENGTH - 8} brackets for {LENGTH}", length=LENGTH - 8),
)


@dataclass(frozen=True)
class Said:
    """What a family says to one statement: a verdict a seed, the word on the family, and the words on use.

    `uses`: a word a seed and option of the statement, "not asked" where use was not examined.
    """

    verdicts: tuple[str, ...]
    of_family: str
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """What became of one family's verdicts under a setting.

    - `verdicts`, `same`: how many there are (a statement and seed each), and how many are what they were.
    - `seeds`: the share of seeds all of whose verdicts are, with its exact 95 % interval.
    - `words`, `same_words`: statements, and those of which the family gets the same word.
    - `uses`, `same_uses`: findings on use, where it is examined in either setting, and how many are the same: a claim
      whose pattern fails is refuted whatever the model uses, so that verdicts do not show them.
    - `changes`: (statement, from, to) -> in how many seeds.
    """

    group: str
    setting: Setting
    verdicts: int
    same: int
    seeds: Estimate
    words: int
    same_words: int
    uses: int
    same_uses: int
    changes: Mapping[tuple[str, str, str], int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        changes = [
            {"statement": name, "from": before, "to": after, "seeds": count}
            for (name, before, after), count in sorted(self.changes.items())
        ]
        out: dict[str, Any] = {"group": self.group, "setting": self.setting.words}
        out |= {"thresholds": dict(self.setting.thresholds), "inputs": self.setting.inputs}
        out |= {"length": self.setting.length, "seed": self.setting.seed, "verdicts": self.verdicts, "kept": self.same}
        out |= {"seeds_all_kept": self.seeds.to_dict(), "words": self.words, "words_kept": self.same_words}
        out |= {"uses": self.uses, "uses_kept": self.same_uses}
        return out | {"changes": changes}


def sensitivity(
    group: Group, population: Population, source: str, identity: str, folder: Path, settings: Sequence[Setting]
) -> list[Kept]:
    """The primary statements about a family's first `SEEDS` seeds, audited in every setting.

    `source`: the population's file, or its name among the bundled; `identity`: what tells its weights from others'.
    """
    some = population[:SEEDS]
    identity += "" if len(some) == len(population) else f", the first {len(some)}"

    def said(setting: Setting) -> dict[str, Said]:
        found = iter(_audited(group, some, source, identity, folder, setting))
        out = {}
        for statement, claims in primary_claims(group, some):
            results = [next(found) for _ in claims]
            one = tally(statement, results)
            uses = tuple(row["use"] for result in results for row in result.seeds)
            out[statement.words] = Said(one.verdicts, of_seeds(one.verdicts, results[0].level), uses)
        return out

    before = said(AS_EVER)
    return [compared(group.name, setting, before, said(setting)) for setting in settings]


def compared(group: str, setting: Setting, before: Mapping[str, Said], after: Mapping[str, Said]) -> Kept:
    """Of statements, what is the same in both."""
    changes: Counter[tuple[str, str, str]] = Counter()
    count = len(next(iter(before.values())).verdicts)
    moved: set[int] = set()
    uses: list[bool] = []
    for name, one in before.items():
        for seed, pair in enumerate(zip(one.verdicts, after[name].verdicts, strict=True)):
            if pair[0] != pair[1]:
                changes[name, *pair] += 1
                moved.add(seed)
        uses += [a == b for a, b in zip(one.uses, after[name].uses, strict=True) if {a, b} != {"not asked"}]
    total = count * len(before)
    words = sum(before[name].of_family == after[name].of_family for name in before)
    seeds = clopper_pearson(count - len(moved), count, over="seeds")
    same = total - sum(changes.values())
    return Kept(group, setting, total, same, seeds, len(before), words, len(uses), sum(uses), dict(changes))


def _audited(
    group: Group, some: Population, source: str, identity: str, folder: Path, setting: Setting
) -> list[AuditResult]:
    """The audits of a setting; those with the auditor's thresholds here, others in a process of their own."""
    claims = [claim for _, asked in primary_claims(group, some) for claim in asked]
    drawn = setting.inputs, setting.length, setting.seed
    job = Job(group.name, source, len(some), *drawn, setting.thresholds) if setting.thresholds else None
    models = Models(some, identity)
    return kept(group.name, models, claims, folder, None, grammar=None, drawn=drawn, job=job)
