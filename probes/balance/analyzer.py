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

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interp.checks import index_of, not_read, true_or_false, whole_number
from interp.errors import AnalysisError, RequestError, quoted
from interp.grammars import DyckGrammar
from interp.guests import (
    grammar_of,
    hosting,
    is_model,
    layers_and_heads,
    longest_input,
    models_of,
    undisturbed,
    untrained_of,
)
from interp.limits import check_memory
from interp.logits import check_finite, refuse_probabilities
from interp.numbers import power
from interp.rng import check_seed
from interp.stats import POSITIVE, SHARE, Estimate, Support
from interp.task_check import check_task, checked_logits
from interp.worlds.dyck.refusals import no_brackets
from probes.balance.insertions import Insertion, insertions, rows_at_once
from probes.balance.result import BalanceResult
from probes.balance.table import BalanceTable, balance_table, head_states, table_bytes
from probes.core import cut_short, mean_over_inputs, mean_over_seeds, recorded

Array = NDArray[np.float64]
LENGTH = 28  # brackets of the strings that pairs are put before, by default
STATE_LENGTH = 28  # brackets of the strings whose states are averaged
MOST_CELLS = 1e11  # pairs of query and key, of all models, layers and heads: about an hour
EXACT = 1 - 1e-6  # share of variance from which a state counts as one vector


@recorded
@hosting("balance")
def analyze_balance(
    model: Any,
    *,
    grammar: DyckGrammar | None = None,
    layer: int | None = None,
    seed: int = 0,
    num_inputs: int = 100,
    length: int | None = None,
    untrained: bool = True,
    task_check: bool = True,
) -> BalanceResult:
    """Balance violation of a model, a population, or (functional form only) a callable tokens -> logits.

    `layer`: which attention layer, from 0, negative from the end; the last by default. `grammar` replaces the models'
    own and is needed for a bridge or a callable. `num_inputs` strings of `length` brackets are drawn with `seed`:
    28, or where the model takes fewer the most that fit, and then the result says so.
    `untrained=True` also measures the config and seeds before training, where they can be rebuilt.
    `task_check=False` measures models that do not do their grammar's task as well (see `interp.task_check`).

        >>> from interp import load_checkpoint
        >>> from probes import analyze_balance
        >>> result = analyze_balance(load_checkpoint("constructed/balanced"), num_inputs=20, untrained=False)
        >>> result.beta.value < 1e-6  # matched pairs cancel
        True

    Source: Wen et al. 2023, section 4.2, eqs. 12 and 31-33. Raises `AnalysisError` when no grammar is known, the model
    is not causal or at chance in its grammar's task, its n_ctx has no room for what is inserted, or a population is
    empty; `RequestError` for a grammar of another number of tokens than the models.
    """
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    task_check = true_or_false("task_check", task_check)
    num_inputs = whole_number("num_inputs", num_inputs, 2)
    given = None if length is None else whole_number("length", length)
    models, hooked = _given(model)
    grammar = grammar_of(model, models, grammar, "balance")
    if not isinstance(grammar, DyckGrammar):
        raise no_brackets(models[0], "balance")
    first = models[0]
    _check_depth(models, grammar)
    if hooked and getattr(first.cfg, "attention_dir", "causal") != "causal":
        raise AnalysisError("balance: S and P are defined for causal attention, and this model is bidirectional")
    if hooked:
        layer = index_of("layer", -1 if layer is None else layer, first.cfg.n_layers, "balance")
    else:
        why = "a callable shows no attention: only the functional form applies"
        not_read(why, layer=layer, untrained=None if untrained else False)
    length = _fitting(first, grammar) if given is None else given
    counts = _counts(first, grammar, length)
    _check_size(models, hooked, grammar, counts, num_inputs, length)
    checked = check_task(models, grammar, None, seed, "balance", task_check)
    functional = [_functional(m, grammar, counts, num_inputs, length, seed) for m in models]
    tables = [balance_tables(m, layer, grammar, seed) for m in models] if layer is not None else []
    fresh = untrained_of(model) if tables and untrained else None
    start = None if fresh is None else [balance_tables(m, layer or 0, grammar, seed)[0] for m in fresh]
    shorter = () if given is not None else cut_short(length, LENGTH, "bracket", first)
    return replace(_result(functional, tables, start, layer, first, grammar), task_check=checked, shorter=shorter)


