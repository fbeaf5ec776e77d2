"""What needs no training: unigram points by the closed form and by enumeration, and the canonical flow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from case_studies.markov_landscape.arms import LEARNING_START, STUCK_START
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.stats import Estimate, clopper_pearson
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.constructed import SPREAD, unigram
from interp.worlds.binary_chain.flow import IN_WEIGHTS, SADDLE_LEVEL, CanonicalFlow, Path, Point, gap, invariant
from interp.worlds.binary_chain.landscape import Landscape, free_directions, landscape, unigram_point

KERNELS = ((0.1, 0.1), (0.2, 0.3), (0.5, 0.8), (0.6, 0.7), (0.9, 0.9))
STARTS = ((0.1, 0.02), (1.0, -1.2), (0.3, -1.2), (1.0, -0.5), (0.2, -0.5))
SPREADS = (0.02, 0.1, 0.3, 1.0)
POSITIONS = (0.02, 0.1, 0.3, 1.0, 3.0, 10.0)
SHORT, NARROW = 5, 3  # states of strings that are all listed, and the width of a model then
STDS = (0.02, 0.1, 0.5, 1.0)
NUDGE, TRIES = 1e-3, 8  # of gains and biases of norms


@dataclass(frozen=True)
class Points:
    """Unigram points with other weights drawn `n` times.

    - `minima`, `saddles`: share of the draws. `least`: the least eigenvalue of any, by (a, e, b).
    - With norms, tied: `held`: share of the draws that curve up in all directions but the one in which all entries of e
      are alike: norms take means off and do not see it, so that these are minima while gains and biases of the norms
      stay. `moved`: of these, share that some of `TRIES` moves of gains and biases, from N(0, `NUDGE`²), turns into a
      saddle of the same loss: where these learn, a point has lower ones next to it. None without norms, or untied.
    """

    p: float
    q: float
    tied: bool
    spread: float
    positions: float
    norm: str
    minima: Estimate
    saddles: Estimate
    least: float
    held: Estimate | None = None
    moved: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        told = {name: getattr(self, name) for name in ("p", "q", "tied", "spread", "positions", "norm", "least")}
        shares = {"minima": self.minima, "saddles": self.saddles, "held": self.held, "moved": self.moved}
        return {**told, **{name: share.to_dict() for name, share in shares.items() if share is not None}}


@dataclass(frozen=True)
class Listed:
    """A point where the loss is differentiated over all strings, and how far the closed form is from that."""

    p: float
    q: float
    tied: bool
    found: Landscape
    loss_off: float
    spectrum_off: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        below, zero, above = self.found.signs
        return {
            **{name: getattr(self, name) for name in ("p", "q", "tied", "loss_off", "spectrum_off")},
            "kind": self.found.kind,
            "loss": self.found.loss,
            "gradient": self.found.gradient,
            "eigenvalues": {"below": below, "zero": zero, "above": above, "least": float(self.found.eigenvalues[0])},
        }


@dataclass(frozen=True)
class Case:
    """One start of the canonical flow: where the invariant says that it ends, and where integration does."""

    p: float
    q: float
    start: Point
    basin: str
    end: Point
    path: Path

    @property
    def off(self) -> float:
        """Distance of the two ends."""
        return float(abs(self.path.e[-1] - self.end.e) + abs(self.path.w[-1] - self.end.w))

    @property
    def drift(self) -> float:
        """The most that the invariant changes on the way."""
        level = invariant(self.path.e, self.path.w)
        return float(abs(level - level[0]).max())

    @property
    def reached(self) -> str:
        """What was reached, by the loss alone: `global` minimum or `unigram`."""
        chain = BinaryChain(self.p, self.q)
        middle = (chain.unigram_loss + chain.entropy_rate) / 2
        return "global" if self.path.loss[-1] < middle else "unigram"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **{"p": self.p, "q": self.q, "start": list(self.start), "basin": self.basin, "reached": self.reached},
            **{"end": list(self.end), "gap": float(gap(*self.end)), "off": self.off, "drift": self.drift},
            "loss": float(self.path.loss[-1]),
        }


def points(
    kernel: tuple[float, float],
    tied: bool,
    draws: int,
    spread: float = SPREAD,
    positions: float | None = None,
    norm: str = "none",
) -> Points:
    """Unigram points with `draws` draws of the weights that are free."""
    grammar = BinaryChain(*kernel)

    def drawn(seed: int) -> SandboxTransformer:
        return unigram(grammar, tied=tied, spread=spread, positions=positions, norm=norm, seed=seed)

    found = [unigram_point(drawn(i), grammar) for i in range(draws)]
    kinds = [one.kind for one in found]
    minima, saddles = (clopper_pearson(kinds.count(kind), draws, over="trials") for kind in ("local minimum", "saddle"))
    least = min(float(one.eigenvalues[0]) for one in found)
    held, moved = None, None
    if tied and norm != "none":
        up = [i for i, one in enumerate(found) if replace(one, free=1).kind == "local minimum"]
        held = clopper_pearson(len(up), draws, over="trials")
        turned = [any(nudged(drawn(i), i, k, grammar).kind == "saddle" for k in range(TRIES)) for i in up]
        moved = clopper_pearson(sum(turned), len(up), over="trials")
    std = spread if positions is None else positions
    return Points(*kernel, tied, spread, std, norm, minima, saddles, least, held, moved)


def nudged(model: SandboxTransformer, seed: int, attempt: int, grammar: BinaryChain) -> Landscape:
    """The unigram point after a small move of all gains and biases of the norms, which leaves every prediction."""
    rng = generator(seed, "markov-landscape/gains", attempt)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "ln" in name:
                parameter += torch.from_numpy(NUDGE * rng.standard_normal(parameter.shape))
    return unigram_point(model, grammar)


def listed(kernel: tuple[float, float], tied: bool) -> Listed:
    """One point by enumeration, beside the closed form."""
    grammar = BinaryChain(*kernel, SHORT)
    model = unigram(grammar, tied=tied, width=NARROW, spread=0.3)
    found = landscape(model, grammar, free_directions(model))
    closed = sorted([*(2 * unigram_point(model, grammar).eigenvalues), *[0.0] * found.free])
    off = max(abs(a - b) for a, b in zip(closed, found.eigenvalues, strict=True))
    return Listed(*kernel, tied, found, abs(found.loss - grammar.unigram_loss), float(off))


def starts() -> dict[str, Any]:
    """The two canonical starts of the trainings, and e^2 on the boundary at the w of the learning one, by pace of e.

    Both lie on the side of their w whatever the pace, so that they test the sign of w and not the pace.
    """
    e, w = LEARNING_START
    level = w**2 - math.log(abs(w)) + SADDLE_LEVEL
    return {
        "stuck": list(STUCK_START),
        "learning": list(LEARNING_START),
        "square_of_e": e**2,
        "boundary": {f"{pace:g}": pace * level for pace in (1.0, IN_WEIGHTS)},
    }


def cases(kernels: Sequence[tuple[float, float]] = KERNELS) -> list[Case]:
    """Every start on every chain."""
    found = []
    for kernel in kernels:
        flow = CanonicalFlow(*kernel)
        found += [
            Case(*kernel, Point(*start), flow.basin(*start), flow.end(*start), flow.flow(*start)) for start in STARTS
        ]
    return found
