"""Attention variation: how far apart are the attention patterns of models that differ in their seed only?

||A1 - A2||_F^2 on one input, in one layer, averaged over all pairs of a population, then over inputs
(Wen et al. 2023, section 4). The number grows with the number of positions and with sharpness, so it
is never given alone: see `VariationResult.variation`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from interp.checks import not_read, optional_whole, true_or_false
from interp.claims.language import LENGTH as WORDS
from interp.claims.language import draw_language
from interp.errors import AnalysisError, PatternError, RequestError, quoted
from interp.guests import (
    Ints,
    grammar_of,
    hosting,
    is_model,
    is_text,
    layers_and_heads,
    longest_input,
    models_of,
    read_tokens,
    refuse_padding,
    untrained_of,
)
from interp.limits import check_memory
from interp.plots.arrays import as_array, check_patterns, is_causal, permute_keys
from interp.registry import world_of
from interp.rng import check_seed, generator
from interp.stats import POSITIVE, SHARE, Estimate
from interp.task_check import check_task
from probes.core import jackknife_pairs, recorded, unread_seed
from probes.variation.result import VariationResult

NUM_INPUTS = 40
MOST_TEXTS = 100_000  # each is read by itself
MEMORY = 2**24  # float64 numbers of patterns held at once: 128 MB


@recorded
@hosting("variation")
def analyze_variation(
    model: Any,
    inputs: Any = None,
    *,
    grammar: Any = None,
    seed: int = 0,
    num_inputs: int | None = None,
    untrained: bool = True,
    task_check: bool = True,
) -> VariationResult:
    """Attention variation of a population (or any sequence of models of one shape).

    `inputs`: a text, a list of texts, or token ids [pos] or [batch, pos], all of one length. Default: the one sentence
    that models of this world are usually shown, if there is one, else `num_inputs` (40) inputs drawn with `seed`, as
    are the permutations of models with several heads; a result says if nothing was drawn. Language models are shown
    what audits show them: pieces of a text that their vocabulary reads, else random tokens. `grammar` replaces the
    models' own: it reads texts and names tokens.
    `untrained=True` also measures the config and seeds before training, where they can be rebuilt.
    `task_check=False` measures models that do not do their grammar's task as well (see `interp.task_check`).

        >>> from interp import load_checkpoint
        >>> from probes import analyze_variation
        >>> result = analyze_variation(load_checkpoint("dyck-minimal"), "([])", untrained=False)
        >>> print(result.variation[0])  # of layer 0
        0.024 [0.011, 0.054] (n=8 seeds)

    Source: Wen et al. 2023, section 4.1. Raises `AnalysisError` for fewer than two models, and for models that are at
    chance in their grammar's task; `RequestError` for inputs of unequal length, and for a grammar of another number of
    tokens than the models.
    """
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    task_check = true_or_false("task_check", task_check)
    if is_model(model):
        raise _too_few(1)
    if isinstance(model, Sequence) and len(model) < 2:
        raise _too_few(len(model))
    models = models_of(model, "variation")
    grammar = grammar_of(model, models, grammar, "variation")
    tokens, texts = _tokens(models[0], inputs, grammar, seed, num_inputs)
    _check_size(models, tokens)
    checked = check_task(models, grammar, tokens, seed, "variation", task_check)
    fresh = untrained_of(model) if untrained else None
    result = variation_from_patterns(
        _stream(models, tokens),
        untrained=None if fresh is None else _stream(fresh, tokens),
        seed=seed,
        inputs=texts,
    )
    # Inputs were drawn, or a check drew some or an interval.
    world = world_of(grammar)
    drawn = inputs is None and (world is None or world.sentence(grammar) is None)
    read = checked is not None or drawn
    return replace(result, task_check=checked, unread=() if read else result.unread)


def variation_from_patterns(
    patterns: Iterable[Sequence[Any]] | Sequence[Any],
    *,
    untrained: Iterable[Sequence[Any]] | Sequence[Any] | None = None,
    causal: bool | None = None,
    seed: int = 0,
    inputs: Sequence[str] = (),
) -> VariationResult:
    """Attention variation from arrays of weights.

    `patterns`: a list over layers of [seed, input, head, query, key] (numpy or torch); or an iterator
    over chunks of inputs, each such a list, so that nothing long is held at once. `untrained`: the
    same for the untrained population. `causal`: which keys are visible; None looks at the patterns.
    `seed` draws the permutations of the sharpness-matched null of models with several heads.

    Raises `PatternError` for weights that are not square, finite, nonnegative and normalised, and
    `AnalysisError` for fewer than two models.
    """
    layers = _accumulate(patterns, causal, seed, with_null=True)
    if layers[0].size < 2:
        raise _too_few(layers[0].size)
    start = None if untrained is None else _accumulate(untrained, causal, seed, with_null=False)
    if start is not None and len(start) != len(layers):
        raise PatternError(f"the untrained models have {len(start)} layers, the trained {len(layers)}")
    matchings = [layer.matching() for layer in layers]
    start_pairs = None if start is None else [layer.distance(layer.matching()) for layer in start]
    start_values = None if start_pairs is None else tuple(_spread(pairs) for pairs in start_pairs)
    variation, unmatched = [], []
    for i, layer in enumerate(layers):
        simplex = uniform_simplex_variation(layer.positions, layer.causal)
        null = {
            "uniform_simplex": simplex,
            "untrained": None if start_values is None else start_values[i].value,
            "sharpness_matched": layer.sharpness_matched(),
        }
        variation.append(_spread(layer.distance(matchings[i])).with_null(null))
        null = {
            "uniform_simplex": simplex,
            "untrained": None if start is None else _spread(start[i].unmatched()).value,
            "sharpness_matched": layer.sharpness_exact(),
        }
        unmatched.append(_spread(layer.unmatched()).with_null(null))
    return VariationResult(
        variation=tuple(variation),
        normalised=tuple(
            jackknife_pairs(layer.relative(match), support=SHARE)
            for layer, match in zip(layers, matchings, strict=True)
        ),
        unmatched=tuple(unmatched),
        untrained=start_values,
        by_input=tuple(np.array(layer.by_input) for layer in layers),
        pairs=tuple(_upper(layer.distance(m)) for layer, m in zip(layers, matchings, strict=True)),
        untrained_pairs=None if start_pairs is None else tuple(map(_upper, start_pairs)),
        num_models=layers[0].size,
        num_heads=tuple(layer.heads for layer in layers),
        num_inputs=layers[0].inputs,
        positions=layers[0].positions,
        causal=all(layer.causal for layer in layers),
        inputs=tuple(inputs),
        unread=unread_seed(seed, read=max(layer.heads for layer in layers) > 1),
    )


def uniform_simplex_variation(positions: int, causal: bool = True) -> float:
    """Expected ||A1 - A2||_F^2 of two independent patterns whose rows are uniform on the simplex.

    A row with n visible keys is Dirichlet(1, ..., 1): E|a|^2 = 2/(n+1) and E<a, b> = 1/n, so it adds
    2(n-1)/(n(n+1)). Causal rows see n = 1..N keys, others N each.
    """
    visible = np.arange(1, positions + 1) if causal else np.full(positions, positions)
    return float((2 * (visible - 1) / (visible * (visible + 1))).sum())


# -- sums over inputs ------------------------------------------------------------------------------


class _Layer:
    """Sums over inputs for one layer of S models with H heads.

    `distances`, `ratios` [S, H, S, H]: sums over inputs of |a - b|^2 and of 1 - 2<a, b>/(|a|^2 + |b|^2);
    `norms` [S, H]: of |a|^2. All come from one Gram matrix an input, so no difference of patterns
    is ever stored.
    """

    def __init__(self, size: int, heads: int, positions: int, causal: bool, seed: int | None):
        self.size, self.heads, self.positions, self.causal = size, heads, positions, causal
        self.inputs = 0
        self.distances = np.zeros((size, heads, size, heads))
        self.ratios = np.zeros_like(self.distances)
        self.norms = np.zeros((size, heads))
        self.by_input: list[float] = []
        visible = np.arange(1, positions + 1) if causal else np.full(positions, positions)
        self.even = float((1 / visible).sum())  # |a|^2 of an even pattern
        # Matching lowers distances even between unrelated heads, so the null has to be matched as well.
        self.seed = seed
        drawn = seed is not None and heads > 1
        self.permuted = _Layer(size, heads, positions, causal, None) if drawn else None

    def add(self, pattern: np.ndarray, index: int) -> None:
        """One input: [S, H, query, key]; `index` is the layer's."""
        flat = pattern.reshape(self.size * self.heads, -1)
        gram = flat @ flat.T
        norm = np.diag(gram)
        sums = norm[:, None] + norm[None, :]
        shape = self.distances.shape
        distance = np.maximum(sums - 2 * gram, 0.0).reshape(shape)
        self.distances += distance
        self.ratios += np.clip(1 - 2 * gram / sums, 0.0, 1.0).reshape(shape)
        self.norms += norm.reshape(self.size, self.heads)
        self.by_input.append(float(_upper(distance.mean(axis=(1, 3))).mean()) if self.size > 1 else 0.0)
        self.inputs += 1
        if self.permuted is not None and self.seed is not None:
            # The same permutations for every input: a head's choice of keys is its own, not the input's.
            rng = generator(self.seed, "variation-permuted-keys", index)
            self.permuted.add(permute_keys(pattern, self.causal, rng), index)

    def matching(self) -> np.ndarray:
        """For models i < j: which head of j goes with each head of i, [S, S, H]."""
        match = np.tile(np.arange(self.heads), (self.size, self.size, 1))
        if self.heads > 1:
            from scipy.optimize import linear_sum_assignment

            for i, j in zip(*np.triu_indices(self.size, 1), strict=True):
                match[i, j] = linear_sum_assignment(self.distances[i, :, j, :])[1]
        return match

    def distance(self, matching: np.ndarray) -> np.ndarray:
        """Mean over matched heads and inputs of |a - b|^2, symmetric [S, S]."""
        return self._matched(self.distances, matching)

    def relative(self, matching: np.ndarray) -> np.ndarray:
        """As `distance`, of the normalised form."""
        return self._matched(self.ratios, matching)

    def unmatched(self) -> np.ndarray:
        """Mean over all pairs of heads and inputs of |a - b|^2, [S, S]."""
        return np.asarray(self.distances.mean(axis=(1, 3)) / self.inputs)

    def sharpness_exact(self) -> float:
        """Mean over pairs of E|pi a - sigma b|^2, keys permuted independently within each row.

        A row of n visible keys sums to 1, hence E<pi a, sigma b> = 1/n and the expectation is
        |a|^2 + |b|^2 - 2/n. Every model is in equally many pairs: only the mean of |a|^2 matters.
        """
        return 2 * (float(self.norms.mean()) / self.inputs - self.even)

    def sharpness_matched(self) -> float:
        """`sharpness_exact`, or with several heads one draw of it after matching."""
        if self.permuted is None:
            return self.sharpness_exact()
        return float(_upper(self.permuted.distance(self.permuted.matching())).mean())

    def _matched(self, sums: np.ndarray, matching: np.ndarray) -> np.ndarray:
        out = np.zeros((self.size, self.size))
        heads = np.arange(self.heads)
        for i, j in zip(*np.triu_indices(self.size, 1), strict=True):
            out[i, j] = out[j, i] = sums[i, heads, j, matching[i, j]].mean() / self.inputs
        return out


