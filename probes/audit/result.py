"""What an audit of one claim found."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from interp.numbers import absent
from interp.stats import Estimate
from interp.task_check import TaskCheck
from interp.text import fold
from probes.audit.figure import audit_figure
from probes.audit.rows import COUNTS, stem
from probes.audit.thresholds import LEAST_EARLY
from probes.audit.words import (
    CELL,
    NAME,
    NEEDED,
    SCORED,
    SHOWN,
    SIZE,
    WIDTH,
    lines_of,
    needed,
    numbers_of,
    required,
    seed_line,
)
from probes.core import Result

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class AuditResult(Result):
    """What an audit found of one claim.

    - `pattern`, `use`, `verdict`: words (see this module); `reason`: why, in plain words.
    - `evidence`: a table, a dict a row: `group`, `name`, `words`; `value`, `low`, `high`, `n`, `over`, `null`; what was
      required of it (`side`, `threshold`), whether that is `met` (None: open, or nothing was required); its `unit`;
      what it `says` of the claim ("for", "against", "open" or None), and whether it `decides`: the verdict rests on it.
    - `level`: of all intervals, 1 - .05 / m for `num_claims` = m claims audited together. Of one model each counts as
      often as its question has kinds of minimal pair, and it is stricter still where several heads were tried for
      "some head"; of a population each counts once.
    - `heads`: those the findings are about. Of a population: of each seed, see `seeds`.
    - `parts`: the claim, typed (`Claim.to_dict`); `seed`: of the inputs and of whatever else was drawn.
    - `task_check`: of models that were not trained here, how well they do their grammar's task; else None.
    - `share`: of a population, in which share of seeds some head (of the named layers) satisfies the claim; `floor`:
      the largest share of which so many seeds could be certain. None for one model.
    - `looks`: of an audit that may stop early, the inputs of each look that it would take; else empty. `num_inputs` is
      the look that decided (of a population, the largest; of each seed, see `seeds`).
    - `drawn`: of a model of no world, what inputs were drawn for it, in words; else "".
    """

    TABLE: ClassVar[str] = "evidence"

    claim: str
    pattern: str
    use: str
    verdict: str
    reason: str
    evidence: tuple[dict[str, Any], ...]
    heads: tuple[tuple[int, int], ...]
    task: str | None
    level: float
    num_claims: int
    num_models: int
    num_inputs: int
    share: Estimate | None
    floor: float | None
    seeds: tuple[dict[str, Any], ...] = field(repr=False)
    parts: dict[str, Any] = field(repr=False)
    seed: int
    task_check: TaskCheck | None = None
    looks: tuple[int, ...] = field(default=(), metadata={"json": "given"})
    drawn: str = field(default="", metadata={"json": "given"})

    def summary(self) -> str:
        """The verdict, the reason, and the table."""
        text = _summary(self)
        return text if self.task_check is None else f"{text}\n{fold([str(self.task_check)])}"

    def figure(self) -> "go.Figure":
        """The evidence as bars with their intervals, against what was required."""
        return audit_figure(
            self.evidence,
            claim=self.claim,
            pattern=self.pattern,
            use=self.use,
            verdict=self.verdict,
            reason=self.reason,
            num_models=self.num_models,
            over=evidence_line(self),
        )


def _summary(result: AuditResult) -> str:
    """The verdict, the reason and the table, at most 80 columns."""
    lines = textwrap.wrap(result.claim, WIDTH)
    idle = "; the model does not use it" if (result.verdict, result.use) == ("supported", "unused") else ""
    lines.append(f"Verdict: {result.verdict}{idle} (pattern {result.pattern}, use {result.use})")
    lines += textwrap.wrap(result.reason, WIDTH)
    lines += textwrap.wrap(f"Inputs drawn: {result.drawn}", WIDTH) if result.drawn else []
    lines += textwrap.wrap(f"Evidence: {evidence_line(result)}. {SCORED}. >: the verdict rests on it", WIDTH)
    units = {row["over"] for row in result.evidence if row["unit"] != COUNTS}
    over = units.pop() if len(units) == 1 else ""
    head = f"n {over}".rstrip()
    lines.append(f"  {'':<{NAME}}{'value [interval]':<{CELL}}{head:<{SIZE}}{'needed':<{NEEDED}}says")
    told = False
    for row in result.evidence:
        if row["over"] == "seeds" and row["group"] != "population" and not told:
            lines.append("  means over seeds:")
            told = True
        lines += lines_of(row, over)
    if result.seeds:
        head = f"  {'seed':>6}  {'heads':<12}{'pattern':<11}{'use':<11}{'verdict':<11}{'claim score':>12}{'effect':>10}"
        seeds = [seed_line(row) for row in result.seeds[:SHOWN]]
        lines += [head, *seeds, *absent(seeds)]
        if len(result.seeds) > SHOWN:
            lines.append(f"  ({SHOWN} of {len(result.seeds)} seeds)")
    return "\n".join(lines)


def evidence_line(result: AuditResult) -> str:
    """How many models and inputs, which of them decide, and the level of the intervals."""
    models = "one model" if result.num_models == 1 else f"{result.num_models} models"
    several = "" if result.num_claims == 1 else f" ({result.num_claims} claims together)"
    over = f"{models}, {_inputs(result)}, one half chooses and the other decides"
    return f"{over}; intervals {100 * result.level:.4g} %{several}"


def _inputs(result: AuditResult) -> str:
    """How many inputs decided, and at which look."""
    if not result.looks:
        return f"{result.num_inputs} inputs"
    if len(result.looks) == 1:
        return f"{result.num_inputs} inputs (one look: an earlier one needs {LEAST_EARLY})"
    counts = Counter(row["num_inputs"] for row in result.seeds) or Counter([result.num_inputs])
    of = f"of {result.looks[-1]} inputs (look {{}} of {len(result.looks)})"
    told = (f"{n} {of.format(at)}" + (f" in {counts[n]} of them" if result.seeds else "")
            for at, n in enumerate(result.looks, start=1) if counts[n])  # fmt: skip
    return " and ".join(told)


def rests_on(result: AuditResult) -> str:
    """The rows that decide: what they are, their numbers, and what was needed."""
    rows = [row for row in result.evidence if row["decides"]]
    told = [f"{row['words']} {numbers_of(row)}{f' ({required(row)})' if needed(row) else ''}" for row in rows]
    return "; ".join(told)


def by_head(results: Sequence[AuditResult]) -> dict[str, list[AuditResult]]:
    """Audits by the head that their claim names."""
    out: dict[str, list[AuditResult]] = {}
    for audit in results:
        out.setdefault(audit.claim.split(" ", 1)[0], []).append(audit)
    return out


def score_of(audit: AuditResult) -> Estimate | None:
    """The claim score; None where too few rows made one impossible."""
    row = next((row for row in audit.evidence if stem(row["name"]) == "score"), None)
    return None if row is None else Estimate.from_dict(row)
