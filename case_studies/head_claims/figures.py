"""Figures of `head-claims`: verdicts by model and statement, heads of each verdict, heads of an encoder."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from case_studies.head_claims.audits import Audited, estimate_of
from case_studies.head_claims.encoder import Read, Scan
from case_studies.head_claims.said import VERDICTS, Statement
from case_studies.page import Figure
from interp.numbers import number
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap
from probes.audit import AuditResult, rests_on
from probes.claims import heads_text
from probes.variation import PAPER_SENTENCE

if TYPE_CHECKING:
    import plotly.graph_objects as go

LABEL = 66  # characters of a statement beside its bars
NARROW = 0.1  # a part of a bar too narrow for its number
PANELS = 4  # heads shown of each verdict
ENCODER_PANELS = 6


def verdict_bars(found: Sequence[Audited], title: str) -> "go.Figure":
    """How many seeds say what to each statement, a column per group of models."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import VERDICTS as LOOKS
    from interp.plots.style import escape, finish

    statements: dict[str, Statement] = {n: t.statement for a in found for n, t in a.tallies.items()}
    place = {name: i for i, name in enumerate(statements)}
    names = ["<br>".join(textwrap.wrap(escape(a.group.name), 17)) for a in found]
    fig = make_subplots(1, len(found), shared_yaxes="all", horizontal_spacing=0.012, subplot_titles=names)
    for column, a in enumerate(found, start=1):
        for verdict in VERDICTS:
            colour, sign = LOOKS[verdict]
            tallies = list(a.tallies.items())
            counts = [t.count(verdict) for _, t in tallies]
            bar = go.Bar(
                x=[c / t.n for c, (_, t) in zip(counts, tallies, strict=True)],
                y=[place[name] for name, _ in tallies],
                orientation="h",
                name=f"{sign} {verdict}",
                legendgroup=verdict,
                showlegend=column == 1,
                marker={"color": colour},
                width=0.8,
                text=[f"{sign} {c}" if c / t.n > NARROW else "" for c, (_, t) in zip(counts, tallies, strict=True)],
                customdata=counts,
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"size": 11, "color": "#1F2933" if verdict == "undecided" else "white"},
                hovertemplate=f"{verdict}: %{{customdata}}<extra>{escape(a.group.name)}</extra>",
            )
            fig.add_trace(bar, row=1, col=column)
        fig.update_xaxes(range=[0, 1], showticklabels=False, ticks="", showgrid=False, row=1, col=column)
    fig.update_yaxes(
        tickvals=list(place.values()),
        ticktext=[
            escape(s.words if len(s.words) <= LABEL else s.words[: LABEL - 1] + "…") for s in statements.values()
        ],
        range=[len(place) - 0.4, -0.6],
        showgrid=False,
        ticks="",
    )
    finish(
        fig,
        title,
        "a bar a group of models, as long as the share of its seeds; the number of seeds is written on it, with the "
        "verdict's sign",
        barmode="stack",
        width=max(760, 410 + 107 * len(found)),
        height=70 + 26 * len(place),
        margin={"l": 400, "b": 55},
        legend={"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
    )
    fig.update_annotations(font={"size": 11})
    return fig


# -- heads of each verdict --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """One head of one model: whose, what was said of it, and how well it fits."""

    group: str
    claim: str
    who: str
    head: tuple[int, int]
    model: Any
    score: float


def of_verdict(found: Sequence[Audited], verdict: str) -> list[Shown]:
    """At most one head a group, of the first statement on which some seed has that verdict: its best-scoring seed."""
    return [one for a in found if (one := next(_heads(a, verdict), None)) is not None][:PANELS]


def _heads(a: Audited, verdict: str) -> Iterator[Shown]:
    for options in a.options.values():
        for result in options:
            rows = [r for r in result.seeds if r["verdict"] == verdict and r["score"] is not None]
            if rows:
                best = max(rows, key=lambda r: r["score"])
                layer, head = best["heads"][0]
                at = [r["seed"] for r in result.seeds].index(best["seed"])
                who = f"seed {best['seed']}, L{layer}H{head}"
                yield Shown(a.group.name, result.claim, who, (layer, head), a.models.models[at], best["score"])
            elif not result.seeds and result.verdict == verdict:
                score = estimate_of(result, "score")
                value = score.value if score and score.value is not None else 0.0
                name = heads_text(result.heads)
                yield Shown(a.group.name, result.claim, name, result.heads[0], a.models.models, value)


def heads_of_verdict(found: Sequence[Audited], verdict: str) -> Figure | None:
    """Their patterns on one string, the last unmatched open bracket boxed; None where no head has that verdict."""
    chosen = of_verdict(found, verdict)
    if not chosen:
        return None
    patterns = []
    for one in chosen:
        layer, head = one.head
        patterns.append(attention_patterns(one.model, one.model.to_tokens(PAPER_SENTENCE), [layer])[0][0, head])
    figure = attention_heatmap(
        np.stack(patterns),
        PAPER_SENTENCE,
        population="grid",
        overlay="stack_top",
        grammar=chosen[0].model.grammar,
        seed_labels=[f"({i}) {one.who}" for i, one in enumerate(chosen, start=1)],
        title=f"Heads of which a claim is {verdict}",
    )
    told = "; ".join(
        f"({i}) {one.group}: “{one.claim}”, claim score {number(one.score, 2)}" for i, one in enumerate(chosen, 1)
    )
    caption = (
        f"{verdict.capitalize()}: {told}. Of each group of models the first statement with that verdict, and of its "
        f"seeds the one that scores highest; on the paper's sentence. Boxes: the last unmatched open bracket."
    )
    return Figure(figure, caption)


# -- the encoder ------------------------------------------------------------------------------------------


def scan_grid(scan: Scan) -> "go.Figure":
    """Scores and verdicts, a column per head."""
    import plotly.graph_objects as go

    from interp.plots.style import PAPER, colorscale, colour_bar, escape, finish
    from interp.plots.style import VERDICTS as LOOKS

    values = [[_score(r) for r in scan.of(relation)] for relation in scan.relations]
    marks = [[LOOKS[r.verdict][1] for r in scan.of(relation)] for relation in scan.relations]
    names = [heads_text([head]) for head in scan.heads]
    layers = [layer for layer, _ in scan.heads]
    heat = go.Heatmap(
        z=[[None if v is None else max(v, 0.0) for v in row] for row in values],
        x=list(range(len(names))),
        y=[escape(relation.words) for relation in scan.relations],
        text=marks,
        texttemplate="%{text}",
        textfont={"size": 12},
        customdata=[
            [_told(name, relation.words, r) for name, r in zip(names, scan.of(relation), strict=True)]
            for relation in scan.relations
        ],
        zmin=0,
        zmax=1,
        colorscale=colorscale(),
        colorbar=colour_bar("claim score"),
        hovertemplate="%{customdata}<extra></extra>",
        xgap=1,
        ygap=1,
    )
    fig = go.Figure(heat)
    starts = [i for i, layer in enumerate(layers) if i == 0 or layer != layers[i - 1]]
    for start in starts[1:]:
        fig.add_vline(x=start - 0.5, line={"color": PAPER, "width": 5})
    ends = [*starts[1:], len(layers)]
    right = sum(r.verdict == "supported" for r in scan.results)
    return finish(
        fig,
        f"{scan.name}: {right} of {len(scan.results)} claims are supported",
        f"{', '.join(f'{sign} {verdict}' for verdict, (_, sign) in LOOKS.items())}; colour: claim score",
        width=max(700, 320 + 11 * len(names)),
        height=75 + 25 * len(scan.relations),
        margin={"l": 210, "b": 50},
        xaxis={
            "tickvals": [(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)],
            "ticktext": [f"layer {layers[start]}" for start in starts],
            "ticks": "",
            "showgrid": False,
        },
        yaxis={"autorange": "reversed", "showgrid": False, "ticks": ""},
    )


def _told(name: str, words: str, result: AuditResult) -> str:
    """The verdict on a cell of the grid and what it rests on, folded, for the hover."""
    from interp.plots.style import literal

    lines = [f"{name}, {words}: {result.verdict}", *textwrap.wrap(f"It rests on: {rests_on(result)}", 90)]
    return "<br>".join(map(literal, lines))


def _score(result: AuditResult) -> float | None:
    found = estimate_of(result, "score")
    return None if found is None else found.value


def encoder_heads(read: Read) -> Figure | None:
    """The best supported head of each relation on the shortest paragraph."""
    chosen = []
    for relation in read.trained.relations:
        own = [(r, _score(r) or 0.0) for r in read.trained.of(relation) if r.verdict == "supported"]
        if own:
            result, value = max(own, key=lambda pair: pair[1])
            chosen.append((relation, result, value))
    if not chosen:
        return None
    chosen = sorted(chosen, key=lambda one: -one[2])[:ENCODER_PANELS]
    lengths = (read.tokens != read.vocabulary.pad).sum(1)
    ids = read.tokens[int(np.argmin(lengths)), : int(lengths.min())]
    patterns = attention_patterns(read.bridge, torch.from_numpy(ids[None]))
    labels = [f"({i}) {heads_text(result.heads)}" for i, (_, result, _) in enumerate(chosen, start=1)]
    figure = attention_heatmap(
        np.stack([patterns[result.heads[0][0]][0, result.heads[0][1]] for _, result, _ in chosen]),
        [read.vocabulary.vocab[i] for i in ids],
        population="grid",
        seed_labels=labels,
        title="The best supported head of each relation",
    )
    told = "; ".join(
        f"({i}) {relation.words}: claim score {number(value, 2)}" for i, (relation, _, value) in enumerate(chosen, 1)
    )
    more = "" if len(chosen) < ENCODER_PANELS else f" At most {ENCODER_PANELS} are shown."
    return Figure(figure, f"{told}. On the first of the shortest inputs, {len(ids)} tokens.{more}")
