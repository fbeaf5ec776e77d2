"""The page of `flip-flop`. Every sentence is made from the numbers."""

from collections.abc import Sequence

from case_studies.corrections import p_text
from case_studies.flip_flop.afterwards import (
    attention,
    faultless,
    faultless_at,
    lstms_faultless,
    right,
    shares,
    versus_errors,
)
from case_studies.flip_flop.figures import errors_figure, heatmaps
from case_studies.flip_flop.lstm import Counted
from case_studies.flip_flop.measure import DENSE, OWN, READS, SPARSE, Found, Measured, of
from case_studies.flip_flop.predict import (
    BOUND,
    LAWS,
    PRIMARY,
    among_clean,
    any_error,
    learned,
    predictions,
    ranks,
    rivals,
    unlearned,
    words_of,
)
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import count, estimate, number, significant
from probes.glitches import share_of_reads

ONE, TWO, MIXTURE = "1 layer", "2 layers", "2 layers, mixture"
TERMS = (
    "A flip-flop string is instructions with a bit each: write, read and ignore; a read is to be answered by the bit "
    "of the last write. FFL(p), the flip-flop language, has an instruction to ignore with probability p_i = p. "
    "Training's law has p_i = 0.8; sparse (0.98) and dense (0.1) strings lie beyond it. T is the length of strings. A "
    "glitch is a wrong answer."
)
PENALTIES = ("2 layers, entropy", "2 layers, 2-norm", "2 layers, maximum")


def report(found: Found, command: str) -> Page:
    """The report of what was measured."""
    measured = found.measured
    base = [m for m in measured if m.arm.base]
    return Page(
        title="Attention glitches: right in training, not quite beyond it",
        asked=(
            "Transformers that keep a bit through what is to be ignored answer every read in training. How often are "
            "they wrong where reads are rarer or denser, where does their attention then go, what lessens it, and does "
            "anything that can be seen in training tell which seeds are wrong?"
        ),
        said=[
            "Transformers of 19M parameters, T = 512, are perfect in distribution and wrong at some reads of sparse "
            "FFL(0.98) and dense FFL(0.1) strings, irregularly over seeds; an LSTM makes no error in 100 of 100 runs "
            "(its R1 and R2).",
            "Training on a mixture removes most errors (6 of 25 runs have none); sharpening attention lowers them and "
            "never removes them (its R4 and R6 to R8). No number is printed for what predicts them.",
        ],
        answer=answers(found),
        sure=(
            f"Every seed answers {READS:,} reads per law or more. Intervals are 95 %: of counts of seeds exact, of "
            "means over seeds, of AUROCs by jackknife over seeds. Beside errors stand untrained models and guessing; "
            "an AUROC of 0.5 predicts nothing."
        ),
        lead=errors_figure(measured),
        compared=[TERMS, paper_table(found)],
        sections=[
            Section(
                "Errors a read",
                [
                    errors_table(measured),
                    learned_table(measured),
                    shares_table(measured),
                    _resolution(measured),
                    *(_figure(m) for m in base),
                ],
            ),
            Section(
                "Where attention goes",
                [
                    drift_table(measured),
                    attention_table(measured),
                    *(_drift(m) for m in base),
                    *map(heatmaps, base),
                ],
            ),
            Section(
                "What is seen in training, and glitches beyond",
                [*prediction_parts(measured), rivals_table(measured), versus_table(measured)],
            ),
            Section("The LSTM", [lstm_table(found)]),
        ],
        settings=[settings_table(measured)],
        command=command,
        digests=[(m.arm.family.name, m.digest) for m in measured],
    )


def answers(found: Found) -> list[str]:
    """Three sentences, made from the numbers."""
    measured = found.measured
    wrong = [
        f"{_share(m, SPARSE)} seeds on sparse and {_share(m, DENSE)} on dense strings with {m.arm.family.name}"
        for m in (of(measured, ONE), of(measured, TWO))
    ]
    mixed = of(measured, MIXTURE)
    compared = predictions(measured)
    told = [
        f"{name.partition(':')[0]} {estimate(compared[name].estimate, 2, n=True)}, {_told(compared[name].finding)}"
        for name in PRIMARY
        if name in compared
    ]
    return [
        f"At least one read is answered wrong by {'; '.join(wrong)}.",
        f"Trained on the mixture, {count(faultless(mixed))} seeds make no error on any of three laws (the source: 6 "
        f"of 25), and {count(lstms_faultless(found))} LSTMs none.",
        f"The AUROC with which a head's weight on the last write, on training's law, finds the seeds that make more "
        f"errors than the median: {'; '.join(told)}. Of the seeds of 2 layers that err on sparse strings, "
        f"{_with_base(measured, TWO)} err on training's law already: a score that finds these finds seeds that have "
        f"not learned the task; of 1 layer {_with_base(measured, ONE)}.",
    ]


