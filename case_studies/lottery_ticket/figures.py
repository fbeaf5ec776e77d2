"""Figures of `lottery-ticket`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from case_studies.lottery_ticket.measure import BETWEEN, DECOY, Curve, Decoy, N, Pruned, Sums
from interp.numbers import number, power
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap

if TYPE_CHECKING:
    import plotly.graph_objects as go

TEXT = "([])[()]()[[]]"


def construction_figure(layers: int) -> "go.Figure":
    """A target of `layers` layers above the random network that holds it."""
    import plotly.graph_objects as go

    from interp.plots.style import INK, MUTED, PALETTE, finish

    fig = go.Figure()

    def box(x: float, y: float, words: str, fill: str) -> None:
        line = {"color": MUTED, "width": 1}
        fig.add_shape(type="rect", x0=x, x1=x + 0.9, y0=y, y1=y + 0.9, fillcolor=fill, line=line)
        fig.add_annotation(x=x + 0.45, y=y + 0.45, text=words, showarrow=False, font={"size": 11, "color": INK})

    light = {"copied": "#FFFFFF", "link": "#F4E1D6", "works": "#CFE3F1", "idle": "#EEF0F2"}
    last = 4 * layers + 1
    for y, end in ((1.5, "target"), (0.0, "random<br>network")):
        fig.add_annotation(x=-0.15, y=y + 0.45, text=f"<b>{end}</b>", showarrow=False, xanchor="right")
        box(0, y, "embedding" if y else "embedding<br>(copied)", light["copied"])
        box(last, y, "unembedding" if y else "unembedding<br>(copied)", light["copied"])
    for i in range(layers):
        box(2 * i + 2, 1.5, f"layer {i}", light["works"])
        for arrow in ((2 * i + 1.45, 0.95), (2 * i + 2.45, 0.95)):
            fig.add_annotation(
                x=arrow[0], y=arrow[1], ax=2 * i + 2.45, ay=1.45, xref="x", yref="y", axref="x", ayref="y", text="",
                arrowhead=2, arrowcolor=PALETTE[0], arrowwidth=1.5,
            )  # fmt: skip
        box(2 * i + 1, 0, f"{2 * i}: link<br>values masked,<br>MLP: x and<br>its values", light["link"])
        box(2 * i + 2, 0, f"{2 * i + 1}: works<br>attention and<br>MLP of<br>layer {i}", light["works"])
    for i in range(2 * layers):
        box(2 * layers + 1 + i, 0, f"{2 * layers + i}: idle<br>values masked,<br>MLP: x", light["idle"])
    for x in (0.45, last + 0.45):
        fig.add_annotation(
            x=x, y=0.95, ax=x, ay=1.45, xref="x", yref="y", axref="x", ayref="y", text="", arrowhead=2,
            arrowcolor=MUTED,
        )  # fmt: skip
    return finish(
        fig,
        f"A target of {layers} layers inside a random network of {4 * layers}",
        width=1160,
        height=265,
        margin={"l": 10, "r": 10, "b": 10},
        xaxis={"visible": False, "range": [-0.95, last + 1]},
        yaxis={"visible": False, "range": [-0.1, 2.5]},
    )


def sums_figure(sums: Sequence[Sums]) -> "go.Figure":
    """Error of one subset sum against n."""
    import plotly.graph_objects as go

    from interp.plots.style import MUTED, PALETTE, finish

    n = [s.n for s in sums]
    lines = [
        ("one group, largest", [s.largest for s in sums], PALETTE[1], "solid"),
        ("one group, 99th percentile", [s.p99 for s in sums], PALETTE[4], "solid"),
        ("two groups, largest", [s.paired_largest for s in sums], PALETTE[2], "solid"),
        ("one group, median", [s.median for s in sums], PALETTE[0], "solid"),
        ("theory, median", [s.theory for s in sums], MUTED, "dot"),
    ]
    fig = go.Figure()
    for name, y, colour, dash in lines:
        line: dict[str, Any] = {"color": colour, "dash": dash}
        fig.add_trace(go.Scatter(x=n, y=y, name=name, mode="lines+markers", line=line, marker={"size": 7}))
    least = min(sums, key=lambda s: abs(s.n - N))
    return finish(
        fig,
        f"The best of 2^{least.n} subset sums comes within {power(least.median, 0)} of a wanted weight, in the median",
        f"{sums[0].missed.n} targets from U(-1/2, 1/2) for each n; products of two U(-1, 1) weights",
        width=860,
        height=380,
        xaxis={"title": {"text": "candidates n"}, "dtick": 2},
        yaxis={
            "type": "log",
            "exponentformat": "power",
            "dtick": 1,
            "title": {"text": "|subset sum - wanted weight|, absolute"},
        },
        legend={"x": 1.02, "y": 1},
    )


def curve_figure(c: Curve) -> "go.Figure":
    """Error of whole networks against n and against width."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import MUTED, PALETTE, finish

    fig = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.04)
    n = [x.candidates for x in c.levels[0]]
    width = [x.d_mlp for x in c.levels[0]]

    def middle(read: Any) -> list[float]:
        return [float(np.exp(np.mean([np.log(read(row[i])) for row in c.levels]))) for i in range(len(n))]

    lines = [
        ("network, relative, in float32", lambda x: max(x.relative_float32.values()), PALETTE[4], "dash"),
        ("network, relative, small random inputs", lambda x: x.relative["small"], PALETTE[3], "solid"),
        ("network, relative, random inputs", lambda x: x.relative["random"], PALETTE[1], "solid"),
        ("network, relative, Dyck strings", lambda x: x.relative["strings"], PALETTE[2], "solid"),
        ("one weight, absolute, largest", lambda x: x.entry_max, PALETTE[5], "solid"),
        ("one weight, absolute, median", lambda x: x.entry_median, PALETTE[0], "solid"),
    ]
    for column, (x, title) in enumerate(((n, "candidates n"), (width, "width of the random MLPs")), start=1):
        for name, read, colour, dash in lines:
            line: dict[str, Any] = {"color": colour, "dash": dash}
            fig.add_trace(
                go.Scatter(
                    x=x, y=middle(read), name=name, mode="lines+markers", line=line, marker={"size": 7},
                    showlegend=column == 1,
                ), 1, column,
            )  # fmt: skip
        slope = c.slopes["end to end"].value
        early = [i for i, k in enumerate(n) if k <= N]
        if slope is not None and early:
            worst = middle(lambda level: level.worst)
            centre = np.mean([n[i] for i in early]), np.mean([np.log10(worst[i]) for i in early])
            fit = [10 ** (centre[1] + slope * (k - centre[0])) for k in n]
            words = f"fit of the largest, n ≤ {N}: factor {number(10**-slope, 2)}"
            line = {"color": MUTED, "dash": "dot"}
            fig.add_trace(
                go.Scatter(x=x, y=fit, name=words, mode="lines", line=line, showlegend=column == 1), 1, column
            )
        fig.update_xaxes(title_text=title, row=1, col=column)
    fig.update_xaxes(dtick=2, row=1, col=1)
    fig.update_yaxes(type="log", exponentformat="power", dtick=1)
    fig.update_yaxes(title_text="largest error", row=1, col=1)
    end = c.slopes["end to end"].value
    fall = "" if end is None else f" by a factor {number(10**-end, 2)} each"
    return finish(
        fig,
        f"The errors of whole networks fall with the number of candidates{fall}",
        f"target: {c.target}; geometric means over {len(c.levels)} random networks",
        width=1160,
        height=390,
        legend={"x": 1.01, "y": 1},
    )


