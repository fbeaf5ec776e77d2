"""What use is asked about: questions of the model's world, and their items."""

from dataclasses import dataclass

from interp.claims.types import Bools, Ints, Items, Question
from probes.claims import question_for

__all__ = ["Bools", "Ints", "Items", "NoTask", "Task", "task_for"]

Task = Question
task_for = question_for


@dataclass(frozen=True)
class NoTask:
    """No use can be asked about, and why."""

    reason: str
    name: str | None = None
