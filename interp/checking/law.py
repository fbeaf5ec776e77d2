"""Checks of a world's law: what is drawn, how it is labelled, and how well the exact law and the rungs predict it."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checking.drawn import DRAWS, FEWEST, LEAST_P, check_drawn_law, g_test
from interp.checking.reading import CLOSE, alike, at_of, check_predictor, reads_on
from interp.checking.said import task_of
from interp.checking.subject import (
    IGNORE,
    Bools,
    Ints,
    Subject,
    check_ids,
    check_labels,
    check_mask,
    name_of,
    same,
)
from interp.checking.suite import must
from interp.errors import WorldError, quoted
from interp.recipe import num_labels
from interp.rng import generator
from interp.training.evaluation import plain_set

Floats = NDArray[np.float64]
EXACT = 1e-9
ROUNDINGS = 64  # of a law that is not in float64
SAMPLE = 4000  # strings on which rungs are compared
DRAWN_ONCE = 32  # strings after which two generators are compared
ERRORS = 4  # standard errors by which chance alone may lift a floor over a rung


def check_sampling(subject: Subject) -> None:
    """What a seed is trained on at a step is a function of seed and step alone."""
    for name, recipe in subject.recipes.items():
        said = f"preset {quoted(name)}"
        task = task_of(recipe)
        whole = task.draw(5, range(4))
        must(same(whole, task.draw(5, range(4))), f"{said}: the same seed and steps, drawn again, give other strings")
        other = task_of(recipe)
        parts = [other.draw(5, steps) for steps in (range(1, 4), range(1))]
        joined = [np.concatenate([first, rest]) for rest, first in zip(*parts, strict=True)]
        must(same(whole, joined), f"{said}: steps 0 and 1 to 3, drawn apart, differ from 0 to 3 drawn together")
        steady = all(np.array_equal(part, np.broadcast_to(part[:1], part.shape)) for part in whole)
        if not steady:  # an exact law gives every step the same
            must(not same(whole, other.draw(6, range(4))), f"{said}: seeds 5 and 6 draw the same strings")


def check_labels_of(subject: Subject) -> None:
    """Labels have the shape of the tokens, and are in range or -100; PAD has none; classes are masks."""
    if subject.world.presets and subject.world.task is None:
        for grammar in subject.grammars:
            for method in ("draw", "labels"):
                lacking = f"{name_of(grammar)} has no {method}(), and the world no task that would do without"
                must(hasattr(grammar, method), lacking)
    for grammar, tokens in subject.asked():
        if not hasattr(grammar, "labels"):
            continue
        said = f"labels of {name_of(grammar)}"
        labels = np.asarray(grammar.labels(tokens))
        check_labels(labels, tokens.shape, grammar, said)
        must((labels != IGNORE).any(), f"{said}: none of {len(tokens)} strings has any")
        alone = np.concatenate([grammar.labels(row[None]) for row in tokens])
        must(np.array_equal(labels, alone), f"{said} depend on the other strings of a batch")
        pad = getattr(grammar, "pad", None)
        if pad is not None:
            longer = np.pad(tokens, ((0, 0), (0, 2)), constant_values=pad)
            at_pad = np.asarray(grammar.labels(longer))[longer == pad]
            must((at_pad == IGNORE).all(), f"{said}: PAD has the label {at_pad[at_pad != IGNORE][:1]}, not -100")
        if hasattr(grammar, "classes"):
            for name, mask in grammar.classes(tokens).items():
                check_mask(mask, tokens.shape, f"class {quoted(name)} of {name_of(grammar)}")


def check_law(subject: Subject) -> None:
    """Probabilities sum to 1, strings are drawn as often as these say, and the exact law is what follows from them;
    where strings cannot be listed, it is what is drawn after beginnings that come back often enough."""
    for grammar in subject.labelled:
        if not hasattr(grammar, "enumerate") and hasattr(grammar, "law_nll"):
            check_drawn_law(grammar, reads_on(subject, grammar))
    for grammar in [one for one in subject.instances if hasattr(one, "enumerate")]:
        said = name_of(grammar)
        tokens, probs = (np.asarray(part) for part in grammar.enumerate())
        must(tokens.ndim == 2 and probs.shape == (len(tokens),), f"{said}: enumerate gives no [n, length] and [n]")
        check_ids(tokens, tokens.shape, grammar.vocab_size, f"{said}: enumerated tokens")
        must(len(np.unique(tokens, axis=0)) == len(tokens), f"{said}: enumerate lists a string twice")
        must((probs > 0).all(), f"{said}: enumerate lists a string of probability {probs.min():g}")
        must(abs(probs.sum() - 1) <= EXACT, f"{said}: enumerated probabilities sum to {probs.sum():.12g}, not to 1")
        _check_draws(grammar, tokens, probs)
        if hasattr(grammar, "law_nll"):
            _check_law(grammar, tokens, probs, reads_on(subject, grammar))


def _check_draws(grammar: Any, tokens: Ints, probs: Floats) -> None:
    drawn = np.asarray(grammar.draw(generator(0, "check/draws"), DRAWS))
    again = np.asarray(grammar.draw(generator(0, "check/draws"), DRAWS))
    must(np.array_equal(drawn, again), f"{name_of(grammar)}: one generator, begun twice, draws two samples")
    place = {row.tobytes(): i for i, row in enumerate(tokens.astype(np.int64))}
    found = np.zeros(len(tokens))
    for row, count in zip(*np.unique(drawn.astype(np.int64), axis=0, return_counts=True), strict=True):
        must(row.tobytes() in place, f"{name_of(grammar)}: draws {row.tolist()}, which enumerate does not list")
        found[place[row.tobytes()]] = count
    expected = probs * DRAWS
    rare = expected < FEWEST
    found, expected = (np.append(x[~rare], x[rare].sum()) for x in (found, expected))
    found, expected = (x[expected > 0] for x in (found, expected))
    p = g_test(found, expected, len(expected) - 1)
    must(
        p > LEAST_P,
        f"{name_of(grammar)}: {DRAWS} draws do not have the enumerated frequencies (p = {p:.2g})",
    )


def _check_law(grammar: Any, tokens: Ints, probs: Floats, whole: bool) -> None:
    """The surprise at each label, given the tokens up to it, or all of them where models read on."""
    labels, law = np.asarray(grammar.labels(tokens)), np.asarray(grammar.law_nll(tokens))
    must(law.shape == tokens.shape, f"{name_of(grammar)}: law_nll has shape {list(law.shape)}, not that of the tokens")
    size = num_labels(grammar)
    for at, numbers in alike(tokens, whole, to_the_end=True):
        labelled = np.flatnonzero(labels[:, at] != IGNORE)
        cells = numbers[labelled] * size + labels[labelled, at]
        every = np.bincount(numbers[labelled], probs[labelled])[numbers[labelled]]
        same_label = np.bincount(cells, probs[labelled])[cells]
        right = np.log(every / same_label)
        wrong = np.flatnonzero(~(np.abs(law[labelled, at] - right) <= exactness(law) * np.maximum(right, 1)))
        for i in wrong[:1]:
            row = labelled[i]
            raise WorldError(
                f"{name_of(grammar)}: law_nll of label {labels[row, at]} {at_of(tokens[row], at, whole)} is "
                f"{law[row, at]:.9g}, and the enumeration says {right[i]:.9g}"
            )


def exactness(law: Any) -> float:
    """How near to what is right a law must be, nats: as near as its numbers can be."""
    kind = np.asarray(law).dtype
    return max(EXACT, ROUNDINGS * float(np.finfo(kind).eps)) if kind.kind == "f" else EXACT


def check_rungs(subject: Subject) -> None:
    """No rung predicts the sample better than the exact law does; "uniform" is even over all labels."""
    for grammar in subject.labelled:
        data = plain_set(grammar, SAMPLE)
        whole = reads_on(subject, grammar)
        scored = data.targets != IGNORE
        weight = data.weight[:, None] * scored
        for name, nll in data.rungs.items():
            said = f"rung {quoted(name)} of {name_of(grammar)}"
            must(np.isfinite(nll[scored]).all(), f"{said} has no finite loss at every label")
            if name == "uniform":
                even = math.log(num_labels(grammar))
                off = float(np.abs(nll[scored] - even).max())
                must(off <= CLOSE, f"{said} differs by {off:.3g} from log {num_labels(grammar)}")
            if name not in data.latent:  # those know more than is read
                check_predictor(nll, data.targets, data.inputs, whole, said)
        if data.latent:
            _check_same_strings(grammar)
        if not np.isnan(data.law_nll).any():
            rungs = {name: nll for name, nll in data.rungs.items() if name not in data.latent}
            _check_floor(grammar, rungs, data.law_nll, scored, weight)
            for name in sorted(data.latent):
                _check_latent(name, grammar, data.rungs[name], data.law_nll, scored, weight)


def _check_same_strings(grammar: Any) -> None:
    """`latent_rungs` draws what `draw` draws: it leaves the generator where that leaves it."""
    one, two = (generator(0, "check/latents") for _ in range(2))
    grammar.draw(one, DRAWN_ONCE)
    grammar.latent_rungs(two, DRAWN_ONCE)
    must(
        one.random() == two.random(),
        f"{name_of(grammar)}: latent_rungs draws other numbers than draw from a generator of one state",
    )


def _check_latent(name: str, grammar: Any, nll: Floats, law: Floats, scored: Bools, weight: Floats) -> None:
    """Who knows what strings were drawn from loses to nobody who does not, and is surprised by the same strings."""
    strings = weight.max(1)
    told, read = (np.where(scored, one, 0.0).sum(1) for one in (nll, law))
    lead = read - told
    mean = float((lead * strings).sum() / strings.sum())
    # What was drawn together shares its mean over latents, so that each string counts as one.
    spread = math.sqrt(float((((lead - mean) * strings) ** 2).sum())) / float(strings.sum())
    must(
        mean >= -ERRORS * spread - EXACT,
        f"latent rung {quoted(name)} of {name_of(grammar)} knows more than is read, and loses {-mean:.4g} nats "
        "per string to the exact law",
    )
    a, b = (one - (one * strings).sum() / strings.sum() for one in (told, read))
    if min(np.abs(a).max(), np.abs(b).max()) <= EXACT:
        return  # one of them is surprised by all strings alike
    common = float((a * b * strings).sum())
    error = math.sqrt(float(((a * b * strings) ** 2).sum()))
    must(
        common >= ERRORS * error,
        f"latent rung {quoted(name)} of {name_of(grammar)} is not surprised by the strings that surprise the exact "
        "law: it is about other strings than those that draw gives",
    )


def _check_floor(grammar: Any, rungs: dict[str, Floats], law: Floats, scored: Bools, weight: Floats) -> None:
    strings = weight.max(1)  # how often each was drawn
    for name, nll in rungs.items():
        lead = np.where(scored, nll - law, 0.0).sum(1)  # of a string
        mean = float((lead * strings).sum() / strings.sum())
        spread = math.sqrt(float(((lead - mean) ** 2 * strings).sum()) / strings.sum() ** 2)
        must(
            mean >= -ERRORS * spread - EXACT,
            f"rung {quoted(name)} of {name_of(grammar)} beats the exact law by {-mean:.4g} nats per string",
        )
