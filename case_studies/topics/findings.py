"""What the page of `topics` is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from case_studies.topics.descent import Answer, Growth
from case_studies.topics.embedding import Alone
from case_studies.topics.measure import AttentionRow, ExactRow, GroupResult, StageBoundary, StageRow
from case_studies.topics.readings import Left
from case_studies.topics.released_rows import ReleasedRow
from case_studies.topics.turning import Turning


@dataclass(frozen=True)
class Findings:
    """All that the page is made of."""

    count: int
    groups: Sequence[GroupResult]
    tried: Sequence[GroupResult]  # what else was tried for figures with SGD
    alone: Sequence[Alone]
    exact: Sequence[ExactRow]
    table: Sequence[AttentionRow]
    released: Sequence[ReleasedRow]  # Table 2.1
    diagonal: Sequence[ReleasedRow]  # Table 2.2
    left: Mapping[tuple[str, str], Left]
    stages: Sequence[StageRow]
    boundaries: Sequence[StageBoundary]
    turning: Sequence[Turning]
    growth: Sequence[Growth]
    answers: Sequence[Answer]
    landscapes: dict[str, dict[int, Any]]
    optima: dict[str, Sequence[Any]]