def _given(model: Any) -> tuple[Sequence[Any], bool]:
    """(the models or callables, whether they show attention)."""
    several = isinstance(model, Sequence) and not isinstance(model, (str, bytes))
    members = model if several else [model]
    hooked = [is_model(m) for m in members]
    if any(hooked) and not all(hooked):
        other = members[hooked.index(False)]
        raise AnalysisError(
            f"balance: models and other things, {quoted(other)}, in one list: pass hooked models, or callables tokens "
            "-> logits, alone"
        )
    if hooked and not any(hooked) and all(callable(m) for m in members):
        return members, False
    return models_of(model, "balance"), True


def _check_depth(models: Sequence[Any], grammar: DyckGrammar) -> None:
    """Refuse a grammar of another depth than a model was made for: its states and its law are not the model's."""
    for i, model in enumerate([models] if hasattr(models, "params") else models):
        made = getattr(getattr(model, "config", None), "max_depth", None)
        if made is not None and made != grammar.max_depth:
            name = f"model {i}" if len(models) > 1 else "the model"
            raise RequestError(
                f"balance: grammar={quoted(grammar)} has max_depth={grammar.max_depth}, and {name} was made for "
                f"max_depth={made}: pass grammar={quoted(replace(grammar, max_depth=made))}, or leave grammar= out"
            )


def _fitting(model: Any, grammar: DyckGrammar) -> int:
    """The usual number of brackets, or the most that leave room for START and D pairs; the usual one if none does."""
    most = longest_input(model)
    room = LENGTH if most is None else most - 1 - 2 * grammar.max_depth
    return min(room, LENGTH) if room >= 1 else LENGTH


def _counts(model: Any, grammar: DyckGrammar, length: int) -> list[int]:
    """How many pairs to insert: 1..D, and then as many nests as the model has room for."""
    needed, most = 1 + 2 * grammar.max_depth + length, longest_input(model)
    if most is not None and needed > most:
        room = most - 1 - 2 * grammar.max_depth
        cure = f"length={room} is the longest that fits" if room >= 1 else "no length fits"
        raise AnalysisError(
            f"balance: n_ctx={most} has no room for START, 1 to D={grammar.max_depth} pairs and strings of {length} "
            f"brackets ({needed} tokens): {cure}"
        )
    further = (m * grammar.max_depth for m in (2, 4, 8))
    return [
        *range(1, grammar.max_depth + 1),
        *(c for c in further if most is None or 1 + 2 * c + length <= most),
    ]


def _check_size(
    models: Sequence[Any], hooked: bool, grammar: DyckGrammar, counts: Sequence[int], num_inputs: int, length: int
) -> None:
    """Refuse what memory does not hold, and what would never end, before any model runs."""
    k, depth, cfg = grammar.num_types, grammar.max_depth, getattr(models[0], "cfg", None)
    layers, heads = layers_and_heads(models[0])
    width, head_width = (int(getattr(cfg, name, None) or 1) for name in ("d_model", "d_head"))
    what = f"balance of a grammar of depth {depth} on {num_inputs} strings of {length} brackets"
    cure = "take a grammar of less depth, or fewer or shorter strings"
    longest = 1 + 2 * max(counts) + length
    rows = rows_at_once(num_inputs, longest)
    running = rows * longest * (20 * heads * longest + 40 * (width + grammar.vocab_size))
    kept = 8 * num_inputs * (5 * length * grammar.vocab_size + 6 * longest)
    tables = table_bytes(k, depth, heads, width, head_width, len(models)) if hooked else 0
    check_memory(what, max(running + kept, tables), cure)
    lengths = np.array([1 + 2 * pairs + length for pairs in counts], dtype=np.float64)
    cells = float((lengths**2).sum()) * num_inputs * heads * layers * len(models)
    if cells > MOST_CELLS:
        raise RequestError(
            f"{what} attends over {power(cells)} pairs of tokens, and {power(MOST_CELLS, 0)} are the most: {cure}"
        )