def _with_base(measured: Sequence[Measured], name: str) -> str:
    """Of the seeds that err on sparse strings, how many err on training's law, beside how many of all do."""
    m = of(measured, name)
    return f"{count(unlearned(m, SPARSE))} ({_share(m, OWN)} of all)"


def _told(finding: str) -> str:
    """A finding of an AUROC with what it is above or below."""
    return f"{finding} 0.5" if finding in ("above", "below") else finding


def _share(m: Measured, law: str) -> str:
    return count(m.glitches.spread[law].faulty)


def paper_table(found: Found) -> Table:
    """What the source says beside what came out."""
    measured = found.measured
    rows: list[list[str | Cell]] = []
    for name in (ONE, TWO):
        m = of(measured, name)
        for law, words in ((OWN, "training's law"), (SPARSE, "sparse"), (DENSE, "dense")):
            paper = "0" if law == OWN else "some, irregularly"
            rows.append(
                [f"{name}: seeds with an error, {words}", paper, Cell(m.glitches.spread[law].faulty, counted=True)]
            )
    rows.append(["LSTMs without an error", "100 of 100", Cell(lstms_faultless(found), counted=True)])
    rows.append(
        ["2 layers, mixture: seeds without an error", "6 of 25", Cell(faultless(of(measured, MIXTURE)), counted=True)]
    )
    for name in PENALTIES:
        m = of(measured, name)
        rows.append(
            [f"{name}: seeds with an error, dense", "some", Cell(m.glitches.spread[DENSE].faulty, counted=True)]
        )
    m = of(measured, ONE)
    rows.append(
        [
            f"1 layer: attention leaves the last write at gaps of up to {m.drift.gaps[-1]}",
            "one shown (Fig. 3.33)",
            Cell(attention(m)["left"], counted=True),
        ]
    )
    rows.append(["1 layer: at a gap that training has", "not told", Cell(attention(m)["left_within"], counted=True)])
    return Table(
        ["quantity", "source", "ours"],
        rows,
        "The source trains 6 layers of width 512 on T = 512 for 10,000 steps; ours are of T = 32. Attention leaves the "
        'last write where the claim "attends to the last write" fails by an audit\'s bounds.',
        text=(1,),
    )  # fmt: skip


def errors_table(measured: Sequence[Measured]) -> Table:
    """Mean errors per read of each arm and law, with the nulls."""
    rows: list[list[str | Cell]] = []
    for m in measured:
        for law, e in m.glitches.errors.items():
            null = e.null if isinstance(e.null, dict) else {}
            spread = m.glitches.spread[law]
            rows.append(
                [
                    f"{m.arm.family.name}, p_i = {law}",
                    Cell(e, 5),
                    significant(spread.median, 2),
                    significant(spread.most, 2),
                    Cell(spread.faulty, counted=True),
                    number(null.get("untrained"), 2),
                    number(null.get("last 8 tokens"), 2),
                ]
            )
    return Table(
        ["models and law", "errors per read", "median", "most", "seeds with any", "untrained", "last 8 tokens known"],
        rows,
        f"p_i: the chance that an instruction is to ignore; 0.8 in training, except in the mixture. {READS:,} reads "
        "per law and seed at least. Last 8 tokens known: a predictor that sees these alone.",
    )


