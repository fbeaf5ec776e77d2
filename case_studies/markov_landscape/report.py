"""The page of `markov-landscape`. Every sentence is made from the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from case_studies.markov_landscape.arms import ADAMW, CHAIN, STEPS
from case_studies.markov_landscape.figures import ends, portrait, trained_portrait, ways
from case_studies.markov_landscape.measure import STRINGS, Measured
from case_studies.markov_landscape.points import STDS, Case, Listed, Points
from case_studies.markov_landscape.tables import (
    arm_table,
    case_table,
    chain_table,
    inside_table,
    listed_table,
    points_table,
    said_table,
    share_table,
)
from case_studies.page import Page, Section, Table
from interp.numbers import count, number


@dataclass(frozen=True)
class Findings:
    """Everything measured. `sweeps`: unigram points by what is varied: weights, positions, norm."""

    count: int
    measured: Sequence[Measured]
    points: Sequence[Points]
    sweeps: dict[str, Sequence[Points]]
    listed: Sequence[Listed]
    cases: Sequence[Case]


def report(f: Findings, command: str) -> Page:
    """The report of what was measured."""
    primary = sum(m.arm.primary for m in f.measured)
    return Page(
        title="Which one-layer models fail to learn a two-state chain?",
        asked=(
            "A one-layer model has to learn one Markov chain of two states, for which the current state is enough. "
            f"When does it stay at the constant prediction? {f.count} seeds of each of {len(f.measured)} trainings."
        ),
        said=[
            "If p + q > 1 and embeddings are tied, there are weights at which the unigram point is a bad local "
            "minimum, and training gets stuck there; untied they are a saddle, and for p + q < 1 a Gaussian start "
            "learns the chain (Makkuva's slides, L1788-2331; Makkuva et al. 2024).",
            "The slides print no number and no setting of a training.",
        ],
        answer=answers(f),
        sure=(
            f"Points and flow are exact. Counts of seeds have exact (Clopper-Pearson) intervals: 95 % for the "
            f"{primary} trainings named before the run, Bonferroni-corrected for the other {len(f.measured) - primary} "
            "together. The null of every loss is the unigram's on the same strings."
        ),
        lead=ends(f.measured),
        compared=[said_table(f.measured, f.points, f.listed, f.cases), chain_table()],
        sections=[
            Section("The unigram point", point_parts(f)),
            Section(
                "The canonical flow",
                [
                    "Three numbers e, w and b are left of the model, with the attention scalar 0: log-odds of 1 after "
                    "x are e²(1 + 2w|w|)x + b - e²/2. With b at its optimum, e² - w² - sign(w) log|w| never changes, "
                    "and the curve of it through the saddle (0, -1/√2) parts the starts.",
                    portrait(CHAIN, f.cases),
                    portrait((0.2, 0.3), f.cases),
                    case_table(f.cases),
                    share_table(STDS),
                ],
            ),
            Section("Training", [arm_table(f.measured), ways(f.measured), trained_portrait(f.measured)]),
            Section(
                "Inside",
                [
                    "The slides reduce the model because trained weights are of low rank (L2169-2180; the picture is "
                    "lost). The current state is enough, so that attention may be idle.",
                    inside_table(f.measured),
                ],
            ),
        ],
        settings=[settings_table(f)],
        command=command,
        digests=[(m.name, m.digest) for m in f.measured],
    )


def answers(f: Findings) -> list[str]:
    """Three sentences, made from the numbers."""
    by_name = {m.name: m for m in f.measured}
    stuck = {name: count(m.stuck_share()) for name, m in by_name.items() if m.arm.primary}
    told = "; ".join(f"{name}: {share}" for name, share in stuck.items())
    above = [one for one in f.points if one.p + one.q > 1 and one.tied]
    least = min(above, key=lambda one: one.minima.value or 0)
    sweep = f.sweeps["positions"]
    minima = [one for one in sweep if (one.minima.value or 0) > 0.5]
    from_std = min((one.positions for one in minima), default=None)
    long = (
        f"with position vectors of standard deviation {number(from_std, 2)} it is one for p + q < 1 as well"
        if from_std is not None
        else "no length of position vectors tried makes it one for p + q < 1"
    )
    right = sum(one.basin == one.reached for one in f.cases)
    return [
        f"Seeds that are stuck at the unigram, {told}.",
        f"With small other weights the tied unigram point is a local minimum in {count(least.minima)} draws or more "
        f"for p + q > 1; {long}.",
        f"The canonical flow ends where its invariant says in {right} of {len(f.cases)} starts.",
    ]


def point_parts(f: Findings) -> list[str | Table]:
    """Tables of the unigram point."""
    return [
        "All states look alike (e = 0) and the output reads nothing (a = 0): every prediction is the stationary law, "
        "whatever the other weights are. What kind of point that is depends on them.",
        listed_table(f.listed),
        points_table(f.points, "", "All other weights from N(0, 0.1²)."),
        points_table(f.sweeps["weights"], "weights", "Std: standard deviation of all other weights."),
        points_table(
            f.sweeps["positions"], "positions", "Std: standard deviation of position vectors; other weights N(0, 0.1²)."
        ),
        points_table(
            f.sweeps["norm"],
            "norm",
            "Norms (LN) take means off, so that the direction in which all entries of e are alike has an eigenvalue "
            "of 0: where all others are above, the point is a minimum while gains and biases of the norms stay. "
            "Once they move: share of these of which a move of N(0, 0.001²) makes a saddle of the same loss "
            "(both added after the first look).",
        ),
    ]


def settings_table(f: Findings) -> Table:
    """What each arm trains."""
    rows = []
    for m in f.measured:
        s = m.arm.family.recipe.settings
        options = {k: v for k, v in m.arm.family.options.items() if k not in ("p", "q", "eval_every", *ADAMW)}
        rows.append(
            [
                m.name,
                m.arm.family.preset,
                f"{number(m.arm.kernel[0], 2)}, {number(m.arm.kernel[1], 2)}",
                s.optimizer,
                f"{s.lr:g}",
                f"{s.weight_decay:g}",
                str(m.steps[-1]),
                ", ".join(f"{k}={v}" for k, v in options.items()) or "none",
            ]
        )
    return Table(
        ["arm", "preset", "p, q", "optimizer", "learning rate", "weight decay", "steps", "other options"],
        rows,
        f"Width 8, one head, MLP of 32 (ReLU), no norms, learned positions, initial scale 0.02, batches of 32 strings "
        f"of 32 states, {STEPS} steps in full; a softmax of two outputs in the place of a sigmoid doubles the pace of "
        f"e, a and b. Predictions are measured on {STRINGS // 4} held-out strings. AdamW as in the released code, "
        "without its schedule.",
        text=(7,),
    )
