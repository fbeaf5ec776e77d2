"""What can be said of attention heads: the parts that claims are made of, and those that hold in any world.

A world adds relations, conditions and questions of its own (`Claims`); `interp.claims.register` puts all together.
Imports no torch.
"""

from interp.claims.types import (
    Called,
    Claims,
    Condition,
    Items,
    Keys,
    Kind,
    Made,
    Pairs,
    Question,
    Relation,
    Rows,
    Tokens,
)

__all__ = [
    "Called",
    "Claims",
    "Condition",
    "Items",
    "Keys",
    "Kind",
    "Made",
    "Pairs",
    "Question",
    "Relation",
    "Rows",
    "Tokens",
]
