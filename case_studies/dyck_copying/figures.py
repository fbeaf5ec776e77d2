"""Figures of `dyck-copying`: looks against use, and heads chosen by their scores alone."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from case_studies.dyck_copying.estimates import INTERPRETABLE, MARGIN, crossing
from case_studies.dyck_copying.measure import Head, Measured
from case_studies.looks import Fit
from case_studies.page import Figure
from interp.numbers import number, percent
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN_LENGTH = 16  # brackets of the string that heatmaps show
SHOWN_HEADS = 8
SHOWN_RELATIONS = 6  # with a colour of their own in the scatter
OTHER = "another relation"


def scatter(measured: Sequence[Measured]) -> "go.Figure":
    """Score against margin lost, a colour a relation, a panel a depth."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import MUTED, PALETTE, finish

    ranked = [words for words, _ in Counter(h.best.words for m in measured for h in m.heads).most_common()]
    colours = {**dict(zip(ranked[:SHOWN_RELATIONS], PALETTE, strict=False)), OTHER: PALETTE[-1]}
    fig = make_subplots(
        rows=1,
        cols=len(measured),
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.05,
        subplot_titles=[m.group.family.name for m in measured],
    )
    named: set[str] = set()
    for column, m in enumerate(measured, start=1):
        for words, colour in colours.items():
            heads = [h for h in m.heads if (h.best.words if h.best.words in colours else OTHER) == words]
            if not heads:
                continue
            trace = go.Scatter(
                x=[h.best.score for h in heads],
                y=[h.cost.worst_margin for h in heads],
                text=[f"seed {h.seed}, layer {h.layer}: {h.best.words}" for h in heads],
                mode="markers",
                name=words,
                legendgroup=words,
                showlegend=words not in named,
                marker={"color": colour, "size": 8, "opacity": 0.75},
                hovertemplate="%{text}<br>score %{x:.3f}, margin lost %{y:.3f}<extra></extra>",
            )
            fig.add_trace(trace, row=1, col=column)
            named.add(words)
        fig.update_xaxes(title_text="score of the best relation", row=1, col=column)
    fig.add_vline(x=INTERPRETABLE, line_dash="dash", line_color=MUTED, line_width=1)
    fig.add_hline(y=MARGIN, line_dash="dash", line_color=MUTED, line_width=1)
    fig.update_yaxes(title_text="share of the margin lost", tickformat=".0%", row=1, col=1)
    both = [crossing(m.heads) for m in measured]
    looks = sum(round((c.interpretable.value or 0) * c.interpretable.n) for c in both)
    idle = sum(round((c.useless.value or 0) * c.useless.n) for c in both if c.useless.n)
    return finish(
        fig,
        f"Of {looks} heads that look interpretable {idle} cost next to nothing",
        f"{sum(len(m.heads) for m in measured)} heads, each a point; dashed: the bounds for looks and for use",
        width=1160,
        height=420,
        legend={"x": 1.01, "y": 1, "title": {"text": "best relation"}},
    )


def heatmaps(m: Measured) -> list[Figure]:
    """The best head of each relation and of each of the paper's terms, and one model whole: chosen by score alone."""
    name, text = m.group.family.name, m.strings.grammar.format(shown_string(m))
    relations: dict[str, tuple[Head, Fit]] = {}
    for head in sorted(m.heads, key=lambda head: -head.best.score):
        relations.setdefault(head.best.relation, (head, head.best))
    terms = []
    for term in m.heads[0].terms:
        best = max(m.heads, key=lambda head: head.terms[term].score)
        terms.append((best, best.terms[term]))
    figures = [
        grid(
            m,
            list(relations.values())[:SHOWN_HEADS],
            f"{name}: the best head of each relation",
            f"Of every relation that is the best of some head, the head that scores highest (at most {SHOWN_HEADS}), "
            f"on {text} after START: the first held-out string of {SHOWN_LENGTH} brackets.",
        ),
        grid(
            m,
            terms,
            f"{name}: the best head of each of the paper's terms",
            "The head that scores highest for each term of the table above, in its order, on the same string.",
        ),
    ]
    if m.layers > 1:
        mean = {seed: float(np.mean([h.best.score for h in m.heads if h.seed == seed])) for seed in m.population.seeds}
        seed = max(mean, key=lambda s: mean[s])
        figures.append(
            grid(
                m,
                [(head, head.best) for head in m.heads if head.seed == seed],
                f"{name}: every layer of seed {seed}",
                f"The model whose heads score highest on average ({number(mean[seed], 2)}), whole, as in the paper's "
                "Fig. 4.",
            )
        )
    return figures


def grid(m: Measured, chosen: Sequence[tuple[Head, Fit]], title: str, caption: str) -> Figure:
    """Heads side by side on the shown string."""
    import torch

    tokens = shown_string(m)
    models = {head.seed: m.population[m.population.seeds.index(head.seed)] for head, _ in chosen}
    inputs = torch.from_numpy(tokens[None])
    patterns = np.stack([attention_patterns(models[head.seed], inputs, [head.layer])[0][0, 0] for head, _ in chosen])
    figure = attention_heatmap(
        patterns,
        tokens,
        population="grid",
        grammar=m.strings.grammar,
        seed_labels=[f"({i}) seed {head.seed}, layer {head.layer}" for i, (head, _) in enumerate(chosen, start=1)],
        title=title,
    )
    found = "; ".join(
        f"({i}) {fit.words}: score {number(fit.score, 2)}, accuracy lost {number(head.cost.worst_accuracy)}, margin "
        "lost "
        f"{percent(head.cost.worst_margin, 1)}"
        for i, (head, fit) in enumerate(chosen, start=1)
    )
    return Figure(figure, f"{caption} {found}.")


def shown_string(m: Measured) -> np.ndarray:
    """The first distinct string of `SHOWN_LENGTH` brackets with its START; the longest where there is none."""
    lengths = m.strings.real.sum(1) - 1
    fits = lengths == SHOWN_LENGTH
    row = int(np.argmax(fits if fits.any() else lengths))
    return np.asarray(m.strings.data.inputs[row, : lengths[row] + 1])
