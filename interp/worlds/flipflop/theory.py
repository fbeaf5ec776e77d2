"""What B. Liu's thesis (2024) proves of flip-flops and attention: scores with linear positions, and bounds.

Sections 3.5.7.2 and 3.5.7.3. Everything here is exact for one head that reads the stream itself: token embeddings and
a direction times the position, with no norm before it (`norm="none"`, or a block that has its norm elsewhere).
Equation (3.8) is printed without some transposes; the terms below are those of (3.7) multiplied out, with biases.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import finite_number, index_of, instance_of, whole_number
from interp.config import TransformerConfig
from interp.errors import RequestError, quoted
from interp.numeric_arrays import id_array, token_ids

Array = NDArray[np.float64]
LONGEST = 10**7  # tokens up to a query


@dataclass(frozen=True)
class ScoreTerms:
    """Pre-softmax scores of one head (eq. 3.9), p_i = i / `scale` being the position of token i, counted from 0:

    s(i -> j) = tokens[x_i, x_j] + by_query[x_i] p_j + by_key[x_j] p_i + product p_i p_j

    - `tokens` [query token, key token]; `by_query`, `by_key` [token].
    - `product`: W_Qp . W_Kp, which Proposition 5 says is 0 wherever lengths generalise perfectly.
    """

    tokens: Array
    by_query: Array
    by_key: Array
    product: float
    scale: float

    @classmethod
    def of(cls, model: Any, head: int = 0) -> "ScoreTerms":
        """The terms of a head of a model's first layer, in the units of its scores (1 / sqrt(d_head) included).

        Raises `RequestError` where a norm stands before the attention, and for other positions than linear ones.
        """
        config = instance_of("config of the model", getattr(model, "config", None), TransformerConfig)
        head = index_of("head", head, config.n_heads)
        if config.positions not in ("linear", "scalar") or config.attention != "learned":
            raise RequestError(
                f"positions={quoted(config.positions)}, attention={quoted(config.attention)}: scores are linear in "
                "positions for 'linear' or 'scalar' ones, with learned attention"
            )
        if (config.block == "gpt2" and config.norm != "none") or config.norms_embedding:
            raise RequestError(
                f"block={quoted(config.block)} with norm={quoted(config.norm)} has a norm before the attention, after "
                "which scores are not linear in positions: give a model with norm='none' or block='authors'"
            )
        weights: dict[str, Any] = {}
        attention = model.blocks[0].attn
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            weights[name] = getattr(attention, name)[head].detach().double().cpu().numpy()
        embedding = model.embed.W_E.detach().double().cpu().numpy()
        positions = model.pos_embed
        direction = positions.w_pos if config.positions == "linear" else positions.direction
        where = direction.detach().double().cpu().numpy()
        query, key = (embedding @ weights[f"W_{name}"] + weights[f"b_{name}"] for name in "QK")
        query_place, key_place = where @ weights["W_Q"], where @ weights["W_K"]
        unit = float(attention.attn_scale)
        return cls(
            query @ key.T / unit,
            query @ key_place / unit,
            key @ query_place / unit,
            float(query_place @ key_place) / unit,
            float(config.n_ctx),
        )

    def scores(self, tokens: ArrayLike) -> Array:
        """Scores [query, key] of one string of ids [pos]; later keys are not left out.

        Raises `GrammarError` for ids that the model does not know.
        """
        x = token_ids(tokens, len(self.tokens), axes=1)
        p = np.arange(len(x)) / self.scale
        by_place = self.by_query[x][:, None] * p + self.by_key[x] * p[:, None] + self.product * p[:, None] * p
        return np.asarray(self.tokens[x[:, None], x[None, :]] + by_place)

    def mass_on_first(self, write: int, idle: int, gaps: ArrayLike) -> Array:
        """Weight of the write in [write, idle, idle, ...] for the query `gap` tokens later [gap], in closed form.

        The scores of no-ops are linear in their place, so that their exponentials are a geometric series. Raises
        `RequestError` for tokens that the model does not know, and for gaps that are no whole numbers from 0 to 10^7.
        """
        write, idle = self._token("write", write), self._token("idle", idle)
        whole = id_array(gaps, "gaps", RequestError)
        if not ((whole >= 0) & (whole <= LONGEST)).all():
            raise RequestError(f"gaps={quoted(whole.tolist())} are not whole numbers from 0 to {LONGEST}")
        t = whole.astype(np.float64)
        p, n = t / self.scale, np.maximum(t, 1)
        lead = self.tokens[idle, idle] - self.tokens[idle, write] + (self.by_key[idle] - self.by_key[write]) * p
        step = (self.by_query[idle] + self.product * p) / self.scale
        # log sum_{j=1..t} exp(step j), from the largest term down
        steep = np.abs(step) > 1e-12
        safe = np.where(steep, np.abs(step), 1.0)
        series = np.where(steep, np.log1p(-np.exp(-safe * n)) - np.log1p(-np.exp(-safe)), np.log(n))
        rivals = lead + series + np.where(step > 0, step * n, step)
        return np.asarray(1 / (1 + np.exp(np.clip(rivals, -700, 700))) * (t > 0) + (t == 0))

    def first_wrong(self, writes: tuple[int, int], idle: int, longest: int) -> int | None:
        """The least position at which hard attention, asked there by a no-op, misses the last write; None up to
        `longest`. Tried are both strings of the proof: one write at 0, and (from 2 on) another right before the query.
        """
        last, idle = whole_number("longest", longest, 1, LONGEST), self._token("idle", idle)
        if not isinstance(writes, (list, tuple)) or len(writes) != 2:
            raise RequestError(f"writes={quoted(writes)} are not the two tokens that write")
        writes = (self._token("writes", writes[0]), self._token("writes", writes[1]))
        t = np.arange(1, last + 1, dtype=np.float64)
        p = t / self.scale
        wrong = np.zeros(last, dtype=bool)
        for write, other in (writes, writes[::-1]):
            # The highest no-op is the first or the last, since scores are linear in their place; case 2 begins at 2.
            at_first, at_write = self._at(idle, write, p, 0.0), self._at(idle, other, p, (t - 1) / self.scale)
            rival = np.maximum(self._at(idle, idle, p, 1 / self.scale), self._at(idle, idle, p, p))
            wrong |= rival >= at_first
            rival = np.maximum(np.where(t > 2, rival, self._at(idle, idle, p, p)), at_first)
            wrong |= (t >= 2) & (rival >= at_write)
        return int(t[wrong.argmax()]) if wrong.any() else None

    def _token(self, name: str, value: Any) -> int:
        return whole_number(name, value, 0, len(self.tokens) - 1)

    def _at(self, query: int, key: int, p: Any, place: Any) -> Array:
        """Scores of a key at `place` for a query at `p`, both in units of the scale."""
        return np.asarray(
            self.tokens[query, key] + self.by_query[query] * place + self.by_key[key] * p + self.product * p * place
        )


def dilution_bound(sigma: float, length: int) -> float:
    """Proposition 4: no weight is above 1 - (T - 1) / (T - 1 + exp(2 sigma)) among T keys of norm 1 at most, where
    sigma is the largest singular value of W_K^T W_Q."""
    rest = whole_number("length", length, 1) - 1
    if finite_number("sigma", sigma) < 0:
        raise RequestError(f"sigma={quoted(sigma)} is not a singular value: give a number of at least 0")
    return 1.0 if rest == 0 else 1.0 / (1.0 + math.exp(math.log(rest) - 2 * sigma))
