"""How models of facts are trained. Imports no torch."""

from dataclasses import dataclass
from typing import Literal

from interp.constraints import Annotated, Interval, doc
from interp.settings import TrainingSettings


@dataclass(frozen=True)
class FactsSettings(TrainingSettings):
    """`TrainingSettings`, and:

    - `start`: weights `drawn` as everywhere, or those of the slides' theorem (`slides`; seed 003, L3493-3512): the
      query is the first unit vector for every token and does not learn, so that the score of a token z is a number
      w_KQ(z) of its own; all w_KQ(z) and all W_OV(a, z) are `alpha`. Then seeds differ by what they draw alone.
    - `alpha`: the size of these.
    - `trained`: `all` weights, or `maps`: all but embeddings and unembedding, which stay as they were drawn (random
      embeddings, as the slides' bounds on capacity have them).
    """

    start: Annotated[Literal["drawn", "slides"], doc("first weights")] = "drawn"
    alpha: Annotated[float, Interval(gt=0, le=1), doc("value of all weights of start=slides")] = 1e-3
    trained: Annotated[Literal["all", "maps"], doc("weights that learn: all, or not embedding and unembedding")] = "all"
