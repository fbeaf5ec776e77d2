"""Texts and ids as a model's input."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from interp.checks import one_of
from interp.errors import RequestError, quoted
from interp.grammars import Grammar, Vocabulary
from interp.registry import read_strings

SIDES = ("right", "left")


def read_texts(grammar: Grammar, text: Any, prepend_bos: bool | None, padding_side: str | None) -> NDArray[np.int64]:
    """Ids [batch, pos] of one text or several: with START or without (None: as the grammar has it), PAD on one side."""
    if prepend_bos is not None and not isinstance(prepend_bos, bool):
        raise RequestError(f"prepend_bos={quoted(prepend_bos)} is not True, False or None")
    if padding_side is not None and not one_of(padding_side, SIDES):
        raise RequestError(f"padding_side={quoted(padding_side)} is not one of {', '.join(SIDES)}")
    if not isinstance(text, Iterable) or isinstance(text, (bytes, bytearray)):
        raise RequestError(f"{quoted(text)} is neither a text, a list of texts, nor token ids [batch, pos]")
    texts = text if isinstance(text, str) else list(text)
    if prepend_bos is not None and isinstance(grammar, Vocabulary) and grammar.start is not None:
        grammar = replace(grammar, prepend_start=prepend_bos)
    if prepend_bos and not getattr(grammar, "has_start", False):
        raise RequestError(f"prepend_bos=True needs a START, and {quoted(grammar)} has none")
    ids = read_strings(grammar, texts)
    if prepend_bos is False and getattr(grammar, "has_start", False):
        ids = ids[:, 1:]
    pad = getattr(grammar, "pad", None)
    if padding_side == "left" and pad is not None:
        behind = np.logical_and.accumulate(ids[:, ::-1] == pad, axis=1).sum(1)
        ids = np.stack([np.roll(row, n) for row, n in zip(ids, behind, strict=True)]) if len(ids) else ids
    return ids


def checked_ids(ids: Tensor, count: int, trusted: bool = False) -> Int[Tensor, "batch pos"]:
    """Token ids, int64 [batch, pos], of a tensor of any integer type [batch, pos] or [pos].

    Raises `RequestError` for ids that are none of 0 to `count` - 1. Ids whose maker answers for them (`trusted`) are
    taken as they are; those of which nobody can read the numbers, on "meta" or batched by `torch.vmap`, unseen.
    """
    if ids.ndim not in (1, 2):
        raise RequestError(f"token ids of shape {list(ids.shape)} are neither [batch, pos] nor [pos]")
    ids = known_ids(ids, count, trusted)
    return ids if ids.ndim == 2 else ids[None]


def known_ids(ids: Tensor, count: int, trusted: bool = False) -> Int[Tensor, "..."]:
    """The same of any shape."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise RequestError(f"a tensor of {ids.dtype} holds no token ids: pass whole numbers")
    if trusted:
        return ids
    whole = ids.to(torch.int64)
    if whole.is_meta or whole.numel() == 0 or torch._C._functorch.is_functorch_wrapped_tensor(whole):
        return whole
    for bad in map(int, torch.aminmax(whole)):
        if not 0 <= bad < count:
            told = bad + 2**64 if bad < 0 and ids.dtype == torch.uint64 else bad  # which int64 has not
            raise RequestError(f"tokens hold id {told}, and the model knows ids 0 to {count - 1}")
    return whole
