"""The section on the faint blocks of Figs 2.5 and 2.6: how many steps give the thesis's means."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from case_studies.page import Figure, Table
from case_studies.topics.descent import (
    BLOCK_ENTRIES,
    RELEASED_EPOCH,
    RELEASED_VOCABULARY,
    SETTINGS,
    Answer,
    Descent,
    Growth,
    Setting,
    initial_scale,
    spread_of_all,
)
from case_studies.topics.families import FAINT_STOPS, FIGURE_STEPS, PAPER_FAINT, PAPER_FAINT_SPREAD, Biased
from case_studies.words import Cell, Row
from interp.grammars import TopicGrammar
from interp.numbers import ABSENT, number

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from case_studies.topics.findings import Findings

ALPHA = 0.05
POINTS = 61


def faint_parts(f: "Findings") -> list[str | Table | Figure]:
    """Sentences, the curve, what the expectation gives in each setting, and what trained models do."""
    return [
        steps_sentence(f.answers),
        others_sentence(f.answers),
        scale_sentence(),
        Figure(
            growth_figure(f.growth, SETTINGS[:3]),
            "Mean of the block entries of W_V (solid) and of the others (dashed) over steps of SGD 0.01 on the squared "
            "loss: lines are expectations, points trained models without bias with their intervals over seeds "
            f"({_seeds(f.growth)}); horizontal lines are the thesis's means.",
        ),
        expected_table(f.answers),
        stopped_table(f.growth),
        trained_table(f.growth),
    ]


def steps_sentence(answers: Sequence[Answer]) -> str:
    """When the expectation passes the thesis's block means, and where the study's other runs are by then."""
    first = answers[0]
    at_end = Descent(TopicGrammar(), first.setting).means(FIGURE_STEPS)[0]
    told = both(
        f"{label}'s {number(paper, 4)} {_reached(first.steps[label])}" for label, (paper, _) in PAPER_FAINT.items()
    )
    if any(step is None for step in first.steps.values()):
        verdict = "no number of steps gives both"
    elif all(at_end > paper for paper, _ in PAPER_FAINT.values()):
        verdict = f"the {FIGURE_STEPS} steps of the other runs here are too many for them ({number(at_end, 4)})"
    else:
        verdict = f"the {FIGURE_STEPS} steps of the other runs here give {number(at_end, 4)}"
    averaged = next((a for a in answers if a.setting.averaged), None)
    more = ""
    if averaged is not None and all(step is not None for step in averaged.steps.values()):
        steps = [step for step in averaged.steps.values() if step is not None]
        more = (
            f" With the loss averaged over {RELEASED_VOCABULARY} tokens, as the released code's, it takes "
            f"{both(f'{step:,.0f}' for step in steps)} steps, {both(number(s / RELEASED_EPOCH, 0) for s in steps)} "
            f"of its epochs of {RELEASED_EPOCH} steps."
        )
    return (
        f"In expectation the block mean reaches {told} (even attention, squared loss summed over the vocabulary, SGD "
        f"0.01): {verdict}. The expectation depends on neither the batch nor the initial scale.{more}"
    )


def others_sentence(answers: Sequence[Answer]) -> str:
    """Which settings the thesis's other means speak against."""
    known = [a for a in answers if a.p is not None]
    if not known:
        return "No setting has the thesis's block means, so that nothing can be said of its other entries."
    against = [a for a in known if a.p is not None and a.p < ALPHA]
    best = max(known, key=lambda a: a.p or 0.0)
    told = "; ".join(f"{a.setting.name}: p = {number(a.p, 2)}" for a in known)
    verdict = (
        f"they speak against {len(against)} of {len(known)} settings at {ALPHA:g}"
        if against
        else f"they speak against none of {len(known)} settings at {ALPHA:g}"
    )
    return (
        "At those steps the mean of the other entries tells settings apart: the thesis has "
        f"{both(number(other, 4) for _, other in PAPER_FAINT.values())}, each with its standard deviation. Both "
        f"figures together, {verdict}, and fit best “{best.setting.name}” ({told})."
    )


def scale_sentence() -> str:
    """What the thesis's standard deviations say of its initial scale."""
    grammar = TopicGrammar()
    scales = [initial_scale(spread, grammar) for spread in PAPER_FAINT_SPREAD.values()]
    spreads = PAPER_FAINT_SPREAD.values()
    return (
        f"The thesis's standard deviations of the others' mean, {both(number(s, 5) for s in spreads)}, would be those "
        f"of a mean of {BLOCK_ENTRIES} of them drawn again and again at an initial scale of "
        f"{both(number(s, 4) for s in scales)} (ours: 0.02). Read as those of single entries they would be an "
        "initial scale themselves; a row below has such a one."
    )


