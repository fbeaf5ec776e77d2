"""The picture of a scan."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interp.errors import RequestError
from interp.numbers import estimate
from probes.audit.result import AuditResult, by_head, evidence_line, rests_on, score_of
from probes.audit.words import shortened

if TYPE_CHECKING:
    import plotly.graph_objects as go


def scan_figure(results: Sequence[AuditResult]) -> "go.Figure":
    """Claim scores by head and relation; the verdict of each is written on it."""
    import plotly.graph_objects as go

    from interp.plots.style import VERDICTS, colorscale, colour_bar, escape, finish

    if not results:
        raise RequestError("a scan without claims has no picture")
    heads, relations, values, marks, told = _cells(results)
    heat = go.Heatmap(
        z=values, x=heads, text=marks, texttemplate="%{text}", customdata=told, hoverongaps=True,
        zmin=0, zmax=1, colorscale=colorscale(), colorbar=colour_bar("claim score"),
        hovertemplate="%{customdata}<extra></extra>", xgap=2, ygap=2,
    )  # fmt: skip
    blank = [(row, column) for row, line in enumerate(values) for column, v in enumerate(line) if v is None]
    fig = go.Figure(heat)
    for row, column in blank:  # a heatmap writes nothing where it has no colour
        fig.add_annotation(text=marks[row][column], x=heads[column], y=row, showarrow=False)
    right = sum(audit.verdict == "supported" for audit in results)
    return finish(
        fig,
        f"Every head against every relation: {right} of {len(results)} claims are supported",
        f"{', '.join(f'{sign} {word}' for word, (_, sign) in VERDICTS.items())}. Colour: claim score, over every query "
        "to which the relation applies; no colour: no score. The reason, and the numbers it rests on, are in the "
        f"hover; {evidence_line(results[0])}",
        width=max(860, 460 + (40 if len(heads) <= 40 else 16) * len(heads)),
        height=90 + 24 * len(relations),
        margin={"l": 360},
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "tickvals": list(range(len(relations))),
            "ticktext": [escape(shortened(relation, 50)) for relation in relations],
        },
    )


def _cells(
    results: Sequence[AuditResult],
) -> tuple[list[str], list[str], list[list[float | None]], list[list[str]], list[list[str]]]:
    """Heads, relations, and by relation and head the score, the sign of the verdict, and the reason."""
    from interp.plots.style import VERDICTS, literal

    heads = by_head(results)
    relations = list(dict.fromkeys(audit.claim.split(" to ", 1)[1] for audit in results))
    place = {relation: i for i, relation in enumerate(relations)}
    values: list[list[float | None]] = [[None] * len(heads) for _ in relations]
    marks = [[""] * len(heads) for _ in relations]
    told = [[""] * len(heads) for _ in relations]
    for column, audits in enumerate(heads.values()):
        for audit in audits:
            row, score = place[audit.claim.split(" to ", 1)[1]], score_of(audit)
            values[row][column] = None if score is None or score.value is None else max(score.value, 0.0)
            marks[row][column] = VERDICTS[audit.verdict][1]
            said = [audit.claim, f"claim score {estimate(score, 2, n=True)}", f"{audit.verdict}: {audit.reason}",
                    f"It rests on: {rests_on(audit)}"]  # fmt: skip
            told[row][column] = "<br>".join(literal(line) for text in said for line in textwrap.wrap(text, 90))
    return list(heads), relations, values, marks, told