def drift_table(measured: Sequence[Measured]) -> Table:
    """From which gap on claims fail, for the last layer's heads."""
    rows: list[list[str | Cell]] = []
    for m in measured:
        d = m.drift
        for at, failing in enumerate(d.failing[-1]):
            near, far = d.gaps[0], d.gaps[-1]
            mass = d.mass[-1][at]
            rows.append(
                [
                    f"{m.arm.family.name}, head {at}",
                    Cell(mass[near], 2),
                    Cell(mass[far], 2),
                    str(far),
                    number(d.weighted[-1][at][far].value, 2),
                    Cell(failing.share, counted=True),
                    "none" if failing.median is None else str(failing.median),
                ]
            )
    head = [
        "last layer",
        "weight at gap 1",
        "at the longest gap",
        "longest gap",
        "weighted by values there",
        "seeds in which the claim fails",
        "from a median gap of",
    ]
    return Table(
        head,
        rows,
        "Strings with one write, and nothing but what is to be ignored after it; means over seeds. Weighted by values: "
        'the weight times the norm of the values. The claim "attends to the last write" fails by an audit\'s bounds.',
    )


def attention_table(measured: Sequence[Measured]) -> Table:
    """What the last layer's heads do together, whichever has which index."""
    rows: list[list[str | Cell]] = []
    for m in measured:
        found = attention(m)
        cells = [Cell(found[name], counted=True) for name in ("kept", "left", "left_within")]
        rows.append([m.arm.family.name, *cells, f"{m.drift.gaps[-1]}", str(m.drift.num_inputs)])
    return Table(
        [
            "last layer",
            "seeds in which some head attends to it at all gaps",
            "in which a head did at the shortest gap and later left",
            "at a gap that training has",
            "longest gap",
            "strings per gap",
        ],
        rows,
        "The index of a head means nothing over seeds, and a head that never attends to the last write leaves nothing. "
        "Where positions have no end, strings are four times as long as in training, so that arms are compared at "
        "gaps of training alone. Added after the first look.",
    )


def shares_table(measured: Sequence[Measured]) -> Table:
    """What lessens errors, over all seeds of an arm."""
    base, others = of(measured, TWO), [of(measured, name) for name in (MIXTURE, *PENALTIES)]
    tested = shares(base, others, (MIXTURE, PENALTIES[1]))
    rows: list[list[str | Cell]] = []
    for m in (base, *others):
        name = m.arm.family.name
        row: list[str | Cell] = [name]
        for words, share in (("training's law", right(m)), ("any law", faultless(m))):
            found = tested.get((name, words))
            row += [Cell(share, counted=True), "" if found is None else f"{p_text(found.adjusted, '')}"]
        rows.append(row)
    between = tested[f"{MIXTURE} against {PENALTIES[1]}", "any law"]
    return Table(
        ["models", "seeds without an error on training's law", "Holm", "on any of the three laws", "Holm"],
        rows,
        f"Fisher's exact p against {TWO}, corrected together with that of mixture against 2-norm on any law "
        f"({p_text(between.adjusted)}). Of all seeds: the mixture is trained on 0.9, 0.98 and 0.1 and never sees 0.8, "
        "so that no error there chooses among its seeds by a law beyond training. Added after the first look.",
    )


def _resolution(measured: Sequence[Measured]) -> str:
    """What it takes to see no error."""
    one, two = of(measured, ONE), of(measured, TWO)
    reads = two.glitches.reads[OWN]
    return (
        f"No error seen is none among so many reads: on training's law {one.glitches.reads[OWN]:,} of 1 layer and "
        f"{reads:,} of 2 layers. Among {reads:,} reads {number(faultless_at(one, OWN, reads), 0)} of "
        f"{len(one.population)} seeds of 1 layer would be expected to show none, where {count(right(one))} did."
    )


def versus_table(measured: Sequence[Measured]) -> Table:
    """Looks at a head against the errors on training's law, at the same seeds."""
    rows: list[list[str | Cell]] = []
    for name, one in versus_errors(measured).items():
        arm, _, score = name.partition(": ")
        turned = " (less is better)" if one.turned else ""
        rows.append(
            [
                f"{arm}: {words_of(score)}{turned}",
                Cell(one.look, 2),
                Cell(one.errors, 2),
                Cell(one.apart.estimate, 2),
                one.apart.finding,
                one.apart.tests,
            ]
        )
    return Table(
        ["look at a head", "its AUROC", "of errors on training's law", "difference", "finding", "p, corrected (Holm)"],
        rows,
        "Of the same seeds, paired (DeLong 1988). A look has the sign that makes its AUROC the larger, chosen on these "
        "very seeds. Added after the first look.",
        text=(4, 5),
    )


