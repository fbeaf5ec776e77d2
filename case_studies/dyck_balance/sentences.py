"""What the numbers of `dyck-balance` allow one to say. No sentence is there in advance: each follows a finding."""

from collections.abc import Callable, Mapping

from case_studies.corrections import Comparison
from case_studies.dyck_balance.comparisons import ACCURACY, BETWEEN, CORRELATION, WITHIN, change_name, correlation_name
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

RELATIONS = {
    "below": "negative",
    "above": "positive",
    "equivalent": f"none to within {CORRELATION}",
    "inconclusive": "not decided",
    "untested": "not tested",
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
    return RELATIONS[c.finding]


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
        f"on non-trivial closing brackets at length 400-500 within the standard arm is {relation(inside)} "
        f"({in_numbers(inside)}); the regulariser {effect(beta, 'balance violation')} (change {in_numbers(beta)}) and "
        f"{effect(accuracy, 'that accuracy')} (change {in_numbers(accuracy)})."
    )


def argmax_sentence(found: Found) -> str:
    """What the regulariser does to argmax accuracy, said of each training and kind of data by its own numbers."""
    said = _by_finding(found, lambda pair: change_name(pair, "long_argmax"), BY_ARGMAX)
    return f"With the regulariser accuracy by argmax over all tokens {said}."


def definition_sentence(found: Found) -> str:
    """What the correlation within the standard arm is when beta is computed as the released code does."""
    said = _by_finding(found, lambda pair: correlation_name(f"standard, {pair}", SHOWN, "beta_released"), RELATIONS)
    return (
        "With β as the released code computes it (largest pair over least stack), its rank correlation with accuracy "
        f"({RULES[SHOWN]}) within the standard arm is {said}."
    )


def _by_finding(found: Found, name_of: Callable[[str], str], words: Mapping[str, str]) -> str:
    """The same comparison in every training, gathered by what is found: "falls (...; ...), rises (...)"."""
    gathered: dict[str, list[str]] = {finding: [] for finding in words}
    for training, trained in TRAININGS.items():
        for data, kind in KINDS.items():
            c = found[name_of(pair_name(training, data))]
            gathered[c.finding].append(f"{trained}, {kind}: {estimate(c.estimate, 3, n=True)}")
    return ", ".join(f"{words[finding]} ({'; '.join(said)})" for finding, said in gathered.items() if said)


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
