"""The page of `real-heads`. Every sentence is made from the numbers."""

from collections import Counter
from collections.abc import Sequence

from case_studies.corrections import ALPHA, Comparison
from case_studies.page import Figure, Page, Section, Table
from case_studies.real_heads.figures import cost_caption, cost_map, pair_figure, scatter
from case_studies.real_heads.findings import (
    COPY,
    COST,
    LOOK,
    NOTHING,
    SAME_LOOK,
    Costs,
    Findings,
    Model,
    looks,
    named,
    over_inputs,
)
from case_studies.real_heads.pair import ALIKE, LEAST
from case_studies.words import Cell
from interp.numbers import estimate, number
from probes.audit import ScanResult
from probes.claims import heads_text

MOST_ROWS = 20  # heads that cost most, in the table of them
ONE_MODEL = (
    "There is one model, and there are no seeds: every interval is over inputs, and says what other inputs of the same "
    "kind would show of these weights, and nothing of other models."
)


def report(f: Findings, command: str) -> Page:
    """The report of what was measured."""
    sections = [Section("Two heads of the same look", _pair_parts(f))]
    sections.append(Section("Which patterns hold", [PATTERNS, *(_scan_table(f, name) for name in _scanned(f))]))
    sections.append(Section("Which heads cost something", _cost_parts(f)))
    if f.audits:
        sections.append(Section("What the audit says", [_audit_table(f)]))
    if f.encoders:
        sections.append(Section("An encoder", [ENCODER, *(_encoder_tables(f))]))
    return Page(
        title="Real heads: what they look like, and what they cost",
        asked=(
            f"Which of the {f.decoder.scans['repetition'].num_heads} heads of a real language model look like what "
            "papers describe, and which of those does it need to repeat what it has read, or to read a text?"
        ),
        said=[
            "Repeated random tokens are predicted by a previous-token head and an induction head behind it (Elhage et "
            "al. 2021, Olsson et al. 2022).",
            "Heads are found by the score of their pattern on such tokens.",
        ],
        answer=_answers(f),
        sure=ONE_MODEL + " The pair was chosen on one half of the inputs and is measured on the other. "
        "Primary comparisons were named before the run; all others are corrected together (Holm).",
        lead=pair_figure(f),
        compared=[_primary_table(f)],
        sections=sections,
        settings=[_settings(f)],
        command=command,
        digests=[(one.name, one.identity) for one in (f.decoder, *f.twins, *f.encoders)],
    )


def _answers(f: Findings) -> list[str]:
    assert f.decoder.first is not None
    assert f.decoder.second is not None
    first, second = (over_inputs(x) for x in (f.decoder.first, f.decoder.second))
    out = [
        f"The loss falls from {estimate(first, 1, n=True)} nats where a stretch of random tokens is new to "
        f"{estimate(second, 1, n=True)} where it comes again."
    ]
    if f.pair is None:
        out.append("No two heads look alike by the rule that was written beforehand.")
    else:
        told = [
            f"{heads_text([head])} (score {estimate(f.score(head), 2, n=True)}) costs "
            f"{estimate(f.cost(head), 2, n=True)} nats"
            for head in f.pair.heads
        ]
        word = f.comparisons[COST].finding
        confirmed = "their costs differ" if word == "above" else f"that their costs differ is {word}"
        out.append(f"Of two previous-token heads {' and '.join(told)}: {confirmed}.")
    if (costs := f.every.get("repetition")) is not None:
        count = Counter(f.word(head, costs) for head in costs.heads)
        high = looks(f.scores, "previous")
        needed = [head for head in high if f.word(head, costs) == "above"]
        out.append(
            f"Without {count['above']} of {len(costs.heads)} heads repetition costs more, by corrected tests, without "
            f"{count['equivalent']} it costs nothing; of {len(high)} heads that look like previous-token heads "
            f"{len(needed)} cost something."
        )
    return out


def _primary_table(f: Findings) -> Table:
    rows = []
    for name, meant in (
        (COPY, "nats at the second copy less those at the first"),
        (COST, "nats, costly less idle head, half B"),
        (LOOK, f"claim scores, costly less idle head, half B; bound {SAME_LOOK:g}"),
    ):
        c = f.comparisons.get(name)
        row = ["–", "–", "no pair"] if c is None else [Cell(c.estimate, 3), c.tests, _said(c)]
        rows.append([name, meant, *row])
    return Table(["primary comparison", "of", "difference", "test", "finding"], rows, ONE_MODEL, text=(1, 3, 4))


def _said(c: Comparison) -> str:
    """The finding; of a comparison with a bound, whether the difference, be there one or not, lies within it."""
    within = c.adjusted_equivalent is not None and c.adjusted_equivalent <= ALPHA
    return c.finding if c.bound is None else "within the bound" if within else f"{c.finding}; not within the bound"


def _pair_parts(f: Findings) -> list[str | Table | Figure]:
    rule = (
        f"The rule, written before any head had been ablated: on half A, among the heads whose claim score of “the "
        f"previous token” is at least {LEAST:g} in the scan, of all two whose scores differ by {ALIKE:g} at most, "
        "those whose costs are furthest apart. Half B, other inputs of the same kind, is used to measure them."
    )
    rows: list[list[str | Cell]] = []
    for head, cost in sorted(f.chosen_costs.items(), key=lambda one: -one[1]):
        chosen = "" if f.pair is None or head not in f.pair.heads else "chosen"
        rows.append(
            [
                heads_text([head]), number(f.chosen_scores[head], 2), number(cost, 3), Cell(f.score(head), 2),
                Cell(f.cost(head), 3), Cell(f.cost(head, "text"), 3), chosen,
            ]
        )  # fmt: skip
    columns = ["head", "score, half A", "cost, half A", "score, half B", "cost, half B", "cost on text", ""]
    parts: list[str | Table | Figure] = [rule]
    if rows:
        parts.append(Table(columns, rows, "Costs in nats. Half A chose and has no intervals.", text=(6,)))
    figure = scatter(f)
    return [*parts, figure] if figure is not None else parts


