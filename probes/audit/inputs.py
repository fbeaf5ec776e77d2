"""The inputs of an audit: token arrays, what each query sees, and the two halves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.checks import optional_whole
from interp.claims.language import LENGTH as WORDS
from interp.claims.language import NUM_INPUTS as NUM_TEXTS
from interp.claims.language import Drawn, draw_language
from interp.claims.register import claims_of, roles_of
from interp.errors import AnalysisError, RequestError, quoted
from interp.guests import longest_input, pad_of, read_tokens
from interp.limits import check_memory
from interp.numbers import power
from interp.registry import world_of
from interp.rng import generator
from probes.claims import Relation

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MEMORY = 2**27  # inputs, and tokens of one, at the most: more would fit in no memory
# Bytes that are held a pair of query and key: key sets, rivals and edits of the claimed edges; and for each head its
# weight there, the same without the first key, and what is made of both. Untrained models come one after the other.
CELL_BYTES, WEIGHT_BYTES = 100, 10
NUM_INPUTS, LENGTH = 400, 26  # drawn by default: how many, and of what length where a world reads one
ROLES = 4


@dataclass(frozen=True)
class Inputs:
    """Distinct sequences `tokens` [input, pos], PAD on the right.

    Half A are those of even place in `order` [input] (default: as they stand), B the others. Order is drawn: users'
    files have pairs and alternating labels.

    `visible` [input, query, key]: what a query sees; PAD neither sees nor is seen. `roles` [input, pos]: class of a
    key in matched comparisons, as the grammar's world tells tokens apart.
    """

    tokens: Ints
    visible: Bools
    roles: Ints
    grammar: Any
    order: Ints | None = None

    @property
    def half_a(self) -> Ints:
        return self._half(0)

    @property
    def half_b(self) -> Ints:
        return self._half(1)

    def _half(self, which: int) -> Ints:
        return np.sort(self._order[which::2])

    @property
    def _order(self) -> Ints:
        return np.arange(len(self.tokens)) if self.order is None else self.order

    @property
    def framed(self) -> Bools:
        """Where START and END stand [input, pos], of those that stand first, or last, in every input and nowhere else.

        The grammar puts them there, so that the token and its place are one and the same. Where there is no grammar,
        whatever every input begins with is START.
        """
        real: Bools = np.asarray(self.visible.any(1))
        first = real & (np.cumsum(real, axis=1) == 1)
        last = real & (np.cumsum(real[:, ::-1], axis=1)[:, ::-1] == 1)
        start = getattr(self.grammar, "start", None) if getattr(self.grammar, "prepend_start", True) else None
        if self.grammar is None and real.any():
            start = self.tokens[first][0]
        out = np.zeros_like(real)
        for token, place in ((start, first), (getattr(self.grammar, "end", None), last)):
            if token is not None and ((real & (self.tokens == token)) == place).all():
                out |= place
        return out

    def draw(self, count: int, seed: int) -> Ints:
        """Which inputs a part of about `count` holds [input]: as many of either half, spread evenly over strata.

        Neighbours in `order`, one of each half, go together; every pair is as likely as any other.
        """
        pairs = self._order[: len(self.tokens) // 2 * 2].reshape(-1, 2)
        wanted = min(max(count // 2, 1), len(pairs))
        places = (np.arange(wanted) + generator(seed, "audit/first look").random()) * (len(pairs) / wanted)
        return np.sort(pairs[np.minimum(places.astype(np.int64), len(pairs) - 1)].ravel())

    def part(self, rows: Ints) -> "Inputs":
        """These inputs alone; of pairs as `draw` has them, each stays in its half."""
        place = np.full(len(self.tokens), -1)
        place[rows] = np.arange(len(rows))
        order = place[self._order]
        return Inputs(self.tokens[rows], self.visible[rows], self.roles[rows], self.grammar, order[order >= 0])


def make_inputs(
    model: Any, grammar: Any, given: Any, num_inputs: int, length: int, seed: int, strata: Ints | None = None,
    lengths: Ints | None = None,
) -> Inputs:  # fmt: skip
    """Inputs as given (texts, or token ids [input, pos]), each distinct one once; or drawn from the grammar.

    `strata` [input, any]: what both halves get alike; `lengths` [input]: beyond is padding. Both of distinct inputs.
    """
    if given is None:
        _check_drawn(model.cfg, grammar, num_inputs, length)
    tokens = _tokens(model, grammar, given, num_inputs, length, seed)
    # Without a token for padding, a text and the same with more of the token that fills it up have the same row.
    whole = tokens if lengths is None else np.column_stack([tokens, lengths])
    _, first = np.unique(whole, axis=0, return_index=True)
    tokens, lengths = tokens[np.sort(first)], None if lengths is None else lengths[np.sort(first)]
    if len(tokens) < 2:
        raise RequestError(f"{len(tokens)} distinct input cannot be split into two halves: give 100 or more")
    cfg = model.cfg
    _check_memory(cfg, *tokens.shape)
    if strata is not None and len(strata) != len(tokens):
        raise RequestError(f"strata of {len(strata)} inputs do not fit {len(tokens)} distinct ones: one row an input")
    drawn = generator(seed, "audit/halves").random(len(tokens))
    order = np.lexsort((drawn, *(() if strata is None else _shared(strata).T)))
    visible = visible_keys(model, tokens, grammar)
    if lengths is not None:
        real = np.arange(tokens.shape[1]) < lengths[:, None]
        visible = visible & real[:, :, None] & real[:, None, :]
    return Inputs(tokens, visible, roles_of(tokens, grammar), grammar, order)


def _shared(strata: Ints) -> Ints:
    """Strata [input, any], those of one input each made one: every second of them, sorted, is no half at random."""
    _, which, times = np.unique(strata, axis=0, return_inverse=True, return_counts=True)
    alone = (times[which.ravel()] == 1)[:, None]
    return np.concatenate([alone, np.where(alone, 0, strata)], axis=1)


def drawn_inputs(
    model: Any, grammar: Any, relations: Sequence[Relation], num_inputs: int | None, length: int | None, seed: int
) -> Drawn | None:
    """Inputs of a causal model of no world, for claims of these relations; None for all others, of whom a law is known.

    Without `num_inputs` and `length`, 200 of 32 tokens behind START; shorter where the model takes fewer.
    """
    causal = getattr(model.cfg, "attention_dir", "causal") == "causal"
    if not causal or world_of(grammar) is not None or hasattr(grammar, "draw"):
        return None
    count = optional_whole("num_inputs", num_inputs, NUM_TEXTS, most=MEMORY)
    size = optional_whole("length", length, WORDS + bool(getattr(grammar, "has_start", False)), most=MEMORY)
    longest = longest_input(model)
    if longest is not None and length is None:
        size = min(size, longest)
    _check_memory(model.cfg, count, size)
    return draw_language(grammar, model.cfg.d_vocab, relations, num_inputs, size, seed)


def together(one: Any, other: Ints | None) -> Ints | None:
    """Strata of both kinds [input, any]; the first ones told apart as they are, numbers or texts."""
    if one is None:
        return other
    given = np.asarray(one)
    if given.ndim not in (1, 2) or given.dtype.kind not in "iubUS":
        raise RequestError(
            f"strata of shape {list(given.shape)} and type {given.dtype}: numbers or texts, one row an input"
        )
    columns = given[:, None] if given.ndim == 1 else given
    numbers = np.stack([np.unique(column, return_inverse=True)[1] for column in columns.T], axis=1)
    if other is None:
        return numbers
    if len(numbers) != len(other):
        raise RequestError(f"strata of {len(numbers)} inputs do not fit {len(other)} distinct ones: one row an input")
    return np.concatenate([numbers, other], axis=1)


def _check_memory(cfg: Any, count: int, length: int) -> None:
    """Refuse inputs whose weights, key sets and edits would not fit in memory."""
    heads = cfg.n_heads * cfg.n_layers
    check_memory(
        f"an audit of {count} inputs of {length} tokens, {_rough(count * length**2 * heads)} attention weights,",
        count * length**2 * (CELL_BYTES + WEIGHT_BYTES * heads),
        "give fewer or shorter ones",
    )


def _rough(number: int) -> str:
    return power(number) if number < 10**300 else "very many"


def _check_drawn(cfg: Any, grammar: Any, count: int, length: int) -> None:
    """Before anything is drawn, whose size a slip of the pen would blow up."""
    longest = claims_of(grammar).longest
    if longest is not None:
        _check_memory(cfg, count, longest(grammar, length))


def own_length(grammar: Any) -> int | None:
    """How many tokens the strings of a grammar have that draws them of one length alone; None for all others."""
    if claims_of(grammar).inputs is not None or not hasattr(grammar, "draw"):
        return None
    return int(np.shape(grammar.draw(generator(0, "audit/inputs"), 1))[1])


def visible_keys(model: Any, tokens: Ints, grammar: Any) -> Bools:
    """[input, query, key]: by the model's direction, PAD apart."""
    n = tokens.shape[1]
    causal = getattr(model.cfg, "attention_dir", "causal") == "causal"
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    pad = pad_of(model, grammar)
    real = tokens != pad if pad is not None else np.ones(tokens.shape, dtype=bool)
    return np.asarray(seen & real[:, :, None] & real[:, None, :])


def _tokens(model: Any, grammar: Any, given: Any, num_inputs: int, length: int, seed: int) -> Ints:
    if given is None:
        draw = claims_of(grammar).inputs
        if draw is not None:
            return np.asarray(draw(grammar, num_inputs, length, seed, "audit/inputs"))
        if hasattr(grammar, "draw"):
            return np.asarray(grammar.draw(generator(seed, "audit/inputs"), num_inputs), dtype=np.int64)
        raise AnalysisError("the model carries no grammar to draw inputs from: pass inputs=, token ids [input, pos]")
    if isinstance(given, str) and given.endswith(".json"):
        raise RequestError(
            f"inputs={quoted(given)} would be read as one text: a file is given as Path({quoted(given)})"
        )
    return read_tokens(given, model, grammar, "audit")
