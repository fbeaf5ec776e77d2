"""Which models are trained: tied or not, by which optimiser, from which weights, on which chain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from case_studies.populations import Family
from interp.worlds.binary_chain.flow import IN_WEIGHTS, CanonicalFlow

Ends = Literal["unigram", "kernel"]
STEPS = 2000
KEPT = (0, 50, 100, 200, 400, 800, 1400, 2000)  # steps at which weights are kept: the way of a model on the portrait
CHAIN, BELOW, SWITCHING = (0.5, 0.8), (0.2, 0.3), (0.9, 0.9)
STUCK_START, LEARNING_START = (0.8, 0.6), (0.8, -0.6)  # (e, w): one size, and on either side of the boundary
ADAMW: Mapping[str, Any] = {"optimizer": "adamw", "lr": 2e-3, "weight_decay": 1e-3}  # of the released code


@dataclass(frozen=True)
class Arm:
    """A family, what the source says of it (None: nothing), and where: lines of the slides, or the reduced flow.

    - `primary`: named before the run; the others are corrected together.
    """

    family: Family
    said: Ends | None
    where: str
    primary: bool = False

    @property
    def kernel(self) -> tuple[float, float]:
        """p and q."""
        grammar: Any = self.family.recipe.grammar
        return grammar.p, grammar.q


def _arm(
    name: str,
    said: Ends | None,
    where: str,
    *,
    tied: bool = True,
    chain: tuple[float, float] = CHAIN,
    primary: bool = False,
    **options: Any,
) -> Arm:
    preset = "binary-chain" if tied else "binary-chain-untied"
    kernel = {"p": chain[0], "q": chain[1]}
    family = Family(name, preset, {**kernel, "eval_every": 50, **options}, steps=STEPS, snapshots=KEPT)
    return Arm(family, said, where, primary)


def _canonical(name: str, start: tuple[float, float], **options: Any) -> Arm:
    end = CanonicalFlow(*CHAIN, IN_WEIGHTS).basin(*start)
    said: Ends = "unigram" if end == "unigram" else "kernel"
    return _arm(name, said, "reduced flow", start="canonical", start_e=start[0], start_w=start[1], **options)


ARMS: tuple[Arm, ...] = (
    _arm("tied, SGD", "unigram", "L2266", primary=True),
    _arm("untied, SGD", "kernel", "L1985", tied=False, primary=True),
    _arm("tied, SGD, p + q < 1", "kernel", "L2252", chain=BELOW, primary=True),
    _arm("tied, AdamW", "unigram", "L2266", primary=True, **ADAMW),
    _arm("untied, AdamW", "kernel", "L1985", tied=False, **ADAMW),
    _arm("tied, AdamW, p = q = .9", "unigram", "L2266", chain=SWITCHING, **ADAMW),
    _arm("tied, SGD, p = q = .9", "unigram", "L2266", chain=SWITCHING),
    _canonical("tied, SGD, canonical start, stuck side", STUCK_START),
    _canonical("tied, SGD, canonical start, learning side", LEARNING_START),
    _canonical("tied, AdamW, canonical start, stuck side", STUCK_START, **ADAMW),
    _canonical("tied, AdamW, canonical start, learning side", LEARNING_START, **ADAMW),
    _arm("tied, SGD, initial scale .2", None, "", init_std=0.2),
    _arm("tied, SGD, initial scale .5", None, "", init_std=0.5),
    _arm("tied, SGD, all biases", None, "", trained="all"),
)
