"""What to ask a model of whom nobody knows whether it learnt to keep a bit."""

from dataclasses import replace
from typing import Any

from interp.label_exam import label_exam
from interp.world import Exam


def exam(grammar: Any) -> Exam | None:
    """The labels that follow from what is read."""
    found = label_exam(grammar)
    return None if found is None else replace(found, kin=lambda other: isinstance(other, type(grammar)))
