"""What the page of `dyck-attention` is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

from case_studies.dyck_attention.apart import Apart
from case_studies.dyck_attention.arms import Arms
from case_studies.dyck_attention.deep import Deep
from case_studies.dyck_attention.families import Panel
from case_studies.dyck_attention.measure import Measured, TableRow, Variant
from case_studies.dyck_attention.origins import Origins
from interp.population import Population
from interp.stats import Estimate
from probes.variation import VariationResult


@dataclass(frozen=True)
class Findings:
    """All that the page is made of."""

    count: int
    main: Sequence[Measured]
    others: Sequence[Measured]
    prefixes: Sequence[Measured]
    prefix_variation: Sequence[VariationResult]  # of `prefixes`, on strings of their own law
    table: Sequence[TableRow]
    variants: Sequence[Variant]
    arms: Arms  # the paper's families, each trained in three ways
    origins: Origins
    pairs: Sequence[Apart]  # populations that differ in one thing: positions, or the learning rate
    kinds: Sequence[Apart]  # populations split by where their models attend
    deep: Sequence[Deep]  # models of three layers
    table_released: Sequence[TableRow]
    table_prefixes: Sequence[TableRow]  # the same, trained on prefixes
    without: Sequence[Variant]  # the released code with one part as ours
    start: dict[str, dict[str, Estimate]]  # family -> how START is counted -> variation
    panels: Sequence[tuple[Panel, Population, float]]  # the paper's figures, their models, the worst seed's accuracy
    floors: dict[str, float]
    uniform: dict[str, float]  # the constructed uniform solver's accuracy

    @property
    def families(self) -> list[Measured]:
        """Everything measured whole."""
        return [*self.main, *self.others, *self.prefixes]
