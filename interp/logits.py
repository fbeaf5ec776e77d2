"""What a model gives as logits: are its numbers such? Importing this module loads no torch."""

from typing import TYPE_CHECKING, Any

from interp.errors import AnalysisError, RequestError
from interp.guests import name_of

if TYPE_CHECKING:
    import torch

ROUNDING = 1e-5  # of a softmax in float32, over a large vocabulary


def check_finite(logits: "torch.Tensor", who: str, model: Any) -> None:
    """Raise `AnalysisError` for `logits` [..., vocab] with NaN, infinity, or a row without any finite number.

    Minus infinity alone is a probability of 0, which some models give to tokens that they never predict.
    """
    wrong = logits.isnan() | logits.isposinf() | logits.isneginf().all(-1, keepdim=True)
    if bool(wrong.any()):
        at = wrong.nonzero()[0].tolist()
        raise AnalysisError(
            f"{who}: {_name(model)} gives logits that are not finite ({float(logits[tuple(at)])} at {at} of "
            f"{list(logits.shape)}): finite numbers are needed"
        )


def refuse_probabilities(logits: "torch.Tensor", who: str, model: Any) -> None:
    """Raise `RequestError` where every row of `logits` [..., vocab] lies within 0 and 1 and sums to 1."""
    if logits.numel() == 0 or logits.shape[-1] < 2:
        return
    within = bool(((logits >= 0) & (logits <= 1 + ROUNDING)).all())
    if within and bool(((logits.sum(-1) - 1).abs() <= ROUNDING).all()):
        raise RequestError(
            f"{who}: every row that {_name(model)} gives lies within 0 and 1 and sums to 1, as probabilities do: give "
            "logits, from before the softmax, or logarithms"
        )


def _name(model: Any) -> str:
    return name_of(getattr(model, "model", model))  # of a model that is run with its padding masked, that model
