"""Tables of `head-claims`."""

from collections.abc import Sequence

from case_studies.head_claims.audits import LENGTH, NUM_INPUTS, SEED, Audited, Tally, estimate_of
from case_studies.head_claims.encoder import Scan
from case_studies.head_claims.groups import OWN_STRINGS
from case_studies.head_claims.said import VERDICTS
from case_studies.head_claims.sensitivity import Kept
from case_studies.page import Table
from case_studies.words import Cell
from interp.numbers import ABSENT, count, estimate, number
from interp.stats import CONFIDENCE, Estimate
from probes.claims import heads_text


def share(t: Tally, verdict: str) -> Cell | str:
    """The seeds of a verdict, and the interval of their share at the audit's level; of one model: whether it is one."""
    found = t.share(verdict)
    return f"{t.count(verdict)}" if found is None else Cell(found, counted=True, level=t.level)


def mean(t: Tally, e: Estimate | None) -> Cell:
    """A mean over seeds; of one model a number over its inputs, at the audit's level."""
    return Cell(e, level=CONFIDENCE if t.n > 1 else t.level)


def word(t: Tally) -> str:
    """What is said of such models; where the seeds are too few for any word about them, what is said of these."""
    if t.decidable or not t.verdicts:
        return t.population
    verdict = max(VERDICTS, key=t.count)
    return f"{verdict} in {t.count(verdict)} of {t.n}"


def supported_table(found: Sequence[Audited]) -> Table:
    """Statements by groups: in how many seeds supported."""
    names = {name: t.statement.words for a in found for name, t in a.tallies.items()}
    rows = [
        [words, *(share(a.tallies[name], "supported") if name in a.tallies else ABSENT for a in found)]
        for name, words in names.items()
    ]
    return Table(
        ["supported", *(a.group.name for a in found)],
        rows,
        "Seeds that support a statement, with the exact (Clopper-Pearson) interval of the share of such models; the "
        "claims of a group are corrected together.",
    )


VERDICT_COLUMNS = (
    "Counts are of seeds, with exact intervals. Claim score: (m - c) / (1 - c) over every query to which the claim "
    "applies; mean over seeds, of one model over inputs. Use: seeds by the word on use, where it was examined. Effect: "
    "share of the margin moved when what is read there is exchanged, less the sham, mean over the seeds where it was "
    "measured; 2 turns the margin over. A model that does not do the task has a margin near 0, and no effect that "
    "means something."
)


def verdict_table(a: Audited) -> Table:
    """Everything about one group."""
    rows = []
    for t in a.tallies.values():
        uses = ", ".join(f"{word} {n}" for word, n in t.uses.items())
        counts = [share(t, verdict) for verdict in VERDICTS]
        rows.append([t.statement.words, word(t), *counts, mean(t, t.score), uses or "not asked", mean(t, t.effect)])
    floor, n = next((t.floor, t.n) for t in a.tallies.values())
    certain = "" if floor is None else f"; so many seeds can be certain of a share of {number(floor, 2)} at most"
    return Table(
        [a.group.name, "verdict", *VERDICTS, "claim score", "use", "effect"],
        rows,
        f"{n} {'seeds' if n > 1 else 'model'}, {a.claims} claims, {a.inputs} inputs{certain}.",
    )


def control_table(found: Sequence[Audited]) -> Table:
    """Verdicts known by construction beside those found."""
    rows = []
    for a in found:
        for name, known in a.group.known:
            t = a.tallies[name]
            numbers = [mean(t, t.score), mean(t, t.effect)]
            rows.append([f"{a.group.name}: {t.statement.words}", known, t.population, *numbers])
    right = sum(row[1] == row[2] for row in rows)
    return Table(
        ["model: statement", "known", "found", "claim score", "effect"],
        rows,
        f"{right} of {len(rows)} as known. Statements whose truth follows from the weights; use of the first layer is "
        "not among them: the pairs of inputs change a bracket's type, and these first layers read its depth.",
    )


