"""Models whose weights are set by hand and proven right: the instruments' yardsticks.

- `balanced`: Theorem 1 of Wen et al. 2023 (sufficiency). Matched pairs cancel under any balanced attention.
- `uniform`: Corollary 1. Two layers, attention uniform in both, no positions.
- `stack`: in the spirit of Yao et al. 2021. Layer 1 finds the depth, layer 2 attends to the last unmatched opener.
- `constant`: Proposition 1. The attention of `stack`, and an output that never changes.

The first three give the law of `grammar.next_token_probs(..., mode="prefix")`. Everything is stated for
inputs that read START, then a legal prefix, then PAD. What is predicted after END or PAD means nothing.

How exact. Impossible tokens get e^-30 = 9.4e-14 each, so the law is met to a total variation of
(2k + 3) e^-30 plus the rounding of unembedding and softmax (1e-6 in float32), up to
`provenance["proven_length"]` brackets. That bound on rounding holds in whatever order a matrix product is
summed. In float32 it is over 500 for every k <= 4, D <= 6 with the defaults, in float64 in the millions;
in exact arithmetic there is none, except for `stack` (2 n_ctx - 20: its positions).

----------------------------------------------------------------------------------------------------
THE MLP (`_decide`). All four use one kind of MLP, of 3 linear maps (Theorem 1 allows 6). It reads a
stream h and answers yes-or-no questions exactly:

    literal i   a direction w_i and two levels lo_i < hi_i; on every input that can occur w_i.h is either
                <= lo_i (false) or >= hi_i (true). First hidden layer, its *doubt*:
                    y_i = ReLU((hi_i - w_i.h) / (hi_i - lo_i)):    0 if true, >= 1 if false.
    rule r      a set R of literals. Second hidden layer:
                    c_r = ReLU(1 - sum_{i in R} y_i):              1 if all are true, 0 otherwise.
    output      sum_r c_r out_r.

Every value above is clipped, not approximated: c_r is 0.0 or 1.0 to the last bit, in every precision, as
long as h keeps off the gaps (lo_i, hi_i). So rounding upstream is wiped out here, and the proofs below
only have to show a margin. Lemmas 15, 17, 18 of the paper (interpolation, indexing) are not needed.

THE HEAD (`_write_law`). The last MLP writes one-hot verdicts: coordinate 2t says "the last unmatched
opener has type t, and there is room above it", 2t + 1 says "... and depth D is reached"; none means
depth 0. W_U and b_U spell out the law, impossible tokens at logit -30:

    none      log(1/k) at openers, -30 elsewhere                                  (this is b_U)
    2t        + log q at openers, + 30 + log(1-q) at closer t
    2t + 1    - 30 - log(1/k) at openers, + 30 at closer t
----------------------------------------------------------------------------------------------------
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from interp.checks import plain
from interp.config import TransformerConfig
from interp.errors import RequestError, quoted
from interp.model import SandboxTransformer
from interp.rng import generator
from interp.torch_modes import ordinary_torch
from interp.worlds.dyck.grammar import DyckGrammar
from interp.worlds.dyck.recipes import CONSTRUCTED

IMPOSSIBLE = -30.0
Array = NDArray[np.float64]
Literal = tuple[Array, float, float]  # direction, highest value when false, least value when true
Rule = tuple[Sequence[int], Array]  # literals that must all hold, what is then written


# -- (a) Theorem 1 ------------------------------------------------------------------------------------


def balanced(
    grammar: DyckGrammar | None = None,
    *,
    spread: float = 0.5,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> SandboxTransformer:
    """Theorem 1: on a minimal first layer, a balanced attention and values of matched pairs that cancel.

    Attention is drawn at random, with `seed`, among balanced ones with scores in -`spread`..`spread`;
    `spread=0` is uniform attention. `dtype` is what exp(a) is rounded to: take float64 where the balance
    violation must be below 1e-7, since `.double()` of a float32 model keeps float32's rounding of its weights.

    Raises `RequestError` for a spread that is negative or not finite.
    """
    # PROOF. Stream: e(open t,d), e(close t,d), e(START), the coordinate basis of the oracle embedding
    # (eq. 15). d is the depth of the pair, 1..D, for both partners: width m = 2kD + 1.
    #
    # W_K  e(x) -> e(x).
    # W_Q  e(x) -> the row of scores of query x, for any r and a:
    #          score(open t,d)  = r(x; t,d) + a(t,d)/2
    #          score(close t,d) = r(x; t,d) - a(t,d)/2        score(START) = 0
    #      Their difference is a(t,d) for every query: the balance condition, eq. 11 / 19.
    # W_V  e(open t,d)  -> b(t,d) = e(open t,d) - e(close t,d)
    #      e(close t,d) -> -exp(a(t,d)) b(t,d)
    #      e(START)     -> s = (1/(2kD), ..., 1/(2kD), -1)
    #      The b are orthogonal, s to all of them, and all sum to 0, so centring does nothing (eqs. 21-23
    #      ask for any orthonormal b; these leave h readable). Were s zero, as in eq. 23, nothing but rounding
    #      would be left at depth 0, and a norm with C = 0 would blow it up to length 1.
    #
    # Attention output, up to the softmax's denominator. A matched pair contributes exp(r + a/2) b -
    # exp(r - a/2) exp(a) b = 0 (eq. 28). An unmatched opener (t,d) contributes c b(t,d) with
    # c = exp(r + a/2) in [1/E, E], E = exp(spread). START contributes s. So z = s + sum_unmatched c b and
    # h = z/|z| + e(last token), with 1 < |z| <= E sqrt(2D + 3/2) since |s|^2 = 1 + 1/(2kD) <= 3/2.
    #
    # Literals. Every coordinate of a unit vector in span{b, s} is at most sqrt(1/2 + 1/6) < 0.817.
    #   O(t,d)  "the last token is open t,d":  h[open t,d]. True: >= 1 (its own c and s add to it).
    #           False: <= 0.817. Levels 0.875, 0.9375.
    #   L(d)    "the last token closes a pair of depth d", d >= 2:  sum_t h[close t,d]. True: >= 1, for no
    #           opener of depth d is unmatched now. False: <= k/(2kD) <= 1/4. Levels 0.5, 0.75.
    #   S(t,d)  "open t,d is unmatched", d < D, asked only with L(d + 1), so that the last token adds
    #           nothing:  h[open t,d] - h[close t,d] = 2c/|z|. True: >= M = 2/(E^2 sqrt(2D + 3/2)).
    #           False: 0. Levels M/3, 2M/3.
    # Rules.
    #   O(t,d)               -> verdict 2t, or 2t + 1 if d = D          (an opener is itself on top)
    #   S(t,d) and L(d + 1)  -> verdict 2t                              (a closer leaves depth d < D)
    # Exactly one rule fires at depth >= 1, none at depth 0 (START, or a closer of a pair of depth 1).
    #
    # Rounding. n tokens, unit roundoff u. Terms are at most E and carry a relative error <= 20 u (score,
    # exp, division, value, product). Openers and closers of a coordinate pair off, so partial sums in any
    # order are at most (n/2 + D) E, and each of n additions errs by u times that:
    #     |error of a coordinate of z| <= n (n/2 + D + 20) E u =: noise(n),
    # also summed over coordinates, since the tokens share them out. |z| > 1, so every literal holds as
    # long as 2 noise(n) <= min(M/3, 1/10): n > 500 in float32 for spread 0.5 and D <= 6.
    grammar, spread = grammar or DyckGrammar(), plain(spread)
    if isinstance(spread, bool) or not isinstance(spread, (int, float)) or not 0 <= spread < math.inf:
        raise RequestError(f"spread={quoted(spread)} is not a finite number of at least 0")
    basis = Basis(_states(grammar))
    literals, rules = _read_balanced(grammar, basis, spread)
    model = _model(
        grammar,
        "constructed/balanced",
        dtype,
        layers=[(literals, rules)],
        width=basis.width,
        embedding="minimal",
        provenance={"seed": seed, "spread": spread, "proven_length": _proven(grammar, spread)},
    )
    source = generator(seed, "constructed/balanced")
    pairs = (grammar.num_types, grammar.max_depth)
    half_a = source.uniform(-spread / 2, spread / 2, pairs)
    common = source.uniform(-spread / 2, spread / 2, (basis.width, *pairs))  # r, of each query
    scores = np.zeros((basis.width, basis.width))  # [query, key]
    for t, d in np.ndindex(pairs):
        scores[:, basis["open", t, d + 1]] = common[:, t, d] + half_a[t, d]
        scores[:, basis["close", t, d + 1]] = common[:, t, d] - half_a[t, d]
    attention: Any = model.blocks[0].attn
    _set(attention.W_K, np.eye(basis.width)[None])
    _set(attention.W_Q, scores[None])
    _set(attention.W_V, _pair_values(grammar, basis, 2 * half_a)[None])
    _write_law(model, grammar)
    return model


def _pair_values(grammar: DyckGrammar, basis: "Basis", a: Array) -> Array:
    """W_V of Theorem 1: openers b, closers -exp(a) b, START s."""
    values = np.zeros((basis.width, basis.width))
    for t, d in np.ndindex(a.shape):
        b = basis.vector({("open", t, d + 1): 1, ("close", t, d + 1): -1})
        values[basis["open", t, d + 1]] = b
        values[basis["close", t, d + 1]] = -math.exp(a[t, d]) * b
    brackets = _states(grammar)[:-1]
    values[basis["START"]] = basis.vector({**{state: 1 / len(brackets) for state in brackets}, "START": -1})
    return values


def _read_balanced(grammar: DyckGrammar, basis: "Basis", spread: float) -> tuple[list[Literal], list[Rule]]:
    """Literals O, S, L and rules of `balanced`."""
    k, depth = grammar.num_types, grammar.max_depth
    least = _least_signal(grammar, spread)
    literals: list[Literal] = []
    rules: list[Rule] = []
    for t in range(k):
        for d in range(1, depth + 1):
            rules.append(([len(literals)], basis.one_hot(2 * t + (d == depth))))
            literals.append((basis.vector({("open", t, d): 1}), 0.875, 0.9375))
    for d in range(1, depth):
        just_closed = len(literals)
        literals.append((basis.vector({("close", t, d + 1): 1 for t in range(k)}), 0.5, 0.75))
        for t in range(k):
            rules.append(([len(literals), just_closed], basis.one_hot(2 * t)))
            unmatched = basis.vector({("open", t, d): 1, ("close", t, d): -1})
            literals.append((unmatched, least / 3, 2 * least / 3))
    return literals, rules


def _least_signal(grammar: DyckGrammar, spread: float) -> float:
    """M of `balanced`: the least h[open t,d] - h[close t,d] of an unmatched opener."""
    return 2 * math.exp(-2 * spread) / math.sqrt(2 * grammar.max_depth + 1.5)


def _proven(grammar: DyckGrammar, spread: float) -> dict[str, int]:
    """Number of brackets up to which rounding cannot change a decision, by the bound in `balanced`."""
    allowed = min(_least_signal(grammar, spread) / 3, 0.1) / 2 * math.exp(-spread)
    shift = grammar.max_depth + 20  # n (n/2 + shift) u <= allowed
    return {
        name: int(math.sqrt(shift**2 + 2 * allowed / unit) - shift) - 1
        for name, unit in (("float32", 2.0**-24), ("float64", 2.0**-53))
    }


# -- (b) Corollary 1 ----------------------------------------------------------------------------------


def uniform(grammar: DyckGrammar | None = None, *, dtype: torch.dtype = torch.float32) -> SandboxTransformer:
    """Corollary 1: attention uniform in both layers, no positions, any length."""
    # PROOF. Stream: the coordinates of `balanced`, e(open t,d), e(close t,d), e(START), and four more,
    # e(depth+), e(depth-), e(start+), e(start-).
    #
    # Layer 1 is `_find_depth` and leaves exactly e(last token with the depth of its pair), one-hot to the
    # last bit. Layer 2 is `balanced` with a = 0 and all scores 0, on a stream with four idle coordinates:
    # its vectors sum to 0 and never touch them, so its proof holds as it stands (E = 1), with "no
    # denominator" in place of the common factor 1/n.
    # Rounding: layer 1 asks for noise(n) <= 1/4, layer 2 for 2 noise(n) <= min(M/3, 1/10), which is less.
    grammar = grammar or DyckGrammar()
    basis = Basis([*_states(grammar), *_SCRATCH])
    model = _model(
        grammar,
        "constructed/uniform",
        dtype,
        layers=[_read_depth(grammar, basis), _read_balanced(grammar, basis, 0.0)],
        width=basis.width,
        attention="uniform",
        provenance={"seed": 0, "proven_length": _proven(grammar, 0.0)},
    )
    _find_depth(model, grammar, basis)
    no_a = np.zeros((grammar.num_types, grammar.max_depth))
    _set(model.blocks[1].attn.W_V, _pair_values(grammar, basis, no_a)[None])
    _write_law(model, grammar)
    return model


_SCRATCH = ("depth+", "depth-", "start+", "start-")


def _find_depth(model: SandboxTransformer, grammar: DyckGrammar, basis: "Basis") -> None:
    """Embedding and values of a first layer that finds the depth by uniform attention."""
    # PROOF. f = e(depth+) - e(depth-) and g = e(start+) - e(start-) sum to 0 and are orthogonal.
    #
    # W_E  opener t -> e(open t,1), closer t -> e(close t,1) (as if all were of depth 1), START -> e(START),
    #      END and PAD -> 0.
    # W_V  e(open t,1) -> f, e(close t,1) -> -f, e(START) -> g.
    #
    # Uniform attention over n tokens gives z = (depth f + g)/n, depth being that after the last token.
    # START keeps z from 0, and the norm removes n: z/|z| = (depth f + g)/(sqrt 2 sqrt(depth^2 + 1)), so that
    # depth : 1 can be read at any length (eq. 30; the printed one leaves the 1/n out, which C = 0 permits).
    #
    # Literals (`_read_depth`), with h = z/|z| + W_E(last token):
    #   T(x)    "the last token is x": h[its coordinate] is exactly 1 or 0, for z is 0 there. Levels 1/4, 3/4.
    #   G(d)    "depth >= d", 1 <= d <= D: (h[depth+] - h[depth-]) - (d - 1/2) (h[start+] - h[start-])
    #           = sqrt 2 (depth - d + 1/2)/sqrt(depth^2 + 1). True: >= 2m, false: <= -2m, with
    #           m = 1/(2 sqrt 2 sqrt(D^2 + 1)). Levels -m, m.
    #   B(d)    "depth < d": the same with the sign turned.
    # Rules.
    #   T(opener t), G(d), and B(d + 1) if d < D  -> e(open t,d)
    #   T(closer t), G(d - 1) if d > 1, and B(d)  -> e(close t,d)        (it left depth d - 1)
    #   T(START)                                  -> e(START)
    # Exactly one fires.
    #
    # Rounding. Of the coordinate depth+ it is at most noise(n) = n (n/2 + D + 20) u in units of 1/n, and the
    # literal's two f coordinates together 2 noise(n): G stays clear of its levels while noise(n) <= 1/4
    # (true: (1 - 2 noise)/|n z| >= (1/2)/(sqrt 2 sqrt(D^2 + 1)) = m).
    embedding = np.zeros((grammar.vocab_size, basis.width))
    values = np.zeros((basis.width, basis.width))
    f = basis.vector({"depth+": 1, "depth-": -1})
    for t in range(grammar.num_types):
        for side, token, sign in (("open", 2 * t, 1), ("close", 2 * t + 1, -1)):
            embedding[token, basis[side, t, 1]] = 1
            values[basis[side, t, 1]] = sign * f
    embedding[grammar.start, basis["START"]] = 1
    values[basis["START"]] = basis.vector({"start+": 1, "start-": -1})
    _set(model.embed.W_E, embedding)
    _set(model.blocks[0].attn.W_V, values[None])


def _read_depth(grammar: DyckGrammar, basis: "Basis") -> tuple[list[Literal], list[Rule]]:
    """Literals T, G, B and rules of `_find_depth`."""
    k, depth = grammar.num_types, grammar.max_depth
    margin = 1 / (2 * math.sqrt(2) * math.sqrt(depth**2 + 1))
    literals: list[Literal] = []
    rules: list[Rule] = []
    at_least, below = {}, {}
    for d in range(1, depth + 1):
        over = basis.vector({"depth+": 1, "depth-": -1, "start+": -(d - 0.5), "start-": d - 0.5})
        at_least[d], below[d] = len(literals), len(literals) + 1
        literals += [(over, -margin, margin), (-over, -margin, margin)]
    for t in range(k):
        opener, closer = len(literals), len(literals) + 1
        literals += [(basis.vector({(side, t, 1): 1}), 0.25, 0.75) for side in ("open", "close")]
        for d in range(1, depth + 1):
            opened = [at_least[d], *([below[d + 1]] if d < depth else [])]
            closed = [below[d], *([at_least[d - 1]] if d > 1 else [])]
            rules.append(([opener, *opened], basis.vector({("open", t, d): 1})))
            rules.append(([closer, *closed], basis.vector({("close", t, d): 1})))
    rules.append(([len(literals)], basis.vector({"START": 1})))
    literals.append((basis.vector({"START": 1}), 0.25, 0.75))
    return literals, rules


# -- (c) a stack, (d) and Proposition 1 ---------------------------------------------------------------

STEP = 4.0  # score of one position of recency in `stack`


def stack(
    grammar: DyckGrammar | None = None, *, n_ctx: int = 512, dtype: torch.dtype = torch.float32
) -> SandboxTransformer:
    """Layer 1 finds the depth, layer 2 attends to the last unmatched opener, which alone decides the law.

    Linear positions break the tie between openers of one depth. At every query of depth >= 1 that opener
    holds at least 0.9996 of the mass, up to 2 `n_ctx` - 20 brackets.
    """
    # PROOF. Stream: e(open t,d), e(close t,d), e(START), the scratch of `_find_depth`, e(position), and
    # e(type+ t), e(type- t) of each type t. Linear positions: w_pos = e(position) adds p = i / n_ctx at
    # position i, START being 0.
    #
    # Layer 1. W_Q = W_K = 0: softmax of zeros, uniform. Everything else is `_find_depth`, whose vectors are
    # 0 at e(position); its MLP also carries p through both hidden layers (p >= 0, so ReLU keeps it), read as
    # h[position] - h[type+ 0]: the second is 0, and should the norm's mean be off by rounding, both shift
    # alike. The stream is then e(last token, depth of its pair) + p e(position).
    #
    # Layer 2. Coordinates of the head: 0..D for a depth, D + 1 for recency.
    # W_Q  e(open t,d) -> [d] + [D + 1];  e(close t,d) -> [d - 1] + [D + 1];  e(START) -> [0] + [D + 1]: the
    #      depth after the query, and a constant.
    # W_K  e(open t,d) -> A [d];  e(START) -> A [0];  closers -> 0;  e(position) -> 4 n_ctx [D + 1], so that
    #      position i scores 4 i. A = 8 n_ctx.
    # score = A (the key is an opener, or START, of the query's depth) + 4 i.
    # The last unmatched opener at depth d >= 1 is the most recent opener of depth d: a later one would have
    # had to close it first. Rivals:
    #   - earlier openers of depth d: between two of them stands a closer, so the j-th before is at least 2j
    #     positions back and has at most e^-8j of the target's mass: together <= e^-8/(1 - e^-8) < 3.4e-4;
    #   - all other keys, among n: at most e^(4 n - A) each; for n <= 2 n_ctx - 20, n e^(4 n - A) <= n e^-80.
    # So the target's mass is >= 1 - 3.4e-4. Rounding: p errs by 2 u p at most and so a score, of 16 n_ctx at
    # most, by 4 times u of it: for n_ctx = 512 and float32, 2e-3, which moves e^-8 by 0.4 %.
    # At depth 0 the target is START, by the same argument.
    # W_V  e(open t,d) -> e(type+ t) - e(type- t);  e(START) -> e(start+) - e(start-);  all else -> 0.
    #
    # Literals, on h = z/|z| + stream:
    #   T(t)  "what is attended to is of type t": h[type+ t] - h[type- t], where the stream is 0. True:
    #         >= sqrt 2 (1 - 1e-3). False: <= 1e-3. Levels 1/2, 1.
    #   R     "0 < depth < D": sum of the stream's e(open t,d), d < D, and e(close t,d), d > 1. 1 or 0, for z is
    #         0 there. Levels 1/4, 3/4.         F  "depth = D": sum of e(open t,D), likewise.
    # Rules: T(t) and R -> verdict 2t; T(t) and F -> verdict 2t + 1. At depth 0 neither R nor F holds.
    # The type comes from attention alone, at openers too: this head is used wherever a closer may follow.
    grammar = grammar or DyckGrammar()
    k, depth = grammar.num_types, grammar.max_depth
    types = [(f"type{sign}", t) for t in range(k) for sign in "+-"]
    basis = Basis([*_states(grammar), *_SCRATCH, "position", *types])
    proven = {"float32": 2 * n_ctx - 20, "float64": 2 * n_ctx - 20}
    proven["float32"] = min(proven["float32"], _proven(grammar, 0.0)["float32"])
    model = _model(
        grammar,
        "constructed/stack",
        dtype,
        layers=[_read_depth(grammar, basis), _read_type(grammar, basis)],
        width=basis.width,
        carry=basis.vector({"position": 1, ("type+", 0): -1}),
        positions="linear",
        n_ctx=n_ctx,
        provenance={"seed": 0, "proven_length": proven},
    )
    _find_depth(model, grammar, basis)
    _set(model.pos_embed.w_pos, basis.vector({"position": 1}))
    queries, keys, values = (np.zeros((basis.width, basis.width)) for _ in range(3))
    recency, match = depth + 1, 2 * STEP * n_ctx
    for t in range(k):
        for d in range(1, depth + 1):
            queries[basis["open", t, d], [d, recency]] = 1
            queries[basis["close", t, d], [d - 1, recency]] = 1
            keys[basis["open", t, d], d] = match
            values[basis["open", t, d]] = basis.vector({("type+", t): 1, ("type-", t): -1})
    queries[basis["START"], [0, recency]] = 1
    keys[basis["START"], 0] = match
    keys[basis["position"], recency] = STEP * n_ctx
    values[basis["START"]] = basis.vector({"start+": 1, "start-": -1})
    attention: Any = model.blocks[1].attn
    _set(attention.W_Q, queries[None])
    _set(attention.W_K, keys[None])
    _set(attention.W_V, values[None])
    _write_law(model, grammar)
    return model


def _read_type(grammar: DyckGrammar, basis: "Basis") -> tuple[list[Literal], list[Rule]]:
    """Literals T, R, F and rules of `stack`."""
    k, depth = grammar.num_types, grammar.max_depth
    literals: list[Literal] = [(basis.vector({("type+", t): 1, ("type-", t): -1}), 0.5, 1.0) for t in range(k)]
    room = [("open", t, d) for t in range(k) for d in range(1, depth)]
    room += [("close", t, d) for t in range(k) for d in range(2, depth + 1)]
    full = [("open", t, depth) for t in range(k)]
    literals += [(basis.vector(dict.fromkeys(states, 1)), 0.25, 0.75) for states in (room, full)]
    rules: list[Rule] = [([t, k + f], basis.one_hot(2 * t + f)) for t in range(k) for f in (0, 1)]
    return literals, rules


def constant(
    grammar: DyckGrammar | None = None, *, n_ctx: int = 512, dtype: torch.dtype = torch.float32
) -> SandboxTransformer:
    """Proposition 1: attends as `stack` does, and always says the same."""
    # PROOF. All weights but the unembedding are those of `stack`, so its attention is. W_U = 0 and b_U = 0:
    # every logit is 0 whatever the input.
    model = stack(grammar, n_ctx=n_ctx, dtype=dtype)
    name = "constructed/constant"
    model.provenance |= {"name": name, "about": CONSTRUCTED[name]}
    with torch.no_grad():
        model.unembed.W_U.zero_()
        model.unembed.b_U.zero_()
    return model


_BUILDERS: dict[str, Callable[[], SandboxTransformer]] = {
    "constructed/balanced": balanced,
    "constructed/uniform": uniform,
    "constructed/stack": stack,
    "constructed/constant": constant,
}


@ordinary_torch()
def construct(name: str) -> SandboxTransformer:
    """The constructed model of that name, for the default grammar. Raises `RequestError` if there is none."""
    if name not in _BUILDERS:
        raise RequestError(f"no constructed model {quoted(name)}; there are {', '.join(_BUILDERS)}")
    return _BUILDERS[name]()


# -- shared pieces ------------------------------------------------------------------------------------


class Basis:
    """Names of the coordinates of a residual stream."""

    def __init__(self, names: Sequence[Hashable]):
        self.index = {name: i for i, name in enumerate(names)}
        self.width = len(self.index)

    def __getitem__(self, name: Hashable) -> int:
        return self.index[name]

    def vector(self, entries: dict[Any, float]) -> Array:
        """The vector with these entries, 0 elsewhere."""
        out = np.zeros(self.width)
        for name, value in entries.items():
            out[self.index[name]] = value
        return out

    def one_hot(self, coordinate: int) -> Array:
        """A vector by number, for verdicts, which take over the stream after the last MLP."""
        return np.eye(self.width)[coordinate]


def _states(grammar: DyckGrammar) -> list[Hashable]:
    """(side, type, depth of the pair) and START: the coordinates of the oracle embedding of eq. 15, in its order."""
    depths = range(1, grammar.max_depth + 1)
    brackets = [(side, t, d) for t in range(grammar.num_types) for side in ("open", "close") for d in depths]
    return [*brackets, "START"]


def _model(
    grammar: DyckGrammar,
    name: str,
    dtype: torch.dtype,
    *,
    layers: list[tuple[list[Literal], list[Rule]]],
    width: int,
    provenance: dict[str, Any],
    carry: Array | None = None,
    **choices: Any,
) -> SandboxTransformer:
    """A model of eq. 6 with these MLPs, all other weights zero. `carry`: see `_carry`, for the first MLP."""
    carried = 0 if carry is None else 1
    config = TransformerConfig(
        grammar.vocab_size,
        n_layers=len(layers),
        d_model=width,
        d_head=width,
        d_mlp=carried + max(max(len(literals), len(rules)) for literals, rules in layers),
        mlp_depth=3,
        block="paper",
        norm="unit",
        norm_eps=0.0,
        activation="relu",
        scale_scores=False,
        pad_token=grammar.pad,
        num_types=grammar.num_types,
        max_depth=grammar.max_depth,
        **choices,
    )
    header = {"name": name, "about": CONSTRUCTED[name], "trained": False, "constructed": True}
    model = SandboxTransformer(config, grammar, {**header, **provenance}).to(dtype)
    for block, (literals, rules) in zip(model.blocks, layers, strict=True):
        _decide(block.mlp, literals, rules)
    if carry is not None:
        _carry(model.blocks[0].mlp, carry)
    return model


def _decide(mlp: Any, literals: list[Literal], rules: list[Rule]) -> None:
    """The MLP at the head of this file."""
    w_in, b_in = np.zeros(mlp.W_in.shape), np.zeros(mlp.b_in.shape)
    w_hid, b_hid = np.zeros(mlp.W_hid_1.shape), np.zeros(mlp.b_hid_1.shape)
    w_out = np.zeros(mlp.W_out.shape)
    for i, (direction, lo, hi) in enumerate(literals):
        w_in[:, i], b_in[i] = -direction / (hi - lo), hi / (hi - lo)
    for r, (needed, written) in enumerate(rules):
        w_hid[list(needed), r], b_hid[r] = -1, 1
        w_out[r] = written
    _set(mlp.W_in, w_in)
    _set(mlp.b_in, b_in)
    _set(mlp.W_hid_1, w_hid)
    _set(mlp.b_hid_1, b_hid)
    _set(mlp.W_out, w_out)


def _carry(mlp: Any, direction: Array) -> None:
    """Pass direction . h, which is never negative, on to the coordinate where `direction` is 1 (last hidden units)."""
    with torch.no_grad():
        mlp.W_in[:, -1] = torch.from_numpy(direction)
        mlp.W_hid_1[-1, -1] = mlp.W_out[-1, int(direction.argmax())] = 1


def _write_law(model: SandboxTransformer, grammar: DyckGrammar) -> None:
    """W_U and b_U: from verdicts to the law."""
    k, q, start = grammar.num_types, grammar.open_prob, grammar.start
    at_zero = np.full(grammar.vocab_size, IMPOSSIBLE)
    at_zero[0:start:2] = -math.log(k)
    law = np.zeros((model.config.d_model, grammar.vocab_size))
    for t in range(k):
        law[2 * t, 0:start:2] = math.log(q)
        law[2 * t, 2 * t + 1] = math.log(1 - q) - IMPOSSIBLE
        law[2 * t + 1, 0:start:2] = IMPOSSIBLE + math.log(k)
        law[2 * t + 1, 2 * t + 1] = -IMPOSSIBLE
    _set(model.unembed.W_U, law)
    _set(model.unembed.b_U, at_zero)


def _set(parameter: Tensor | nn.Module, value: ArrayLike) -> None:
    assert isinstance(parameter, Tensor)
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.asarray(value, dtype=np.float64)))
