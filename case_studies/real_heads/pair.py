"""Two heads of the same look, one that costs and one that does not: the rule by which they are found.

The rule was written before any head had been taken out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

Head = tuple[int, int]

LEAST = 0.5  # claim score from which a head looks like what is claimed
ALIKE = 0.1  # by which the scores of two heads of the same look differ at most


@dataclass(frozen=True)
class Pair:
    """Two heads: taking out `costly` costs most more than taking out `idle`."""

    costly: Head
    idle: Head

    @property
    def heads(self) -> tuple[Head, Head]:
        """Both, the costly one first."""
        return self.costly, self.idle


def look_alike(scores: Mapping[Head, float]) -> list[Head]:
    """Heads whose score says that the claim fits them, the highest first."""
    return sorted((head for head, score in scores.items() if score >= LEAST), key=lambda head: -scores[head])


def choose(scores: Mapping[Head, float], costs: Mapping[Head, float]) -> Pair | None:
    """Of all two heads that look like the claim, and alike, those whose costs are furthest apart; None without two."""
    found = [
        (one, other) for one, other in combinations(look_alike(scores), 2) if abs(scores[one] - scores[other]) <= ALIKE
    ]
    if not found:
        return None
    one, other = max(found, key=lambda pair: abs(costs[pair[0]] - costs[pair[1]]))
    return Pair(one, other) if costs[one] >= costs[other] else Pair(other, one)
