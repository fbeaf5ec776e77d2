"""What is said of models that are not of brackets."""

from typing import Any

from interp.errors import AnalysisError, quoted


def no_brackets(model: Any, who: str) -> AnalysisError:
    """Why a model cannot be read as one of brackets, and the cure."""
    names = getattr(getattr(model, "grammar", None), "names", None)
    if names is not None:
        known = "START ([start], <s>, <bos>, BOS)"
        shown = quoted(" ".join(names[:12]))
        return AnalysisError(
            f"{who}: the model's vocabulary {shown} is no Dyck grammar: load it with vocab=[...] that names {known} "
            "and whole pairs of brackets"
        )
    return AnalysisError(
        f"{who}: the model carries no Dyck grammar: pass grammar=DyckGrammar(...), or load it with load_foreign(..., "
        "vocab=[...]), which says what its ids mean"
    )
