"""Tables of `markov-landscape`."""

from collections.abc import Sequence

import numpy as np

from case_studies.markov_landscape.measure import LEVEL, MATRICES, Measured
from case_studies.markov_landscape.points import KERNELS, SHORT, Case, Listed, Points
from case_studies.page import Table
from case_studies.words import Cell
from interp.numbers import number, power, significant
from interp.stats import REALS, SHARE, mean_over_seeds
from interp.worlds.binary_chain import BinaryChain
from interp.worlds.binary_chain.flow import CanonicalFlow

WORDS = {"unigram": "stuck at the unigram", "kernel": "learns the kernel", None: "nothing"}
VARIED = {"weights": "std of weights", "positions": "std of position vectors", "norm": "norm"}


def level_of(m: Measured, measured: Sequence[Measured]) -> float:
    """Of an arm's interval: 95 %, and for arms that were not named beforehand Bonferroni's for all of them."""
    others = sum(not one.arm.primary for one in measured)
    return LEVEL if m.arm.primary else 1 - (1 - LEVEL) / max(others, 1)


def finding(m: Measured, level: float) -> str:
    """Whether most seeds are stuck, where the whole interval says so."""
    share = m.stuck_share(level)
    if share.low is None or share.high is None:
        return "undecided"
    return "most are stuck" if share.low > 0.5 else "most learn" if share.high < 0.5 else "undecided"


def name_of(kernel: tuple[float, float]) -> str:
    """A chain in a table."""
    return f"p = {number(kernel[0], 2)}, q = {number(kernel[1], 2)}"


def said_table(
    measured: Sequence[Measured], here: Sequence[Points], exact: Sequence[Listed], flow: Sequence[Case]
) -> Table:
    """Each statement of the slides beside what came out; they print no number."""
    above = [one for one in here if one.p + one.q > 1]
    rows = []
    for tied, word in ((True, "local minimum"), (False, "saddle")):
        mine = [one for one in above if one.tied == tied]
        rows += [
            [
                f"{'tied' if tied else 'untied'}, p + q > 1: the unigram point is a {word} (L1997-2031), {name_of(k)}",
                "of some weights" if tied else "of the same",
                Cell(one.minima if tied else one.saddles, counted=True),
            ]
            for one in mine
            for k in [(one.p, one.q)]
        ]
    off = max(one.loss_off for one in exact)
    slope = max(one.found.gradient for one in exact)
    right = sum(one.basin == one.reached for one in flow)
    rows += [
        ["its loss is H(π) (L2001): largest difference over all strings", "0", power(off)],
        ["its gradient is 0 (L2002): largest entry", "0", power(slope)],
        ["starts of the canonical flow that end where the basins say", "no number", f"{right} of {len(flow)}"],
    ]
    rows += [
        [
            f"{m.name}: {WORDS[m.arm.said]} ({m.arm.where})",
            "stuck" if m.arm.said == "unigram" else "learns",
            Cell(m.stuck_share(level_of(m, measured)), counted=True, level=level_of(m, measured)),
        ]
        for m in measured
        if m.arm.said is not None
    ]
    return Table(
        ["statement", "slides", "ours (of models: how many are stuck)"],
        rows,
        "The slides show pictures, which are lost, and print no number: ours are the first. Points: draws of the other "
        "weights. Models: seeds.",
        text=(0,),
    )


def chain_table() -> Table:
    """The two losses between which everything happens."""
    rows = []
    for kernel in KERNELS:
        chain = BinaryChain(*kernel)
        gap = chain.unigram_loss - chain.entropy_rate
        values = (chain.eigenvalue, chain.unigram_loss, chain.entropy_rate, gap, chain.log_odds_gap)
        rows.append([name_of(kernel), *(number(x, 4) for x in values)])
    return Table(
        ["chain", "1 - p - q", "H(π), unigram", "entropy rate, kernel", "difference", "gap of log-odds to learn"],
        rows,
        "Exact, nats.",
    )


def listed_table(exact: Sequence[Listed]) -> Table:
    """Hessians over all strings."""
    rows = []
    for one in exact:
        below, zero, above = one.found.signs
        rows.append(
            [
                f"{'tied' if one.tied else 'untied'}, {name_of((one.p, one.q))}",
                one.found.kind,
                number(one.found.loss, 4),
                power(one.found.gradient),
                _eigenvalue(float(one.found.eigenvalues[0])),
                f"{below}, {zero}, {above}",
                power(one.spectrum_off),
            ]
        )
    return Table(
        [
            *("point", "is a", "loss", "largest slope", "least eigenvalue", "eigenvalues below, at, above 0"),
            "closed form off by",
        ],
        rows,
        f"All {2**SHORT} strings of {SHORT} states, width 3, float64, by every weight. A point with eigenvalues of 0 "
        "is called a minimum where all of them belong to weights that leave every prediction as it is.",
    )


