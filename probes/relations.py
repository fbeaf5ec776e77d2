"""The relations of `probes.claims` under their older name."""

from probes.claims import (
    RELATIONS,
    Keys,
    Kind,
    Pairs,
    Relation,
    RelationScores,
    Tokens,
    bracket_tokens,
    bracket_type,
    complement,
    relation_scores,
)

__all__ = [
    "RELATIONS",
    "Keys",
    "Kind",
    "Pairs",
    "Relation",
    "RelationScores",
    "Tokens",
    "bracket_tokens",
    "bracket_type",
    "complement",
    "relation_scores",
]
