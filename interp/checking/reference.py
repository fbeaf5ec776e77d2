"""Truth against a literal implementation, where the world names one (`interp.world.Reference`)."""

from typing import Any

import numpy as np

from interp.checking.claims import own, sights
from interp.checking.law import exactness
from interp.checking.subject import IGNORE, INPUTS, Ints, Subject, name_of
from interp.checking.suite import must
from interp.claims.register import has_keys
from interp.errors import quoted
from interp.rng import generator
from interp.world import Reference


def check_reference(subject: Subject) -> None:
    """Labels, law, keys and overlays are, string by string, what the world's literal implementation says."""
    reference: Any = subject.world.load("reference")
    must(isinstance(reference, Reference), f"reference is {quoted(reference)}, no Reference")
    relations = {relation.name: relation for relation in own(subject).relations}
    for part, known in (("keys", relations), ("overlays", subject.world.overlays)):
        strange = sorted(set(getattr(reference, part)) - set(known))
        must(not strange, f"{part} of the reference names {quoted(strange[:1])}, and the world has no such thing")
    for grammar in subject.labelled:
        tokens = np.asarray(grammar.draw(generator(0, "check/reference"), INPUTS))
        _check_labels(reference, grammar, tokens)
    for grammar, tokens in subject.asked():
        sets = [tokens] if reference.strings is None else [tokens, np.asarray(reference.strings(grammar))]
        for strings in sets:
            for name in reference.keys:
                if has_keys(relations[name], grammar):
                    _check_keys(reference, relations[name], grammar, strings)
            for name, overlay in subject.world.overlays.items():
                if name in reference.overlays:
                    _check_overlay(reference, name, overlay, grammar, strings)


def _rows(grammar: Any, tokens: Ints) -> list[list[int]]:
    pad = getattr(grammar, "pad", None)
    return [[int(token) for token in row if token != pad] for row in tokens]


def _check_labels(reference: Reference, grammar: Any, tokens: Ints) -> None:
    labels = np.asarray(grammar.labels(tokens))
    law = np.asarray(grammar.law_nll(tokens)) if reference.law is not None and hasattr(grammar, "law_nll") else None
    for i, row in enumerate(_rows(grammar, tokens)):
        if reference.labels is not None:
            right = [IGNORE if label is None else label for label in reference.labels(row, grammar)]
            _compare(labels[i, : len(row)].tolist(), right, row, f"labels of {name_of(grammar)}")
        if reference.law is not None and law is not None:
            given = law[i, : len(row)].tolist()
            asked = [at for at in range(len(row)) if labels[i, at] != IGNORE]
            nats = list(reference.law(row, grammar))
            must(len(nats) == len(row), f"the reference's law has {len(nats)} entries for {row}")
            for at in asked:
                must(
                    abs(given[at] - nats[at]) <= exactness(law) * max(nats[at], 1),
                    f"law_nll of {name_of(grammar)} is {given[at]:.9g} at {at} of {row}, and the reference says "
                    f"{nats[at]:.9g}",
                )


def _check_keys(reference: Reference, relation: Any, grammar: Any, tokens: Ints) -> None:
    said = f"relation {quoted(relation.name)} of {name_of(grammar)}"
    rows = _rows(grammar, tokens)
    every = [[set(keys) for keys in reference.keys[relation.name](row, grammar)] for row in rows]
    for name, visible in sights(grammar, tokens):
        found = relation.keys(tokens, grammar, visible)
        for i, row in enumerate(rows):
            n = len(row)
            given = [np.flatnonzero(keys).tolist() for keys in found[i, :n, :n]]
            right = [sorted(keys & set(np.flatnonzero(visible[i, q]))) for q, keys in enumerate(every[i])]
            _compare(given, right, row, f"keys ({name}) of {said}")


def _check_overlay(reference: Reference, name: str, overlay: Any, grammar: Any, tokens: Ints) -> None:
    for row in _rows(grammar, tokens):
        given = np.asarray(overlay.of(np.array(row), grammar)).tolist()
        _compare(
            given, list(reference.overlays[name](row, grammar)), row, f"overlay {quoted(name)} of {name_of(grammar)}"
        )


def _compare(given: list[Any], right: list[Any], row: list[int], said: str) -> None:
    must(len(right) == len(row), f"{said}: the reference has {len(right)} entries for {row}")
    for at in range(len(row)):
        must(given[at] == right[at], f"{said}: {given[at]} at {at} of {row}, and the reference says {right[at]}")
