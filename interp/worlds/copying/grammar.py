"""Copying: Dyck strings whose right output at every bracket is that bracket (Wen et al. 2023, App. B.1)."""

from dataclasses import dataclass
from typing import ClassVar

from interp.worlds.dyck.grammar import DyckGrammar


@dataclass(frozen=True)
class CopyGrammar(DyckGrammar):
    """The strings and ground truth of `DyckGrammar`; the task is to repeat each token where it stands.

    No attention is needed for it: a residual link carries the token. Patterns that look meaningful
    in a model of this task are therefore a test of what a pattern says about use. Source: Wen et al. 2023,
    App. B.1. Raises `GrammarError` as `DyckGrammar` does.
    """

    KIND: ClassVar[str] = "copy"
    copies: ClassVar[bool] = True
