"""Texts and ids as a model's input."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from interp.errors import RequestError, quoted
from interp.grammars import Grammar, Vocabulary

SIDES = ("right", "left")


def read_texts(grammar: Grammar, text: Any, prepend_bos: bool | None, padding_side: str | None) -> NDArray[np.int64]:
    """Ids [batch, pos] of one text or several: with START or without (None: as the grammar has it), PAD on one side."""
    if prepend_bos not in (None, True, False):
        raise RequestError(f"prepend_bos={quoted(prepend_bos)} is not True, False or None")
    if padding_side not in (None, *SIDES):
        raise RequestError(f"padding_side={quoted(padding_side)} is not one of {', '.join(SIDES)}")
    texts = text if isinstance(text, str) else list(text)
    if prepend_bos is not None and isinstance(grammar, Vocabulary) and grammar.start is not None:
        grammar = replace(grammar, prepend_start=prepend_bos)
    if prepend_bos and not grammar.has_start:
        raise RequestError(f"prepend_bos=True needs a START, and {quoted(grammar)} has none")
    ids = grammar.to_tokens(texts)
    if prepend_bos is False and grammar.has_start:
        ids = ids[:, 1:]
    pad = getattr(grammar, "pad", None)
    if padding_side == "left" and pad is not None:
        behind = np.logical_and.accumulate(ids[:, ::-1] == pad, axis=1).sum(1)
        ids = np.stack([np.roll(row, n) for row, n in zip(ids, behind, strict=True)]) if len(ids) else ids
    return ids


def checked_ids(ids: Tensor) -> Int[Tensor, "batch pos"]:
    """Token ids [batch, pos] of a tensor [batch, pos] or [pos]."""
    if ids.ndim not in (1, 2):
        raise RequestError(f"token ids of shape {list(ids.shape)} are neither [batch, pos] nor [pos]")
    if ids.is_floating_point() or ids.is_complex() or str(ids.dtype) == "torch.bool":
        raise RequestError(f"a tensor of {ids.dtype} holds no token ids: pass whole numbers")
    return ids if ids.ndim == 2 else ids[None]