def accuracy_figure(pruned: Sequence[Pruned]) -> "go.Figure":
    """Closing accuracy of targets, pruned networks and controls."""
    import plotly.graph_objects as go

    from interp.plots.style import INK, PALETTE, finish

    names = [
        "target",
        "pruned network",
        *pruned[0].result.controls,
        "pruned network, refitted",
        "best other mask, refitted",
    ]
    fig = go.Figure()
    families = list(dict.fromkeys(p.family for p in pruned))
    for i, family in enumerate(families):
        values = []
        for p in (p for p in pruned if p.family == family):
            r = p.result
            refits = [c.refitted.value for c in r.controls.values() if c.refitted.value is not None]
            own = r.reference.refitted.value if r.reference else None
            given = [r.accuracy["target"]["argmax"], r.accuracy["pruned"]["argmax"]]
            others = [c.accuracy["argmax"].value for c in r.controls.values()]
            values.append([*given, *others, own, max(refits, default=None)])
        x = [j for row in values for j in range(len(row))]
        y = [v for row in values for v in row]
        shifted = [j + 0.14 * (i - (len(families) - 1) / 2) for j in x]
        marker = {"color": PALETTE[i % len(PALETTE)], "size": 9, "opacity": 0.8}
        fig.add_trace(go.Scatter(x=shifted, y=y, name=family, mode="markers", marker=marker))
    floor = float(np.mean([p.result.accuracy["floor"]["argmax"] or 0 for p in pruned]))
    fig.add_hline(y=floor, line={"color": INK, "dash": "dot", "width": 1})
    fig.add_annotation(
        x=0.01, xref="paper", y=floor, text="close the token before, else guess", showarrow=False, yanchor="bottom",
        xanchor="left", font={"size": 11},
    )  # fmt: skip
    controls = [c.accuracy["argmax"].value or 0.0 for p in pruned for c in p.result.controls.values()]
    tickets = [p.result.accuracy["pruned"]["argmax"] or 0.0 for p in pruned]
    return finish(
        fig,
        f"Tickets close at least {number(min(tickets), 2)} of brackets, other masks of their density at most "
        f"{number(max(controls), 2)}",
        f"{len(pruned)} targets, each in one random network; refitted: which closing bracket comes next, by a new "
        "unembedding",
        width=1160,
        height=390,
        xaxis={"tickvals": list(range(len(names))), "ticktext": [_wrapped(n) for n in names], "tickangle": 0},
        yaxis={
            "title": {"text": "share of closing brackets (refitted: among closing brackets)"},
            "range": [-0.03, 1.06],
        },
        legend={"x": 1.01, "y": 1},
    )


