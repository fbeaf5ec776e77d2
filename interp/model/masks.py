"""Which keys each query sees and where positions are counted from: defaults, and checks of what a caller passes."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from interp.config import TransformerConfig
from interp.errors import RequestError, quoted


class Prepared:
    """A mask, or positions, that its maker answers for: not checked at every call."""

    def ready(self) -> Any:
        """What the blocks, or the position embedding, are given."""
        return self


@dataclass(frozen=True)
class Trusted(Prepared):
    """A tensor that training made. To check it at each step would wait for the device each time."""

    tensor: Tensor

    def ready(self) -> Tensor:
        return self.tensor


def visible_keys(tokens: Int[Tensor, "batch pos"], config: TransformerConfig) -> Bool[Tensor, "batch 1 query key"]:
    """Causal or not, and never PAD; every position sees itself, so that no row is empty."""
    n = tokens.shape[-1]
    itself = torch.eye(n, dtype=torch.bool, device=tokens.device)
    allowed = torch.ones(n, n, dtype=torch.bool, device=tokens.device)
    if config.direction == "causal":
        allowed = allowed.tril()
    allowed = allowed.expand(tokens.shape[0], 1, n, n)
    if config.pad_token is None:
        return allowed
    return (allowed & (tokens != config.pad_token)[:, None, None, :]) | itself


def counted_positions(tokens: Int[Tensor, "batch pos"], config: TransformerConfig) -> Int[Tensor, "#batch pos"]:
    """0, 1, 2, ... from the first token of each row that is not PAD; PAD before it has position 0.

    PAD further on, in the middle of a row or at its end, is counted like any token.
    """
    n = tokens.shape[-1]
    if config.bounded and n > config.n_ctx:
        raise RequestError(f"{n} tokens are more than the n_ctx={config.n_ctx} {config.positions} positions")
    places = torch.arange(n, device=tokens.device)[None]
    if config.pad_token is None:
        return places
    before = (tokens == config.pad_token).long().cumprod(-1).sum(-1, keepdim=True)
    return (places - before).clamp(min=0)


def checked_visible(
    visible: Any, tokens: Int[Tensor, "batch pos"], config: TransformerConfig
) -> Bool[Tensor, "#batch #head query key"]:
    """A caller's mask [batch, head, query, key] or [query, key], where any size but that of keys may be 1.

    Raises `RequestError` unless it is of booleans, fits the tokens, and lets every query see a key.
    """
    batch, n = tokens.shape
    if not isinstance(visible, Tensor) or visible.dtype != torch.bool:
        given = f"a tensor of {visible.dtype}" if isinstance(visible, Tensor) else quoted(visible)
        raise RequestError(f"visible={given} is not a mask: pass a bool tensor [batch, 1, query, key]")
    needed = ((1, batch), (1, config.n_heads), (1, n), (n,))[-visible.ndim :]
    if visible.ndim not in (2, 4) or any(s not in known for s, known in zip(visible.shape, needed, strict=True)):
        raise RequestError(
            f"visible of shape {list(visible.shape)} does not fit tokens of shape {list(tokens.shape)}: "
            f"[{batch} or 1, 1, {n} or 1, {n}] is needed"
        )
    blind = ~visible.any(-1)
    if not visible.is_meta and bool(blind.any()):
        *row, query = blind.nonzero()[0].tolist()
        which = f"query {query}" if visible.shape[-2] == n else "any query"
        where = f" of row {row[0]}" if row else ""
        raise RequestError(f"visible does not let {which}{where} see a key: each sees one at least (itself, say)")
    return visible.expand(*visible.shape[:-2], n, n)


def checked_positions(
    positions: Any, tokens: Int[Tensor, "batch pos"], config: TransformerConfig
) -> Int[Tensor, "#batch pos"]:
    """A caller's positions. Raises `RequestError` unless they are whole, fit the tokens, and exist in the model."""
    whole = isinstance(positions, Tensor) and not (
        positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool
    )
    if not whole:
        given = f"a tensor of {positions.dtype}" if isinstance(positions, Tensor) else quoted(positions)
        raise RequestError(f"positions={given} are no places in a string: pass whole numbers [batch or 1, pos]")
    batch, n = tokens.shape
    if positions.ndim not in (1, 2) or positions.shape[-1] != n or positions.shape[:-1] not in ((), (1,), (batch,)):
        raise RequestError(
            f"positions of shape {list(positions.shape)} do not fit tokens of shape {list(tokens.shape)}: "
            f"[{batch} or 1, {n}] is needed"
        )
    if config.bounded and positions.numel() and not positions.is_meta:
        for bad in (int(positions.min()), int(positions.max())):
            if not 0 <= bad < config.n_ctx:
                most = config.n_ctx - 1
                raise RequestError(f"positions hold {bad}, and the {config.positions} ones are 0 to n_ctx - 1 = {most}")
    return positions
