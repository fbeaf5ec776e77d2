"""Checks of questions: what a model may use a head for, asked on pairs of strings."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from interp.checking.claims import own
from interp.checking.law import exactness
from interp.checking.reading import reads_back, reads_on
from interp.checking.subject import IGNORE, Bools, Ints, Subject, check_ids, check_mask, name_of
from interp.checking.suite import must
from interp.claims import Items
from interp.claims.types import kinds_of
from interp.errors import InterpError, quoted
from interp.recipe import num_labels

Decided = Callable[[Ints, Ints], Bools]  # (strings [item, pos], position [item]) -> [item]


def check_questions(subject: Subject) -> None:
    """Items are minimal pairs, one per input, read where asked: a donor differs by what is flipped and its effects,
    and where a label is certain, from one to the other of them."""
    claims = own(subject)
    known = {question.name for question in claims.questions}
    for grammar, tokens in subject.asked():
        usual = claims.question(grammar)
        if usual is None:
            continue
        must(
            usual in known,
            f"models of {name_of(grammar)} are asked {quoted(usual)}, which is not a question of the world",
        )
        decided = decided_in(subject, grammar, tokens)
        for question in claims.questions:
            for kind in kinds_of(question) or (None,):
                said = f"question {quoted(question.name)}" + ("" if kind is None else f", kind {quoted(kind)}")
                if kind is not None:
                    takes = "kind" in inspect.signature(question.items).parameters
                    must(takes, f"{said}: items() takes no kind=")
                how = {} if kind is None else {"kind": kind}

                def ask(
                    rows: Bools, seed: int, question: Any = question, how: Any = how, grammar: Any = grammar
                ) -> Items:
                    found: Items = question.items(tokens, grammar, rows, seed, **how)  # noqa: B023 - called at once
                    return found

                _check_question(ask, grammar, tokens, f"{said} of {name_of(grammar)}", decided)


def _check_question(
    ask: Callable[[Bools, int], Items], grammar: Any, tokens: Ints, said: str, decided: Decided
) -> None:
    pad = getattr(grammar, "pad", None)
    every = np.ones(tokens.shape, dtype=bool) if pad is None else tokens != pad
    some = every & (np.arange(tokens.shape[1]) % 2 == np.arange(len(tokens))[:, None] % 2)
    items = ask(every, 0)
    must(len(items), f"{said}: no item on any of {len(tokens)} inputs")
    _check_items(items, grammar, tokens, every, said, decided)
    _check_items(ask(some, 0), grammar, tokens, some, f"{said}, asked at some rows only", decided)
    again, other = ask(every, 0), ask(every, 1)
    for field in fields(items):
        one, two = getattr(items, field.name), getattr(again, field.name)
        must(np.array_equal(one, two), f"{said}: the same seed, asked again, gives another {quoted(field.name)}")
    _check_items(other, grammar, tokens, every, f"{said}, seed 1", decided)
    must(np.array_equal(items.sequence, other.sequence), f"{said}: another seed asks other inputs")
    alike = items.read == other.read
    if items.flipped is not None and other.flipped is not None:
        alike &= items.flipped == other.flipped
    changed = alike & (items.answer != other.answer)
    must(not changed.any(), f"{said}: another seed changes the right answer of the same place")


def _check_items(items: Items, grammar: Any, tokens: Ints, rows: Bools, said: str, decided: Decided) -> None:
    count, n = len(items), tokens.shape[1]
    check_ids(items.sequence, (count,), len(tokens), f"{said}: sequence numbers")
    check_ids(items.read, (count,), n, f"{said}: read positions")
    must(len(np.unique(items.sequence)) == count, f"{said}: an input has two items, and one is the most")
    for name in ("tokens", "donors"):
        check_ids(getattr(items, name), (count, n), grammar.vocab_size, f"{said}: {name}")
    must(np.array_equal(items.tokens, tokens[items.sequence]), f"{said}: tokens are not those of the input")
    must(rows[items.sequence, items.read].all(), f"{said}: read is a row that was not asked")
    for name in ("answer", "foil"):
        check_ids(getattr(items, name), (count,), num_labels(grammar), f"{said}: {name}s")
    must((items.answer != items.foil).all(), f"{said}: answer and foil are the same, {items.answer[:1]}")
    if items.seen is not None:
        check_mask(items.seen, (count, n), f"{said}: seen")
    if items.flipped is None:
        must((items.tokens != items.donors).any(1).all(), f"{said}: a donor is the input itself")
    else:
        _check_pairs(items, grammar, said)
    if hasattr(grammar, "labels") and count:
        _check_answers(items, grammar, said, decided)


def _check_answers(items: Items, grammar: Any, said: str, decided: Decided) -> None:
    """Where what is read decides the label, that is the answer, and the donor's the foil; elsewhere where it moves."""
    label, donor = (labels_at(grammar, text, items.read) for text in (items.tokens, items.donors))
    moved = label != donor
    right = (label == items.answer) & (donor == items.foil)
    must(right[moved].all(), f"{said}: the label at read changes within a pair, and not from answer to foil")
    known = decided(items.tokens, items.read) & (label != IGNORE)
    for i in np.flatnonzero(known & (label != items.answer))[:1]:
        must(
            False,
            f"{said}: the answer is {items.answer[i]}, and the label at read is {label[i]} for certain: "
            f"{items.tokens[i].tolist()} at {items.read[i]}",
        )
    if items.flipped is None:
        return
    known &= decided(items.donors, items.read) & (donor != IGNORE)
    for i in np.flatnonzero(known & ~moved)[:1]:
        must(
            False,
            f"{said}: the label at read stays {label[i]} within a pair, and a donor has to change it: "
            f"{items.tokens[i].tolist()} and {items.donors[i].tolist()} at {items.read[i]}",
        )


