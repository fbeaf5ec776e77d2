"""Two constructed solvers that Theorem 2 covers: block of eq. 6, no biases, 2-layer ReLU MLPs, C > 0, one head.

`constructed/uniform` and `constructed/stack` have biases, 3-layer MLPs and C = 0. These do the same work at
m <= 16 with weights of a few units, so that sums of random products reach them:

- `uniform_solver` (Corollary 1): both layers attend evenly; matched pairs cancel in the second.
- `stack_solver`: the second layer attends to the last unmatched open bracket.

Both close every bracket right, which tests check string by string, up to `LONGEST` brackets. They do
not give the exact law. Constants that biases would be are read off coordinates that sum to one.

Layer 1 is the same in both. Its even attention averages f over openers, -f over closers and g over START, f and g
orthonormal with entries that sum to 0; the norm removes 1/n and leaves (depth f + g) / sqrt(depth^2 + 1) (eq. 30).
With
    phi_d = (depth - d + 1/2) / sqrt(depth^2 + 1)
the MLP's step [x and depth >= d] is a ramp between two ReLUs, both off where the last token is not x.
"""

import math
from collections.abc import Hashable

import numpy as np
import torch

from interp.config import TransformerConfig
from interp.errors import RequestError
from interp.grammars import DyckGrammar
from interp.model import SandboxTransformer
from interp.worlds.dyck.constructed import Array, Basis

LONGEST = 16  # brackets: positions score up to this far
C = 0.05  # the norm's: attention outputs are 1 / n long at least, and n is at most LONGEST + 1
LOUD = 3.0  # size of one-hot coordinates between the layers, so that scores are large though weights are not
SLOPE = 1.5  # score of one position of recency: of two openers of a depth, two apart or more, e^-3 goes to the earlier
PLACE = 0.25  # position i adds i PLACE to its coordinate
MATCH = SLOPE * LONGEST + 4  # score of a key of the query's depth: beats any recency
FIRM = 0.9  # ramps of steps lie within this share of the gap between the depths they tell apart
CLEAR = 6.0  # logit of a right closer of full strength; openers and END have a third of it


def uniform_solver(grammar: DyckGrammar, *, swapped: bool = False) -> SandboxTransformer:
    """Even attention in both layers. Positions are there, are carried on, and nobody reads them.

    `swapped`: every closer is of the next type, so that nothing is closed right: another function from the same
    embedding and unembedding.
    """
    # Layer 2 reads e(token, depth of its pair), LOUD times, and averages b = e(open) - e(close) over openers, -b over
    # closers, s over START, as `interp.worlds.dyck.constructed.balanced`: z / |z| holds 2 c / |z| of b(t, d) where an
    # opener (t, d)
    # is unmatched, 0 elsewhere. Hidden units: "the last token is open t, d", "(t, d) is unmatched and the last
    # token closed a pair of depth d + 1", a constant.
    k, depth = grammar.num_types, grammar.max_depth
    basis = Basis([*_states(grammar), "place"])
    model, token = _start(grammar, "uniform-swapped" if swapped else "uniform", basis.width)
    units = _FirstMLP(grammar, token, model.config.d_model)
    for t in range(k):
        for d in range(1, depth + 1):
            units.write([2 * t], d, basis["open", t, d])
            units.write([2 * t + 1], d - 1, basis["close", t, d])
    units.write([grammar.start], 0, basis["START"])
    units.carry(basis["place"])
    values = np.zeros((basis.width, basis.width))
    for t, d in np.ndindex(k, depth):
        b = basis.vector({("open", t, d + 1): 1, ("close", t, d + 1): -1})
        values[basis["open", t, d + 1]], values[basis["close", t, d + 1]] = b, -b
    values[basis["START"]] = basis.vector({**dict.fromkeys(_states(grammar)[:-1], 0.5 / (k * depth)), "START": -1})
    verdict = [f"close {(t + swapped) % k}" for t in range(k)]
    rules: list[tuple[Array, dict[str, float]]] = []
    constant = basis.vector(dict.fromkeys(_states(grammar), 1 / LOUD))
    for t, d in np.ndindex(k, depth):
        # True: LOUD and more. False: at most .817 (`balanced`), less 1.
        rules.append(
            (basis.vector({("open", t, d + 1): 1}) - constant, {verdict[t]: 0.5, "full": 0.5 * (d == depth - 1)})
        )
    for d in range(1, depth):
        pair = [((side, t, d + 1), sign / LOUD) for t in range(k) for side, sign in (("close", 1), ("open", -1))]
        closed = basis.vector(dict(pair))  # exactly 1, or at most 0
        for t in range(k):
            # At most 1.64 where (t, d) is unmatched; with `open t, d` as the last token more, and rightly so.
            unmatched = basis.vector({("open", t, d): 1, ("close", t, d): -1})
            rules.append((unmatched + 1.7 * (closed - constant), {verdict[t]: 1.0}))
    rules.append((constant, {"constant": 1.0}))
    return _finish(model, grammar, units, values, None, rules)


