"""The inputs of an audit: token arrays, what each query sees, and the two halves."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interp.errors import AnalysisError, RequestError
from interp.grammars import DyckGrammar, TopicGrammar

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MEMORY = 2**27  # weights of all heads of one model held at once, as float64: 1 GB
ROLES = 4


@dataclass(frozen=True)
class Inputs:
    """Distinct sequences `tokens` [input, pos], PAD on the right; half A are those of even number, B the others.

    `visible` [input, query, key]: what a query sees; PAD neither sees nor is seen. `roles` [input, pos]: class of a
    key in matched comparisons (open bracket, closing bracket, START, other).
    """

    tokens: Ints
    visible: Bools
    roles: Ints
    grammar: Any

    @property
    def half_a(self) -> Ints:
        return np.arange(0, len(self.tokens), 2)

    @property
    def half_b(self) -> Ints:
        return np.arange(1, len(self.tokens), 2)


def make_inputs(model: Any, grammar: Any, given: Any, num_inputs: int, length: int, seed: int) -> Inputs:
    """Inputs as given (texts, or token ids [input, pos]), each distinct one once; or drawn from the grammar."""
    tokens = _tokens(grammar, given, num_inputs, length, seed)
    _, first = np.unique(tokens, axis=0, return_index=True)
    tokens = tokens[np.sort(first)]
    if len(tokens) < 2:
        raise RequestError(f"{len(tokens)} distinct input cannot be split into two halves: give 100 or more")
    cfg = model.cfg
    size = tokens.shape[0] * tokens.shape[1] ** 2 * cfg.n_heads * cfg.n_layers
    if size > MEMORY:
        raise RequestError(
            f"{tokens.shape[0]} inputs of {tokens.shape[1]} tokens give {size:.1e} attention weights, more than "
            f"{MEMORY:.1e}: give fewer or shorter ones"
        )
    known = getattr(cfg, "d_vocab", None)
    if known is not None and int(tokens.max()) >= known:
        raise RequestError(f"inputs hold token id {int(tokens.max())}, and the model knows ids 0 to {known - 1}")
    return Inputs(tokens, visible_keys(model, tokens, grammar), _roles(tokens, grammar), grammar)


def visible_keys(model: Any, tokens: Ints, grammar: Any) -> Bools:
    """[input, query, key]: by the model's direction, PAD apart."""
    n = tokens.shape[1]
    causal = getattr(model.cfg, "attention_dir", "causal") == "causal"
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool)
    pad = getattr(grammar, "pad", None)
    if pad is None:
        pad = getattr(getattr(model, "config", None), "pad_token", None)
    real = tokens != pad if pad is not None else np.ones(tokens.shape, dtype=bool)
    return np.asarray(seen & real[:, :, None] & real[:, None, :])


def _tokens(grammar: Any, given: Any, num_inputs: int, length: int, seed: int) -> Ints:
    if given is None:
        if isinstance(grammar, DyckGrammar):
            drawn = grammar.sample(num_inputs, mode="prefix", length=length, seed=seed, stream="audit/inputs")
            return grammar.to_tokens(drawn)
        if isinstance(grammar, TopicGrammar):
            documents = grammar.sample(num_inputs, seed=seed, stream="audit/inputs")
            return np.asarray(documents.shown[:, : grammar.min_length])
        raise AnalysisError("the model carries no grammar to draw inputs from: pass inputs=, token ids [input, pos]")
    texts = isinstance(given, str) or (isinstance(given, (list, tuple)) and all(isinstance(x, str) for x in given))
    if texts:
        if grammar is None:
            raise AnalysisError("the model carries no grammar to read texts with: pass token ids [input, pos]")
        return np.asarray(grammar.to_tokens([given] if isinstance(given, str) else list(given)), np.int64)
    try:
        tokens = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except ValueError as error:
        raise RequestError("inputs are neither texts nor token ids of one length: pad them on the right") from error
    if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or 0 in tokens.shape:
        raise RequestError(f"inputs of shape {list(tokens.shape)} and type {tokens.dtype}: token ids are [input, pos]")
    if isinstance(grammar, DyckGrammar):
        grammar.validate(tokens)
        if (tokens[:, 0] != grammar.start).any() or (tokens[:, 1:] == grammar.start).any():
            raise RequestError("inputs must read START, brackets, PAD: START first and only there")
        ended = np.logical_or.accumulate(tokens == grammar.pad, axis=1)
        if (ended & (tokens != grammar.pad)).any():
            raise RequestError("inputs must read START, brackets, PAD: something stands after PAD")
    return tokens.astype(np.int64)


def _roles(tokens: Ints, grammar: Any) -> Ints:
    if isinstance(grammar, DyckGrammar):
        special = np.where(tokens == grammar.start, 2, 3)
        return np.where(tokens < grammar.start, tokens % 2, special)
    return np.zeros_like(tokens)