def balance_tables(model: Any, layer: int, grammar: DyckGrammar, seed: int) -> tuple[list[BalanceTable], float]:
    """A table a head, and the mean share explained. Measured on a float64 copy where one can be made."""
    config = getattr(model, "config", None)
    if config is not None and hasattr(model, "state_dict") and type(model).__name__ == "SandboxTransformer":
        copy = type(model)(config, grammar).double()
        copy.load_state_dict(model.state_dict())
        model = copy
    most = longest_input(model)
    length = STATE_LENGTH if most is None else min(STATE_LENGTH, most - 1)
    with undisturbed(model):
        heads = head_states(model, layer, grammar, seed=seed, length=length)
    return [balance_table(h.vectors) for h in heads], float(np.mean([h.explained for h in heads]))


def _functional(
    model: Any, grammar: DyckGrammar, counts: Sequence[int], num_inputs: int, length: int, seed: int
) -> tuple[list[Insertion], float]:
    positions = getattr(getattr(model, "config", None), "positions", "none")
    device = getattr(getattr(model, "cfg", None), "device", None)

    def logits(tokens: torch.Tensor, **how: torch.Tensor) -> torch.Tensor:
        given = model(tokens if device is None else tokens.to(device), **how)
        found = checked_logits(given, tokens.shape, grammar.vocab_size, "balance", model)
        check_finite(found, "balance", model)
        refuse_probabilities(found, "balance", model)
        return found

    def shifted(tokens: torch.Tensor, by: int) -> torch.Tensor:
        moved = torch.arange(tokens.shape[1])[None] + by
        moved[:, 0] = 0  # START stays where it is
        return logits(tokens, positions=moved.to(device))

    with undisturbed(model):
        return insertions(
            logits,
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
    start: list[list[BalanceTable]] | None,
    layer: int | None,
    first: Any,
    grammar: DyckGrammar,
) -> BalanceResult:
    nested = grammar.max_depth  # the counts 1..D come first
    unrelated = float(np.mean([scale for _, scale in functional]))

    def over_models(values: list[Array], support: Support = SHARE) -> Estimate:
        """Over seeds for a population, over inputs for one model; `values` [inputs] a model."""
        if len(values) == 1:
            return mean_over_inputs(values[0], support=support)
        return mean_over_seeds([v.mean() for v in values], support=support)

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
        by_head = tuple(_beta_of(h, [t for t, _ in tables], start) for h in range(len(tables[0][0])))
        firsts = [t[0] for t, _ in tables]
        beta = by_head[0]
        if len(by_head) > 1:
            reason = f"{len(by_head)} heads have different denominators: see by_head and the functional form"
            beta = Estimate.undefined(reason, n, "seeds")
        released = _mean([t.released for t in firsts], firsts)
        condition = mean_over_seeds([t.condition for t in firsts], support=POSITIVE)
    block = getattr(getattr(first, "config", None), "block", None)
    explained = float(np.mean([e for _, e in tables])) if tables else None
    if explained is not None and not np.isfinite(explained):
        explained = None
    return BalanceResult(
        beta=beta,
        functional=over_models([np.mean([r.tv for r in rows[:nested]], 0) for rows, _ in functional]).with_null(
            unrelated
        ),
        contrastive=over_models([np.mean([r.mse for r in rows[:nested]], 0) for rows, _ in functional], POSITIVE),
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


def _beta_of(head: int, tables: list[list[BalanceTable]], start: list[list[BalanceTable]] | None) -> Estimate:
    """Beta of a head, beside that of the same head before training."""
    of = _mean([t[head].beta for t in tables], [t[head] for t in tables])
    null = None if start is None else _mean([t[head].beta for t in start], [t[head] for t in start]).value
    return of.with_null(null)


def _mean(values: list[float | None], tables: list[BalanceTable]) -> Estimate:
    """Mean over models; undefined, with the reason, if it is for any of them."""
    for value, table in zip(values, tables, strict=True):
        if value is None:
            return Estimate.undefined(table.reason or "undefined", len(values), "seeds")
    return mean_over_seeds(values, support=POSITIVE)


def _known(x: Array | None) -> Array:
    assert x is not None
    return x
