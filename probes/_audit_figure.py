"""Words and pictures of an audit."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interp.errors import RequestError
from probes._audit_thresholds import MIXED

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from probes.audit import AuditResult, ScanResult

WIDTH = 80
_MET = {True: "yes", False: "no", None: "open"}
_SHOWN = 16  # seeds in the summary


def audit_summary(result: "AuditResult") -> str:
    """The verdict, the reason and the table, at most 80 columns."""
    lines = textwrap.wrap(result.claim, WIDTH)
    lines.append(f"Verdict: {result.verdict} (pattern {result.pattern}, use {result.use})")
    lines += textwrap.wrap(result.reason, WIDTH)
    over = f"{result.num_inputs} inputs, one half chooses and the other decides"
    models = "" if result.num_models == 1 else f"{result.num_models} models, "
    several = "" if result.num_claims == 1 else f" ({result.num_claims} claims together)"
    lines += textwrap.wrap(f"Evidence: {models}{over}; intervals {100 * result.level:.4g} %{several}", WIDTH)
    lines.append(f"  {'':<38}{'value [interval]':<24}{'needed':<10}met")
    told = False
    for row in result.evidence:
        if row["over"] == "seeds" and row["group"] != "population" and not told:
            lines.append("  means over seeds:")
            told = True
        needed = _needed(row)
        first, *rest = textwrap.wrap(row["words"], 37) or [""]
        lines.append(f"  {first:<38}{_cell(row):<24}{needed:<10}{_MET[row['met']] if needed else ''}".rstrip())
        lines += [f"    {more}" for more in rest]
        lines += [f"    {null}" for null in _nulls(row)]
    if result.seeds:
        lines.append(f"  {'seed':>6}  {'heads':<12}{'pattern':<11}{'use':<11}{'verdict':<12}{'score':>8}{'effect':>9}")
        lines += [_seed_line(row) for row in result.seeds[:_SHOWN]]
        if len(result.seeds) > _SHOWN:
            lines.append(f"  ({_SHOWN} of {len(result.seeds)} seeds)")
    return "\n".join(lines)


def audit_figure(result: "AuditResult") -> "go.Figure":
    """Every share among the evidence as a bar, with its interval and what was required."""
    import plotly.graph_objects as go

    from interp.plots.style import GRID, INK, MUTED, PALETTE, error_bars, escape, finish

    rows = [r for r in result.evidence if r["group"] != "eligibility" and r["name"] != "margin"]
    rows = [r for r in rows if r["value"] is not None][::-1]
    colours = {"met": PALETTE[2], "not met": PALETTE[1], "open": PALETTE[0], "nothing required": PALETTE[6]}
    fig = go.Figure()
    for word, colour in colours.items():
        mine = [(i, r) for i, r in enumerate(rows) if _met(r) == word]
        if not mine:
            continue
        values = [r["value"] for _, r in mine]
        bar = go.Bar(
            x=values, y=[i for i, _ in mine], orientation="h", name=word, marker={"color": colour},
            opacity=0.85, width=0.62, customdata=[_cell(r) for _, r in mine],
            error_x=error_bars([(r["value"], r["low"], r["high"]) for _, r in mine], color=INK, thickness=1.5, width=4),
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
        fig.add_trace(bar)
    needed = [(i, r) for i, r in enumerate(rows) if r["threshold"] is not None]
    marks = [(i, at) for i, r in needed for at in (MIXED if r["side"] == "not in" else (r["threshold"],))]
    x = [place for _, at in marks for place in (at, at, None)]
    y = [place for i, _ in marks for place in (i - 0.45, i + 0.45, None)]
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines", name="required", line={"color": INK, "width": 2.5, "dash": "dot"}))
    if not rows:
        because = "<br>".join(map(escape, textwrap.wrap(result.reason, 80)))
        fig.add_annotation(text=because, x=0, y=1, xref="paper", yref="paper", showarrow=False, align="left",
                           xanchor="left", yanchor="top")  # fmt: skip
        fig.update_xaxes(visible=False)
        fig.update_yaxes(visible=False)
    groups = [r["group"] for r in rows]
    for i in range(1, len(rows)):
        if groups[i] != groups[i - 1]:
            fig.add_hline(y=i - 0.5, line={"color": MUTED, "width": 0.7})
    labels = [_label(r) for r in rows]
    models = "one model" if result.num_models == 1 else f"{result.num_models} models"
    note = f"{result.verdict}: pattern {result.pattern}, use {result.use}; {models}, {result.num_inputs} inputs"
    return finish(
        fig,
        result.claim,
        note,
        width=None,
        height=max(260, 120 + 36 * len(labels)),
        margin={"l": 20},
        barmode="overlay",
        xaxis={"title": {"text": f"value, {100 * result.level:.4g} % interval"}, "gridcolor": GRID, "zeroline": True},
        yaxis={
            "tickvals": list(range(len(rows))),
            "ticktext": labels,
            "range": [-0.7, len(rows) - 0.3],
            "showgrid": False,
        },
        legend={"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0},
    )


def scan_summary(result: "ScanResult") -> str:
    """Per head what came out as supported or misleading, and the relation of the highest score otherwise."""
    first = result.results[0]
    lines = [
        f"{len(result.results)} claims audited together, {first.num_inputs} inputs, {_models(first.num_models)}",
        f"  {'head':<8}{'relation':<40}{'score':>7}  {'verdict':<12}use",
    ]
    for head, audits in _by_head(result.results).items():
        told = [a for a in audits if a.verdict in ("supported", "misleading")]
        if not told:
            told = sorted(audits, key=lambda a: -(_score(a) or 0.0))[:1]
        for audit in sorted(told, key=lambda a: -(_score(a) or 0.0)):
            relation = audit.claim.split(" to ", 1)[1]
            lines.append(
                f"  {head:<8}{_short(relation, 39):<40}{_number(_score(audit)):>7}  {audit.verdict:<12}{audit.use}"
            )
    return "\n".join(lines)


def scan_figure(result: "ScanResult") -> "go.Figure":
    """Scores by head and relation; supported claims marked."""
    import plotly.graph_objects as go

    from interp.plots.style import colorscale, colour_bar, escape, finish, literal

    if not result.results:
        raise RequestError("a scan without claims has no picture")
    heads = _by_head(result.results)
    relations = list(dict.fromkeys(audit.claim.split(" to ", 1)[1] for audit in result.results))
    place = {relation: i for i, relation in enumerate(relations)}
    values: list[list[float | None]] = [[None] * len(heads) for _ in relations]
    marks = [[""] * len(heads) for _ in relations]
    sign = {"supported": "&#10003;", "misleading": "!", "undecided": "?", "refuted": ""}
    for column, audits in enumerate(heads.values()):
        for audit in audits:
            row = place[audit.claim.split(" to ", 1)[1]]
            score = _score(audit)
            values[row][column], marks[row][column] = None if score is None else max(score, 0.0), sign[audit.verdict]
    heat = go.Heatmap(
        z=values, x=list(heads), text=marks, texttemplate="%{text}",
        customdata=[[literal(relation)] * len(heads) for relation in relations],
        zmin=0, zmax=1, colorscale=colorscale(), colorbar=colour_bar("score"),
        hovertemplate="%{x}, %{customdata}: %{z:.2f}<extra></extra>", xgap=2, ygap=2,
    )  # fmt: skip
    fig = go.Figure(heat)
    right = sum(audit.verdict == "supported" for audit in result.results)
    return finish(
        fig,
        f"Every head against every relation: {right} of {len(result.results)} claims are supported",
        "✓ supported, ! misleading, ? undecided, unmarked: refuted, blank: no score; corrected together",
        width=max(860, 460 + (40 if len(heads) <= 40 else 16) * len(heads)),
        height=90 + 24 * len(relations),
        margin={"l": 360},
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "tickvals": list(range(len(relations))),
            "ticktext": [escape(_short(relation, 50)) for relation in relations],
        },
    )


# -- inside -------------------------------------------------------------------------------------------------


def _by_head(results: Sequence["AuditResult"]) -> dict[str, list["AuditResult"]]:
    out: dict[str, list[AuditResult]] = {}
    for audit in results:
        out.setdefault(audit.claim.split(" ", 1)[0], []).append(audit)
    return out


def _score(audit: "AuditResult") -> float | None:
    """None where too few rows made one impossible."""
    return next((row["value"] for row in audit.evidence if row["name"].split(" ")[0] == "score"), None)


def _models(number: int) -> str:
    return "one model" if number == 1 else f"{number} models"


def _needed(row: dict[str, Any]) -> str:
    if row["threshold"] is None:
        return ""
    return "not .2-.8" if row["side"] == "not in" else f"{row['side']} {row['threshold']:g}"


def _nulls(row: dict[str, Any]) -> list[str]:
    """What the number would be if there were nothing to see."""
    null = row["null"] if isinstance(row["null"], dict) else {}
    said = {"uniform": "a uniform head", "untrained": "untrained models at most", "p_value": "permutation p"}
    told = [f"{said.get(name, name)} {value:.2g}" for name, value in null.items() if value is not None]
    return [f"({', '.join(told)})"] if told else []


def _cell(row: dict[str, Any]) -> str:
    if row["low"] is None or row["high"] is None:
        counted = row["name"] == "rows" and row["value"] is not None
        return f"{row['value']:.0f}" if counted else _number(row["value"])
    return f"{_number(row['value'])} [{_number(row['low'])}, {_number(row['high'])}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _seed_line(row: dict[str, Any]) -> str:
    heads = ",".join(f"{layer}.{head}" for layer, head in row["heads"])
    return (
        f"  {row['seed']:>6}  {_short(heads, 11):<12}{row['pattern']:<11}{row['use']:<11}{row['verdict']:<12}"
        f"{_number(row['score']):>8}{_number(row['effect']):>9}"
    )


def _label(row: dict[str, Any]) -> str:
    """Words of a row in lines that a narrow page has room for, and what is needed."""
    from interp.plots.style import escape

    text = "<br>".join(map(escape, textwrap.wrap(row["words"], 34)))
    return f"{text}  {_needed(row)}" if _needed(row) else text


def _met(row: dict[str, Any]) -> str:
    if row["threshold"] is None:
        return "nothing required"
    return "open" if row["met"] is None else "met" if row["met"] else "not met"


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