def stack_solver(grammar: DyckGrammar) -> SandboxTransformer:
    """Layer 2 attends to the last unmatched open bracket, found by its depth and its recency, and takes its type."""
    # Layer 2 reads "opener t of depth d" (keys), "depth d after this token" (queries) and the position. Scores:
    # MATCH where the key's depth is the query's, and SLOPE a position. Values: the opener's type, centred.
    k, depth = grammar.num_types, grammar.max_depth
    keys = [("open", t, d) for t in range(k) for d in range(1, depth + 1)]
    basis = Basis([*keys, *(("depth", d) for d in range(depth + 1)), "place", *(("type", t) for t in range(k))])
    model, token = _start(grammar, "stack", basis.width)
    units = _FirstMLP(grammar, token, model.config.d_model)
    closers = [2 * t + 1 for t in range(k)]
    for d in range(depth + 1):
        for t in range(k if d else 0):
            units.write([2 * t], d, basis["open", t, d])
            units.write([2 * t], d, basis["depth", d])
        if d < depth:
            units.write([*closers, grammar.start], d, basis["depth", d])  # START: depth 0 only
    units.carry(basis["place"])
    scores, values = np.zeros((basis.width, basis.width)), np.zeros((basis.width, basis.width))
    for t, d in np.ndindex(k, depth):
        scores[basis["open", t, d + 1], basis["depth", d + 1]] = MATCH / LOUD**2
        values[basis["open", t, d + 1]] = basis.vector({("type", s): (s == t) - 1 / k for s in range(k)})
    for d in range(depth + 1):
        scores[basis["place"], basis["depth", d]] = SLOPE / (PLACE * LOUD)
    rules: list[tuple[Array, dict[str, float]]] = []
    bottom = basis.vector({("depth", 0): 1 / LOUD})
    for t in range(k):
        rules.append(
            (basis.vector({("type", t): (k / (k - 1)) ** 0.5 if k > 1 else 1.0}) - 2 * bottom, {f"close {t}": 1.0})
        )
    rules.append((basis.vector({("depth", depth): 1 / LOUD}), {"full": 1.0}))
    rules.append((basis.vector({("depth", d): 1 / LOUD for d in range(depth + 1)}), {"constant": 1.0}))
    return _finish(model, grammar, units, values, scores, rules)


def stack_scores(grammar: DyckGrammar) -> Array:
    """Scores [key, query] on the stream between the layers of `uniform_solver` that attend as `stack_solver` does.

    For a decoy: an attention that looks like a stack in a layer that does nothing.
    """
    basis = Basis([*_states(grammar), "place"])
    scores = np.zeros((shared_width(grammar),) * 2)
    brackets = [state for state in _states(grammar) if isinstance(state, tuple)]
    for side, t, d in brackets:
        after = d if side == "open" else d - 1
        for s in range(grammar.num_types if after else 0):
            scores[basis["open", s, after], basis[side, t, d]] = MATCH / LOUD**2
        scores[basis["place"], basis[side, t, d]] = SLOPE / (PLACE * LOUD)
    scores[basis["place"], basis["START"]] = SLOPE / (PLACE * LOUD)
    return scores


# -- shared pieces ------------------------------------------------------------------------------------


def _states(grammar: DyckGrammar) -> list[Hashable]:
    sides, depths = ("open", "close"), range(1, grammar.max_depth + 1)
    return [*((side, t, d) for t in range(grammar.num_types) for side in sides for d in depths), "START"]


def shared_width(grammar: DyckGrammar) -> int:
    """m of both solvers: one random network has to hold either."""
    k, depth = grammar.num_types, grammar.max_depth
    return max(2 * k * depth + 2, k * depth + depth + 2 + k, 2 * k + 5)


def _start(grammar: DyckGrammar, name: str, needed: int) -> tuple[SandboxTransformer, Basis]:
    """A model with zero weights, its embedding and first attention set; and the names of its first stream."""
    k = grammar.num_types
    if k < 2:
        raise RequestError(f"num_types={k}: with one type of brackets there is nothing to get right, use 2 or more")
    width = shared_width(grammar)
    assert needed <= width
    depth = grammar.max_depth
    config = TransformerConfig(
        grammar.vocab_size,
        n_layers=2,
        d_model=width,
        d_head=width,
        d_mlp=2 * k * (2 * depth - 1) + 2,
        block="paper",
        norm="unit",
        norm_eps=C,
        activation="relu",
        scale_scores=False,
        biases=False,
        positions="linear",
        pad_token=grammar.pad,
        num_types=k,
        max_depth=depth,
    )
    about = {"name": f"lottery/{name}", "trained": False, "constructed": True, "proven_length": LONGEST}
    model = SandboxTransformer(config, grammar, about)
    token = Basis([*range(2 * k + 1), "u", "v", "w", "place"])
    f = token.vector({"u": 0.5**0.5, "v": -(0.5**0.5)})
    values = np.zeros((token.width, token.width))
    for t in range(k):
        values[2 * t], values[2 * t + 1] = f, -f
    values[grammar.start] = token.vector({"u": 6**-0.5, "v": 6**-0.5, "w": -2 * 6**-0.5})
    _set(model.embed.W_E, np.eye(grammar.vocab_size)[:, : 2 * k + 1])
    _set(model.pos_embed.w_pos, token.vector({"place": PLACE * config.n_ctx}))
    _set(model.blocks[0].attn.W_V[0], values)
    return model, token