def _accumulate(
    patterns: Iterable[Sequence[Any]] | Sequence[Any], causal: bool | None, seed: int, with_null: bool
) -> list[_Layer]:
    layers: list[_Layer] = []
    for chunk in _chunks(patterns):
        arrays = [_checked(p, i) for i, p in enumerate(chunk)]
        if not layers:
            visible = all(is_causal(p) for p in arrays) if causal is None else causal
            null_seed = seed if with_null else None
            _check_heads(arrays[0].shape[0], [p.shape[2] for p in arrays], arrays[0].shape[3])
            layers = [_Layer(p.shape[0], p.shape[2], p.shape[3], visible, null_seed) for p in arrays]
        if len(arrays) != len(layers):
            raise PatternError(f"a chunk holds {len(arrays)} layers, an earlier one {len(layers)}")
        for i, (layer, array) in enumerate(zip(layers, arrays, strict=True)):
            _check_fits(layer, array, i)
            for one in np.moveaxis(array, 1, 0):
                layer.add(one, i)
    if not layers:
        raise PatternError("no patterns were given: a list of layers [seed, input, head, query, key] is needed")
    return layers


def _chunks(patterns: Any) -> Iterator[Sequence[Any]]:
    """Chunks of inputs; a plain list of arrays is one chunk."""
    if isinstance(patterns, (list, tuple)) and patterns and hasattr(patterns[0], "shape"):
        yield patterns
    else:
        yield from patterns


