"""The page of `head-claims`. Every sentence is made from the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from case_studies.head_claims.audits import DIRECT, Audited, Tally
from case_studies.head_claims.encoder import LENGTHS, Read, Scan
from case_studies.head_claims.figures import encoder_heads, heads_of_verdict, scan_grid, verdict_bars
from case_studies.head_claims.said import (
    FIRST_EVEN,
    LAST_EVEN_USED,
    SOURCES,
    STACK,
    STACK_USED,
    VERDICTS,
    Source,
)
from case_studies.head_claims.sensitivity import Kept
from case_studies.head_claims.tables import (
    VERDICT_COLUMNS,
    control_table,
    encoder_table,
    sensitivity_parts,
    settings_table,
    supported_table,
    verdict_table,
    word,
)
from case_studies.page import Figure, Page, Section, Table
from interp.numbers import count, percent
from probes.audit import EVEN, MOST_SEEDS, SCORE, TOP1, UNUSED, USED


@dataclass(frozen=True)
class Findings:
    """Everything the page is made from; `read` is None where no encoder was asked for."""

    groups: Sequence[Audited]
    read: Read | None
    seeds: int
    sensitivity: Sequence[Kept] = ()

    def of(self, *kinds: str) -> list[Audited]:
        """Groups of these kinds, in order."""
        return [a for a in self.groups if a.group.kind in kinds]

    def named(self, name: str) -> Audited | None:
        """The group of that name, if it was audited."""
        return next((a for a in self.groups if a.group.name == name), None)


def report(f: Findings, command: str) -> Page:
    """The report of what was audited."""
    dyck = [a for a in f.of("dyck", "null") if not a.group.copies]
    copying = [a for a in f.of("copying", "null") if a.group.copies]
    pictures = {kind: verdict_figure(found, kind) for kind, found in (("Dyck", dyck), ("copying", copying)) if found}
    lead, *more = pictures.values() or [verdict_figure(f.groups, "these")]
    sections = [
        Section("Models of Dyck", [*rules(f), *verdict_parts(dyck)]),
        Section("Models that copy", [COPYING, *more, *verdict_parts(copying)]),
        Section("Models whose truth is constructed", [control_table(f.of("control"))]),
        Section("Heads, supported, refuted and misleading", head_parts(f)),
        Section("Evidence", evidence_parts(f)),
    ]
    if f.read is not None:
        sections.append(Section("A real encoder", encoder_parts(f.read)))
    if f.sensitivity:
        sections.append(Section("Other inputs, other thresholds", sensitivity_parts(f.sensitivity)))
    sections.append(Section("Every verdict", [VERDICT_COLUMNS, *(verdict_table(a) for a in f.groups)]))
    return Page(
        title="What is said of attention heads",
        asked=(
            "Papers say of heads where they attend and what for. Over how many seeds does that hold, does the model "
            f"use it, and which heads of a real encoder fit? Audits of {sum(a.claims for a in f.groups)} claims on "
            f"{len(f.groups)} groups of models, up to {f.seeds} seeds each."
        ),
        said=SAID,
        answer=answers(f),
        sure=(
            f"Up to {f.seeds} seeds per group, each an audit by interventions on half of its inputs, chosen on the "
            "other half and corrected for all claims of the group; shares of seeds have exact intervals, corrected "
            "too. Models whose truth is constructed, untrained ones and a randomly initialised encoder stand beside."
        ),
        lead=lead,
        compared=[source_table(f)],
        sections=sections,
        settings=[settings_table(f.groups)],
        command=command,
        digests=[(a.group.name, a.models.identity) for a in f.groups],
    )


SAID = [
    "Models of Dyck attend to the last unmatched open bracket, as a stack would; or need not (Ebrahimi et al., Yao et "
    "al., Wen et al.).",
    "The first layer counts depth by attending evenly; copying models have heads that can be described and say nothing "
    "of the task (Yao et al., Wen et al.).",
    "Heads of BERT attend to the previous or next token, to delimiters, or broadly (Clark et al.). No paper counts "
    "seeds or intervenes on the values that are read.",
]
COPYING = (
    "The task is to repeat the token just read, which the residual stream carries already. Every statement is about "
    "some head: the one that fits best on half of the inputs. Where it leaves open which bracket is meant, each is "
    "asked, and the statement is supported if one of them is, refuted if all are."
)


def answers(f: Findings) -> list[str]:
    """Three sentences, made from the numbers."""
    dyck, copying = f.of("dyck"), f.of("copying")
    out = [
        f"“The last layer attends to the last unmatched open bracket” is supported in {_each(dyck, STACK)}.",
        f"“The first layer attends to all visible tokens evenly” is supported in {_each(dyck, FIRST_EVEN)}"
        + "".join(
            f", and before training in {_supported(a.tallies[FIRST_EVEN])}"
            for a in f.of("null")
            if FIRST_EVEN in a.tallies
        )
        + f"; that the last layer does, and uses it, in {_each(dyck, LAST_EVEN_USED)}.",
    ]
    last = [_copying(a) for a in copying]
    sentence = "; ".join(last)
    if f.read is not None:
        trained, random = f.read.trained, f.read.random
        sentence += (
            f"; in {trained.name}, {_heads_with(trained)} of {len(trained.heads)} audited heads have a supported claim "
            f"other than even attention ({_supported_claims(trained)} of {len(trained.results)} claims in all), in its "
            f"randomly initialised twin {_heads_with(random)} ({_supported_claims(random)})"
        )
    return [*out, sentence[:1].upper() + sentence[1:] + "."] if sentence else out


def _copying(a: Audited) -> str:
    """What a group of copying models supports, and what misleads."""
    most = {v: max(a.tallies.values(), key=lambda t: t.count(v)) for v in ("supported", "misleading")}
    told = [
        f"“{t.statement.words}” is most often {v}, in {_share(t, v)}" if t.count(v) else f"nothing is {v} in any seed"
        for v, t in most.items()
    ]
    one = most["supported"]
    if one is most["misleading"] and one.count("supported") and one.count("misleading"):
        told = [f"“{one.statement.words}” is most often both", *(f"{v} in {_share(one, v)}" for v in most)]
        return f"{a.group.name}: {told[0]}, {told[1]} and {told[2]}"
    return f"{a.group.name}: {' and '.join(told)}"


def _each(found: Sequence[Audited], name: str) -> str:
    """Shares of supporting seeds, groups of one share together."""
    shares: dict[str, list[str]] = {}
    for a in found:
        if name in a.tallies:
            shares.setdefault(_supported(a.tallies[name]), []).append(a.group.name)
    told = [f"{share} {'each ' if len(names) > 1 else ''}({'; '.join(names)})" for share, names in shares.items()]
    return " and ".join(told) or "no group that was asked"


def _supported(t: Tally) -> str:
    return _share(t, "supported")


def _share(t: Tally, verdict: str) -> str:
    found = t.share(verdict)
    return f"{t.count(verdict)} of {t.n}" if found is None else count(found)


def _heads_with(scan: Scan) -> int:
    claims = [r for relation in scan.relations if relation.kind != "even" for r in scan.of(relation)]
    return len({r.heads for r in claims if r.verdict == "supported"})


def _supported_claims(scan: Scan) -> int:
    return sum(r.verdict == "supported" for r in scan.results)


# -- sections ---------------------------------------------------------------------------------------------


def rules(f: Findings) -> list[str | Table | Figure]:
    """What the words mean."""
    return [
        f"A pattern holds if its claim score is at least {SCORE:g} (0: a uniform head, 1: a perfect one; for evenness "
        f"{EVEN:g}) and the largest weight, the first token apart, lies on the relation in {percent(TOP1)} of the "
        "rows, if keys alike in class and distance get less, and if no other relation, offset or position fits "
        "better; all of this by whole intervals over inputs, corrected for the claims of a group. Use is what an "
        f"exchange of the values read there does to the model's answer: used from {percent(USED)} of the margin on, "
        f"unused below {percent(UNUSED)}, alone and with partners ablated; “{DIRECT}” where it takes frozen patterns "
        "and norm scales of later parts to reach that. Refuted: the pattern fails. Supported: it holds (and is used, "
        "where use is claimed). Misleading: it holds, and the model is shown not to use it.",
        f"Of a population a word is said if more than {percent(MOST_SEEDS)} of such models deserve it, by the whole "
        "interval. Where a model has one head per layer, that head is meant; “some head” may be any that fits on half "
        "of the inputs.",
    ]


def verdict_figure(found: Sequence[Audited], kind: str) -> Figure:
    """A bar per statement and group."""
    return Figure(
        verdict_bars(found, f"What seeds say to claims about {kind} models"),
        "Each bar is one statement about one group of models: how many seeds support it, refute it, show it to be "
        "misleading, or leave it undecided. No bar: the models have no such layer.",
    )


def verdict_parts(found: Sequence[Audited]) -> list[str | Table | Figure]:
    """The table of what is supported."""
    if not found:
        return ["None were audited."]
    parts: list[str | Table | Figure] = []
    unsure = [a for a in found if any(not t.decidable for t in a.tallies.values())]
    if unsure:
        n = min(t.n for a in unsure for t in a.tallies.values())
        parts.append(
            f"With {n} seeds and this many claims corrected together no share can be certain to be above "
            f"{percent(MOST_SEEDS)}. So nothing is said of such models in general: below are counts of these seeds."
        )
    return [*parts, supported_table(found)]


def head_parts(f: Findings) -> list[str | Table | Figure]:
    """Patterns of heads, by verdict."""
    found = [*f.of("dyck", "copying"), *f.of("control")]
    parts: list[str | Table | Figure] = []
    for verdict in ("supported", "refuted", "misleading"):
        figure = heads_of_verdict(found, verdict)
        parts.append(figure if figure is not None else f"No head has a claim that is {verdict}.")
    return parts


REPRESENTATIVE = (
    ("dyck", STACK_USED),
    ("dyck", FIRST_EVEN),
    ("control", STACK_USED),
    ("copying", "same-type-used"),
)


def evidence_parts(f: Findings) -> list[str | Table | Figure]:
    """The evidence of some audits: of each kind of model the first that was asked."""
    parts: list[str | Table | Figure] = []
    for kind, name in REPRESENTATIVE:
        groups = [a for a in f.of(kind) if name in a.options][: 2 if kind == "control" else 1]
        for a in groups:
            result = a.options[name][0]
            parts.append(Figure(result.figure(), f"{a.group.name}. {result.reason}"))
    return parts


def encoder_parts(read: Read) -> list[str | Table | Figure]:
    """Counts, grids and patterns."""
    trained = read.trained
    parts: list[str | Table | Figure] = [
        f"{trained.name} and the same architecture randomly initialised, on two paragraphs of each of "
        f"{len(read.tokens) // 2} articles ({read.corpus}), one in each half of the inputs, cut to "
        f"{', '.join(map(str, LENGTHS))} tokens in turn, [CLS] and [SEP] included; padding is masked. "
        f"{len(trained.heads)} heads times {len(trained.relations)} relations are {len(trained.results)} claims, "
        f"corrected together (intervals {100 * trained.results[0].level:.6g} %). Use is not asked: these hidden states "
        "come with no readout whose margin an exchange could move, so “supported” says where a head attends and "
        "nothing of what for. Each input is one segment that ends in [SEP]: [SEP] is also its last token.",
        encoder_table(read.trained, read.random),
        Figure(scan_grid(read.trained), "Trained: score of each head on each relation, and the verdict."),
        Figure(scan_grid(read.random), "Randomly initialised: the same."),
    ]
    figure = encoder_heads(read)
    return [*parts, figure] if figure is not None else parts


def source_table(f: Findings) -> Table:
    """Each statement of the literature beside what came out."""
    return Table(
        ["what is said", "result", "asked here", "of"],
        [row for source in SOURCES if (row := _source_row(f, source)) is not None],
        "Statements are paraphrased. The papers show patterns of a few models or prove that some exist, and give no "
        "count of seeds: a share here neither repeats nor contradicts a number of theirs. Clark et al. looked at BERT "
        "base, another model than this encoder. Where Wen et al. say “not stack-like”, refuted claims agree.",
    )


def _source_row(f: Findings, source: Source) -> list[str] | None:
    if source.group is None:
        if f.read is None:
            return None
        scan = f.read.trained
        relation = next(r for r in scan.relations if r.name == source.statement)
        counts = scan.counts(relation)
        told = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        return [f"{source.what} ({source.who})", f"of {len(scan.heads)} heads: {told}", relation.words, scan.name]
    a = f.named(source.group)
    if a is None or source.statement not in a.tallies:
        return None
    t = a.tallies[source.statement]
    told = ", ".join(f"{t.count(v)} {v}" for v in VERDICTS if t.count(v))
    return [
        f"{source.what} ({source.who})",
        f"{word(t)} ({told})" if t.decidable else told,
        t.statement.words,
        a.group.name,
    ]
