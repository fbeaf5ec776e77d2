"""What is drawn: one law in large samples and in batches, and the law that a world states where it lists no strings."""

from typing import Any

import numpy as np

from interp.checking.reading import Floats, alike, at_of, check_predictor
from interp.checking.subject import IGNORE, Ints, Subject, name_of
from interp.checking.suite import must
from interp.recipe import num_labels
from interp.rng import generator
from interp.training.task import FINAL_STRINGS

DRAWS, CELLS = 20_000, 2_000_000  # strings that are drawn to see a law in them, and tokens of all, at most
OFTEN = 50  # strings that begin alike, so that the law of what follows is seen
FEWEST = 5  # expected draws of what is counted by itself; rarer things are counted together
LEAST_P = 1e-6  # of a G-test, divided by how many there are; seeds are fixed, so that a world passes always or never
BATCH = 32  # where no preset says in how many strings a training draws


def check_drawn_law(grammar: Any, whole: bool) -> None:
    """Labels are as frequent as `law_nll` says, wherever strings begin alike often enough to see it."""
    rng = generator(0, "check/draws")
    first = np.asarray(grammar.draw(rng, FINAL_STRINGS))
    count = min(DRAWS, CELLS // max(1, first.shape[1])) - FINAL_STRINGS
    tokens = np.concatenate([first, grammar.draw(rng, count)]) if count > 0 else first
    labels, law = np.asarray(grammar.labels(tokens)), np.asarray(grammar.law_nll(tokens), dtype=float)
    must(law.shape == tokens.shape, f"{name_of(grammar)}: law_nll has shape {list(law.shape)}, not that of the tokens")
    check_predictor(law, labels, tokens, whole, f"law_nll of {name_of(grammar)}")
    size = num_labels(grammar)
    for at, numbers in alike(tokens, whole):
        asked = np.flatnonzero(labels[:, at] != IGNORE)
        _check_frequencies(grammar, tokens, labels, law, asked, numbers[asked], at, size, whole)


def _check_frequencies(
    grammar: Any, tokens: Ints, labels: Ints, law: Floats, asked: Ints, numbers: Ints, at: int, size: int, whole: bool
) -> None:
    often = np.bincount(numbers, minlength=1)[numbers] >= OFTEN
    asked, numbers = asked[often], numbers[often]
    if not len(asked):
        return
    total = np.bincount(numbers)
    cells, first, found = np.unique(numbers * size + labels[asked, at], return_index=True, return_counts=True)
    expected = total[cells // size] * np.exp(-law[asked[first], at])
    kept = expected >= FEWEST
    rest = max(0.0, float(len(asked) - expected[kept].sum()))  # rare labels, and those that were not met
    p = g_test(np.append(found[kept], found[~kept].sum()), np.append(expected[kept], rest), int(kept.sum()))
    if p <= LEAST_P / tokens.shape[1]:
        worst = int(np.abs((found - expected) / np.sqrt(np.maximum(expected, 1))).argmax())
        row = asked[first[worst]]
        must(
            False,
            f"{name_of(grammar)}: law_nll expects label {labels[row, at]} {at_of(tokens[row], at, whole)} in "
            f"{expected[worst]:.4g} of {total[cells[worst] // size]} strings drawn, and {found[worst]} have it "
            f"(p = {p:.2g})",
        )


def g_test(found: Any, expected: Any, freedom: int) -> float:
    """p of the G-test, of as many degrees of freedom (more are more lenient)."""
    from scipy.stats import chi2

    some = found > 0
    g = 2 * float((found[some] * np.log(found[some] / np.maximum(expected[some], 1e-300))).sum())
    return float(chi2.sf(g, max(1, freedom)))


def check_draws(subject: Subject) -> None:
    """What models are trained on has the frequencies of what they are measured on."""
    for grammar in subject.labelled:
        sizes = {r.settings.batch for r in subject.recipes.values() if isinstance(grammar, type(r.grammar))} or {BATCH}
        measured = np.asarray(grammar.draw(generator(0, "held-out"), FINAL_STRINGS))
        for batch in sizes:
            steps = range(-(-FINAL_STRINGS // batch))
            parts = [np.asarray(grammar.draw(generator(0, "train", step), batch)) for step in steps]
            if {part.shape[1:] for part in parts} == {measured.shape[1:]}:
                _check_alike(grammar, measured, np.concatenate(parts), batch)


def _check_alike(grammar: Any, one: Ints, two: Ints, batch: int) -> None:
    labels, size = [np.asarray(grammar.labels(tokens)) for tokens in (one, two)], grammar.vocab_size
    last = one.shape[1] - 1
    for at in range(one.shape[1]):
        looked = [("tokens", one[:, at], two[:, at]), ("labels", labels[0][:, at], labels[1][:, at])]
        if at < last:
            pairs = [tokens[:, at] * size + tokens[:, at + 1] for tokens in (one, two)]
            looked.append(("pairs of neighbours", pairs[0], pairs[1]))
        for what, a, b in looked:
            p = _two_samples(a, b)
            must(
                p > LEAST_P / (3 * one.shape[1]),
                f"{name_of(grammar)}: {what} at position {at} have other frequencies in {len(one)} strings drawn at "
                f"once, on which models are measured, than in batches of {batch}, on which they are trained "
                f"(p = {p:.2g})",
            )


def _two_samples(one: Ints, two: Ints) -> float:
    _, back = np.unique(np.concatenate([one, two]), return_inverse=True)
    back = back.reshape(-1)
    counts = np.stack([np.bincount(part, minlength=back.max() + 1) for part in (back[: len(one)], back[len(one) :])])
    share = np.array([[len(one)], [len(two)]]) / len(back)
    rare = (counts.sum(0) * share.min()) < FEWEST
    counts = np.append(counts[:, ~rare], counts[:, rare].sum(1, keepdims=True), axis=1)
    expected = counts.sum(0) * share
    return g_test(counts.ravel(), expected.ravel(), counts.shape[1] - 1)