PATTERNS = (
    "Every head against every relation that applies, all pairs corrected together; the words of the audit's rules are "
    "asked of each head's best relation. Counted are heads whose best relation it is."
)


def _scanned(f: Findings) -> list[str]:
    return list(f.decoder.scans)


def _scan_table(f: Findings, name: str) -> Table:
    models = [f.decoder, *(twin for twin in f.twins if name in twin.scans)]
    return _words_table([(one, one.scans[name]) for one in models], name)


def _words_table(scans: Sequence[tuple[Model, ScanResult]], name: str) -> Table:
    counts = {one.name: _best(scan) for one, scan in scans}
    relations = sorted({words for found in counts.values() for words, _ in found})
    rows = []
    for words in relations:
        row = [words]
        for one, _ in scans:
            row += [str(counts[one.name][words, word]) for word in ("holds", "undecided", "fails")]
        rows.append(row)
    heads = [f"{one.name}: {word}" for one, _ in scans for word in ("holds", "undecided", "fails")]
    scan = scans[0][1]
    return Table(
        [f"{name}: best relation", *heads],
        rows,
        f"Heads, of {scan.num_heads}; {scan.num_relations} relations a head, n={scan.num_inputs} inputs, of which one "
        "half chooses and the other decides.",
    )


def _best(scan: ScanResult) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for one in scan.heads:
        if one.mass is not None and one.mass.pattern is not None:
            family = one.mass.words if one.mass.relation in KNOWN else _family(one.mass.relation)
            found[family, one.mass.pattern] += 1
    return found


KNOWN = ("previous", "current", "first", "next", "induction", "copies", "earlier-copies", "all", "repeated", "mirror")


def _family(relation: str) -> str:
    """Offsets and positions are told together: each head is tried on the one that fits it best."""
    for begin, words in (("offset", "another offset"), ("position", "another position")):
        if relation.startswith(begin):
            return words
    return relation


def _cost_parts(f: Findings) -> list[str | Table | Figure]:
    out: list[str | Table | Figure] = [
        "All that a head gives is replaced by its mean over the inputs, at each position, by hooks on the model of "
        "transformers: nothing of the audit's code, and nothing of what it edits, is used. A head costs something "
        f"where the corrected test finds it, and nothing where its cost lies within ±{NOTHING:g} nats with its whole "
        "interval."
    ]
    for name, costs in {**f.costs, **f.every}.items():
        if costs.every:
            out.append(Figure(cost_map(f, costs), cost_caption(costs)))
        found = Counter(f.word(head, costs) for head in costs.heads)
        out.append(
            f"On {name}, of {len(costs.heads)} heads: {found['above']} cost something, without {found['below']} the "
            f"loss is lower, {found['equivalent']} cost nothing, {found['inconclusive']} are open."
        )
        out.append(_cost_table(f, costs))
    return out


def _cost_table(f: Findings, costs: Costs) -> Table:
    order = sorted(range(len(costs.heads)), key=lambda i: -float(costs.more[i].mean()))[:MOST_ROWS]
    best = {(one.layer, one.head): one.mass for one in f.decoder.scans[costs.inputs.name].heads} if (
        costs.inputs.name in f.decoder.scans) else {}  # fmt: skip
    rows = []
    for i in order:
        head = costs.heads[i]
        mass, c = best.get(head), f.comparisons[named(head, costs)]
        told = "" if mass is None else f"{mass.words} ({number(mass.score.value, 2)}, {mass.pattern})"
        rows.append([heads_text([head]), told, Cell(c.estimate, 3), _test(c), c.finding])
    shown = f"The {len(rows)} heads that cost most. " if len(rows) < len(costs.heads) else ""
    return Table(
        [f"head, {costs.inputs.name}", "best relation (score, pattern)", "nats lost without it", "test", "finding"],
        rows, shown + ONE_MODEL, text=(1, 3, 4),
    )  # fmt: skip


def _test(c: Comparison) -> str:
    return c.tests


def _audit_table(f: Findings) -> Table:
    rows = [[r.claim, r.verdict, r.pattern, r.use, r.reason] for r in f.audits]
    return Table(
        ["claim", "verdict", "pattern", "use", "reason"], rows,
        f"n={f.audits[0].num_inputs} fresh repetitions, one half of which chooses; {len(f.audits)} claims "
        "corrected together.",
        text=(1, 2, 3, 4),
    )  # fmt: skip


ENCODER = (
    "An encoder has no next token to predict, so that only its patterns are asked: on paragraphs of Wikipedia, against "
    "positions and delimiters, beside the same architecture with weights drawn at random."
)


def _encoder_tables(f: Findings) -> list[Table]:
    return [_words_table([(one, scan) for one in f.encoders for scan in one.scans.values()], "articles")]


def _settings(f: Findings) -> Table:
    rows = [
        [f"inputs, {name}", f"{costs.inputs.words}; {len(costs.inputs.tokens)} for costs of heads of a high score"]
        for name, costs in f.costs.items()
    ]
    rows.append(["a head looks like a relation", f"claim score of {LEAST:g} at least"])
    rows.append(["two heads look alike", f"scores apart by {ALIKE:g} at most"])
    rows.append(
        ["weights", "4-bit ones of the GGUF file, unpacked to float32; the model was tuned to follow instructions"]
    )
    rows.append(["shuffled weights", "the entries of every tensor in another order"])
    return Table(["setting", "value"], rows, text=(1,))