def labels_at(grammar: Any, tokens: Ints, read: Ints) -> Ints:
    """The label of each string at its own position [item]."""
    return np.asarray(grammar.labels(tokens))[np.arange(len(tokens)), read]


def decided_in(subject: Subject, grammar: Any, tokens: Ints) -> Decided:
    """What tells of (strings, position of each) whether what is read there leaves one label only.

    It does where the law says so; without a law, where models read the whole string, or where all strings that begin
    alike are labelled alike (`labels` of each beginning gives the label that it has in the string).
    """
    if not reads_back(subject, grammar) and reads_on(subject, grammar):
        return lambda texts, read: np.ones(len(texts), dtype=bool)
    if hasattr(grammar, "law_nll"):
        return lambda texts, read: _certain(grammar, texts, read)
    always = hasattr(grammar, "labels") and _follows(grammar, tokens)
    return lambda texts, read: np.full(len(texts), always)


def _certain(grammar: Any, texts: Ints, read: Ints) -> Bools:
    """Where the law leaves one label; nowhere in strings that it refuses, since it has none."""
    try:
        with np.errstate(all="ignore"):
            law = np.asarray(grammar.law_nll(texts))
            return law[np.arange(len(texts)), read] <= exactness(law)
    except InterpError:
        return np.zeros(len(texts), dtype=bool)


def _follows(grammar: Any, tokens: Ints) -> bool:
    labels = np.asarray(grammar.labels(tokens))
    for at in range(tokens.shape[1]):
        asked = labels[:, at] != IGNORE
        try:
            alone = np.asarray(grammar.labels(tokens[asked, : at + 1]))[:, -1:]
        except Exception:  # a part of a string may be no string
            return False
        if not np.array_equal(alone[:, 0], labels[asked, at]):
            return False
    return True


def _check_pairs(items: Items, grammar: Any, said: str) -> None:
    """Donors differ where `flipped` says, and where the grammar's own counterfactual of it differs: nowhere else."""
    assert items.flipped is not None
    count, n = items.tokens.shape
    check_ids(items.flipped, (count,), n, f"{said}: flipped positions")
    differs = items.tokens != items.donors
    at = np.arange(n) == items.flipped[:, None]
    must(differs[at].all(), f"{said}: a donor has the same token at flipped")
    must(items.upto[at].all(), f"{said}: what is flipped lies where read does not look")
    right = at
    if hasattr(grammar, "counterfactual") and count:
        right = np.asarray(grammar.counterfactual(items.tokens, items.flipped)) != items.tokens
    more = np.argwhere(differs & ~right)
    must(
        not len(more),
        f"{said}: a donor differs beyond flipped and what goes with it: {more[:1].tolist()} [item, position]",
    )
    less = np.argwhere(right & ~differs)
    must(not len(less), f"{said}: a donor lacks what goes with flipped: {less[:1].tolist()} [item, position]")
    if hasattr(grammar, "labels") and count:
        _check_needed(items, grammar, differs & ~at & items.upto, said)


def _check_needed(items: Items, grammar: Any, more: Bools, said: str) -> None:
    """What changes with the flipped token before `read` has to: the flip alone makes no string, or changes no label."""
    assert items.flipped is not None
    for i in np.flatnonzero(more.any(1)):
        alone = items.tokens[i].copy()
        alone[items.flipped[i]] = items.donors[i, items.flipped[i]]
        if not _is_string(grammar, alone):
            continue
        before, after = (
            int(labels_at(grammar, row[None], items.read[i : i + 1])[0]) for row in (items.tokens[i], alone)
        )
        must(
            before == after or after != items.foil[i],
            f"{said}: a donor differs from {items.tokens[i].tolist()} at {np.flatnonzero(more[i]).tolist()}, too, and "
            f"flipping {items.flipped[i]} alone moves the label to the foil (if that is not a string, let labels() "
            "refuse it with a GrammarError, or enumerate() leave it out)",
        )


def _is_string(grammar: Any, row: Ints) -> bool:
    if hasattr(grammar, "enumerate"):
        listed = np.asarray(grammar.enumerate()[0])
        return listed.shape[1:] == row.shape and bool((listed == row).all(1).any())
    try:
        grammar.labels(row[None])
    except InterpError:
        return False
    return True
