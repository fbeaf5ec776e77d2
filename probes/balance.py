"""Balance violation: do matched pairs of brackets cancel in what an attention layer writes?

Wen et al. 2023, section 3.1 and App. C.4. For one layer and head, with key and query named,
u(key, query) = P_perp exp(score(key, query) - max score of that query) * (what the key's value adds).
A matched pair has an opener of type i at depth d' and its closer at depth d' - 1; queries are closers.
The paper writes u(query, key) in eqs. 14 and 31-33 but u(key, query) in eq. 12; value and P_perp act on the key.

    S[d,d',i,j] = u(open i at d') + u(close i at d'-1)                      query: close j at d-1   (eq. 31)
    Q(j,d,t)    = u(START) + sum_{d''<d} u(open t_d'' at d'') + u(open j at d) + u(close j at d-1)  (eq. 32)
    P[d,j]      = the second smallest, over the top type c, of the least |Q| over stacks t that end in c
    beta        = mean over d in 2..D, d' in 1..D, i, j of |S| / P[d,j]                (section 4.2, eq. 33)

Three forms, one result. *Exact*: the first layer is minimal, so that what a state (bracket, depth)
gives as query, key and value is one vector. *Empirical*: any causal Dyck model; the vectors are means over
sampled contexts, and the share of their variance that the state explains says how far from exact.
*Functional*: anything that maps tokens to logits; how much the prediction moves when matched pairs
are put before a string (eq. 18). beta has its meaning only where a norm sits directly on the attention
output; elsewhere the functional form is the headline.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.errors import AnalysisError
from interp.grammars import DyckGrammar
from interp.rng import generator
from interp.stats import Estimate, bootstrap_mean, mean_over_seeds
from probes._result import Result

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = NDArray[np.float64]
EXACT = 1 - 1e-6  # share of variance from which a state counts as one vector


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
      of openers and closers vary independently over queries. It is no substitute for beta.
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
    condition = _condition(states)
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


# -- what a model makes of each state -----------------------------------------------------------------


@dataclass(frozen=True)
class HeadStates:
    """One head's `vectors`, and the share of the variance of its queries, keys and values that they explain."""

    vectors: StateVectors
    explained: float


