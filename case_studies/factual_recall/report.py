"""The page of `factual-recall`: every sentence of it is made from the numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from case_studies.factual_recall.arms import KNOBS, OFTEN
from case_studies.factual_recall.capacity import Sizes, base_accuracy
from case_studies.factual_recall.findings import ALPHAS, Findings, Measured, alphas
from case_studies.factual_recall.heads import GROUPS, READS
from case_studies.factual_recall.maps import hebbian, indicators, recalled
from case_studies.factual_recall.stages import RUNGS
from case_studies.page import Figure, Page, Section, Table
from case_studies.words import Cell
from interp.numbers import count, estimate, number
from interp.plots.style import PALETTE, finish, log_axis
from interp.stats import Estimate

RUNG_WORDS = {"uniform": "uniform", "subject": "p(a | s)", "relation": "p(a | r)", "fact": "p(a | s, r)"}

SYMBOLS = (
    "A fact is an answer a to a subject s and a relation r; each of R relations has a block A_r of its own answers, of "
    "A_max at most, and there are S subjects. H is the number of heads, d_h their width, d that of the model and m "
    "that of the MLP. A rung is a simpler predictor: uniform, p(a | s) without the relation, p(a | r) without the "
    "subject, and p(a | s, r), the fact itself."
)
FLOOR = 1e-3  # least divergence that is drawn: a model at its first weights is uniform, and 0 has no logarithm


def report(f: Findings, command: str) -> Page:
    """The whole page."""
    return Page(
        title="How a table of facts is learned, read and stored",
        asked="Does a model predict from the relation alone before it knows facts, which heads read the subject and "
        "which the relation, and how many facts fit into a size?",
        said=[
            "With linear attention on one-hot tokens, from small positive weights, gradient flow converges to zero "
            "loss and passes through a phase that predicts p(a | r) (slides, L3493-3512; Nichani et al. 2024).",
            "With attention and an MLP, H d_h >= S + R and m d >= S R suffice up to factors; with attention alone "
            "d >= R + A_max and H d_h >= S (L3460-3477).",
            "Sums of outer products hold a number of associations in proportion to d² (L3377-3381).",
        ],
        answer=_answer(f),
        sure="Intervals are over seeds (shares: exact, Clopper-Pearson): 95 % for the comparisons named before the "
        "run, Bonferroni-corrected together for the other slopes. Predictions stand beside those of simpler "
        "predictors on the same strings.",
        lead=Figure(
            _phases_figure(f.measured),
            "Divergence of simpler predictors (rungs) from the models, by step; the lowest line is the phase.",
        ),
        compared=[SYMBOLS, _stage_table(f.measured), _slope_table(f.sizes)],
        sections=[
            Section("The stage", [_closest_table(f.measured), _alpha_table(f), _keys_table(f.measured)]),
            Section("Which head reads what", [_heads_table(f.measured)]),
            Section("What the maps hold", [_maps_table(f.measured), _memory_text(f), _memory_table(f)]),
            Section("Accuracy by size", [_size_table(one) for one in f.sizes]),
        ],
        settings=[_settings(f)],
        command=command,
        digests=[
            *((m.family.name, m.digest) for m in f.measured),
            *(pair for one in f.sizes for pair in one.digests),
        ],
    )


def _answer(f: Findings) -> list[str]:
    transformer, linear = f.arm("attention and MLP"), f.arm("linear")
    only = f.arm("attention only")
    return [
        f"Nearest to p(a | r) for a time: {count(linear.stages.share(), 2)} of seeds with linear attention "
        f"({estimate(linear.stages.length(), 0)} steps), {count(transformer.stages.share(), 2)} with attention and MLP "
        f"({estimate(transformer.stages.length(), 0)} steps); at the closest "
        f"{estimate(linear.stages.closest()['right'], 2)} and {estimate(transformer.stages.closest()['right'], 2)} of "
        f"the answers are right, where the relation alone gives {number(linear.stages.guess, 3)}: beyond it "
        f"{estimate(linear.stages.closest()['known'], 2)} and {estimate(transformer.stages.closest()['known'], 2)} of "
        "the rest are known already.",
        "With attention alone, what a relation's token adds to the logits correlates with the indicator of its block "
        f"by {estimate(only.maps.estimates()['relation'], 2, n=True)} (answers permuted: {number(only.maps.null, 2)} "
        "at most in 97.5 % of cases).",
        "Slope of log(facts known) over log(size): "
        + "; ".join(
            f"{_knob(one)} {estimate(one.slope(), 2)}, with guesses taken off {estimate(one.beyond_guess(), 2)}"
            for one in f.sizes
            if one.knob.primary
        )
        + ".",
    ]


def _knob(one: Sizes) -> str:
    return one.knob.name.removesuffix(" =")


def _finding(share: Estimate) -> str:
    """Whether most seeds have it, where the whole interval says so."""
    if share.low is None or share.high is None:
        return "undecided"
    return "most do" if share.low > 0.5 else "most do not" if share.high < 0.5 else "undecided"


def _sign(one: Estimate) -> str:
    if one.low is None or one.high is None:
        return "undecided"
    return "closer" if one.high < 0 else "not closer" if one.low > 0 else "undecided"


def _stage_table(measured: Sequence[Measured]) -> Table:
    rows = []
    for m in measured:
        share = m.stages.share()
        rows.append(
            [
                m.family.name + (" (primary)" if m.primary else ""),
                Cell(share, counted=True),
                _finding(share),
                *(Cell(m.stages.length(rung), 0) for rung in RUNGS[:3]),
                Cell(m.stages.learned(), counted=True),
                Cell(m.stages.diverged, counted=True),
            ]
        )
    return Table(
        [
            "models",
            "seeds nearest to p(a | r) at some step",
            "finding",
            *(f"steps nearest to {RUNG_WORDS[rung]}" for rung in RUNGS[:3]),
            "seeds that learned the table",
            "seeds that diverged",
        ],
        rows,
        f"Evaluated every {OFTEN} steps; nearest by KL(rung, model). Seeds that diverged are left out of all but the "
        "last column. The slides print no number.",
        text=(2,),
    )


def _closest_table(measured: Sequence[Measured]) -> Table:
    rows = []
    for m in measured:
        found = m.stages.closest()
        rows.append(
            [
                m.family.name,
                Cell(found["step"], 0),
                Cell(found["divergence"], 3),
                number(m.stages.path, 3),
                Cell(found["less_path"], 3),
                _sign(found["less_path"]),
                Cell(found["block"], 2),
                Cell(found["right"], 2),
                Cell(found["known"], 2),
            ]
        )
    return Table(
        [
            *("models", "closest at step", "KL(p(a | r), model) there", "straight way", "less the straight way"),
            *("finding", "right block there", "right answer there", "known beyond the relation"),
        ],
        rows,
        f"Known: (right - g) / (1 - g), g = {number(measured[0].stages.guess, 3)} being what the relation alone gives "
        "(added after the first look). Straight way: the smallest divergence of a mixture of uniform and fact, as a "
        "model would have that learned all of a fact at once. Finding: closer to p(a | r) than any such mixture, by "
        "the whole interval.",
        text=(5,),
    )


def _alpha_table(f: Findings) -> Table:
    rows = [
        [
            number(alpha, 5).rstrip("0"),
            Cell(f.arm(name).stages.length("uniform"), 0),
            Cell(f.arm(name).stages.length(), 0),
            Cell(f.arm(name).stages.closest()["divergence"], 3),
        ]
        for name, alpha in ALPHAS.items()
    ]
    return Table(
        ["alpha", "steps nearest to uniform", "steps nearest to p(a | r)", "least KL(p(a | r), model)"],
        rows,
        "Linear attention from first weights alpha. The theorem is of gradient flow and of alpha near 0: compared are "
        "the order of phases, how close the second comes to p(a | r), and that it lasts. For each factor of ten by "
        f"which alpha is smaller it lasts {estimate(alphas(f.measured), 1, n=True)} steps longer.",
    )


def _keys_table(measured: Sequence[Measured]) -> Table:
    rows = [
        [m.family.name, Cell(m.keys["subject"], 1), Cell(m.keys["relation"], 1)] for m in measured if m.keys is not None
    ]
    return Table(
        ["models", "subjects", "relations"],
        rows,
        "Mean |w_KQ(z)| at END of linear models, over that of noise tokens: 1 in the first weights.",
    )


def _heads_table(measured: Sequence[Measured]) -> Table:
    rows = []
    for m in measured:
        if m.heads is not None:
            groups = m.heads.groups()
            rows.append(
                [
                    m.family.name,
                    *(str(groups[name]) for name in GROUPS),
                    Cell(m.heads.apart(), 2),
                    number(m.heads.paired_at_random(), 2),
                    Cell(m.heads.looks("subject"), 2),
                    Cell(m.heads.looks("relation"), 2),
                    number(m.heads.same_at_most(), 3),
                ]
            )
    return Table(
        [
            *("models", *GROUPS, "divided", "null: heads paired at random", "weight on the subject"),
            *("weight on the relation", "same fact, other noise"),
        ],
        rows,
        "Interchange of one head's output at END with the donor's, of pairs that differ in the subject or in the "
        f"relation alone. A head reads the part with which it moves {number(READS, 1)} or more of the difference of "
        "logits; counted are heads of all seeds. Divided: sum over heads of |s - r| over |s| + |r|, where s and r are "
        "these shares. Weights: attention of the head that moves the most. Same fact: the largest effect of a donor "
        "with the same fact at other places, mean over seeds.",
    )


def _maps_table(measured: Sequence[Measured]) -> Table:
    rows = []
    for m in measured:
        found = m.maps.estimates()
        rows.append(
            [
                m.family.name + (" (primary)" if m.family.name == "attention only" else ""),
                Cell(found["relation"], 2),
                number(m.maps.null, 2),
                number(m.maps.untrained, 2),
                Cell(found["subject"], 2),
                Cell(found["noise"], 3),
                Cell(found["constructed"], 2),
                Cell(found["hebbian"], 2),
                number(float(m.maps.other.mean()), 2),
                Cell(found["recalled"], 2),
            ]
        )
    return Table(
        [
            *("models", "relations and blocks", "answers permuted", "untrained", "subjects and answers"),
            *("noise over relations", "cosine with indicators", "cosine with outer products"),
            *("with those of other tables", "right by the direct path"),
        ],
        rows,
        "Of what a token adds to the logits at END by attention alone: correlation with the indicator of A_r, and with "
        "the answers of a subject; norms; cosines with the constructed model's maps and with sums of outer products. "
        "Permuted: the 97.5 % quantile of the mean. An MLP is left out of this path.",
    )


def _memory_text(f: Findings) -> str:
    table: Any = f.measured[0].population.grammar
    one, other = recalled(table, hebbian(table)), recalled(table, indicators(table))
    return (
        f"As a memory of this table, exactly: sums of outer products recall {number(one, 3)} of all facts, the "
        f"indicators {number(other, 3)}, and a predictor that knows the relation alone "
        f"{number(base_accuracy(table), 3)}."
    )


def _memory_table(f: Findings) -> Table:
    capacities, slope = f.memory
    return Table(
        ["width d", "pairs recalled to 99 %", "pairs over d²"],
        [[str(width), number(value, 1), number(value / width**2, 4)] for width, value in capacities.items()],
        "W = sum of outer products of random unit vectors, no training, mean over draws; "
        f"slope of the logarithms {estimate(slope, 2, n=True)}, 2 in the slides.",
    )


def _slope_table(found: Sequence[Sizes]) -> Table:
    rows = []
    for one in found:
        rows.append(
            [
                _knob(one) + (" (primary)" if one.knob.primary else ""),
                f"{one.knob.said}: from {number(one.knob.bound, 0)} on",
                ", ".join(str(scale) for scale in one.scales),
                Cell(one.slope(), 2, level=one.level),
                Cell(one.beyond_guess(), 2, level=one.level),
                ", ".join(str(scale) for scale in one.scales[one.above_guess]),
            ]
        )
    return Table(
        ["size", "bound, up to factors", "sizes", "slope", "guesses off", "over sizes"],
        rows,
        "Slope of log(facts known) over log(size), one per seed; facts known are accuracy times S R = 128. A slope of "
        "1 is proportion to the size; where the largest sizes know every fact it is below. Null 0. Guesses off: of "
        "(accuracy - g) / (1 - g), where g is the accuracy of knowing the relation alone, over the sizes above g.",
        text=(1, 2),
    )


def _size_table(one: Sizes) -> Table:
    rows = [
        [str(scale), "yes" if scale >= one.knob.bound else "no", Cell(right, 3)]
        for scale, right in zip(one.scales, one.accuracies(), strict=True)
    ]
    fixed = ", ".join(f"{name} = {value}" for name, value in one.knob.fixed.items())
    return Table([_knob(one), one.knob.said, "accuracy"], rows, f"Fixed: {fixed}.")


def _phases_figure(measured: Sequence[Measured]) -> go.Figure:
    from plotly.subplots import make_subplots

    shown = [m for m in measured if m.primary]
    figure = make_subplots(rows=1, cols=len(shown), subplot_titles=[m.family.name for m in shown], shared_yaxes=True)
    for at, m in enumerate(shown, start=1):
        for colour, rung in enumerate(RUNGS):
            line = go.Scatter(
                x=m.stages.steps,
                y=m.stages.far[rung].mean(0),
                name=RUNG_WORDS[rung],
                line={"color": PALETTE[colour]},
                showlegend=at == 1,
            )
            figure.add_trace(line, row=1, col=at)
    figure.update_xaxes(title_text="step")
    most = max(float(m.stages.far[rung].mean(0).max()) for m in shown for rung in RUNGS)
    figure.update_yaxes(**log_axis(), range=[math.log10(FLOOR), math.log10(2 * most)])
    figure.update_yaxes(title_text="KL(rung, model)", col=1)
    note = f"KL in nats, mean over seeds; from {FLOOR:g} on"
    drawn: go.Figure = finish(figure, "How far models are from each rung, by step", note, height=420, width=1100)
    return drawn


def _settings(f: Findings) -> Table:
    arms = [
        [m.family.name, m.family.preset, _options(m.family.options), str(len(m.population))] for m in f.measured
    ]  # fmt: skip
    sized = [
        [
            knob.name.removesuffix(" ="),
            knob.preset,
            _options({**knob.families[0].options, **knob.fixed}),
            str(one.right.shape[1]),
        ]
        for knob, one in zip(KNOBS, f.sizes, strict=True)
    ]
    return Table(["models", "preset", "options", "seeds"], [*arms, *sized], text=(1, 2))


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "none"
