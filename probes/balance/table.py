"""Balance violation of one head: the definitions of `probes.balance`, evaluated for all indices at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.errors import AnalysisError
from interp.grammars import DyckGrammar
from interp.numbers import power

Array = NDArray[np.float64]
MAX_STACKS = 2_000_000
CELLS = 2**23  # pairs of query and key of one head that a run in float64 holds: a quarter of a gigabyte
STATE_INPUTS = 300  # strings, besides one a type, that states are read from


@dataclass(frozen=True)
class StateVectors:
    """What one head of one layer makes of each state. Depth d-1 below is a pair's depth d in 1..D.

    - `open_score`, `close_score` [query type j, query depth d, key type i, key depth d'], `start_score`
      [j, d]: scores of keys for the query "close j at d-1". All zero where attention is uniform.
    - `open_value`, `close_value` [i, d', m], `start_value` [m]: what a key's value adds, b_V included.
    """

    open_score: Array
    close_score: Array
    start_score: Array
    open_value: Array
    close_value: Array
    start_value: Array


@dataclass(frozen=True)
class BalanceTable:
    """One head's balance violation in full.

    - `s_norm` [d, d', i, j], d from 1: |S|.  `p` [d, j]: P, NaN at d = 1.  `ratio` [d, d', i, j]: |S| / P.
    - `beta`: mean of `ratio` over d >= 2, or None with `reason`.
    - `released`: the variant of the released code: mean over d >= 2 and j of (max over pairs of |S|) / (least
      |Q| over all stacks).
    - `condition`: residual of the bilinear balance condition (eq. 11): 0 where it holds, 1 where the scores
      of opening and closing brackets vary independently over queries. It is no substitute for beta.
    """

    s_norm: Array
    p: Array
    ratio: Array
    beta: float | None
    released: float | None
    condition: float
    reason: str | None = None


def balance_table(states: StateVectors) -> BalanceTable:
    """Evaluate the definitions above: no loop over (d, d', i, j), none over stacks."""
    k, depth = states.open_value.shape[:2]
    condition = _condition(states)
    if k ** (depth - 1) > MAX_STACKS:
        empty = np.full((depth, depth, k, k), np.nan)
        reason = f"P is a minimum over k^(D-1) = {k}^{depth - 1} stacks, more than {power(MAX_STACKS, 0)}"
        return BalanceTable(empty, np.full((depth, k), np.nan), empty, None, None, condition, reason)
    if not all(np.isfinite(x).all() for x in vars(states).values()):
        empty = np.full((depth, depth, k, k), np.nan)
        reason = "the model's queries, keys or values are not finite"
        return BalanceTable(empty, np.full((depth, k), np.nan), empty, None, None, float("nan"), reason)
    top = np.maximum(states.open_score.max((2, 3)), states.close_score.max((2, 3)))
    top = np.maximum(top, states.start_score)[:, :, None, None]
    u_open = np.exp(states.open_score - top)[..., None] * _centred(states.open_value)  # [j, d, i, d', m]
    u_close = np.exp(states.close_score - top)[..., None] * _centred(states.close_value)
    u_start = np.exp(states.start_score - top[:, :, 0, 0])[..., None] * _centred(states.start_value)
    s_norm = np.linalg.norm(u_open + u_close, axis=-1).transpose(1, 3, 2, 0)  # [d, d', i, j]
    p = np.full((depth, k), np.nan)
    least = np.full((depth, k), np.nan)
    for d in range(2, depth + 1):
        for j in range(k):
            own = u_start[j, d - 1] + u_open[j, d - 1, j, d - 1] + u_close[j, d - 1, j, d - 1]
            by_top = _least_by_top(own, u_open[j, d - 1, :, : d - 1])
            least[d - 1, j] = by_top.min()
            p[d - 1, j] = np.sort(by_top)[1] if k > 1 else np.nan
    empty = np.full_like(s_norm, np.nan)
    if k == 1 or depth == 1:
        reason = f"P needs two types and depth 2 (k={k}, D={depth}): with one there is no other stack to compare"
        return BalanceTable(s_norm, p, empty, None, None, condition, reason)
    if not (p[1:] > 0).all() or not (least[1:] > 0).all():
        reason = "P is 0: this head writes nothing that tells one stack from another"
        return BalanceTable(s_norm, p, empty, None, None, condition, reason)
    ratio = s_norm / p[:, None, None, :]
    released = float((s_norm[1:].max((1, 2)) / least[1:]).mean())
    return BalanceTable(s_norm, p, ratio, float(ratio[1:].mean()), released, condition)


def _least_by_top(own: Array, openers: Array) -> Array:
    """Least |own + stack| for each type on top, [k], over all k^(d-1) stacks.

    `own` [m]; `openers` [type, depth, m]. Sums of all stacks are built by one outer addition a depth.
    """
    sums = own[None]
    for level in range(openers.shape[1] - 1):
        sums = (sums[:, None] + openers[:, level]).reshape(-1, len(own))
    return np.array([np.linalg.norm(sums + last, axis=-1).min() for last in openers[:, -1]])


def _condition(states: StateVectors) -> float:
    """Variance over queries of score(opener) - score(closer), over the sum of their own variances."""
    opened = states.open_score.reshape(-1, states.open_score.shape[2] * states.open_score.shape[3])
    closed = states.close_score.reshape(opened.shape)
    scale = float((opened.var(0) + closed.var(0)).sum())
    return float((opened - closed).var(0).sum()) / scale if scale > 0 else 0.0


def _centred(x: Array) -> Array:
    """P_perp: subtract the mean over coordinates."""
    return np.asarray(x - x.mean(-1, keepdims=True))


def table_bytes(k: int, depth: int, heads: int, width: int, head_width: int, models: int) -> float:
    """What tables of `models` models need, about: states are read, then every query meets every key."""
    pairs, covering = (k * depth) ** 2, 1 + max(28, 2 * depth)
    rows = STATE_INPUTS + k
    reading = 32 * heads * min(rows * covering**2, max(covering**2, CELLS))
    reading += 60 * rows * covering * heads * head_width
    stacks = 24 * width * k ** (depth - 2) if depth > 1 and k ** (depth - 1) <= MAX_STACKS else 0
    scores = 32 * heads * pairs  # of all heads before the first table is made
    return max(reading, scores + 8 * pairs * (5 * width + 6) + stacks) + 24 * pairs * heads * models


# -- what a model makes of each state -----------------------------------------------------------------


@dataclass(frozen=True)
class HeadStates:
    """One head's `vectors`, and the share of the variance of its queries, keys and values that they explain."""

    vectors: StateVectors
    explained: float


def head_states(
    model: Any, layer: int, grammar: DyckGrammar, *, num_inputs: int = STATE_INPUTS, length: int = 28, seed: int = 0
) -> list[HeadStates]:
    """`StateVectors` of every head of a layer: means over every occurrence of a state in sampled prefixes.

    Each state also occurs in a covering string, so none is missing. Where the first layer is minimal,
    every occurrence gives the same vector and the means are exact.
    """
    tokens = _inputs(grammar, num_inputs, length, seed)
    names = {part: f"blocks.{layer}.attn.hook_{part}" for part in "qkv"}
    present = {part: name for part, name in names.items() if name in model.hook_dict}
    if "v" not in present:
        raise AnalysisError(f"balance: this model has no {names['v']}, so its values cannot be read")
    rows = max(1, CELLS // tokens.shape[1] ** 2)
    seen: dict[str, list[torch.Tensor]] = {part: [] for part in present}
    with torch.no_grad():
        for begin in range(0, len(tokens), rows):
            part_of = torch.from_numpy(tokens[begin : begin + rows]).to(model.cfg.device)
            _, cache = model.run_with_cache(part_of, names_filter=list(present.values()), return_type=None)
            for part, name in present.items():
                seen[part].append(cache[name].to("cpu", torch.float64))
        projection = model.blocks[layer].attn.W_O.detach().to("cpu", torch.float64).numpy()  # [head, d_head, m]
    parts = {part: torch.cat(found).numpy() for part, found in seen.items()}
    scale = getattr(model.blocks[layer].attn, "attn_scale", None) or np.sqrt(parts["v"].shape[-1])
    state = _states(tokens, grammar)
    count = 2 * grammar.num_types * grammar.max_depth + 1
    out = []
    for head in range(parts["v"].shape[2]):
        means, within, total = {}, 0.0, 0.0
        for part, values in parts.items():
            x = values[:, :, head][state >= 0]
            means[part], ss_within, ss_total = _group(x, state[state >= 0], count)
            within, total = within + ss_within, total + ss_total
        explained = 1.0 if total == 0 else 1 - within / total
        out.append(HeadStates(_vectors(means, projection[head], float(scale), grammar), explained))
    return out


def _inputs(grammar: DyckGrammar, count: int, length: int, seed: int) -> NDArray[np.int64]:
    """START and prefixes: sampled ones, and for each type one that visits all its states."""
    sampled = np.asarray(
        grammar.sample(count, seed=seed, mode="prefix", length=length, stream="balance"), dtype=np.int64
    )
    cover = [[2 * t] * grammar.max_depth + [2 * t + 1] * grammar.max_depth for t in range(grammar.num_types)]
    width = max(length, 2 * grammar.max_depth)
    rows = np.full((count + len(cover), 1 + width), grammar.pad)
    rows[:, 0] = grammar.start
    rows[:count, 1 : 1 + length] = sampled
    rows[count:, 1 : 1 + 2 * grammar.max_depth] = cover
    return rows


def _states(tokens: NDArray[np.int64], grammar: DyckGrammar) -> NDArray[np.int64]:
    """Index of each position's state: openers by (type, depth), closers by (type, pair depth), START; -1: none."""
    depth = grammar.depth(tokens)
    bracket = tokens < 2 * grammar.num_types
    closer = bracket & (tokens % 2 == 1)
    pair = depth + closer - 1
    index = (tokens // 2) * grammar.max_depth + pair + closer * grammar.num_types * grammar.max_depth
    start = 2 * grammar.num_types * grammar.max_depth
    return np.where(bracket, index, np.where(tokens == grammar.start, start, -1))


def _group(x: Array, state: NDArray[np.int64], count: int) -> tuple[Array, float, float]:
    """Mean of x [n, m] in each state [count, m]; sums of squares within states and in all."""
    sums = np.zeros((count, x.shape[1]))
    np.add.at(sums, state, x)
    means = sums / np.bincount(state, minlength=count)[:, None]
    return means, float(np.square(x - means[state]).sum()), float(np.square(x - x.mean(0)).sum())


def _vectors(means: dict[str, Array], projection: Array, scale: float, grammar: DyckGrammar) -> StateVectors:
    """Scores and values of every (query, key) from the states' queries, keys and values."""
    k, depth = grammar.num_types, grammar.max_depth
    closers = slice(k * depth, 2 * k * depth)
    values = means["v"] @ projection
    if "q" in means:
        scores = means["q"][closers] @ means["k"].T / scale
    else:
        scores = np.zeros((k * depth, len(values)))
    scores = scores.reshape(k, depth, -1)
    return StateVectors(
        open_score=scores[:, :, : k * depth].reshape(k, depth, k, depth),
        close_score=scores[:, :, closers].reshape(k, depth, k, depth),
        start_score=scores[:, :, -1],
        open_value=values[: k * depth].reshape(k, depth, -1),
        close_value=values[closers].reshape(k, depth, -1),
        start_value=values[-1],
    )