def _checked(patterns: Any, layer: int) -> np.ndarray:
    array = as_array(patterns)
    if array.ndim != 5:
        raise PatternError(
            f"patterns of layer {layer} have shape {list(array.shape)}: [seed, input, head, query, key] is needed"
        )
    return check_patterns(array, f"patterns of layer {layer}")


def _check_fits(layer: _Layer, array: np.ndarray, index: int) -> None:
    expected = (layer.size, layer.heads, layer.positions)
    given = (array.shape[0], array.shape[2], array.shape[3])
    if given != expected:
        raise PatternError(
            f"patterns of layer {index} have (seeds, heads, positions) = {given}, an earlier chunk {expected}"
        )
    if layer.causal and not is_causal(array):
        later = np.argwhere(np.triu(array, 1) != 0)[0].tolist()
        raise PatternError(f"patterns of layer {index}{later} attend to a later key: pass causal=False")


def _spread(distance: np.ndarray) -> Estimate:
    return jackknife_pairs(distance, support=POSITIVE)


def _upper(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.triu_indices(len(matrix), 1)]


# -- models and inputs -----------------------------------------------------------------------------


def _too_few(count: int) -> AnalysisError:
    have = "one model was" if count == 1 else "no models were" if count == 0 else f"{count} models were"
    return AnalysisError(
        f"analyze_variation compares models of different seeds and {have} given: pass a population "
        "(train_population(..., seeds=8)) or a list of models"
    )