def prediction_parts(measured: Sequence[Measured]) -> list[str | Table | Figure]:
    """AUROCs, and beside them other ways to ask."""
    compared = predictions(measured)
    rows: list[list[str | Cell]] = []
    for m in measured:
        for law, words in LAWS.items():
            for score in m.scores:
                one = compared[f"{m.arm.family.name}, {words}: {score}"]
                rows.append(
                    [
                        f"{m.arm.family.name}, {words}: {words_of(score)}",
                        Cell(one.estimate, 2),
                        one.finding,
                        one.tests,
                        Cell(any_error(m, law, score), 2),
                        Cell(among_clean(m, law, score), 2),
                        Cell(ranks(m, law, score), 2),
                    ]
                )
    head = [
        "score seen in training's law",
        "AUROC",
        "finding",
        "p, by itself and corrected",
        "AUROC, any error",
        "AUROC among the clean",
        "rank correlation",
    ]
    return [
        "A seed is faulty if it makes more errors than the median seed; the AUROC is the chance that a faulty seed has "
        "the lower score (of entropy: the higher). Scores are of the head with the most weight on the last write, "
        "chosen on half of the strings and scored on the rest. Named beforehand: "
        f"{'; '.join(name.replace(': mass', '') for name in PRIMARY)}, each by the {words_of('mass')}; the rest is "
        f"corrected together (Holm). Equivalent: within 0.5 ± {BOUND}.",
        Table(
            head,
            rows,
            "The clean: seeds without an error on training's law; undefined where none of them is "
            "faulty. Rank correlation: of the score and the errors, over seeds.",
            text=(2, 3),
        ),
    ]


def rivals_table(measured: Sequence[Measured]) -> Table:
    """What needs no look at a head, asked the same."""
    rows: list[list[str | Cell]] = []
    for m in measured:
        for law, words in LAWS.items() if m.scores else ():
            found = rivals(m, law)
            rows.append([f"{m.arm.family.name}, {words}", Cell(found["errors"], 2), Cell(found["accuracy"], 2)])
    return Table(
        ["models and law", "errors on training's law", "last accuracy at reads"],
        rows,
        "AUROC for the same faulty seeds. A look that tells no more than these do is not worth a look.",
    )


def learned_table(measured: Sequence[Measured]) -> Table:
    """Errors of the seeds that learned the task."""
    rows: list[list[str | Cell]] = []
    for m in measured:
        found = {law: learned(m, law) for law in LAWS}
        cells = [
            Cell(x, 5) if name == "errors" else Cell(x, counted=True) for f in found.values() for name, x in f.items()
        ]
        rows.append([m.arm.family.name, *cells])
    head = ["models", *(f"{words}: {what}" for words in LAWS.values() for what in ("errors per read", "without any"))]
    return Table(
        head,
        rows,
        "Seeds without an error at p_i = 0.8, which is training's law except of the mixture: it is trained on 0.9, "
        "0.98 and 0.1.",
    )


def lstm_table(found: Found) -> Table:
    """Errors of each LSTM."""
    rows = [[f"LSTM {seed}", *(_counted(one) for one in each.values())] for seed, each in enumerate(found.lstms)]
    laws = list(found.lstms[0]) if found.lstms else []
    return Table(
        ["run", *(f"p_i = {law}" for law in laws)],
        rows,
        "Wrong reads of all, and the upper end of the 95 % interval of errors a read; the strings of the 2-layer "
        "models.",
    )


def _counted(one: Counted) -> str:
    most = share_of_reads(one.wrong, one.asked).high
    return f"{one.errors} of {int(one.asked.sum()):,}, at most {significant(most, 2)}"


def settings_table(measured: Sequence[Measured]) -> Table:
    """What was trained."""
    rows = []
    for m in measured:
        s, options = m.arm.family.recipe.settings, dict(m.arm.family.options)
        told = ", ".join(f"{key}={value}" for key, value in options.items()) or "none"
        rows.append([m.arm.family.name, m.arm.family.preset, told, str(s.steps), str(len(m.population))])
    return Table(["models", "preset", "options", "steps", "seeds"], rows, text=(1, 2))


def _figure(m: Measured) -> Figure:
    return Figure(m.glitches.figure(), f"{m.arm.family.name}: errors per read by law.")


def _drift(m: Measured) -> Figure:
    return Figure(m.drift.figure(), f"{m.arm.family.name}: weight on the last write by the gap to it.")
