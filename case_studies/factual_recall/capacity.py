"""How many facts fit: accuracy over sizes, and the slope of its logarithm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_studies.factual_recall.arms import KNOBS, Knob
from case_studies.study import Obtained
from interp.stats import REALS, SHARE, Estimate, mean_over_seeds

Array = NDArray[np.float64]
LEVEL = 0.95
LEAST = 1e-4  # accuracies below count as this in a logarithm


@dataclass(frozen=True)
class Sizes:
    """One knob: `scales` [size], `right` [size, seed], the share of right answers after the last step.

    `guess`: the share that who knows the relation alone gets right.
    """

    knob: Knob
    scales: NDArray[np.int64]
    right: Array
    digests: Sequence[tuple[str, str]]
    guess: float

    @property
    def level(self) -> float:
        """Of the slope's interval: 95 %; Bonferroni's for those that were not named beforehand, together."""
        others = sum(not knob.primary for knob in KNOBS)
        return LEVEL if self.knob.primary else 1 - (1 - LEVEL) / others

    def slopes(self) -> Array:
        """Slope of log(facts known) over log(size) [seed]; facts known are accuracy times S R."""
        return self._slopes(self.right, np.ones(len(self.scales), dtype=bool))

    def _slopes(self, known: Array, kept: NDArray[np.bool_]) -> Array:
        x = np.log(self.scales[kept].astype(float))
        y = np.log(np.maximum(known[kept], LEAST))
        return np.asarray(np.polyfit(x, y, 1)[0])

    @property
    def above_guess(self) -> NDArray[np.bool_]:
        """Sizes [size] whose mean accuracy lies above guessing, interval and all."""
        return np.array([(e.low or 0.0) > self.guess for e in self.accuracies()])

    def beyond_guess(self) -> Estimate:
        """The slope where guesses are taken off: of (accuracy - guess) / (1 - guess), over sizes above guessing."""
        kept = self.above_guess
        if kept.sum() < 2:
            return Estimate.undefined("fewer than two sizes are above guessing", self.right.shape[1], "seeds", 0.0)
        known = (self.right - self.guess) / (1 - self.guess)
        return mean_over_seeds(self._slopes(known, kept), support=REALS, level=self.level).with_null(0.0)

    def slope(self) -> Estimate:
        """Mean over seeds. Null: 0, the size does not matter."""
        return mean_over_seeds(self.slopes(), support=REALS, level=self.level).with_null(0.0)

    def accuracies(self) -> list[Estimate]:
        """By size."""
        return [mean_over_seeds(one, support=SHARE) for one in self.right]

    def to_dict(self) -> dict[str, Any]:
        """What results.json holds."""
        return {
            "primary": self.knob.primary,
            "bound": {"said": self.knob.said, "from": self.knob.bound},
            "slope": {**self.slope().to_dict(), "level": self.level},
            "beyond_guess": {**self.beyond_guess().to_dict(), "sizes": self.scales[self.above_guess].tolist()},
            "guess": self.guess,
            "accuracy": {
                str(scale): one.to_dict() for scale, one in zip(self.scales, self.accuracies(), strict=True)
            },
            "digests": [digest for _, digest in self.digests],
        }  # fmt: skip


def sizes(knob: Knob, obtained: Sequence[Obtained]) -> Sizes:
    """Of a knob's populations, in the order of its values."""
    right = [[row["accuracy"] for row in one.population.final_metrics()] for one in obtained]
    return Sizes(
        knob,
        np.array([knob.scale(value) for value in knob.values]),
        np.array(right, dtype=float),
        [(one.family.name, one.digest) for one in obtained],
        base_accuracy(obtained[0].population.grammar),
    )


def base_accuracy(grammar: Any) -> float:
    """Of who knows the relation alone and says its most frequent answer."""
    return float(grammar.chances.max(1).mean())