def expected_table(answers: Sequence[Answer]) -> Table:
    """Steps and other means by setting."""
    labels = list(PAPER_FAINT)
    head = ["expected gradient descent"]
    for label in labels:
        block, other = PAPER_FAINT[label]
        head += [f"{label}: block mean {number(block, 4)} at step", f"others then (thesis {number(other, 4)})"]
    rows: list[Row] = []
    for a in answers:
        row = [a.setting.name]
        for label in labels:
            row += [_range(a, label), number(a.others[label], 4, none=ABSENT)]
        rows.append([*row, number(a.p, 2, none=ABSENT)])
    return Table(
        [*head, "p"],
        rows,
        "No model is trained here: the mean gradient, which has a closed form. Steps in parentheses: for the block "
        "means of 95 % of runs, which differ by the initial weights as much as the thesis's means of other entries do. "
        "p: of the thesis's two other means under the setting's (chi-square).",
    )


def stopped_table(growth: Sequence[Growth]) -> Table:
    """Trained models of each figure at the step at which the expected block mean is the thesis's."""
    rows: list[Row] = []
    for place, (label, (block, other)) in enumerate(PAPER_FAINT.items()):
        for g in (g for g in growth if label in g.family.name):
            step = FAINT_STOPS[isinstance(g.family, Biased)][place] * max(g.block) // FIGURE_STEPS
            rows.append(
                [
                    g.family.name,
                    str(step),
                    Cell(g.block[step], 5),
                    number(block, 5),
                    Cell(g.other[step], 5),
                    f"{number(other, 5)} ± {number(spread_of_all(PAPER_FAINT_SPREAD[label], TopicGrammar()), 5)}",
                ]
            )
    return Table(
        ["trained", "stopped at step", "block mean", "thesis", "other mean", "thesis"],
        rows,
        "The step is where the expected block mean is the thesis's (above), so that one number is fitted and the other "
        "mean is not. ±: the standard deviation that a mean of all other entries has over runs, worked out from the "
        f"one that the thesis gives for means of {BLOCK_ENTRIES} of them; {_seeds(growth)}.",
    )


def trained_table(growth: Sequence[Growth]) -> Table:
    """Where trained models pass the thesis's means, and what they have at the end."""
    rows: list[Row] = []
    for g in growth:
        last = max(g.block)
        rows.append(
            [
                g.family.name,
                *(Cell(g.passed[label], 0) for label in PAPER_FAINT),
                Cell(g.block[last], 4),
                Cell(g.other[last], 4),
            ]
        )
    return Table(
        ["trained", *(f"passes {label}'s mean at step" for label in PAPER_FAINT), "block mean at the end", "others"],
        rows,
        f"Squared loss, SGD 0.01, 40 documents per step and initial scale 0.02 unless said; {_seeds(growth)}.",
    )


def growth_figure(growth: Sequence[Growth], settings: Sequence[Setting]) -> "go.Figure":
    """Block and other means over steps, the thesis's as lines."""
    import plotly.graph_objects as go

    from interp.plots.style import PALETTE, error_bars, finish

    fig = go.Figure()
    last = max(max(g.block) for g in growth)
    steps = [last * i / (POINTS - 1) for i in range(POINTS)]
    for colour, setting in zip(PALETTE, settings, strict=False):
        descent = Descent(TopicGrammar(), setting)
        means = [descent.means(step) for step in steps]
        for k, dash in enumerate(("solid", "dash")):
            line = {"color": colour, "dash": dash}
            fig.add_trace(
                go.Scatter(x=steps, y=[m[k] for m in means], mode="lines", line=line, showlegend=k == 0,
                           name=f"expected, {setting.name}")
            )  # fmt: skip
    for place, g in enumerate(growth):
        colour = PALETTE[(place + 3) % len(PALETTE)]
        for k, curve in enumerate((g.block, g.other)):
            fig.add_trace(
                go.Scatter(
                    x=list(curve), y=[e.value for e in curve.values()],
                    error_y=error_bars(e.ends for e in curve.values()),
                    mode="markers", marker={"color": colour, "size": 6, "symbol": "circle-open" if k else "circle"},
                    showlegend=k == 0, name=f"trained, {g.family.name}",
                )
            )  # fmt: skip
    for label, (block, other) in PAPER_FAINT.items():
        for value in (block, other):
            fig.add_hline(y=value, line_dash="dot", line_color=PALETTE[6], annotation_text=f"thesis, {label}")
    fig.update_xaxes(title_text="step")
    fig.update_yaxes(title_text="mean of entries of W_V")
    end = growth[0].block[max(growth[0].block)]
    title = f"The block mean is {number(end.value, 4)} after {max(growth[0].block)} steps"
    return finish(
        fig, title, f"solid and filled: blocks; dashed and open: others; {_seeds(growth)}", width=1000, height=430
    )


def _seeds(growth: Sequence[Growth]) -> str:
    sizes = sorted({e.n for g in growth for e in g.block.values()})
    return f"n={both(map(str, sizes))} seeds"


def _reached(step: float | None) -> str:
    return "never" if step is None else f"at step {step:,.0f}"


def _range(a: Answer, label: str) -> str:
    low, mid, high = a.earliest[label], a.steps[label], a.latest[label]
    if mid is None:
        return "never"
    ends = f"{_or_never(low)} to {_or_never(high)}"
    return f"{mid:,.0f} ({ends})"


def _or_never(step: float | None) -> str:
    return "never" if step is None else f"{step:,.0f}"


def both(words: Iterable[str]) -> str:
    """The values of two figures in one phrase."""
    return " and ".join(words)