def head_states(
    model: Any, layer: int, grammar: DyckGrammar, *, num_inputs: int = 300, length: int = 28, seed: int = 0
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
    with torch.no_grad():
        _, cache = model.run_with_cache(
            torch.from_numpy(tokens).to(model.cfg.device), names_filter=list(present.values()), return_type=None
        )
        projection = model.blocks[layer].attn.W_O.detach().to("cpu", torch.float64).numpy()  # [head, d_head, m]
    parts = {part: cache[name].to("cpu", torch.float64).numpy() for part, name in present.items()}
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


# -- the functional form ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Insertion:
    """How predictions move when `pairs` matched pairs are put before a string. Arrays [inputs].

    - `tv`: total variation of the next-token distributions, mean over the string's positions, 0 to 1.
    - `mse`: mean squared difference of logits (eq. 18).
    - `shift`: `tv` when nothing is inserted but positions move by 2 * pairs; None without positions.
    """

    pairs: int
    tv: Array
    mse: Array
    shift: Array | None


def insertions(
    logits: Callable[[torch.Tensor], torch.Tensor],
    grammar: DyckGrammar,
    counts: Sequence[int],
    *,
    num_inputs: int = 100,
    length: int = 28,
    seed: int = 0,
    shifted: Callable[[torch.Tensor, int], torch.Tensor] | None = None,
) -> tuple[list[Insertion], float]:
    """`Insertion` for each count, and the tv between unrelated strings at equal positions (the scale).

    Pairs are nested up to the depth bound, then a new nest begins; types are drawn at random.
    """
    strings = np.asarray(
        grammar.sample(num_inputs, seed=seed, mode="prefix", length=length, stream="insertions"), dtype=np.int64
    )
    start = np.full((num_inputs, 1), grammar.start)
    with torch.no_grad():
        plain = _tail(logits(torch.from_numpy(np.concatenate([start, strings], 1))), length)
        unrelated = float(_tv(plain, plain.roll(1, 0)).mean())
        results = []
        for count in counts:
            nests = _nests(grammar, num_inputs, count, seed)
            moved = _tail(logits(torch.from_numpy(np.concatenate([start, nests, strings], 1))), length)
            shift = None
            if shifted is not None:
                tokens = torch.from_numpy(np.concatenate([start, strings], 1))
                shift = _tv(plain, _tail(shifted(tokens, 2 * count), length))
            mse = (moved - plain).square().mean((1, 2)).numpy()
            results.append(Insertion(count, _tv(plain, moved), mse, shift))
    return results, unrelated


def _nests(grammar: DyckGrammar, rows: int, pairs: int, seed: int) -> NDArray[np.int64]:
    """`pairs` matched pairs of random types: nests of the full depth, the last one with what is left."""
    types = generator(seed, "nests", pairs).integers(0, grammar.num_types, (rows, pairs))
    columns = []
    for begin in range(0, pairs, grammar.max_depth):
        nest = types[:, begin : begin + grammar.max_depth]
        columns += [2 * nest, 2 * nest[:, ::-1] + 1]
    return np.concatenate(columns, 1)


def _tail(logits: torch.Tensor, length: int) -> torch.Tensor:
    """Logits after each of the last `length` tokens, float64 on the CPU."""
    return logits[:, -length:].to("cpu", torch.float64)


def _tv(a: torch.Tensor, b: torch.Tensor) -> Array:
    """Total variation between softmax(a) and softmax(b), mean over positions: [inputs]."""
    return np.asarray((a.softmax(-1) - b.softmax(-1)).abs().sum(-1).mean(-1).numpy() / 2)


# -- the analyzer -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BalanceResult(Result):
    """Balance violation of a model or population.

    - `beta`: mean over models, each of one head; undefined with the reason where there are several heads
      (denominators differ by head: see `by_head`), one bracket type, or no attention layer to read.
      Its `null` is the same figure for the untrained config and seeds. Interval over seeds.
    - `functional`: total variation of the next-token distributions when 1..D nested pairs are put before
      a string, mean over r ~ U[1..D] (the law of eq. 18). `null`: the tv between unrelated strings.
      Interval over seeds, for one model over inputs.
    - `contrastive`: the same as mean squared difference of logits (eq. 18).
    - `by_head`: beta a head.  `released`: the released code's variant.  `condition`: residual of eq. 11.
    - `explained`: share of the variance of queries, keys and values that (bracket, depth) explains, mean
      over models and heads; `exact` where it is 1.
    - `norm_on_output`: whether a norm sits directly on the attention output, so that beta means what the
      paper means. Where it does not, `functional` is the headline.
    - `by_count`: pairs inserted -> tv.  `shift_control`: pairs -> tv of moving positions alone.
    - `table` [d, d', i, j]: |S| / P, mean over models, first head (NaN -> None at d = 1).
    - `per_model`: beta of each model, first head.
    """

    beta: Estimate
    functional: Estimate
    contrastive: Estimate
    by_head: tuple[Estimate, ...]
    released: Estimate
    condition: Estimate
    explained: float | None
    exact: bool
    norm_on_output: bool
    by_count: dict[int, Estimate]
    shift_control: dict[int, Estimate]
    layer: int | None
    num_models: int
    table: Array = field(repr=False)
    per_model: tuple[float | None, ...] = field(repr=False)

    def summary(self) -> str:
        """What was measured, beside its nulls."""
        where = f"layer {self.layer}, " if self.layer is not None else ""
        lines = [f"Balance violation, {where}{self.num_models} model(s)"]
        lines.append(f"functional: {self.functional}; unrelated strings {_text(self.functional.null)}")
        untrained = self.beta.null
        note = "" if self.norm_on_output else "  (no norm on the attention output: see the functional form)"
        lines.append(f"beta: {self.beta}; untrained {_text(untrained)}{note}")
        if self.explained is not None:
            kind = "exact: minimal first layer" if self.exact else "mean over contexts"
            lines.append(f"states: {kind}; (bracket, depth) explains {self.explained:.3f} of q, k, v")
            lines.append(f"eq. 11 residual {self.condition}; released code's variant {self.released}")
        counts = ", ".join(f"{r}: {_text(e.value)}" for r, e in self.by_count.items())
        lines.append(f"tv by pairs inserted: {counts}")
        if self.shift_control:
            shifts = ", ".join(f"{r}: {_text(e.value)}" for r, e in self.shift_control.items())
            lines.append(f"moving positions alone: {shifts}")
        return "\n".join(lines)

    def figure(self) -> "go.Figure":
        """|S| / P over (d, d'), mean over types, and the functional form by pairs inserted."""
        return _figure(self)


def analyze_balance(
    model: Any,
    *,
    grammar: DyckGrammar | None = None,
    layer: int | None = None,
    seed: int = 0,
    num_inputs: int = 100,
    length: int = 28,
    untrained: bool = True,
) -> BalanceResult:
    """Balance violation of a model, a population, or (functional form only) a callable tokens -> logits.

    `layer`: which attention layer, from 0; the last by default. `grammar` replaces the models' own and is
    needed for a bridge or a callable. `num_inputs` strings of `length` brackets are drawn with `seed`.

    Raises `AnalysisError` when no grammar is known, the model is not causal, or a population is empty.
    """
    models = list(model) if isinstance(model, Sequence) else [model]
    if not models:
        raise AnalysisError("balance: an empty population has nothing to measure")
    first = models[0]
    grammar = grammar or getattr(model, "grammar", None) or getattr(first, "grammar", None)
    if not isinstance(grammar, DyckGrammar):
        raise AnalysisError("balance: the model carries no Dyck grammar: pass grammar=DyckGrammar(...)")
    hooked = hasattr(first, "hook_dict") and hasattr(first, "cfg")
    if hooked and getattr(first.cfg, "attention_dir", "causal") != "causal":
        raise AnalysisError("balance: S and P are defined for causal attention, and this model is bidirectional")
    if hooked:
        layer = _layer(first, layer)
    functional = [_functional(m, grammar, num_inputs, length, seed) for m in models]
    tables = [balance_tables(m, layer, grammar, seed) for m in models] if hooked and layer is not None else []
    null = None
    if tables and untrained and hasattr(model, "untrained"):
        null = _mean_beta([balance_tables(m, layer or 0, grammar, seed)[0] for m in model.untrained()]).value
    return _result(functional, tables, null, layer if hooked else None, first, grammar)


def _layer(model: Any, layer: int | None) -> int:
    count = int(model.cfg.n_layers)
    chosen = count - 1 if layer is None else layer
    if not 0 <= chosen < count:
        raise AnalysisError(f"balance: no layer {chosen}: this model has layers 0..{count - 1}")
    return chosen


def balance_tables(model: Any, layer: int, grammar: DyckGrammar, seed: int) -> tuple[list[BalanceTable], float]:
    """A table a head, and the mean share explained. Measured on a float64 copy where one can be made."""
    config = getattr(model, "config", None)
    if config is not None and hasattr(model, "state_dict") and type(model).__name__ == "SandboxTransformer":
        copy = type(model)(config, grammar).double()
        copy.load_state_dict(model.state_dict())
        model = copy
    heads = head_states(model, layer, grammar, seed=seed)
    return [balance_table(h.vectors) for h in heads], float(np.mean([h.explained for h in heads]))


def _functional(
    model: Any, grammar: DyckGrammar, num_inputs: int, length: int, seed: int
) -> tuple[list[Insertion], float]:
    config: Any = getattr(model, "config", None)
    positions = getattr(config, "positions", "none")
    counts = [*range(1, grammar.max_depth + 1), *(m * grammar.max_depth for m in (2, 4, 8))]
    if positions == "learned":
        counts = [c for c in counts if 1 + 2 * c + length <= config.n_ctx]
        if not counts:
            raise AnalysisError(f"balance: n_ctx={config.n_ctx} leaves no room before strings of {length} brackets")

    def shifted(tokens: torch.Tensor, by: int) -> torch.Tensor:
        moved = torch.arange(tokens.shape[1])[None] + by
        moved[:, 0] = 0  # START stays where it is
        return model(tokens, positions=moved)

    return insertions(
        model,
        grammar,
        counts,
        num_inputs=num_inputs,
        length=length,
        seed=seed,
        shifted=None if positions == "none" else shifted,
    )


def _result(
    functional: list[tuple[list[Insertion], float]],
    tables: list[tuple[list[BalanceTable], float]],
    null: float | None,
    layer: int | None,
    first: Any,
    grammar: DyckGrammar,
) -> BalanceResult:
    nested = grammar.max_depth  # the counts 1..D come first
    unrelated = float(np.mean([scale for _, scale in functional]))

    def over_models(values: list[Array]) -> Estimate:
        """Over seeds for a population, over inputs for one model; `values` [inputs] a model."""
        return bootstrap_mean(values[0], 0) if len(values) == 1 else mean_over_seeds([v.mean() for v in values])

    counts = [row.pairs for row in functional[0][0]]
    by_count, shifts = {}, {}
    for i, pairs in enumerate(counts):
        by_count[pairs] = over_models([rows[i].tv for rows, _ in functional])
        if functional[0][0][i].shift is not None:
            shifts[pairs] = over_models([_known(rows[i].shift) for rows, _ in functional])
    n = len(functional)
    if not tables:
        beta = Estimate.undefined("a callable shows no attention: only the functional form applies", n, "seeds")
        by_head: tuple[Estimate, ...] = ()
        released = condition = beta
    else:
        by_head = tuple(_mean_beta([t[h] for t, _ in tables]) for h in range(len(tables[0][0])))
        firsts = [t[0] for t, _ in tables]
        beta = by_head[0]
        if len(by_head) > 1:
            reason = f"{len(by_head)} heads have different denominators: see by_head and the functional form"
            beta = Estimate.undefined(reason, n, "seeds")
        released = _mean([t.released for t in firsts], firsts)
        condition = mean_over_seeds([t.condition for t in firsts])
    block = getattr(getattr(first, "config", None), "block", None)
    explained = float(np.mean([e for _, e in tables])) if tables else None
    return BalanceResult(
        beta=beta.with_null(null),
        functional=over_models([np.mean([r.tv for r in rows[:nested]], 0) for rows, _ in functional]).with_null(
            unrelated
        ),
        contrastive=over_models([np.mean([r.mse for r in rows[:nested]], 0) for rows, _ in functional]),
        by_head=by_head,
        released=released,
        condition=condition,
        explained=explained,
        exact=explained is not None and explained >= EXACT,
        norm_on_output=block in ("paper", "bare"),
        by_count=by_count,
        shift_control=shifts,
        layer=layer,
        num_models=n,
        table=np.mean([t[0].ratio for t, _ in tables], 0) if tables else np.zeros((0, 0, 0, 0)),
        per_model=tuple(t[0].beta for t, _ in tables),
    )


def _mean_beta(tables: list[BalanceTable] | list[Any]) -> Estimate:
    tables = [t[0] if isinstance(t, list) else t for t in tables]
    return _mean([t.beta for t in tables], tables)


def _mean(values: list[float | None], tables: list[BalanceTable]) -> Estimate:
    """Mean over models; undefined, with the reason, if it is for any of them."""
    for value, table in zip(values, tables, strict=True):
        if value is None:
            return Estimate.undefined(table.reason or "undefined", len(values), "seeds")
    return mean_over_seeds(values)


def _known(x: Array | None) -> Array:
    assert x is not None
    return x


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "none"


def _figure(result: BalanceResult) -> "go.Figure":
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from interp.plots.style import PALETTE, colorscale, template

    table = result.table[1:].mean((2, 3)) if result.table.size else result.table
    has_table = bool(table.size) and bool(np.isfinite(table).all())
    fig = make_subplots(
        rows=1,
        cols=2 if has_table else 1,
        horizontal_spacing=0.2,
        subplot_titles=(["|S| / P, mean over types"] if has_table else []) + ["predictions move by"],
    )
    if has_table:
        depth = table.shape[1]
        fig.add_trace(
            go.Heatmap(
                z=table,
                x=list(range(1, depth + 1)),
                y=list(range(2, depth + 1)),
                colorscale=colorscale(),
                zmin=0,
                colorbar={"x": 0.41, "thickness": 12},
                hovertemplate="query at depth %{y}, pair at depth %{x}: %{z:.3f}<extra></extra>",
            ),
            row=1,
            col=1,
        )
        fig.update_xaxes(title_text="depth d' of the pair", dtick=1, row=1, col=1)
        fig.update_yaxes(title_text="depth d of the query's pair", dtick=1, row=1, col=1)
    column = 2 if has_table else 1
    for rows, name, colour in (
        (result.by_count, "matched pairs put before", PALETTE[0]),
        (result.shift_control, "positions moved alone", PALETTE[1]),
    ):
        if not rows:
            continue
        values = [e.value for e in rows.values()]
        error = {
            "array": [(e.high or e.value or 0) - (e.value or 0) for e in rows.values()],
            "arrayminus": [(e.value or 0) - (e.low or e.value or 0) for e in rows.values()],
        }
        fig.add_trace(
            go.Scatter(x=list(rows), y=values, error_y=error, mode="lines+markers", name=name, marker_color=colour),
            row=1,
            col=column,
        )
    scale = result.functional.null
    if isinstance(scale, float):
        fig.add_hline(
            y=scale, line_dash="dash", line_color=PALETTE[6], annotation_text="unrelated strings", row=1, col=column
        )
    fig.update_xaxes(title_text="pairs", row=1, col=column)
    fig.update_yaxes(title_text="total variation", rangemode="tozero", row=1, col=column)
    title = f"Balance violation: beta {_text(result.beta.value)}, functional {_text(result.functional.value)}"
    fig.update_layout(template=template(), title=title, width=980, height=420, legend={"orientation": "h", "y": -0.25})
    return fig