def encoder_table(trained: Scan, random: Scan) -> Table:
    """Heads by verdict, relation by relation, trained and at random."""
    rows = []
    for relation in trained.relations:
        ours, null = trained.counts(relation), random.counts(relation)
        scored = [(e, r) for r in trained.of(relation) if (e := estimate_of(r, "score")) is not None]
        at_random = [e.value or 0.0 for r in random.of(relation) if (e := estimate_of(r, "score")) is not None]
        best, head = max(scored, key=lambda pair: pair[0].value or 0.0, default=(None, None))
        rows.append(
            [
                relation.words,
                *(str(ours[verdict]) for verdict in ("supported", "undecided", "refuted")),
                ABSENT if head is None else f"{heads_text(head.heads)} {estimate(best, 2, n=True)}",
                *(str(null[verdict]) for verdict in ("supported", "undecided", "refuted")),
                number(max(at_random), 2) if at_random else ABSENT,
            ]
        )
    open_ones = [r for r in trained.relations if set(trained.counts(r)) == {"undecided"}]
    why = "".join(f" For {r.words}: {trained.of(r)[0].reason.split('. ')[0]}." for r in open_ones)
    return Table(
        [
            "relation",
            *("supported", "undecided", "refuted"),
            "highest claim score",
            *(f"twin: {word}" for word in ("supported", "undecided", "refuted")),
            "twin: highest claim score",
        ],
        rows,
        f"Heads, of {len(trained.heads)}. The heads of one model are no independent draws: counts have no interval. "
        "Intervals of "
        f"scores: {100 * trained.results[0].level:.4g} %. Twin: randomly initialised.{why}",
    )


def sensitivity_parts(found: Sequence[Kept]) -> list[str | Table]:
    """What becomes of verdicts in other settings of the audit: a sentence, and a table of families by settings."""
    settings = list(dict.fromkeys(kept.setting.words for kept in found))
    of = {words: [kept for kept in found if kept.setting.words == words] for words in settings}
    shares = {words: sum(k.same for k in those) / sum(k.verdicts for k in those) for words, those in of.items()}
    worst = min(settings, key=lambda words: shares[words])
    same, whole = sum(k.same for k in found), sum(k.verdicts for k in found)
    words, all_words = sum(k.same_words for k in found), sum(k.words for k in found)
    uses, all_uses = sum(k.same_uses for k in found), sum(k.uses for k in found)
    said = (
        f"Each of {len({k.group for k in found})} families was audited again in {len(settings)} other settings, its "
        f"primary statements over at most {max(k.seeds.n for k in found)} seeds: {same} of {whole} verdicts of single "
        f"seeds are kept, {words} of {all_words} words about a family, and {uses} of {all_uses} findings on use. "
    )
    if shares[worst] < 1:
        fewest = min(of[worst], key=lambda k: k.same / k.verdicts)
        said += (
            f"Least is kept with {worst}: {sum(k.same for k in of[worst])} of {sum(k.verdicts for k in of[worst])}, in "
            f"{fewest.group} {fewest.same} of {fewest.verdicts}; all of a seed's in {count(fewest.seeds)} seeds there."
        )
    else:
        said += "No verdict changes in any setting."
    rows = [
        [
            f"{k.group}: {k.setting.words}",
            f"{k.same} of {k.verdicts}",
            Cell(k.seeds, counted=True),
            f"{k.same_words} of {k.words}",
            f"{k.same_uses} of {k.uses}",
            "; ".join(f"{name}: {a} → {b} ({n})" for (name, a, b), n in sorted(k.changes.items())) or "nothing",
        ]
        for k in found
    ]
    table = Table(
        ["family: setting", "verdicts kept", "seeds with all kept", "words kept", "use kept", "what changed (seeds)"],
        rows,
        f"Against {NUM_INPUTS} prefixes of {LENGTH} brackets drawn with seed {SEED}, and the auditor's own thresholds; "
        "a setting differs in what it names. The statements about one model are not independent: the exact interval is "
        "that of the share of seeds all of whose verdicts are kept. Words: what is said of the family. Use: findings "
        "where it is examined, which the verdict on a claim whose pattern fails does not show.",
        text=(5,),
    )
    return [said, table]


def settings_table(found: Sequence[Audited]) -> Table:
    """What each group is."""
    rows = []
    for a in found:
        family = a.group.family
        options = (
            ABSENT if family is None else ", ".join(f"{k}={v}" for k, v in family.options.items()) or "the preset's"
        )
        n = next(iter(a.tallies.values())).n
        inputs = f"{a.inputs} " + ("strings as trained" if a.group.own_strings else f"prefixes of {LENGTH} brackets")
        steps = ABSENT if family is None or a.group.kind == "null" else str(family.recipe.settings.steps)
        preset = a.group.name if family is None else family.preset
        rows.append([a.group.name, preset, options, steps, str(n), str(a.claims), inputs])
    return Table(
        ["models", "preset", "options", "steps", "seeds", "claims", "inputs"],
        rows,
        f"Every distinct input counts once; {NUM_INPUTS} prefixes are drawn, or {OWN_STRINGS} held-out strings of the "
        "training law. Half of the inputs chooses heads, rivals and partners, the other half decides.",
    )
