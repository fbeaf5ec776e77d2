"""What the numbers of `dyck-balance` allow one to say. No sentence is there in advance: each follows a finding."""

from collections.abc import Mapping, Sequence

from case_studies.corrections import Comparison, p_text
from case_studies.dyck_balance.comparisons import ACCURACY, BETWEEN, WITHIN, change_name, correlation_name
from case_studies.dyck_balance.measure import DATA, RULES, SHOWN, TRAININGS, pair_name
from interp.numbers import estimate

Found = Mapping[str, Comparison]
KINDS = {"complete": "complete strings", "prefix": "prefixes"}
BY_ARGMAX = {
    "below": "falls",
    "above": "rises",
    "equivalent": f"stays as it was to within {ACCURACY}",
    "inconclusive": "is not decided",
    "untested": "is not tested",
}


def effect(c: Comparison, what: str) -> str:
    """What the regulariser does to `what`, as a verb and its object."""
    return {
        "below": f"lowers {what}",
        "above": f"raises {what}",
        "equivalent": f"leaves {what} as it was to within {c.bound}",
        "inconclusive": f"has no decided effect on {what}",
        "untested": f"has an effect on {what} that so few seeds cannot test",
    }[c.finding]


def relation(c: Comparison) -> str:
    """What a correlation is, after "the rank correlation is"."""
    return {
        "below": "negative",
        "above": "positive",
        "equivalent": f"none to within {c.bound}",
        "inconclusive": "not decided",
        "untested": "not tested",
    }[c.finding]


def in_numbers(c: Comparison, digits: int = 3) -> str:
    """Value, interval, n and, where there are any, p-values."""
    text = estimate(c.estimate, digits, n=True)
    return text if c.finding == "untested" else f"{text}, {c.tests}"


def answers(found: Found) -> list[str]:
    """Three sentences: the primary comparisons on either kind of data, and argmax accuracy by training."""
    return [*(primary_sentence(found, data) for data in DATA), argmax_sentence(found)]


def primary_sentence(found: Found, data: str) -> str:
    """The three primary comparisons on one kind of data."""
    pair = pair_name("released", data)
    inside = found[correlation_name(f"standard, {pair}", SHOWN)]
    beta, accuracy = found[change_name(pair, "beta")], found[change_name(pair, SHOWN)]
    return (
        f"Trained on {KINDS[data]} as the released code does, the rank correlation of balance violation and accuracy "
        f"on non-trivial closers at length 400-500 within the standard arm is {relation(inside)} "
        f"({in_numbers(inside)}); the regulariser {effect(beta, 'balance violation')} (change {in_numbers(beta)}) and "
        f"{effect(accuracy, 'that accuracy')} (change {in_numbers(accuracy)})."
    )


def argmax_sentence(found: Found, trainings: Sequence[str] = tuple(TRAININGS)) -> str:
    """What the regulariser does to argmax accuracy, said of each training and kind of data by its own numbers."""
    by_finding: dict[str, list[str]] = {finding: [] for finding in BY_ARGMAX}
    for training in trainings:
        for data in DATA:
            c = found[change_name(pair_name(training, data), "long_argmax")]
            decided = c.adjusted_equivalent if c.finding == "equivalent" else c.adjusted
            text = f"{TRAININGS[training]}, {KINDS[data]}: {estimate(c.estimate, 3, n=True)}"
            by_finding[c.finding].append(text if decided is None else f"{text}, Holm {p_text(decided)}")
    clauses = (f"{BY_ARGMAX[finding]} ({'; '.join(said)})" for finding, said in by_finding.items() if said)
    return "With the regulariser accuracy by argmax over all tokens " + ", ".join(clauses) + "."


def grid_sentences(found: Found, cells: int) -> list[str]:
    """What the grid says between and within its cells, and which is which."""
    between, within = (found[correlation_name(where, SHOWN)] for where in (BETWEEN, WITHIN))
    return [
        f"Between cells: over the {cells} cells of the grid, mean β and mean accuracy ({RULES[SHOWN]}) have a rank "
        f"correlation that is {relation(between)} ({in_numbers(between)}). Cells differ in how long they trained and "
        "in the weight of the regulariser, which move both: that says nothing of models that are trained alike, and "
        "the interval takes the settings as if they had been drawn.",
        "Within cells: the mean over cells of the correlation among models that are trained alike is "
        f"{relation(within)} ({in_numbers(within)}). A seed has the same initial weights in every cell, so that this "
        "interval is over seeds, each left out of all cells at once; that over cells, beside it in the table, is right "
        "only if cells share nothing.",
    ]
