"""What to ask a model of whom nobody knows whether it learnt a world that writes no `vouch` of its own.

The labels, where the exact law leaves no doubt of them: whoever does the world's task tells these, and a world's law
may be so noisy elsewhere that even who knows it is seldom right.
"""

from typing import Any

import numpy as np

from interp.rng import generator
from interp.training.layout import IGNORE
from interp.world import Exam, Ints

SAMPLE = 400  # strings from which it is known which labels occur
MOST = 20  # times as many, where few hold a label that follows
SURE = 1e-6  # nats: what a law may leave where nothing is left to chance, by rounding


def label_exam(grammar: Any) -> Exam | None:
    """The labels that follow from what is read, or None where the law is not known, or none follows, or one alone."""
    if not all(hasattr(grammar, part) for part in ("draw", "labels", "law_nll")):
        return None

    def certain(tokens: Ints) -> tuple[Any, Ints]:
        labels = np.asarray(grammar.labels(tokens))
        asked = labels != IGNORE
        return asked & (np.where(asked, grammar.law_nll(tokens), np.inf) <= SURE), np.where(asked, labels, 0)

    def questions(tokens: Ints) -> tuple[Any, Ints, Ints]:
        asked, right = certain(tokens)
        return asked, right, np.union1d(candidates, right[asked])  # a rare label may be asked for, too

    def draw(count: int, length: int, seed: int) -> Ints:
        """Strings with a question, as far as there are some; their length is the grammar's."""
        rng = generator(seed, "task-check")
        rows = np.asarray(grammar.draw(rng, max(count, SAMPLE)))
        for _ in range(MOST):
            held = certain(rows)[0].any(1)
            if held.sum() >= count:
                break
            rows = np.concatenate([rows[held], np.asarray(grammar.draw(rng, SAMPLE))])
        return rows[np.argsort(~certain(rows)[0].any(1), kind="stable")[:count]]

    asked, right = certain(draw(SAMPLE, 0, 0))
    candidates = np.unique(right[asked])
    if len(candidates) < 2:
        return None
    return Exam(
        task="tells the labels that follow from what is read",
        chance=1 / len(candidates),
        where="",
        token_tells=False,
        questions=questions,
        also_legal=lambda best, tokens: np.zeros(best.shape, dtype=bool),  # where a label follows, no other does
        draw=draw,
        kin=lambda other: False,
    )