class _FirstMLP:
    """Hidden units of the first MLP, made as they are asked for: columns into, rows out of the hidden layer."""

    def __init__(self, grammar: DyckGrammar, token: Basis, width: int):
        self.depth, self.start, self.token, self.width = grammar.max_depth, grammar.start, token, width
        self.into: list[Array] = []
        self.out: list[Array] = []
        self.known: dict[tuple[tuple[int, ...], int], list[tuple[int, float]]] = {}

    def write(self, tokens: list[int], depth: int, place: int) -> None:
        """Write LOUD at `place` where the last token is one of `tokens` and the depth after it is `depth`."""
        for d, sign in ((depth, 1.0), (depth + 1, -1.0)):
            for unit, weight in self._step(tuple(tokens), d):
                self.out[unit][place] += sign * weight * LOUD

    def carry(self, place: int) -> None:
        """Pass the position on."""
        self.out[self._unit(self.token.vector({"place": 1}))][place] = 1

    def _step(self, tokens: tuple[int, ...], d: int) -> list[tuple[int, float]]:
        """Units, and their signs, that add up to [last token in `tokens` and depth >= d]."""
        least, most = self._depths(tokens)
        if d > most:
            return []
        if (tokens, d) not in self.known:
            self.known[tokens, d] = self._make_step(tokens, d, certain=d <= least)
        return self.known[tokens, d]

    def _depths(self, tokens: tuple[int, ...]) -> tuple[int, int]:
        """Least and greatest depth after one of `tokens`."""
        opens = [t % 2 == 0 and t != self.start for t in tokens]
        closes = [t % 2 == 1 for t in tokens]
        return int(all(opens)), self.depth if any(opens) else self.depth - 1 if any(closes) else 0

    def _make_step(self, tokens: tuple[int, ...], d: int, certain: bool) -> list[tuple[int, float]]:
        these = self.token.vector(dict.fromkeys(tokens, 1.0))
        if certain:
            return [(self._unit(these), 1.0)]
        low, high = (FIRM * x for x in (-0.5 / math.hypot(d - 1, 1), 0.5 / math.hypot(d, 1)))
        others = self.token.vector({t: 1.0 for t in range(self.start + 1) if t not in tokens})
        g = (d - 0.5) * 6**-0.5
        phi = self.token.vector({"u": 0.5**0.5 - g, "v": -(0.5**0.5) - g, "w": 2 * g})
        top = max((x - d + 0.5) / math.hypot(x, 1) for x in range(self.depth + 1))
        return [
            (self._unit((phi - level * these - top * others) / (high - low)), sign)
            for level, sign in ((low, 1.0), (high, -1.0))
        ]

    def _unit(self, row: Array) -> int:
        self.into.append(row)
        self.out.append(np.zeros(self.width))
        return len(self.into) - 1


def _finish(
    model: SandboxTransformer,
    grammar: DyckGrammar,
    first: _FirstMLP,
    values: Array,
    scores: Array | None,
    rules: list[tuple[Array, dict[str, float]]],
) -> SandboxTransformer:
    """The MLPs, the second attention, the unembedding."""
    k = grammar.num_types
    verdicts = Basis([*(f"close {t}" for t in range(k)), "full", "constant"])
    _set(model.blocks[0].mlp.W_in, np.stack(first.into, axis=1))
    _set(model.blocks[0].mlp.W_out, np.stack(first.out))
    _set(model.blocks[1].attn.W_V[0], values)
    if scores is not None:
        _set(model.blocks[1].attn.W_K[0], scores)
        _set(model.blocks[1].attn.W_Q[0], np.eye(len(scores)))
    _set(model.blocks[1].mlp.W_in, np.stack([row for row, _ in rules], axis=1))
    _set(model.blocks[1].mlp.W_out, np.stack([verdicts.vector(written) for _, written in rules]))
    law = np.zeros((verdicts.width, grammar.vocab_size))
    law[verdicts["constant"], 0 : 2 * k : 2] = law[verdicts["constant"], grammar.end] = CLEAR / 3
    law[verdicts["full"], 0 : 2 * k : 2] = -CLEAR
    for t in range(k):
        law[verdicts[f"close {t}"], 2 * t + 1] = CLEAR
        law[verdicts[f"close {t}"], grammar.end] = -CLEAR
    _set(model.unembed.W_U, law)
    return model


def _set(parameter: torch.Tensor, value: Array) -> None:
    """Copy `value` into the leading part of `parameter`; the rest stays 0."""
    with torch.no_grad():
        parameter[tuple(slice(0, n) for n in value.shape)] = torch.from_numpy(value).to(parameter.dtype)
