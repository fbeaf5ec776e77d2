"""From the outcomes of single models to a word about all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from interp.numbers import percent
from interp.stats import REALS, Estimate
from probes.audit import thresholds as t
from probes.audit.model import Outcome
from probes.audit.population_rules import (
    SEED_PATTERN_RULES,
    SEED_USE_RULES,
    SEED_VERDICT_RULES,
    binomial,
    most_claims,
    seed_shares,
)
from probes.audit.rows import Evidence, Verdict, stem
from probes.audit.rules import decide, known
from probes.audit.stats import SUPPORTS, high, low, ratio
from probes.audit.verdicts import reason_of
from probes.claims import Claim, heads_text

# Counts of one seed's inputs, and rows that only some seeds have and that mean something else in each.
NOT_AVERAGED = ("rows", "sequences", "different", "items", "better")
RIVAL = "fits better than each seed's nearest rival"


@dataclass(frozen=True)
class Seeds:
    """What is said of a population; `rows`: a dict a seed. `share`, `floor`: see `AuditResult`.

    `rules`: names of the rules that decided on pattern, use and verdict.
    """

    pattern: str
    use: str
    verdict: Verdict
    reason: str
    evidence: list[Evidence]
    share: Estimate
    floor: float
    rows: list[dict[str, Any]]
    rules: tuple[str, str, str]


def over_seeds(
    claim: Claim, numbers: Sequence[int], outcomes: Sequence[tuple[Outcome, Outcome]], level: float
) -> Seeds:
    """Words of a population: what holds of most seeds, for sure (see `probes.audit.population_rules`)."""
    best = [chosen for chosen, _ in outcomes]
    n, gather = len(best), known(seed_shares(best, level))
    pattern, use, said = (
        decide(table, gather) for table in (SEED_PATTERN_RULES, SEED_USE_RULES, SEED_VERDICT_RULES)
    )  # fmt: skip
    verdict = cast(Verdict, said.finding)
    verdicts: Counter[str] = Counter(o.verdict for o in best)
    share, floor = binomial(verdicts["supported"], n, level), low(binomial(n, n, level))
    named = sum(o.verdict == "supported" for _, o in outcomes)
    return Seeds(
        pattern.finding,
        use.finding,
        verdict,
        _reason(claim, best, verdicts, share, named, floor, numbers),
        [*_of_verdicts(verdicts, n, level, floor, verdict), *_of_findings(best, level), *_means(best, level)],
        share,
        floor,
        [_row(number, *pair) for number, pair in zip(numbers, outcomes, strict=True)],
        (pattern.name, use.name, said.name),
    )


def _of_findings(best: Sequence[Outcome], level: float) -> list[Evidence]:
    """A row for the seeds of each finding."""
    patterns, uses = Counter(o.pattern.word for o in best), Counter(o.use.word for o in best)
    return [
        Evidence("population", f"{kind} {word}", f"seeds: {kind} {word}", binomial(count, len(best), level))
        for kind, words in (("pattern", patterns), ("use", uses))
        for word, count in words.most_common()
    ]


def _of_verdicts(verdicts: Counter[str], n: int, level: float, floor: float, verdict: Verdict) -> list[Evidence]:
    """A row for the seeds of each verdict, beside the majority that one word needs; those that decide are marked.

    `refuted` is said of a population if at most half of such models can be otherwise, which is the same bound on the
    share of seeds that refute. Where not even n of n seeds could show a majority, that decides.
    """
    decided = {verdict} if verdict != "undecided" else {"floor"} if floor <= t.MOST_SEEDS else {*verdicts, "supported"}
    out = []
    for name, words in (
        ("supported", "seeds that support the claim"),
        ("misleading", "seeds in which it is misleading"),
        ("refuted", "seeds that refute the claim"),
        ("undecided", "seeds that leave it undecided"),
    ):
        if name != "supported" and not verdicts[name]:
            continue
        share = binomial(verdicts[name], n, level)
        met = True if low(share) > t.MOST_SEEDS else False if high(share) < t.MOST_SEEDS else None
        row = Evidence("population", name, words, share, ">", t.MOST_SEEDS, met)
        if name == "undecided":
            row = replace(row, side=None, threshold=None, met=None)
        out.append(replace(row, finding=verdict, decides=True) if name in decided else row)
    if "floor" in decided:
        sure = Estimate(floor, None, None, n, "seeds", reason="a bound")
        words = f"share that {n} of {n} seeds could show"
        row = Evidence("population", "floor", words, sure, ">", t.MOST_SEEDS, False, finding=verdict, decides=True)
        out.append(row)
    return out


def _means(best: Sequence[Outcome], level: float) -> list[Evidence]:
    """Every number of the single audits, averaged over the seeds that have it; of several heads a seed has the mean."""
    found: dict[tuple[str, str, str], dict[int, list[Evidence]]] = {}  # by kind and seed: a row for each of its heads
    decided: Counter[tuple[str, str]] = Counter()
    for seed, outcome in enumerate(best):
        rows = [row for row in (*outcome.pattern.evidence, *outcome.use.evidence) if stem(row.name) not in NOT_AVERAGED]
        decided.update({_kind(row)[:2] for row in rows if row.decides})
        for row in rows:
            if row.estimate.value is not None:
                found.setdefault(_kind(row), {}).setdefault(seed, []).append(row)
    out = []
    for (group, name, _), by_seed in found.items():
        rows = [row for of_seed in by_seed.values() for row in of_seed]
        values = np.array([np.mean([row.estimate.value for row in of_seed]) for of_seed in by_seed.values()])
        mean = ratio(values, np.ones(len(values)), level, SUPPORTS.get(stem(name), REALS))  # of a mean: Student's t
        mean = replace(mean, over="seeds")
        mean = mean.with_null(_mean_null([row.estimate.null for row in rows]))
        words = RIVAL if name == "rival" else rows[0].words.split(": ")[-1]
        if _is_tail(name):
            words += "; of the seeds in which it fails there"
        elif len(by_seed) < len(best):
            words += f"; of the {len(by_seed)} seeds that have it"
        if times := decided[group, name]:
            words += f"; decides in {times} of {len(best)} seeds"
        side, threshold = rows[0].side, rows[0].threshold
        if group == "use":  # what is asked of an effect differs by seed, as the word on its use does
            side, threshold = (">=", t.USED) if stem(name) == "effect" else (None, None)
        out.append(Evidence(group, name, words, mean, side, threshold, _met(mean, side, threshold)))
    return out


def _kind(row: Evidence) -> tuple[str, str, str]:
    """Rows of one kind are averaged over seeds: of tails, those of the same place only."""
    name = row.name.split(" ")[0]
    return row.group, name, row.words.split(": ")[-1] if _is_tail(name) else ""


def _is_tail(name: str) -> bool:
    return name.startswith("tail_")


def _met(mean: Estimate, side: str | None, threshold: float | None) -> bool | None:
    """Whether a mean over seeds is where single audits are required to be."""
    if threshold is not None and side in (">", ">="):
        return True if low(mean) >= threshold else False if high(mean) < threshold else None
    if side == "not in":
        outside = low(mean) >= t.MIXED[1] or high(mean) <= t.MIXED[0]
        inside = low(mean) > t.MIXED[0] and high(mean) < t.MIXED[1]
        return True if outside else False if inside else None
    return None


def _mean_null(nulls: Sequence[Any]) -> dict[str, float] | None:
    """Nulls of single seeds, averaged by name; p-values by their median."""
    found: dict[str, list[float]] = {}
    for null in nulls:
        for name, value in null.items() if isinstance(null, Mapping) else ():
            if value is not None:
                found.setdefault(name, []).append(float(value))
    by = {name: float((np.median if name == "p_value" else np.mean)(values)) for name, values in found.items()}
    return by or None


def _reason(
    claim: Claim,
    best: Sequence[Outcome],
    verdicts: Counter[str],
    share: Estimate,
    named: int,
    floor: float,
    numbers: Sequence[int],
) -> str:
    """How many seeds say what, and one of them; where they differ, one of those that say otherwise too."""
    n, several = len(best), len(claim.heads) > 1
    where = f" of layer {claim.heads[0][0]}" if len({layer for layer, _ in claim.heads}) == 1 else ""
    told = ", ".join(f"{word} in {count}" for word, count in verdicts.most_common())
    who = f"{len(claim.heads)} heads{where} support" if several else f"some head{where} supports"
    said = f"In {verdicts['supported']} of {n} seeds {who} the claim ({told})"
    if any(outcome.heads != claim.heads for outcome in best) and claim.heads and where:
        said += "; a head's number means nothing in another seed, so any head of the layer counts"
    if claim.heads and named != verdicts["supported"]:
        said += f", and {heads_text(claim.heads)} {'themselves' if several else 'itself'} in {named}"
    said += f": between {percent(low(share), 1)} and {percent(high(share), 1)} of such models."
    if floor <= t.MOST_SEEDS:
        said += f" Even {n} of {n} would only show that at least {percent(floor, 1)} do, which decides nothing: "
        said += f"{_cure(n)}."
    for which, (word, _) in zip(("For instance", "Otherwise"), verdicts.most_common(2), strict=False):
        at = next(at for at, outcome in enumerate(best) if outcome.verdict == word)
        said += f" {which} seed {numbers[at]}, {word}: {reason_of(best[at].pattern, best[at].use, claim)}"
    return said


def _cure(n: int) -> str:
    """What lets so many seeds decide."""
    most = most_claims(n)
    if most == 0:
        return "audit more seeds"
    return f"{n} seeds can decide {most} claims at once, so ask fewer together, or audit more seeds"


def _row(number: int, chosen: Outcome, named: Outcome) -> dict[str, Any]:
    score = next((row.estimate.value for row in chosen.pattern.evidence if stem(row.name) == "score"), None)
    effects = [row for row in chosen.use.evidence if stem(row.name) == "effect"]
    effects.sort(key=lambda row: row.finding is None)  # of several kinds of minimal pair, one that the word rests on
    return {
        "seed": int(number),
        "heads": [list(head) for head in chosen.heads],
        "pattern": chosen.pattern.word,
        "use": chosen.use.word,
        "verdict": chosen.verdict,
        "score": score,
        "effect": effects[0].estimate.value if effects else None,
        "named_verdict": named.verdict,
    }
