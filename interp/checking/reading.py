"""What the models of a grammar read before they answer, and which strings are alike up to there."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checking.subject import IGNORE, Ints, Subject
from interp.checking.suite import must

Floats = NDArray[np.float64]
CLOSE = 1e-6  # by which probabilities may differ that were summed in another order


def reads_on(subject: Subject, grammar: Any) -> bool:
    """Whether a preset of this grammar, or of one that it extends, reads in both directions: a law has to be the
    floor of its loss too, so that it is given the whole string."""
    return "bidirectional" in _directions(subject, grammar)


def reads_back(subject: Subject, grammar: Any) -> bool:
    """Whether a preset of this grammar, or of one that it extends, reads only what is behind."""
    return "causal" in _directions(subject, grammar)


def _directions(subject: Subject, grammar: Any) -> set[str]:
    recipes = subject.recipes.values()
    return {recipe.config.direction for recipe in recipes if isinstance(grammar, type(recipe.grammar))}


def at_of(row: Ints, at: int, whole: bool) -> str:
    """What is read at a position, in words."""
    return f"at {at} of {row.tolist()}" if whole else f"after {row[: at + 1].tolist()}"


def alike(tokens: Ints, whole: bool, to_the_end: bool = False) -> Iterator[tuple[int, Ints]]:
    """(position, number of each string [string]): strings of one number cannot be told apart by who reads there.

    Ends where no two strings are alike any more, unless it goes `to_the_end`.
    """
    if whole:
        numbers = np.unique(tokens, axis=0, return_inverse=True)[1].reshape(-1)
        yield from ((at, numbers) for at in range(tokens.shape[1]))
        return
    numbers = np.zeros(len(tokens), dtype=np.int64)
    for at, column in enumerate(tokens.T):
        numbers = np.unique(numbers * (int(tokens.max()) + 1) + column, return_inverse=True)[1].reshape(-1)
        yield at, numbers
        if not to_the_end and numbers.max() + 1 == len(tokens):
            return


def check_predictor(nll: Floats, labels: Ints, tokens: Ints, whole: bool, said: str) -> None:
    """`nll` [string, pos] is the surprise of somebody who predicts: it follows from what is read and the label, and
    the probabilities of all labels that are met after the same sum to 1 at most."""
    size = int(labels.max()) + 1
    for at, numbers in alike(tokens, whole):
        asked = np.flatnonzero(labels[:, at] != IGNORE)
        if not len(asked):
            continue
        cells, first, back = np.unique(
            numbers[asked] * size + labels[asked, at], return_index=True, return_inverse=True
        )
        each = nll[asked, at]
        off = np.abs(each - each[first][back.reshape(-1)])
        worst = int(off.argmax())
        must(
            off[worst] <= CLOSE,
            f"{said} of label {labels[asked[worst], at]} {at_of(tokens[asked[worst]], at, whole)} has two "
            "values: it reads what comes later",
        )
        sums = np.bincount(cells // size, np.exp(-each[first]))
        most = int(sums.argmax())
        row = asked[first[np.flatnonzero(cells // size == most)[0]]]
        must(
            sums[most] <= 1 + CLOSE,
            f"{said} gives the labels that are met {at_of(tokens[row], at, whole)} probabilities that sum to "
            f"{sums[most]:.6g}, more than 1",
        )
