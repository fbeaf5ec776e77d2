"""How far apart are the attention patterns of models trained alike?"""

from interp.worlds.dyck.inputs import PAPER_SENTENCE, TABLE_LENGTH
from probes.variation.analyzer import (
    analyze_variation,
    uniform_simplex_variation,
    variation_from_patterns,
)
from probes.variation.origins import origins_from_patterns, share_of_origins
from probes.variation.origins_result import OriginsResult
from probes.variation.result import MOST_PAIRS, VariationResult

__all__ = [
    "MOST_PAIRS",
    "PAPER_SENTENCE",
    "TABLE_LENGTH",
    "OriginsResult",
    "VariationResult",
    "analyze_variation",
    "origins_from_patterns",
    "share_of_origins",
    "uniform_simplex_variation",
    "variation_from_patterns",
]
