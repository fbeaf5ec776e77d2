"""What training the embedding alone costs, beside training everything (thesis 2.1.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from case_studies.page import Table
from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.topics.measure import final_loss
from case_studies.words import Cell
from interp.numbers import estimate, number
from interp.population import Population
from interp.stats import REALS, Estimate, mean_over_seeds
from probes.topics import TopicBlocksResult, analyze_topic_blocks


@dataclass(frozen=True)
class Alone:
    """The embedding alone against everything, of one loss, seed by seed on the same held-out documents.

    `excess`: by how much its loss is higher, as a share of that of everything (null 0: it costs nothing); `unlearned`:
    what predicting every word alike costs on the same scale. `blocks`: of its Gram matrix of W_E.
    """

    family: Family
    digest: str
    loss: Estimate
    whole: Estimate
    excess: Estimate
    unlearned: float
    blocks: TopicBlocksResult

    def to_dict(self) -> dict[str, Any]:
        """What stands in results.json."""
        return {
            "digest": self.digest,
            "loss": self.loss.to_dict(),
            "everything": self.whole.to_dict(),
            "excess": self.excess.to_dict(),
            "unlearned": self.unlearned,
            "structure": self.blocks.structure,
            "p_value": self.blocks.p_value,
            "contrast": self.blocks.contrast.to_dict(),
        }


def measure_alone(one: Obtained, whole: Population) -> Alone:
    """`whole`: the population in which everything is trained by the same loss, of the same seeds."""
    alone, everything = losses(one.population), losses(whole)
    even = float(one.population.final_metrics()[0]["rung/any word"])
    return Alone(
        one.family,
        one.digest,
        final_loss(one.population),
        final_loss(whole),
        mean_over_seeds(alone / everything - 1, support=REALS).with_null(0.0),
        even / float(everything.mean()) - 1,
        analyze_topic_blocks(one.population, matrix="embedding"),
    )


def losses(population: Population) -> np.ndarray:
    """Held-out loss of each seed at the last step [seed]."""
    return np.array([row["loss"] for row in population.final_metrics()])


def alone_parts(found: Sequence[Alone]) -> list[str | Table]:
    """The table of both losses, and a sentence."""
    told = "; ".join(
        f"{a.family.name}: {estimate(a.excess, n=True)} of its loss (predicting every word alike: "
        f"{number(a.unlearned, 2)})"
        for a in found
    )
    return [
        "W_V is the identity and attention even, and W_E alone is trained. What that costs beside training everything: "
        f"{told}.",
        Table(
            [
                "trained with",
                "embedding alone: loss",
                "everything: loss",
                "more by a share of",
                "its Gram matrix",
                "R²",
            ],
            [
                [
                    a.family.name,
                    Cell(a.loss, 4),
                    Cell(a.whole, 4),
                    Cell(a.excess, 4),
                    a.blocks.structure or "",
                    Cell(a.blocks.contrast),
                ]
                for a in found
            ],
            "Held-out documents; the shares are seed by seed. R²: as in the tables of the figures.",
        ),
    ]
