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


def label_exam(grammar: Any) -> Exam | None:
    """The labels that follow from what is read, or None where the law is not known, or none follows, or one alone."""
    if not all(hasattr(grammar, part) for part in ("draw", "labels", "law_nll")):
        return None

    def certain(tokens: Ints) -> tuple[Any, Ints]:
        labels = np.asarray(grammar.labels(tokens))
        asked = labels != IGNORE
        return asked & (np.where(asked, grammar.law_nll(tokens), np.inf) <= 0), np.where(asked, labels, 0)

    def questions(tokens: Ints) -> tuple[Any, Ints, Ints]:
        return (*certain(tokens), candidates)

    def draw(count: int, length: int, seed: int) -> Ints:
        return np.asarray(grammar.draw(generator(seed, "task-check"), count))

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
        also_legal=lambda best, tokens: np.ones(best.shape, dtype=bool),  # what is impossible nobody says
        draw=draw,
        kin=lambda other: False,
    )
