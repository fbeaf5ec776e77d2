"""The theorem's numbers beside the measured ones."""

import numpy as np

from case_studies.lottery_ticket.measure import C, Curve, Everything, N
from case_studies.lottery_ticket.words import factor
from case_studies.page import Table
from case_studies.words import Cell
from interp.numbers import number, power

ASKED = 1e-2  # end to end


def theorem_rows(found: Everything) -> list[list[str | Cell]]:
    """Statement, theorem, ours, note; for the target of the curve, seed 0."""
    r = found.pruned[0].result
    layers, level = len(r.working), r.levels[-1]
    # App. C.5 makes every block (C / 1000 L^2)^4L epsilon accurate, so that epsilon is left at the end.
    budget = (C / (1000 * layers**2)) ** (4 * layers)
    growth = level.worst / level.entry_max
    values = [f"blocks.{at}.attn.W_V" for at in r.working]
    kept = min(float(r.ticket.random[name][r.ticket.masks[name]].min()) for name in values)
    return [
        ["layers of the random network", "4L", str(4 * layers), f"L = {layers}; 2L of them are the identity"],
        ["ε end to end", "any ε > 0", power(level.epsilon["random"]), f"n = {N}, random inputs, |X| = 1"],
        ["ε end to end, smaller inputs", "any ε > 0", power(level.epsilon["small"]), f"n = {N}, 1e-3 ≤ |X| ≤ 1"],
        [
            "an entry's error, end to end",
            f"{power(1 / budget, 0)} times",
            f"{number(growth, 1)} times",
            "(1000 L² / C)^4L; largest",
        ],
        [
            f"entry error for {ASKED:g} end to end",
            power(budget * ASKED, 0),
            power(ASKED / growth, 0),
            "ours: at the measured growth",
        ],
        [
            f"candidates n for {ASKED:g} end to end",
            f"about {number(float(np.ceil(-np.log2(budget * ASKED))), 0)}",
            enough(found.curve),
            "theorem: at a factor 2 each; ours: least on the curve",
        ],
        [
            "decay a candidate, end to end",
            "exponential",
            Cell(factor(found.curve.slopes["end to end"])),
            f"subset sums alone: {number(10**-found.curve.expected, 2)}",
        ],
        ["kept value entries", "(1/2, 1)", f"{number(kept)} and more", "Lemma 9; the largest of each block"],
        ["largest l1 error of a row of attention", "no number", power(r.pattern_error), "working layers, all inputs"],
        ["largest spectral norm of a weight", "1", number(max(r.norms.values()), 1), "large entries cost extra units"],
    ]


def theorem_parts(found: Everything) -> list[str | Table]:
    """The theorem's numbers beside ours."""
    return [
        "The proof is existential and its constants are generous. What it budgets for the growth of an entry's error "
        "and what is measured:",
        Table(
            ["statement", "theorem", "ours", "note"],
            theorem_rows(found),
            f"Target: {found.curve.target}, seed 0.",
            text=(3,),
        ),
    ]


def enough(c: Curve) -> str:
    """The least n of the curve with a relative error below what is asked in every network."""
    for i, level in enumerate(c.levels[0]):
        if all(row[i].worst < ASKED for row in c.levels):
            return f"{level.candidates}"
    return "more than the curve has"