def _eigenvalue(value: float) -> str:
    """Without the noise of rounding."""
    return significant(value) if abs(value) > 1e-12 else "0"


def points_table(here: Sequence[Points], head: str, what: str) -> Table:
    """Unigram points by the closed form."""
    rows = [
        [
            f"{'tied' if one.tied else 'untied'}, {name_of((one.p, one.q))}",
            *{
                "weights": [number(one.spread, 2)],
                "positions": [number(one.positions, 2)],
                "norm": [one.norm],
                "": [],
            }[head],
            Cell(one.minima, counted=True),
            Cell(one.saddles, counted=True),
            *([Cell(one.held, counted=True), Cell(one.moved, counted=True)] if head == "norm" else []),
            _eigenvalue(one.least),
        ]
        for one in here
    ]
    norms = ["minima while gains stay", "saddles once they move"] if head == "norm" else []
    return Table(
        ["point", *([VARIED[head]] if head else []), "local minima", "saddles", *norms, "least eigenvalue"],
        rows,
        f"{what} Closed form at width 8, strings of {BinaryChain().length} states; counted are draws of all other "
        "weights. Least eigenvalue: of the Hessian by a, e and b, the smallest of all draws.",
    )


def case_table(flow: Sequence[Case]) -> Table:
    """All 25 cases."""
    rows = [
        [
            f"{name_of((one.p, one.q))}, e = {number(one.start.e, 2)}, w = {number(one.start.w, 2)}",
            one.basin,
            one.reached,
            f"{number(one.end.e)}, {number(one.end.w)}",
            number(float(one.path.loss[-1]), 5),
            power(one.off),
            power(one.drift),
        ]
        for one in flow
    ]
    return Table(
        ["start", "basin says", "reached", "end (e, w) by the invariant", "loss", "off by", "invariant drifts by"],
        rows,
        "Gradient flow with b at its optimum, integrated to a relative error of 1e-9 a step.",
    )


def share_table(stds: Sequence[float]) -> Table:
    """Gaussian starts of the canonical flow."""
    rows = [[name_of(k), *(number(CanonicalFlow(*k).global_share(std), 3) for std in stds)] for k in KERNELS]
    return Table(
        ["chain", *(f"e, w from N(0, {number(std, 2)}²)" for std in stds)],
        rows,
        "Share of starts from which the canonical flow learns the kernel: exact, by integration over the basin.",
    )


def arm_table(measured: Sequence[Measured]) -> Table:
    """What became of every arm."""
    rows = []
    for m in measured:
        level = level_of(m, measured)
        p, q = m.arm.kernel
        rows.append(
            [
                m.name,
                Cell(m.stuck_share(level), counted=True, level=level),
                finding(m, level),
                Cell(m.escape, 0),
                Cell(mean_over_seeds(m.after[:, 0], support=SHARE), 3),
                Cell(mean_over_seeds(m.after[:, 1], support=SHARE), 3),
                f"{number(p, 2)}, {number(1 - q, 2)}",
                number(p / (p + q)),
                Cell(mean_over_seeds(m.scale, support=(0.0, np.inf)), 3),
            ]
        )
    return Table(
        [
            *("arm", "stuck", "finding", "step of escape", "f after 0", "f after 1", "kernel", "unigram"),
            "norm of e",
        ],
        rows,
        "f: mean predicted probability of state 1. Stuck: loss nearer to the unigram's than to the kernel's after the "
        "last step. Step of escape: of the seeds that learned, the first evaluated from which they stay nearer to the "
        "kernel.",
    )


def inside_table(measured: Sequence[Measured]) -> Table:
    """Low rank, and idle attention."""
    rows = []
    for m in measured:
        cells: list[str | Cell] = []
        for name in MATRICES:
            found = m.rank_one(name)
            null = found.null["before training"] if isinstance(found.null, dict) else None
            cells += [Cell(found, 2), number(null, 2)]
        cells += [Cell(mean_over_seeds(m.aligned[name], support=SHARE), 2) for name in MATRICES]
        rows.append([m.name, *cells, Cell(mean_over_seeds(m.without_attention, support=REALS), 4)])
    return Table(
        [
            "arm",
            *(head for name in MATRICES for head in (f"{name}: first singular value's share", "before training")),
            *(f"{name}: |cosine| with e" for name in MATRICES),
            "loss without attention, less with it",
        ],
        rows,
        "Shares of the squared singular values; a random direction of the stream has a mean |cosine| of 0.29.",
    )
