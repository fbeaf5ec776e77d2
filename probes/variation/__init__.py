"""How far apart are the attention patterns of models trained alike?"""

from interp.worlds.dyck.inputs import PAPER_SENTENCE, TABLE_LENGTH
from probes.variation.analyzer import (
    analyze_variation,
    uniform_simplex_variation,
    variation_from_patterns,
)
from probes.variation.result import MOST_PAIRS, VariationResult

__all__ = [
    "MOST_PAIRS",
    "PAPER_SENTENCE",
    "TABLE_LENGTH",
    "VariationResult",
    "analyze_variation",
    "uniform_simplex_variation",
    "variation_from_patterns",
]