def _tokens(model: Any, inputs: Any, grammar: Any, seed: int, num_inputs: int | None) -> tuple[Ints, tuple[str, ...]]:
    """Token ids [inputs, pos] of one length, and the texts for the record where they are known."""
    if inputs is None:
        inputs = _default_inputs(model, grammar, seed, num_inputs)
    else:
        not_read("inputs are given", num_inputs=num_inputs)
    if is_text(inputs):
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        if len(texts) > MOST_TEXTS:
            raise RequestError(f"variation: {len(texts):,} inputs, and {MOST_TEXTS:,} texts are the most: give fewer")
        each = [read_tokens(text, model, grammar, "variation") for text in texts]
        lengths = [row.shape[1] for row in each]
        if len(set(lengths)) > 1:
            other = next(i for i, n in enumerate(lengths) if n != lengths[0])
            raise RequestError(
                f"inputs have unequal lengths: {quoted(texts[0])} has {lengths[0]} tokens, {quoted(texts[other])} has "
                f"{lengths[other]}; one call takes texts of one length"
            )
        tokens, told = np.concatenate(each), tuple(texts)
    else:
        tokens, told = read_tokens(inputs, model, grammar, "variation"), ()
        refuse_padding(tokens, model, grammar, "variation")
        if hasattr(grammar, "format"):
            told = tuple(grammar.format(row) for row in tokens)
    if tokens.shape[1] < 2:
        raise RequestError(
            f"variation: inputs of {tokens.shape[1]} position leave attention no choice: give at least two tokens"
        )
    return tokens, told


def _check_size(models: Sequence[Any], tokens: Ints) -> None:
    """Refuse, before a model runs, more than memory holds: patterns of one input, and Gram matrices of all heads."""
    (layers, heads), positions = layers_and_heads(models[0]), tokens.shape[1]
    one = len(models) * layers * heads * positions**2
    # Twice while they are stacked, and a run's own.
    patterns = 3 * min(len(tokens) * one, max(one, MEMORY))
    _check_heads(len(models), [heads] * layers, positions, 8 * patterns)


def _check_heads(count: int, heads: Sequence[int], positions: int, besides: float = 0.0) -> None:
    """Refuse more heads than have room for their Gram matrices; `besides`: bytes that other things take."""
    # Of each layer sums, those of the null, and some in passing.
    grams = sum(6 * (count * h) ** 2 for h in [*heads, max(heads)])
    check_memory(
        f"variation of {count} models of {len(heads)} layer(s) and {max(heads)} head(s) on {positions} positions",
        8 * grams + besides,
        "measure fewer models, or shorter inputs",
    )


def _default_inputs(model: Any, grammar: Any, seed: int, num_inputs: int | None) -> Any:
    if grammar is None:
        raise AnalysisError("analyze_variation needs inputs: these models carry no grammar to draw them from")
    world = world_of(grammar)
    if world is None and hasattr(grammar, "read"):  # a language: pieces of a text, or random tokens
        length = min(WORDS, longest_input(model) or WORDS)
        count = optional_whole("num_inputs", num_inputs, NUM_INPUTS)
        return draw_language(grammar, model.cfg.d_vocab, (), count, length, seed).tokens
    if world is None:
        raise AnalysisError(f"analyze_variation needs inputs: {quoted(grammar)} has no law to draw them from")
    if (text := world.sentence(grammar)) is not None:
        not_read("the default input is the paper's one sentence", num_inputs=num_inputs)
        return text
    count = optional_whole("num_inputs", num_inputs, NUM_INPUTS)
    return world.draw_inputs(grammar, count, seed, "variation-inputs")


def _stream(models: Sequence[Any], tokens: Ints) -> Iterator[list[np.ndarray]]:
    """Chunks of inputs as lists over layers of [seed, input, head, query, key], `MEMORY` numbers at most."""
    import torch

    from interp.patterns import attention_patterns

    models = list(models)  # a population builds a model at each access
    ids = torch.from_numpy(tokens).to(models[0].cfg.device)
    probe = attention_patterns(models[0], ids[:1])
    one = len(models) * sum(p[0].size for p in probe)
    step = max(1, MEMORY // one)
    for begin in range(0, len(ids), step):
        runs = [attention_patterns(model, ids[begin : begin + step]) for model in models]
        yield [np.stack([as_array(run[i]) for run in runs]) for i in range(len(probe))]
