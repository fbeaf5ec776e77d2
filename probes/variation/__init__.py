"""How far apart are the attention patterns of models trained alike?"""

from probes.variation.analyzer import (
    MOST_PAIRS,
    PAPER_SENTENCE,
    TABLE_LENGTH,
    VariationResult,
    analyze_variation,
    uniform_simplex_variation,
    variation_from_patterns,
)

__all__ = [
    "MOST_PAIRS",
    "PAPER_SENTENCE",
    "TABLE_LENGTH",
    "VariationResult",
    "analyze_variation",
    "uniform_simplex_variation",
    "variation_from_patterns",
]
