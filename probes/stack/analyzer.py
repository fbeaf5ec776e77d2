"""Stack-likeness: does a head attend to the last unmatched open bracket, as a stack machine would?

Queries are brackets at depth >= 1; the target is the last opener that is still unmatched once the query
has been read. With mass m on it and chance c = 1 / (number of visible keys) a query scores
(m - c) / (1 - c): 1 for a perfect head, 0 for a uniform one. An opener is its own target, so looking
at oneself is enough there: those queries are *trivial* and reported apart. The headline, "stack-likeness (closers)",
is over closers inside a bracket. The "claim score" of an audit is another number: it is over every query to which the
claim applies, openers included.

On a closer three rivals never meet the target: the most recent opener and the previous token come
after it (the bracket just closed lies between), and START is no opener. All three score the mean of -c / (1 - c).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import not_read, optional_whole, true_or_false, whole_number
from interp.errors import AnalysisError, GrammarError
from interp.grammars import DyckGrammar
from interp.guests import grammar_of, hosting, layers_and_heads, longest_input, models_of, read_tokens, untrained_of
from interp.limits import check_memory
from interp.rng import check_seed
from interp.stats import GAP, SHARE, Estimate, Support
from interp.task_check import check_task
from interp.worlds.dyck.refusals import no_brackets
from probes.core import cut_short, mean_over_inputs, mean_over_seeds, recorded, unread_seed
from probes.stack.figure import RIVALS
from probes.stack.result import Nested, StackResult

Array = NDArray[np.float64]

NUM_INPUTS, LENGTH = 40, 28  # drawn by default: how many, of how many brackets
MEMORY = 2**23  # float64 numbers of patterns held at once: 64 MB, and as much again while they are read
TIE = 1e-5  # weights this close (relative) to the largest share the top place: float32 tells no more
SCORE = GAP  # of one key among two at least, so that chance is a half at most
_METRICS = ("score", "top1", "permuted", "permuted_top1")


@recorded
@hosting("stack-likeness")
def analyze_stack_likeness(
    model: Any,
    inputs: Any = None,
    *,
    grammar: DyckGrammar | None = None,
    seed: int = 0,
    num_inputs: int | None = None,
    length: int | None = None,
    untrained: bool = True,
    task_check: bool = True,
) -> StackResult:
    """Stack-likeness of every head of a model, a population, or a list of models of one shape.

    `inputs`: a text, a list of texts, or token ids [pos] or [batch, pos] (START first; PAD allowed on the
    right, never a query). Default: `num_inputs` (40) prefixes of `length` brackets (28, or the most that the model
    takes) drawn with `seed`, as are the intervals of one model; a result says if nothing was drawn.
    `grammar` replaces the models' own: it reads texts and names tokens, and a `TransformerBridge` needs it.
    `untrained=True` also measures the config and seeds before training, where they can be rebuilt.
    `task_check=False` measures models that do not do their grammar's task as well (see `interp.task_check`).

    In the result `score` and `top1` are nested, `[layer][head]`.

        >>> from interp import load_checkpoint
        >>> from probes import analyze_stack_likeness
        >>> result = analyze_stack_likeness(load_checkpoint("constructed/stack"), "([][])()", untrained=False)
        >>> result.score[1][0].value, result.score[1][0].null["untrained"]
        (1.0, None)

    Source: the claim is that of Ebrahimi et al. 2020, the score is ours.

    Raises `AnalysisError` when no grammar is known, a model is not causal, a population is empty, a model is at chance
    in its grammar's task, a string breaks the grammar, or no input has a closing bracket at depth >= 1; `RequestError`
    for inputs that cannot be read and for a grammar of another number of tokens than the models.
    """
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    task_check = true_or_false("task_check", task_check)
    models = models_of(model, "stack-likeness")
    grammar = grammar_of(model, models, grammar, "stack-likeness")
    if not isinstance(grammar, DyckGrammar):
        raise no_brackets(models[0], "stack-likeness")
    if getattr(models[0].cfg, "attention_dir", "causal") != "causal":
        raise _not_causal()
    try:
        tokens = _tokens(inputs, models[0], grammar, seed, num_inputs, length)
        queries = _queries(tokens, grammar)
    except GrammarError as error:
        raise AnalysisError(f"stack-likeness: {error}") from error
    if not (~queries.trivial).any():
        deeper = "max_depth=1 allows none" if grammar.max_depth == 1 else "give longer strings, such as '(()'"
        raise AnalysisError(
            "stack-likeness: no input has a closing bracket at depth 1 or more, and opening brackets are their own "
            f"target: {deeper}"
        )
    checked = check_task(models, grammar, tokens, seed, "stack-likeness", task_check)
    measured = _measure_all(models, tokens, queries, grammar.pad)
    fresh = untrained_of(model) if untrained else None
    start = None if fresh is None else _measure_all(fresh, tokens, queries, grammar.pad)
    read = inputs is None or checked is not None  # inputs, or a check, are drawn
    result = _result(measured, start, tokens, queries, grammar)
    drawn = inputs is None and length is None
    shorter = cut_short(_usual(models[0]), LENGTH, "bracket", models[0]) if drawn else ()
    return replace(result, task_check=checked, unread=unread_seed(seed, read=read), shorter=shorter)


# -- inputs and queries ----------------------------------------------------------------------------


def _check_size(model: Any, count: int, width: int) -> None:
    """Refuse what memory does not hold: the patterns of one input at least, and a row of numbers a query."""
    layers, heads = layers_and_heads(model)
    one = layers * heads * width**2
    # While a layer is read, its rows at all queries are held some five times.
    patterns = min(count * one, max(one, MEMORY)) * 2 + 5 * min(count * heads * width**2, max(heads * width**2, MEMORY))
    check_memory(
        f"stack-likeness of {count} inputs of {width} tokens", 8 * (patterns + 40 * count * width),
        "give fewer or shorter inputs",
    )  # fmt: skip


def _tokens(
    inputs: Any, model: Any, grammar: DyckGrammar, seed: int, num_inputs: int | None, length: int | None
) -> NDArray[np.int64]:
    """Token ids [inputs, pos]."""
    if inputs is None:
        count = optional_whole("num_inputs", num_inputs, NUM_INPUTS)
        size = _usual(model) if length is None else whole_number("length", length)
        _check_size(model, count, size + 1)
        return grammar.to_tokens(grammar.sample(count, mode="prefix", length=size, seed=seed))
    not_read("inputs are given", num_inputs=num_inputs, length=length)
    tokens = read_tokens(inputs, model, grammar, "stack-likeness")
    _check_size(model, *tokens.shape)
    return tokens


def _usual(model: Any) -> int:
    """Brackets of a drawn string where nobody says how many: START stands before them."""
    most = longest_input(model)
    return LENGTH if most is None else max(1, min(LENGTH, most - 1))


@dataclass(frozen=True)
class _Queries:
    """Brackets at depth >= 1, sorted by input; arrays [queries]. Their keys are positions 0..query.

    `mass`: weight on the target, which is also the share of the top place, of each rival.
    """

    input: NDArray[np.int64]
    query: NDArray[np.int64]
    target: NDArray[np.int64]
    trivial: NDArray[np.bool_]
    mass: dict[str, Array]
    opener: NDArray[np.bool_]  # [inputs, pos]
    has_start: bool
    excluded: int

    @property
    def chance(self) -> Array:
        return np.asarray(1.0 / (self.query + 1))

    def per_input(self, values: Array, trivial: bool, first: int, count: int) -> Array:
        """Means over queries of each input from `first` on, [count, ...]; NaN where it has none.

        `values` [queries, ...] are those of the queries of these inputs.
        """
        low, high = np.searchsorted(self.input, (first, first + count))
        keep = self.trivial[low:high] == trivial
        place = self.input[low:high][keep] - first
        sums = np.zeros((count, *values.shape[1:]))
        np.add.at(sums, place, values[keep])
        number = np.bincount(place, minlength=count).astype(np.float64)
        number[number == 0] = np.nan
        return np.asarray(sums / number.reshape(-1, *[1] * (values.ndim - 1)))


def _queries(tokens: NDArray[np.int64], grammar: DyckGrammar) -> _Queries:
    depth, top = grammar.depth(tokens), grammar.stack_top(tokens)
    bracket = tokens < grammar.start
    opener = bracket & (tokens % 2 == 0)
    place = np.arange(tokens.shape[1])
    recent = np.maximum.accumulate(np.where(opener, place, -1), axis=1)
    same_depth = np.zeros(tokens.shape, dtype=np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = depth == level
        same_depth[here] = np.cumsum(opener & here, axis=1)[here]
    asked = bracket & (depth > 0)
    found = asked & (place > 0)  # at place 0 there is one key and no choice
    row, query = np.nonzero(found)
    target = top[found]
    mass = {
        "uniform": 1.0 / (query + 1),
        "unmatched": 1.0 / depth[found],
        "same_depth": 1.0 / same_depth[found],
        "all_openers": 1.0 / np.cumsum(opener, axis=1)[found],
        "most_recent_opener": (recent[found] == target).astype(np.float64),
        "previous_token": (query - 1 == target).astype(np.float64),
        "start": np.zeros(len(row)),
    }
    return _Queries(
        input=row,
        query=query,
        target=target,
        trivial=opener[found],
        mass=mass,
        opener=opener,
        has_start=bool((tokens[:, 0] == grammar.start).all()),
        excluded=int(asked.sum() - found.sum()),
    )


# -- one model at a time ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layer:
    """One layer of one model. `values` [trivial, metric, inputs, head]; `distance` [pos, head]: sums of scores."""

    values: Array
    distance: Array

    def mean(self, metric: str, trivial: bool) -> Array:
        return np.asarray(np.nanmean(self.each(metric, trivial), axis=0))

    def each(self, metric: str, trivial: bool) -> Array:
        """[inputs with such a query, head]."""
        values = self.values[int(trivial), _METRICS.index(metric)]
        return np.asarray(values[~np.isnan(values[:, 0])])

    def best(self, metric: str) -> Array:
        """`metric` of each input under the head that does best on the other half of the inputs: [inputs]."""
        score, values = self.each("score", False), self.each(metric, False)
        odd = np.arange(len(score)) % 2 == 1
        for_even, for_odd = score[odd].mean(0).argmax(), score[~odd].mean(0).argmax()
        return np.asarray(np.where(odd, values[:, for_odd], values[:, for_even]))


@dataclass(frozen=True)
class _Measured:
    """All models. `means[metric, trivial]`: per layer [models, head]; the rest likewise.

    `single`: the layers in full where there is one model only, whose interval is over inputs.
    """

    means: dict[tuple[str, bool], list[Array]]
    best: list[Array] | None  # per layer [models, (score, permuted)]
    distance: list[Array]  # per layer [models, pos, head]
    single: list[_Layer] | None
    size: int


def _measure_all(models: Iterable[Any], tokens: NDArray[np.int64], queries: _Queries, pad: int) -> _Measured:
    kinds = [(metric, trivial) for metric in _METRICS for trivial in (False, True)]
    means: list[list[list[Array]]] = []
    best, distance = [], []
    layers: list[_Layer] = []
    several = len(set(queries.input[~queries.trivial].tolist())) > 1
    for index, model in enumerate(models):
        layers = _measure(model, tokens, queries, pad)
        means.append([[layer.mean(*kind) for layer in layers] for kind in kinds])
        if [x.shape for x in means[-1][0]] != [x.shape for x in means[0][0]]:
            raise AnalysisError(
                f"stack-likeness: model {index} has other layers or heads than model 0: pass models of one shape"
            )
        distance.append([layer.distance for layer in layers])
        if several:
            best.append([[layer.best(m).mean() for m in ("score", "permuted")] for layer in layers])
    count = range(len(layers))
    return _Measured(
        means={kind: [np.stack([m[i][at] for m in means]) for at in count] for i, kind in enumerate(kinds)},
        best=[np.array([b[at] for b in best]) for at in count] if several else None,
        distance=[np.stack([d[at] for d in distance]) for at in count],
        single=layers if len(means) == 1 else None,
        size=len(means),
    )


def _measure(model: Any, tokens: NDArray[np.int64], queries: _Queries, pad: int) -> list[_Layer]:
    """Patterns of a few inputs at a time, `MEMORY` numbers at most."""
    import torch

    from interp.patterns import attention_patterns

    cfg = model.cfg
    width = tokens.shape[1]
    step = max(1, MEMORY // (cfg.n_layers * cfg.n_heads * width * width))
    values: list[list[Array]] = []
    distance: list[Array] = []
    for first in range(0, len(tokens), step):
        part = torch.from_numpy(tokens[first : first + step]).to(cfg.device)
        patterns = attention_patterns(model, part, pad=pad)
        if not values:
            values, distance = [[] for _ in patterns], [np.zeros((width, p.shape[1])) for p in patterns]
        low, high = np.searchsorted(queries.input, (first, first + len(part)))
        here = slice(low, high)
        nontrivial = ~queries.trivial[here]
        gap = (queries.query - queries.target)[here][nontrivial]
        for layer, pattern in enumerate(patterns):
            rows = _read(pattern, queries, here, first)  # [metric, queries, head]
            values[layer].append(
                np.stack(
                    [[queries.per_input(row, trivial, first, len(part)) for row in rows] for trivial in (False, True)]
                )
            )
            np.add.at(distance[layer], gap, rows[0][nontrivial])
    return [_Layer(np.concatenate(v, axis=2), d) for v, d in zip(values, distance, strict=True)]


def _read(pattern: Array, queries: _Queries, here: slice, first: int) -> Array:
    """`_METRICS` of each query of a chunk that begins at input `first`: [metric, queries, head]."""
    row, query, target = queries.input[here], queries.query[here], queries.target[here]
    weights = pattern[row - first, :, query]  # [queries, head, key]
    if not np.isfinite(weights).all():
        raise AnalysisError("stack-likeness: attention weights are not finite: the model has diverged")
    seen = np.arange(pattern.shape[-1]) <= query[:, None]
    if (weights * ~seen[:, None]).max(initial=0.0) > TIE:
        raise _not_causal()
    opener = (queries.opener[row] & seen)[:, None]
    count = opener.sum(-1)
    at = np.broadcast_to(target[:, None, None], (*weights.shape[:2], 1))
    largest = weights >= weights.max(-1, keepdims=True) * (1 - TIE)
    share = largest / largest.sum(-1, keepdims=True)
    chance = queries.chance[here][:, None]
    return np.stack(
        [
            _score(np.take_along_axis(weights, at, -1)[..., 0], chance),
            np.take_along_axis(share, at, -1)[..., 0],
            _score((weights * opener).sum(-1) / count, chance),
            (share * opener).sum(-1) / count,
        ]
    )


def _score(mass: Array, chance: Array) -> Array:
    return np.asarray((mass - chance) / (1 - chance))


def _not_causal() -> AnalysisError:
    return AnalysisError(
        "stack-likeness: this model attends to later keys, where the last unmatched open bracket is no stack's top: "
        "pass a model with causal attention"
    )


# -- the result ------------------------------------------------------------------------------------


def _result(
    measured: _Measured,
    start: _Measured | None,
    tokens: NDArray[np.int64],
    queries: _Queries,
    grammar: DyckGrammar,
) -> StackResult:
    gap = np.bincount((queries.query - queries.target)[~queries.trivial], minlength=tokens.shape[1])
    present = np.flatnonzero(gap)
    means = [sums.mean(0)[present] / gap[present, None] for sums in measured.distance]
    scores = measured.means["score", False]
    rivals = _rivals(queries, len(tokens), "score", False)
    return StackResult(
        score=_nested(measured, start, queries, len(tokens), "score", False),
        top1=_nested(measured, start, queries, len(tokens), "top1", False),
        score_trivial=_nested(measured, start, queries, len(tokens), "score", True),
        top1_trivial=_nested(measured, start, queries, len(tokens), "top1", True),
        best=tuple(_best(measured, start, at) for at in range(len(scores))),
        untrained=None if start is None else _nested(start, None, queries, len(tokens), "score", False),
        by_distance=tuple(
            tuple(dict(zip(present.tolist(), head.tolist(), strict=True)) for head in layer.T) for layer in means
        ),
        queries_by_distance=dict(zip(present.tolist(), gap[present].tolist(), strict=True)),
        rivals={name: rivals[name] for name in RIVALS},
        num_models=measured.size,
        num_inputs=len(tokens),
        positions=int((tokens != grammar.pad).sum(1).max()),
        queries=int((~queries.trivial).sum()),
        queries_trivial=int(queries.trivial.sum()),
        excluded=queries.excluded,
        per_model=tuple(scores),
    )


def _nested(
    measured: _Measured,
    start: _Measured | None,
    queries: _Queries,
    num_inputs: int,
    metric: str,
    trivial: bool,
) -> Nested:
    support = SCORE if metric == "score" else SHARE
    rivals = _rivals(queries, num_inputs, metric, trivial)
    permuted = "permuted" if metric == "score" else "permuted_top1"
    out = []
    for at, values in enumerate(measured.means[metric, trivial]):
        row = []
        for head in range(values.shape[1]):
            null: dict[str, float | None] = {
                "uniform": rivals["uniform"],
                "permuted": float(measured.means[permuted, trivial][at][:, head].mean()),
                "untrained": None if start is None else float(start.means[metric, trivial][at][:, head].mean()),
                **{name: rivals[name] for name in RIVALS},
            }
            each = None if measured.single is None else measured.single[at].each(metric, trivial)[:, head]
            row.append(_estimate(values[:, head], each, support).with_null(null))
        out.append(tuple(row))
    return tuple(out)


def _best(measured: _Measured, start: _Measured | None, at: int) -> Estimate:
    if measured.best is None:
        reason = "one input has no second half to score the chosen head on"
        return Estimate.undefined(reason, measured.size, "inputs" if measured.size == 1 else "seeds")
    each = None if measured.single is None else measured.single[at].best("score")
    null = {
        "uniform": 0.0,
        "permuted": float(measured.best[at][:, 1].mean()),
        "untrained": None if start is None or start.best is None else float(start.best[at][:, 0].mean()),
    }
    return _estimate(measured.best[at][:, 0], each, SCORE).with_null(null)


def _estimate(values: Array, each: Array | None, support: Support) -> Estimate:
    """Over seeds for several models, over inputs (`each`) for one."""
    return mean_over_seeds(values, support=support) if each is None else mean_over_inputs(each, support=support)


def _rivals(queries: _Queries, num_inputs: int, metric: str, trivial: bool) -> dict[str, float | None]:
    """What each rival, and a uniform head, gets; mean over inputs of means over queries."""
    out: dict[str, float | None] = {}
    for name, mass in queries.mass.items():
        values = _score(mass, queries.chance) if metric == "score" else mass
        out[name] = float(np.nanmean(queries.per_input(values, trivial, 0, num_inputs)))
    if not queries.has_start:
        out["start"] = None
    return out
