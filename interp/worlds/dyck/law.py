"""The law of bounded Dyck strings as dynamic programmes, and the walk that samples from it.

Everything here counts in two coordinates only: m, the number of brackets already emitted, and the
depth d. Types never enter: an opener is uniform over the k types and a closer has no choice, so
types sum out of every mass and come back as a factor 1/k (or log k in an entropy).

Law (Wen et al. 2023, Definition 1, corrected by thesis eq. 2.39 / 3.20): at depth 0 open; at
0 < d < D open with probability q, else close; at depth D close. Complete strings also draw END at
depth 0 with probability `end_prob`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CHUNK = 2**18  # uniforms walked at a time: 2 MB, so that the working arrays stay in the L2 cache


class StepLaw(NamedTuple):
    """Law of the next token at (m brackets emitted, depth d); each array is float64 [M, D+1].

    `open` is summed over types. Rows sum to 1 where the state can still be completed; `reachable`
    says where that is (elsewhere all three are 0).
    """

    open: Floats
    close: Floats
    end: Floats
    reachable: Bools


class Structure(NamedTuple):
    """What a stack machine knows after each token; all [..., pos].

    `top` and `partner` are indices along pos, -1 where there is none. `bad` marks tokens that break
    the grammar; what stands at or after the first bad token of a row has no meaning.
    """

    depth: Ints
    partner: Ints
    top: Ints
    bad: Bools


def depth_law(max_depth: int, open_prob: float, end_prob: float) -> tuple[Floats, Floats]:
    """(open, close) probabilities at depths 0..D, float64 [D+1], without length bounds.

    `end_prob` = 0 is the prefix law. What is missing to 1 at depth 0 is END.
    """
    opens = np.full(max_depth + 1, open_prob)
    opens[0], opens[-1] = 1.0 - end_prob, 0.0
    closes = 1.0 - opens
    closes[0] = 0.0
    return opens, closes


def log_mass(max_depth: int, open_prob: float, end_prob: float, low: int, high: int) -> Floats:
    """Log probability of ending with low..high brackets in all, from each (m, d): [high+2, D+1].

    Backward recursion over m, in logs because masses underflow for long strings. Every non-empty
    string opens exactly once at m = 0, so when low > 0 that choice is free of charge: it cancels
    from the conditional law, and `end_prob` = 1 then means "one outermost pair".
    """
    opens, closes = depth_law(max_depth, open_prob, end_prob)
    with np.errstate(divide="ignore"):
        log_open, log_close = np.log(opens), np.log(closes)
    mass = np.full((high + 2, max_depth + 1), -np.inf)
    for m in range(high, -1, -1):
        mass[m, :-1] = log_open[:-1] + mass[m + 1, 1:]
        mass[m, 1:] = np.logaddexp(mass[m, 1:], log_close[1:] + mass[m + 1, :-1])
        if m >= low:
            mass[m, 0] = np.logaddexp(mass[m, 0], np.log(end_prob))
    if low > 0:
        mass[0, 0] = mass[1, 1]
    return mass


def complete_steps(max_depth: int, open_prob: float, end_prob: float, low: int, high: int) -> StepLaw:
    """Next-token law of complete strings of low..high brackets (the law by rejection): [high+1, D+1]."""
    mass = log_mass(max_depth, open_prob, end_prob, low, high)
    opens, closes = depth_law(max_depth, open_prob, end_prob)
    reachable = mass[:-1] > -np.inf
    floor = np.where(reachable, mass[:-1], 0.0)
    open_, close, end = np.zeros((3, *reachable.shape))
    open_[:, :-1] = opens[:-1] * np.exp(mass[1:, 1:] - floor[:, :-1])
    close[:, 1:] = closes[1:] * np.exp(mass[1:, :-1] - floor[:, 1:])
    end[low:, 0] = end_prob * np.exp(-floor[low:, 0])
    if low > 0:
        open_[0, 0] = 1.0
    # rounding in exp leaves rows at 1 +- 1e-13: normalise, so that a sure step has exactly 1
    total = np.where(reachable, open_ + close + end, 1.0)
    open_, close, end = (np.where(reachable, part / total, 0.0) for part in (open_, close, end))
    return StepLaw(open_, close, end, reachable)


def prefix_steps(max_depth: int, open_prob: float, length: int) -> StepLaw:
    """Next-token law of unbounded prefixes, the same at every m: [length, D+1]."""
    shape = (length, max_depth + 1)
    opens, closes = depth_law(max_depth, open_prob, 0.0)
    nothing = np.zeros(shape)
    return StepLaw(np.broadcast_to(opens, shape), np.broadcast_to(closes, shape), nothing, nothing == 0)


def occupancy(steps: StepLaw) -> Floats:
    """Probability that a string makes a prediction at (m, d): [M, D+1]; sums to the mean number of them."""
    visits = np.zeros(steps.open.shape)
    visits[:1, 0] = 1.0
    for m in range(len(visits) - 1):
        visits[m + 1, 1:] += visits[m, :-1] * steps.open[m, :-1]
        visits[m + 1, :-1] += visits[m, 1:] * steps.close[m, 1:]
    return visits


def entropy(opens: Floats, closes: Floats, ends: Floats, num_types: int) -> Floats:
    """Entropy in nats of the next token, elementwise: open spreads evenly over `num_types` tokens."""
    total: Floats = opens * np.log(num_types)
    for part in (opens, closes, ends):
        total = total - part * np.log(np.where(part > 0, part, 1.0))
    return total


def exact_floor(steps: StepLaw, num_types: int) -> float:
    """Expected nats per prediction of the law itself: sum of conditional entropies / predictions."""
    visits = occupancy(steps)
    nats = visits * entropy(steps.open, steps.close, steps.end, num_types)
    return float(nats.sum() / visits.sum())


def depth_floor(steps: StepLaw, num_types: int, start_visible: bool) -> float:
    """Least cross entropy, nats per prediction, of a predictor that sees depth and stack top alone.

    Its best answer at depth d is the mean of the exact law over the positions where depth d occurs.
    `start_visible`: position 0 (the query is START itself) is told apart from other depth-0 queries.
    """
    visits = occupancy(steps)
    nats = 0.0
    for rows in [slice(0, 1), slice(1, None)] if start_visible else [slice(None)]:
        weight = visits[rows].sum(axis=0)
        safe = np.where(weight > 0, weight, 1.0)
        opens, closes, ends = (
            (visits[rows] * part[rows]).sum(axis=0) / safe for part in (steps.open, steps.close, steps.end)
        )
        nats += float((weight * entropy(opens, closes, ends, num_types)).sum())
    return nats / float(visits.sum())


def walk(
    uniforms: NDArray[np.floating], lengths: Ints, first_row: Ints | None, open_prob: Floats, num_types: int
) -> NDArray[np.int16]:
    """Turn uniforms [n, width] into strings [n, width] int16 of `lengths` [n] brackets, PAD after.

    open_prob: [M, D+1]. A row starts in row first_row[i] of it and moves down one row a bracket;
    `first_row` None: row 0 throughout. One uniform u decides all: u < p opens, and u/p in [0, 1)
    is then itself uniform and names the type.
    """
    count, width = uniforms.shape
    tokens = np.full((count, width), 2 * num_types + 2, dtype=np.int16)
    rows = max(1, CHUNK // max(1, width))
    for begin in range(0, count, rows):
        part = slice(begin, begin + rows)
        first = None if first_row is None else first_row[part]
        _walk_chunk(uniforms[part], lengths[part], first, open_prob, num_types, tokens[part])
    return tokens


def _walk_chunk(
    uniforms: NDArray[np.floating],
    lengths: Ints,
    first_row: Ints | None,
    open_prob: Floats,
    num_types: int,
    out: NDArray[np.int16],
) -> None:
    """`walk` for rows that fit the cache, written into `out`. Longest rows first: those still running
    at position j are then the first `active` ones, and no work is spent on padding."""
    count, depths = len(lengths), open_prob.shape[1]
    order = np.argsort(-lengths, kind="stable")
    steps = int(lengths.max(initial=0))
    ended = np.searchsorted(np.sort(lengths), np.arange(steps), side="right")
    draws = np.ascontiguousarray(uniforms[:, :steps].T.astype(np.float64, copy=False))
    columns = np.full((out.shape[1], count), 2 * num_types + 2, dtype=np.int16)

    table = np.ascontiguousarray(open_prob).ravel()
    # u * scale is the type; 0 where never open, and the bound keeps it finite
    scale = num_types / np.where(table > 0, np.maximum(table, 1e-300), np.inf)
    down = 0 if first_row is None else depths
    state = np.zeros(count, dtype=np.int64) if first_row is None else first_row[order] * depths
    # stack[d, row] is the type of the bracket open at depth d + 1, held flat for take and put
    stack = np.zeros(min(depths, steps + 1) * count, dtype=np.int16)
    slot = np.arange(count)  # where row's next opener would go: depth * count + row
    for j in range(steps):
        active = count - int(ended[j])
        state, slot = state[:active], slot[:active]
        u = draws[j].take(order[:active])
        opens = u < table.take(state)
        fresh = np.minimum(u * scale.take(state), num_types - 1).astype(np.int16)
        closes = ~opens
        where = slot - count * closes
        kind = np.where(opens, fresh, stack.take(where))
        stack[where] = kind
        columns[j, :active] = 2 * kind + closes
        move = opens.astype(np.int64) * 2 - 1
        state += move + down
        slot += move * count
    out[order] = columns.T


def structure(tokens: Ints, num_types: int, max_depth: int) -> Structure:
    """Run the stack machine over tokens [..., pos] in a loop over depth levels only.

    The bracket open at level l is the last opener of depth l, so one running maximum a level gives
    the stack at every position. START, END and PAD change nothing.
    """
    bracket = tokens < 2 * num_types
    closer = bracket & (tokens % 2 == 1)
    opener = bracket & ~closer
    depth = np.cumsum(opener.astype(np.int64) - closer, axis=-1)
    index = np.arange(tokens.shape[-1])
    partner = np.full(tokens.shape, -1, dtype=np.int64)
    top = np.full(tokens.shape, -1, dtype=np.int64)
    for level in range(1, min(max_depth, int(depth.max(initial=0))) + 1):
        latest = last_opener(opener & (depth == level))
        top = np.where(depth == level, latest, top)
        shuts = closer & (depth == level - 1)
        partner = np.where(shuts, latest, partner)
        # the pair's other direction: an opener learns of its closer by the index it was found at
        place = np.nonzero(shuts & (latest >= 0))
        partner[(*place[:-1], latest[place])] = index[place[-1]]
    opened = np.take_along_axis(tokens, np.maximum(partner, 0), axis=-1) if tokens.size else tokens
    bad = (depth < 0) | (depth > max_depth) | (closer & ((partner < 0) | (opened != tokens - 1)))
    return Structure(depth, partner, top, bad)


def last_opener(mask: Bools) -> Ints:
    """Index of the last True at or before each position of [..., pos], -1 before the first."""
    index = np.where(mask, np.arange(mask.shape[-1]), -1)
    return np.maximum.accumulate(index, axis=-1) if index.shape[-1] else index
