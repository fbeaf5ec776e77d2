"""`AttentionArrays`: patterns that somebody measured, as models that show their patterns and nothing else."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interp.checks import true_or_false, whole_number
from interp.errors import AnalysisError, PatternError, RequestError, quoted
from interp.foreign.guest import PROBE, Block
from interp.guests import MOST, Ints, guest_errors, read_tokens
from interp.limits import check_memory
from interp.model.hooks import NamedHooks
from interp.numeric_arrays import real_array
from interp.plots.arrays import check_patterns
from interp.vocabulary import Vocabulary

WHO = "AttentionArrays"
AXES = "[model, input, layer, head, query, key]"
LONGEST_SEED = 2**63 - 1


class AttentionArrays(Sequence[Any]):
    """Attention patterns as a population of models of which nothing else is known.

    - `patterns`: weights [model, input, layer, head, query, key] after the softmax (numpy or torch; of one model the
      first axis may be left out), or a function that gives them for token ids [input, pos].
    - `tokens`: what they were measured on, token ids [input, pos] (PAD on the right) or texts that the grammar reads.
      Analyzers measure on these, unless they are given others of the same ones (`inputs=`). Beside a function they may
      be left out: inputs are then drawn as of any model.
    - `grammar`: of the tokens; or the names of the ids; None: ids have no names.
    - `seeds`: of the models; default: 0, 1, ...
    - `causal`: whether no query sees a later key. None: as the patterns are; a claim that they break is refused.

    One is a sequence of models: `arrays[i]` is a model by itself. Whatever reads patterns takes it (variation,
    stack-likeness, scans, audits, heatmaps); audits answer for the pattern, and do not ask for use.

        >>> import numpy as np
        >>> from interp import AttentionArrays
        >>> even = np.tril(np.ones((2, 1, 1, 1, 4, 4))) / np.arange(1, 5)[:, None]  # two models of one head
        >>> arrays = AttentionArrays(even, [[0, 1, 2, 3]], causal=True)
        >>> len(arrays)
        2

    Raises `PatternError` for weights that are none, `RequestError` for all else that does not fit, in one line.
    """

    def __init__(
        self,
        patterns: Any,
        tokens: Any = None,
        *,
        grammar: Any = None,
        seeds: Sequence[int] | None = None,
        causal: bool | None = None,
    ):
        self.grammar = Vocabulary.of(grammar) if isinstance(grammar, (list, tuple)) else grammar
        size = getattr(self.grammar, "vocab_size", None)
        if self.grammar is not None and not isinstance(size, int):
            raise RequestError(f"{WHO}: grammar={quoted(grammar)} is neither a grammar nor a list of names of ids")
        causal = None if causal is None else true_or_false("causal", causal)
        self.tokens: Ints | None = None
        if tokens is not None:
            self.tokens = read_tokens(tokens, None, self.grammar, WHO)
            if size is not None and self.tokens.max() >= size:
                raise RequestError(
                    f"{WHO}: tokens hold id {self.tokens.max()}, and the grammar has ids 0 to {size - 1}"
                )
        pad = getattr(self.grammar, "pad", None)
        source: _Source
        if callable(patterns) and not hasattr(patterns, "shape"):
            source = _Called(patterns, self.tokens, pad, causal)
        elif self.tokens is None:
            raise RequestError(f"{WHO}: tokens=None: arrays are of inputs, so give their token ids [input, pos]")
        else:
            source = _Held(patterns, self.tokens, pad, causal)
        self.seeds = _seeds(seeds, source.shape[0])
        known = size if size is not None else MOST if isinstance(source, _Called) else int(source.tokens.max()) + 1
        self._models = [_Shown(source, at, self.grammar, known) for at in range(source.shape[0])]

    @property
    def own_inputs(self) -> Ints | None:
        """What analyzers measure on where no inputs are named: `tokens`."""
        return self.tokens

    def __len__(self) -> int:
        return len(self._models)

    def __getitem__(self, at: Any) -> Any:
        return self._models[at]

    def __repr__(self) -> str:
        models, layers, heads = self._models[0].source.shape
        inputs = "a function" if self.tokens is None else f"{len(self.tokens)} inputs of {self.tokens.shape[1]} tokens"
        return f"AttentionArrays of {models} model(s), {layers} layer(s), {heads} head(s), {inputs}"


class _Shown(NamedHooks):
    """One model of the arrays. `gives_logits`: it has none, so that no task can be asked of it."""

    gives_logits = False

    def __init__(self, source: "_Source", index: int, grammar: Any, size: int):
        super().__init__()
        self.source, self.index, self.grammar = source, index, grammar
        _, layers, heads = source.shape
        self.cfg: Any = SimpleNamespace(
            n_layers=layers, n_heads=heads, attention_dir="causal" if source.causal else "bidirectional", n_ctx=None,
            d_vocab=size, d_vocab_out=None, d_model=None, d_head=None, d_mlp=None, device=torch.device("cpu"),
            n_key_value_heads=None, attn_only=False, dtype=torch.float64,
        )  # fmt: skip
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.setup()
        self.eval()

    @property
    def own_inputs(self) -> Ints | None:
        """What it was measured on, where no other inputs are named."""
        return self.source.tokens if isinstance(self.source, _Held) else self.source.given

    def forward(self, tokens: Tensor, return_type: str | None = "logits", **_: Any) -> None:
        """No logits, which are asked for in vain; the patterns pass the hooks."""
        if return_type is not None:
            raise AnalysisError("arrays of attention hold patterns alone: there are no logits to read from them")
        for layer, pattern in enumerate(self.source.of(tokens.cpu().numpy(), self.index)):
            self.hook_dict[f"blocks.{layer}.attn.hook_pattern"](torch.from_numpy(pattern))


class _Source:
    """Where patterns are from. `shape`: (models, layers, heads)."""

    shape: tuple[int, int, int]
    causal: bool
    tokens: Ints
    given: Ints | None = None

    def of(self, tokens: Ints, index: int) -> list[NDArray[np.float64]]:
        """Patterns [input, head, query, key] of each layer of one model."""
        raise NotImplementedError


class _Held(_Source):
    def __init__(self, patterns: Any, tokens: Ints, pad: int | None, causal: bool | None):
        self.patterns, self.tokens, self.pad = _six(patterns), tokens, pad
        models, inputs, layers, heads, queries, _ = self.patterns.shape
        if (inputs, queries) != tokens.shape:
            raise PatternError(
                f"patterns of {inputs} inputs of {queries} positions, and tokens of shape {list(tokens.shape)}: "
                f"{AXES} and [input, pos] are needed"
            )
        self.shape = models, layers, heads
        later = _checked_all(self.patterns, tokens, pad)
        if later is not None and causal:
            raise PatternError(f"{later}, which is later: leave out causal=True")
        self.causal = later is None if causal is None else causal
        self._at: dict[bytes, int] = {}
        for i, row in enumerate(tokens):
            j = self._at.setdefault(self._key(row), i)
            if j != i and not np.array_equal(self.patterns[:, i], self.patterns[:, j]):
                raise PatternError(f"inputs {j} and {i} are the same tokens with other patterns: give each input once")

    def _key(self, row: Ints) -> bytes:
        """Of an input, whatever PAD is at its end."""
        kept = np.flatnonzero(row != self.pad) if self.pad is not None else np.arange(len(row))
        return np.ascontiguousarray(row[: int(kept[-1]) + 1 if len(kept) else 0], dtype=np.int64).tobytes()

    def of(self, tokens: Ints, index: int) -> list[NDArray[np.float64]]:
        width = tokens.shape[1]
        at = np.array([self._at.get(self._key(row), -1) for row in tokens])
        if (at < 0).any():
            told = f"{quoted(tokens[int((at < 0).argmax())].tolist())} is not among the {len(self.tokens)} inputs"
            raise RequestError(f"{told} that the arrays are of: leave out inputs=, or name some of those")
        if width > self.tokens.shape[1]:
            raise RequestError(f"inputs of {width} tokens, and the arrays are of {self.tokens.shape[1]}")
        mine = self.patterns[index, ..., :width, :width]
        return [_clean(mine[at, layer], tokens, self.pad) for layer in range(self.shape[1])]


class _Called(_Source):
    """A function of token ids; what it gave last is kept, since each model of one call is read in turn."""

    def __init__(self, run: Callable[[Any], Any], tokens: Ints | None, pad: int | None, causal: bool | None):
        self.run, self.given, self.pad = run, tokens, pad
        self.tokens = np.zeros((1, PROBE), dtype=np.int64) if tokens is None else tokens
        self._last: tuple[bytes, tuple[int, ...], Any] | None = None
        self.shape, self.causal = (0, 0, 0), False
        found, later = self._called(self.tokens[:1])
        self.shape, self.causal = (found.shape[0], *found.shape[2:4]), later is None if causal is None else causal
        if later is not None and causal:
            raise PatternError(f"{later}, which is later: leave out causal=True")

    def _called(self, tokens: Ints) -> tuple[NDArray[Any], str | None]:
        with guest_errors(WHO, self.run, f"fails on token ids of shape {list(tokens.shape)}", PatternError):
            given = self.run(tokens.copy())
        found = _six(given)
        fits = (found.shape[1], found.shape[4]) == tokens.shape
        if not fits or (self.shape[0] and (found.shape[0], *found.shape[2:4]) != self.shape):
            raise PatternError(
                f"the function gives patterns of shape {list(found.shape)} for tokens of shape {list(tokens.shape)}: "
                f"{AXES} is needed, of the same models, layers and heads at every call"
            )
        return found, _checked_all(found, tokens, self.pad)

    def of(self, tokens: Ints, index: int) -> list[NDArray[np.float64]]:
        key = np.ascontiguousarray(tokens).tobytes(), tokens.shape
        if self._last is None or self._last[:2] != key:
            found, later = self._called(tokens)
            if self.causal and later is not None:
                raise PatternError(f"{later}, which is later, and other patterns were causal: say causal=False")
            self._last = (*key, found)
        return [_clean(self._last[2][index, :, layer], tokens, self.pad) for layer in range(self.shape[1])]


# -- checks -------------------------------------------------------------------------------------------------


def _six(patterns: Any) -> NDArray[Any]:
    """Six axes, of 32 bits or more; nothing that is an array already is copied."""
    held = patterns.detach().cpu() if hasattr(patterns, "detach") else patterns
    if hasattr(held, "shape") and getattr(held, "dtype", None) in (
        torch.float32,
        torch.float64,
        np.float32,
        np.float64,
    ):
        found = np.asarray(held)
    else:
        found = real_array(held, "patterns", PatternError)
    found = found[None] if found.ndim == 5 else found
    if found.ndim != 6 or 0 in found.shape or found.shape[-1] != found.shape[-2]:
        raise PatternError(f"patterns of shape {list(found.shape)}: {AXES} is needed, queries as many as keys")
    return found


def _checked_all(patterns: NDArray[Any], tokens: Ints, pad: int | None) -> str | None:
    """Check every weight, a layer of a model at a time: where one is on a later key, in words, or None."""
    count, heads, width = patterns.shape[1], patterns.shape[3], patterns.shape[4]
    check_memory(f"patterns of {count} inputs", 24 * count * heads * width**2, "give fewer or shorter ones")
    later = None
    for model, layer in np.ndindex(patterns.shape[0], patterns.shape[2]):
        name = f"patterns of model {model}, layer {layer}, [input, head, query, key] "
        found = check_patterns(_clean(patterns[model, :, layer], tokens, pad), name)
        if later is None and (upper := np.triu(found, 1)).any():
            input_, head, query, key = np.argwhere(upper)[0].tolist()
            later = f"model {model}, layer {layer}, head {head}: in input {input_} query {query} attends to key {key}"
    return later


def _clean(patterns: NDArray[Any], tokens: Ints, pad: int | None) -> NDArray[np.float64]:
    """[input, head, query, key] as float64; a query that is PAD, which nobody asks, looks at itself."""
    found = np.asarray(patterns, dtype=np.float64)
    if pad is None or not (padding := tokens == pad).any():
        return found
    return np.where(padding[:, None, :, None], np.eye(tokens.shape[1]), found)


def _seeds(given: Any, count: int) -> tuple[int, ...]:
    if given is None:
        return tuple(range(count))
    listed = list(given) if isinstance(given, (list, tuple, range, np.ndarray)) else []
    if len(listed) != count:
        raise RequestError(f"{WHO}: seeds={quoted(given)} for {count} model(s): give a list of as many whole numbers")
    seeds = tuple(whole_number("seeds", one, 0, LONGEST_SEED) for one in listed)
    if len(set(seeds)) < count:
        raise RequestError(f"{WHO}: seeds={quoted(given)} name one twice: each model is of a seed of its own")
    return seeds
