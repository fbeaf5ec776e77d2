"""What the page of `topics` is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from case_studies.topics.descent import Answer, Growth
from case_studies.topics.measure import AttentionRow, ExactRow, GroupResult, StageBoundary, StageRow


@dataclass(frozen=True)
class Findings:
    """All that the page is made of."""

    count: int
    groups: Sequence[GroupResult]
    exact: Sequence[ExactRow]
    table: Sequence[AttentionRow]
    stages: Sequence[StageRow]
    boundaries: Sequence[StageBoundary]
    growth: Sequence[Growth]
    answers: Sequence[Answer]
    landscapes: dict[str, dict[int, Any]]
    optima: dict[str, Sequence[Any]]
