"""`dyck-balance`: does balance violation predict length generalisation, and does asking for balance help?

Wen et al. 2023, section 4.2, Figs. 3 and 10. Models with a minimal first layer (eq. 15) are trained with and
without the contrastive regulariser (eq. 18), on complete strings and on prefixes; each model gives beta (exact) and its
closing accuracy at positions 400-499. The two arms are compared pairwise (same seed: same initial weights, same
strings), and trained in three ways: as the released code does, as we do, and as we do with the loss on closers only.
The paper shows the two clouds in one picture, where a correlation mostly tells the arms apart: ours is the rank
correlation *within* an arm. A further arm spreads beta over a grid of weights and steps. Which comparisons are primary
was named before the run (`comparisons.py`); all others are corrected together.
"""

from dataclasses import dataclass

from case_studies.dyck_balance import DECLARED
from case_studies.dyck_balance.comparisons import comparisons
from case_studies.dyck_balance.measure import DATA, TRAININGS, Findings, families, further, grid, measure, pair_name
from case_studies.dyck_balance.report import report
from case_studies.dyck_balance.results import to_results
from case_studies.study import Plan, Run, Study, wanted


@dataclass(frozen=True)
class Size:
    """Seeds of each arm, of each cell of the grid, and further ones of the standard arms.

    `weights`, `lengths`: of the grid, of the regulariser and of training.
    """

    arms: int
    spread: int
    further: int
    weights: tuple[float, ...]
    lengths: tuple[int, ...]


QUICK = Size(6, 2, 0, (0.0, 1.0), (200, 400))
FULL = Size(40, 8, 120, (0.0, 0.03, 0.1, 1.0, 3.0), (200, 400, 1600))


FURTHER = [further(training, data) for data in DATA for training in TRAININGS]
PAIRS = {pair_name(training, data): families(training, data) for training in TRAININGS for data in DATA}


def populations(size: Size) -> Plan:
    """Two arms of every training on each kind of data, further seeds of the standard ones, and the grid."""
    pairs = {name: wanted(both, size.arms) for name, both in PAIRS.items()}
    return {
        **pairs,
        "further": wanted(FURTHER, size.further, first=size.arms),
        "spread": wanted(grid(size.weights, size.lengths), size.spread, most=size.spread),
    }


def collect(run: Run[Size]) -> Findings:
    """Everything measured on every arm."""
    pairs = {name: [measure(one) for one in run.obtain(name)] for name in PAIRS}
    spread = [measure(one) for one in run.obtain("spread")]
    again = [measure(one) for one in run.obtain("further")]
    return Findings(pairs, spread, run.seeds(DATA[0]), comparisons(pairs, spread, again), again)


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, populations)
run = STUDY.run