def _wrapped(name: str) -> str:
    """A line break at the space nearest to the middle."""
    spaces = [i for i, letter in enumerate(name) if letter == " "]
    if len(name) < 12 or not spaces:
        return name
    at = min(spaces, key=lambda i: abs(i - len(name) / 2))
    return f"{name[:at]}<br>{name[at + 1 :]}"


def maps_figure(d: Decoy) -> "go.Figure":
    """The target's two layers, the layers that stand for them, and the idle ones between."""
    grammar = d.result.ticket.target.model.grammar
    assert grammar is not None
    tokens = grammar.to_tokens(TEXT)
    model, target = d.result.model, d.result.ticket.target.model
    given = torch.from_numpy(tokens)
    of_target = [p[0, 0] for p in attention_patterns(target, given)]
    of_ticket = [p[0, 0] for p in attention_patterns(model, given)]
    shown = [of_target[1], of_ticket[BETWEEN[1]], of_ticket[DECOY], of_ticket[d.result.idle[-1]]]
    labels = [
        "target, layer 1",
        f"ticket, layer {BETWEEN[1]}: works",
        f"ticket, layer {DECOY}: idle, decoy",
        f"ticket, layer {d.result.idle[-1]}: idle, whole",
    ]
    return attention_heatmap(
        np.stack(shown),
        tokens[0],
        population="grid",
        grammar=grammar,
        overlay="stack_top",
        seed_labels=labels,
        title="Where the uniform solver and its ticket attend: work, a decoy, an idle layer",
    )
