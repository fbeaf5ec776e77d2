"""What an analysis of topic blocks returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from interp.numbers import ABSENT, Cells, absent, estimate, number, reasons
from interp.stats import Estimate
from interp.text import fold
from probes.core import Result, counted
from probes.topics.blocks_figure import TITLES, p_text, topic_figure
from probes.topics.permutations import Structure
from probes.topics.words import Array, Ints

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class TopicBlocksResult(Result):
    """What one matrix of word pairs, or one per seed, holds of the topics. Rows left out ([MASK]) take no part.

    Within rows, over all words; the first three are the headline:

    - `contrast`: share of the variance within rows that "same topic" explains (R^2), negative where same-topic entries
      are the smaller ones. Ideal blocks 1, whatever is added to a row; 10 x 10 words on a diagonal 0.09, random 0.01.
    - `diagonality`: the same for "the word itself". A diagonal 1, ideal blocks of 10 x 10 words 0.09.
    - `ari`: topics found from the matrix alone against the labels, adjusted Rand index: 1 all found, 0 chance.
    - `p_value`: share of relabellings of the words (topics keep their sizes) in which same-topic entries, the diagonal
      left out, exceed the others by as much on average. `p_diagonal`: the same when each row's own entry changes
      places with one of its topic (without labels: of its cluster). Seeds are relabelled alike, each in its own unit.
    - `structure`: "blocks" where p_value <= 0.01, "diagonal" where p_diagonal <= 0.01, "blocks and diagonal", or
      "none"; what stands out a tenth as much as the other or less is not named. None without labels.
    - `contrast_off_diagonal`: `contrast` without the diagonal.  `raw_contrast`, `raw_contrast_off_diagonal`: mean over
      rows of the mean same-topic less the mean different-topic entry.
    - `uniformity`: c^2 / (c^2 + s^2) over rows, c the raw contrast off the diagonal and s^2 the variance of the
      same-topic entries: 1 where these are all alike, `null` where they are no more alike than any entries.

    Nulls by name: `random` matrix, `permuted` labels (exact expectation; of `diagonality`: own entry exchanged within
    its topic), an ideal `diagonal` or ideal `blocks`, `untrained` models, `theory`.

    - `theory`: Frobenius distances to Theorem 2.1.2 (`closed_form`) and to Definition 2.1.2 (`diagonal_form`), in units
      of their norms; to the family of all optima (`family`; Theorem 2.1.4 for "value", with biases added to the rows,
      as attention sums to 1; Theorem 2.1.1 for "embedding"), in units of the matrix's; and `block_sum`, the sum over
      the own topic's columns less that over another's. Empty with `theory_reason` where none applies. All is of the
      squared loss with even attention: models trained otherwise get no distance unless `theory=` is given.
    - `relations`: for attention, means over pairs of positions (Tables 2.1, 2.2); same word at any position, and at
      another position than the query's.
    - `untrained`: the headline numbers of the same config and seeds before training, or None.
    - `same_pairs`, `different_pairs`: ordered pairs of different words counted as either.
    - `num_clusters`: how many topics the blind recovery looked for; `clusters_from`: the "labels", or "estimated".
      `clusters` [matrix, row]: what it found, -1 for rows left out.

    Intervals are over seeds (t) for several matrices. For one they are over words: a bootstrap of rows, and for `ari`
    a jackknife that leaves the clusters as they are.
    """

    HEADLINES: ClassVar[tuple[str, ...]] = ("contrast", "diagonality", "ari")

    contrast: Estimate
    diagonality: Estimate
    ari: Estimate
    p_value: float | None
    p_diagonal: float
    structure: Structure | None
    contrast_off_diagonal: Estimate
    raw_contrast: Estimate
    raw_contrast_off_diagonal: Estimate
    uniformity: Estimate
    theory: dict[str, Estimate]
    theory_reason: str | None
    relations: dict[str, Estimate] | None
    untrained: dict[str, Estimate] | None
    matrix: str
    num_models: int
    num_words: int
    num_topics: int | None
    excluded: int
    same_pairs: int | None
    different_pairs: int | None
    num_clusters: int
    clusters_from: Literal["labels", "estimated"]
    permutations: int
    notes: tuple[str, ...]
    per_seed: dict[str, list[Any]] = field(repr=False)
    labels: tuple[int, ...] | None = field(repr=False)
    clusters: Ints = field(repr=False)
    values: Array = field(repr=False, metadata={"json": False})

    def summary(self) -> str:
        """A table, a line a number, with what to compare it with."""
        whose = counted(self.num_models, "matrix", "matrices")
        topics = "" if self.num_topics is None else f" of {self.num_topics} topics"
        lines = [f"Topic blocks in {TITLES[self.matrix]}: {whose}, {self.num_words} words{topics}"]
        if self.structure is not None:
            lines.append(f"Structure: {self.structure}")
        told = "" if self.p_value is None else f"topics p = {p_text(self.p_value)}, "
        lines.append(f"{told}diagonal p = {p_text(self.p_diagonal)} ({self.permutations} permutations)")
        lines.append(f"{'':<22}{'value':<26}{'random':>8}{'permuted':>10}{'untrained':>11}")
        table = (self.contrast, self.contrast_off_diagonal, self.diagonality, self.uniformity, self.ari)
        cells = Cells(table)
        for name, e in (
            ("contrast (R2)", self.contrast),
            ("  off the diagonal", self.contrast_off_diagonal),
            ("diagonality (R2)", self.diagonality),
            ("uniformity", self.uniformity),
            ("topics found (ARI)", self.ari),
        ):
            null = e.null if isinstance(e.null, dict) else {}
            chance = null.get("random", null.get("chance"))
            lines.append(
                f"{name:<22}{cells(e):<26}{number(chance, none=ABSENT):>8}"
                f"{number(null.get('permuted'), none=ABSENT):>10}{number(null.get('untrained'), none=ABSENT):>11}"
            )
        lines.append(f"intervals: {cells.over}")
        ideal = self.contrast.null["diagonal"] if isinstance(self.contrast.null, dict) else None
        if ideal is not None:
            lines.append(f"(a mere diagonal has contrast {number(ideal)}, mere blocks that diagonality)")
        whence = "of the labels" if self.clusters_from == "labels" else "estimated from the matrix"
        lines.append(f"found {counted(self.num_clusters, 'cluster')} (number {whence})")
        raw = self.raw_contrast
        if raw.value is not None:
            null = raw.null if isinstance(raw.null, dict) else {}
            aim = "" if null.get("theory") is None else f"; theory {number(null['theory'], None)}"
            off = number(self.raw_contrast_off_diagonal.value, None)
            lines.append(f"same less different topic: {number(raw.value, None)} (off the diagonal {off}){aim}")
        lines += [
            f"distance to {words}: {estimate(far, n=True)}, labels permuted {number(_null(far))}"
            for name, words in (("closed_form", "Thm 2.1.2"), ("family", "the optima"))
            if (far := self.theory.get(name)) is not None
        ]
        if self.relations is not None:
            lines += [f"{f'attention, {name}':<40}{number(e.value, 5)}" for name, e in self.relations.items()]
        lines += [*reasons(table), *absent(lines)]
        lines += [f"note: {note}" for note in self.notes]
        return fold(lines)

    def figure(self) -> "go.Figure":
        """The matrix (mean over seeds), words sorted by topic, with lines between the topics."""
        return topic_figure(
            self.values,
            labels=self.labels,
            clusters=self.clusters,
            matrix=self.matrix,
            structure=self.structure,
            contrast=self.contrast,
            diagonality=self.diagonality,
            ari=self.ari,
            p_value=self.p_value,
            p_diagonal=self.p_diagonal,
            num_models=self.num_models,
            num_clusters=self.num_clusters,
        )


def _null(estimate: Estimate) -> Any:
    return estimate.null["permuted"] if isinstance(estimate.null, dict) else None
