"""Tables of `dyck-balance`: the three trainings stand beside one another in all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from case_studies.corrections import ALPHA, Comparison
from case_studies.dyck_balance.comparisons import (
    BETWEEN,
    MEASURES,
    VIOLATIONS,
    WITHIN,
    change_name,
    correlation_name,
    within_over_cells,
)
from case_studies.dyck_balance.measure import (
    DATA,
    RULES,
    SHOWN,
    TRAININGS,
    WEIGHT,
    Arm,
    Findings,
    further,
    pair_name,
)
from case_studies.dyck_balance.sentences import KINDS, in_numbers, relation
from case_studies.page import Table
from case_studies.words import Cell
from interp.numbers import number
from interp.stats import POSITIVE, SHARE, mean_over_seeds

Found = Mapping[str, Comparison]
FIGURES = {"complete": "Fig. 3", "prefix": "Fig. 10"}
NAMES = {"beta": "β", "beta_released": "β, released code's definition", **RULES}
TESTS = (
    f"Primary comparisons have a p-value of their own; the others are corrected together (Holm). Decided at {ALPHA}. "
    "Where no difference was found, two one-sided tests ask whether the number lies within the bound that was named "
    "before the run."
)


def paper_table(found: Found) -> Table:
    """What the paper says in words, the primary comparisons, and the same in the other two trainings."""
    rows = []
    for data, said in (("complete", "negative"), ("prefix", "none")):
        pairs, figure = _pairs(data), FIGURES[data]
        inside = [found[correlation_name(f"standard, {pair}", SHOWN)] for pair in pairs]
        rows.append([f"standard, {KINDS[data]}: β against accuracy ({figure})", said, *_tested(inside)])
        for measure, claim in (("beta", "contrastive lowers β"), (SHOWN, "contrastive raises accuracy")):
            changes = [found[change_name(pair, measure)] for pair in pairs]
            rows.append([f"{claim} ({figure})", "yes", *_tested(changes)])
    return Table(
        ["statement", "paper", *TRAININGS.values()],
        rows,
        "The paper gives pictures without a coefficient. Primary are the numbers of the released code's training. "
        "Accuracy here: non-trivial closing brackets by the mass rule, positions 400-499. The weight of the "
        f"regulariser is not in the paper; ours is {WEIGHT}, as in its released configs. {TESTS}",
    )


def paired_table(found: Found) -> Table:
    """Contrastive minus standard, paired over seeds."""
    rows = [
        [f"{KINDS[data]}: {NAMES[measure]}", *_tested([found[change_name(pair, measure)] for pair in _pairs(data)])]
        for data in DATA
        for measure in MEASURES
    ]
    return Table(
        ["contrastive minus standard", *TRAININGS.values()],
        rows,
        f"Mean of paired differences over seeds. Accuracy at positions 400-499. {TESTS}",
    )


def correlation_table(found: Found) -> Table:
    """Rank correlation of balance violation with accuracy within each arm."""
    rows = []
    for data in DATA:
        for arm in ("standard", "contrastive"):
            for violation, rule in [("beta", rule) for rule in RULES] + [("beta_released", SHOWN)]:
                inside = [found[correlation_name(f"{arm}, {pair}", rule, violation)] for pair in _pairs(data)]
                rows.append([f"{arm}, {KINDS[data]}: {NAMES[violation]}; {RULES[rule]}", *_tested(inside)])
    return Table(
        ["rank correlation within an arm", *TRAININGS.values()],
        rows,
        "Spearman's rank correlation of balance violation and accuracy at positions 400-499 (intervals: Bonett and "
        f"Wright); 0 if unrelated. {TESTS}",
    )


def further_parts(f: Findings, data: str) -> list[str | Table]:
    """Fig. 3 (of prefixes: Fig. 10) once more, of the further seeds, by every rule; nothing where there are none."""
    arms = [a for a in f.further if a.family.name in {further(training, data).name for training in TRAININGS}]
    if not arms:
        return []
    inside = {rule: [f.compared[correlation_name(a.family.name, rule)] for a in arms] for rule in RULES}
    training, later = next(pair for pair in zip(TRAININGS.values(), inside[SHOWN], strict=True) if pair[1].primary)
    least = min(len(a.beta) for a in arms)
    figure, way = FIGURES[data], training if training.startswith("loss") else f"{training}'s training"
    said = (
        f"{figure} again, over {least} further seeds per training that are in no other arm: by the mass rule, with the "
        f"{way}, the rank correlation is {relation(later)} ({in_numbers(later)}). That comparison was named when the "
        "first seeds had left it undecided, before these were trained, and is decided by them alone; it is a second "
        "look at the same statement. By the other rules it may differ:"
    )
    rows = [[f"standard, {KINDS[data]}: {NAMES['beta']}; {RULES[r]}", *_tested(found)] for r, found in inside.items()]
    head = ["rank correlation, further seeds", *TRAININGS.values()]
    return [said, Table(head, rows, f"As below, of other seeds. {TESTS}")]


def arm_table(f: Findings) -> Table:
    """Each arm by itself."""
    rows = []
    for data in DATA:
        for i, arm in enumerate(("standard", "contrastive")):
            beside = [f.pairs[pair_name(training, data)][i] for training in TRAININGS]
            name = f"{arm}, {KINDS[data]}"
            rows += [[f"{name}: {NAMES[measure]}", *(_mean(a, measure) for a in beside)] for measure in MEASURES]
            worst = [number(a.worst_in_distribution) for a in beside]
            rows.append([f"{name}: worst seed and rule in distribution", *worst])
    return Table(
        ["arm", *TRAININGS.values()],
        rows,
        "Means over seeds; accuracy at positions 400-499. The last row of each arm is the lowest of three rules on "
        "strings of the training law.",
    )


def grid_table(spread: Sequence[Arm], found: Found) -> Table:
    """Between and within the cells of the grid, by every rule."""
    beta = np.array([a.beta for a in spread])
    rows = []
    for rule, name in RULES.items():
        between, within = (found[correlation_name(where, rule)] for where in (BETWEEN, WITHIN))
        free = within_over_cells(beta, np.array([a.accuracy[rule] for a in spread]))
        rows.append([name, *_tested([between, within]), Cell(free, 3)])
    head = ["accuracy", "between cells", "within cells, over seeds", "within cells, over cells"]
    return Table(
        head,
        rows,
        "Between: of the cells' means. Within: mean over cells of the rank correlation in a cell; cells in which one "
        f"of the two does not vary are left out. {TESTS}",
    )


def settings_table(every: Sequence[Arm]) -> Table:
    """What was trained, how long."""
    names = ("steps", "batch", "lr", "schedule", "hold", "data", "max_length", "targets", "corpus", "contrastive",
             "contrast")  # fmt: skip
    rows = []
    for a in every:
        settings = a.family.recipe.settings
        rows.append([a.family.name, a.family.preset, str(len(a.beta)), *(str(getattr(settings, n)) for n in names)])
    return Table(["arm", "preset", "seeds", *names], rows, "Batch counts strings per seed and step.")


def _pairs(data: str) -> list[str]:
    return [pair_name(training, data) for training in TRAININGS]


def _tested(compared: Sequence[Comparison]) -> list[Cell | str]:
    """Each comparison, its tests beneath."""
    return [Cell(c.estimate, 3, beneath=c.tests) for c in compared]


def _mean(a: Arm, measure: str) -> Cell:
    if measure in VIOLATIONS:
        return Cell(mean_over_seeds(getattr(a, measure), support=POSITIVE), 3)
    return Cell(mean_over_seeds(a.accuracy[measure], support=SHARE), 3)
