"""Words and the picture of a lottery-ticket result."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interp.numbers import ABSENT, absent, estimate, number, power, reasons, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from probes.lottery.demonstration import LotteryResult

POOR = 0.1  # relative error beyond which a warning stands in the summary
DIFFERENT = "NOT the same function: take more candidates, or larger weights in the target"
KINDS = {"random": "random, |X| = 1", "small": "random, smaller", "strings": "Dyck strings"}


def poor(r: "LotteryResult") -> bool:
    """Whether the pruned network is too far from its target to be called the same function."""
    return (r.relative_error_max.value or 0.0) > POOR


def summary_lines(r: "LotteryResult") -> list[str]:
    """At most 80 columns."""
    layers = len(r.working)
    relative = next(level.relative for level in r.levels if level.candidates == r.candidates)
    lines = [
        f"Lottery ticket: {layers} layers inside {4 * layers} random ones of width {r.d_model}, MLPs {r.d_mlp}",
        f"n = {r.candidates} an entry, seed {r.seed}; copied: {', '.join(r.copied)}",
        f"largest relative error   {power(r.relative_error_max.value)}   ({size(r.relative_error_max)})",
    ]
    lines += [
        f"  {KINDS[kind]:<16} epsilon = |T'-T| / |X|  {power(e.value)}   relative {power(relative[kind])}"
        for kind, e in r.epsilon.items()
    ]
    if poor(r):
        lines.append(DIFFERENT)
    if r.law:
        length = (
            f"{r.law['length']}" if r.law["data"] == "prefix" else f"{r.law['min_length']} to {r.law['max_length']}"
        )
        lines.append(f"Dyck strings: {r.law['data']}, {length} brackets")
    if r.accuracy:
        heads = "".join(f"{head:>10}" for head in ("argmax", "closers", "mass", "non-triv.", "refit"))
        lines.append(f"{'closing accuracy':<26}{heads}")
        refits = ({"pruned network": r.reference} if r.reference else {}) | r.controls
        read = {name: number(c.refitted.value) for name, c in refits.items()}
        rows: dict[str, Mapping[str, float | None]] = {
            "target": r.accuracy["target"],
            "pruned network": r.accuracy["pruned"],
            **{name: {rule: e.value for rule, e in c.accuracy.items()} for name, c in r.controls.items()},
            "floor": r.accuracy["floor"],
        }
        if r.reference:
            read["floor"] = number(r.reference.floor)
        for name, rates in rows.items():
            told = [number(rates.get(rule)) for rule in ("argmax", "argmax_closers", "mass", "argmax_nontrivial")]
            lines.append(f"  {name:<24}" + "".join(f"{cell:>10}" for cell in (*told, read.get(name, ABSENT))))
        if r.reference:
            few = r.reference.refitted.n
            lines.append(f"masks below the pruned network, and refit (which closer): n={few} strings")
        lines += [*reasons(c.refitted for c in refits.values()), *absent(lines)]
        lines.append(f"accuracy gap {estimate(r.accuracy_gap, 4, n=True)}, target minus pruned, argmax")
    else:
        lines.append(f"accuracy gap {r.accuracy_gap}")
    lines.append(f"{'n':>4}{'width':>7}{'MLP':>6}{'entry, median':>15}{'theory':>10}{'largest':>10}{'end to end':>12}")
    lines += [
        f"{x.candidates:>4}{x.d_model:>7}{x.d_mlp:>6}{power(x.entry_median):>15}{power(x.theory):>10}"
        f"{power(x.entry_max):>10}{power(x.worst):>12}"
        for x in r.levels
    ]
    if r.decay is not None:
        lines.append(f"end to end the error falls by a factor {number(10**-r.decay, 2)} a candidate (theory 2)")
    return lines


def lottery_figure(r: "LotteryResult") -> "go.Figure":
    """Left: errors against candidates an entry. Right: closing accuracy beside other masks."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import MUTED, PALETTE, PAPER, finish

    fig = make_subplots(
        rows=1, cols=2, column_widths=[0.58, 0.42], horizontal_spacing=0.24,
        subplot_titles=["Error against candidates an entry", "Closing accuracy of masks of one density"],
    )  # fmt: skip
    n = [level.candidates for level in r.levels]
    lines = [
        ("one entry, absolute, theory (median)", [x.theory for x in r.levels], MUTED, "dot"),
        ("one entry, absolute, median", [x.entry_median for x in r.levels], PALETTE[0], "solid"),
        ("one entry, absolute, largest", [x.entry_max for x in r.levels], PALETTE[5], "solid"),
        ("end to end, largest, relative", [x.worst for x in r.levels], PALETTE[1], "solid"),
        (
            "the same in float32",
            [max(x.relative_float32.values()) for x in r.levels],
            PALETTE[4],
            "dash",
        ),
    ]
    for name, y, colour, dash in lines:
        marker = {"color": colour, "size": 8}
        mode = "lines" if dash == "dot" else "lines+markers"
        line: dict[str, Any] = {"color": colour, "dash": dash}
        fig.add_trace(go.Scatter(x=n, y=y, name=name, mode=mode, line=line, marker=marker), 1, 1)
    if r.decay is not None:
        middle = sum(n) / len(n), sum(math.log10(x.worst) for x in r.levels) / len(n)
        fitted = [10 ** (middle[1] + r.decay * (x - middle[0])) for x in n]
        line = {"color": PALETTE[1], "dash": "dot", "width": 1.5}
        words = f"fit: a factor {number(10**-r.decay, 2)} a candidate"
        fig.add_trace(go.Scatter(x=n, y=fitted, name=words, mode="lines", line=line), 1, 1)
    if r.accuracy:
        rows = {"target": r.accuracy["target"]["argmax"], "pruned network": r.accuracy["pruned"]["argmax"]}
        rows |= {name: c.accuracy["argmax"].value for name, c in r.controls.items()}
        rows["close the token before, else guess"] = r.accuracy["floor"].get("argmax")
        names = list(rows)[::-1]
        colours = [PALETTE[0] if name in ("target", "pruned network") else PALETTE[6] for name in names]
        values = [rows[name] or 0.0 for name in names]  # a bar of length 0 for what is undefined, and says so
        bars = go.Bar(
            x=values, y=names, orientation="h", marker={"color": colours}, showlegend=False, hoverinfo="x+y",
            text=[number(rows[k]) for k in names], textposition=["inside" if v > 0.2 else "outside" for v in values],
        )  # fmt: skip
        fig.add_trace(bars, 1, 2)
        refits = ({"pruned network": r.reference} if r.reference else {}) | r.controls
        refitted = {name: c.refitted.value for name, c in refits.items() if c.refitted.value is not None}
        if refitted:
            marker = {"color": PAPER, "size": 10, "line": {"color": PALETTE[1], "width": 2}}
            points = go.Scatter(
                x=list(refitted.values()), y=list(refitted), mode="markers", marker=marker,
                name="which closer, unembedding refitted", hoverinfo="x+y",
            )  # fmt: skip
            fig.add_trace(points, 1, 2)
    fig.update_xaxes(title_text="candidates n (subsets of n products)", dtick=4, row=1, col=1)
    fig.update_yaxes(title_text="error", type="log", exponentformat="power", dtick=1, row=1, col=1)
    fig.update_xaxes(range=[0, 1.02], title_text="share of closers, argmax", row=1, col=2)
    layers = len(r.working)
    error = f"largest relative error {power(r.relative_error_max.value)} ({size(r.relative_error_max)})"
    note = [f"width {r.d_model}, MLPs {r.d_mlp}", "every kept weight is the random one"]
    note.append(f"accuracy gap (target minus pruned, argmax) {estimate(r.accuracy_gap, 4, n=True)}")
    if missing := [name for name, c in r.controls.items() if c.refitted.value is None]:
        note.append(f"no refit: {', '.join(missing)}")
    return finish(
        fig,
        f"A {layers}-layer Transformer inside a random one of {4 * layers} layers: {error}"
        + (f". {DIFFERENT}" if poor(r) else ""),
        "; ".join(note),
        width=1160,
        height=380,
        legend={"orientation": "h", "y": -0.2, "x": 0},
    )
