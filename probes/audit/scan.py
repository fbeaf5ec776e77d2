"""What a scan of every head against every relation found."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interp.numbers import absent, estimate, size
from interp.text import fold
from probes.audit.result import AuditResult, by_head, evidence_line, rests_on, score_of
from probes.audit.scan_figure import scan_figure
from probes.audit.words import SCORED, WIDTH, shortened
from probes.core import Result

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class ScanResult(Result):
    """Every head against every relation. `results`: an audit each, corrected together."""

    results: tuple[AuditResult, ...]

    def summary(self) -> str:
        """What is supported or misleading of each head, or what fits best."""
        text = _summary(self.results)
        checked = self.results[0].task_check if self.results else None
        return text if checked is None else f"{text}\n{fold([str(checked)])}"

    def figure(self) -> "go.Figure":
        """Scores by head and relation, with the verdicts."""
        return scan_figure(self.results)


def _summary(results: Sequence[AuditResult]) -> str:
    """Per head what came out as supported or misleading, and the relation of the highest score otherwise."""
    first = results[0]
    lines = [
        *textwrap.wrap(f"Every head against every relation: {evidence_line(first)}. {SCORED}", WIDTH),
        f"  {'head':<7}{'relation':<29}{'claim score':<21}{'verdict':<11}use",
    ]
    shown = []
    for head, audits in by_head(results).items():
        ranked = sorted(audits, key=lambda a: -(_value(a) or 0.0))
        shown += [(head, a) for a in ranked if a.verdict in ("supported", "misleading")] or [(head, ranked[0])]
    for head, audit in shown:
        relation = shortened(audit.claim.split(" to ", 1)[1], 28)
        score = score_of(audit)
        lines.append(f"  {head:<7}{relation:<29}{estimate(score, 2):<21}{audit.verdict:<11}{audit.use}")
        told = f"{f'{size(score)}; ' if score is not None else ''}rests on {rests_on(audit)}"
        lines += textwrap.wrap(told, WIDTH, initial_indent=" " * 9, subsequent_indent=" " * 11)
    return "\n".join([*lines, *absent(lines)])


def _value(audit: AuditResult) -> float | None:
    score = score_of(audit)
    return None if score is None else score.value
